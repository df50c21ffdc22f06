"""Messages for faults of a barrier itself: BARRIER, DEADLOCK and PHASE."""

from __future__ import annotations

from collections.abc import Iterator, Mapping, Sequence
from dataclasses import dataclass, replace
from typing import Final

from exogpu.amir import nodes as amir
from exogpu.amir.walk import operations
from exogpu.diagnostics.hazards import HazardKind
from exogpu.explain import edits
from exogpu.explain.balance_repairs import (
    arrives_on,
    awaits_of,
    barrier_at_fault,
    beside_loops,
    exchanges,
    given_back,
    line_of,
    mechanism_of,
    name_of,
    signalled,
    surplus,
    taken_back,
    variable_of,
    waits_for_all,
)
from exogpu.explain.journey import counts_at, loops_apart
from exogpu.ir.nodes import Access, Int, Point
from exogpu.ir.types import BarrierMechanism
from exogpu.machine.literal_barriers import await_counts
from exogpu.machine.observer import Violation

DEEPER: Final = 4
"""The number of skips that are tried beyond the one written."""


ORDINARY: Final = "Fence(cuda_in_order, cuda_in_order)"


@dataclass(frozen=True, slots=True)
class Words:
    """Message, what may repair it, what the two sites are; an empty role is that of the kind."""

    message: str
    repairs: tuple[edits.Repair, ...] = ()
    first: str = ""
    second: str = ""
    place: amir.Op | None = None
    """The statement at fault, where that is not the one at which the machine finds it."""


def barrier_words(
    program: amir.Program | None, sizes: Mapping[str, int], violation: Violation
) -> Words | None:
    """The words of a violation of a barrier; None of an access that is not ordered."""
    match violation.kind:
        case HazardKind.BARRIER:
            return _unbalanced(program, sizes, violation)
        case HazardKind.DEADLOCK:
            return _deadlock(program, sizes, violation)
        case HazardKind.PHASE:
            return _phase(program, sizes, violation)
        case _:
            return None


def element_of(violation: Violation) -> str:
    """`z[1, 2]`"""
    index = f"[{', '.join(map(str, violation.index))}]" if violation.index else ""
    return violation.variable + index


def skip_text(n: int) -> str:
    """The last operand of an Await as the language writes it: `~3`, or `1`."""
    return str(n) if n >= 0 else f"~{-n - 1}"


# --- BARRIER ------------------------------------------------------------------------------------


def _unbalanced(
    program: amir.Program | None, sizes: Mapping[str, int], violation: Violation
) -> Words:
    z, barrier = element_of(violation), barrier_at_fault(violation)
    counts = None
    if program is not None and barrier is not None:
        counts = counts_at(program, sizes, violation, barrier)
    mechanism = mechanism_of(program, barrier)
    if mechanism is not None and not mechanism.phased:
        # An Await of n waits for all arrivals but the newest n, so that only arrivals are left.
        repairs = tuple(waits_for_all(program, violation, barrier))
        left = f"the last arrivals on {z} are never awaited"
        if counts is not None:
            arrives, awaits = counts
            last = "last is" if arrives - awaits == 1 else f"last {arrives - awaits} are"
            left = f"of {_plural(arrives, 'arrival')} on {z} the {last} never awaited"
        own = [op for op in arrives_on(program, barrier) if _may_reach(op, violation.index)]
        if not own:
            return Words(left, repairs)
        return Words(left, repairs, second="the Arrive that is not awaited", place=own[-1])
    if counts is None:
        return Words(f"at the end of {z} its arrives and awaits do not balance")
    arrives, awaits = counts
    message = f"{z} has {_plural(arrives, 'Arrive')} and {_plural(awaits, 'Await')} when it ends"
    ops = [op for op in arrives_on(program, barrier) if _may_reach(op, violation.index)]
    waits = [op for op in awaits_of(program, barrier) if _reaches(op.barrier, violation.index)]
    lines = " and ".join(f"the {_at_lines(each)}" for each in (ops, waits) if each)
    found = iter(()) if program is None else _balance(program, violation, ops, waits, counts)
    return Words(f"{message}: {lines}" if lines else message, tuple(found))


def _balance(
    program: amir.Program,
    violation: Violation,
    arrives: Sequence[amir.Arrive],
    awaits: Sequence[amir.Await],
    counts: tuple[int, int],
) -> Iterator[edits.Repair]:
    """One more of what there is too little of, or one fewer of what there is too much of."""
    more = counts[0] > counts[1]
    if awaits and (not arrives or not more):
        yield from given_back(program, violation, awaits[0])
    if arrives and not awaits:
        yield from taken_back(program, violation, arrives[0])
    if mechanism_of(program, barrier_at_fault(violation)) is BarrierMechanism.NAMED_BARRIER:
        yield from beside_loops(arrives, awaits, more)
    yield from surplus(arrives, awaits, more)
    yield from surplus(awaits, arrives, not more)


def _plural(count: int, what: str) -> str:
    return f"{count} {what}" + ("" if count == 1 else "s")


# --- DEADLOCK -----------------------------------------------------------------------------------


def _deadlock(
    program: amir.Program | None, sizes: Mapping[str, int], violation: Violation
) -> Words:
    """Program order blocks: that is all rule 4.3 says, of whatever other order there may be."""
    z, check, record = element_of(violation), violation.check, violation.record
    signalling = arrives_on(program, barrier_at_fault(violation))
    arrives = [op for op in signalling if _may_reach(op, violation.index)]
    if isinstance(record, amir.Record):
        return Words(
            f"no Arrive completes the phase of {z} that this instruction signals",
            tuple(_completed(violation, record, arrives)),
            "the instruction that signals it",
            "where the barrier ends without that Arrive",
        )
    if isinstance(record, amir.Await):
        assert isinstance(check, amir.Arrive)
        variable = variable_of(program, barrier_at_fault(violation))
        if variable is not None and variable.counts_all:
            return Words(
                f"an Await of a flag waits for all that arrive on it, and this Arrive on {z} comes "
                "after one: tasks run in increasing order, and it may be waited for for ever, or "
                "be taken for an earlier one",
                (),
                "the Await",
                "the Arrive that comes later in program order",
            )
        return Words(
            f"the Await on {z} needs this Arrive, which comes after it: in program order it is "
            "never reached",
            (_arrive_first(check, record), *_later_waits(program, record)),
            "the Await at which program order blocks",
            "the Arrive that it waits for",
        )
    assert isinstance(check, amir.Await)
    second = "the Await at which program order blocks"
    if program is not None and not arrives:
        text = f"add an Arrive >> {name_of(violation)} before the Await at line {line_of(check)}"
        named = mechanism_of(program, check.barrier.name) is BarrierMechanism.NAMED_BARRIER
        edit = edits.NewArrive(check, check.barrier, "cuda_in_order")
        wrong_role = edits.Repair(text, edit, edits.Cost.DRAINED)
        own_role = (*given_back(program, violation, check), *signalled(program, check))
        repairs = (*own_role, wrong_role)
        return Words(
            f"no Arrive signals {z if signalling else violation.variable}, for which this Await "
            "waits",
            own_role if named else repairs,  # its threads do not arrive (D521)
            second=second,
        )
    later = [op for op in arrives if _comes_later(program, op, check)]
    repairs = (*(_arrive_first(op, check) for op in later), *_later_waits(program, check))
    named = mechanism_of(program, check.barrier.name) is BarrierMechanism.NAMED_BARRIER
    if program is not None and named:
        others = beside_loops(arrives, (), False)
        repairs = (*repairs, *others, *given_back(program, violation, check))
    awaits = awaits_of(program, check.barrier.name)
    repairs = (*repairs, *surplus(awaits, arrives, not later))
    if program is not None:
        repairs = (*exchanges(program, check), *repairs)
    return Words(
        _too_few(program, sizes, violation, check, arrives, later),
        repairs if loops_apart(program, check, arrives) is None else (),  # no skip lasts
        second=second,
    )


def _may_reach(op: amir.Arrive, index: tuple[int, ...]) -> bool:
    """Tests whether the element may be among the targets: no constant index says otherwise."""
    return any(_reaches(target, index) for target in op.targets)


def _reaches(target: Access, index: tuple[int, ...]) -> bool:
    return all(
        not isinstance(coord, Point) or not isinstance(coord.at, Int) or coord.at.value == i
        for coord, i in zip(target.coords, index, strict=False)
    )


def _too_few(
    program: amir.Program | None,
    sizes: Mapping[str, int],
    violation: Violation,
    check: amir.Await,
    arrives: list[amir.Arrive],
    late: list[amir.Arrive],
) -> str:
    """Explains which Arrive does not come before an Await, as far as the program shows."""
    z, barrier = element_of(violation), barrier_at_fault(violation)
    early = [op for op in arrives if op not in late]
    counts = None
    if program is not None and barrier is not None:
        counts = counts_at(program, sizes, violation, barrier)
    if counts is None:
        return f"nothing before this Await arrives on {z} as often as it waits for"
    if counts[0] > await_counts(*counts, check.n)[0]:
        return f"of all that arrive on {z}, one has not as often as this Await waits for"
    came = f"{_plural(counts[0], 'Arrive')} came before" if counts[0] else "none came before"
    number, _ = await_counts(*counts, check.n)
    missing = f"this Await waits for Arrive number {number + 1} on {z}, and {came}"
    if not early and late:
        return f"{missing}: the {_at_lines(late)} comes after it"
    if arrives:
        return f"{missing}: the {_at_lines(early or arrives)} does not come so often by then"
    return missing


def _comes_later(program: amir.Program | None, arrive: amir.Arrive, wait: amir.Await) -> bool:
    """Tests whether an Arrive stands behind an Await, in the program with its macros read."""
    ops = [] if program is None else list(operations(program.body))
    if arrive not in ops or wait not in ops:
        return line_of(arrive) > line_of(wait)
    return ops.index(arrive) > ops.index(wait)


def _at_lines(ops: Sequence[amir.Arrive | amir.Await]) -> str:
    """`Arrive at line 3`, or at one of several."""
    lines, kind = [str(line) for line in dict.fromkeys(map(line_of, ops))], type(ops[0]).__name__
    if not lines[1:]:
        return f"{kind} at line {lines[0]}"
    return f"{kind} at lines {', '.join(lines[:-1])} and {lines[-1]}"


def _completed(
    violation: Violation, record: amir.Record, arrives: list[amir.Arrive]
) -> Iterator[edits.Repair]:
    line = line_of(record)
    for arrive in arrives:
        text = f"move the Arrive of line {line_of(arrive)} after the instruction at line {line}"
        yield edits.Repair(text, edits.Moved(arrive, record))
    assert record.trailing is not None
    text = f"add an Arrive >> {name_of(violation)} after the instruction at line {line}"
    yield edits.Repair(
        text, edits.NewArrive(record, record.trailing.home, "cuda_in_order", after=True)
    )


def _arrive_first(arrive: amir.Arrive, wait: amir.Await) -> edits.Repair:
    text = f"move the Arrive at line {line_of(arrive)} before the Await at line {line_of(wait)}"
    return edits.Repair(text, edits.Moved(arrive, wait, after=False))


def _later_waits(program: amir.Program | None, wait: amir.Await) -> Iterator[edits.Repair]:
    """The Await waits for an earlier arrival."""
    if mechanism_of(program, wait.barrier.name) is BarrierMechanism.NAMED_BARRIER:
        return
    for n in range(wait.n - 1, wait.n - 1 - DEEPER, -1) if wait.n < 0 else ():
        text = f"let the Await at line {line_of(wait)} wait for an earlier arrival: "
        yield edits.Repair(
            f"{text}{skip_text(n)} instead of {skip_text(wait.n)}", edits.Skip(wait, n)
        )


# --- PHASE --------------------------------------------------------------------------------------


def _phase(program: amir.Program | None, sizes: Mapping[str, int], violation: Violation) -> Words:
    variable = variable_of(program, barrier_at_fault(violation))
    if isinstance(violation.check, amir.Await) and violation.record is None:
        return _waiter_ahead(program, sizes, violation, variable)
    message = (
        f"{element_of(violation)} can be a whole ring ahead of a thread that still waits on it"
    )
    second = "where the barrier ends" if isinstance(violation.check, amir.CheckBarrier) else ""
    if program is None or variable is None:
        return Words(message, second=second)
    if variable.depth is None:
        if violation.record is None:
            message = (
                f"{element_of(violation)} and a thread that waits on it can be a whole ring apart"
            )
        message += ": no ring of 1 to 32 arrivals is deep enough"
        return Words(message, second=second)
    message += f": {_deep(variable)}"
    return Words(message, tuple(_deepened(program, variable)), second=second)


def _waiter_ahead(
    program: amir.Program | None,
    sizes: Mapping[str, int],
    violation: Violation,
    variable: amir.Variable | None,
) -> Words:
    """(iii): nothing orders the waiter after the phase before."""
    check, z = violation.check, element_of(violation)
    assert isinstance(check, amir.Await)
    this, previous, deep = "its arrival", "the arrival a ring before", ""
    repairs = list(_after_another(program, violation, check))
    if program is not None and variable is not None and variable.depth is not None:
        deep = f" ({_deep(variable)})"
        repairs += _deepened(program, variable)
        counts = counts_at(program, sizes, violation, variable.name)
        if counts is not None:
            number, _ = await_counts(*counts, check.n)
            this, previous = f"arrival {number}", f"arrival {number - variable.depth}"
    what = (
        f"this Await may end before {this} of {z}: nothing orders its threads after an Await for "
        f"{previous}, whose mbarrier it uses again{deep}; until that one is over, the parity test "
        "passes at once"
    )
    if variable is not None and variable.mechanism is BarrierMechanism.NAMED_BARRIER:
        what = (
            f"this Await may come to {z} before the phase before is over: nothing orders its "
            f"threads after an Await for {previous}{deep}"
        )
    return Words(
        what,
        tuple(repairs),
        second="the Await that may run ahead",
    )


def _after_another(
    program: amir.Program | None, violation: Violation, check: amir.Await
) -> Iterator[edits.Repair]:
    """A Fence after another Await of the barrier, which may be the one a ring before."""
    for op in () if program is None else operations(program.body):
        if isinstance(op, amir.Await) and op.barrier.name is check.barrier.name and op is not check:
            pair = replace(violation, record=op, record_iteration=violation.iteration)
            text = f"between the Await at line {line_of(op)} and this one, {ORDINARY} where the "
            edit = edits.Between(pair, "cuda_in_order", "cuda_in_order")
            yield edits.Repair(f"{text}threads of both take part", edit)


def _deep(variable: amir.Variable) -> str:
    if variable.mechanism is BarrierMechanism.NAMED_BARRIER:
        return "a named barrier keeps one phase, in which its threads come once"
    depth = variable.depth or 0
    return f"the ring is {depth} deep, 1 plus the skips of its Awaits, which sum to {depth - 1}"


def _deepened(program: amir.Program, variable: amir.Variable) -> Iterator[edits.Repair]:
    """One skip more, at an Await of the guard group."""
    if variable.mechanism is BarrierMechanism.NAMED_BARRIER:
        return
    guard = variable.guard or variable.name
    group = {v.name for v in program.variables if guard in (v.name, v.guard)}
    for op in operations(program.body):
        if isinstance(op, amir.Await) and op.barrier.name in group:
            text = f"deepen the ring: {skip_text(op.n - 1)} instead of {skip_text(op.n)} at line "
            yield edits.Repair(text + str(line_of(op)), edits.Skip(op, op.n - 1))
