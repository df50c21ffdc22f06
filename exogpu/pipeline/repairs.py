"""Repairs made in the procedure, and judged for all sizes: by the analysis of the edited program,
in place of a run of it.

A run of the machine takes time for each operation, and says something of its sizes alone.  The
analysis takes as long as that of the program itself, and stops at a number of operations.
"""

from __future__ import annotations

from collections.abc import Hashable, Iterable, Iterator
from dataclasses import replace
from typing import Final

from exogpu.amir.lower import lower
from exogpu.amir.nodes import Program
from exogpu.analysis.everything import facts_of
from exogpu.analysis.lifetimes import insert_frees
from exogpu.explain.edits import Edit, Repair
from exogpu.explain.rewriting import rewritten
from exogpu.hw.timelines import AFTER_FLAG, ONLY_BEFORE, ORDINARY
from exogpu.ir.names import Sym
from exogpu.ir.nodes import Arrive, Await, BarrierAlloc, Fence, Proc, Stmt
from exogpu.ir.types import BarrierMechanism
from exogpu.ir.walk import declarations, walk
from exogpu.machine.contents import loads
from exogpu.machine.violation import Violation
from exogpu.symbolic.find.prover import Analysis, Findings, analyse
from exogpu.symbolic.find.refute import Pair, approximates, pair_of, pairs_at_fault
from exogpu.symbolic.shares import Topic, topics
from exogpu.symbolic.sites import UndecidedError

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
        return self._pairs(t for t in self._topics() if _named(t, variable))

    def pairs(self) -> frozenset[Pair] | None:
        """All pairs at fault."""
        return self._pairs(self._topics())

    def _topics(self) -> list[Topic]:
        return topics(self._analysis.model)

    def _pairs(self, asked: Iterable[Topic]) -> frozenset[Pair] | None:
        self._analysis.run(frozenset(asked))
        found = self._analysis.findings()
        return None if found.undecided else pairs_at_fault(found.violations)


def _named(topic: Topic, variable: str) -> bool:
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

    def written(self, repair: Repair) -> Iterator[tuple[Repair, Program]]:
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
