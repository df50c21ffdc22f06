"""Finds the instance of a Record that a violation is about: iteration and task of the earlier
access.

The fast interpreter's records do not remember their iteration.  So a violation that was found is
found once more in a slice of the program: one element of one variable, and if the variable belongs
to a task only that task, with all synchronisation.  In the slice the instances that it may be
about, which the program text names, are operations of their own.
"""

from __future__ import annotations

from collections.abc import Callable, Iterator, Mapping
from dataclasses import dataclass, replace
from itertools import islice, takewhile
from typing import Final, assert_never

from exogpu.amir.nodes import (
    Alloc,
    Arrive,
    Await,
    Block,
    Check,
    CheckBarrier,
    CheckInitialised,
    Clear,
    Fence,
    Guard,
    IncTaskID,
    Initialise,
    Loop,
    Op,
    Program,
    Record,
    Release,
    Require,
    Variable,
)
from exogpu.amir.walk import Path, accesses_of, begins_tasks, operations, path_to
from exogpu.ir.names import Sym
from exogpu.ir.nodes import Access, CExpr, Coord, CVar, Int, Interval, Point, Sub
from exogpu.ir.types import BarrierMechanism
from exogpu.machine.fast.instances import Instance, Search, TooLong, When, at
from exogpu.machine.fast.tasks import tasks_before
from exogpu.machine.violation import Violation

CANDIDATES: Final = 64
"""Instances of one Record that are considered: the last ones before the check."""

AT_ONCE: Final = 4
"""Instances that one slice tells apart: the first of them fails, as a rule."""

Run = Callable[[Program], tuple[Violation, ...]]
"""Runs a slice: the first violation of each pair of operations."""


def with_record(
    program: Program, sizes: Mapping[str, int], violation: Violation, run: Run
) -> Violation:
    """The violation with iteration and task of its record, if they can be told."""
    if violation.record is None:
        return violation
    sigma = {parameter.name: sizes[parameter.name.name] for parameter in program.params}
    try:
        instances = _candidates(program, violation, sigma)
    except TooLong:
        return violation
    for first in range(0, len(instances), AT_ONCE):
        slicer = _Slicer(program, violation, instances[first : first + AT_ONCE])
        for found in run(slicer.program()):
            about = None if found.record is None else slicer.copies.get(found.record)
            if about is not None and (found.kind, found.check) == (violation.kind, slicer.check):
                return _located(program, violation, about, sigma)
    return violation


# --- which instances ----------------------------------------------------------------------------


def _candidates(
    program: Program, violation: Violation, sigma: Mapping[Sym, int]
) -> tuple[Instance, ...]:
    """The instances of the record that the check may have met, the first one first.

    Raises TooLong.
    """
    body, name = program.body, _variable(violation)

    def before(op: Op, end: When) -> Iterator[Instance]:
        accesses = tuple(a for a in accesses_of(op) if a.name == name)
        return Search(path_to(body, op), accesses, violation.index).before(end, sigma)

    end = at(path_to(body, violation.check), _values(violation)).when
    fresh: When = ()
    for op in operations(body):
        if _kills(op, violation):
            fresh = max(fresh, next((i.when for i in before(op, end)), ()))
    assert violation.record is not None
    found = takewhile(lambda i: i.when > fresh, before(violation.record, end))
    return tuple(islice(found, CANDIDATES))[::-1]


def _kills(op: Op, violation: Violation) -> bool:
    """Tests whether an operation drops the records that the check asks for."""
    check, name = violation.check, _variable(violation)
    if isinstance(op, Alloc | Release):
        return op.name == name
    if not (isinstance(op, Clear) and isinstance(check, Check)):
        return False
    return (op.access.name, op.mutates) == (name, check.mutates)


def _located(
    program: Program, violation: Violation, instance: Instance, sigma: Mapping[Sym, int]
) -> Violation:
    """The violation with this instance of its record."""
    record, body = violation.record, program.body
    assert record is not None
    path = path_to(body, record)
    names = [op.iterator.name for _, op in path if isinstance(op, Loop)]
    task = None
    if record.origin.threads is not None:
        task = violation.task
        # A check at CPU scope has no task, whatever the variable belongs to.
        if task is None or not _local(body, _variable(violation)):
            task = tasks_before(path, instance.values, body, sigma)
    iteration = tuple(zip(names, instance.values, strict=True))
    return replace(violation, record_iteration=iteration, record_task=task)


def _variable(violation: Violation) -> Sym | None:
    check = violation.check
    return check.access.name if isinstance(check, Check) else _barrier_of(check)


def _values(violation: Violation) -> tuple[int, ...]:
    return tuple(value for _, value in violation.iteration)


# --- the slice ----------------------------------------------------------------------------------


@dataclass(frozen=True, slots=True)
class _Mark:
    """An instance that becomes an operation of its own; `values` are those of the loops left."""

    path: Path
    values: tuple[int, ...]
    instance: Instance

    def inside(self, op: Op, value: int | None = None) -> bool:
        """Tests whether the operation is next on the way to the instance, in this iteration."""
        return self.path[0][1] is op and (value is None or self.values[0] == value)

    def entered(self) -> _Mark:
        """Returns the rest of the way inside a loop or a guard."""
        into = self.values[1:] if isinstance(self.path[0][1], Loop) else self.values
        return replace(self, path=self.path[1:], values=into)


class _Slicer:
    """The slice of a program that a violation is about."""

    def __init__(
        self, program: Program, violation: Violation, instances: tuple[Instance, ...]
    ) -> None:
        self._program = program
        self._violation = violation
        self._instances = instances
        check = violation.check
        self._name = check.access.name if isinstance(check, Check) else None
        self._element = Sym(violation.variable)
        self._local = _local(program.body, _variable(violation))
        """Whether the variable belongs to a task."""
        self._end = at(path_to(program.body, check), _values(violation))
        self.check: Op | None = None
        """The instance of the check that fails."""
        self.copies: dict[Op, Instance] = {}
        """The instances of the record that it may be about."""

    def program(self) -> Program:
        """The slice."""
        body, _ = self._block(self._program.body, tuple(self._marks()))
        return replace(self._program, variables=self._variables(), body=body)

    def _variables(self) -> tuple[Variable, ...]:
        variables = self._program.variables
        if self._name is None:
            return variables
        (whole,) = (v for v in variables if v.name == self._name)
        single = tuple(Int(1) for _ in whole.shape)
        element = replace(whole, name=self._element, shape=single, mechanism=None)
        # No barrier is asked for its phases, which is mbarriers' alone.
        plain = BarrierMechanism.COMMIT_GROUP
        others = [v if v.mechanism is None else replace(v, mechanism=plain) for v in variables]
        return (*others, element)

    def _marks(self) -> Iterator[_Mark]:
        body, violation = self._program.body, self._violation
        yield _Mark(path_to(body, violation.check), _values(violation), self._end)
        assert violation.record is not None
        path = path_to(body, violation.record)
        for instance in self._instances:
            yield _Mark(path, instance.values, instance)

    def _block(self, block: Block, marks: tuple[_Mark, ...]) -> tuple[Block, bool]:
        """The slice of a block, and whether it goes on after it: not after the check."""
        made: list[Op] = []
        for op in block:
            inside = tuple(mark for mark in marks if mark.inside(op))
            new, goes_on = self._marked(op, inside) if inside else (self._op(op), True)
            made += new
            if not goes_on:
                return tuple(made), False
        return tuple(made), True

    def _marked(self, op: Op, marks: tuple[_Mark, ...]) -> tuple[Block, bool]:
        match op:
            case Loop():
                return self._split(op, marks)
            case Guard():
                body, goes_on = self._block(op.body, tuple(m.entered() for m in marks))
                return (replace(op, body=body),) if body else (), goes_on
            case _:
                (new,) = self._op(op) or (op,)
                new = replace(new)
                # An Await may be at odds with an earlier one of its own.
                if marks[0].instance == self._end:
                    self.check = new
                    return (new,), False
                self.copies[new] = marks[0].instance
                return (new,), True

    def _split(self, op: Loop, marks: tuple[_Mark, ...]) -> tuple[Block, bool]:
        """A loop whose marked iterations are loops of their own, and the others as they are."""
        whole = not (self._local and begins_tasks(op.body))
        made: list[Op] = []
        lo, goes_on = op.lo, True
        for value in sorted({mark.values[0] for mark in marks}):
            if whole:
                made += self._op(replace(op, lo=lo, hi=Int(value)))
            inner = tuple(mark.entered() for mark in marks if mark.inside(op, value))
            body, goes_on = self._block(op.body, inner)
            if body:
                made.append(replace(op, lo=Int(value), hi=Int(value + 1), body=body))
            lo = Int(value + 1)
            if not goes_on:
                break
        if whole and goes_on:
            made += self._op(replace(op, lo=lo))
        return tuple(made), goes_on

    def _op(self, op: Op) -> Block:
        """An operation of which no instance is marked."""
        match op:
            case Loop():
                lo, hi = op.lo, op.hi
                if (only := self._touching(op)) is not None:
                    lo, hi = only
                body, _ = self._block(op.body, ())
                return (replace(op, lo=lo, hi=hi, body=body),) if body else ()
            case Guard():
                body, _ = self._block(op.body, ())
                return (replace(op, body=body),) if body else ()
            case Alloc() | Release():
                own = (replace(op, name=self._element),) if op.name == self._name else ()
                return (op, *own)
            case Record() | Check() | Clear():
                return self._access(op)
            case IncTaskID() | Fence() | Arrive() | Await():
                return (replace(op),)
            case CheckBarrier():
                return (replace(op),) if op is self._violation.check else ()
            case Require() | Initialise() | CheckInitialised():
                return ()  # No record has to do with what has been written.
            case _:
                assert_never(op)

    def _touching(self, loop: Loop) -> tuple[Int, Int] | None:
        """The iterations of a loop of constant bounds that touch the element, where nothing else
        happens in it and every access names the iterator as a coordinate."""
        if not (isinstance(loop.lo, Int) and isinstance(loop.hi, Int)):
            return None
        touched: set[int] = set()
        for op in operations(loop.body):
            if isinstance(op, Initialise | CheckInitialised):
                continue
            if not isinstance(op, Record | Check | Clear) or _trailing(op):
                return None
            if op.access.name != self._name:
                continue
            at = [
                index
                for coord, index in zip(op.access.coords, self._violation.index, strict=True)
                if isinstance(coord, Point) and coord.at == CVar(loop.iterator)
            ]
            if not at:
                return None
            touched.update(at)
        inside = [value for value in touched if loop.lo.value <= value < loop.hi.value]
        if not inside:
            return None
        return Int(min(inside)), Int(max(inside) + 1)

    def _access(self, op: Record | Check | Clear) -> Block:
        if op.access.name == self._name:
            here = replace(op, access=self._at_element(op.access))
            return (replace(here, inside=False) if isinstance(here, Record) else here,)
        return (replace(op),) if isinstance(op, Record) and op.trailing is not None else ()

    def _at_element(self, access: Access) -> Access:
        """The window, as far as it is the one element: it becomes element 0 of a variable of one
        element, and decision `bounds` drops the others."""
        coords = tuple(
            _less(coord, at) for coord, at in zip(access.coords, self._violation.index, strict=True)
        )
        return Access(self._element, coords)


def _trailing(op: Op) -> bool:
    return isinstance(op, Record) and op.trailing is not None


def _less(coord: Coord, by: int) -> Coord:
    lower: Callable[[CExpr], CExpr] = lambda c: Sub(c, Int(by))  # noqa: E731
    match coord:
        case Point():
            return Point(lower(coord.at))
        case Interval():
            return Interval(lower(coord.lo), lower(coord.hi))
        case _:
            assert_never(coord)


def _local(block: Block, name: Sym | None) -> bool:
    """Tests whether every allocation of the variable is in a task."""
    allocated = False
    for op in block:
        if isinstance(op, IncTaskID):
            return any(isinstance(o, Alloc) and o.name == name for o in block)
        if isinstance(op, Alloc) and op.name == name:
            return False
        if isinstance(op, Loop | Guard):
            allocated = allocated or _local(op.body, name)
    return allocated


def _barrier_of(op: Op) -> Sym | None:
    match op:
        case Arrive():
            return op.home.name
        case Await():
            return op.barrier.name
        case CheckBarrier():
            return op.name
        case Record():
            return None if op.trailing is None else op.trailing.home.name
        case Loop() | Guard() | IncTaskID() | Alloc() | Release() | Check() | Clear() | Fence():
            return None
        case Require() | Initialise() | CheckInitialised():
            return None
        case _:
            assert_never(op)
