"""Violations of the abstract machine as hazards that a person can act on."""

from __future__ import annotations

from collections.abc import Callable, Iterable, Mapping, Sequence
from dataclasses import dataclass, replace
from typing import Final

from exogpu.amir.nodes import Check, Op, Program, Record
from exogpu.amir.walk import access_name, loops_of, path_to, short_names, synchronises
from exogpu.analysis.operand_windows import ALIGN, OVERLAP
from exogpu.analysis.thread_names import thread_names
from exogpu.analysis.threadmap import threads_of
from exogpu.diagnostics.hazards import Hazard, HazardKind, Occurrence
from exogpu.explain.advice import advice, otherwise, overlapping, slot_words
from exogpu.explain.barrier_hazards import Words, barrier_words, element_of
from exogpu.explain.broken_link import BrokenLink, broken_link, verb_of
from exogpu.explain.edits import Cost, Counted, Repair
from exogpu.explain.flag_repairs import flag_repairs
from exogpu.explain.lifetime_hazards import first_successor, successor
from exogpu.explain.patch import changes
from exogpu.explain.placement_repairs import late_arrives, placement_repairs
from exogpu.explain.repairs import general_repairs, resident_names
from exogpu.explain.trials import Budget, Judge, Trials, Writer
from exogpu.explain.value_repairs import value_repairs
from exogpu.hw.access_names import CALLED
from exogpu.ir.types import Level, QualTL
from exogpu.ir.walk import control_variables
from exogpu.machine.index_contents import with_contents
from exogpu.machine.observer import Violation

CODES: Final[Mapping[HazardKind, str]] = {
    HazardKind.RAW: "H701",
    HazardKind.WAR: "H702",
    HazardKind.WAW: "H703",
    HazardKind.FREE: "H704",
    HazardKind.LEAK: "H708",
    HazardKind.UNINIT: "H710",
    HazardKind.BARRIER: "H705",
    HazardKind.DEADLOCK: "H706",
    HazardKind.PHASE: "H707",
    HazardKind.BOUNDS: "B601",
    HazardKind.OVERLAP: OVERLAP,
    HazardKind.ALIGN: ALIGN,
    HazardKind.DIVERGENCE: "H730",
    HazardKind.OWNERSHIP: "D518",
    HazardKind.SLOT: "H709",
}
"""The code of each kind of hazard that the machine finds."""


def first_of_each_pair(violations: Iterable[Violation]) -> tuple[Violation, ...]:
    """The first violation of each kind, variable and pair of statements."""
    first: dict[object, Violation] = {}
    for v in violations:
        record = v.record.origin.span if v.record is not None else None
        first.setdefault((v.kind, v.variable, record, v.check.origin.span), v)
    return tuple(first.values())


@dataclass(frozen=True, slots=True)
class Told:
    """A violation in words, and the repair among them."""

    hazard: Hazard
    violation: Violation
    repair: Repair | None


def hazards_of(
    violations: Iterable[Violation],
    sizes: Mapping[str, int],
    program: Program | None = None,
    judge: Judge | None = None,
    writer: Writer | None = None,
    budget: Budget | None = None,
) -> tuple[Hazard, ...]:
    """The hazards, in the order of the violations, which are all that the machine finds at the
    sizes; with the program, their broken links too, and repairs that were tried on it."""
    if program is None:
        return tuple(hazard_of(violation, sizes) for violation in violations)
    violations = tuple(violations)
    trials = Trials(program, sizes, violations, judge=judge, writer=writer, budget=budget)
    told: list[Told] = []
    for violation in violations:
        told.append(tell(violation, sizes, program, trials, told))
    return with_shared_repairs(told, lambda _: trials)


def with_shared_repairs(
    told: Sequence[Told], trials: Callable[[Hazard], Trials]
) -> tuple[Hazard, ...]:
    """The hazards, those without a repair of their own with one of another that mends them too."""
    known = _repairs_so_far(told)

    def mended(one: Told) -> Hazard:
        if one.repair is not None or one.hazard.help:
            return one.hazard
        helpful = trials(one.hazard).helpful(one.violation, known)
        repair = next(iter(helpful), None)
        if repair is None:
            return one.hazard
        made = repair.changes or changes(repair)
        return replace(one.hazard, help=repair.text, changes=made)

    return deduplicate_hazards(map(mended, told))


def deduplicate_hazards(hazards: Iterable[Hazard]) -> tuple[Hazard, ...]:
    """The hazards, those of one Await at which program order blocks as one, at its smallest sizes:
    what the first of them says, with the Arrive that comes too late if one does at these sizes."""
    kept: dict[object, Hazard] = {}
    for number, hazard in enumerate(hazards):
        await_ = hazard.second if hazard.first is None else hazard.first
        blocks = hazard.kind is HazardKind.DEADLOCK
        key = (hazard.variable, await_.span) if blocks else number
        known = kept.setdefault(key, hazard)
        if known.first is None and hazard.first is not None and known.sizes == hazard.sizes:
            both = replace(hazard, message=known.message, help=known.help or hazard.help)
            kept[key] = both
    return tuple(kept.values())


def hazard_of(
    violation: Violation, sizes: Mapping[str, int], program: Program | None = None
) -> Hazard:
    """One violation with both sites, what is missing between them, and a repair that helps."""
    trials = None if program is None else Trials(program, sizes)
    return tell(violation, sizes, program, trials).hazard


def tell(
    violation: Violation,
    sizes: Mapping[str, int],
    program: Program | None,
    trials: Trials | None,
    before: Sequence[Told] = (),
) -> Told:
    """One violation in words.

    With the program, the link of the chain that is broken, where it can be told; what mends an
    earlier one is tried first.
    """
    unknown = program  # what is loaded is any number
    if program is not None:
        program = with_contents(program, sizes, dict(violation.contents))
    if violation.kind in UNMET:
        return Told(_unmet(violation, sizes, program), violation, None)
    unwritten = _uninitialised_text(violation)
    broken = None if program is None or unwritten else broken_link(program, sizes, violation)
    words = barrier_words(program, sizes, violation)
    if unwritten:
        words = Words(unwritten)
    if words is None:
        message, role = _unordered(violation, sizes, program)
        words = Words(message, _repairs(violation, broken, program), second=role)
    resides = program is not None and violation.variable in resident_names(program)
    help, repair = advice(violation, resides, unknown), None
    of_tasks = () if broken is None else broken.repairs
    if overlapping(program, violation) is not None:
        help = "" if broken is None else broken.advice
    of_this = _repairs_to_try(violation, of_tasks if help else words.repairs, bool(help), program)
    if trials is not None and (of_this or before or not help):
        repair = next(trials.helpful(violation, _cheapest(_repairs_so_far(before), of_this)), None)
        help = help if repair is None else repair.text
    help = help or otherwise(violation, unknown)
    first = None
    if violation.record is not None:
        at = violation.record_iteration
        first = _statement_site(violation.record, at, sizes, words.first, program)
    second = _statement_site(violation.check, violation.iteration, sizes, words.second, program)
    if words.place is not None:
        second = _statement_site(words.place, None, sizes, words.second, program)
    hazard = Hazard(
        code=CODES[violation.kind],
        kind=violation.kind,
        variable=violation.variable,
        index=violation.index,
        sizes=dict(sizes),
        task=violation.task,
        first=first,
        second=second,
        message=f"{words.message}{_contents_text(violation)}",
        help=help,
        replayed=True,
        contents=violation.contents,
        link="" if broken is None else str(broken),
        changes=() if repair is None else repair.changes or changes(repair),
    )
    return Told(hazard, violation, repair)


def _repairs_to_try(
    violation: Violation, links: tuple[Repair, ...], advised: bool, program: Program | None
) -> tuple[Repair, ...]:
    """Lists repairs of a hazard, of which those that help are not known; where advice holds
    whatever the kernel is, few of them."""
    of_flags = flag_repairs(violation, program)
    if violation.kind is HazardKind.UNINIT:
        return (*value_repairs(violation, program), *late_arrives(violation, program))
    if advised and not (links or of_flags):
        return ()
    return (*of_flags, *links, *placement_repairs(violation, program))


def bare(violation: Violation, sizes: Mapping[str, int]) -> Told:
    """The two statements of a violation alone: for where more cannot be told."""
    check, record = violation.check.origin, violation.record
    first = None if record is None else Occurrence(record.origin.span, record.origin.text)
    hazard = Hazard(
        code=CODES[violation.kind],
        kind=violation.kind,
        variable=violation.variable,
        index=violation.index,
        sizes=dict(sizes),
        task=violation.task,
        first=first,
        second=Occurrence(check.span, check.text),
        message=f"the abstract machine finds {violation.kind.value} on {element_of(violation)}",
        help="",
        replayed=True,
    )
    return Told(hazard, violation, None)


def _cheapest(known: Sequence[Repair], others: Sequence[Repair]) -> list[Repair]:
    """Repairs in the order in which they are tried: what mends another hazard first, unless it
    drains a pipeline; then by what they cost one."""
    one_for_all = [one for one in known if one.cost < Cost.DRAINED]
    rest = [one for one in (*known, *others) if one not in one_for_all]
    return [*one_for_all, *sorted(rest, key=lambda one: one.cost)]


SHOWN: Final = 32
"""Elements of an array that a sentence names."""


def _contents_text(violation: Violation) -> str:
    """The contents with which it was found: `, where perm = [0, 0]`."""
    found = []
    for name, elements in violation.contents:
        more = ["..."] if len(elements) > SHOWN else []
        found.append(f"{name} = [{', '.join([*map(str, elements[:SHOWN]), *more])}]")
    return f", where {' and '.join(found)}" if found else ""


def _uninitialised_text(violation: Violation) -> str:
    """Describes a read of what no write has written; empty for other hazards."""
    read = f"the read of {element_of(violation)}"
    if violation.kind is HazardKind.UNINIT:
        return f"{read} finds what its memory holds: nothing has written it since its allocation"
    if violation.kind is not HazardKind.LEAK:
        return ""
    if violation.record_task is None:
        return f"{read} finds no write of its own task, but one of a task before"
    return (
        f"{read} in task {violation.task} finds no write of its own task, but one of task "
        f"{violation.record_task}"
    )


UNMET: Final[Mapping[HazardKind, str]] = {
    HazardKind.BOUNDS: "an element that it accesses lies outside of {name}, or of a window of it",
    HazardKind.OVERLAP: "two of its operands have an element of {name} in common",
    HazardKind.ALIGN: "its operand {name} does not lie in memory as it asks",
    HazardKind.DIVERGENCE: "some threads that it synchronises do not execute it",
    HazardKind.OWNERSHIP: "an element of a tile of {name} is held by another thread",
    HazardKind.SLOT: "the slots that index {name} do not differ as in the cluster's task before",
}
"""Sentences for unmet requirements: as a rule the analyses of bounds and operands find these first,
and say it better."""


def _unmet(violation: Violation, sizes: Mapping[str, int], program: Program | None) -> Hazard:
    """Describes a requirement of a statement that does not hold."""
    message, help, first = UNMET[violation.kind].format(name=violation.variable), "", None
    if violation.kind is HazardKind.SLOT and program is not None:
        told = slot_words(program, violation)
        if told is not None:
            message, help, place = told
            first = Occurrence(place.span, place.text)
    return Hazard(
        code=CODES[violation.kind],
        kind=violation.kind,
        variable=violation.variable,
        index=(),
        sizes=dict(sizes),
        task=violation.task,
        first=first,
        second=_statement_site(violation.check, violation.iteration, sizes, ""),
        message=message + _contents_text(violation),
        help=help,
        replayed=True,
        contents=violation.contents,
    )


def _repairs_so_far(told: Sequence[Told]) -> tuple[Repair, ...]:
    """The repairs so far, the last one first."""
    found = (one.repair for one in reversed(told) if one.repair is not None)
    return tuple(dict.fromkeys(found))


def _statement_site(
    op: Op,
    iteration: tuple[tuple[str, int], ...] | None,
    sizes: Mapping[str, int],
    role: str,
    program: Program | None = None,
) -> Occurrence:
    # No thread executes the end of a variable, which is shown at the statement before it.
    executed = iteration is not None and op.origin.ends is None
    threads = _threads(op, dict(sizes) | dict(iteration or ())) if executed else ""
    variables = () if program is None else program.variables
    own = frozenset[str]() if program is None else _own_iterators(program, op)
    return Occurrence(
        op.origin.span,
        op.origin.text,
        "" if synchronises(op, variables) else short_names(op),
        threads,
        tuple((name, value) for name, value in iteration or () if name not in own),
        role,
        access_name(op, variables),
        op.origin.ends,
    )


def _own_iterators(program: Program, op: Op) -> frozenset[str]:
    """Lists the iterators that the conversion puts around an operation: those of the units that an
    instruction is distributed over.  The source does not name them."""
    around = loops_of(path_to(program.body, op))
    own = (loop for loop in around if loop.origin.span == op.origin.span)
    return frozenset(loop.iterator.name for loop in own)


def _threads(op: Op, values: Mapping[str, int]) -> str:
    mapping = op.origin.threads
    if mapping is None:
        return "CPU"
    env = {
        name: values[name.name]
        for axis in mapping.axes
        for name in control_variables(axis.offset)
        if name.name in values
    }
    try:
        found = threads_of(mapping, env)
    except KeyError:  # an iterator of this name is not known where the record was made
        return ""
    return thread_names(found, mapping.block_dim or max(found) + 1, mapping.cluster_dim)


def _repairs(
    violation: Violation, broken: BrokenLink | None, program: Program | None
) -> tuple[Repair, ...]:
    """Returns repairs of the broken link; then those that order the two accesses without any.

    A free after an ordinary access asks for a Fence of all threads: no longer chain is better.
    """
    check, record = violation.check, violation.record
    assert isinstance(check, Check) and isinstance(record, Record)
    fenced = check.free and record.timeline in (QualTL.CUDA1, QualTL.CUDA2)
    link = () if broken is None or fenced else broken.repairs
    if program is not None and violation.variable in resident_names(program):
        link = (Repair("count the slots of the ring from task to task", Counted(record)), *link)
    return link + (() if program is None else general_repairs(violation, program))


def _unordered(
    violation: Violation, sizes: Mapping[str, int], program: Program | None
) -> tuple[str, str]:
    """Says which accesses are not ordered, and names the second statement, if the kind does not."""
    element, check, record = element_of(violation), violation.check, violation.record
    assert isinstance(check, Check) and isinstance(record, Record)
    if record.timeline is None:
        return f"the instruction that signals {element} may still be under way", ""
    what = "write" if record.mutate else "read"
    ordered = "ordered" if check.level is Level.TEMPORALLY_ORDERED else "ordered and visible"
    if check.level is Level.ATOMIC_ONLY:
        ordered = "atomic with it, or ordered and visible,"
    variables = () if program is None else program.variables
    made, word = access_name(record, variables), synchronises(record, variables)
    if check.free:
        access = f"the {what} of {element}, {_a(made)}," if made else f"the {what} of {element}"
        access = f"the {word} on {element}" if word else access
        return _lifetime_text(access, check, sizes, program)
    verb = verb_of(check)
    asked = access_name(check, variables)
    said = f"the {what} of {element}"
    if asked == made and check.timelines == {record.timeline}:
        many = CALLED[record.timeline].many
        return f"{said} is not {ordered} before the {verb}: both are {many}", ""
    return f"{said}, {_a(made)}, is not {ordered} before the {verb}, {_a(asked)}", ""


def _lifetime_text(
    access: str, check: Check, sizes: Mapping[str, int], program: Program | None
) -> tuple[str, str]:
    """Says who takes the bytes of memory that ends, and where."""
    by = None if program is None else successor(program, check)
    if program is None or by is None:
        return f"{access} is not ordered before its memory ends", ""
    size = first_successor(program, by.loops, sizes)
    there_is = f" (there is one from {size} on)" if size else ""
    message = f"{access} is not ordered before {by.called}{there_is} overwrites it"
    return message, f"where {by.called} takes its memory"


def _a(words: str) -> str:
    return f"{'an' if words[:1] in 'aeiou' else 'a'} {words}"
