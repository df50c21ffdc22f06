"""Elements of register tiles as C++ text: which of a thread's registers each is.

The map of the tile says it of any element; a statement's indices are put in and the thread drops
out, since the thread holds the element.  What is left is constant once the loops are unrolled.
"""

from __future__ import annotations

from collections.abc import Iterator

from exogpu.codegen.errors import unsupported
from exogpu.codegen.expressions import Control, plus, times
from exogpu.ir.affine import Affine, Floor, Range, from_cexpr, mentions
from exogpu.ir.names import Sym
from exogpu.ir.nodes import Access, CExpr, CVar, FloorDiv, Int, Mod
from exogpu.ir.walk import control_variables


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

