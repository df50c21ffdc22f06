"""Hazards of a refuted program: one for each pair of statements at fault."""

from __future__ import annotations

from collections.abc import Iterator, Mapping, Sequence
from typing import Final

from exogpu.amir.nodes import Program
from exogpu.explain.trials import Budget, Trials
from exogpu.explain.words import Told, bare, hazards_of, tell, with_shared_repairs
from exogpu.ir.nodes import Proc
from exogpu.machine import fast
from exogpu.machine.violation import Violation
from exogpu.pipeline.explanation import Failures
from exogpu.pipeline.repairs import InProcedure, for_all_sizes
from exogpu.result.hazards import Hazard
from exogpu.symbolic.find.prover import Findings
from exogpu.symbolic.find.refute import Refutation, further

FURTHER: Final = 5.0
"""Seconds of the processor for hazards beside the first; their repairs have as many again."""

NOT_TRIED: Final = "further {} were not tried: that would take too long"


def hazards(
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
    ran: dict[tuple[int, ...], tuple[Violation, ...]] = {}
    trials: dict[tuple[int, ...], Trials] = {}
    told: list[Told] = []
    writer = None if proc is None else InProcedure(proc, program)
    judge, repairs, others = for_all_sizes(program, findings), Budget(), Budget(FURTHER)

    def each_pair(part: Program, sizes: Mapping[str, int]) -> tuple[Violation, ...]:
        found = others.run(part, sizes) or ()
        if part is program and found:
            ran[tuple(sizes.values())] = found
        return found

    def tried_at(sizes: Mapping[str, int]) -> Trials:
        key = tuple(sizes.values())
        if key not in trials:
            known = ran.get(key)
            trials[key] = Trials(program, sizes, known, judge=judge, writer=writer, budget=repairs)
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
        found = hazards_of(violations, sizes, program, judge, writer, repairs)
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
