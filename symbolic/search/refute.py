"""From violations for all sizes to one concrete instance that the abstract machine confirms.

The sizes are the smallest with any violation (by sum, then lexicographic); the machine is run
there and must stop at a violation that was predicted: its first, which has the smallest task,
iteration and element in execution order.  Of every other pair of statements at fault there is a
refutation too, at the smallest sizes at which that pair is.
"""

from __future__ import annotations

from collections.abc import Callable, Collection, Iterable, Iterator, Mapping, Sequence
from dataclasses import dataclass, replace
from itertools import groupby, islice
from typing import Final, TypeAlias

from exogpu.amir import nodes as amir
from exogpu.amir.walk import path_to, select_operations
from exogpu.diagnostics.errors import NOWHERE, Span
from exogpu.diagnostics.hazards import HazardKind
from exogpu.ir.render import conjunction, identifier
from exogpu.machine.observer import Violation
from exogpu.solvers import isl
from exogpu.solvers import isl_relations as rel
from exogpu.solvers.isl import IslGaveUpError, limited
from exogpu.symbolic.search.admitted_sizes import admitted
from exogpu.symbolic.search.analysis import BUDGET, Evidence, Findings, Undecided
from exogpu.symbolic.search.dependences import Finding, holds_at
from exogpu.symbolic.search.ring_sizes import step_counts
from exogpu.symbolic.tasks_by_position import extents

Pair: TypeAlias = tuple[HazardKind, str, Span | None, Span]
"""Kind, variable and the two statements."""

Machine = Callable[[amir.Program, Mapping[str, int]], tuple[Violation, ...]]
"""Runs a program at sizes up to its first violation."""


SIZES: Final = 64
"""Sizes, smallest first, of which the steps of a ring are counted."""

TRIES: Final = 16
"""Sizes at which the machine is run where what is predicted may not happen."""


@dataclass(frozen=True, slots=True)
class Refutation:
    """A violation at the smallest sizes, found by the prover and by the concrete machine."""

    sizes: Mapping[str, int]
    violation: Violation
    finding: Finding | None
    """None for a violation of what the prover left undecided: the machine has the last word."""


def refute(
    program: amir.Program, findings: Findings, machine: Machine
) -> Refutation | Undecided | None:
    """The smallest refutation; None if no violation was found.

    Undecided where the machine does not confirm what was predicted, which is a mistake of this
    prover and is said as such.
    """
    if not findings.violations:
        return None
    tried: list[Mapping[str, int]] = []
    confirmed: tuple[Violation, ...] = ()
    for _ in range(TRIES if _approximates(findings) else 1):
        sizes = smallest_sizes(program, findings, tried)
        if sizes is None:
            break
        part = _part_failing(program, findings, sizes)
        confirmed = machine(part, sizes) or (machine(program, sizes) if part is not program else ())
        if confirmed:
            break
        tried.append(sizes)
    if not confirmed:
        return _unconfirmed(findings, tried)
    assert sizes is not None
    at = _sizes_text(sizes)
    violation = confirmed[0]
    loads = findings.evidence is not None and findings.evidence.model.loads
    for finding in () if loads else _failing_at(findings, sizes):
        if holds_at(finding, sizes, violation):
            return Refutation(sizes, violation, finding)
    by_step = findings.evidence is not None and _takes_out(findings.evidence)
    if findings.undecided or loads or by_step:
        return Refutation(sizes, violation, None)
    return Undecided(
        f"at {at} the concrete machine stops at a violation that was not predicted: this is a "
        "mistake of the prover",
        violation.check.origin.span if violation.check else NOWHERE,
    )


def _approximates(findings: Findings) -> bool:
    """Tests whether predicted hazards may be no real ones: slots in nests are compared by order
    alone, loaded values by ranges, the number of left-out tasks is unknown, and so are the tasks
    of a ring's steps."""
    return findings.evidence is not None and approximates(findings.evidence)


def approximates(evidence: Evidence) -> bool:
    """The same of what is found from some evidence."""
    model = evidence.model
    return bool(model.slots or model.loads or _leaves_out(evidence) or _takes_out(evidence))


def _takes_out(evidence: Evidence) -> bool:
    return any(one.ring is not None for one in evidence.model.by_position.residences)


def _leaves_out(evidence: Evidence) -> bool:
    return any(residence.chosen for residence in evidence.model.by_position.residences)


def _known_by_half(findings: Findings) -> str:
    match findings.evidence:
        case Evidence() as found if found.model.loads:
            return "values from memory"
        case Evidence() as found if _leaves_out(found):
            return "tasks that are left out"
        case Evidence() as found if _takes_out(found):
            return "steps of a ring"
        case _:
            return "slots"


def _sizes_text(sizes: Mapping[str, int]) -> str:
    return ", ".join(f"{name} = {value}" for name, value in sizes.items())


def _unconfirmed(findings: Findings, tried: Sequence[Mapping[str, int]]) -> Undecided:
    first = findings.violations[0].check.op.origin.span
    if not tried:
        return Undecided("the sizes with a violation have no smallest one", first)
    at = _sizes_text(tried[0])
    span = next(_failing_at(findings, tried[0])).check.op.origin.span
    if _approximates(findings):
        return Undecided(
            f"by what is known of the {_known_by_half(findings)} there may be a violation at {at}, "
            "and the concrete machine finds none there, nor at the next sizes",
            span,
        )
    return Undecided(
        f"a violation was predicted at {at}, and the concrete machine finds none: "
        "this is a mistake of the prover",
        span,
    )


def smallest_sizes(
    program: amir.Program, findings: Findings, without: Sequence[Mapping[str, int]] = ()
) -> dict[str, int] | None:
    """The sizes with a violation of the smallest sum, the lexicographically smallest of them.

    Of an `index` argument, which may be negative, the magnitude counts.  None if no sizes, but
    those that are left out, have a violation.
    """
    if not program.params and without:
        return None
    names = [p.name.name for p in program.params]
    signed = [at for at, p in enumerate(program.params) if p.kind == "index"]
    indices = {identifier(program.params[at].name) for at in signed}
    best: tuple[tuple[int, ...], tuple[int, ...]] | None = None
    for finding in findings.violations:
        if _is_of_ring(finding):
            values = _smallest_with_steps(program, finding, without)
            if values is not None:
                key = (sum(map(abs, values)), *(abs(values[at]) for at in signed), *values)
                best = min(best, (key, values)) if best else (key, values)
            continue
        for sizes in _with_tasks(finding):
            for one in without:
                # The last parameters are numbers of positions, which follow.
                named = dict(zip(finding.size_names(), one.values(), strict=False))
                apart = " or ".join(f"({name} != {value})" for name, value in named.items())
                sizes = rel.set_under(sizes, rel.context(named, apart))
            found = rel.smallest_sum(sizes, indices)
            if found is None:
                continue
            values = tuple(found[name] for name in finding.size_names())
            key = (sum(map(abs, values)), *(abs(values[at]) for at in signed), *values)
            if best is None or key < best[0]:
                best = (key, values)
    return None if best is None else dict(zip(names, best[1], strict=False))


def _is_of_ring(finding: Finding) -> bool:
    """Tests whether a finding is about a ring that is taken out of its tasks."""
    residence = finding.check.residence
    return residence is not None and residence.ring is not None


def _smallest_with_steps(
    program: amir.Program, finding: Finding, without: Sequence[Mapping[str, int]]
) -> tuple[int, ...] | None:
    """The smallest sizes at which a finding about a ring can be a violation: as many steps as the
    tasks have; None where none of the smallest sizes are."""
    tried = [dict(one) for one in without]
    for sizes in islice(admitted(program), SIZES):
        if sizes is None:
            return None
        counts = step_counts(finding.frame.model, sizes, finding.kind)
        known = {identifier(name): count for name, count in counts.items()}
        known |= {identifier(p.name): sizes[p.name.name] for p in program.params}
        if sizes not in tried and not isl.is_empty(rel.fix_params(finding.failing, known)):
            return tuple(sizes.values())
    return None


def _with_tasks(finding: Finding) -> Iterator[isl.Set]:
    """The sizes with a violation; where memory resides, with as many tasks as one cluster executes:
    in one of their loops, so that it is a linear condition (the last of sizes is their number)."""
    model, sizes = finding.frame.model, finding.sizes()
    choices: list[list[str]] = [[]]
    for residence in model.by_position.residences:
        if residence.ring is not None:
            continue
        count = identifier(residence.count.name)
        texts = [model.expr(extent) for extent in extents(residence)]
        choices = [[*one, f"({count} <= {text})"] for one in choices for text in texts]
    others = [name for name in model.names if name not in finding.size_names()]
    for conditions in choices:
        if not conditions:
            yield sizes
            continue
        known = rel.context(model.names, conjunction(conditions)).intersect(model.exact_context)
        yield sizes.intersect(rel.project_params(known, others))


@dataclass(frozen=True, slots=True)
class Fault:
    """A pair of statements at fault, and the smallest sizes at which it is."""

    pair: Pair
    sizes: Mapping[str, int]


def faults(program: amir.Program, findings: Findings) -> tuple[Fault, ...]:
    """The pairs of statements at fault, those of the smallest sizes first.

    Without those of which the smallest sizes cannot be found.
    """
    by_pair: dict[Pair, list[Finding]] = {}
    for finding in findings.violations:
        by_pair.setdefault(pair_of_finding(finding), []).append(finding)
    found: list[Fault] = []
    for pair, several in by_pair.items():
        try:
            with limited(BUDGET):
                sizes = smallest_sizes(program, replace(findings, violations=tuple(several)))
        except IslGaveUpError:
            continue
        if sizes is not None:
            found.append(Fault(pair, sizes))
    return tuple(sorted(found, key=lambda fault: _order(fault.sizes)))


def _order(sizes: Mapping[str, int]) -> tuple[int, ...]:
    return (sum(map(abs, sizes.values())), *sizes.values())


def further(
    program: amir.Program, findings: Findings, first: Refutation, machine: Machine
) -> Iterator[Refutation]:
    """Beside the first refutation, each pair of statements at fault at its own smallest sizes.

    `machine` finds the first violation of each pair of operations.  It runs the part of the
    program that a pair needs, where all pairs are known.
    """
    ran: dict[tuple[int, ...], tuple[Violation, ...]] = {}
    every = () if findings.undecided or _approximates(findings) else findings.violations

    def violations_at(sizes: Mapping[str, int], pairs: Collection[Pair]) -> tuple[Violation, ...]:
        if every:
            part = part_at_fault(program, [one for one in every if pair_of_finding(one) in pairs])
            return _in_order(program, machine(part, sizes))
        key = tuple(sizes.values())
        if key not in ran:
            ran[key] = machine(program, sizes)
        return ran[key]

    told = {pair_of(first.violation)}
    here = {(*pair_of(first.violation), _line(first.violation))}
    found = faults(program, findings)
    first_key = _order(first.sizes)
    early = {fault.pair for fault in found if _order(fault.sizes) <= first_key} | told
    for violation in violations_at(first.sizes, early):
        # At one run each Await at fault is named.
        if (named := (*pair_of(violation), _line(violation))) not in here:
            here.add(named)
            told.add(pair_of(violation))
            yield Refutation(first.sizes, violation, None)
    late = [fault for fault in found if fault.pair not in told]
    for sizes, pairs in _by_sizes(late):
        violations = {pair_of(v): v for v in reversed(violations_at(sizes, pairs))}
        for pair in pairs:
            if pair not in told and pair in violations:
                told.add(pair)
                yield Refutation(sizes, violations[pair], None)


def _by_sizes(found: Iterable[Fault]) -> Iterator[tuple[Mapping[str, int], list[Pair]]]:
    """The pairs that are first at fault at the same sizes."""
    for _, some in groupby(found, key=lambda fault: _order(fault.sizes)):
        several = list(some)
        yield several[0].sizes, [fault.pair for fault in several]


def part_at_fault(program: amir.Program, violations: Sequence[Finding]) -> amir.Program:
    """The synchronisation of a program, and of its accesses those of some findings alone: what
    else there is orders nothing between them, and overwrites none of their records."""
    sites = [site for one in violations for site in (one.check, one.record) if site is not None]
    ops = {site.op for site in sites}
    names = {one.variable for one in violations}
    barriers = {v.name for v in program.variables if v.mechanism is not None}

    def is_needed(op: amir.Op) -> bool:
        match op:
            case amir.Alloc() | amir.Release():
                return op.name in names or op.name in barriers
            case amir.Clear() | amir.Initialise():
                return op.access.name in names
            case amir.Record():
                return op in ops or op.trailing is not None
            case amir.Check() | amir.CheckInitialised() | amir.CheckBarrier():
                return op in ops
            case amir.Require():
                return False
            case _:
                return True

    return replace(program, body=select_operations(program.body, is_needed))


def _part_failing(
    program: amir.Program, findings: Findings, sizes: Mapping[str, int]
) -> amir.Program:
    """The part that the violations at these sizes need; all of it where more may happen."""
    if findings.undecided or _approximates(findings):
        return program
    return part_at_fault(program, list(_failing_at(findings, sizes)))


def _in_order(program: amir.Program, violations: Iterable[Violation]) -> tuple[Violation, ...]:
    """Violations as the program executes them."""

    def moment(violation: Violation) -> tuple[int, ...]:
        values = [value for _, value in violation.iteration]
        found: list[int] = []
        for place, op in path_to(program.body, violation.check):
            found.append(place)
            if isinstance(op, amir.Loop) and values:
                found.append(values.pop(0))
        return tuple(found)

    return tuple(sorted(violations, key=moment))


def pair_of(violation: Violation) -> Pair:
    """Returns the key that distinguishes one hazard from another."""
    return _pair(violation.kind, violation.variable, violation.check, violation.record)


def pairs_at_fault(violations: Iterable[Finding]) -> frozenset[Pair]:
    """The pairs of statements at fault, at any sizes."""
    return frozenset(map(pair_of_finding, violations))


def pair_of_finding(finding: Finding) -> Pair:
    """The pair of a finding."""
    record = None if finding.record is None else finding.record.op
    return _pair(finding.kind, finding.variable.name, finding.check.op, record)


def _line(violation: Violation) -> Span | None:
    return None if violation.record is None else violation.record.origin.span


def _pair(kind: HazardKind, variable: str, check: amir.Op, record: amir.Op | None) -> Pair:
    """Makes the key; without the record of a late Arrive and of PHASE, for which the machine names
    the last of several Awaits at fault."""
    several = kind in (HazardKind.DEADLOCK, HazardKind.PHASE)
    first = None if several or record is None else record.origin.span
    return kind, variable, first, check.origin.span


def _failing_at(findings: Findings, sizes: Mapping[str, int]) -> Iterator[Finding]:
    for finding in findings.violations:
        named = dict(zip(finding.size_names(), sizes.values(), strict=False))
        if not isl.is_empty(rel.fix_params(finding.failing, named)):
            yield finding
