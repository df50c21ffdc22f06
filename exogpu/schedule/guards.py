"""Guards in one form, `value >= 0`, and nests of loops and guards."""

from __future__ import annotations

from collections.abc import Mapping
from dataclasses import dataclass
from typing import Literal

from exogpu.ir.names import Sym
from exogpu.ir.nodes import And, BExpr, Block, CExpr, Compare, For, If, Int, Pass, Stmt
from exogpu.ir.walk import substitute
from exogpu.schedule.control import minus


@dataclass(frozen=True, slots=True)
class Guard:
    """`value >= 0`, `value == 0` or `value != 0`."""

    value: CExpr
    op: Literal[">=", "==", "!="]


def guards_of(condition: BExpr, values: Mapping[Sym, CExpr]) -> list[Guard] | None:
    """The guards that a condition joins by `and`, iterators replaced; None for other forms."""
    match condition:
        case And():
            left = guards_of(condition.left, values)
            right = guards_of(condition.right, values)
            return None if left is None or right is None else [*left, *right]
        case Compare():
            one, other = (substitute(e, values) for e in (condition.left, condition.right))
            above, below = minus(one, other), minus(other, one)
            match condition.op:
                case "<":
                    return [Guard(minus(below, Int(1)), ">=")]
                case "<=":
                    return [Guard(below, ">=")]
                case ">":
                    return [Guard(minus(above, Int(1)), ">=")]
                case ">=":
                    return [Guard(above, ">=")]
                case "==" | "!=" as op:
                    return [Guard(above, op)]
        case _:
            return None


@dataclass(frozen=True, slots=True)
class Nest:
    """Loops and guards around one another, and the statements that they are around."""

    loops: tuple[For, ...]
    guards: tuple[If, ...]
    inner: Block


def nest_of(stmt: Stmt) -> Nest:
    """A statement as a nest; guards with an `else` are statements of their own."""
    loops: list[For] = []
    guards: list[If] = []
    inner: Block = (stmt,)
    while len(inner) == 1:
        match inner[0]:
            case For() as loop:
                loops.append(loop)
            case If(orelse=()) as guard:
                guards.append(guard)
            case _:
                break
        inner = real(inner[0].body)
    return Nest(tuple(loops), tuple(guards), inner)


def real(block: Block) -> Block:
    """The statements that are no `pass`."""
    return tuple(stmt for stmt in block if not isinstance(stmt, Pass))
