"""Values from memory are functions of the array and the element alone (decision `loaded-values`).

So what `load_index` reads is a parameter, and no statement of the procedure writes it: not in the
launch, and not in one that it may overlap or that comes before.  Nor does one write what a contract
is on: it would hold before that alone.
"""

from __future__ import annotations

from collections.abc import Iterator

from exogpu.ir.names import Sym
from exogpu.ir.nodes import Assign, CallInstr, DataParam, For, Loaded, Proc, Reduce, Stmt
from exogpu.ir.walk import passed, walk
from exogpu.result.errors import Diagnostic, Note


def check(proc: Proc) -> Iterator[Diagnostic]:
    """The loads from arrays that change, in a procedure without windows and calls of procedures."""
    writers = {name: stmt for stmt in walk(proc.body) for name in _written(stmt)}
    params = {p.name for p in proc.params if isinstance(p, DataParam)}
    for one in proc.contracts:
        if one.array in writers:
            what = f"{one.kind}({one.array}) is assumed of what this procedure writes"
            note = Note("written here", writers[one.array].span)
            yield Diagnostic("S332", what, one.span, "leave out the contract", (note,))
    for stmt in walk(proc.body):
        if not isinstance(stmt, For) or not isinstance(stmt.mode, Loaded):
            continue
        name = stmt.mode.source.name
        remedy = f"compute {name} in a procedure that is called before this one"
        if name not in params:
            what = f"{name} is allocated by this procedure, and has no contents but what it writes"
            yield Diagnostic("S332", what, stmt.span, remedy)
        elif name in writers:
            what = f"{stmt.iterator} is loaded from {name}, which this procedure writes"
            note = Note("written here", writers[name].span)
            yield Diagnostic("S332", what, stmt.span, remedy, (note,))


def _written(stmt: Stmt) -> Iterator[Sym]:
    match stmt:
        case Assign() | Reduce():
            yield stmt.target.name
        case CallInstr():
            yield from (one.access.name for one in passed(stmt) if one.written)
        case _:
            return
