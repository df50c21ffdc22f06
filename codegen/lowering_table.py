"""`python -m exogpu.codegen.lowering_table`: writes docs/lowering.md from `rows`."""

from __future__ import annotations

import sys
from collections import defaultdict
from pathlib import Path

from exogpu.codegen.instructions import helper_text, note_helpers
from exogpu.codegen.rows import ROWS, Row, Scope
from exogpu.codegen.sync import fence_rows, waits_for_loads
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
the accesses execute the first two, and the barrier then joins them with all that come after.

The barrier, by scope:
"""

_PAIRS = """\
Before the barrier, by the two timelines (policy ptx; pairs that differ in nothing are together):
"""

_REST = """\
## Every row

Under each row: the mechanism, the scope, the timelines; the text; the helper functions it calls.
"""


def document() -> str:
    """The text of docs/lowering.md."""
    parts = [_HEAD, _FENCES, *_barriers(), "", _PAIRS, *_pairs(), "", _REST]
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
    for pre in SYNC_TIMELINES.values():
        for post in SYNC_TIMELINES.values():
            if _stands_in_kernels(pre) and _stands_in_kernels(post):
                together[_before_barrier(pre, post)][pre.name].append(post.name)
    lines = ["| first timeline | second timeline | before the barrier |", "| --- | --- | --- |"]
    for emitted, by_pre in together.items():
        groups: dict[tuple[str, ...], list[str]] = defaultdict(list)
        for pre_name, posts in by_pre.items():
            groups[tuple(posts)].append(pre_name)
        for names, pres in groups.items():
            lines.append(f"| {', '.join(pres)} | {', '.join(names)} | {emitted} |")
    return lines


def _stands_in_kernels(timeline: SyncTL) -> bool:
    return timeline.name not in ("cpu_in_order", "cuda_stream_sync")


def _before_barrier(pre: SyncTL, post: SyncTL) -> str:
    if waits_for_loads(pre):
        return "refused (G803): no instruction waits for all TMA loads"
    rows = fence_rows(pre, post, Scope.THREAD, by_role=False)
    if rows == ["wgmma fence"]:
        return "wgmma fence, and no barrier"
    return ", ".join(row for row in rows if row != "fence thread") or "nothing"


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
