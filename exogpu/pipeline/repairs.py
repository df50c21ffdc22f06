"""Repairs judged for all sizes: the analysis of the edited program, in place of a run of it.

A run of the machine takes time for each operation, and says something of its sizes alone.  The
analysis takes as long as that of the program itself, and stops at a number of operations.
"""

from __future__ import annotations

from collections.abc import Iterable
from typing import Final

from exogpu.amir.nodes import Program
from exogpu.explain.edits import Edit
from exogpu.machine.contents import loads
from exogpu.machine.violation import Violation
from exogpu.symbolic.find.prover import Analysis, Findings, analyse
from exogpu.symbolic.find.refute import Pair, pair_of, pairs_at_fault
from exogpu.symbolic.shares import Topic, topics
from exogpu.symbolic.sites import UndecidedError

BUDGET: Final = 5_000_000
"""Operations of ISL for one part of the analysis of an edited program."""


class ForAllSizes:
    """The pairs of statements at fault in a program, and in the program after edits."""

    def __init__(self, before: frozenset[Pair]) -> None:
        self._before = before
        self._after: dict[Edit, _Edited | None] = {}

    def mends(self, violation: Violation, edit: Edit, changed: Program) -> bool | None:
        """Whether after the edit the pair of a violation is at fault no more at any sizes, and no
        other pair has come; None where the analysis cannot tell."""
        pair = pair_of(violation)
        if pair not in self._before:
            return None
        if edit not in self._after:
            self._after[edit] = _edited(changed)
        after = self._after[edit]
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
    """What judges the repairs of a program; None where its own analysis leaves something open.

    `findings` is that analysis, if it was made.
    """
    if any(variable.resident for variable in program.variables) or loads(program):
        return None
    findings = analyse(program, budget=BUDGET) if findings is None else findings
    if findings.undecided or findings.evidence is None:
        return None
    return ForAllSizes(pairs_at_fault(findings.violations))


class _Edited:
    """The analysis of a program after an edit, variable by variable."""

    def __init__(self, analysis: Analysis) -> None:
        self._analysis = analysis
        self.approximates = bool(analysis.model.slots)
        """Whether more is predicted than happens: slots are told by order alone."""

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
