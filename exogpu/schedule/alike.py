"""Whether two statements differ in what they access and in nothing else."""

from __future__ import annotations

from exogpu.ir.nodes import (
    Access,
    Apply,
    Assign,
    BinOp,
    CallInstr,
    Const,
    DExpr,
    Negate,
    Read,
    Reduce,
    Stmt,
)


def is_alike(old: Stmt, new: Stmt) -> bool:
    """Whether two statements differ in what they access and in nothing else."""
    match old, new:
        case Assign(), Assign():
            return _same(old.value, new.value)
        case Reduce(), Reduce():
            return _same(old.value, new.value)
        case CallInstr(), CallInstr():
            kinds = [(type(a), type(b)) for a, b in zip(old.arguments, new.arguments, strict=False)]
            windows = all(a is b for a, b in kinds if Access in (a, b) or Const in (a, b))
            return old.instr is new.instr and len(old.arguments) == len(new.arguments) and windows
        case _:
            return False


def _same(old: DExpr, new: DExpr) -> bool:
    match old, new:
        case Const(), Const():
            return type(old.value) is type(new.value) and old.value == new.value
        case Read(), Read():
            return True
        case BinOp(), BinOp():
            sides = _same(old.left, new.left) and _same(old.right, new.right)
            return old.op == new.op and sides
        case Negate(), Negate():
            return _same(old.term, new.term)
        case Apply(), Apply():
            same = old.function == new.function and len(old.arguments) == len(new.arguments)
            return same and all(map(_same, old.arguments, new.arguments))
        case _:
            return False
