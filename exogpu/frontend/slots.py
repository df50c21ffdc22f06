"""Reading `slot(b)`: an index of shared or global memory that counts the Arrives on an mbarrier.

x[slot(full), t] = e   ->   for s in slot(full):    # one iteration
                                x[s, t] = e
"""

from __future__ import annotations

import ast
from collections.abc import Callable
from typing import Final

from exogpu.frontend.scope import Barrier, Broken, Context, Data, Reject
from exogpu.ir.names import Sym
from exogpu.ir.nodes import (
    Alloc,
    Arrive,
    Await,
    BarrierAlloc,
    Block,
    CExpr,
    CVar,
    Fence,
    For,
    Int,
    Slot,
    Stmt,
    WindowStmt,
)
from exogpu.ir.types import BarrierMechanism, Space
from exogpu.ir.walk import walk
from exogpu.result.errors import Note

WORD: Final = "slot"

_WHERE: Final = (
    "write it as a whole index of shared or global memory, x[slot(full), ...], in the statement "
    "that reads or writes x"
)


def is_slot(node: ast.AST, ctx: Context) -> bool:
    """Whether an expression is a `slot(...)` of the language."""
    match node:
        case ast.Call(func=ast.Name(id=name)):
            return name == WORD and WORD not in ctx.python_names() and ctx.lookup(WORD) is None
        case _:
            return False


def misplaced(node: ast.AST, ctx: Context, where: str) -> Reject:
    """The refusal of a slot that stands elsewhere."""
    return ctx.reject("T250", f"{ast.unparse(node)} stands {where}", node, _WHERE)


def slot_index(node: ast.Call, extent: CExpr, of: Data | Barrier, ctx: Context) -> CExpr:
    """The iterator that stands for `slot(b)` as an index of a dimension of this extent."""
    if isinstance(of, Barrier):
        raise misplaced(node, ctx, f"in an index of the barrier {of.name}")
    if ctx.slots is None or ctx.instruction or not ctx.in_task:
        raise misplaced(node, ctx, "outside a statement of a device task")
    if of.memory.space not in (Space.SHARED, Space.GLOBAL) or of.window is not None:
        raise misplaced(node, ctx, f"in an index of {of.name}, which is in {of.memory.name}")
    if node.keywords or len(node.args) != 1 or not isinstance(node.args[0], ast.Name):
        raise ctx.reject(
            "T250", f"{WORD} takes one barrier variable", node, "name the variable: slot(full)"
        )
    name = node.args[0].id
    match ctx.lookup(name):
        case Barrier() as barrier if barrier.mechanism is BarrierMechanism.MBARRIER:
            pass
        case Broken():
            raise Reject(None)
        case _:
            what = f"{name} is no barrier @ CudaMbarrier"
            raise ctx.reject("T250", what, node.args[0], "name an mbarrier variable, all of it")
    if not isinstance(extent, Int) or extent.value < 1:
        raise ctx.reject(
            "T250",
            f"the dimension of {of.name} that {ast.unparse(node)} indexes has no constant extent",
            node,
            "a ring has a constant number of slots",
            Note("declared here", of.span),
        )
    key = (barrier.name, extent.value)
    if key not in ctx.slots:
        ctx.slots[key] = Sym(f"{WORD}_{name}")
    return CVar(ctx.slots[key], ctx.source.span(node))


def with_slots(node: ast.stmt, ctx: Context, read: Callable[[], Block]) -> Block:
    """The statements that one of the source becomes, in the bindings of the slots in it."""
    around, ctx.slots = ctx.slots, {}
    try:
        made, slots = read(), ctx.slots
    finally:
        ctx.slots = around
    if slots:
        _fits(made, node, ctx)
    for (barrier, ring), name in slots.items():
        span = ctx.source.span(node)
        made = (For(name, Int(0), Int(ring), Slot(barrier), made, span=span),)
    return made


def binds_slot(stmt: Stmt) -> bool:
    """Whether a statement is what a slot in another one makes of it."""
    return isinstance(stmt, For) and isinstance(stmt.mode, Slot)


def _fits(made: Block, node: ast.stmt, ctx: Context) -> None:
    """A slot is counted where its statement begins: nothing is counted inside, and nothing is left
    of it afterwards."""
    if any(isinstance(stmt, WindowStmt) for stmt in made) and isinstance(node, ast.Assign):
        raise misplaced(node.value, ctx, "in a window that has a name")
    if any(isinstance(s, Arrive | Await | Fence | Alloc | BarrierAlloc) for s in walk(made)):
        raise misplaced(
            node, ctx, "in an argument of a macro that allocates or synchronises, with a slot"
        )
