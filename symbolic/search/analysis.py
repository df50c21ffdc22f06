"""Analysis of an AMIR program for all sizes: where it violates the abstract machine's rules.

The result is no proof: a violation is a candidate that the concrete machine has to replay, and
the absence of violations has yet to be certified.
"""

from __future__ import annotations

from collections.abc import Callable, Collection, Iterable, Iterator, Mapping, Sequence
from dataclasses import dataclass, field, replace
from typing import Final

from exogpu.amir.nodes import Check, CheckInitialised, Loop, Program
from exogpu.diagnostics.errors import Span
from exogpu.diagnostics.hazards import HazardKind
from exogpu.ir.types import Sym
from exogpu.machine.literal import hazard
from exogpu.solvers import isl
from exogpu.solvers import isl_relations as rel
from exogpu.solvers.isl import IslGaveUpError, limited
from exogpu.symbolic.partition import Topic, topics
from exogpu.symbolic.search import discharge as search_discharge
from exogpu.symbolic.search import reaching_writes
from exogpu.symbolic.search.barrier_balance import barrier_failures, uses_of
from exogpu.symbolic.search.dependences import Dependence, Finding, dependences
from exogpu.symbolic.search.discharge import Discharged, Left
from exogpu.symbolic.search.frames import Frame
from exogpu.symbolic.search.instance_model import Model
from exogpu.symbolic.search.phase import Orders, phase_failures
from exogpu.symbolic.search.privacy_proof import slot_failures
from exogpu.symbolic.search.reaching_writes import Reached
from exogpu.symbolic.search.sync_relations import Syncs
from exogpu.symbolic.sites import Site, UndecidedError

BUDGET: Final = 20_000_000
"""Operations of ISL for one part of the analysis: some seconds."""


@dataclass(frozen=True, slots=True)
class Undecided:
    """A reason why the analysis could not decide, and the statement at fault."""

    reason: str
    span: Span


@dataclass(frozen=True, slots=True)
class Findings:
    """The result of the analysis: exact violations, and the questions left open.

    Without violations and without `undecided` none was found, for any sizes; that is not yet
    certified.
    """

    violations: tuple[Finding, ...]
    undecided: tuple[Undecided, ...]
    obligations: int
    """Pairs of a Record and a Check that meet on some element, for some sizes."""
    vacuous: bool
    """No sizes satisfy the preconditions."""
    evidence: Evidence | None = None
    """The facts that certificates are made from; None where nothing could be analysed."""


@dataclass(slots=True, eq=False)
class _VariableFindings:
    """The result for one variable while it is analysed."""

    violations: list[Finding] = field(default_factory=list)
    undecided: list[Undecided] = field(default_factory=list)
    obligations: int = 0
    accesses: bool = False
    """Accesses were analysed, too, and counts."""
    phase: bool = False


@dataclass(frozen=True, slots=True, eq=False)
class Evidence:
    """The orders of a program's accesses, as far as ISL has found them."""

    model: Model
    discharged: Mapping[tuple[int, int], Sequence[Discharged]]
    """By the sites of a Record and a Check."""
    syncs: Callable[[Frame], Syncs]
    orders: Mapping[Sym, Orders]
    """By mbarrier, the execution order that PHASE asks for."""
    reached: Mapping[int, Reached]
    """By the site of a read, what has been written of it before."""


def frame_of(model: Model, name: Sym) -> Frame | None:
    """The frame of a variable's allocation; None for a variable that is never used."""
    used = model.uses[name]
    variable = model.variables[name]
    resides = variable.resident or variable.mechanism is not None
    by_task = not resides and any(site.residence is not None for site in model.sites)
    scope = model.scope(name, used[0].op.origin.span) if used else ()
    return model.frame(scope, by_task=by_task) if used else None


class Analysis:
    """One run over one program, topic by topic.

    Raises UndecidedError where nothing of it can be analysed.
    """

    def __init__(self, program: Program, budget: int = BUDGET) -> None:
        self.budget = budget
        self.model = Model(program)
        self.policy = program.policy
        self.vacuous = isl.is_empty(self.model.exact_context)
        self._found: dict[Sym, _VariableFindings] = {}
        self._syncs: dict[Frame, Syncs] = {}
        self._discharged: dict[tuple[int, int], list[Discharged]] = {}
        self._orders: dict[Sym, Orders] = {}
        self._reached: dict[int, Reached] = {}
        self.evidence = Evidence(
            self.model, self._discharged, self.syncs, self._orders, self._reached
        )

    def run(self, asked: Collection[Topic]) -> None:
        """Analyse these topics, as far as they have not been."""
        if self.vacuous:
            return
        for variable in self.model.program.variables:
            name = variable.name
            found = self._found.setdefault(name, _VariableFindings())
            if Topic(name) in asked and not found.accesses:
                found.accesses = True
                self.attempt(self.accesses, name)
                self.attempt(self.reads, name)
                if variable.mechanism is not None:
                    self.attempt(self.counts, name)
            phased = variable.mechanism is not None and variable.mechanism.phased
            if phased and Topic(name, phase=True) in asked and not found.phase:
                found.phase = True
                self.attempt(self.phase, name)

    def findings(self) -> Findings:
        """Gathers the results so far, in the order of the program's variables."""
        several = [
            self._found[v.name] for v in self.model.program.variables if v.name in self._found
        ]
        undecided: dict[tuple[str, Span], Undecided] = {}
        for one in several:
            for reason in one.undecided:
                undecided.setdefault((reason.reason, reason.span), reason)
        return Findings(
            tuple(violation for one in several for violation in one.violations),
            tuple(undecided.values()),
            sum(one.obligations for one in several),
            self.vacuous,
            self.evidence,
        )

    def attempt(self, task: Callable[[Sym], None], name: Sym) -> None:
        """One part of the analysis, undecided where it cannot be done within the budget."""
        try:
            with limited(self.budget):
                task(name)
        except UndecidedError as reason:
            self.give_up(name, reason)
        except IslGaveUpError:
            used = self.model.uses[name][0]
            why = f"the relations between the uses of {name} are too large"
            self.give_up(name, UndecidedError(why, used.op.origin.span))

    def syncs(self, frame: Frame) -> Syncs:
        if frame not in self._syncs:
            plain = self.model.frame(frame.loops)
            ranks = self.syncs(plain).ranks if frame is not plain else None
            self._syncs[frame] = Syncs(frame, ranks)
        return self._syncs[frame]

    def give_up(self, name: Sym, reason: UndecidedError) -> None:
        self._found[name].undecided.append(Undecided(reason.reason, reason.span))

    # --- barriers -------------------------------------------------------------------------

    def counts(self, name: Sym) -> None:
        """Balance and DEADLOCK of one barrier."""
        frame = frame_of(self.model, name)
        if frame is not None:
            self._found[name].violations.extend(barrier_failures(self.syncs(frame), name))

    def phase(self, name: Sym) -> None:
        """PHASE of one mbarrier."""
        frame = frame_of(self.model, name)
        if frame is not None:
            syncs = self.syncs(frame)
            self._orders[name] = Orders(syncs, uses_of(syncs, name))
            self._found[name].violations.extend(phase_failures(self._orders[name]))

    # --- initialised memory ---------------------------------------------------------------

    def reads(self, name: Sym) -> None:
        """Finds reads of one variable that no write has reached."""
        if not any(isinstance(site.op, CheckInitialised) for site in self.model.uses[name]):
            return
        frame, found = frame_of(self.model, name), self._found[name]
        assert frame is not None
        for reached in reaching_writes.reads(self.syncs(frame).slots, name):
            found.obligations += 1
            self._reached[reached.read.number] = reached
            if reached.left is not None:
                found.violations.append(reached.left)

    # --- accesses -------------------------------------------------------------------------

    def accesses(self, name: Sym) -> None:
        """The obligations of one variable's checks: within its allocation or, if it outlives
        tasks, within each task and then between tasks, kernels and the CPU."""
        if not any(isinstance(s.op, Check) and s.op.access.name == name for s in self.model.sites):
            return
        frame = frame_of(self.model, name)
        assert frame is not None
        self._found[name].violations.extend(slot_failures(self.syncs(frame), name))
        done: list[tuple[Loop, ...]] = []
        if not frame.loops:
            for loops in self.nests(name):
                inner = self.model.frame(loops)
                if inner.loops == loops:
                    self.discharge(name, inner, dependences(self.syncs(inner).slots, name))
                    done.append(loops)
        apart = (
            self.drop_same_task_pairs(frame, d, done)
            for d in dependences(self.syncs(frame).slots, name)
        )
        self.discharge(name, frame, (d for d in apart if not isl.is_empty(d.pairs)))

    def nests(self, name: Sym) -> tuple[tuple[Loop, ...], ...]:
        """The loops of the tasks that use a variable."""
        return tuple(
            dict.fromkeys(
                site.loops[: site.task] for site in self.model.uses[name] if site.task is not None
            )
        )

    def drop_same_task_pairs(
        self, frame: Frame, found: Dependence, done: list[tuple[Loop, ...]]
    ) -> Dependence:
        """The dependence without the pairs of one task of the nests that were done."""
        depth = found.record.task
        if depth is None or found.check.task != depth:
            return found
        loops = found.record.loops[:depth]
        if loops not in done or found.check.loops[:depth] != loops:
            return found
        same = rel.equal_dims(found.pairs, [(at, at) for at in range(depth - frame.depth)])
        return replace(found, pairs=isl.subtract_map(found.pairs, same))

    def discharge(self, name: Sym, frame: Frame, found: Iterable[Dependence]) -> None:
        """Adds to the violations what of a variable's dependences no chain of syncs orders."""
        of, by_record = self._found[name], dict[Site, list[Dependence]]()
        for dependence in found:
            of.obligations += 1
            by_record.setdefault(dependence.record, []).append(dependence)
        syncs = self.syncs(frame)
        for record, several in by_record.items():
            for done in search_discharge.discharge(syncs, record, several, self.policy):
                key = (record.number, done.dependence.check.number)
                self._discharged.setdefault(key, []).append(done)
                if done.left is None:
                    continue
                pairs = rel.restrict_parameters(done.left.pairs, frame.context())
                if isl.is_empty(pairs):
                    continue
                if syncs.missing:
                    for reason in syncs.missing.values():
                        self.give_up(name, reason)
                    continue
                of.violations.extend(_violations(done.left, pairs))


def _violations(left: Left, pairs: isl.Map) -> Iterator[Finding]:
    """Yields the unordered pairs of a dependence as violations; a value that another task of the
    cluster wrote to resident memory is a hazard of its own (decision `resident-memory`)."""
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
        analysis = Analysis(program, budget)
    except UndecidedError as reason:
        return Findings((), (Undecided(reason.reason, reason.span),), 0, False)
    analysis.run(topics(analysis.model))
    return analysis.findings()
