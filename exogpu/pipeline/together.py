"""The analysis and the proof of a program by several processes, each with shares of its variables.

The answer is that of one process: where a helper finds anything that is not a proof, or is lost,
this process goes on alone.
"""

from __future__ import annotations

from collections.abc import Callable, Iterable, Sequence
from functools import partial

from exogpu.machine.contents import loads
from exogpu.result.proof import Proof, Proving
from exogpu.solvers.helpers import Helper, LostError, helping, jobs
from exogpu.solvers.workers import Tell, stage
from exogpu.symbolic.find.prover import Analysis, Findings, Undecided
from exogpu.symbolic.prove import Part, joined, part_of
from exogpu.symbolic.shares import Share, hands, shares, topics


def analysed(
    analysis: Analysis, told: Callable[[Proving], None]
) -> tuple[Findings, Proof | Undecided | None]:
    """What is found of all variables, or in a proof of those of this process; and the proof, or
    why there is none, where one was tried."""
    model, proved = analysis.model, None
    own, *others = hands(model, shares(model), jobs()) if not analysis.vacuous else [[]]
    if others:
        with helping([partial(_help, analysis, some) for some in others]) as helpers:
            proved = _with(helpers, analysis, own, told)
        if isinstance(proved, Proof):
            return analysis.findings(), proved
    analysis.run(topics(model))
    return analysis.findings(), proved


def _with(
    helpers: Sequence[Helper],
    analysis: Analysis,
    own: Sequence[Share],
    told: Callable[[Proving], None],
) -> Proof | Undecided | None:
    """The proof, of this process's shares and the helpers'; None where it has to go on alone."""
    analysis.run([topic for share in own for topic in share])
    if not _clean(analysis):
        return None
    answered = [0] * (len(helpers) + 1)

    def hear(at: int, proving: Proving) -> None:
        answered[at] = proving.answered
        told(Proving(sum(answered)))

    def heard_here(proving: Proving) -> None:
        for helper in helpers:
            helper.listen()
        hear(0, proving)

    try:
        if not all([helper.receive() for helper in helpers]):
            return None
        stage("proving")
        evidence = analysis.findings().evidence
        assert evidence is not None
        parts = [part_of(evidence, own, told=heard_here)]
        for at, helper in enumerate(helpers, 1):
            while isinstance(message := helper.receive(), Proving):
                hear(at, message)
            assert isinstance(message, Part)
            parts.append(message)
    except LostError:
        return None
    return joined(evidence, parts)


def _help(analysis: Analysis, some: Iterable[Share], tell: Tell) -> None:
    """What a helper does: it tells whether it may be proved, and if so proves it."""
    analysis.run([topic for share in some for topic in share])
    clean = _clean(analysis)
    tell(clean)
    if clean:
        evidence = analysis.findings().evidence
        assert evidence is not None
        tell(part_of(evidence, some, told=tell))


def _clean(analysis: Analysis) -> bool:
    """Whether a proof may be tried.  What ISL finds of values from memory is more than there is,
    for contracts are Z3's: a violation of such a program may be none."""
    found = analysis.findings()
    return not found.undecided and (not found.violations or loads(analysis.model.program))
