"""A program with what its text says: sites, the loops of each allocation, tasks, least sizes."""

from __future__ import annotations

from collections.abc import Mapping
from dataclasses import dataclass
from fractions import Fraction
from math import lcm
from typing import Final, assert_never

from exogpu.amir import nodes as amir
from exogpu.amir.export import unique_names
from exogpu.amir.slot_privacy import PrivateSlotError, check_private_slots
from exogpu.amir.walk import operations
from exogpu.diagnostics.errors import Span
from exogpu.ir import nodes as ir
from exogpu.ir.types import Level, Sym
from exogpu.ir.walk import control_variables, holds
from exogpu.symbolic.flatten import sites
from exogpu.symbolic.sites import Site, UndecidedError, one_cluster, variables_of
from exogpu.symbolic.tasks_by_position import ResidentError, positions

# Decides whether a condition on one size excludes all sizes that are small enough.
#
# A quasi-affine expression of one variable is a slope times the variable and a periodic rest of
# bounded size: far enough below 0 each comparison has one truth a residue class.

LONGEST: Final = 1 << 16
"""Residue classes that are looked at; a condition with more is said to exclude nothing."""


@dataclass(frozen=True, slots=True)
class _Shape:
    """`slope * x + rest`, where the rest has the period and is at most so large."""

    slope: Fraction
    most: Fraction
    period: int


def bounded_below(condition: ir.BExpr, size: Sym) -> bool:
    """Tests whether the condition, of this size alone, fails for all values that are small
    enough."""
    start, period = _far(condition)
    if period > LONGEST:
        return False
    return not any(holds(condition, {size: -start - at}) for at in range(period))


def _far(condition: ir.BExpr) -> tuple[int, int]:
    """Returns the distance below 0 from which the truth is periodic, and its period."""
    match condition:
        case ir.Truth():
            return 0, 1
        case ir.Compare():
            left, right = _shape(condition.left), _shape(condition.right)
            slope = abs(left.slope - right.slope)
            period = lcm(left.period, right.period)
            if slope == 0:
                return 0, period
            return int((left.most + right.most) / slope) + 1, period
        case ir.And() | ir.Or():
            (one, first), (other, second) = _far(condition.left), _far(condition.right)
            return max(one, other), lcm(first, second)
        case ir.Not():
            return _far(condition.term)
        case _:
            assert_never(condition)


def _shape(expr: ir.CExpr) -> _Shape:
    match expr:
        case ir.Int():
            return _Shape(Fraction(0), Fraction(abs(expr.value)), 1)
        case ir.CVar():
            return _Shape(Fraction(1), Fraction(0), 1)
        case ir.Add() | ir.Sub():
            left, right = _shape(expr.left), _shape(expr.right)
            sign = 1 if isinstance(expr, ir.Add) else -1
            slope = left.slope + sign * right.slope
            return _Shape(slope, left.most + right.most, lcm(left.period, right.period))
        case ir.Mul():
            term = _shape(expr.term)
            most = abs(expr.factor) * term.most
            return _Shape(expr.factor * term.slope, most, term.period)
        case ir.FloorDiv():
            term = _shape(expr.term)
            most = term.most / expr.divisor + 1
            return _Shape(term.slope / expr.divisor, most, term.period * expr.divisor)
        case ir.Mod():
            term = _shape(expr.term)
            return _Shape(Fraction(0), Fraction(expr.divisor), term.period * expr.divisor)
        case _:
            assert_never(expr)


class Placed:
    """The program and where its operations stand."""

    def __init__(self, program: amir.Program) -> None:
        try:
            check_private_slots(program)
            self.by_position = positions(program)
        except (PrivateSlotError, ResidentError) as reason:
            raise UndecidedError(reason.reason, reason.span) from None
        names = unique_names(program)
        self.program = program = self.by_position.program
        """By positions, where memory resides from task to task."""
        self.sites = sites(self.by_position)
        self.variables: Mapping[Sym, amir.Variable] = {v.name: v for v in program.variables}
        self.called: Mapping[Sym, str] = unique_names(program, names)
        """The one name of each parameter, variable and iterator, as in the program's JSON."""
        self.scopes = self._find_scopes()
        loops = {s.op: s for s in self.sites if isinstance(s.op, amir.Loop)}
        self.slots = {loop: site for loop, site in loops.items() if loop.slot is not None}
        """By loop that binds a slot, the place where it counts."""
        self.loads = {loop: site for loop, site in loops.items() if loop.source is not None}
        """By loop that binds a value from memory, the place where it is loaded."""
        sources: dict[ir.Access | None, int] = {}
        self.loaded: Mapping[amir.Loop, int] = {
            loop: sources.setdefault(loop.source, len(sources)) for loop in self.loads
        }
        """By loop that binds a value from memory, the number of its element: those that are written
        alike have one."""
        self.uses: Mapping[Sym, tuple[Site, ...]] = self._find_uses()
        """Where each variable is used, allocated or released."""
        self.barriers = tuple(
            v.name for v in program.variables if v.mechanism is not None and self.uses[v.name]
        )
        """The barriers that are used."""
        self._least: dict[Sym, int] = {}
        self._numbered: dict[Sym, bool] = {}

    def _find_uses(self) -> dict[Sym, tuple[Site, ...]]:
        found: dict[Sym, list[Site]] = {name: [] for name in self.variables}
        for site in self.sites:
            for name in dict.fromkeys(variables_of(site.op)):
                found[name].append(site)
        return {name: tuple(several) for name, several in found.items()}

    def least(self, size: Sym) -> int:
        """The least value of a size, preconditions aside: 0 where one of them admits it, else 1
        (decision `empty-loops`)."""
        if size not in self._least:
            self._least[size] = least_of(self.program, size)
        return self._least[size]

    def is_numbered(self, name: Sym) -> bool:
        """Returns whether the Arrives on a barrier are numbered.

        Those on a flag are not, if it is arrived on or awaited where a value from memory is known:
        the value may tell which flag it is, or whether.  An Await of a flag waits for all, whatever
        their number (decision `flags`).
        """
        if name not in self._numbered:
            inside = (op for load in self.loads for op in operations(load.body))
            self._numbered[name] = not (
                self.variables[name].counts_all
                and any(
                    isinstance(op, amir.Arrive | amir.Await) and name in variables_of(op)
                    for op in inside
                )
            )
        return self._numbered[name]

    def joins(self, site: Site) -> bool:
        """Tests whether a Fence or an Arrive passes execution order on (decision
        `mbarrier-phase`): its threads wait for others than themselves."""
        match site.op:
            case amir.Fence(joins=joins):
                return joins
            case amir.Arrive(home=home):
                mechanism = self.variables[home.name].mechanism
                return mechanism is not None and mechanism.joins
            case _:
                return True

    def within_a_task(self, name: Sym, first: Site, second: Site) -> bool:
        """Tests whether chains of syncs order a record and a check within one task alone, though
        memory resides in their launch (decision `resident-memory`).

        So they do of other variables: two tasks may be of two clusters.  And of reads that may find
        a value: none passes from one task to the next.
        """
        if not one_cluster(first, second) or first.task is None or second.task is None:
            return False
        if not self.variables[name].resident:
            return True
        made, asked = first.op, second.op
        return (
            isinstance(made, amir.Record)
            and made.mutate
            and isinstance(asked, amir.Check)
            and asked.reads
        )

    def passes_values(self, name: Sym, first: Site, second: Site) -> bool:
        """Tests whether a read may meet a write of another task in memory that resides: a LEAK,
        whoever sees it. Raises UndecidedError of atomic accesses, which leave each other's records.
        """
        if not self.variables[name].resident or not self.within_a_task(name, first, second):
            return False
        assert isinstance(first.op, amir.Record) and isinstance(second.op, amir.Check)
        if always_visible(first.op, second.op):
            reason = "atomic accesses to memory that resides from task to task"
            raise UndecidedError(reason, second.op.origin.span)
        return True

    def follows_a_task(self, site: Site) -> bool:
        """Tests whether a site outside tasks may run after a task has begun."""
        return any(
            other.task is not None
            and (other.number < site.number or (bool(site.loops) and site.loops[0] in other.loops))
            for other in self.sites
        )

    def _find_scopes(self) -> Mapping[Sym, tuple[amir.Loop, ...]]:
        """By variable, the loops around its Alloc: their iterators tell its allocations apart.

        A variable that is never allocated exists from the start.  Variables whose uses do not
        all stand in the block of their one Alloc, after it, are left out.
        """
        scopes: dict[Sym, tuple[amir.Loop, ...]] = dict.fromkeys(self.variables, ())
        allocs: dict[Sym, Site] = {}
        for site in self.sites:
            if isinstance(site.op, amir.Alloc):
                name = site.op.name
                if name in allocs:
                    scopes.pop(name, None)
                else:
                    allocs[name] = site
                    scopes[name] = tuple(loop for loop in site.loops if loop.source is None)
        for site in self.sites:
            for name in variables_of(site.op):
                alloc = allocs.get(name)
                if alloc is None or alloc is site:
                    continue
                around = tuple(loop for loop in alloc.loops if loop.source is None)
                depth = len(around)
                inside = site.loops[:depth] == around
                after = inside and site.path[: depth + 1] > alloc.path
                guarded = all(one in site.guards for one in alloc.guards)
                if not (inside and after and guarded):
                    scopes.pop(name, None)
        return scopes

    def scope(self, name: Sym, span: Span) -> tuple[amir.Loop, ...]:
        """The loops around the variable's allocation.

        Raises UndecidedError where its uses do not all lie within one Alloc's block.
        """
        if name not in self.scopes:
            raise UndecidedError(
                f"{name} is allocated in several places, or used outside its allocation", span
            )
        return self.scopes[name]


def depends_on_orders(program: amir.Program) -> str:
    """Explains why resident memory may depend on which tasks a cluster executes, and in which
    order; empty if it does not, or nothing resides."""
    if not any(variable.resident for variable in program.variables):
        return ""
    try:
        Placed(program)
    except UndecidedError as why:
        return f"line {why.span.line}: {why.reason}"
    return ""


def least_of(program: amir.Program, size: Sym) -> int:
    """The least value of a program's size (`Placed.least`)."""
    zero = any(
        control_variables(condition) == {size}
        and holds(condition, {size: 0})
        and bounded_below(condition, size)
        for precondition in program.preconditions
        for condition in conjuncts(precondition)
    )
    return 0 if zero else 1


def conjuncts(condition: ir.BExpr) -> list[ir.BExpr]:
    """The conditions that all have to hold for this one to hold."""
    found: list[ir.BExpr] = []
    left = [condition]
    while left:
        one = left.pop()
        if isinstance(one, ir.And):
            left += (one.right, one.left)
        else:
            found.append(one)
    return found


def always_visible(records: amir.Record, check: amir.Check) -> bool:
    """Tests whether every thread sees the record at the check's level: atomics among themselves."""
    if check.level is Level.INVISIBLE:
        return bool(check.timelines)
    return check.level is Level.ATOMIC_ONLY and bool(records.atomic & check.timelines)
