"""Calls whose operands have elements in common, which steps of the procedure called leave out.

A procedure is rewritten as one whose parameters are arrays apart.  Where a call gives it windows
of one variable that overlap, of which it writes one, what was derived from it may do another thing.
"""

from __future__ import annotations

from collections.abc import Iterator, Mapping
from itertools import combinations

from exogpu.analysis.instances import never
from exogpu.analysis.overlap import common
from exogpu.ir.isltext import conjunction
from exogpu.ir.names import Sym
from exogpu.ir.nodes import CallProc, Proc
from exogpu.schedule.events import Program
from exogpu.schedule.opening import program


def sharing(new: Program, called: Mapping[CallProc, Proc]) -> Iterator[tuple[CallProc, str]]:
    """Such calls, of those in whose place another procedure is read, and what they share."""
    for call in new.calls:
        if not isinstance(call.stmt, CallProc) or call.stmt not in called:
            continue
        written = _written(call.stmt.proc) | _written(called[call.stmt])
        for (one, first), (other, second) in combinations(call.operands.items(), 2):
            if first.name is not second.name or not written & {one, other}:
                continue
            shape = new.variables[first.name].shape
            domain, _, both = common(call.domain, shape, first, second)
            if not never(domain, [conjunction(both)]):
                shared = f"{one.name} and {other.name} have elements of {first.name.name} in common"
                yield call.stmt, f"{shared}, and the steps between the procedures took them apart"


def _written(proc: Proc) -> frozenset[Sym]:
    """The variables that a procedure writes, parameters by their names."""
    events = (event for place in program(proc, "W").places for event in place.events)
    return frozenset(event.access.name for event in events if event.writes)
