"""Reading `for m, n in fragment(D)`: every thread's elements of a register tile."""

from __future__ import annotations

import ast
from collections.abc import Callable, Mapping
from dataclasses import dataclass, replace

from exogpu.diagnostics.errors import Note
from exogpu.frontend.data import access
from exogpu.frontend.scope import Context, Data, Formula
from exogpu.hw.register_tiles import Fragment, Held, fragment
from exogpu.hw.units import cuda_thread, cuda_warp
from exogpu.ir import nodes as ir
from exogpu.ir.types import CollUnit, DataMemory, Sym

HEAD = "fragment"
"""The name of the loop."""

COPIES = 4
"""Lanes that hold the elements of one row of an accumulator: each has a copy of its value."""


@dataclass(frozen=True, slots=True)
class _Tile:
    """The tile that a loop goes over."""

    memory: DataMemory
    map: Fragment


def fragment_loop(node: ast.For, body: Callable[[], ir.Block], ctx: Context) -> ir.For:
    """`for m, n in fragment(D[...])`: loops over the threads that hold the tile, a digit each, in
    them loops over the registers of each; m and n are what the map of the tile says."""
    assert isinstance(node.iter, ast.Call)
    if ctx.instruction or not ctx.in_task:
        raise ctx.reject(
            "S310",
            "a loop over a fragment stands outside a device task",
            node.iter,
            "put it where the warp or warpgroup of the tile executes it",
        )
    tile = _tile(node.iter, ctx)
    span = ctx.source.span(node)
    names = _names(node, tile, ctx)
    called = (*names, "copy")
    digits = {
        one: Sym(f"{called[one.dimension]}{one.place}")
        for one in (*tile.map.holders, *tile.map.register_digits)
    }
    index = tile.map.index({one: ir.CVar(name) for one, name in digits.items()})
    outside, ctx.copy = ctx.copy, _copy(tile.map, digits)
    try:
        with ctx.scope():
            for name, value in zip(names, index, strict=False):
                ctx.declare(name, Formula(value))
            inside = body()
    finally:
        ctx.copy = outside
    made: ir.Block = inside
    for one, iterator in reversed(digits.items()):
        mode = ir.CudaThreads(_threads(one.digit.stride)) if one.digit.of_thread else ir.Seq()
        (*_, outermost) = made = (
            ir.For(iterator, ir.Int(0), ir.Int(one.digit.extent), mode, made),
        )
    return replace(outermost, span=span)


def _threads(count: int) -> CollUnit:
    """So many adjacent threads."""
    whole, rest = divmod(count, 32)
    if rest:
        return count * cuda_thread if count > 1 else cuda_thread
    return whole * cuda_warp if whole > 1 else cuda_warp


def _copy(found: Fragment, digits: Mapping[Held, Sym]) -> ir.CExpr:
    """Returns the thread's lane in its quad: the last digits of its number."""
    total: ir.CExpr = ir.Int(0)
    for one in found.holders:
        if one.digit.stride < COPIES:
            name, stride = ir.CVar(digits[one]), one.digit.stride
            term: ir.CExpr = name if stride == 1 else ir.Mul(stride, name)
            total = term if total == ir.Int(0) else ir.Add(total, term)
    return total


def _tile(head: ast.Call, ctx: Context) -> _Tile:
    if len(head.args) != 1 or head.keywords:
        raise ctx.reject(
            "P120", "fragment takes a register tile", head, "write for m, n in fragment(D)"
        )
    window, meaning = access(head.args[0], ctx)
    rank = len(meaning.memory.tile) if isinstance(meaning, Data) else 0
    if not isinstance(meaning, Data) or not rank:
        raise ctx.reject(
            "T248",
            f"{meaning.name} is not a register tile",
            head,
            "a fragment is of a tile of mma or wgmma; loop over other arrays with seq",
            Note("declared here", meaning.span),
        )
    extents = meaning.shape[len(meaning.shape) - rank :]
    points, tile = window.coords[:-rank], window.coords[-rank:]
    if any(isinstance(c, ir.Interval) for c in points) or not all(map(_is_whole, tile, extents)):
        raise ctx.reject(
            "T248",
            f"{ast.unparse(head.args[0])} is not one whole register tile",
            head,
            f"write {meaning.name}[..., {', '.join(':' * rank)}], with an index for each of the "
            "dimensions in front",
            Note("declared here", meaning.span),
        )
    shape = [n.value if isinstance(n, ir.Int) else None for n in extents]
    found = fragment(meaning.memory, meaning.dtype, shape)
    if found is None:
        raise ctx.reject(
            "T248",
            f"no fragment is known of {meaning.memory.name} with elements of {meaning.dtype.value}",
            head,
            "declare the tile in the shape and type that its instructions take",
            Note("declared here", meaning.span),
        )
    return _Tile(meaning.memory, found)


def _is_whole(coord: object, extent: ir.CExpr) -> bool:
    return isinstance(coord, ir.Interval) and coord.lo == ir.Int(0) and coord.hi == extent


def _names(node: ast.For, tile: _Tile, ctx: Context) -> list[str]:
    """The names of the indices; of a tile of rows, the copy needs none."""
    match node.target:
        case ast.Name(id=name):
            names = [name]
        case ast.Tuple(elts=parts) if all(isinstance(p, ast.Name) for p in parts):
            names = [p.id for p in parts if isinstance(p, ast.Name)]
        case _:
            names = []
    rank = len(tile.memory.tile)
    least = rank - 1 if tile.memory.layout == "rows" else rank
    if node.orelse or not least <= len(names) <= rank or len(set(names)) < len(names):
        raise ctx.reject(
            "P116",
            f"a loop over this fragment has {least} iterators and no else",
            node,
            "write for m, n in fragment(D), or for m in fragment(rows)",
        )
    return names
