"""Tensor maps are of whole arrays: TMA clips where the array ends, and knows of no window.

`x_map = x[0:n, :] @ Sm90_tensorMap(...)`, or a procedure that makes a map and is called with
`x[0:n, :]`, would read and overwrite rows of x from n on, which the sequential reading does not.
"""

from __future__ import annotations

from collections.abc import Iterator, Mapping, Sequence
from itertools import combinations

from exogpu.diagnostics.errors import Diagnostic
from exogpu.frontend.quote import quote
from exogpu.ir import nodes as ir
from exogpu.ir.affine import difference
from exogpu.ir.types import Sym
from exogpu.ir.walk import walk

REMEDY = (
    "give the procedure the whole array, make the map of all of it, and let the windows of the "
    "copies begin where the part does"
)


def check(proc: ir.Proc) -> Iterator[Diagnostic]:
    """The maps of an inlined procedure that are of a part of an array (S333)."""
    declared = _declared(proc)
    for stmt in walk(proc.body):
        if not isinstance(stmt, ir.CallInstr):
            continue
        for param, argument in zip(stmt.instr.params, stmt.arguments, strict=True):
            if not isinstance(param, ir.DataParam) or not isinstance(argument, ir.Access):
                continue
            if param.operand is None or not param.operand.clipped:
                continue
            shape = declared[argument.name].shape
            for window in argument.through:
                if not is_whole(window, argument, shape):
                    yield _window_diagnostic(argument, window, shape)
                    break


def is_whole(window: ir.Through, access: ir.Access, shape: Sequence[ir.CExpr]) -> bool:
    """Tests whether outside the window is outside the array: in each dimension of the window, it
    begins and ends where the array does."""
    return any(
        all(
            _same_coordinate(access.coords[d], coord) and _equal(shape[d], extent)
            for d, coord, extent in zip(dimensions, window.coords, window.extents, strict=True)
        )
        for dimensions in combinations(range(len(shape)), len(window.coords))
    )


def _same_coordinate(one: ir.Coord, other: ir.Coord) -> bool:
    match one, other:
        case ir.Point(), ir.Point():
            return _equal(one.at, other.at)
        case ir.Interval(), ir.Interval():
            return _equal(one.lo, other.lo) and _equal(one.hi, other.hi)
        case _:
            return False


def _equal(one: ir.CExpr, other: ir.CExpr) -> bool:
    return one == other or difference(one, other) == 0


def _declared(proc: ir.Proc) -> Mapping[Sym, ir.DataParam | ir.Alloc | ir.BarrierAlloc]:
    params = {p.name: p for p in proc.params if isinstance(p, ir.DataParam)}
    inside = {s.name: s for s in walk(proc.body) if isinstance(s, ir.Alloc | ir.BarrierAlloc)}
    return params | inside


def _window_diagnostic(
    access: ir.Access, window: ir.Through, shape: Sequence[ir.CExpr]
) -> Diagnostic:
    part, whole = (", ".join(map(quote, extents)) for extents in (window.extents, shape))
    message = (
        f"this tensor map is of a window [{part}] of {access.name.name}[{whole}]: TMA reads and "
        "writes on to where the array ends"
    )
    return Diagnostic("S333", message, access.span, REMEDY)
