"""Short sequential loops: which are unrolled, and which store two neighbours at once."""

from __future__ import annotations

from collections.abc import Iterator, Mapping

from exogpu.analysis.domain import conjuncts
from exogpu.codegen.control_text import Control
from exogpu.codegen.names import Lines
from exogpu.codegen.register_indices import index_form, ranges_of
from exogpu.codegen.storage import Storage
from exogpu.ir import nodes as ir
from exogpu.ir.affine import Affine, mentions
from exogpu.ir.types import Space, Sym
from exogpu.ir.walk import accesses, control_variables, reads, walk

UNROLL_LIMIT = 16
"""Loops of at most this many iterations are unrolled; those that index registers always are."""
UNROLLED_STATEMENTS = 256
"""The iterations of a loop that is unrolled have at most this many statements together."""


def unrolling(stmt: ir.For, lo: ir.CExpr, hi: ir.CExpr, storage: Mapping[Sym, Storage]) -> Lines:
    """Returns the pragma of a loop: as it was asked for, or all iterations if these are few."""
    assert isinstance(stmt.mode, ir.Seq)
    match stmt.mode.unroll:
        case None:
            return ["#pragma unroll"] if _is_unrolled(stmt, lo, hi, storage) else []
        case 0:
            return ["#pragma unroll"]
        case count:
            return [f"#pragma unroll {count}"]


def _is_unrolled(stmt: ir.For, lo: ir.CExpr, hi: ir.CExpr, storage: Mapping[Sym, Storage]) -> bool:
    if not (isinstance(lo, ir.Int) and isinstance(hi, ir.Int)):
        return False
    count, inside = hi.value - lo.value, tuple(walk(stmt.body))
    short = count <= UNROLL_LIMIT and count * len(inside) <= UNROLLED_STATEMENTS
    if short and not any(isinstance(one, ir.Fence | ir.Arrive | ir.Await) for one in inside):
        return True
    return any(
        stmt.iterator in control_variables(index)
        for inner in walk(stmt.body)
        for index in _register_indices(inner, storage)
    )


def _register_indices(stmt: ir.Stmt, storage: Mapping[Sym, Storage]) -> Iterator[ir.CExpr]:
    """Yields the expressions that choose the registers of a statement: indices, and, beside a tile,
    the operands that choose an instruction's part."""
    used = [a for a in accesses(stmt) if a.name in storage]
    held = [a for a in used if storage[a.name].space is Space.REGISTER]
    for access in held:
        for coord in access.coords:
            yield coord.at if isinstance(coord, ir.Point) else coord.lo
    if isinstance(stmt, ir.CallInstr) and any(storage[a.name].tile_rank for a in held):
        for argument in stmt.arguments:
            if not isinstance(argument, ir.Access | ir.Const):
                yield argument


# Stores of two neighbours in memory as one, which a loop from 0 to 2 writes one after the other.
#
# Loops over fragments have such a loop innermost: a lane holds two adjacent columns of each eight.
# The two are one store if their address is a multiple of both together for all sizes, and if each
# condition around them holds for both or for none.


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
