"""Reads roles that run side by side as one sequential program.

Loops of as many iterations become one loop, and steps take turns so that an arrival comes before
the wait for it.  Where a role has executed an iteration ahead of its loop, or executes one after
it, those of the other roles are peeled off their loops.  Each role's own order is kept, so any
order that is found is one of the program's executions; whether it stands for all of them is what
the prover decides.
"""

from __future__ import annotations

from collections import Counter
from collections.abc import Mapping, Sequence
from dataclasses import replace
from typing import Final

from exogpu.diagnostics.errors import Span
from exogpu.importing import role_events
from exogpu.importing.mbarrier_rings import steps
from exogpu.importing.polynomial_values import Value, atom_value, integer_value
from exogpu.importing.refusals import unordered
from exogpu.importing.substitution import rewritten


def side_by_side(
    roles: Sequence[role_events.Role], labels: Mapping[str, str], at: Span
) -> tuple[role_events.Item, ...]:
    """One sequence of the items of all roles.  Raises RefusedError (K105) where none is found."""
    queues = {role.name: list(role.items) for role in roles if role.items}
    return tuple(_merged(queues, Counter(), labels, at))


def _merged(
    queues: dict[str, list[role_events.Item]],
    arrived: Counter[str],
    labels: Mapping[str, str],
    at: Span,
) -> list[role_events.Item]:
    found: list[role_events.Item] = []
    ahead: set[str] = set()
    while any(queues.values()):
        moved = False
        for queue in queues.values():
            while queue and _ready(queue[0], queues, arrived):
                step = queue.pop(0)
                assert isinstance(step, role_events.Step)
                _count(step, arrived)
                found.append(step)
                moved = True
                if _synchronises(step):
                    ahead.add(step.role)
        if moved:
            continue
        heads = {name: queue[0] for name, queue in queues.items() if queue}
        loops = {name: head for name, head in heads.items() if isinstance(head, role_events.Loop)}
        if not loops:
            raise unordered(_deadlock_text(heads, queues, labels), next(iter(heads.values())).span)
        if _peel(loops, queues, ahead):
            continue
        found.append(_fused(_common_loops(loops, heads), queues, arrived, labels, at))
    return found


def _ready(
    item: role_events.Item, queues: Mapping[str, list[role_events.Item]], arrived: Counter[str]
) -> bool:
    """Returns whether a step need not wait for one that comes later."""
    match item:
        case role_events.Loop():
            return False
        case role_events.Step(event=role_events.Wait(lag=lag) as wait) if lag == Value():
            name = wait.barrier.array
            return arrived[name] > 0 or not _arrives_later(name, queues)
        case role_events.Step():
            return True


def _arrives_later(name: str, queues: Mapping[str, list[role_events.Item]]) -> bool:
    """Returns whether an arrival on the barrier comes before the next loop of its role."""
    for queue in queues.values():
        for item in queue:
            if isinstance(item, role_events.Loop):
                break
            if _arrives(item) == name:
                return True
    return False


def _arrives(step: role_events.Step) -> str:
    match step.event:
        case role_events.Signal() | role_events.Expect():
            return step.event.barrier.array
        case _:
            return ""


def _count(step: role_events.Step, arrived: Counter[str]) -> None:
    if name := _arrives(step):
        arrived[name] += 1
    if isinstance(step.event, role_events.Wait) and step.event.lag == Value():
        arrived[step.event.barrier.array] -= 1


def _common_loops(
    loops: Mapping[str, role_events.Loop], heads: Mapping[str, role_events.Item]
) -> Mapping[str, role_events.Loop]:
    """The loops that most roles have come to, with one trip count."""
    counts = Counter(loop.trips for loop in loops.values())
    (trips, _), *_ = counts.most_common(1)
    return {name: loop for name, loop in loops.items() if loop.trips == trips}


MOST: Final = 4
"""Iterations that are peeled at most."""


def _peel(
    loops: Mapping[str, role_events.Loop],
    queues: dict[str, list[role_events.Item]],
    ahead: set[str],
) -> bool:
    """Peels iterations off loops that have some more than another role's, whose own iterations
    ahead of the loop, or after it, are steps already.  Returns whether there are any.

    The longer loops have these iterations: counts of loops that wait or arrive are not negative
    (`exogpu.importing.trip_counts`).
    """
    shortest = min(loops, key=lambda name: loops[name].trips.offset)
    short = loops[shortest]
    found = False
    for name, loop in loops.items():
        more = (loop.trips - short.trips).constant
        if more is None or not 0 < more <= MOST:
            continue
        if not all(any(map(_synchronises, steps(one.body))) for one in (short, loop)):
            continue
        first = shortest in ahead and name not in ahead
        last = not first and any(map(_synchronises, queues[shortest][1:]))
        if not first and not last:
            continue
        turns = [integer_value(at) if first else short.trips + at for at in range(more)]
        peeled = [one for turn in turns for one in rewritten(loop.body, {loop.counter: turn})]
        later = atom_value(loop.counter) + (more if first else 0)
        left = replace(loop, trips=short.trips, body=rewritten(loop.body, {loop.counter: later}))
        queues[name][:1] = [*peeled, left] if first else [left, *peeled]
        found = True
    return found


def _synchronises(item: role_events.Item) -> bool:
    """Returns whether a step waits or arrives on an mbarrier."""
    kinds = (role_events.Wait, role_events.Signal, role_events.Expect)
    return isinstance(item, role_events.Step) and isinstance(item.event, kinds)


def _fused(
    loops: Mapping[str, role_events.Loop],
    queues: dict[str, list[role_events.Item]],
    arrived: Counter[str],
    labels: Mapping[str, str],
    at: Span,
) -> role_events.Loop:
    first, *_ = loops.values()
    bodies: dict[str, list[role_events.Item]] = {}
    for name, loop in loops.items():
        queues[name].pop(0)
        bodies[name] = list(rewritten(loop.body, {loop.counter: atom_value(first.counter)}))
    body = _merged(bodies, Counter(arrived), labels, at)
    return replace(first, body=tuple(body))


def _deadlock_text(
    heads: Mapping[str, role_events.Item],
    queues: Mapping[str, list[role_events.Item]],
    labels: Mapping[str, str],
) -> str:
    """Describes the waits at which roles are stuck, and the arrivals that they wait for."""
    said = []
    for name, head in heads.items():
        if not (isinstance(head, role_events.Step) and isinstance(head.event, role_events.Wait)):
            continue
        array = head.event.barrier.array
        arrivals = [s for queue in queues.values() for s in steps(queue) if _arrives(s) == array]
        where = f", which arrives at line {arrivals[0].span.line}" if arrivals else ""
        said.append(f"{name} waits at line {head.span.line} for {labels[array]}{where}")
    return "the roles wait for each other: " + "; ".join(said)
