"""Messages for faults of a barrier itself: BARRIER, DEADLOCK and PHASE."""

from __future__ import annotations

from collections.abc import Iterator, Mapping, Sequence
from dataclasses import dataclass, replace
from typing import Final

from exogpu.amir import nodes as amir
from exogpu.amir.walk import operations, path_to
from exogpu.diagnostics.hazards import HazardKind
from exogpu.explain import edits
from exogpu.explain.journey import counts_at, loops_apart
from exogpu.ir.nodes import Access, Int, Point
from exogpu.ir.types import BarrierMechanism, Sym
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
    z, barrier = element_of(violation), _barrier(violation)
    counts = None
    if program is not None and barrier is not None:
        counts = counts_at(program, sizes, violation, barrier)
    mechanism = _mechanism(program, barrier)
    if mechanism is not None and not mechanism.phased:
        # An Await of n waits for all arrivals but the newest n, so that only arrivals are left.
        repairs = tuple(_waits_for_all(program, violation, barrier))
        if counts is None:
            return Words(f"the last arrivals on {z} are never awaited", repairs)
        arrives, awaits = counts
        last = "last is" if arrives - awaits == 1 else f"last {arrives - awaits} are"
        return Words(f"of {_plural(arrives, 'arrival')} on {z} the {last} never awaited", repairs)
    if counts is None:
        return Words(f"at the end of {z} its arrives and awaits do not balance")
    arrives, awaits = counts
    message = f"{z} has {_plural(arrives, 'Arrive')} and {_plural(awaits, 'Await')} when it ends"
    ops = [op for op in _arrives(program, barrier) if _may_reach(op, violation.index)]
    waits = [op for op in _awaits(program, barrier) if _reaches(op.barrier, violation.index)]
    lines = " and ".join(f"the {_at_lines(each)}" for each in (ops, waits) if each)
    forgotten = not ops and waits and program is not None
    repairs = tuple(_given_back(program, violation, waits[0])) if forgotten and program else ()
    return Words(f"{message}: {lines}" if lines else message, repairs)


def _waits_for_all(
    program: amir.Program | None, violation: Violation, barrier: Sym | None
) -> Iterator[edits.Repair]:
    """One more Await of a commit group after the loop of its Arrives; or the last one with no
    arrivals left out; or one more after an Arrive."""
    name, arrives = violation.variable, []
    for op in () if program is None else operations(program.body):
        if isinstance(op, amir.Arrive) and barrier in _names(op):
            yield edits.Repair(f"wait for all of them before {name} ends", edits.Drained(op))
    for op in () if program is None else operations(program.body):
        if isinstance(op, amir.Await) and op.barrier.name is barrier and op.n > 0:
            text = f"let the Await at line {_line(op)} wait for all of them: 0 instead of {op.n}"
            yield edits.Repair(text, edits.Skip(op, 0), edits.Cost.DRAINED)
        if isinstance(op, amir.Arrive) and barrier in _names(op):
            arrives.append(op)
    for arrive in arrives:
        wait = f"Await({_name_of(violation)}, cuda_in_order, 0)"
        text = f"wait for all of them before {name} ends: {wait} after the Arrive at line "
        edit = edits.NewAwait(arrive, arrive.home, "cuda_in_order", 0, after=True)
        yield edits.Repair(text + str(_line(arrive)), edit)


def _plural(count: int, what: str) -> str:
    return f"{count} {what}" + ("" if count == 1 else "s")


# --- DEADLOCK -----------------------------------------------------------------------------------


def _deadlock(
    program: amir.Program | None, sizes: Mapping[str, int], violation: Violation
) -> Words:
    """Program order blocks: that is all rule 4.3 says, of whatever other order there may be."""
    z, check, record = element_of(violation), violation.check, violation.record
    signalling = _arrives(program, _barrier(violation))
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
        variable = _variable(program, _barrier(violation))
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
        text = f"add an Arrive >> {_name_of(violation)} before the Await at line {_line(check)}"
        named = _mechanism(program, check.barrier.name) is BarrierMechanism.NAMED_BARRIER
        edit = edits.NewArrive(check, check.barrier, "cuda_in_order")
        wrong_role = edits.Repair(text, edit, edits.Cost.DRAINED)
        own_role = (*_given_back(program, violation, check), *_signalled(program, check))
        repairs = (*own_role, wrong_role)
        return Words(
            f"no Arrive signals {z if signalling else violation.variable}, for which this Await "
            "waits",
            () if named else repairs,  # its threads do not arrive (D521)
            second=second,
        )
    later = [op for op in arrives if _comes_later(program, op, check)]
    repairs = (*(_arrive_first(op, check) for op in later), *_later_waits(program, check))
    return Words(
        _too_few(program, sizes, violation, check, arrives, later),
        repairs if loops_apart(program, check, arrives) is None else (),  # no skip lasts
        second=second,
    )


def _given_back(
    program: amir.Program, violation: Violation, check: amir.Await
) -> Iterator[edits.Repair]:
    """An Arrive at the end of what follows an Await of the barrier with which this one takes turns:
    by those who have been given what they now give back."""
    own = _variable(program, check.barrier.name)
    if own is None or own.mechanism is not BarrierMechanism.MBARRIER:
        return
    guard = own.guard or own.name
    others = {v.name for v in program.variables if guard in (v.name, v.guard)} - {own.name}
    if not others:
        alike = (v for v in program.variables if v.mechanism is own.mechanism)
        others = {v.name for v in alike} - {own.name}
    for wait in operations(program.body):
        if not isinstance(wait, amir.Await) or wait.origin.threads == check.origin.threads:
            continue
        if wait.barrier.name in others:
            path = path_to(program.body, wait)
            around = path[-2][1] if len(path) > 1 else None
            block = around.body if isinstance(around, amir.Loop | amir.Guard) else program.body
            at = path[-1][0]
            same = [op for op in block[at:] if op.origin.threads == wait.origin.threads]
            last = same[-1]
            what = "loop" if isinstance(last, amir.Loop) else "statement"
            text = (
                f"add an Arrive(cuda_in_order) >> {_name_of(violation)} after the {what} at line "
            )
            edit = edits.NewArrive(last, check.barrier, "cuda_in_order", after=True)
            yield edits.Repair(text + str(_line(last)), edit, edits.Cost.NOTHING)


def _signalled(program: amir.Program, check: amir.Await) -> Iterator[edits.Repair]:
    """An Arrive after an instruction that signals the barrier, by those who execute it."""
    found = {
        op.origin.span: op
        for op in operations(program.body)
        if isinstance(op, amir.Record) and check.barrier.name in _names(op)
    }
    for op in reversed(found.values()):
        assert op.trailing is not None
        edit = edits.NewArrive(op, op.trailing.home, "cuda_temporal", after=True)
        text = f"add an Arrive >> {op.trailing.home.name.name} after the instruction at line "
        yield edits.Repair(text + str(_line(op)), edit, edits.Cost.NOTHING)


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
    z, barrier = element_of(violation), _barrier(violation)
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
        return _line(arrive) > _line(wait)
    return ops.index(arrive) > ops.index(wait)


def _at_lines(ops: Sequence[amir.Arrive | amir.Await]) -> str:
    """`Arrive at line 3`, or at one of several."""
    lines, kind = [str(line) for line in dict.fromkeys(map(_line, ops))], type(ops[0]).__name__
    if not lines[1:]:
        return f"{kind} at line {lines[0]}"
    return f"{kind} at lines {', '.join(lines[:-1])} and {lines[-1]}"


def _completed(
    violation: Violation, record: amir.Record, arrives: list[amir.Arrive]
) -> Iterator[edits.Repair]:
    line = _line(record)
    for arrive in arrives:
        text = f"move the Arrive of line {_line(arrive)} after the instruction at line {line}"
        yield edits.Repair(text, edits.Moved(arrive, record))
    assert record.trailing is not None
    text = f"add an Arrive >> {_name_of(violation)} after the instruction at line {line}"
    yield edits.Repair(
        text, edits.NewArrive(record, record.trailing.home, "cuda_in_order", after=True)
    )


def _arrive_first(arrive: amir.Arrive, wait: amir.Await) -> edits.Repair:
    text = f"move the Arrive at line {_line(arrive)} before the Await at line {_line(wait)}"
    return edits.Repair(text, edits.Moved(arrive, wait, after=False))


def _later_waits(program: amir.Program | None, wait: amir.Await) -> Iterator[edits.Repair]:
    """The Await waits for an earlier arrival."""
    if _mechanism(program, wait.barrier.name) is BarrierMechanism.NAMED_BARRIER:
        return
    for n in range(wait.n - 1, wait.n - 1 - DEEPER, -1) if wait.n < 0 else ():
        text = f"let the Await at line {_line(wait)} wait for an earlier arrival: "
        yield edits.Repair(
            f"{text}{skip_text(n)} instead of {skip_text(wait.n)}", edits.Skip(wait, n)
        )


# --- PHASE --------------------------------------------------------------------------------------


def _phase(program: amir.Program | None, sizes: Mapping[str, int], violation: Violation) -> Words:
    variable = _variable(program, _barrier(violation))
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
            text = f"between the Await at line {_line(op)} and this one, {ORDINARY} where the "
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
            yield edits.Repair(text + str(_line(op)), edits.Skip(op, op.n - 1))


# --- the barrier at fault -----------------------------------------------------------------------


def _barrier(violation: Violation) -> Sym | None:
    """The variable that a violation names, as its operations know it."""
    for op in (violation.check, violation.record):
        for name in _names(op):
            if name.name == violation.variable:
                return name
    return None


def _names(op: amir.Op | None) -> tuple[Sym, ...]:
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


def _variable(program: amir.Program | None, name: Sym | None) -> amir.Variable | None:
    variables = () if program is None else program.variables
    return next((variable for variable in variables if variable.name is name), None)


def _mechanism(program: amir.Program | None, name: Sym | None) -> BarrierMechanism | None:
    variable = _variable(program, name)
    return None if variable is None else variable.mechanism


def _arrives(program: amir.Program | None, name: Sym | None) -> list[amir.Arrive]:
    """Returns the Arrives on a barrier, as in the program text."""
    ops = () if program is None else operations(program.body)
    return [op for op in ops if isinstance(op, amir.Arrive) and name in _names(op)]


def _awaits(program: amir.Program | None, name: Sym | None) -> list[amir.Await]:
    ops = () if program is None else operations(program.body)
    return [op for op in ops if isinstance(op, amir.Await) and name in _names(op)]


def _name_of(violation: Violation) -> str:
    """A barrier as a statement names it: `z[...]` where it has elements."""
    return violation.variable + ("[...]" if violation.index else "")


def _line(op: amir.Op) -> int:
    return op.origin.span.line
