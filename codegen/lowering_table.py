"""`python -m exogpu.codegen.lowering_table`: writes docs/lowering.md from `rows`."""

from __future__ import annotations

import sys
from collections import defaultdict
from collections.abc import Iterable
from pathlib import Path

from exogpu.codegen.arrival_rows import Row, Scope
from exogpu.codegen.claims import KERNEL, all_claims, open_claims
from exogpu.codegen.guarantees import KINDS, Kind
from exogpu.codegen.instruction_text import helper_text, note_helpers
from exogpu.codegen.lowering_rows import ROWS
from exogpu.codegen.sync import fence_rows, unkept
from exogpu.hw.timelines import SYNC_TIMELINES
from exogpu.ir.types import SyncTL

DOCUMENT = Path(__file__).resolve().parent.parent / "docs" / "lowering.md"

_HEAD = """\
# Lowering of synchronisation

Made by `python -m exogpu.codegen.lowering_table` from the table that code generation uses
(`exogpu.codegen.lowering_rows`); a test compares the two.  Fields in braces are filled in where a
row is emitted.  Sections are those of the PTX ISA.
"""

_FENCES = """\
## What a Fence emits

A Fence from one timeline to another emits, in this order:

1. instructions that complete the asynchronous operations of its first side;
2. a proxy fence, where the async proxy must see accesses of the generic proxy;
3. the cheapest barrier that joins the threads of its scope;
4. a wgmma fence, where wgmma may next use registers that ordinary code has used.

The threads that made the accesses execute the first two.

The barrier, by scope:
"""

_PAIRS = """\
Beside the barrier, by the two timelines (policy ptx; pairs that differ in nothing are together):
"""

_CLAIMS = """\
## What is claimed, and what keeps it

The abstract machine assumes that a synchronisation orders accesses on its first side before
accesses on its second.  `exogpu.codegen.claims` lists every such claim: for each mechanism, scope,
pair of timelines, and pair of kinds of access that can meet at one location.  It reads the tables
that the machine itself uses.  `exogpu.codegen.guarantees` says what PTX guarantees of the emitted
rows, and each claim is compared with it.  A test compares the list with the literal rules.

A cell names the rows without which a claim would be open.  An empty cell says that such a mechanism
claims nothing, or that the hardware keeps the order itself.
"""

_DESCRIPTORS = """\
## Matrices in shared memory

A matrix descriptor of 64 bits tells wgmma where a matrix starts, a leading and a stride byte
offset, and the swizzle.  Offsets are in units of 16 bytes.  Below, `T[m, k]` is in rows of k.  By
columns, `T[b, k, n]` has a block b for each `row / item` columns.  `row` is the bytes of one
swizzle (128, 64 or 32), `item` the bytes of an element.

| operand | byte, before the exchange | stride |
| --- | --- | --- |
| K-major | `m / 8 * stride + m % 8 * row + k * item` | `8 * row` |
| by columns | `b * leading + n * item + k / 8 * stride + k % 8 * row` | `8 * row` |

Address bits are exchanged last, as TMA does: the units of 16 bytes in a row, by the number of the
row of 128 bytes.  The pattern repeats after eight rows, where a matrix starts (base offset 0).  The
leading offset is the distance of two blocks.  A K-major matrix does not use it: a row has all k of
one product.  The next product along k starts `k * item` bytes further in the same row, or 16 rows
further.  For 16-bit types a flag of the instruction selects the layout (imm-trans-b); others are
K-major.  The emulator reads each element at the address that this table gives of the emitted
descriptor (`campaigns/emulator/cuda.hpp`, `place`).
"""

_LOADED = """\
## Values from memory

    b = load_index(offsets[g], lo, hi)   ->   const int b = checked_index(offsets[g], lo, hi, 12);

Every thread that executes the statement loads the element and compares it.  Nothing writes the
array, so all threads have the same value and none waits for another.  An array that no launch of
the procedure writes is `const __restrict__`, so the load takes the read-only path.  The value is an
`int`; the launch refuses a range that does not fit one.

Outside of its range the kernel traps before the value is used.  It cannot go on:

- Another value from the range would break the proof: two loads of one element could differ, and an
  injective array would no longer be injective.
- A thread that returned would leave others waiting for its arrivals.

`trap` needs no call.  At a call, such as `assert`, ptxas lets no wgmma be under way: each waits for
the one before (C7510).  After a trap the device cannot be read, and CUDA_ERROR_LAUNCH_FAILED names
nothing.  So the first thread with such a value leaves it, its range and its line in host memory.
`Kernel.wrong_index` and the error of the call have the sentence:
`line 12: b = load_index(offsets[g], 0, M): 70000 is not one of 0 .. 9`.  As after a failed
`assert`, the process must make a new context.  A kernel called from C reports the error alone.

A launch does not look at contracts, which are properties of all elements.
`Kernel.check_contracts`, with the arguments of a call, and `<name>_check_contracts` in C copy the
arrays to the CPU and name the first elements that break a contract.  An array that breaks one
breaks the proof: threads may then write the same element.  Bounds still hold as far as they follow
from ranges.
"""

_REST = """\
## Every row

Under each row: the mechanism, the scope, the timelines; the text; the helper functions it calls.
"""


def document() -> str:
    """The text of docs/lowering.md."""
    parts = [
        _HEAD,
        _FENCES,
        *_barriers(),
        "",
        _PAIRS,
        *_pairs(),
        "",
        _CLAIMS,
        *_claims(),
        "",
        _DESCRIPTORS,
        _LOADED,
        _REST,
    ]
    for name, row in ROWS.items():
        parts += _row(name, row)
    return "\n".join(parts).rstrip() + "\n"


def _barriers() -> list[str]:
    generic = SYNC_TIMELINES["cuda_in_order"]
    lines = ["| scope | one path | a path for each role |", "| --- | --- | --- |"]
    for scope in Scope:
        cells = [fence_rows(generic, generic, scope, by_role=role)[-1] for role in (False, True)]
        lines.append(f"| {scope.value} | {cells[0]} | {cells[1]} |")
    return lines


def _pairs() -> list[str]:
    together: dict[str, dict[str, list[str]]] = defaultdict(lambda: defaultdict(list))
    for pre in KERNEL:
        for post in KERNEL:
            together[_around_barrier(pre, post)][pre.name].append(post.name)
    lines = ["| first timeline | second timeline | beside the barrier |", "| --- | --- | --- |"]
    for emitted, by_pre in together.items():
        groups: dict[tuple[str, ...], list[str]] = defaultdict(list)
        for pre_name, posts in by_pre.items():
            groups[tuple(posts)].append(pre_name)
        for names, pres in groups.items():
            lines.append(f"| {', '.join(pres)} | {', '.join(names)} | {emitted} |")
    return lines


def _around_barrier(pre: SyncTL, post: SyncTL) -> str:
    reason = unkept(pre, post)
    if reason is not None:
        return f"refused (G803): its {reason.what}"
    rows = fence_rows(pre, post, Scope.THREAD, by_role=False)
    if rows == ["wgmma fence"]:
        return "wgmma fence, and no barrier"
    at = rows.index("fence thread")
    before, after = ", ".join(rows[:at]), ", ".join(rows[at + 1 :])
    return ", ".join([before] * bool(before) + [f"{after} after it"] * bool(after)) or "nothing"


def _claims() -> list[str]:
    found = all_claims()
    count = len({claim.sequence for claim in found})
    still = len(open_claims(found))
    lines = [
        f"{len(found)} claims of {count} sequences of rows; {still} that nothing guarantees.",
        "",
        "| first access | later access | Fence | Arrive and Await | flag | group | load | launch |",
        "| --- | --- | --- | --- | --- | --- | --- | --- |",
    ]
    kept: dict[tuple[Kind, Kind], dict[str, dict[str, None]]] = {}
    for claim in found:
        cells = kept.setdefault((claim.before, claim.after), defaultdict(dict))
        for row in claim.kept_by:
            cells[_mechanism(claim.sequence.rows)][row.split(" of ")[0]] = None
    for first in KINDS:
        for later in KINDS:
            if (first, later) in kept:
                cells = kept[first, later]
                texts = [", ".join(_plain(cells[m])) for m in _COLUMNS]
                lines.append(f"| {first.name} | {later.name} | {' | '.join(texts)} |")
    return lines


_COLUMNS = ("fence", "arrive", "flag", "group", "load", "launch")


def _mechanism(rows: tuple[str, ...]) -> str:
    if any(row.startswith("await launch") for row in rows):
        return "launch"
    if "trailing load" in rows:
        return "load"
    if "await flag" in rows:
        return "flag"
    if any(row.startswith("await ") for row in rows):
        grouped = any(
            row.startswith(("await cp.async", "await bulk", "await wgmma")) for row in rows
        )
        return "group" if grouped else "arrive"
    return "fence"


def _plain(rows: Iterable[str]) -> list[str]:
    """Rows by their names, all barriers by one."""
    names = [
        "barrier" if row.startswith("fence ") else "wait" if row.startswith("await ") else row
        for row in rows
        if not row.startswith(("arrive ", "trailing "))
    ]
    return list(dict.fromkeys(names))


def _row(name: str, row: Row) -> list[str]:
    facts = " · ".join(part for part in (row.mechanism, row.scope, row.timelines) if part)
    lines = [f"### {name}", "", facts, ""]
    helpers: list[str] = []
    note_helpers(row.text, helpers)
    code = "\n".join([row.text or "// nothing", *(helper_text(h).rstrip() for h in helpers)])
    lines += ["```cuda", *code.splitlines(), "```", "", f"{row.why}  ({row.section}.)", ""]
    return lines


def main() -> int:
    """Write the document."""
    DOCUMENT.write_text(document())
    return 0


if __name__ == "__main__":
    sys.exit(main())
