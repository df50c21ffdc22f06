"""Counts the Arrives before a place, at given sizes, as an expression of iterators.

for k in loop(0, 7):
    place               # k Arrives come before it
    Arrive full

What a place counts is the Arrives before the loops around it, what each iteration of these has,
and those above it in its own.
"""

from __future__ import annotations

from collections.abc import Iterator, Mapping, Sequence
from dataclasses import dataclass, field
from typing import TypeAlias

from exogpu.analysis.barriers import first_home
from exogpu.analysis.roles import wide
from exogpu.diagnostics.errors import Diagnostic, Note
from exogpu.ir import nodes as ir
from exogpu.ir.affine import constant
from exogpu.ir.types import Sym
from exogpu.ir.walk import blocks, control_variables, evaluate, holds, walk

Index: TypeAlias = tuple[int, ...]
Element: TypeAlias = tuple[Sym, Index]


class UncountedError(Exception):
    """The number of Arrives before a place is no expression of this kind."""


@dataclass(frozen=True, slots=True, eq=False)
class Arrival:
    name: Sym
    home: tuple[ir.CExpr, ...]


@dataclass(frozen=True, slots=True, eq=False)
class Fresh:
    """A barrier is allocated."""

    name: Sym


@dataclass(frozen=True, slots=True, eq=False)
class Place:
    """A place at which the Arrives on an element are counted."""

    element: Element


@dataclass(frozen=True, slots=True, eq=False)
class Repeated:
    iterator: Sym
    lo: ir.CExpr
    hi: ir.CExpr
    body: Sequence[Part]


@dataclass(frozen=True, slots=True, eq=False)
class Guarded:
    condition: ir.BExpr
    body: Sequence[Part]


Part: TypeAlias = Arrival | Fresh | Place | Repeated | Guarded


def counts(parts: Sequence[Part], sizes: Mapping[Sym, int]) -> Iterator[ir.CExpr]:
    """At each place, in the order of the text, how many Arrives come before.

    Raises UncountedError where the number in an iteration depends on the iteration.
    """
    places = {part.element for part in _all(parts) if isinstance(part, Place)}
    tally = _Tally(sizes, places)
    return iter([*tally.block(parts, {place: ir.Int(0) for place in places})])


def _all(parts: Sequence[Part]) -> Iterator[Part]:
    for part in parts:
        yield part
        if isinstance(part, Repeated | Guarded):
            yield from _all(part.body)


def _is_single(loop: Repeated) -> bool:
    """Returns whether a loop has one iteration, whatever its iterator is."""
    return loop.hi == ir.Add(loop.lo, ir.Int(1))


@dataclass(frozen=True, slots=True)
class _Tally:
    sizes: Mapping[Sym, int]
    elements: set[Element]
    totals: dict[tuple[Part, Element, tuple[tuple[Sym, int], ...]], int] = field(
        default_factory=dict
    )

    def block(
        self, parts: Sequence[Part], before: dict[Element, ir.CExpr | None]
    ) -> Iterator[ir.CExpr]:
        """The counts of a block's places; `before` becomes what comes before its end, None where
        that is no expression."""
        for part in parts:
            match part:
                case Place():
                    count = before[part.element]
                    if count is None:
                        raise UncountedError
                    yield count
                case Fresh():
                    before |= {e: ir.Int(0) for e in self.elements if e[0] == part.name}
                case Guarded():
                    yield from self.block(part.body, dict(before))
                case Repeated() if any(isinstance(inner, Place) for inner in _all(part.body)):
                    yield from self.block(part.body, dict(self.counts_inside(part, before)))
                case Repeated() | Arrival():
                    pass
            for element in self.elements:
                before[element] = self.count_after(part, element, before[element])

    def count_after(self, part: Part, element: Element, count: ir.CExpr | None) -> ir.CExpr | None:
        """Returns the count before the end of a part; None where it is no expression."""
        try:
            total = self.total(part, element, {})
        except UncountedError:
            return None
        return ir.Add(count, ir.Int(total)) if count is not None and total else count

    def counts_inside(
        self, loop: Repeated, before: Mapping[Element, ir.CExpr | None]
    ) -> Iterator[tuple[Element, ir.CExpr | None]]:
        """Yields the counts before an iteration of a loop."""
        for element, count in before.items():
            if count is None or _is_single(loop):
                yield element, count
                continue
            try:
                each = self.count_within(loop.body, element, {})
            except UncountedError:
                yield element, None
                continue
            done = ir.Sub(ir.CVar(loop.iterator), loop.lo)
            yield element, ir.Add(count, ir.Mul(each, done)) if each else count

    def count_within(
        self, body: Sequence[Part], element: Element, values: Mapping[Sym, int]
    ) -> int:
        """Counts the Arrives in a block, when these iterators have these values and no other
        matters."""
        return sum(self.total(part, element, values) for part in body)

    def total(self, part: Part, element: Element, values: Mapping[Sym, int]) -> int:
        """The same of a part.  Raises UncountedError where another iterator matters."""
        key = (part, element, tuple(values.items()))
        if key not in self.totals:
            try:
                self.totals[key] = self._total(part, element, values)
            except KeyError:
                raise UncountedError from None
        return self.totals[key]

    def _total(self, part: Part, element: Element, values: Mapping[Sym, int]) -> int:
        known = {**self.sizes, **values}
        name, index = element
        match part:
            case Arrival():
                on = part.name == name
                return int(on and tuple(evaluate(at, known) for at in part.home) == index)
            case Repeated() | Guarded():
                if not any(isinstance(p, Arrival) and p.name == name for p in _all(part.body)):
                    return 0
            case _:
                return 0
        if isinstance(part, Guarded):
            each = self.count_within(part.body, element, values)
            return each if each == 0 or holds(part.condition, known) else 0
        if _is_single(part):
            try:
                return self.count_within(part.body, element, values)
            except UncountedError:
                pass  # Its iterator may matter.
        iterations = range(evaluate(part.lo, known), evaluate(part.hi, known))
        try:
            return self.count_within(part.body, element, values) * len(iterations)
        except UncountedError:
            at = ({**values, part.iterator: value} for value in iterations)
            return sum(self.count_within(part.body, element, one) for one in at)


# Slots of arrays of mbarriers: each element has had as many Arrives (decision `slots`).
#
# for m in cuda_threads(0, 2, unit=...):          # full: barrier[2]
#     Arrive(cuda_in_order) >> full[m]
#
# That holds where every execution of the loops around an Arrive reaches each element once, and no
# slot is counted in the middle of them.

Path = tuple[ir.Stmt, ...]
"""The statements around one, outermost first."""


def check(proc: ir.Proc) -> Iterator[Diagnostic]:
    """The slots of arrays whose elements may have different numbers of Arrives."""
    shapes = {s.name: s.shape for s in walk(proc.body) if isinstance(s, ir.BarrierAlloc)}
    placed = [*_statement_paths(proc.body, ())]
    for slot, around in placed:
        if not isinstance(slot, ir.For) or not isinstance(slot.mode, ir.Slot):
            continue
        name = slot.mode.barrier
        if all(constant(extent) == 1 for extent in shapes[name]):
            continue
        for arrive, path in placed:
            if isinstance(arrive, ir.Arrive) and arrive.targets[0].name == name:
                inner = _all_elements(arrive, path, shapes[name])
                if inner is None or not inner.isdisjoint(around):
                    yield _refusal(name, slot, arrive)
                    break


def _statement_paths(block: ir.Block, around: Path) -> Iterator[tuple[ir.Stmt, Path]]:
    for stmt in block:
        yield stmt, around
        for inside in blocks(stmt):
            yield from _statement_paths(inside, (*around, stmt))


def _all_elements(arrive: ir.Arrive, path: Path, shape: tuple[object, ...]) -> set[ir.Stmt] | None:
    """The loops around an Arrive that reach each element of its barrier once; None where they do
    not."""
    home = first_home(arrive.targets)
    roles = frozenset.intersection(*map(wide, arrive.targets))  # It reaches all of these.
    loops = {s.iterator: s for s in path if isinstance(s, ir.For)}
    over: dict[Sym, ir.For] = {}
    for d, (name, extent) in enumerate(zip(_indices(home), shape, strict=True)):
        if d in roles:
            continue
        loop = None if name is None else loops.get(name)
        if loop is None or loop.iterator in over or not isinstance(loop.mode, ir.CudaThreads):
            return None
        if loop.lo != ir.Int(0) or loop.hi != extent:
            return None
        over[loop.iterator] = loop
    # Which element it is, and values from memory that may be other ones for another element.
    telling = {*over}
    for stmt in path:
        read = frozenset[Sym]()
        if isinstance(stmt, ir.For):
            read = control_variables(stmt.lo) | control_variables(stmt.hi)
        elif isinstance(stmt, ir.If):
            read = control_variables(stmt.condition)
        if isinstance(stmt, ir.For) and isinstance(stmt.mode, ir.Loaded):
            if (read | _variables_read(stmt.mode.source)) & telling:
                telling.add(stmt.iterator)
        elif read & telling:
            return None
    return set(over.values())


def _variables_read(access: ir.Access) -> frozenset[Sym]:
    ends = (c.at if isinstance(c, ir.Point) else c.lo for c in access.coords)
    return frozenset[Sym]().union(*map(control_variables, ends))


def _indices(home: ir.Access) -> Iterator[Sym | None]:
    for coord in home.coords:
        at = coord.at if isinstance(coord, ir.Point) else coord.lo
        yield at.name if isinstance(at, ir.CVar) else None


def _refusal(name: Sym, slot: ir.For, arrive: ir.Arrive) -> Diagnostic:
    return Diagnostic(
        "D519",
        f"slot({name}) is no one number: the elements of {name} may have had different numbers of "
        "Arrives",
        slot.span,
        f"let each Arrive on {name} reach all of its elements, in cuda_threads loops over them, "
        "and write the slot outside of these",
        (Note("an Arrive that does not", arrive.span),),
    )
