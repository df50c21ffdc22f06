"""Obligations on what must hold whenever a statement is executed: windows lie inside their
variables, and what the program requires besides.

One of each statement and kind; whatever was found about the program, nothing of it is used here.
"""

from __future__ import annotations

from collections.abc import Callable, Iterator, Mapping, Sequence
from dataclasses import dataclass
from pathlib import PurePath
from typing import Final, TypeAlias

from exogpu.amir.nodes import Loop, Require
from exogpu.diagnostics.hazards import HazardKind
from exogpu.ir.nodes import Access, BExpr, CExpr, Int, Mul, Point
from exogpu.ir.types import Sym
from exogpu.ir.walk import control_variables, substitute, substitute_bool
from exogpu.machine.required_conditions import bounded_windows as windows_of
from exogpu.symbolic.encode import formulas
from exogpu.symbolic.encode.encoder import Draft, Encoder
from exogpu.symbolic.encode.pieces import linear
from exogpu.symbolic.encode.rank_table import RankTable
from exogpu.symbolic.encode.script import Script
from exogpu.symbolic.encode.slot_counts import Slots
from exogpu.symbolic.sites import Site

_Statement: TypeAlias = tuple[HazardKind, str, int, str]
"""Kind, file, line and text."""

CLAIMS: Final[Mapping[HazardKind, str]] = {
    HazardKind.BOUNDS: "every element that it accesses lies inside its variable, and inside the "
    "windows and extents on the way",
    HazardKind.OVERLAP: "its operands have no element in common where one is written, or are one "
    "window where it works in place",
    HazardKind.ALIGN: "its operands lie in memory as it asks, laid out by rows",
    HazardKind.DIVERGENCE: "of each group of threads that it synchronises all execute it, or none",
    HazardKind.OWNERSHIP: "each element of a register tile that it accesses is held by its thread",
    HazardKind.SLOT: "the slots of the memory that it accesses were, as its task began, what they "
    "are to each other in every task",
}
"""By kind, what a statement does."""


def requirements(encoder: Encoder, ranks: Callable[[Sym], RankTable]) -> Iterator[Draft]:
    """An obligation for every statement and kind that the program requires something of."""
    statements: dict[_Statement, list[Site]] = {}
    for site in encoder.placed.sites:
        kind = _kind(site)
        if kind is not None:
            span, text = site.op.origin.span, site.op.origin.text
            statement = kind, PurePath(span.file).name, span.line, text
            statements.setdefault(statement, []).append(site)
    for (kind, *_), sites in statements.items():
        yield _draft(encoder, ranks, kind, sites)


def _kind(site: Site) -> HazardKind | None:
    """Returns the kind of obligation that a site adds to, if any."""
    if isinstance(site.op, Require):
        return site.op.kind
    return HazardKind.BOUNDS if any(windows_of(site.op)) else None


def _draft(
    encoder: Encoder,
    ranks: Callable[[Sym], RankTable],
    kind: HazardKind,
    sites: Sequence[Site],
) -> Draft:
    script = encoder.script()
    made = _Statements(encoder, script, Slots(script, encoder.placed, ranks))
    failures = [name for site in sites for name in made.failures(site)]
    made.slots.compare()
    script.expose(list(dict.fromkeys(failures)))
    first = sites[0]
    origin = first.op.origin
    claim = f"Whenever line {origin.span.line} ({origin.text}) is executed, {CLAIMS[kind]}."
    return Draft(kind, _subject(first), None, first, claim, script.text(claim))


def _subject(site: Site) -> Sym | None:
    """The variable that an obligation is named after."""
    if isinstance(site.op, Require):
        return site.op.variable
    return next(iter(windows_of(site.op))).name


@dataclass(slots=True)
class _Place:
    """The loops and guards around some operations, and one instance of them."""

    instance: formulas.Instance
    executed: BExpr
    said: set[object]
    """The demands that were made there already."""


class _Statements:
    """The operations of a statement; those in one place are executed together."""

    def __init__(self, encoder: Encoder, script: Script, slots: Slots) -> None:
        self.placed = encoder.placed
        self.script = script
        self.slots = slots
        self._places: dict[tuple[tuple[Loop, ...], tuple[tuple[int, BExpr], ...]], _Place] = {}

    def failures(self, site: Site) -> Iterator[str]:
        """Named formulas, each with a solution where something is not as it must be."""
        place = self._place(site)
        op = site.op
        if isinstance(op, Require):
            yield from self._unmet(site, op, place)
            return
        for access in windows_of(op):
            if access not in place.said:
                place.said.add(access)
                yield from self._outside(access, place)

    def _place(self, site: Site) -> _Place:
        key = site.loops, site.guards
        if key not in self._places:
            self.script.renew_loads()
            instance = self.script.free(site, f"{self.script.label(site)}.")
            self._places[key] = _Place(instance, formulas.exists(instance), set())
        return self._places[key]

    def _outside(self, access: Access, place: _Place) -> Iterator[str]:
        """Some element of a window lies outside of its variable."""
        values, element, bounds = place.instance.values, list[CExpr](), list[BExpr]()
        for coord in access.coords:
            if isinstance(coord, Point):
                element.append(substitute(coord.at, values))
                continue
            lo, hi = substitute(coord.lo, values), substitute(coord.hi, values)
            element.append(self.script.constant(Sym(f"element{len(element)}"), "any."))
            bounds += [formulas.at_most(lo, element[-1]), formulas.less_than(element[-1], hi)]
        inside = formulas.in_shape(self.placed, access.name, element)
        if formulas.opposite(inside) != formulas.FALSE:
            parts = [place.executed, *bounds, formulas.opposite(inside)]
            yield self.script.node("outside", parts)

    def _unmet(self, site: Site, op: Require, place: _Place) -> Iterator[str]:
        """Some condition does not hold, at some values of what it is asked for each."""
        values, bounds = dict(place.instance.values), list[BExpr]()
        for one in op.each:
            lo, hi = substitute(one.lo, values), substitute(one.hi, values)
            values[one.name] = self.script.constant(Sym(one.name.name), "any.")
            bounds += [
                formulas.at_most(lo, values[one.name]),
                formulas.less_than(values[one.name], hi),
            ]
        if op.together:
            yield from self._left_behind(site, op, place)
            return
        if op.kind is HazardKind.SLOT:
            read = frozenset[Sym]().union(*map(control_variables, op.conditions))
            bounds += self.slots.slot_equations(place.instance, read)
        required = formulas.conjunction_of(
            substitute_bool(condition, values) for condition in op.conditions
        )
        yield self.script.node("unmet", [place.executed, *bounds, formulas.opposite(required)])

    def _left_behind(self, site: Site, op: Require, place: _Place) -> Iterator[str]:
        """A thread executes it, and another of its group does not; or one that has no digits does.

        Each digit of the two is a position in one block: quotients would make the formula hard.
        """
        here = formulas.Instance(site, place.instance.values)
        known: list[BExpr] = []
        threads: dict[str, CExpr] = {"one": Int(0), "other": Int(0)}
        for number, digit in enumerate(op.together):
            block = self._number_below(f"block{number}", digit.extent // digit.size, known)
            base = Mul(digit.pitch * digit.size, block)
            for which, total in threads.items():
                at = self._number_below(f"{which}{number}", digit.size, known)
                threads[which] = linear(0, [(1, total), (1, base), (digit.pitch, at)])
        thread, told = (
            self.script.thread(here, "thread"),
            formulas.known_of(here, formulas.threads_read(site)),
        )
        end = op.together[0].pitch * op.together[0].extent
        yield self.script.node("beyond", [told, formulas.at_most(Int(end), thread)])
        known.append(formulas.equal(thread, threads["one"]))
        other = self.script.define("thread.other", threads["other"])
        left = formulas.opposite(formulas.executes(other, here))
        yield self.script.node("left_behind", [told, *known, left])

    def _number_below(self, name: str, end: int, known: list[BExpr]) -> CExpr:
        """Some number below an end; `known` gathers what is known of it."""
        if end == 1:
            return Int(0)
        found = self.script.constant(Sym(name), "thread.")
        known += [formulas.at_most(Int(0), found), formulas.less_than(found, Int(end))]
        return found
