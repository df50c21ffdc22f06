"""Reading `slot(b)`: an index of shared or global memory that counts the Arrives on an mbarrier.

x[slot(full), t] = e   ->   for s in slot(full):    # one iteration
                                x[s, t] = e
"""

from __future__ import annotations

import ast
from collections.abc import Callable
from typing import Final

from exogpu.diagnostics.errors import Note
from exogpu.frontend.control import integer
from exogpu.frontend.scope import Barrier, Broken, Context, Control, Data, Reject
from exogpu.ir import nodes as ir
from exogpu.ir.types import BarrierMechanism, Space, Sym
from exogpu.ir.walk import walk

WORD: Final = "slot"

_WHERE: Final = (
    "write it as a whole index of shared or global memory, x[slot(full), ...], in the statement "
    "that reads or writes x"
)


def is_slot(node: ast.AST, ctx: Context) -> bool:
    """Tests whether an expression is a `slot(...)` of the language."""
    match node:
        case ast.Call(func=ast.Name(id=name)):
            return name == WORD and WORD not in ctx.python_names() and ctx.lookup(WORD) is None
        case _:
            return False


def misplaced(node: ast.AST, ctx: Context, where: str) -> Reject:
    """The refusal of a slot that stands elsewhere."""
    return ctx.reject("T250", f"{ast.unparse(node)} stands {where}", node, _WHERE)


def slot_index(node: ast.Call, extent: ir.CExpr, of: Data | Barrier, ctx: Context) -> ir.CExpr:
    """The iterator that stands for `slot(b)` as an index of a dimension of this extent."""
    if isinstance(of, Barrier):
        raise misplaced(node, ctx, f"in an index of the barrier {of.name}")
    if ctx.slots is None or ctx.instruction or not ctx.in_task:
        raise misplaced(node, ctx, "outside a statement of a device task")
    if of.memory.space not in (Space.SHARED, Space.GLOBAL) or of.window is not None:
        raise misplaced(node, ctx, f"in an index of {of.name}, which is in {of.memory.name}")
    if node.keywords or len(node.args) != 1:
        raise ctx.reject(
            "T250", f"{WORD} takes one barrier variable", node, "name the variable: slot(full)"
        )
    barrier = _mbarrier(node.args[0], ctx)
    if not isinstance(extent, ir.Int) or extent.value < 1:
        raise ctx.reject(
            "T250",
            f"the dimension of {of.name} that {ast.unparse(node)} indexes has no constant extent",
            node,
            "a ring has a constant number of slots",
            Note("declared here", of.span),
        )
    key = (barrier.name, extent.value)
    if key not in ctx.slots:
        ctx.slots[key] = Sym(f"{WORD}_{barrier.name.name}")
    return ir.CVar(ctx.slots[key], ctx.source.span(node))


def with_slots(node: ast.stmt, ctx: Context, read: Callable[[], ir.Block]) -> ir.Block:
    """The statements that one of the source becomes, in the bindings of the slots in it."""
    around, ctx.slots = ctx.slots, {}
    try:
        made, slots = read(), ctx.slots
    finally:
        ctx.slots = around
    if slots:
        _check_counting(made, node, ctx)
    for (barrier, ring), name in slots.items():
        span = ctx.source.span(node)
        made = (ir.For(name, ir.Int(0), ir.Int(ring), ir.Slot(barrier), made, span=span),)
        ctx.reading.dissolved[node] -= 1  # one statement more has its place
    return made


def slot_loop(node: ast.For, body: Callable[[], ir.Block], ctx: Context) -> ir.For | None:
    """`for s in slot(b, n)`: what `slot(b)` as an index stands for, of several statements."""
    call = node.iter
    if not isinstance(call, ast.Call) or not is_slot(call, ctx):
        return None
    if len(call.args) != 2 or not isinstance(node.target, ast.Name) or not ctx.in_task:
        raise misplaced(call, ctx, "in a loop that binds none: that is for s in slot(full, 4)")
    barrier, ring = _mbarrier(call.args[0], ctx), integer(call.args[1], ctx)
    if ring < 1:
        raise ctx.reject("T250", f"a ring of {ring} slots", call.args[1], "use 1 or more")
    iterator = Sym(node.target.id)
    with ctx.scope():
        ctx.declare(node.target.id, Control(iterator))
        inside = body()
    _check_counting(inside, node, ctx)
    return ir.For(
        iterator, ir.Int(0), ir.Int(ring), ir.Slot(barrier.name), inside, span=ctx.source.span(node)
    )


def _mbarrier(node: ast.expr, ctx: Context) -> Barrier:
    """An mbarrier variable, all of it."""
    found = ctx.lookup(node.id) if isinstance(node, ast.Name) else None
    if isinstance(found, Broken):
        raise Reject(None)
    if not isinstance(found, Barrier) or found.mechanism is not BarrierMechanism.MBARRIER:
        what = f"{ast.unparse(node)} is no barrier @ CudaMbarrier"
        raise ctx.reject("T250", what, node, "name an mbarrier variable, all of it: slot(full)")
    return found


def _check_counting(made: ir.Block, node: ast.stmt, ctx: Context) -> None:
    """A slot is counted where its statement begins: nothing is counted inside, and nothing is left
    of it afterwards."""
    if any(isinstance(stmt, ir.WindowStmt) for stmt in made) and isinstance(node, ast.Assign):
        raise misplaced(node.value, ctx, "in a window that has a name")
    if any(
        isinstance(s, ir.Arrive | ir.Await | ir.Fence | ir.Alloc | ir.BarrierAlloc)
        for s in walk(made)
    ):
        if isinstance(node, ast.For) and is_slot(node.iter, ctx):
            raise ctx.reject(
                "T250",
                f"the statements that share {ast.unparse(node.iter)} allocate or synchronise",
                node.iter,
                "put accesses and calls of instructions alone in the loop",
            )
        raise misplaced(
            node, ctx, "in an argument of a macro that allocates or synchronises, with a slot"
        )
