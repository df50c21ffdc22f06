"""Stores of two neighbours in memory as one, which a loop from 0 to 2 writes one after the other.

Loops over fragments have such a loop innermost: a lane holds two adjacent columns of each eight.
The two are one store if their address is a multiple of both together for all sizes, and if each
condition around them holds for both or for none.
"""

from __future__ import annotations

from collections.abc import Mapping

from exogpu.analysis.domain import conjuncts
from exogpu.codegen.control_text import Control
from exogpu.codegen.register_indices import index_form, ranges_of
from exogpu.codegen.storage import Storage
from exogpu.ir import nodes as ir
from exogpu.ir.affine import Affine, mentions
from exogpu.ir.types import Space, Sym
from exogpu.ir.walk import reads


def even_sizes(proc: ir.Proc) -> frozenset[Sym]:
    """The sizes that a precondition makes even: `assert N % 8 == 0`."""
    found: set[Sym] = set()
    for precondition in proc.preconditions:
        for part in conjuncts(precondition):
            match part:
                case ir.Compare("==", ir.Mod(ir.CVar(name), divisor), ir.Int(rest)):
                    if divisor % 2 == 0 and rest % 2 == 0:
                        found.add(name)
                case _:
                    pass
    return frozenset(found)


def stored_pair(loop: ir.For, storage: Mapping[Sym, Storage], control: Control) -> ir.Assign | None:
    """The statement of a loop that writes two neighbours, which one store can write."""
    if (loop.lo, loop.hi) != (ir.Int(0), ir.Int(2)) or not isinstance(loop.mode, ir.Seq):
        return None
    if loop.mode.unroll:
        return None  # it shall not be written out
    body = loop.body
    while len(body) == 1 and isinstance(branch := body[0], ir.If):
        parts = tuple(conjuncts(branch.condition))
        if branch.orelse or not all(_is_of_both(c, loop.iterator, control) for c in parts):
            return None
        body = branch.body
    match body:
        case (ir.Assign() as stmt,) if _are_neighbours(stmt, loop.iterator, storage, control):
            return stmt
        case _:
            return None


def _is_of_both(condition: ir.BExpr, iterator: Sym, control: Control) -> bool:
    """Tests whether a condition holds for both values of an iterator or for none.

    Of an even number n, `n + i < 0` says the same of i = 0 and of i = 1.
    """
    match condition:
        case ir.Truth():
            return True
        case ir.Not():
            return _is_of_both(condition.term, iterator, control)
        case ir.And() | ir.Or():
            sides = (condition.left, condition.right)
            return all(_is_of_both(side, iterator, control) for side in sides)
        case ir.Compare():
            pass
    form = index_form(ir.Sub(condition.left, condition.right), ranges_of(control))
    if not mentions(form, [iterator]):
        return True
    rest = _other_terms(form, iterator, 1 if condition.op in ("<", ">=") else -1)
    return condition.op not in ("==", "!=") and rest is not None and _is_even(rest, control)


def _other_terms(form: Affine, iterator: Sym, factor: int) -> Affine | None:
    """A form less so many times the iterator; None where it depends on it in another way."""
    rest = Affine(form.constant, tuple(term for term in form.terms if term != (iterator, factor)))
    return None if rest == form or mentions(rest, [iterator]) else rest


def _is_even(form: Affine, control: Control) -> bool:
    """Tests whether a form is even for all sizes and iterators, judged from its terms."""
    return form.constant % 2 == 0 and all(
        factor % 2 == 0 or atom in control.even for atom, factor in form.terms
    )


def _are_neighbours(
    stmt: ir.Assign, iterator: Sym, storage: Mapping[Sym, Storage], control: Control
) -> bool:
    """Tests whether a statement writes neighbours in memory, the first at a multiple of both, and
    does not read what it writes."""
    target = stmt.target
    variable = storage[target.name]
    if variable.space not in (Space.GLOBAL, Space.SHARED) or variable.of_cluster:
        return False
    if not variable.kept or any(access.name == target.name for access in reads(stmt.value)):
        return False
    ranges = ranges_of(control)
    indices = [c.at if isinstance(c, ir.Point) else c.lo for c in target.coords]
    *outer, last = (index_form(indices[d], ranges) for d in variable.kept)
    first = _other_terms(last, iterator, 1)
    if first is None or not _is_even(first, control) or any(mentions(o, [iterator]) for o in outer):
        return False
    extent = index_form(variable.shape[variable.kept[-1]], ranges)
    return not outer or _is_even(extent, control)
