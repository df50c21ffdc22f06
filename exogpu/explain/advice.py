"""Advice for hazards for which no edit of the kernel is tried: contracts, flags, roles that share a
phase."""

from __future__ import annotations

from collections.abc import Iterator
from itertools import pairwise

from exogpu.amir.nodes import (
    Arrive,
    Await,
    Check,
    Guard,
    Loop,
    Op,
    Program,
    Record,
    Variable,
)
from exogpu.amir.walk import operations, path_to
from exogpu.explain.loops_apart import advice_of, loops_apart
from exogpu.explain.repair import are_tasks
from exogpu.ir.names import Sym
from exogpu.ir.nodes import Access, Point
from exogpu.ir.types import BarrierMechanism, QualTL
from exogpu.ir.walk import control_variables
from exogpu.machine.violation import Violation
from exogpu.result.hazards import HazardKind


def advice(violation: Violation, resides: bool, program: Program | None = None) -> str:
    """Returns advice that holds for the two accesses whatever the kernel is; empty if there is
    none. Of memory that `resides` one cluster executes both tasks."""
    if violation.kind is HazardKind.LEAK:
        return (
            f"write {violation.variable} in each task before it is read there: clusters choose "
            "their tasks and the order of them; what one task leaves to another goes through "
            "global memory, to a later launch"
        )
    if violation.kind is HazardKind.UNINIT:
        name = violation.variable
        return (
            f"write {name} before it is read there, or read what is written: the slot that was "
            f"filled, of a last tile the part that is filled; uninit({name}) says of elements that "
            "their values do not matter"
        )
    if resides or not (are_tasks(violation) and isinstance(violation.check, Check)):
        return ""
    return "; ".join(
        filter(None, (_whole_window(violation, program), _of_tasks(violation, program)))
    )


def _of_tasks(violation: Violation, program: Program | None) -> str:
    """Explains what lets two tasks access one element, or keeps them from it."""
    if told := _contracts(violation, program):
        return told
    if program is not None and any(v.counts_all for v in program.variables):
        return (
            "the later task awaits a flag on which the earlier one arrives after its access, by "
            "all threads that have made it"
        )
    return (
        "tasks of one kernel are ordered by flags alone: write different elements, reduce, or "
        "let the later task await a flag on which the earlier one arrives"
    )


def _whole_window(violation: Violation, program: Program | None) -> str:
    """Explains that an instruction counts as accessing more than its own conditions admit."""
    sites = [op.origin for op in (violation.record, violation.check) if op is not None]
    partial = {
        op.origin.instr: op.origin.span.line
        for op in (() if program is None else operations(program.body))
        if isinstance(op, Record)
        and op.origin in sites
        and op.access.name.name == violation.variable
        and op.origin.instr
        and not op.inside
        and op.timeline is QualTL.CUDA2
    }
    return "; ".join(
        f"{name} of line {line} counts for all of its window of {violation.variable}, also where "
        "it stores less: let the window end where that does"
        for name, line in partial.items()
    )


def otherwise(violation: Violation, program: Program | None) -> str:
    """Returns advice for the case that no repair helps."""
    variable = _barrier(violation, program)
    if variable is not None and program is not None:
        if variable.counts_all:
            return (
                "await elements on which earlier tasks alone arrive, or this one before: all "
                "Arrives on an element come before its Awaits in program order"
            )
        if variable.mechanism is BarrierMechanism.MBARRIER:
            return _one_after_the_other(violation, variable, program) or _roles(variable, program)
        if variable.mechanism is BarrierMechanism.NAMED_BARRIER:
            return (
                f"of {variable.name} each phase is an Arrive(cuda_in_order) by warps that do not "
                "wait, and after it an Await(..., cuda_in_order) by other warps: also the last one"
            )
        return ""
    return _contracts(violation, program) or _several_threads(violation, program)


def _several_threads(violation: Violation, program: Program | None) -> str:
    """One statement that several threads of a loop execute at once, on one element."""
    first, second = violation.record, violation.check
    if program is None or first is None or are_tasks(violation):
        return ""
    if first.origin.span != second.origin.span or violation.record_iteration is None:
        return ""
    loops = [op for _, op in path_to(program.body, second) if isinstance(op, Loop)]
    values = dict(violation.iteration), dict(violation.record_iteration)
    apart = [op for op in loops if len({of.get(op.iterator.name) for of in values}) > 1]
    if not apart or not apart[0].threads:
        return ""
    match first, second:
        case Record(), Check() if violation.kind is not HazardKind.WAW:
            if first.access != second.access:
                return _in_place(violation, apart[0])
        case _:
            pass
    return (
        f"the iterations of the loop at line {apart[0].origin.span.line} are executed at once: let "
        "one of them access it, give each an element of its own, or add atomically "
        "(cuda_atomic_add)"
    )


def _in_place(violation: Violation, loop: Loop) -> str:
    """A statement that writes what other iterations of it read."""
    name, line = loop.iterator.name, loop.origin.span.line
    earlier, later = (
        dict(of or ()).get(name) for of in (violation.record_iteration, violation.iteration)
    )
    apart = (
        "read it into registers in a loop of threads before, then "
        "Fence(cuda_in_order, cuda_in_order), then write in another loop"
    )
    if violation.kind is HazardKind.RAW:
        return (
            f"no fence mends this, for the sequential reading itself is at fault: {name} = {later} "
            f"of the loop at line {line} reads what {name} = {earlier} wrote; if what was there "
            f"before the loop is meant, {apart}"
        )
    return (
        f"{name} = {later} of the loop at line {line} writes what {name} = {earlier} reads: {apart}"
    )


def _contracts(violation: Violation, program: Program | None) -> str:
    """The contracts that exclude the contents with which the hazard was found."""
    if program is None:
        return ""
    sites = (violation.record, violation.check)
    read = set[str]().union(*(_read(program, op) for op in sites if op is not None))
    found = [(name, of) for name, of in violation.contents if name in read]
    broken = [told for name, of in found for told in _broken(name, of)]
    if not broken:
        return ""
    return f"if it is so, {' or '.join(broken)}; else write different elements, or add atomically"


def _read(program: Program, op: Op) -> set[str]:
    """The arrays whose values tell which elements a statement accesses, and when."""
    names: set[Sym] = set()
    arrays: set[str] = set()
    if isinstance(op, Check | Record):
        names |= _variables(op.access)
    for _, around in reversed(path_to(program.body, op)):
        if isinstance(around, Guard):
            names |= control_variables(around.condition)
        if isinstance(around, Loop) and around.iterator in names:
            names |= control_variables(around.lo) | control_variables(around.hi)
            if around.source is not None:
                names |= _variables(around.source)
                arrays.add(around.source.name.name)
    return arrays


def _variables(access: Access) -> set[Sym]:
    ends = [[c.at] if isinstance(c, Point) else [c.lo, c.hi] for c in access.coords]
    return set[Sym]().union(*(control_variables(e) for each in ends for e in each))


def _broken(name: str, contents: tuple[int, ...]) -> Iterator[str]:
    """The contracts that the contents do not keep.

    >>> list(_broken("offsets", (0, 1, 0)))
    ['assert monotone(offsets)', 'assert injective(offsets)']
    """
    if any(later < earlier for earlier, later in pairwise(contents)):
        yield f"assert monotone({name})"
    if len(set(contents)) < len(contents):
        yield f"assert injective({name})"


def _barrier(violation: Violation, program: Program | None) -> Variable | None:
    """The mbarrier or flag that ends unbalanced, or at which program order blocks."""
    if violation.kind not in (HazardKind.BARRIER, HazardKind.DEADLOCK) or program is None:
        return None
    found = (v for v in program.variables if v.name.name == violation.variable)
    return next((v for v in found if v.mechanism is not None), None)


def _one_after_the_other(violation: Violation, variable: Variable, program: Program) -> str:
    """The roles have a loop each, and none for the steps that they take in turn."""
    wait = violation.check
    ops = operations(program.body)
    arrives = [op for op in ops if isinstance(op, Arrive) and op.home.name is variable.name]
    apart = loops_apart(program, wait, arrives) if isinstance(wait, Await) else None
    return "" if apart is None else advice_of(apart)


def _roles(variable: Variable, program: Program) -> str:
    """Several roles await one mbarrier, or arrive on it, as if it had one phase for all."""
    name = variable.name
    ops = list(operations(program.body))
    awaits = [op for op in ops if isinstance(op, Await) and op.barrier.name is name]
    arrives = [op for op in ops if isinstance(op, Arrive) and op.home.name is name]
    z, turn = f"{name}[0], {name}[1], ...", "one phase is awaited, or arrived on, by one role"
    if variable.shape or not (len(awaits) > 1 or len(arrives) > 1):
        return ""
    side = "the Awaits" if len(awaits) > 1 else "the Arrives"
    other = "the Arrives" if len(awaits) > 1 else "the Awaits"
    return (
        f"{turn}: where several roles share each phase, declare {name}: barrier[2] with an element "
        f"for each of them, let {side} be on {z} and {other} on {name}[:]"
    )
