"""Analysis of an AMIR program for all sizes: where it violates the abstract machine's rules.

The result is no proof: a violation is a candidate that the concrete machine has to replay, and
the absence of violations has yet to be certified.
"""

from __future__ import annotations

from collections.abc import Callable, Iterable, Iterator, Mapping
from dataclasses import dataclass, replace
from typing import Final

from exogpu.amir.nodes import Check, Loop, Program
from exogpu.ir.names import Sym
from exogpu.machine.literal import hazard
from exogpu.result.errors import Span
from exogpu.result.hazards import HazardKind
from exogpu.solvers import isl
from exogpu.solvers import isl_relations as rel
from exogpu.solvers.isl_budget import IslGaveUpError, limited
from exogpu.symbolic.find.barriers import barrier_failures, uses_of
from exogpu.symbolic.find.dependences import Dependence, dependences
from exogpu.symbolic.find.domains import Model
from exogpu.symbolic.find.findings import Finding
from exogpu.symbolic.find.frames import Frame
from exogpu.symbolic.find.obligations import Discharged, Left, discharge
from exogpu.symbolic.find.phase import Orders, phase_failures
from exogpu.symbolic.find.syncs import Syncs
from exogpu.symbolic.sites import Site, UndecidedError, variables_of

BUDGET: Final = 20_000_000
"""Operations of ISL for one part of the analysis: some seconds."""


@dataclass(frozen=True, slots=True)
class Undecided:
    """What could not be analysed, and the statement at fault."""

    reason: str
    span: Span


@dataclass(frozen=True, slots=True)
class Findings:
    """What the analysis found: exact violations, and what it leaves open.

    Without violations and without `undecided` none was found, for any sizes; that is not yet
    certified.
    """

    violations: tuple[Finding, ...]
    undecided: tuple[Undecided, ...]
    obligations: int
    """Pairs of a Record and a Check that meet on some element, for some sizes."""
    vacuous: bool
    """Whether no sizes satisfy the preconditions."""
    evidence: Evidence | None = None
    """What certificates are made from; None where nothing could be analysed."""


@dataclass(frozen=True, slots=True, eq=False)
class Evidence:
    """How the accesses of a program are ordered, as ISL found it."""

    model: Model
    discharged: tuple[Discharged, ...]
    syncs: Callable[[Frame], Syncs]
    orders: Mapping[Sym, Orders]
    """By mbarrier, the execution order that PHASE asks for."""


def frame_of(model: Model, name: Sym) -> Frame | None:
    """The frame of a variable's allocation; None for a variable that is never used."""
    used = [s for s in model.sites if name in variables_of(s.op)]
    variable = model.variables[name]
    resides = variable.resident or variable.mechanism is not None
    by_task = not resides and any(site.residence is not None for site in model.sites)
    scope = model.scope(name, used[0].op.origin.span) if used else ()
    return model.frame(scope, by_task=by_task) if used else None


class _Analysis:
    """One run over one program."""

    def __init__(self, program: Program, budget: int) -> None:
        self.budget = budget
        self.model = Model(program)
        self.policy = program.policy
        self.violations: list[Finding] = []
        self.discharged: list[Discharged] = []
        self.orders: dict[Sym, Orders] = {}
        self.undecided: dict[tuple[str, Span], Undecided] = {}
        self.obligations = 0
        self._syncs: dict[Frame, Syncs] = {}

    def run(self) -> Findings:
        vacuous = isl.is_empty(self.model.exact_context)
        if not vacuous:
            for variable in self.model.program.variables:
                self.attempt(self.accesses, variable.name)
                if variable.mechanism is not None:
                    self.attempt(self.counts, variable.name)
                if variable.mechanism is not None and variable.mechanism.phased:
                    self.attempt(self.phase, variable.name)
        return Findings(
            tuple(self.violations),
            tuple(self.undecided.values()),
            self.obligations,
            vacuous,
            Evidence(self.model, tuple(self.discharged), self.syncs, self.orders),
        )

    def attempt(self, task: Callable[[Sym], None], name: Sym) -> None:
        """One part of the analysis, undecided where it cannot be done within the budget."""
        try:
            with limited(self.budget):
                task(name)
        except UndecidedError as reason:
            self.give_up(reason)
        except IslGaveUpError:
            used = next(s for s in self.model.sites if name in variables_of(s.op))
            self.give_up(
                UndecidedError(
                    f"the relations between the uses of {name} are too large",
                    used.op.origin.span,
                )
            )

    def syncs(self, frame: Frame) -> Syncs:
        if frame not in self._syncs:
            plain = self.model.frame(frame.loops)
            ranks = self.syncs(plain).ranks if frame is not plain else None
            self._syncs[frame] = Syncs(frame, ranks)
        return self._syncs[frame]

    def give_up(self, reason: UndecidedError) -> None:
        key = (reason.reason, reason.span)
        self.undecided.setdefault(key, Undecided(reason.reason, reason.span))

    # --- barriers -------------------------------------------------------------------------

    def counts(self, name: Sym) -> None:
        """Balance and DEADLOCK of one barrier."""
        frame = frame_of(self.model, name)
        if frame is not None:
            self.violations.extend(barrier_failures(self.syncs(frame), name))

    def phase(self, name: Sym) -> None:
        """PHASE of one mbarrier."""
        frame = frame_of(self.model, name)
        if frame is not None:
            syncs = self.syncs(frame)
            self.orders[name] = Orders(syncs, uses_of(syncs, name))
            self.violations.extend(phase_failures(self.orders[name]))

    # --- accesses -------------------------------------------------------------------------

    def accesses(self, name: Sym) -> None:
        """The obligations of one variable's checks: within its allocation or, if it outlives
        tasks, within each task and then between tasks, kernels and the CPU."""
        if not any(isinstance(s.op, Check) and s.op.access.name == name for s in self.model.sites):
            return
        frame = frame_of(self.model, name)
        assert frame is not None
        done: list[tuple[Loop, ...]] = []
        if not frame.loops:
            for loops in self.nests(name):
                inner = self.model.frame(loops)
                if inner.loops == loops:
                    self.discharge(inner, dependences(self.syncs(inner).slots, name))
                    done.append(loops)
        apart = (self.apart(frame, d, done) for d in dependences(self.syncs(frame).slots, name))
        self.discharge(frame, (d for d in apart if not isl.is_empty(d.pairs)))

    def nests(self, name: Sym) -> tuple[tuple[Loop, ...], ...]:
        """The loops of the tasks that use a variable."""
        return tuple(
            dict.fromkeys(
                site.loops[: site.task]
                for site in self.model.sites
                if site.task is not None and name in variables_of(site.op)
            )
        )

    def apart(self, frame: Frame, found: Dependence, done: list[tuple[Loop, ...]]) -> Dependence:
        """The dependence without the pairs of one task of the nests that were done."""
        depth = found.record.task
        if depth is None or found.check.task != depth:
            return found
        loops = found.record.loops[:depth]
        if loops not in done or found.check.loops[:depth] != loops:
            return found
        same = rel.equal_dims(found.pairs, [(at, at) for at in range(depth - frame.depth)])
        return replace(found, pairs=isl.subtract_map(found.pairs, same))

    def discharge(self, frame: Frame, found: Iterable[Dependence]) -> None:
        """Adds to the violations what of these dependences no chain of syncs orders."""
        by_record: dict[Site, list[Dependence]] = {}
        for dependence in found:
            self.obligations += 1
            by_record.setdefault(dependence.record, []).append(dependence)
        syncs = self.syncs(frame)
        for record, several in by_record.items():
            for done in discharge(syncs, record, several, self.policy):
                self.discharged.append(done)
                if done.left is None:
                    continue
                pairs = rel.under(done.left.pairs, frame.context())
                if isl.is_empty(pairs):
                    continue
                if syncs.missing:
                    for reason in syncs.missing.values():
                        self.give_up(reason)
                    continue
                self.violations.extend(_violations(done.left, pairs))


def _violations(left: Left, pairs: isl.Map) -> Iterator[Finding]:
    """What is left of a dependence as violations: a value that another task of the cluster wrote
    to what resides is a hazard of its own (decision 27)."""
    found = left.dependence
    assert isinstance(found.check.op, Check)
    kind, model = hazard(found.check.op), found.frame.model
    if not model.passes_values(found.variable, found.record, found.check):
        yield _violation(kind, left, pairs)
        return
    own = found.frame.within_task(pairs, found.record, found.check)
    for one, some in ((kind, own), (HazardKind.LEAK, isl.subtract_map(pairs, own))):
        if not isl.is_empty(some):
            yield _violation(one, left, some)


def _violation(kind: HazardKind, left: Left, pairs: isl.Map) -> Finding:
    dependence = left.dependence
    return Finding(
        kind,
        dependence.frame,
        dependence.variable,
        dependence.check,
        dependence.record,
        rel.coalesce(rel.unwrap(isl.image(rel.elements_where(left.elements, pairs)))),
        pairs,
    )


def analyse(program: Program, *, budget: int = BUDGET) -> Findings:
    """The violations of a program for all sizes, as far as they can be decided.

    Each part of the analysis may make `budget` operations of ISL.

    It proves nothing: no certificate is made of what it finds to be ordered.
    """
    try:
        return _Analysis(program, budget).run()
    except UndecidedError as reason:
        return Findings((), (Undecided(reason.reason, reason.span),), 0, False)
