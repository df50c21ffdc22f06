"""The environments of the literal interpreter: sigma, rho and the task number, on dicts."""

from __future__ import annotations

import itertools
from collections.abc import Callable, Sequence
from dataclasses import dataclass, field
from typing import Final, TypeAlias

from exogpu.amir import nodes as amir
from exogpu.amir.walk import operations
from exogpu.diagnostics.hazards import HazardKind
from exogpu.diagnostics.verdict import Policy
from exogpu.ir.nodes import Access, Point
from exogpu.ir.types import Sym
from exogpu.ir.walk import evaluate
from exogpu.machine import literal_records
from exogpu.machine.index_contents import Contents
from exogpu.machine.literal_phase import Phase, PhaseFailure, new_phase
from exogpu.machine.observer import Moment, Observer, Violation, rank
from exogpu.machine.required_conditions import Demand

_EXECUTED: Final = (amir.Record, amir.Check, amir.Fence, amir.Arrive, amir.Await)
"""Operations for which the machine asks who executes them."""

_EVERYONE: Final[literal_records.Threads] = frozenset({literal_records.EVERYONE})

Failure: TypeAlias = tuple[HazardKind, Sym, literal_records.Index, Moment | None]
"""The hazard, its element and its record; the rest of a violation is the check's."""
Failures: TypeAlias = list[Failure]


@dataclass(slots=True, eq=False)
class Recorded:
    """The records of one execution of one Record: the same set joins every element of its window,
    and since syncs act on records pointwise, the elements may share them."""

    moment: Moment
    records: list[literal_records.VisibilityRecord]
    holders: int = 0
    """Elements that hold it; at 0 no check can reach it."""


@dataclass(slots=True, eq=False)
class Cell:
    """`rho(x, n)`: read and mutate visibility records of an element."""

    reads: list[Recorded] = field(default_factory=list)
    mutates: list[Recorded] = field(default_factory=list)


@dataclass(slots=True, eq=False)
class Barrier:
    """One allocation of a barrier variable: `rho(z, n).b` and what its own checks need."""

    variable: amir.Variable
    arrives: dict[literal_records.Index, int] = field(default_factory=dict)
    awaits: dict[literal_records.Index, int] = field(default_factory=dict)
    homes: dict[literal_records.Index, set[literal_records.Index]] = field(default_factory=dict)
    """By element, the homes whose Arrives target it so far."""
    bounds: dict[literal_records.Index, list[tuple[int, Moment]]] = field(default_factory=dict)
    """By element, the Awaits so far with their Max, but for those before one of as high a Max."""
    trailing: list[tuple[literal_records.Index, int, Moment]] = field(default_factory=list)
    """Trailing tags: home, rank, and the Record that made them."""
    phase: Phase | None = None
    """The phase, of mbarriers only."""
    phase_failures: dict[int, tuple[Moment, list[PhaseFailure]]] = field(default_factory=dict)
    """By depth, the first operation that refutes it; where the depth must be found."""


@dataclass(slots=True, eq=False)
class Machine:
    """The configuration `(iota, sigma, rho)`, and what was found so far."""

    program: amir.Program
    observer: Observer
    policy: Policy
    variables: dict[Sym, amir.Variable]
    positions: dict[amir.Op, int]
    """Place of each operation in the program text."""
    sigma: dict[Sym, int]
    task: int = 0
    loops: tuple[amir.Loop, ...] = ()
    """Around the present operation, and the values of their iterators."""
    values: tuple[int, ...] = ()
    cells: dict[Sym, dict[literal_records.Index, Cell]] = field(default_factory=dict)
    shapes: dict[Sym, tuple[int, ...]] = field(default_factory=dict)
    barriers: dict[Sym, Barrier] = field(default_factory=dict)
    live: dict[Recorded, None] = field(default_factory=dict)
    initialised: dict[Sym, set[literal_records.Index]] = field(default_factory=dict)
    """By variable, the elements that have been written since its allocation."""
    going: bool = True
    """False once the run has to stop."""
    demands: dict[amir.Op, tuple[Demand, ...]] = field(default_factory=dict)
    """By operation, what it demands, as far as it was asked."""
    contents: Contents = field(default_factory=dict)
    """The contents of the arrays that values are loaded from."""
    executing: dict[tuple[amir.Op, tuple[int, ...]], literal_records.Threads] = field(
        default_factory=dict
    )
    """By operation and offsets of its threads, those that execute it in this task."""
    watch: Callable[[], None] | None = None
    """Called before each operation."""


def new_machine(program: amir.Program, sigma: dict[Sym, int], observer: Observer) -> Machine:
    """The initial configuration: task 0, and every data parameter without records."""
    ops = list(operations(program.body))
    machine = Machine(
        program,
        observer,
        program.policy,
        {v.name: v for v in program.variables},
        {op: i for i, op in enumerate(ops)},
        sigma,
    )
    allocated = {op.name for op in ops if isinstance(op, amir.Alloc)}
    for variable in program.variables:
        if variable.name not in allocated:
            allocate(machine, variable)
    return machine


def allocate(machine: Machine, variable: amir.Variable, phases: bool = True) -> None:
    """`rho[(x, n) -> (empty, empty, (0, 0))]` for every element n."""
    machine.shapes[variable.name] = tuple(evaluate(n, machine.sigma) for n in variable.shape)
    machine.cells[variable.name] = {}
    machine.initialised[variable.name] = set()
    if variable.mechanism is not None:
        barrier = Barrier(variable)
        if variable.mechanism.phased and phases:
            barrier.phase = new_phase(variable.depth)
        machine.barriers[variable.name] = barrier


def executing_threads(machine: Machine, op: amir.Op) -> literal_records.Threads:
    """`g(sigma, iota)`: `{(iota, t) | t in f(sigma)}` at CUDA scope, every thread at CPU scope."""
    mapping = op.origin.threads
    if mapping is None:
        return _EVERYONE
    offsets = tuple(evaluate(axis.offset, machine.sigma) for axis in mapping.axes)
    found = machine.executing.get((op, offsets))
    if found is None:
        sums = [0]
        for axis, offset in zip(mapping.axes, offsets, strict=True):
            sums = [s + axis.pitch * (offset + j) for s in sums for j in range(axis.extent)]
        found = frozenset((machine.task, t) for t in sums)
        machine.executing[op, offsets] = found
    return found


def elements(machine: Machine, access: Access) -> list[literal_records.Index]:
    """W-Point, W-Range, W-Tuple, E#-Acc, smallest index first.

    Decision `half-open-windows`: intervals are half-open here.  Decision `bounds`: elements outside
    the variable do not exist.
    """
    ranges = []
    for coord, extent in zip(access.coords, machine.shapes[access.name], strict=True):
        if isinstance(coord, Point):
            lo = evaluate(coord.at, machine.sigma)
            hi = lo + 1
        else:
            lo, hi = evaluate(coord.lo, machine.sigma), evaluate(coord.hi, machine.sigma)
        ranges.append(range(max(lo, 0), min(hi, extent)))
    return list(itertools.product(*ranges))


def elements_of(
    machine: Machine, accesses: tuple[Access, ...]
) -> tuple[literal_records.Element, ...]:
    """The union of the accesses' elements."""
    found = {(a.name, index) for a in accesses for index in elements(machine, a)}
    return tuple(sorted(found, key=lambda element: (element[0].number, element[1])))


class OutsideError(Exception):
    """A barrier access has no element: the program was not checked, as edited ones are not."""


def the_element(machine: Machine, access: Access) -> literal_records.Index:
    """The one element of a barrier access.  Raises OutsideError where it is outside."""
    found = elements(machine, access)
    if len(found) != 1:
        raise OutsideError
    return found[0]


def cell(machine: Machine, name: Sym, index: literal_records.Index) -> Cell:
    """`rho(x, n)`."""
    return machine.cells[name].setdefault(index, Cell())


def moment_of(machine: Machine, op: amir.Op) -> Moment:
    """The operation at this point of the execution."""
    threads = (
        executing_threads(machine, op) if isinstance(op, _EXECUTED) else literal_records.NOBODY
    )
    task = None if op.origin.threads is None else machine.task
    return Moment(op, machine.loops, machine.values, task, threads)


def report(machine: Machine, at: Moment, failures: Failures) -> None:
    """Tells the violations of one operation, in their order."""

    def order(failure: Failure) -> tuple[literal_records.Index, int, int]:
        kind, _, index, record = failure
        return rank(kind, index, None if record is None else record.op, machine.positions)

    for kind, name, index, record in sorted(failures, key=order):
        violation = Violation(
            kind,
            name.name,
            index,
            at.task,
            at.op,
            at.iteration,
            None if record is None else record.op,
            None if record is None else record.iteration,
            None if record is None else record.task,
        )
        if not machine.observer.on_violation(violation):
            machine.going = False
            return


# Hands resident memory of a cluster from task to task (decision `resident-memory`), and assigns
# tasks to clusters.
#
# A task begins: threads that have executed the cluster's task before execute this one. So in the
# records of what resides, and in the execution order that its barriers follow, each thread of the
# task before becomes that of the new one. Everything else belongs to its task alone: records of
# other variables keep no tag of a resident barrier.


def hand_over(machine: Machine, before: int) -> None:
    """Hands resident variables over from task `before` to the one that begins."""
    resident = [name for name in machine.cells if machine.variables[name].resident]
    if not resident:
        return
    for recorded in machine.live:
        for record in recorded.records:
            if name_of(recorded) in resident:
                _renamed(record, before, machine.task)
            else:
                _forget(record, resident)
    for name in resident:
        barrier = machine.barriers.get(name)
        for awaited in () if barrier is None or barrier.phase is None else barrier.phase.awaited:
            awaited.sees = _move_task(awaited.sees, before, machine.task)


def name_of(recorded: Recorded) -> Sym:
    """The variable whose elements hold a record."""
    op = recorded.moment.op
    assert isinstance(op, amir.Record)
    return op.access.name


def leaks(machine: Machine, name: Sym, recorded: Recorded, at: Moment) -> bool:
    """Tests whether a write to a resident variable was made by another task than a read of it."""
    return machine.variables[name].resident and recorded.moment.task != at.task


def _renamed(record: literal_records.VisibilityRecord, before: int, after: int) -> None:
    record.own = _move_task(record.own, before, after)
    for level in (record.temporal, record.full):
        for timeline, threads in level.items():
            level[timeline] = _move_task(threads, before, after)


def _move_task(
    threads: literal_records.Threads, before: int, after: int
) -> literal_records.Threads:
    return frozenset((after if task == before else task, t) for task, t in threads)


def _forget(record: literal_records.VisibilityRecord, resident: Sequence[Sym]) -> None:
    for name in resident:
        literal_records.drop_tags(record, name)
