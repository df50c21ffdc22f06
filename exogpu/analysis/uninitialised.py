"""Finds the elements that a call surely overwrites, of operands that it writes and does not read.

The figure's T_arg forgets all earlier writes of the window.  An instruction that writes what its
guards let it leaves the other elements as they were: whoever reads one reads an earlier write.
"""

from __future__ import annotations

from collections.abc import Mapping, Sequence
from dataclasses import dataclass

from exogpu.analysis.quantifiers import Each, Side, fold_condition, for_each, parts
from exogpu.analysis.requirements import (
    accesses_of_parameter,
    compose,
    control_values,
    covers,
    indices_of,
)
from exogpu.ir import nodes as ir
from exogpu.ir.types import Sym
from exogpu.ir.walk import substitute, substitute_bool


@dataclass(frozen=True, slots=True)
class Overwritten:
    """Elements that are overwritten: of the loops' iterations in which the guards hold."""

    each: tuple[Each, ...]
    guards: tuple[ir.BExpr, ...]
    access: ir.Access


def overwritten_elements(
    call: ir.CallInstr, param: ir.DataParam, argument: ir.Access
) -> tuple[Overwritten, ...] | None:
    """The elements of an operand that is written and not read; None where they are all of it."""
    values = control_values(call.instr.params, call.arguments)
    shape = tuple(substitute(size, values) for size in param.shape)
    found = []
    for each, guards, access in accesses_of_parameter(call.instr.body, param.name, (), ()):
        names = {one.name: Sym(one.name.name) for one in each}
        renamed = {**values, **_variables(names)}
        loops = tuple(
            Each(names[e.name], substitute(e.lo, renamed), substitute(e.hi, renamed)) for e in each
        )
        left = tuple(
            g for g in (substitute_bool(g, renamed) for g in guards) if not _holds(g, loops)
        )
        indices = tuple(substitute(i, renamed) for i in indices_of(access))
        if not left and covers(loops, indices, shape):
            return None
        points = tuple(ir.Point(at) for at in compose(argument.coords, indices))
        found.append(Overwritten(loops, left, ir.Access(argument.name, points, span=argument.span)))
    return tuple(found)


def _variables(names: Mapping[Sym, Sym]) -> dict[Sym, ir.CExpr]:
    return {old: ir.CVar(new) for old, new in names.items()}


def _holds(guard: ir.BExpr, each: Sequence[Each]) -> bool:
    """Tests whether a condition is simple enough to be seen to hold in all iterations."""
    sides = []
    for part in parts(fold_condition(guard)):
        match part:
            case ir.Compare("<", left, right):
                sides.append(Side(left, right))
            case ir.Compare("<=", left, right):
                sides.append(Side(left, ir.Add(right, ir.Int(1))))
            case _:
                return False
    return for_each(each, (), sides) == ir.Truth(True)
