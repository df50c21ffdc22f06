"""Repairs of barriers whose Arrives and Awaits do not balance: one more, one fewer, or one that
signals the other CTAs of a cluster, too."""

from __future__ import annotations

from collections.abc import Iterable, Iterator, Sequence
from dataclasses import replace
from typing import Final, TypeVar

from exogpu.amir import nodes as amir
from exogpu.amir.walk import operations, path_to
from exogpu.explain import edits
from exogpu.hw.timelines import ASYNC_PROXY
from exogpu.ir.nodes import Access, Int, Interval, Mod, Point
from exogpu.ir.types import BarrierMechanism, Sym
from exogpu.machine.observer import Violation

Sync = TypeVar("Sync", amir.Arrive, amir.Await)


def waits_for_all(
    program: amir.Program | None, violation: Violation, barrier: Sym | None
) -> Iterator[edits.Repair]:
    """One more Await of a commit group after the loop of its Arrives; or the last one with no
    arrivals left out; or one more after an Arrive."""
    name, arrives = violation.variable, []
    for op in () if program is None else operations(program.body):
        if isinstance(op, amir.Arrive) and barrier in barriers_of(op):
            yield edits.Repair(f"wait for all of them before {name} ends", edits.Drained(op))
    for op in () if program is None else operations(program.body):
        if isinstance(op, amir.Await) and op.barrier.name is barrier and op.n > 0:
            text = f"let the Await at line {line_of(op)} wait for all of them: 0 instead of {op.n}"
            yield edits.Repair(text, edits.Skip(op, 0), edits.Cost.DRAINED)
        if isinstance(op, amir.Arrive) and barrier in barriers_of(op):
            arrives.append(op)
    for arrive in arrives:
        wait = f"Await({name_of(violation)}, cuda_in_order, 0)"
        text = f"wait for all of them before {name} ends: {wait} after the Arrive at line "
        edit = edits.NewAwait(arrive, arrive.home, "cuda_in_order", 0, after=True)
        yield edits.Repair(text + str(line_of(arrive)), edit)


def given_back(
    program: amir.Program, violation: Violation, check: amir.Await
) -> Iterator[edits.Repair]:
    """An Arrive at the end of what follows an Await of the barrier with which this one takes turns:
    by those who have been given what they now give back, to all who copy into it."""
    for wait in operations(program.body):
        if not isinstance(wait, amir.Await) or wait.origin.threads == check.origin.threads:
            continue
        if wait.barrier.name in _partners(program, check.barrier.name):
            block, at = _block_of(program, wait)
            last = [op for op in block[at:] if op.origin.threads == wait.origin.threads][-1]
            what = "loop" if isinstance(last, amir.Loop) else "statement"
            text = f"add an Arrive(cuda_in_order) >> {name_of(violation)} after the {what} at line "
            for targets in _releases(program, check.barrier):
                edit = edits.NewArrive(last, check.barrier, "cuda_in_order", True, targets)
                yield edits.Repair(text + str(line_of(last)), edit, edits.Cost.NOTHING)


def taken_back(
    program: amir.Program, violation: Violation, arrive: amir.Arrive
) -> Iterator[edits.Repair]:
    """An Await before what those do who arrive on the barrier with which this one takes turns: of
    as many arrivals ago as the ring has slots."""
    for other in operations(program.body):
        if not isinstance(other, amir.Arrive) or other.origin.threads == arrive.origin.threads:
            continue
        if other.home.name in _partners(program, arrive.home.name):
            path = path_to(program.body, other)
            block, at = _block_of(program, other)
            first = next(op for op in block[: at + 1] if op.origin.threads is not None)
            slots = _slots(op for op in operations((path[-2][1],) if len(path) > 1 else block))
            named = mechanism_of(program, arrive.home.name) is BarrierMechanism.NAMED_BARRIER
            records = (op for op in operations(block) if isinstance(op, amir.Record))
            copied = any(op.timeline in ASYNC_PROXY for op in records)
            post = "cuda_generic_and_async" if copied else "cuda_in_order"
            for n in (1,) if named else slots:
                text = f"add an Await of {name_of(violation)} before line {line_of(first)}"
                edit = edits.NewAwait(first, arrive.home, post, -n if named else -n - 1)
                yield edits.Repair(text, edit, edits.Cost.NOTHING)


def _partners(program: amir.Program, name: Sym) -> set[Sym]:
    """The barriers with which one takes turns; where none is said to, all of its mechanism."""
    own = variable_of(program, name)
    if own is None or own.mechanism not in _TAKING_TURNS:
        return set()
    guard = own.guard or own.name
    found = {v.name for v in program.variables if guard in (v.name, v.guard)} - {own.name}
    alike = {v.name for v in program.variables if v.mechanism is own.mechanism}
    return found or alike - {own.name}


_TAKING_TURNS: Final = frozenset({BarrierMechanism.MBARRIER, BarrierMechanism.NAMED_BARRIER})


def _block_of(program: amir.Program, op: amir.Op) -> tuple[amir.Block, int]:
    """The block of an operation, and its place there."""
    path = path_to(program.body, op)
    around = path[-2][1] if len(path) > 1 else None
    block = around.body if isinstance(around, amir.Loop | amir.Guard) else program.body
    return block, path[-1][0]


def _slots(ops: Iterable[amir.Op]) -> list[int]:
    """The numbers of slots of the rings that are accessed."""
    accesses = (op.access for op in ops if isinstance(op, amir.Record))
    found = (
        coord.at.divisor
        for access in accesses
        for coord in access.coords
        if isinstance(coord, Point) and isinstance(coord.at, Mod)
    )
    return list(dict.fromkeys(found))


def _releases(program: amir.Program, barrier: Access) -> Iterator[tuple[Access, ...]]:
    """The targets of an Arrive that gives a slot back: where a copy lands in several CTAs, those of
    all of them first."""
    several = any(
        isinstance(coord, Interval)
        for op in operations(program.body)
        if isinstance(op, amir.Record) and op.trailing is not None
        for target in op.trailing.targets
        for coord in target.coords
    )
    if several:
        yield multicast_targets(program, barrier)
    yield ()


def multicast_targets(program: amir.Program, home: Access) -> tuple[Access, ...]:
    """The element of a barrier, and all that differ from it in one dimension; empty where it has
    no dimension."""
    variable = variable_of(program, home.name)
    if variable is None or not variable.shape:
        return ()
    lines = tuple(
        replace(home, coords=(*home.coords[:at], Interval(Int(0), extent), *home.coords[at + 1 :]))
        for at, extent in enumerate(variable.shape)
    )
    return lines if lines[1:] else (home, *lines)


def surplus(ops: Sequence[Sync], others: Sequence[amir.Op], more: bool) -> Iterator[edits.Repair]:
    """Yields, where there are too many Arrives or Awaits, the removal of one of those that the same
    threads execute."""
    for op in reversed(ops) if more else ():
        same = [one for one in ops if one is not op and one.origin.threads == op.origin.threads]
        if not same:
            continue
        kind, other = type(op).__name__, "Await" if isinstance(op, amir.Arrive) else "Arrive"
        text = (
            f"remove the {kind} of line {line_of(op)}: the same threads execute that of line "
            f"{line_of(same[0])}"
        )
        if len(ops) == 2 and len(others) == 1:
            text += f", and one {other} stands against both"
        yield edits.Repair(text, edits.Deletion(op), edits.Cost.NOTHING)


def exchanges(program: amir.Program, wait: amir.Await) -> Iterator[edits.Repair]:
    """Yields the exchange of two Awaits, where two roles each wait for their own Arrives."""
    waits = {op.origin.span: op for op in operations(program.body) if isinstance(op, amir.Await)}
    for other in waits.values() if _waits_for_itself(program, wait) else ():
        partner = other.barrier.name in _partners(program, wait.barrier.name)
        if partner and _waits_for_itself(program, other):
            first, second = sorted((wait, other), key=line_of)
            text = (
                f"exchange the barriers: let the Await at line {line_of(first)} wait on "
                f"{second.barrier.name.name}, and that at line {line_of(second)} on "
                f"{first.barrier.name.name}"
            )
            yield edits.Repair(text, edits.Exchange(first, second))


def _waits_for_itself(program: amir.Program, wait: amir.Await) -> bool:
    arrives = arrives_on(program, wait.barrier.name)
    return any(op.origin.threads == wait.origin.threads for op in arrives)


def beside_loops(
    arrives: Sequence[amir.Arrive], awaits: Sequence[amir.Await], more: bool
) -> Iterator[edits.Repair]:
    """Yields, of a named barrier, an Arrive before the first step or an Await after the last."""
    for op in awaits if more else arrives:
        yield edits.Repair("once more beside the loop", edits.BesideLoop(op, more))


def signalled(program: amir.Program, check: amir.Await) -> Iterator[edits.Repair]:
    """An Arrive after an instruction that signals the barrier, by those who execute it."""
    found = {
        op.origin.span: op
        for op in operations(program.body)
        if isinstance(op, amir.Record) and check.barrier.name in barriers_of(op)
    }
    for op in reversed(found.values()):
        assert op.trailing is not None
        edit = edits.NewArrive(op, op.trailing.home, "cuda_temporal", after=True)
        text = f"add an Arrive >> {op.trailing.home.name.name} after the instruction at line "
        yield edits.Repair(text + str(line_of(op)), edit, edits.Cost.NOTHING)


# --- the barrier at fault -----------------------------------------------------------------------


def barrier_at_fault(violation: Violation) -> Sym | None:
    """The variable that a violation names, as its operations know it."""
    for op in (violation.check, violation.record):
        for name in barriers_of(op):
            if name.name == violation.variable:
                return name
    return None


def barriers_of(op: amir.Op | None) -> tuple[Sym, ...]:
    match op:
        case amir.CheckBarrier():
            return (op.name,)
        case amir.Await():
            return (op.barrier.name,)
        case amir.Arrive():
            return tuple(access.name for access in op.targets)
        case amir.Record() if op.trailing is not None:
            return tuple(access.name for access in op.trailing.targets)
        case _:
            return ()


def variable_of(program: amir.Program | None, name: Sym | None) -> amir.Variable | None:
    variables = () if program is None else program.variables
    return next((variable for variable in variables if variable.name is name), None)


def mechanism_of(program: amir.Program | None, name: Sym | None) -> BarrierMechanism | None:
    variable = variable_of(program, name)
    return None if variable is None else variable.mechanism


def arrives_on(program: amir.Program | None, name: Sym | None) -> list[amir.Arrive]:
    """Returns the Arrives on a barrier, as in the program text."""
    ops = () if program is None else operations(program.body)
    return [op for op in ops if isinstance(op, amir.Arrive) and name in barriers_of(op)]


def awaits_of(program: amir.Program | None, name: Sym | None) -> list[amir.Await]:
    ops = () if program is None else operations(program.body)
    return [op for op in ops if isinstance(op, amir.Await) and name in barriers_of(op)]


def name_of(violation: Violation) -> str:
    """A barrier as a statement names it: `z[...]` where it has elements."""
    return violation.variable + ("[...]" if violation.index else "")


def line_of(op: amir.Op) -> int:
    return op.origin.span.line
