"""The analysis and the proof of a program by several processes, each of which takes one share of
its variables after another.

The answer is that of one process: where a helper finds anything that is not a proof, or is lost,
this process goes on alone.
"""

from __future__ import annotations

from collections.abc import Callable, Sequence
from functools import partial

from exogpu.machine.contents import loads
from exogpu.result.proof import Proof, Proving
from exogpu.solvers.helpers import Helper, LostError, Turns, helping, jobs
from exogpu.solvers.workers import Tell, stage
from exogpu.symbolic.find.prover import Analysis, Findings, Undecided
from exogpu.symbolic.prove import Part, Parts, joined
from exogpu.symbolic.shares import Share, shares, topics


def analysed(
    analysis: Analysis, told: Callable[[Proving], None]
) -> tuple[Findings, Proof | Undecided | None]:
    """Returns the findings of all variables, or in a proof of those of this process; and the proof,
    or why there is none, if one was tried."""
    among = () if analysis.vacuous else shares(analysis.model)
    proved, others = None, min(jobs(), len(among)) - 1
    if others > 0:
        turns = Turns(len(among))
        with turns, helping([partial(_help, analysis, among, turns)] * others) as helpers:
            proved = _with(helpers, analysis, among, turns, told)
        if isinstance(proved, Proof):
            return analysis.findings(), proved
    analysis.run(topics(analysis.model))
    return analysis.findings(), proved


def _with(
    helpers: Sequence[Helper],
    analysis: Analysis,
    among: Sequence[Share],
    turns: Turns,
    told: Callable[[Proving], None],
) -> Proof | Undecided | None:
    """The proof, of the shares that this process takes and of the helpers'; None where it has to
    go on alone."""
    answered = [0] * (len(helpers) + 1)

    def hear(at: int, proving: Proving) -> None:
        answered[at] = proving.answered
        told(Proving(sum(answered)))

    try:
        own = _proved(analysis, among, turns, partial(hear, 0), lambda: _go_on(helpers))
        if own is None:
            return None
        parts = [own]
        for at, helper in enumerate(helpers, 1):
            while isinstance(message := helper.receive(), Proving):
                hear(at, message)
            if not isinstance(message, Part):
                return None
            parts.append(message)
    except LostError:
        return None
    return joined(analysis.evidence, parts)


def _go_on(helpers: Sequence[Helper]) -> bool:
    """Tests whether no helper has found anything but a proof; takes their messages meanwhile, so
    that they need not wait."""
    return all(None not in helper.told() for helper in helpers)


def _help(analysis: Analysis, among: Sequence[Share], turns: Turns, tell: Tell) -> None:
    """Runs a helper."""
    tell(_proved(analysis, among, turns, tell, lambda: True))


def _proved(
    analysis: Analysis,
    among: Sequence[Share],
    turns: Turns,
    told: Callable[[Proving], None],
    go_on: Callable[[], bool],
) -> Part | None:
    """Proves the shares that a process takes; None if it finds a violation, or shall not go on."""
    parts = Parts(analysis.evidence, told=told)
    for turn in turns:
        analysis.run(among[turn])
        if not (go_on() and _clean(analysis)):
            return None
        stage("proving")
        parts.prove(among[turn])
        stage("analysing the order of accesses")
    return parts.made()


def _clean(analysis: Analysis) -> bool:
    """Tests whether a proof may be tried. What ISL finds of values from memory is more than there
    is, for contracts are Z3's: a violation of such a program may be none."""
    found = analysis.findings()
    return not found.undecided and (not found.violations or loads(analysis.model.program))
