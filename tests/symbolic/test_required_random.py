"""Bounds of windows at random: a solver confirms them where ISL finds no fault, and only there."""

from __future__ import annotations

from collections import Counter

import pytest

from exogpu.analysis import bounds
from exogpu.diagnostics.hazards import HazardKind
from exogpu.solvers import smt
from exogpu.symbolic.prove import drafts
from exogpu.symbolic.search.analysis import analyse
from tests.machine.shapes import sources
from tests.symbolic.agreement import source

SEEDS = range(300, 316)


@pytest.mark.slow
def test_bounds_are_confirmed_iff_nothing_is_outside() -> None:
    counts: Counter[bool] = Counter()
    for seed in SEEDS:
        for text in (source(seed).windows, source(seed).direct):
            procedure = sources.procedure(text)
            assert procedure.ir is not None
            outside = bool(bounds.violations(procedure.ir))
            evidence = analyse(procedure.amir()).evidence
            assert evidence is not None
            scripts = [d.script for d in drafts(evidence) if d.kind is HazardKind.BOUNDS]
            words = {smt.ask_z3(script).word for script in scripts if script}
            assert (words <= {"unsat"}) == (not outside), (seed, text)
            counts[outside] += 1
    assert min(counts.values()) > 5, counts
