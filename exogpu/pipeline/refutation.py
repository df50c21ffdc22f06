"""Hazards of a refuted program: one for each pair of statements at fault."""

from __future__ import annotations

import os
import traceback
from collections.abc import Hashable, Iterable, Iterator, Mapping, Sequence
from dataclasses import dataclass, replace
from types import TracebackType
from typing import Final

from exogpu.amir.lower import lower
from exogpu.amir.nodes import Program
from exogpu.analysis.all_facts import facts_of
from exogpu.analysis.lifetimes import insert_frees
from exogpu.diagnostics.hazards import Hazard
from exogpu.explain import hazard_text
from exogpu.explain.edits import Edit, Repair
from exogpu.explain.hazard_text import Told, bare, tell, with_shared_repairs
from exogpu.explain.source_repairs import rewritten
from exogpu.explain.trials import Budget, Runs, Trials
from exogpu.hw.timelines import AFTER_FLAG, ONLY_BEFORE, ORDINARY
from exogpu.ir.nodes import Arrive, Await, BarrierAlloc, Fence, Proc, Stmt
from exogpu.ir.types import BarrierMechanism, Sym
from exogpu.ir.walk import declarations, walk
from exogpu.machine import fast
from exogpu.machine.index_contents import loads
from exogpu.machine.observer import Violation
from exogpu.solvers.processes import cut_short
from exogpu.symbolic.partition import Topic, topics
from exogpu.symbolic.search.analysis import Analysis, Findings, analyse
from exogpu.symbolic.search.refute import (
    Pair,
    Refutation,
    approximates,
    further,
    pair_of,
    pairs_at_fault,
)
from exogpu.symbolic.sites import UndecidedError

# Work on a verdict that is known: hazards in words, repairs, conditions on sizes, warnings.
#
# A failure in it is a mistake of exogpu. It becomes a note, and never changes the verdict.

LOUD = False
"""True if failures are raised instead of noted: in tests and campaigns, which look for mistakes."""


class Failures:
    """The failures while one verdict is explained."""

    def __init__(self) -> None:
        self.notes: list[str] = []

    def noted(self, doing: str) -> Noted:
        """Returns a context that notes a failure: `with failures.noted("a search"): ...`."""
        return Noted(self, doing)

    def joined(self, note: str) -> str:
        """A verdict's note with those of failures."""
        return "; ".join(filter(None, (note, *self.notes)))


@dataclass(frozen=True, slots=True)
class Noted:
    """Notes what is raised within it and goes on after it.

    The verdict is not cached then, since a corrected exogpu says more.  Running out of memory is
    left to the caller, who knows the limit.
    """

    failures: Failures
    doing: str

    def __enter__(self) -> None:
        pass

    def __exit__(
        self,
        kind: type[BaseException] | None,
        error: BaseException | None,
        trace: TracebackType | None,
    ) -> bool:
        if LOUD or not isinstance(error, Exception) or isinstance(error, MemoryError):
            return False
        if os.environ.get("EXOGPU_DEBUG"):
            traceback.print_exception(error)
        cut_short()
        note = (
            f"{self.doing} failed ({type(error).__name__}: {error}); this is a bug in exogpu, and "
            "the verdict does not depend on it; with EXOGPU_DEBUG=1 it shows where"
        )
        if note not in self.failures.notes:
            self.failures.notes.append(note)
        return True


# Repairs made in the procedure, and judged for all sizes: by the analysis of the edited program,
# in place of a run of it.
#
# A run of the machine takes time for each operation, and says something of its sizes alone. The
# analysis takes as long as that of the program itself, and stops at a number of operations.

BUDGET: Final = 5_000_000
"""Operations of ISL for one part of the analysis of an edited program."""


class ForAllSizes:
    """The pairs of statements at fault in a program, and in the program after edits."""

    def __init__(self, before: frozenset[Pair]) -> None:
        self._before = before
        self._after: dict[Hashable, _Edited | None] = {}

    def mends(self, violation: Violation, key: Hashable, changed: Program) -> bool | None:
        """Returns whether, at all sizes, an edit removes the violation's pair and brings no other.

        Returns None where the analysis cannot tell.
        """
        pair = pair_of(violation)
        if pair not in self._before:
            return None
        if key not in self._after:
            self._after[key] = _edited(changed)
        after = self._after[key]
        if after is None:
            return None
        # Most edits do not help, which one variable tells.
        own = after.pairs_of(violation.variable)
        if own is None:
            return None
        if pair in own or not own <= self._before:
            return None if after.approximates else False
        every = after.pairs()
        if every is None or (after.approximates and not every <= self._before):
            return None
        return every <= self._before - {pair}


def for_all_sizes(program: Program, findings: Findings | None = None) -> ForAllSizes | None:
    """Makes the judge of a program's repairs; None where its own analysis leaves something open.

    `findings` is that analysis, if it was made.  At given sizes a program has one choice of tasks
    for each cluster, where memory resides, and the analysis has all.
    """
    resides = any(variable.resident for variable in program.variables)
    if loads(program) or (resides and findings is None):
        return None
    findings = analyse(program, budget=BUDGET) if findings is None else findings
    if findings.undecided or findings.evidence is None:
        return None
    return ForAllSizes(pairs_at_fault(findings.violations))


class _Edited:
    """The analysis of a program after an edit, variable by variable."""

    def __init__(self, analysis: Analysis) -> None:
        self._analysis = analysis
        self.approximates = approximates(analysis.evidence)
        """True if the analysis may predict more than happens."""

    def pairs_of(self, variable: str) -> frozenset[Pair] | None:
        """The pairs at fault at a variable; None where that is undecided."""
        return self._pairs(t for t in self._topics() if _is_about(t, variable))

    def pairs(self) -> frozenset[Pair] | None:
        """All pairs at fault."""
        return self._pairs(self._topics())

    def _topics(self) -> list[Topic]:
        return topics(self._analysis.model)

    def _pairs(self, asked: Iterable[Topic]) -> frozenset[Pair] | None:
        self._analysis.run(frozenset(asked))
        found = self._analysis.findings()
        return None if found.undecided else pairs_at_fault(found.violations)


def _is_about(topic: Topic, variable: str) -> bool:
    return topic.variable is not None and topic.variable.name == variable


def _edited(changed: Program) -> _Edited | None:
    try:
        return _Edited(Analysis(changed, BUDGET))
    except UndecidedError:
        return None


# --- in the procedure ---------------------------------------------------------------------------


class InProcedure:
    """Repairs of a program made in the procedure that it was lowered from."""

    def __init__(self, proc: Proc, program: Program) -> None:
        self._proc, self._program = proc, program
        self._known: dict[Edit, list[tuple[Repair, Program]]] = {}

    def write_repair(self, repair: Repair) -> Iterator[tuple[Repair, Program]]:
        """The ways to make a repair that are well-formed, and the program of each."""
        known = self._known.get(repair.edit)
        if known is not None:
            yield from known
            return
        found: list[tuple[Repair, Program]] = []
        for made in rewritten(self._proc, self._program, repair):
            program = self._lowered(made.proc)
            if program is not None:
                as_written = replace(repair, text=made.text, changes=made.changes)
                found.append((as_written, program))
                yield found[-1]
        self._known[repair.edit] = found

    def _lowered(self, proc: Proc) -> Program | None:
        """The program of a procedure; None of one that is ill-formed, or diverges."""
        declared = declarations(proc)
        for stmt in walk(proc.body):
            of = declared.get(_barrier(stmt)) if isinstance(stmt, Arrive | Await) else None
            if not _admitted(stmt, of if isinstance(of, BarrierAlloc) else None):
                return None
        facts, wrong = facts_of(insert_frees(proc))
        if facts is None or wrong or facts.divergences:
            return None
        return lower(facts, self._program.policy)


def _barrier(stmt: Arrive | Await) -> Sym:
    return stmt.targets[0].name if isinstance(stmt, Arrive) else stmt.barrier.name


def _admitted(stmt: Stmt, barrier: BarrierAlloc | None) -> bool:
    """Returns whether a synchronisation statement may have its timelines and numbers.

    The frontend asks this where it reads the text (T241, T275), and nothing asks it after.
    """
    mechanism = None if barrier is None else barrier.mechanism
    flag = mechanism is BarrierMechanism.FLAG
    match stmt:
        case Fence():
            return ONLY_BEFORE.get(stmt.pre.name, stmt.post.name) == stmt.post.name
        case Arrive():
            return stmt.timeline.name not in ONLY_BEFORE and (
                not flag or stmt.timeline.name == ORDINARY
            )
        case Await() if flag:
            return stmt.timeline.name in AFTER_FLAG and stmt.n == 0
        case Await() if mechanism is BarrierMechanism.NAMED_BARRIER:
            return stmt.n == -1
        case Await():
            return mechanism is None or mechanism.phased == (stmt.n < 0)
        case _:
            return True


FURTHER: Final = 5.0
"""Seconds of the processor for hazards beside the first; their repairs have as many again."""

NOT_TRIED: Final = "further {} were not tried: that would take too long"


def hazards_of(
    program: Program,
    findings: Findings,
    first: Refutation,
    failures: Failures | None = None,
    proc: Proc | None = None,
) -> Iterator[tuple[Hazard, ...]]:
    """The hazards so far, each time that there is one more: first that of the refutation, then the
    others at its sizes, then those of pairs that fail at larger sizes only, each at its own
    smallest.  At last all of them, with what mends several.

    The first one is known before its repairs have been tried.  The machine ran up to it and no
    further; here it runs once more, for all pairs at the same sizes.  Repairs are made in `proc`,
    from which the program was lowered.
    """
    failures = Failures() if failures is None else failures
    ran: Runs = {}
    trials: dict[tuple[int, ...], Trials] = {}
    told: list[Told] = []
    writer = None if proc is None else InProcedure(proc, program)
    judge, repairs, others = for_all_sizes(program, findings), Budget(), Budget(FURTHER)

    def each_pair(part: Program, sizes: Mapping[str, int]) -> tuple[Violation, ...]:
        key = tuple(sizes.values())
        if part is program and key in ran:
            return ran[key]
        found = others.run(part, sizes) or ()
        if part is program and found:
            ran[key] = found
        return found

    def tried_at(sizes: Mapping[str, int]) -> Trials:
        key = tuple(sizes.values())
        if key not in trials:
            trials[key] = Trials(
                program, sizes, known=ran, judge=judge, writer=writer, budget=repairs
            )
        return trials[key]

    def in_words(violation: Violation, sizes: Mapping[str, int]) -> Told:
        """With its repairs, or else as much as can be told."""
        with failures.noted("a search for repairs"):
            return tell(violation, sizes, program, tried_at(sizes), told)
        return _in_words(violation, sizes, program, failures)

    yield (first_hazard(program, first.sizes, first.violation, failures),)
    told.append(in_words(first.violation, first.sizes))
    yield (told[0].hazard,)
    with failures.noted("a search for further hazards"):
        for found in further(program, findings, first, each_pair):
            with others.spent():
                located = fast.located(program, found.sizes, found.violation)
            told.append(in_words(located, found.sizes))
            yield tuple(one.hazard for one in told)
    with failures.noted("a search for repairs that mend several hazards"):
        yield with_shared_repairs(told, lambda hazard: tried_at(hazard.sizes))
    if others.used_up or repairs.used_up:
        what = "hazards" if others.used_up else "repairs"
        failures.notes.append(NOT_TRIED.format(what))


def first_hazard(
    program: Program, sizes: Mapping[str, int], violation: Violation, failures: Failures
) -> Hazard:
    """The hazard of a violation, before repairs are tried."""
    return _in_words(violation, sizes, program, failures).hazard


def hazards_at(
    violations: Sequence[Violation],
    sizes: Mapping[str, int],
    program: Program,
    failures: Failures,
    *,
    proc: Proc,
    analysed: bool,
) -> tuple[Hazard, ...]:
    """The hazards of all violations that the machine found at given sizes; of a program that was
    `analysed` before, and left undecided, the machine judges repairs."""
    with failures.noted("a search for repairs"):
        judge = None if analysed or not violations else for_all_sizes(program)
        writer, repairs = InProcedure(proc, program), Budget()
        found = hazard_text.hazards_of(violations, sizes, program, judge, writer, repairs)
        if repairs.used_up:
            failures.notes.append(NOT_TRIED.format("repairs"))
        return found
    return tuple(_in_words(each, sizes, program, failures).hazard for each in violations)


def _in_words(
    violation: Violation, sizes: Mapping[str, int], program: Program, failures: Failures
) -> Told:
    """One violation without repairs; its two statements alone where no more can be told."""
    with failures.noted("an explanation of a hazard"):
        return tell(violation, sizes, program, None)
    return bare(violation, sizes)
