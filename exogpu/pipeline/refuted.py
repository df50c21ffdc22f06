"""What is told of a program that is refuted: one hazard for each pair of statements at fault."""

from __future__ import annotations

from collections.abc import Iterator, Mapping

from exogpu.amir.nodes import Program
from exogpu.explain.trials import Trials
from exogpu.explain.words import Told, tell, with_shared_repairs
from exogpu.machine import fast
from exogpu.machine.violation import Violation
from exogpu.result.hazards import Hazard
from exogpu.symbolic.find.prover import Findings
from exogpu.symbolic.find.refute import Refutation, further


def hazards(
    program: Program, findings: Findings, first: Refutation
) -> Iterator[tuple[Hazard, ...]]:
    """The hazards so far, each time that there is one more: first that of the refutation, then the
    others at its sizes, then those of pairs that fail at larger sizes only, each at its own
    smallest.  At last all of them, with what mends several.

    The first one is known before its repairs have been tried.  The machine ran up to it and no
    further; here it runs once more, for all pairs at the same sizes.
    """
    ran: dict[tuple[int, ...], tuple[Violation, ...]] = {}
    trials: dict[tuple[int, ...], Trials] = {}
    told: list[Told] = []

    def each_pair(program: Program, sizes: Mapping[str, int]) -> tuple[Violation, ...]:
        key = tuple(sizes.values())
        if key not in ran:
            ran[key] = fast.run(program, sizes, keep=fast.Keep.PAIRS, locate=False).violations
        return ran[key]

    def tried_at(sizes: Mapping[str, int]) -> Trials:
        key = tuple(sizes.values())
        if key not in trials:
            trials[key] = Trials(program, sizes, each_pair(program, sizes))
        return trials[key]

    yield (tell(first.violation, first.sizes, program, None).hazard,)
    told.append(tell(first.violation, first.sizes, program, tried_at(first.sizes)))
    yield (told[0].hazard,)
    for found in further(program, findings, first, each_pair):
        located = fast.located(program, found.sizes, found.violation)
        told.append(tell(located, found.sizes, program, tried_at(found.sizes), told))
        yield tuple(one.hazard for one in told)
    yield with_shared_repairs(told, lambda hazard: tried_at(hazard.sizes))
