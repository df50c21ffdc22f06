"""Reading `b = load_index(offsets[g], lo, hi)`: a control value from memory; contracts on arrays.

b = load_index(offsets[g], lo, hi)   ->   for b in load_index(offsets[g], lo, hi):    # once
x[b] = 0.0                                    x[b] = 0.0

The rest of the block is the body: what has been read keeps its value there.
"""

from __future__ import annotations

import ast
from collections.abc import Callable, Sequence
from typing import Final, Literal

from exogpu.diagnostics.errors import Note
from exogpu.frontend.control import control, integer
from exogpu.frontend.data import access
from exogpu.frontend.scope import Broken, Context, Control, Data, Meaning, Reject
from exogpu.ir import nodes as ir
from exogpu.ir.affine import from_cexpr
from exogpu.ir.types import INDICES, Space, Sym

WORD: Final = "load_index"

CONTRACTS: Final[tuple[Literal["monotone", "injective"], ...]] = ("monotone", "injective")


_WHERE: Final = "write b = load_index(offsets[g], lo, hi), and use b in the rest of the block"


def is_load(node: ast.stmt, ctx: Context) -> bool:
    """Tests whether a statement names a value from memory."""
    match node:
        case ast.Assign(value=ast.Call(func=ast.Name(id=name))):
            return name == WORD and WORD not in ctx.python_names() and ctx.lookup(WORD) is None
        case _:
            return False


def load(node: ast.stmt, rest: Callable[[], ir.Block], ctx: Context) -> ir.For:
    """The binding of a value from memory, around the rest of the block."""
    assert isinstance(node, ast.Assign) and isinstance(node.value, ast.Call)
    call = node.value
    match node.targets:
        case [ast.Name(id=name)]:
            pass
        case _:
            raise ctx.reject("T251", f"{WORD} gives one control value a name", node, _WHERE)
    if ctx.instruction or not ctx.in_task:
        what = f"{ast.unparse(call)} stands outside a device task"
        remedy = "move it into the innermost cuda_tasks loop; CPU code has index arguments"
        raise ctx.reject("T251", what, node, remedy)
    if len(call.args) != 3 or call.keywords:
        what = f"{WORD} takes an element and its range, lo and hi"
        raise ctx.reject("T251", what, call, _WHERE)
    if ctx.lookup(name) is not None:
        what = f"{name} has a meaning already"
        raise ctx.reject("T251", what, node, "give the value from memory a name of its own")
    source, meaning = access(call.args[0], ctx)
    if not isinstance(meaning, Data) or meaning.window is not None:
        raise ctx.reject("T251", f"{meaning.name} is no array of indices", call, _WHERE)
    declared = Note("declared here", meaning.span)
    if not all(isinstance(coord, ir.Point) for coord in source.coords):
        what = f"{ast.unparse(call.args[0])} is a window, not one element"
        remedy = f"load one element: {meaning.name}[{', '.join('i' * len(source.coords))}]"
        raise ctx.reject("T251", what, call.args[0], remedy, declared)
    if meaning.memory.space is not Space.GLOBAL or meaning.dtype not in INDICES:
        what = f"{meaning.name} is {meaning.dtype.value} @ {meaning.memory.name}"
        remedy = "load from a parameter of i32 or i64 @ CudaGmemLinear"
        raise ctx.reject("T251", what, call.args[0], remedy, declared)
    lo, hi = control(call.args[1], ctx), control(call.args[2], ctx)
    extent = from_cexpr(ir.Sub(hi, lo), {}, {})
    if not extent.terms and extent.constant <= 0:
        between = f"{ast.unparse(call.args[1])} <= {name} < {ast.unparse(call.args[2])}"
        what = f"no value is in the range of {name}, {between}: the kernel traps here"
        raise ctx.reject("T251", what, node, "give the range that its values are in, lo < hi")
    iterator = Sym(name)
    with ctx.scope():
        ctx.declare(name, Control(iterator))
        body = rest()
    return ir.For(iterator, lo, hi, ir.Loaded(source), body, span=ctx.source.span(node))


def contract(
    node: ast.expr, ctx: Context, before: Sequence[ir.BExpr | ir.Contract] = ()
) -> ir.Contract | None:
    """`monotone(offsets)` or `injective(perm)` of a precondition; None of another condition."""
    match node:
        case ast.Call(func=ast.Name(id=name)) if name in CONTRACTS and ctx.lookup(name) is None:
            pass
        case _:
            return None
    kind = next(one for one in CONTRACTS if one == name)
    if ctx.instruction:
        what = f"{ast.unparse(node)} is a contract, and instructions have none"
        raise ctx.reject("T252", what, node, "state it in the procedure that has the array")
    found, least = _argument_meaning(node, ctx)
    if isinstance(found, Broken):
        raise Reject(None)
    ranks = (1,) if kind == "monotone" else (1, 2, 3, 4)
    if not isinstance(found, Data) or found.dtype not in INDICES or len(found.shape) not in ranks:
        what = f"{ast.unparse(node)} is no contract"
        notes: tuple[Note, ...] = ()
        if isinstance(found, Data):
            rank = len(found.shape)
            what += f": {found.name} is {found.dtype.value} of {rank} dimension{'s' * (rank != 1)}"
            notes = (Note("declared here", found.span),)
        raise ctx.reject(
            "T252",
            what,
            node,
            f"name a parameter of i32 or i64 with one dimension: assert {kind}(offsets), or "
            f"assert {kind}(offsets, where >= 0), where offsets: i32[n] @ CudaGmemLinear",
            *notes,
        )
    if found.memory.space is not Space.GLOBAL:
        raise ctx.reject(
            "T252",
            f"{found.name} is in {found.memory.name}, and no kernel loads its indices",
            node,
            "declare it @ CudaGmemLinear",
            Note("declared here", found.span),
        )
    made = ir.Contract(kind, found.name, least, ctx.source.span(node))
    for one in before:
        if isinstance(one, ir.Contract) and one.array == found.name and one.least != least:
            what, note = f"{ast.unparse(node)} is about other elements", Note("than", one.span)
            raise ctx.reject("T252", what, node, "state both of the same elements", note)
        if isinstance(one, ir.Contract) and (one.kind, one.array) == (kind, found.name):
            what, note = f"{ast.unparse(node)} is stated twice", Note("stated here", one.span)
            raise ctx.reject("T252", what, node, "leave one of them out", note)
    return made


def _argument_meaning(node: ast.Call, ctx: Context) -> tuple[Meaning | None, int | None]:
    """Returns the meaning of its array, and the least element that it is about."""
    match node.args, node.keywords:
        case [ast.Name(id=name)], []:
            return ctx.lookup(name), None
        case [ast.Name(id=name), ast.Compare(ast.Name("where"), [op], [bound])], [] if isinstance(
            op, ast.Gt | ast.GtE
        ) and ctx.is_python(bound):
            return ctx.lookup(name), integer(bound, ctx) + isinstance(op, ast.Gt)
        case _:
            return None, None
