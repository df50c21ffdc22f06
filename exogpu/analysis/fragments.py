"""Elements of register tiles: a thread accesses those alone that it holds."""

from __future__ import annotations

from collections.abc import Iterator
from functools import lru_cache

from exogpu.analysis.affine import constant
from exogpu.analysis.describe import thread_names
from exogpu.analysis.tiling import Tiling
from exogpu.analysis.uses import Declared, Use
from exogpu.hw.fragments import Fragment, fragment
from exogpu.ir.isltext import bexpr, conjunction, identifier, in_range, numbered
from exogpu.ir.nodes import (
    Access,
    Add,
    Alloc,
    Assign,
    BExpr,
    CExpr,
    Compare,
    DataParam,
    Int,
    Mod,
    Mul,
    Not,
    Point,
    Reduce,
)
from exogpu.ir.walk import control_variables, evaluate
from exogpu.result.errors import Diagnostic, Note
from exogpu.solvers import isl


def tile_of(declared: Alloc | DataParam) -> Fragment | None:
    """The map of a variable's register tiles; None where it has none."""
    rank = len(declared.memory.tile)
    if not rank:
        return None
    shape = [constant(n) for n in declared.shape[len(declared.shape) - rank :]]
    return fragment(declared.memory, declared.dtype, shape)


def is_element(access: Access, declared: Alloc | DataParam) -> bool:
    """Tests whether an access is of one element of a register tile, not of a whole one."""
    rank = len(declared.memory.tile)
    return bool(rank) and all(isinstance(c, Point) for c in access.coords[-rank:])


def is_scalar(use: Use) -> bool:
    """Tests whether a use is a scalar statement's: a thread accesses one element."""
    return isinstance(use.stmt, Assign | Reduce)


def held_by_its_thread(access: Access, found: Fragment, tiling: Tiling) -> BExpr:
    """The condition that the thread that executes a scope holds the element of its tile."""
    rank = len(found.shape)
    index = [c.at for c in access.coords[-rank:] if isinstance(c, Point)]
    thread: CExpr = Int(0)
    for axis in tiling.thread_map().axes:
        term = axis.offset if axis.pitch == 1 else Mul(axis.pitch, axis.offset)
        thread = term if thread == Int(0) else Add(thread, term)
    return Compare("==", Mod(thread, found.threads), found.thread(index))


def strangers(declared: Declared, alloc: Alloc) -> Iterator[Diagnostic]:
    """Accesses of elements by threads that do not hold them; at most one diagnostic."""
    for use in declared.uses:
        if not is_scalar(use) or not is_element(use.access, alloc):
            continue
        found = tile_of(alloc)
        if found is None:
            yield _unknown(use, alloc)
            return
        point = _stranger(use, found)
        if point is not None:
            yield _refused(use, alloc, found, point)
            return


def _stranger(use: Use, found: Fragment) -> dict[str, int] | None:
    """Values of the iterators around a use at which another thread holds the element."""
    where = use.where
    if where.tiling.threads != 1:
        return None  # a scalar statement at a larger scope is refused as such
    condition = held_by_its_thread(use.access, found, where.tiling)
    seen = set(control_variables(condition))
    texts: list[str] = []
    waiting = list(where.conditions)
    while chosen := [c for c in waiting if c[0] & seen]:
        waiting = [c for c in waiting if not c[0] & seen]
        for variables, text in chosen:
            texts.append(text)
            seen |= variables
    for r in where.tiling.ranges:
        if r.iterator in seen:
            texts.append(in_range(r.iterator, Int(r.lo), Int(r.lo + r.count)))
    names = sorted(identifier(s) for s in seen)
    wrong = conjunction([bexpr(Not(condition)), *texts])
    point = _smallest(len(names), numbered(names, wrong))
    return None if point is None else dict(zip(names, point, strict=True))


@lru_cache(maxsize=1024)
def _smallest(count: int, condition: str) -> tuple[int, ...] | None:
    """The smallest `v0, v1, ...` that satisfy a condition; kept, since many uses are alike."""
    found = isl.smallest(isl.set_of((), (f"v{at}" for at in range(count)), condition))
    return None if found is None else tuple(found.values())


def _refused(use: Use, alloc: Alloc, found: Fragment, point: dict[str, int]) -> Diagnostic:
    rank = len(found.shape)
    coords = [c.at for c in use.access.coords[-rank:] if isinstance(c, Point)]
    env = {
        s: point[identifier(s)]
        for c in coords
        for s in control_variables(c)
        if identifier(s) in point
    }
    index = [Int(evaluate(c, env)) for c in coords]
    holder = evaluate(found.thread(index), {})
    unit = f"{found.threads} threads" if found.threads > 32 else "warp"
    shown = ", ".join(str(n.value) for n in index)
    return Diagnostic(
        "D518",
        f"element [{shown}] of a tile of {alloc.name} is held by "
        f"{thread_names([holder], found.threads, 1)} of its {unit}, and another accesses it",
        use.span,
        f"loop over the tile: for m, n in fragment({alloc.name}[...]), and index it by m and n",
        (Note("allocated here", alloc.span),),
    )


def _unknown(use: Use, alloc: Alloc) -> Diagnostic:
    return Diagnostic(
        "D518",
        f"{alloc.name} has no known fragment: who holds an element of {alloc.memory.name} with "
        f"elements of {alloc.dtype.value} is not known",
        use.span,
        "access it by instructions",
        (Note("allocated here", alloc.span),),
    )
