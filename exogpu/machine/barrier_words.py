"""What is wrong with a barrier itself, in words: BARRIER, DEADLOCK and PHASE."""

from __future__ import annotations

from collections.abc import Iterator, Mapping
from dataclasses import dataclass

from exogpu.ir.names import Sym
from exogpu.ir.types import BarrierMechanism
from exogpu.machine.amir import (
    Arrive,
    Await,
    Block,
    CheckBarrier,
    Guard,
    Loop,
    Op,
    Program,
    Record,
    Variable,
)
from exogpu.machine.journey import counts_at
from exogpu.machine.violation import Violation
from exogpu.verdict import HazardKind


@dataclass(frozen=True, slots=True)
class Words:
    """Message, repair, and what the two sites are; an empty role is that of the kind."""

    message: str
    help: str
    first: str = ""
    second: str = ""


def barrier_words(
    program: Program | None, sizes: Mapping[str, int], violation: Violation
) -> Words | None:
    """The words of a violation of a barrier; None of an access that is not ordered."""
    match violation.kind:
        case HazardKind.BARRIER:
            return _unbalanced(program, sizes, violation)
        case HazardKind.DEADLOCK:
            return _deadlock(program, violation)
        case HazardKind.PHASE:
            return _phase(program, violation)
        case _:
            return None


def ops_of(block: Block) -> Iterator[Op]:
    """Every operation, in the order of the program text."""
    for op in block:
        yield op
        if isinstance(op, Loop | Guard):
            yield from ops_of(op.body)


def element_of(violation: Violation) -> str:
    """`z[1, 2]`"""
    index = f"[{', '.join(map(str, violation.index))}]" if violation.index else ""
    return violation.variable + index


def skip_text(n: int) -> str:
    """The last operand of an Await as the language writes it: `~3`, or `1`."""
    return str(n) if n >= 0 else f"~{-n - 1}"


# --- BARRIER ------------------------------------------------------------------------------------


def _unbalanced(program: Program | None, sizes: Mapping[str, int], violation: Violation) -> Words:
    name, z = violation.variable, element_of(violation)
    barrier = _barrier(violation)
    counts = None
    if program is not None and barrier is not None:
        counts = counts_at(program, sizes, violation, barrier)
    if _mechanism(program, barrier) not in (None, BarrierMechanism.MBARRIER):
        # An Await of n waits for all arrivals but the newest n, so that only arrivals are left.
        repair = f"wait for all of them before {name} ends: Await({_written(violation)}, ..., 0)"
        if counts is None:
            return Words(f"the last arrivals on {z} are never awaited", repair)
        arrives, awaits = counts
        last = "last is" if arrives - awaits == 1 else f"last {arrives - awaits} are"
        return Words(f"of {_many(arrives, 'arrival')} on {z} the {last} never awaited", repair)
    if counts is None:
        return Words(
            f"at the end of {z} its arrives and awaits do not balance",
            "let every Arrive have one Await, and every Await its Arrive",
        )
    arrives, awaits = counts
    missing = _many(abs(arrives - awaits), "Await" if arrives > awaits else "Arrive")
    return Words(
        f"{z} has {_many(arrives, 'Arrive')} and {_many(awaits, 'Await')} when it ends",
        f"as many Awaits as Arrives: add {missing} of {z}, or leave out as many of the others",
    )


def _many(count: int, what: str) -> str:
    return f"{count} {what}" + ("" if count == 1 else "s")


# --- DEADLOCK -----------------------------------------------------------------------------------


def _deadlock(program: Program | None, violation: Violation) -> Words:
    z, check, record = element_of(violation), violation.check, violation.record
    lines = _arrive_lines(program, _barrier(violation))
    if isinstance(record, Record):
        repair = (
            f"add an Arrive >> {_written(violation)} after the instruction at line {_line(record)}"
        )
        if lines:
            repair = f"let the Arrive at line {lines[0]} follow every such instruction"
        return Words(
            f"no Arrive completes the phase of {z} that this instruction signals",
            repair,
            "the instruction that signals it",
            "where the barrier ends without that Arrive",
        )
    if isinstance(record, Await):
        return Words(
            f"the Await on {z} needs this Arrive, which comes after it",
            f"move the Arrive at line {_line(check)} before the Await at line {_line(record)}, "
            f"or let that wait for an earlier one: a larger skip than {skip_text(record.n)}",
            "the Await that waits for ever",
            "the Arrive that it waits for",
        )
    assert isinstance(check, Await)
    second = "the Await that may wait for ever"
    skip = f"let it wait for an earlier arrival: a larger skip than {skip_text(check.n)}"
    if program is not None and not lines:
        return Words(
            f"no Arrive signals {violation.variable}, for which this Await waits",
            f"add an Arrive >> {_written(violation)} before the Await at line {_line(check)}",
            second=second,
        )
    later = [line for line in lines if line > _line(check)]
    repair = f"let as many Arrives as it needs come before it, or {skip}"
    if later:
        repair = f"move the Arrive at line {later[0]} before the Await, or {skip}"
    return Words(
        f"nothing before this Await arrives on {z} as often as it waits for", repair, second=second
    )


# --- PHASE --------------------------------------------------------------------------------------


def _phase(program: Program | None, violation: Violation) -> Words:
    message = (
        f"{element_of(violation)} can be a whole ring ahead of a thread that still waits on it"
    )
    wait = "let the arrival that reuses the barrier wait until its readers are past it"
    second = "where the barrier ends" if isinstance(violation.check, CheckBarrier) else ""
    variable = _variable(program, _barrier(violation))
    if variable is None:
        return Words(message, wait, second=second)
    if variable.depth is None:
        message += ": no ring of 1 to 32 arrivals is deep enough"
        return Words(message, wait, second=second)
    skips = variable.depth - 1
    message += (
        f": the ring is {variable.depth} deep, 1 plus the skips of its Awaits, which sum to {skips}"
    )
    return Words(
        message,
        f"{wait}, or deepen the ring: skips that sum to m give depth m + 1, "
        f"so that ~{skips + 1} gives {skips + 2}",
        second=second,
    )


# --- the barrier at fault -----------------------------------------------------------------------


def _barrier(violation: Violation) -> Sym | None:
    """The variable that a violation names, as its operations know it."""
    for op in (violation.check, violation.record):
        for name in _names(op):
            if name.name == violation.variable:
                return name
    return None


def _names(op: Op | None) -> tuple[Sym, ...]:
    match op:
        case CheckBarrier():
            return (op.name,)
        case Await():
            return (op.barrier.name,)
        case Arrive():
            return tuple(access.name for access in op.targets)
        case Record() if op.trailing is not None:
            return tuple(access.name for access in op.trailing.targets)
        case _:
            return ()


def _variable(program: Program | None, name: Sym | None) -> Variable | None:
    variables = () if program is None else program.variables
    return next((variable for variable in variables if variable.name is name), None)


def _mechanism(program: Program | None, name: Sym | None) -> BarrierMechanism | None:
    variable = _variable(program, name)
    return None if variable is None else variable.mechanism


def _arrive_lines(program: Program | None, name: Sym | None) -> list[int]:
    """Where a barrier is arrived on, as in the program text."""
    ops = () if program is None else ops_of(program.body)
    return [_line(op) for op in ops if isinstance(op, Arrive) and name in _names(op)]


def _written(violation: Violation) -> str:
    """A barrier as a statement names it: `z[...]` where it has elements."""
    return violation.variable + ("[...]" if violation.index else "")


def _line(op: Op) -> int:
    return op.origin.span.line
