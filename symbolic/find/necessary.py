"""Decides whether a condition on sizes is necessary: at all other sizes something fails (decision
`confirmed-answers`).

That it is sufficient is proved by analysing the program under it.  Here Z3 is asked of every size
without it whether some obligation fails, in the obligations' own formulas; sizes come from ISL's
projections only in the condition itself.
"""

from __future__ import annotations

from collections.abc import Iterator
from dataclasses import replace
from itertools import islice
from typing import Final

from exogpu.amir.nodes import Program
from exogpu.analysis import bounds
from exogpu.ir.nodes import BExpr, Compare, CVar, Int, Not, Proc
from exogpu.ir.smttext import bexpr
from exogpu.solvers import smt
from exogpu.symbolic.find.prover import Evidence, Findings
from exogpu.symbolic.find.smallest import admitted, soon
from exogpu.symbolic.placed import least_of
from exogpu.symbolic.prove import drafts_within
from exogpu.symbolic.sites import UndecidedError

SAMPLES: Final = 3
"""Sizes at which the machine is asked where Z3 cannot tell."""


def necessary(proc: Proc, program: Program, findings: Findings, condition: BExpr) -> bool:
    """Returns true if Z3 confirms that at all sizes without the condition something fails.

    `findings` are of the program, without those sizes at which accesses are out of bounds.
    """
    outside = _outside(program, condition)
    return smt.always_some(_failing(proc, findings), outside, len(program.params))


def refuted_without(program: Program, condition: BExpr) -> bool:
    """Returns true if the machine finds a violation at each of the smallest sizes without the
    condition, or does not end soon."""
    other = replace(program, preconditions=(*program.preconditions, Not(condition)))
    found = (sizes and soon(program, sizes) for sizes in islice(admitted(other), SAMPLES))
    return all(violations != () for violations in found)


def _outside(program: Program, condition: BExpr) -> str:
    """The sizes that the preconditions admit and the condition does not."""
    names = {p.name: f"size{at}" for at, p in enumerate(program.params)}
    known: list[BExpr] = [
        Compare(">=", CVar(p.name), Int(least_of(program, p.name)))
        for p in program.params
        if p.kind == "size"
    ]
    known += [*program.preconditions, Not(condition)]
    lines = [f"(declare-const {name} Int)" for name in names.values()]
    return "\n".join([*lines, *(f"(assert {bexpr(one, names)})" for one in known)])


def _failing(proc: Proc, findings: Findings) -> Iterator[str]:
    """Scripts that have a solution at the sizes at which something fails."""
    yield from bounds.failing_scripts(proc)
    if findings.evidence is not None:
        yield from filter(_fails, _obligations(findings.evidence))


def _obligations(evidence: Evidence) -> Iterator[str]:
    try:
        for draft in drafts_within(evidence):
            if draft.kind is not None and draft.script:
                yield draft.script
    except UndecidedError:
        return  # what was made until then may do


def _fails(script: str) -> bool:
    return smt.ask_z3(script, attempts=smt.SOON).word == "sat"
