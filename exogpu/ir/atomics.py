"""Operations of instructions on atomic operands: one operation each, of which any order gives the
same.

Adds can be exchanged among themselves, and so can maxima; an add and a maximum cannot (decision
`atomic-operations`).
"""

from __future__ import annotations

from typing import Literal, TypeAlias

from exogpu.ir.names import Sym
from exogpu.ir.nodes import Apply, Assign, Block, DExpr, Read, Reduce, Stmt
from exogpu.ir.walk import accesses, reads, walk

Operation: TypeAlias = Literal["add", "max", "min"]


def operation(body: Block, name: Sym) -> Operation | None:
    """The one operation of all statements of a body that access the operand; None: there is none.

    `x[...] += e` adds, and `x[...] = max(x[...], e)` is a maximum, where e does not read x.
    """
    found = {_of_statement(stmt, name) for stmt in walk(body) if _concerns(stmt, name)}
    return found.pop() if len(found) == 1 else None


def _concerns(stmt: Stmt, name: Sym) -> bool:
    return any(access.name == name for access in accesses(stmt))


def _of_statement(stmt: Stmt, name: Sym) -> Operation | None:
    match stmt:
        case Reduce() if stmt.target.name == name and not _read(stmt.value, name):
            return "add"
        case Assign(value=Apply(function=("max" | "min") as function, arguments=(old, new))):
            if stmt.target.name != name or _read(new, name):
                return None
            return function if isinstance(old, Read) and old.access == stmt.target else None
        case _:
            return None


def _read(value: DExpr, name: Sym) -> bool:
    return any(access.name == name for access in reads(value))
