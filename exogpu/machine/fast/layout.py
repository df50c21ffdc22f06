"""Reads facts off the program text before the fast interpreter runs.

Which operations can matter at all, where the cells of each variable begin, which timelines each
Record's visibility can matter on, and what the barriers' elements are.
"""

from __future__ import annotations

from collections.abc import Mapping
from dataclasses import dataclass, field
from typing import assert_never

from exogpu.amir import nodes as amir
from exogpu.amir.walk import operations
from exogpu.diagnostics.verdict import Policy
from exogpu.ir.affine import Affine, Range, combine, range_of
from exogpu.ir.nodes import Access, Coord, Interval, Point
from exogpu.ir.types import Sym
from exogpu.ir.walk import control_variables, evaluate
from exogpu.machine.fast import records as fast_records
from exogpu.machine.fast.affine_code import Scope
from exogpu.machine.fast.arrivals import BarrierFacts
from exogpu.machine.fast.cells import Store
from exogpu.machine.fast.first_writes import written_first
from exogpu.machine.literal_records import own_arrival
from exogpu.machine.required_conditions import slots_of


class Unsupported(Exception):
    """The program is outside what the fast interpreter's tables can say."""


@dataclass(slots=True, eq=False)
class Layout:
    """The program, surveyed at given sizes."""

    program: amir.Program
    ops: tuple[amir.Op, ...]
    """In program text order."""
    scope: Scope
    iterators: dict[amir.Loop, Sym] = field(default_factory=dict)
    """By loop, the name of its own that the scope gives it."""
    stores: dict[Sym, Store] = field(default_factory=dict)
    """The stores of the variables with operations that matter."""
    barriers: dict[Sym, BarrierFacts] = field(default_factory=dict)
    records: dict[amir.Record, fast_records.RecordFacts] = field(default_factory=dict)
    """The facts of the Records that some check can meet."""
    syncs: dict[amir.Op, fast_records.SyncFacts] = field(default_factory=dict)
    threads: dict[amir.Op, fast_records.Threads] = field(default_factory=dict)
    """The threads that may execute each Fence and Await within tasks."""
    allocated: frozenset[Sym] = frozenset()
    """Variables with an Alloc; the others exist from the start."""
    residents: frozenset[Sym] = frozenset()
    """The variables that serve one task of a cluster after another."""
    recorded: frozenset[tuple[Sym, bool]] = frozenset()
    """(variable, mutate) of the Records that some check can meet."""

    slots: frozenset[Sym] = frozenset()
    """The iterators of slots, which count while the program runs."""
    read: frozenset[Sym] = frozenset()
    """The variables of which it is asked whether they have been written."""

    def resident(self, name: Sym) -> bool:
        """Tests whether a variable serves one task of a cluster after another (decision
        `resident-memory`)."""
        return name in self.residents

    def matters(self, op: amir.OnWindow) -> bool:
        """Tests whether the operation can have an effect on the violations found."""
        if isinstance(op, amir.Initialise | amir.CheckInitialised):
            return op.access.name in self.read
        side = op.mutate if isinstance(op, amir.Record) else op.mutates
        return (op.access.name, side) in self.recorded


def bounds_of(coord: Coord, scope: Scope) -> tuple[Affine, Affine]:
    """The first element of a coordinate and the one after the last."""
    match coord:
        case Point():
            at = scope.form(coord.at)
            return at, combine((1, at), constant=1)
        case Interval():
            return scope.form(coord.lo), scope.form(coord.hi)
        case _:
            assert_never(coord)


def survey(
    program: amir.Program, sizes: Mapping[Sym, int], tables: fast_records.Tables, fine: bool
) -> Layout:
    """Reads the program; with `fine` every element is a cell of its own.

    Raises Unsupported where the extents of a variable depend on a loop.
    """
    ops = tuple(operations(program.body))
    layout = Layout(program, ops, Scope({name: Affine(value) for name, value in sizes.items()}))
    layout.slots = slots_of(program)
    layout.residents = frozenset(v.name for v in program.variables if v.resident)
    layout.allocated = frozenset(op.name for op in ops if isinstance(op, amir.Alloc))
    checked = {(op.access.name, op.mutates) for op in ops if isinstance(op, amir.Check)}
    layout.recorded = frozenset(
        (op.access.name, op.mutate)
        for op in ops
        if isinstance(op, amir.Record) and (op.access.name, op.mutate) in checked
    )
    asked = frozenset(op.access.name for op in ops if isinstance(op, amir.CheckInitialised))
    layout.read = asked if fine else asked - written_first(program.body, program, sizes)
    breaks = _Breaks({v.name: _shape(v, sizes) for v in program.variables})
    _survey_block(program.body, layout, breaks)
    for name, shape in breaks.shapes.items():
        recorded = (name, True) in layout.recorded or (name, False) in layout.recorded
        if recorded or name in layout.read:
            layout.stores[name] = Store(name, shape, breaks.breaks_of(name, fine))
    _survey_syncs(layout, tables)
    _survey_barriers(layout, breaks.shapes, tables)
    return layout


def _shape(variable: amir.Variable, sizes: Mapping[Sym, int]) -> tuple[int, ...]:
    if any(control_variables(extent) - sizes.keys() for extent in variable.shape):
        raise Unsupported(f"the extents of {variable.name} depend on a loop")
    return tuple(max(evaluate(extent, sizes), 0) for extent in variable.shape)


# --- where cells begin ----------------------------------------------------------------------


class _Breaks:
    """The elements at which some access begins or ends, by variable and dimension."""

    def __init__(self, shapes: dict[Sym, tuple[int, ...]]) -> None:
        self.shapes = shapes
        self._spans: dict[tuple[Sym, int], set[Range]] = {}

    def add(self, access: Access, scope: Scope) -> None:
        for dim, coord in enumerate(access.coords):
            for bound in bounds_of(coord, scope):
                span = range_of(bound, scope.ranges)
                self._spans.setdefault((access.name, dim), set()).add(span)

    def breaks_of(self, name: Sym, fine: bool) -> tuple[range | tuple[int, ...], ...]:
        return tuple(
            range(extent + 1)
            if fine
            else self._breakpoints(self._spans.get((name, dim), set()), extent)
            for dim, extent in enumerate(self.shapes[name])
        )

    def _breakpoints(self, spans: set[Range], extent: int) -> range | tuple[int, ...]:
        found = {0, extent}
        for span in spans:
            step = span.step or 1
            first = span.lo if span.lo >= 0 else span.lo % step
            found.update(range(first, min(span.hi, extent) + 1, step))
        return range(extent + 1) if len(found) == extent + 1 else tuple(sorted(found))


def _survey_block(block: amir.Block, layout: Layout, breaks: _Breaks) -> None:
    scope = layout.scope
    for op in block:
        match op:
            case amir.Loop():
                bounds = scope.form(op.lo), scope.form(op.hi)
                own = scope.enter(op.iterator, *bounds, layout.iterators.get(op))
                layout.iterators[op] = own
                if op.source is not None:
                    _declare(op.source.name, own, scope, breaks.shapes)
                    inside = scope.enter_load(op.iterator, op.source)
                else:
                    inside = scope.enter_loop(op.iterator, own)
                with inside:
                    _survey_block(op.body, layout, breaks)
            case amir.Guard():
                _survey_block(op.body, layout, breaks)
            case (
                amir.Record()
                | amir.Check()
                | amir.Clear()
                | amir.Initialise()
                | amir.CheckInitialised()
            ):
                if layout.matters(op):
                    breaks.add(op.access, scope)
            case amir.Fence() | amir.Await():
                if op.origin.threads is not None:
                    layout.threads[op] = layout.threads.get(op, 0) | _threads(op, scope)
            case (
                amir.IncTaskID()
                | amir.Alloc()
                | amir.Release()
                | amir.Arrive()
                | amir.CheckBarrier()
                | amir.Require()
            ):
                pass
            case _:
                assert_never(op)


def _declare(array: Sym, value: Sym, scope: Scope, shapes: Mapping[Sym, tuple[int, ...]]) -> None:
    """Gives an array that a value is loaded from a slot; what is loaded is in a range, else the
    kernel traps."""
    scope.declare(array, shapes[array], scope.ranges[value])


# --- timelines and barriers -----------------------------------------------------------------


def _survey_syncs(layout: Layout, tables: fast_records.Tables) -> None:
    policy = layout.program.policy
    of = {v.name: v.mechanism for v in layout.program.variables if v.mechanism is not None}
    for op in layout.ops:
        if isinstance(op, amir.Fence | amir.Await):
            layout.syncs[op] = fast_records.sync_facts(op, policy)
        elif isinstance(op, amir.Arrive):
            joins = of[op.home.name].joins
            layout.syncs[op] = fast_records.SyncFacts(
                policy, op.transitive, op.pre, frozenset(), frozenset(), joins
            )
    checks: dict[tuple[Sym, bool], list[amir.Check]] = {}
    for op in layout.ops:
        if isinstance(op, amir.Check):
            checks.setdefault((op.access.name, op.mutates), []).append(op)
    syncs = [(facts, op.origin.threads is None) for op, facts in layout.syncs.items()]
    most = _granting_threads(layout)
    for op in layout.ops:
        if isinstance(op, amir.Record) and layout.matters(op):
            met = checks[op.access.name, op.mutate]
            number, resident = len(tables.facts), layout.resident(op.access.name)
            facts = fast_records.record_facts(number, op, met, syncs, most, resident)
            layout.records[op] = facts
            tables.facts.append(facts)


def _granting_threads(layout: Layout) -> fast_records.Threads:
    """Threads to which tags can still grant something: all that execute a Fence or an Await.

    Everyone, where a tag may be met at CPU scope, or by threads of a later task: then tags stay
    of use however many threads of this task see the record.
    """
    mask = 0
    for op in layout.ops:
        if isinstance(op, amir.Fence | amir.Await) and op.origin.threads is not None:
            mask |= layout.threads[op]
        elif isinstance(op, amir.Await):
            return fast_records.EVERYONE
    if any(isinstance(op, amir.IncTaskID) for op in layout.ops) and not _tags_end(
        layout.program.body, {v.name for v in layout.program.variables if v.resident}
    ):
        return fast_records.EVERYONE
    return mask


def _tags_end(block: amir.Block, resident: set[Sym]) -> bool:
    """Tests whether every Await is in a task that has allocated its barrier first; resident ones
    leave no tags to threads of another task."""
    fresh: set[Sym] | None = None
    for op in block:
        if isinstance(op, amir.IncTaskID):
            fresh = set(resident)
        elif isinstance(op, amir.Alloc) and fresh is not None:
            fresh.add(op.name)
        elif fresh is not None:
            inside = operations((op,))
            if any(isinstance(o, amir.Await) and o.barrier.name not in fresh for o in inside):
                return False
        elif isinstance(op, amir.Await) or (
            isinstance(op, amir.Loop | amir.Guard) and not _tags_end(op.body, resident)
        ):
            return False
    return True


def _threads(op: amir.Fence | amir.Await, scope: Scope) -> fast_records.Threads:
    """All threads that execute the operation at some time; more, if there are many cases."""
    assert op.origin.threads is not None
    mask = 2
    for axis in op.origin.threads.axes:
        span = range_of(scope.form(axis.offset), scope.ranges)
        if span.lo < 0:
            raise Unsupported("a negative thread index")
        found, step = 0, span.step or 1
        for first in range(span.lo, span.hi + 1, step):
            for j in range(axis.extent):
                found |= mask << (axis.pitch * (first + j))
        mask = found
    return mask


def _survey_barriers(
    layout: Layout, shapes: Mapping[Sym, tuple[int, ...]], tables: fast_records.Tables
) -> None:
    counts: dict[Sym, set[int]] = {}
    most = _granting_threads(layout)
    multicast: set[Sym] = set()
    for op in layout.ops:
        if isinstance(op, amir.Await):
            counts.setdefault(op.barrier.name, set()).add(op.n)
        elif isinstance(op, amir.Arrive):
            _note_targets(op.home, op.targets, multicast)
        elif isinstance(op, amir.Record) and op.trailing is not None:
            _note_targets(op.trailing.home, op.trailing.targets, multicast)
    first = 0
    for variable in layout.program.variables:
        if variable.mechanism is None:
            continue
        order = None
        if variable.mechanism.phased:
            order = fast_records.order_facts(len(tables.facts), most, variable.resident)
            tables.facts.append(order)
        size = 1
        for extent in shapes[variable.name]:
            size *= extent
        found = tuple(sorted(counts.get(variable.name, ())))
        layout.barriers[variable.name] = BarrierFacts(
            variable,
            shapes[variable.name],
            size,
            first,
            found,
            _own_arrivals(layout.program.policy, found),
            variable.name in multicast,
            order,
        )
        first += size


def _own_arrivals(policy: Policy, counts: tuple[int, ...]) -> bool:
    """Tests whether the Awaits of these skip counts receive the tags of their own arrival alone."""
    found = {own_arrival(policy, n) for n in counts}
    if len(found) > 1:
        raise Unsupported("Awaits with n >= 0 and n < 0 on one barrier")
    return True in found


def _note_targets(home: Access, targets: tuple[Access, ...], multicast: set[Sym]) -> None:
    if any(target.name != home.name for target in targets):
        raise Unsupported("an Arrive on two barrier variables")
    if any(target != home for target in targets):
        multicast.add(home.name)
