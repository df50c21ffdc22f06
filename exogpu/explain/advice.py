"""Advice for hazards for which no edit of the kernel is tried: contracts, flags, roles that share a
phase."""

from __future__ import annotations

from collections.abc import Iterator
from dataclasses import dataclass
from itertools import pairwise

from exogpu.amir import nodes as amir
from exogpu.amir.slot_privacy import PrivateSlot, comparison_of
from exogpu.amir.walk import operations, path_to
from exogpu.diagnostics.hazards import HazardKind
from exogpu.explain.journey import advice_of, loops_apart
from exogpu.explain.repairs import are_tasks
from exogpu.ir.nodes import Access, Compare, CVar, Int, Point
from exogpu.ir.types import BarrierMechanism, QualTL, Sym
from exogpu.ir.walk import control_variables
from exogpu.machine.observer import Violation


def advice(violation: Violation, resides: bool, program: amir.Program | None = None) -> str:
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
    if resides or not (are_tasks(violation) and isinstance(violation.check, amir.Check)):
        return ""
    return "; ".join(
        filter(None, (_whole_window(violation, program), _of_tasks(violation, program)))
    )


def _of_tasks(violation: Violation, program: amir.Program | None) -> str:
    """Explains what lets two tasks access one element, or keeps them from it."""
    if told := _contracts(violation, program):
        return told
    if _adds(violation, program):
        return "add atomically (cuda_atomic_add): tasks of one kernel are ordered by flags alone"
    if program is not None and any(v.counts_all for v in program.variables):
        return (
            "the later task awaits a flag on which the earlier one arrives after its access, by "
            "all threads that have made it"
        )
    return (
        "tasks of one kernel are ordered by flags alone: write different elements, reduce, or "
        "let the later task await a flag on which the earlier one arrives"
    )


def _whole_window(violation: Violation, program: amir.Program | None) -> str:
    """Explains that an instruction counts as accessing more than its own conditions admit."""
    sites = [op.origin for op in (violation.record, violation.check) if op is not None]
    partial = {
        op.origin.instr: op.origin.span.line
        for op in (() if program is None else operations(program.body))
        if isinstance(op, amir.Record)
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


def otherwise(violation: Violation, program: amir.Program | None) -> str:
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


def _several_threads(violation: Violation, program: amir.Program | None) -> str:
    """One statement that several threads of a loop execute at once, on one element."""
    first, second = violation.record, violation.check
    if program is None or first is None or are_tasks(violation):
        return ""
    if first.origin.span != second.origin.span or violation.record_iteration is None:
        return ""
    loops = [op for _, op in path_to(program.body, second) if isinstance(op, amir.Loop)]
    values = dict(violation.iteration), dict(violation.record_iteration)
    apart = [op for op in loops if len({of.get(op.iterator.name) for of in values}) > 1]
    if not apart or not apart[0].threads:
        return ""
    match first, second:
        case amir.Record(), amir.Check() if violation.kind is not HazardKind.WAW:
            if first.access != second.access:
                return _in_place(violation, apart[0])
        case _:
            pass
    return (
        f"the iterations of the loop at line {apart[0].origin.span.line} are executed at once: let "
        "one of them access it, give each an element of its own, or add atomically "
        "(cuda_atomic_add)"
    )


def _in_place(violation: Violation, loop: amir.Loop) -> str:
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


def _contracts(violation: Violation, program: amir.Program | None) -> str:
    """The contracts that exclude the contents with which the hazard was found."""
    if program is None:
        return ""
    sites = (violation.record, violation.check)
    read = set[str]().union(*(_index_arrays(program, op) for op in sites if op is not None))
    found = [(name, of) for name, of in violation.contents if name in read]
    padded = _padded_arrays(program)
    broken = [
        told for name, of in found for told in _broken_contracts(name, of, padded=name in padded)
    ]
    if not broken:
        return ""
    if _adds(violation, program):
        return (
            "add atomically (cuda_atomic_add), or write different elements; if the contents are "
            f"never so, {' or '.join(broken)}"
        )
    return f"if it is so, {' or '.join(broken)}; else write different elements, or add atomically"


def _adds(violation: Violation, program: amir.Program | None) -> bool:
    """Tests whether one statement adds to an element that other threads add to.

    What reads the element in its value has a check of that read, and another of the write."""
    first, second = violation.record, violation.check
    if not isinstance(first, amir.Record) or not isinstance(second, amir.Check):
        return False
    checks = [
        op
        for op in operations(() if program is None else program.body)
        if isinstance(op, amir.Check) and op.mutates and op.origin == second.origin
    ]
    alone = [op for op in checks if op.access == second.access]
    same = first.origin == second.origin and first.access == second.access
    return same and len(alone) == 1 and second.reads and not second.origin.instr


def _index_arrays(program: amir.Program, op: amir.Op) -> set[str]:
    """The arrays whose values tell which elements a statement accesses, and when."""
    names: set[Sym] = set()
    arrays: set[str] = set()
    if isinstance(op, amir.Check | amir.Record):
        names |= _variables(op.access)
    for _, around in reversed(path_to(program.body, op)):
        if isinstance(around, amir.Guard):
            names |= control_variables(around.condition)
        if isinstance(around, amir.Loop) and around.iterator in names:
            names |= control_variables(around.lo) | control_variables(around.hi)
            if around.source is not None:
                names |= _variables(around.source)
                arrays.add(around.source.name.name)
    return arrays


def _variables(access: Access) -> set[Sym]:
    ends = [[c.at] if isinstance(c, Point) else [c.lo, c.hi] for c in access.coords]
    return set[Sym]().union(*(control_variables(e) for each in ends for e in each))


def _padded_arrays(program: amir.Program) -> set[str]:
    """The arrays whose elements may be negative, which pads them."""
    return {
        op.source.name.name
        for op in operations(program.body)
        if isinstance(op, amir.Loop) and op.source is not None
        if isinstance(op.lo, Int) and op.lo.value < 0
    }


def _broken_contracts(name: str, contents: tuple[int, ...], *, padded: bool) -> Iterator[str]:
    """The contracts that the contents do not keep; of elements that are no padding.

    >>> list(_broken_contracts("offsets", (0, 1, 0), padded=False))
    ['assert monotone(offsets)', 'assert injective(offsets)']
    >>> list(_broken_contracts("slots", (-1, 4, 4, -1), padded=True))
    ['assert injective(slots, where >= 0)']
    """
    where = ", where >= 0" if padded else ""
    contents = tuple(value for value in contents if value >= 0 or not padded)
    if any(later < earlier for earlier, later in pairwise(contents)):
        yield f"assert monotone({name}{where})"
    if len(set(contents)) < len(contents):
        yield f"assert injective({name}{where})"


def _barrier(violation: Violation, program: amir.Program | None) -> amir.Variable | None:
    """The mbarrier or flag that ends unbalanced, or at which program order blocks."""
    if violation.kind not in (HazardKind.BARRIER, HazardKind.DEADLOCK) or program is None:
        return None
    found = (v for v in program.variables if v.name.name == violation.variable)
    return next((v for v in found if v.mechanism is not None), None)


def _one_after_the_other(
    violation: Violation, variable: amir.Variable, program: amir.Program
) -> str:
    """The roles have a loop each, and none for the steps that they take in turn."""
    wait = violation.check
    ops = operations(program.body)
    arrives = [op for op in ops if isinstance(op, amir.Arrive) and op.home.name is variable.name]
    apart = loops_apart(program, wait, arrives) if isinstance(wait, amir.Await) else None
    return "" if apart is None else advice_of(apart)


def _roles(variable: amir.Variable, program: amir.Program) -> str:
    """Several roles await one mbarrier, or arrive on it, as if it had one phase for all."""
    name = variable.name
    ops = list(operations(program.body))
    awaits = [op for op in ops if isinstance(op, amir.Await) and op.barrier.name is name]
    arrives = [op for op in ops if isinstance(op, amir.Arrive) and op.home.name is name]
    z, turn = f"{name}[0], {name}[1], ...", "one phase is awaited, or arrived on, by one role"
    if variable.shape or not (len(awaits) > 1 or len(arrives) > 1):
        return ""
    side = "the Awaits" if len(awaits) > 1 else "the Arrives"
    other = "the Arrives" if len(awaits) > 1 else "the Awaits"
    return (
        f"{turn}: where several roles share each phase, declare {name}: barrier[2] with an element "
        f"for each of them, let {side} be on {z} and {other} on {name}[:]"
    )


# Two accesses of which one belongs to a dependent launch, the other to one before it.

WAIT = "Fence(cuda_stream_sync, cuda_in_order)"


@dataclass(frozen=True, slots=True)
class Overlapping:
    """Two launches that may run together, by their lines."""

    first: int
    second: int

    def missing_order(self, action: str) -> str:
        """Explains why nothing orders the launches."""
        return (
            f"the launch at line {self.second} is dependent: it may begin before that of line "
            f"{self.first} has ended, and nothing waits for it before {action}"
        )

    def advice(self) -> str:
        """Returns the remedy."""
        return (
            f"wait first: move {WAIT} before it, where the same threads take part; or write none "
            "in this launch, which then waits before everything else"
        )


def overlapping(program: amir.Program | None, violation: Violation) -> Overlapping | None:
    """The launches of the two accesses of a violation, where the second is dependent."""
    if program is None or violation.record is None:
        return None
    order: list[amir.Op] = list(operations(program.body))
    if violation.record not in order or violation.check not in order:
        return None
    begin, end = order.index(violation.record), order.index(violation.check)
    ends = [op for op in order[begin:end] if isinstance(op, amir.Arrive) and op.launch]
    starts = [op for op in order[begin:end] if isinstance(op, amir.Fence) and op.launch]
    if not ends or not starts:
        return None
    return Overlapping(ends[0].origin.span.line, starts[-1].origin.span.line)


# Slots of one memory that have counted in another way in another task of a cluster, in words.


def slot_words(program: amir.Program, violation: Violation) -> tuple[str, str, amir.Origin] | None:
    """Returns the defect, the remedy and the access that the one at fault is compared with.

    Returns None where the requirement is not one of the program's own.
    """
    assert isinstance(violation.check, amir.Require)
    asked = comparison_of(program, violation.check)
    if asked is None:
        return None
    values = [value for _, value in violation.iteration][-len(asked.slots) :]
    begun = "a later task of the cluster"
    if violation.task is not None:
        begun = f"task {violation.task}"
    said = " and ".join(
        f"{_slot_text(slot)} is {value}" for slot, value in zip(asked.slots, values, strict=True)
    )
    name = violation.variable
    if all(slot.ring == asked.slots[0].ring for slot in asked.slots) and _compares(asked.condition):
        return (
            f"as {begun} begins, {said}: tasks do not arrive equally often on the barriers whose "
            f"slots index {name}",
            f"index {name} by slots of barriers on which each task arrives equally often, or of "
            "one barrier alone",
            asked.first,
        )
    rings = " and ".join(
        dict.fromkeys(f"{slot.ring} times on {slot.barrier.name}" for slot in asked.slots)
    )
    return (
        f"as {begun} begins, {said}, and in another cluster another number: which element of "
        f"{name} this access has among those of the slots changes from task to task",
        f"index {name} by slots in every access, or let each task arrive a multiple of {rings}",
        asked.first,
    )


def _slot_text(slot: PrivateSlot) -> str:
    return f"slot({slot.barrier.name})"


def _compares(condition: object) -> bool:
    return isinstance(condition, Compare) and isinstance(condition.right, CVar)
