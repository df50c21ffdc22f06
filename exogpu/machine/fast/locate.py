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

from exogpu.amir import nodes as amir
from exogpu.amir.walk import Path, accesses_of, begins_tasks, operations, path_to, paths
from exogpu.ir import nodes as ir
from exogpu.ir.types import BarrierMechanism, Sym
from exogpu.machine.fast.events import (
    Instance,
    Search,
    TooLong,
    When,
    last_instance_at,
    tasks_before,
)
from exogpu.machine.observer import Violation

CANDIDATES: Final = 64
"""Instances of one Record that are considered: the last ones before the check."""

AT_ONCE: Final = 4
"""Instances that one slice tells apart: the first of them fails, as a rule."""

_ACCESSES: Final = (amir.Record, amir.Check, amir.Clear)

Run = Callable[[amir.Program], tuple[Violation, ...]]
"""Runs a slice: the first violation of each pair of operations."""


def with_record(
    program: amir.Program, sizes: Mapping[str, int], violation: Violation, run: Run
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
    program: amir.Program, violation: Violation, sigma: Mapping[Sym, int]
) -> tuple[Instance, ...]:
    """The instances of the record that the check may have met, the first one first.

    Raises TooLong.
    """
    body, name = program.body, _variable(violation)

    end = last_instance_at(path_to(body, violation.check), _values(violation)).when

    def instances(op: amir.Op, path: Path, after: When) -> Iterator[Instance]:
        """The instances between two instants, the last one first."""
        accesses = tuple(a for a in accesses_of(op) if a.name == name)
        return Search(path, accesses, violation.index, after).instances_before(end, sigma)

    fresh: When = ()
    kills = [path for path in paths(body) if _kills(path[-1][1], violation)]
    for path in reversed(kills):  # the last one, as a rule, leaves nothing to look for
        fresh = max(fresh, next((i.when for i in instances(path[-1][1], path, fresh)), ()))
    assert violation.record is not None
    of_record = instances(violation.record, path_to(body, violation.record), fresh)
    found = takewhile(lambda i: i.when > fresh, of_record)
    return tuple(islice(found, CANDIDATES))[::-1]


def _kills(op: amir.Op, violation: Violation) -> bool:
    """Tests whether an operation drops the records that the check asks for."""
    check, name = violation.check, _variable(violation)
    if isinstance(op, amir.Alloc | amir.Release):
        return op.name == name
    if not (isinstance(op, amir.Clear) and isinstance(check, amir.Check)):
        return False
    return (op.access.name, op.mutates) == (name, check.mutates)


def _located(
    program: amir.Program, violation: Violation, instance: Instance, sigma: Mapping[Sym, int]
) -> Violation:
    """The violation with this instance of its record."""
    record, body = violation.record, program.body
    assert record is not None
    path = path_to(body, record)
    names = [op.iterator.name for _, op in path if isinstance(op, amir.Loop)]
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
    return check.access.name if isinstance(check, amir.Check) else _barrier_of(check)


def _values(violation: Violation) -> tuple[int, ...]:
    return tuple(value for _, value in violation.iteration)


# --- the slice ----------------------------------------------------------------------------------


@dataclass(frozen=True, slots=True)
class _Mark:
    """An instance that becomes an operation of its own; `values` are those of the loops left."""

    path: Path
    values: tuple[int, ...]
    instance: Instance

    def is_next(self, op: amir.Op, value: int | None = None) -> bool:
        """Tests whether the operation is next on the way to the instance, in this iteration."""
        return self.path[0][1] is op and (value is None or self.values[0] == value)

    def entered(self) -> _Mark:
        """Returns the rest of the way inside a loop or a guard."""
        into = self.values[1:] if isinstance(self.path[0][1], amir.Loop) else self.values
        return replace(self, path=self.path[1:], values=into)


class _Slicer:
    """The slice of a program that a violation is about."""

    def __init__(
        self, program: amir.Program, violation: Violation, instances: tuple[Instance, ...]
    ) -> None:
        self._program = program
        self._violation = violation
        self._instances = instances
        check = violation.check
        self._name = check.access.name if isinstance(check, amir.Check) else None
        self._element = Sym(violation.variable)
        self._local = _local(program.body, _variable(violation))
        """The variable belongs to a task."""
        self._end = last_instance_at(path_to(program.body, check), _values(violation))
        self.check: amir.Op | None = None
        """The instance of the check that fails."""
        self.copies: dict[amir.Op, Instance] = {}
        """The instances of the record that it may be about."""

    def program(self) -> amir.Program:
        """The slice."""
        body, _ = self._block(self._program.body, tuple(self._marks()))
        return replace(self._program, variables=self._variables(), body=body)

    def _variables(self) -> tuple[amir.Variable, ...]:
        variables = self._program.variables
        if self._name is None:
            return variables
        (whole,) = (v for v in variables if v.name == self._name)
        single = tuple(ir.Int(1) for _ in whole.shape)
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

    def _block(self, block: amir.Block, marks: tuple[_Mark, ...]) -> tuple[amir.Block, bool]:
        """The slice of a block, and whether it goes on after it: not after the check."""
        made: list[amir.Op] = []
        for op in block:
            inside = tuple(mark for mark in marks if mark.is_next(op))
            new, goes_on = self._marked(op, inside) if inside else (self._op(op), True)
            made += new
            if not goes_on:
                return tuple(made), False
        return tuple(made), True

    def _marked(self, op: amir.Op, marks: tuple[_Mark, ...]) -> tuple[amir.Block, bool]:
        match op:
            case amir.Loop():
                return self._split(op, marks)
            case amir.Guard():
                body, goes_on = self._block(op.body, tuple(m.entered() for m in marks))
                return (replace(op, body=body),) if body else (), goes_on
            case _:
                here = self._access(op) if isinstance(op, _ACCESSES) else self._op(op)
                new = replace(here[0] if here else op)
                # An Await may be at odds with an earlier one of its own.
                if marks[0].instance == self._end:
                    self.check = new
                    return (new,), False
                self.copies[new] = marks[0].instance
                return (new,), True

    def _split(self, op: amir.Loop, marks: tuple[_Mark, ...]) -> tuple[amir.Block, bool]:
        """A loop whose marked iterations are loops of their own, and the others as they are."""
        whole = not (self._local and begins_tasks(op.body))
        made: list[amir.Op] = []
        lo, goes_on = op.lo, True
        for value in sorted({mark.values[0] for mark in marks}):
            if whole:
                made += self._op(replace(op, lo=lo, hi=ir.Int(value)))
            inner = tuple(mark.entered() for mark in marks if mark.is_next(op, value))
            body, goes_on = self._block(op.body, inner)
            if body:
                made.append(replace(op, lo=ir.Int(value), hi=ir.Int(value + 1), body=body))
            lo = ir.Int(value + 1)
            if not goes_on:
                break
        if whole and goes_on:
            made += self._op(replace(op, lo=lo))
        return tuple(made), goes_on

    def _op(self, op: amir.Op) -> amir.Block:
        """An operation of which no instance is marked."""
        match op:
            case amir.Loop():
                lo, hi = op.lo, op.hi
                if (only := self._touching(op)) is not None:
                    lo, hi = only
                body, _ = self._block(op.body, ())
                return (replace(op, lo=lo, hi=hi, body=body),) if body else ()
            case amir.Guard():
                body, _ = self._block(op.body, ())
                return (replace(op, body=body),) if body else ()
            case amir.Alloc() | amir.Release():
                own = (replace(op, name=self._element),) if op.name == self._name else ()
                return (op, *own)
            case amir.Record() | amir.Check() | amir.Clear():
                return self._unmarked(op)
            case amir.IncTaskID() | amir.Fence() | amir.Arrive() | amir.Await():
                return (replace(op),)
            case amir.CheckBarrier():
                return (replace(op),) if op is self._violation.check else ()
            case amir.Require() | amir.Initialise() | amir.CheckInitialised():
                return ()  # No record has to do with what has been written.
            case _:
                assert_never(op)

    def _touching(self, loop: amir.Loop) -> tuple[ir.Int, ir.Int] | None:
        """The iterations of a loop of constant bounds that touch the element, where nothing else
        happens in it and every access names the iterator as a coordinate."""
        if not (isinstance(loop.lo, ir.Int) and isinstance(loop.hi, ir.Int)):
            return None
        touched: set[int] = set()
        for op in operations(loop.body):
            if isinstance(op, amir.Initialise | amir.CheckInitialised):
                continue
            if not isinstance(op, amir.Record | amir.Check | amir.Clear) or _trailing(op):
                return None
            if op.access.name != self._name:
                continue
            at = [
                index
                for coord, index in zip(op.access.coords, self._violation.index, strict=True)
                if isinstance(coord, ir.Point) and coord.at == ir.CVar(loop.iterator)
            ]
            if not at:
                return None
            touched.update(at)
        inside = [value for value in touched if loop.lo.value <= value < loop.hi.value]
        if not inside:
            return None
        return ir.Int(min(inside)), ir.Int(max(inside) + 1)

    def _unmarked(self, op: amir.Record | amir.Check | amir.Clear) -> amir.Block:
        """An access that is no instance of those that are looked for: nothing clears the element
        between these and the check, and only what signals a barrier has to do with the others."""
        return self._access(op) if _trailing(op) or self._name is None else ()

    def _access(self, op: amir.Record | amir.Check | amir.Clear) -> amir.Block:
        if op.access.name == self._name:
            here = replace(op, access=self._at_element(op.access))
            return (replace(here, inside=False) if isinstance(here, amir.Record) else here,)
        return (replace(op),) if isinstance(op, amir.Record) and op.trailing is not None else ()

    def _at_element(self, access: ir.Access) -> ir.Access:
        """The window, as far as it is the one element: it becomes element 0 of a variable of one
        element, and decision `bounds` drops the others."""
        coords = tuple(
            _subtract(coord, at)
            for coord, at in zip(access.coords, self._violation.index, strict=True)
        )
        return ir.Access(self._element, coords)


def _trailing(op: amir.Op) -> bool:
    return isinstance(op, amir.Record) and op.trailing is not None


def _subtract(coord: ir.Coord, by: int) -> ir.Coord:
    lower: Callable[[ir.CExpr], ir.CExpr] = lambda c: ir.Sub(c, ir.Int(by))  # noqa: E731
    match coord:
        case ir.Point():
            return ir.Point(lower(coord.at))
        case ir.Interval():
            return ir.Interval(lower(coord.lo), lower(coord.hi))
        case _:
            assert_never(coord)


def _local(block: amir.Block, name: Sym | None) -> bool:
    """Tests whether every allocation of the variable is in a task."""
    allocated = False
    for op in block:
        if isinstance(op, amir.IncTaskID):
            return any(isinstance(o, amir.Alloc) and o.name == name for o in block)
        if isinstance(op, amir.Alloc) and op.name == name:
            return False
        if isinstance(op, amir.Loop | amir.Guard):
            allocated = allocated or _local(op.body, name)
    return allocated


def _barrier_of(op: amir.Op) -> Sym | None:
    match op:
        case amir.Arrive():
            return op.home.name
        case amir.Await():
            return op.barrier.name
        case amir.CheckBarrier():
            return op.name
        case amir.Record():
            return None if op.trailing is None else op.trailing.home.name
        case (
            amir.Loop()
            | amir.Guard()
            | amir.IncTaskID()
            | amir.Alloc()
            | amir.Release()
            | amir.Check()
            | amir.Clear()
            | amir.Fence()
        ):
            return None
        case amir.Require() | amir.Initialise() | amir.CheckInitialised():
            return None
        case _:
            assert_never(op)
