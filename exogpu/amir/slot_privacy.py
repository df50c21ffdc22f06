"""Slots that are private to a cluster, and what a program has to require of them (decision
`private-slot`).

A barrier that resides counts what its own cluster has done: another cluster that executes the task
has another number.  So a slot of it indexes memory that resides, and is nothing else.  Which
element it is does not matter where all accesses go through slots that differ alike in each task:

for m in tasks(0, M):                    for m in tasks(0, M):
    IncTaskID                                IncTaskID
    for s in slot(full) of 3:      ->        for a in slot(full) of 3:
        write tile[s]                            for b in slot(empty) of 3:
    for s in slot(empty) of 3:                       require a = b
        read tile[s]                         for s in slot(full) of 3:
                                                 ...

Where another access names an element by itself, as `tile[1]`, the slots are 0 when a task begins.
"""

from __future__ import annotations

from collections.abc import Iterator, Mapping, Sequence
from dataclasses import dataclass, field, replace
from functools import reduce

from exogpu.amir import nodes as amir
from exogpu.amir.walk import is_task, operations
from exogpu.analysis.threadmap import ThreadMap
from exogpu.diagnostics.errors import Span
from exogpu.diagnostics.hazards import HazardKind
from exogpu.ir import nodes as ir
from exogpu.ir.types import Sym
from exogpu.ir.walk import control_variables, is_whole, read_by, substitute_bool


class PrivateSlotError(ValueError):
    """A slot that is private to a cluster is used as a number; it carries reason and place."""

    def __init__(self, reason: str, span: Span) -> None:
        super().__init__(reason)
        self.reason = reason
        self.span = span


@dataclass(frozen=True, slots=True)
class PrivateSlot:
    """The number of Arrives on an element of a barrier that resides, modulo the ring."""

    barrier: ir.Access
    ring: int


@dataclass(frozen=True, slots=True)
class Touch:
    """The index of an access into one dimension of resident memory."""

    slot: PrivateSlot | None
    """None where the access names the element by itself."""
    guards: tuple[ir.BExpr, ...]
    """The conditions around the access that are of sizes alone."""
    origin: amir.Origin


@dataclass(frozen=True, slots=True)
class Comparison:
    """A condition on the slots of one dimension of a variable, required as a task begins."""

    variable: Sym
    slots: tuple[PrivateSlot, ...]
    condition: ir.BExpr
    """The condition on the slots; slot number i is the variable `number_of(i)`."""
    first: amir.Origin
    second: amir.Origin
    """The two accesses of which it is required: the second is the one at fault."""


@dataclass(slots=True)
class _Task:
    """The accesses of one task to resident memory."""

    loop: amir.Loop
    touched: dict[tuple[Sym, int], list[Touch]] = field(default_factory=dict)


def number_of(place: int) -> Sym:
    """Returns the variable for a slot, by its place, in the condition of a comparison."""
    return Sym("slot", -2 - place)


def has_private_slots(program: amir.Program) -> bool:
    """Returns whether a slot is bound whose barrier is resident."""
    resident = {v.name for v in program.variables if v.resident}
    return bool(resident) and any(
        isinstance(op, amir.Loop) and op.slot is not None and op.slot.name in resident
        for op in operations(program.body)
    )


def with_comparisons(program: amir.Program) -> amir.Program:
    """The program in which each task requires what it has to of slots that are private; itself
    where there is nothing to require.  Raises PrivateSlotError."""
    if not has_private_slots(program):
        return program
    begun = {task.loop: _begin(task) for task in _Survey(program).tasks}
    if not any(begun.values()):
        return program
    return replace(program, body=tuple(_insert_requirements(op, begun) for op in program.body))


def check_private_slots(program: amir.Program) -> None:
    """Raises PrivateSlotError where a slot that is private is more than an index of memory that
    resides, or a task does not require what it has to."""
    if not has_private_slots(program):
        return
    for task in _Survey(program).tasks:
        stated = {*_requirements_of(task.loop.body[1:])}
        for one in _comparisons(task):
            if (one.slots, one.condition) not in stated:
                name = one.variable
                reason = f"nothing requires that the slots which index {name} differ as they should"
                raise PrivateSlotError(reason, one.second.span)


def comparison_of(program: amir.Program, require: amir.Require) -> Comparison | None:
    """Finds the comparison of slots, with its two accesses, that a Require of a program states."""
    for task in _Survey(program).tasks:
        begin = tuple(op for op in task.loop.body[1:] if require in operations((op,)))
        stated = {*_requirements_of(begin)}
        for one in _comparisons(task):
            if (one.slots, one.condition) in stated:
                return one
    return None


# --- what is accessed by which slot -----------------------------------------------------------


@dataclass(frozen=True, slots=True)
class _Scope:
    """The scope of a block: its slots, iterators that are 0, conditions and task."""

    slots: Mapping[Sym, PrivateSlot]
    single: frozenset[Sym]
    """Iterators that are 0."""
    guards: tuple[ir.BExpr, ...]
    task: _Task | None


class _Survey:
    """The tasks of a program, and by which slots they index what resides.

    Raises PrivateSlotError where a slot that is private is something else.
    """

    def __init__(self, program: amir.Program) -> None:
        self.tasks: list[_Task] = []
        self._resident = {v.name for v in program.variables if v.resident}
        self._memory = {v.name for v in program.variables if v.resident and v.mechanism is None}
        self._sizes = {p.name for p in program.params}
        self._outside: dict[Sym, amir.Origin] = {}
        self._block(program.body, _Scope({}, frozenset(), (), None))
        for task in self.tasks:
            for (name, _), touched in task.touched.items():
                if name in self._outside and any(touch.slot is not None for touch in touched):
                    reason = f"{name} is indexed by a slot, and accessed outside of tasks"
                    raise PrivateSlotError(reason, self._outside[name].span)

    def _block(self, block: amir.Block, around: _Scope) -> None:
        for op in block:
            self._op(op, around)

    def _op(self, op: amir.Op, around: _Scope) -> None:
        for what, read in _numbers(op):
            if any(name in around.slots for name in read):
                raise PrivateSlotError(f"a slot that is private {what}", op.origin.span)
        match op:
            case amir.Loop():
                self._block(op.body, self._enter_loop(op, around))
            case amir.Guard():
                sizes = control_variables(op.condition) <= self._sizes
                guards = (*around.guards, op.condition) if sizes else around.guards
                self._block(op.body, replace(around, guards=guards))
            case (
                amir.Record()
                | amir.Check()
                | amir.Clear()
                | amir.Initialise()
                | amir.CheckInitialised()
            ):
                if not (isinstance(op, amir.Check) and op.free):
                    self._access(op.access, op.origin, around)
            case _:
                pass

    def _enter_loop(self, loop: amir.Loop, around: _Scope) -> _Scope:
        if is_task(loop):
            task = _Task(loop)
            self.tasks.append(task)
            around = replace(around, task=task)
        if loop.slot is not None and loop.slot.name in self._resident:
            if around.task is None or not isinstance(loop.hi, ir.Int):
                reason = "a slot of what resides is bound outside of tasks"
                raise PrivateSlotError(reason, loop.origin.span)
            bound = PrivateSlot(loop.slot, loop.hi.value)
            return replace(around, slots={**around.slots, loop.iterator: bound})
        if (
            loop.lo == ir.Int(0)
            and loop.hi == ir.Int(1)
            and loop.slot is None
            and loop.source is None
        ):
            return replace(around, single=around.single | {loop.iterator})
        return around

    def _access(self, access: ir.Access, origin: amir.Origin, around: _Scope) -> None:
        resides = access.name in self._memory
        if resides and around.task is None:
            self._outside.setdefault(access.name, origin)
        for dim, coord in enumerate(access.coords):
            read = _variables_read(coord) & around.slots.keys()
            slot = None
            if read:
                if not resides:
                    reason = f"a slot that is private indexes {access.name}, which does not reside"
                    raise PrivateSlotError(reason, origin.span)
                (name, *others) = read
                if others or not is_whole(coord, name, around.single):
                    reason = f"a slot that is private is a part of an index of {access.name}"
                    raise PrivateSlotError(reason, origin.span)
                slot = around.slots[name]
            if resides and around.task is not None:
                touched = around.task.touched.setdefault((access.name, dim), [])
                touched.append(Touch(slot, around.guards, origin))


def _variables_read(coord: ir.Coord) -> frozenset[Sym]:
    if isinstance(coord, ir.Point):
        return control_variables(coord.at)
    return control_variables(coord.lo) | control_variables(coord.hi)


def _numbers(op: amir.Op) -> Iterator[tuple[str, frozenset[Sym]]]:
    """Yields the variables that an operation reads as numbers, with what it uses them for.

    The index of an access is none of them.  A Require does nothing, so it may read all.
    """
    threads = op.origin.threads
    for axis in () if threads is None else threads.axes:
        yield "chooses threads", control_variables(axis.offset)
    match op:
        case amir.Loop():
            yield "bounds a loop", control_variables(op.lo) | control_variables(op.hi)
            for one in (op.slot, op.source):
                if one is not None:
                    yield f"indexes {one.name}", read_by(one)
        case amir.Guard():
            yield "is a condition", control_variables(op.condition)
        case amir.Record():
            if op.trailing is not None:
                for one in (op.trailing.home, *op.trailing.targets):
                    yield f"indexes {one.name}", read_by(one)
        case amir.Arrive():
            for one in (op.home, *op.targets):
                yield f"indexes {one.name}", read_by(one)
        case amir.Await():
            yield f"indexes {op.barrier.name}", read_by(op.barrier)
        case (
            amir.Alloc()
            | amir.Release()
            | amir.CheckBarrier()
            | amir.IncTaskID()
            | amir.Fence()
            | amir.Require()
        ):
            return
        case amir.Check() | amir.Clear() | amir.Initialise() | amir.CheckInitialised():
            return


# --- what has to be required of it ------------------------------------------------------------


def _comparisons(task: _Task) -> Iterator[Comparison]:
    """Yields the comparisons of slots that a task requires, each once."""
    said: set[tuple[tuple[PrivateSlot, ...], ir.BExpr]] = set()
    for (name, _), touched in task.touched.items():
        for one in _of_dimension(name, touched):
            if (one.slots, one.condition) not in said:
                said.add((one.slots, one.condition))
                yield one


def _of_dimension(name: Sym, touched: Sequence[Touch]) -> Iterator[Comparison]:
    """Yields the comparisons for the slots that index one dimension of a variable.

    All slots are equal as the task begins.  They are 0 where an access names the element by itself,
    or where the rings have several depths.
    """
    first: dict[PrivateSlot, amir.Origin] = {}
    for touch in touched:
        if touch.slot is not None:
            first.setdefault(touch.slot, touch.origin)
    if not first:
        return
    bound = tuple(first)
    (one, at), *others = first.items()
    if len({slot.ring for slot in bound}) > 1:
        second = next(where for slot, where in others if slot.ring != one.ring)
        yield Comparison(name, bound, _all_zero(len(bound)), at, second)
        return
    for slot, where in others:
        equal = ir.Compare("==", ir.CVar(number_of(0)), ir.CVar(number_of(1)))
        yield Comparison(name, (one, slot), equal, at, where)
    named: dict[tuple[ir.BExpr, ...], amir.Origin] = {}
    for touch in touched:
        if touch.slot is None:
            named.setdefault(touch.guards, touch.origin)
    for guards, where in named.items():
        zero = _all_zero(len(bound))
        if guards:
            zero = ir.Or(ir.Not(reduce(ir.And, guards)), zero)
        yield Comparison(name, bound, zero, at, where)


def _all_zero(count: int) -> ir.BExpr:
    zero: list[ir.BExpr] = [
        ir.Compare("==", ir.CVar(number_of(at)), ir.Int(0)) for at in range(count)
    ]
    return reduce(ir.And, zero)


# --- the Requires ---------------------------------------------------------------------------


def _begin(task: _Task) -> amir.Block:
    """The Requires with which a task begins."""
    executing = task.loop.body[0].origin.threads
    return tuple(_requirement(one, executing) for one in _comparisons(task))


def _requirement(one: Comparison, executing: ThreadMap | None) -> amir.Op:
    names = [Sym(f"slot_{slot.barrier.name.name}") for slot in one.slots]
    values = {number_of(at): ir.CVar(name) for at, name in enumerate(names)}
    origin = replace(one.second, threads=executing)
    condition = substitute_bool(one.condition, values)
    made: amir.Op = amir.Require(HazardKind.SLOT, one.variable, (), (condition,), origin)
    for name, slot in reversed([*zip(names, one.slots, strict=True)]):
        made = amir.Loop(name, ir.Int(0), ir.Int(slot.ring), (made,), origin, slot=slot.barrier)
    return made


def _insert_requirements(op: amir.Op, begun: Mapping[amir.Loop, amir.Block]) -> amir.Op:
    if not isinstance(op, amir.Loop | amir.Guard):
        return op
    body = tuple(_insert_requirements(inner, begun) for inner in op.body)
    if isinstance(op, amir.Loop) and begun.get(op):
        body = (body[0], *begun[op], *body[1:])
    return op if body == op.body else replace(op, body=body)


def _requirements_of(block: amir.Block) -> Iterator[tuple[tuple[PrivateSlot, ...], ir.BExpr]]:
    """The slots and conditions of the Requires with which a block begins."""
    for op in block:
        slots: list[PrivateSlot] = []
        values: dict[Sym, ir.CExpr] = {}
        while isinstance(op, amir.Loop) and op.slot is not None and isinstance(op.hi, ir.Int):
            values[op.iterator] = ir.CVar(number_of(len(slots)))
            slots.append(PrivateSlot(op.slot, op.hi.value))
            if len(op.body) != 1:
                return
            (op,) = op.body
        if not isinstance(op, amir.Require):
            return
        if op.kind is HazardKind.SLOT and slots and not op.each:
            for condition in op.conditions:
                yield tuple(slots), substitute_bool(condition, values)
