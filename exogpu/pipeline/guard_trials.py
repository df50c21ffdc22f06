"""Hazards of bounds with a guard that was tried."""

from __future__ import annotations

from collections.abc import Sequence
from dataclasses import replace

from exogpu.amir.lower import lower
from exogpu.analysis import bounds
from exogpu.analysis.all_facts import facts_of
from exogpu.analysis.bounds_messages import RING_HAS
from exogpu.analysis.inline import inline
from exogpu.analysis.lifetimes import insert_frees
from exogpu.diagnostics.hazards import Hazard
from exogpu.diagnostics.verdict import Policy
from exogpu.explain.guard_repairs import guard_repairs
from exogpu.explain.requirement_hazards import hazard_of_bounds
from exogpu.explain.trials import PATIENCE, Budget
from exogpu.ir.nodes import Proc
from exogpu.pipeline.refutation import Failures

TRIED = 4
"""Accesses of which guards are tried."""


def hazards_of_bounds(
    proc: Proc, breaches: Sequence[bounds.Breach], policy: Policy, failures: Failures
) -> tuple[Hazard, ...]:
    """The hazards of accesses out of bounds; of the first ones with a guard, if one keeps them
    inside and brings no other hazard at their sizes."""
    found = [hazard_of_bounds(breach) for breach in breaches]
    budget = Budget()
    for at, breach in enumerate(breaches[:TRIED]):
        with failures.noted("a search for guards"):
            found[at] = _with_guard(found[at], proc, breach, breaches, policy, budget)
    return tuple(found)


def _with_guard(
    hazard: Hazard,
    proc: Proc,
    breach: bounds.Breach,
    breaches: Sequence[bounds.Breach],
    policy: Policy,
    budget: Budget,
) -> Hazard:
    if hazard.help.startswith(RING_HAS):
        return hazard
    for made in guard_repairs(proc, breach):
        if not budget.allows():
            break
        with budget.spent():
            left = bounds.violations(made.proc)
        if len({_key(one) for one in left}) < len({_key(one) for one in breaches}) and (
            left or _runs(made.proc, breach, policy, budget)
        ):
            return replace(hazard, help=made.text, changes=made.changes)
    return hazard


def _key(breach: bounds.Breach) -> object:
    return breach.diagnostic.span, type(breach.finding), breach.diagnostic.code


def _runs(proc: Proc, breach: bounds.Breach, policy: Policy, budget: Budget) -> bool:
    """Returns whether the machine finds nothing at the sizes of the hazard."""
    with budget.spent():
        facts, wrong = facts_of(insert_frees(inline(proc)))
        if facts is None or wrong or facts.divergences:
            return False
        program = lower(facts, policy)
    return budget.run(program, breach.sizes, PATIENCE) == ()
