"""Elements of register tiles as C++ text: which of a thread's registers each is.

The map of the tile says it of any element; a statement's indices are put in and the thread drops
out, since the thread holds the element.  What is left is constant once the loops are unrolled.
"""

from __future__ import annotations

from collections.abc import Iterator, Mapping

from exogpu.codegen.errors import unsupported
from exogpu.codegen.expressions import Control, plus, simplify, times
from exogpu.codegen.storage import Storage
from exogpu.ir.affine import Affine, Floor, Range, from_cexpr, mentions
from exogpu.ir.names import Sym
from exogpu.ir.nodes import (
    Access,
    Assign,
    CExpr,
    CVar,
    FloorDiv,
    For,
    Int,
    Mod,
    Point,
    Seq,
    Stmt,
)
from exogpu.ir.walk import accesses, control_variables, walk


def without_thread(index: CExpr, access: Access, control: Control) -> CExpr:
    """An index of registers without the iterators over threads that stand in it.

    Raises ExoGpuError (G802) where it depends on them: registers are not indexed by the thread.
    """
    read = control_variables(index)
    if read.isdisjoint(control.threads):
        return index
    ranges = dict(_ranges(control))
    form = from_cexpr(index, {}, ranges)
    if mentions(form, control.threads):
        raise unsupported(
            f"which register {access.name} is in is not told without the thread",
            access.span,
            "index the tile by the iterators of its fragment",
            "G802",
        )
    return _expression(form)


def _ranges(control: Control) -> Iterator[tuple[Sym, Range]]:
    """The iterators that go from one constant to another."""
    for name, (first, last) in control.bounds.items():
        if isinstance(first, Int) and isinstance(last, Int):
            yield name, Range(first.value, last.value)


def _expression(form: Affine) -> CExpr:
    """A quasi-affine form as an expression."""
    total: CExpr = Int(0)
    for atom, coefficient in form.terms:
        if isinstance(atom, Sym):
            term: CExpr = CVar(atom)
        elif isinstance(atom, Floor):
            term = FloorDiv(_expression(atom.form), atom.divisor)
        else:
            term = Mod(_expression(atom.form), atom.divisor)
        total = plus(total, times(coefficient, term))
    return plus(total, Int(form.constant))


def pairs(loop: For, storage: Mapping[Sym, Storage], control: Control) -> frozenset[Stmt]:
    """The statements of a loop that write the two elements of each of some registers, and what they
    write is not read in the loop."""
    if loop.lo != Int(0) or loop.hi != Int(2) or not isinstance(loop.mode, Seq):
        return frozenset()
    found: set[Stmt] = set()
    for stmt in loop.body:
        if not isinstance(stmt, Assign) or not storage[stmt.target.name].packed:
            continue
        variable = storage[stmt.target.name]
        touched = [a for inner in walk(loop.body) for a in accesses(inner)]
        alone = sum(a.name == stmt.target.name for a in touched) == 1
        if alone and _halves(loop.iterator, stmt.target, variable, control):
            found.add(stmt)
    return frozenset(found)


def _halves(iterator: Sym, target: Access, variable: Storage, control: Control) -> bool:
    """Tests whether 0 and 1 of an iterator are the two elements of a register, the same one of the
    same tile."""
    assert variable.held is not None, "what has no fragment has no elements"
    indices = [c.at if isinstance(c, Point) else c.lo for c in target.coords]
    inside = len(indices) - variable.tile_rank
    number = variable.held.register(indices[inside:])
    ranges = dict(_ranges(control))
    half, *others = (
        from_cexpr(simplify(index, control.constants), {}, ranges)
        for index in (Mod(number, 2), FloorDiv(number, 2), *indices[:inside])
    )
    return half == Affine(0, ((iterator, 1),)) and not any(mentions(o, [iterator]) for o in others)
