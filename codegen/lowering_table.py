"""`python -m exogpu.codegen.lowering_table`: writes docs/lowering.md from `rows`."""

from __future__ import annotations

import sys
from collections import defaultdict
from collections.abc import Iterable
from pathlib import Path

from exogpu.codegen.claims import KERNEL, all_claims, open_claims
from exogpu.codegen.guarantees import KINDS, Kind
from exogpu.codegen.instructions import helper_text, note_helpers
from exogpu.codegen.row import Row, Scope
from exogpu.codegen.rows import ROWS
from exogpu.codegen.sync import fence_rows, unkept
from exogpu.hw.timelines import SYNC_TIMELINES
from exogpu.ir.types import SyncTL

DOCUMENT = Path(__file__).resolve().parent.parent / "docs" / "lowering.md"

_HEAD = """\
# Lowering of synchronisation

Made by `python -m exogpu.codegen.lowering_table` from the table that code generation uses
(`exogpu/codegen/rows.py`); a test compares the two.  Fields in braces are filled in where a row
is emitted.  Sections are those of the PTX ISA.
"""

_FENCES = """\
## What a Fence emits

A Fence from one timeline to another emits, in this order: what completes the asynchronous
operations of its first side, a proxy fence where the generic proxy's accesses must be seen by the
async proxy, and the cheapest barrier that joins the threads of its scope.  The threads that made
the accesses execute the first two, and the barrier then joins them with all that come after.  A
wgmma fence follows where wgmma may use registers next that ordinary code has used.

The barrier, by scope:
"""

_PAIRS = """\
Beside the barrier, by the two timelines (policy ptx; pairs that differ in nothing are together):
"""

_CLAIMS = """\
## What is claimed, and what keeps it

The abstract machine takes for granted that a synchronisation orders accesses before its first side
before those after its second.  `exogpu/codegen/claims.py` lists every such claim, for each
mechanism, each scope, each pair of timelines and each two kinds of access that can meet at one
location, from the tables that the machine itself uses, and holds it against what PTX guarantees of
the rows that are emitted (`exogpu/codegen/guarantees.py`).  A test compares the list with the
literal rules.  The cells name the rows without which a claim of the two would be open; an empty
one says that nothing is claimed by such a mechanism, or that the hardware keeps the order itself.
"""

_DESCRIPTORS = """\
## Matrices in shared memory

wgmma is told of a matrix by 64 bits (matrix descriptor): where it starts, a leading and a stride
byte offset, each in units of 16 bytes, and the swizzle.  Below, `T[m, k]` is in rows of k, and by
columns `T[b, k, n]` has a block b for each `row / item` columns; `row` is the bytes of one swizzle,
128, 64 or 32, and `item` those of an element.

| operand | byte, before the exchange | stride |
| --- | --- | --- |
| K-major | `m / 8 * stride + m % 8 * row + k * item` | `8 * row` |
| by columns | `b * leading + n * item + k / 8 * stride + k % 8 * row` | `8 * row` |

Address bits are exchanged last: the units of 16 bytes in a row, by the number of the row of 128
bytes, as TMA does; eight rows repeat, which is where a matrix starts (base offset 0).  The leading
offset is the distance of two blocks; of a K-major matrix it is not used, since a row has all k of
one product.  The next product along k starts `k * item` bytes further in the same row, or 16 rows
further.  Of 16-bit types a flag of the instruction says which of both it is (imm-trans-b), others
are K-major.  The emulator reads each element at the address that this table gives of the emitted
descriptor (`campaigns/emulator/cuda.hpp`, `place`).
"""

_LOADED = """\
## Values from memory

    b = load_index(offsets[g], lo, hi)   ->   const int b = checked_index(offsets[g], lo, hi, 12);

Every thread that executes the statement loads the element and compares it, so that no thread waits
for another one's value: all of them have the same, since nothing writes the array.  It is a load of
the read-only path, an array that no launch of the procedure writes being `const __restrict__`.  The
value is an `int`; a range that does not fit one is refused by the launch, as sizes are.

Outside of its range the kernel ends, before the value is used.  Why it does not go on:

- with a value of the range in the place of the other, what the proof has of it would be wrong: two
  loads of one element could differ, and an array that is injective would no longer be;
- a thread that returned would leave others waiting for its arrivals, and a word that all threads
  look at would cost a barrier at each load.

`trap` needs no call.  `assert`, or a print, is a call, at which ptxas lets no wgmma be under way:
it makes each wait for the one before (C7510), in a kernel that never fails.  After a trap nothing
of the device can be read, and the error, CUDA_ERROR_LAUNCH_FAILED, names nothing.  So the first
thread that finds such a value leaves it, its range and its line in the host's memory, which stays;
the others wait for the end.  `Kernel.wrong_index` has the sentence, and a call that meets the error
has it: `line 12: b = load_index(offsets[g], 0, M): 70000 is not one of 0 .. 9`.  As after a failed
`assert`, the process must make a new context.  Called from C, the kernel ends in the same way, and
the error is all that is told.

What a proof assumes of an array is not looked at by a launch: it is a property of all elements.
`Kernel.check_contracts`, with the arguments of a call, and `<name>_check_contracts` in C copy the
arrays to the CPU and name the first elements that break a contract.  An array that does breaks the
proof: threads may then write the same element, and bounds hold as far as they follow from ranges.
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
