"""Forged certificates: what `recheck` confirms is right, and a careless solver would be seen."""

from __future__ import annotations

import pytest

from campaigns import forgeries
from exogpu.solvers import smt

FEW = [f"ring:{seed}" for seed in (0, 1, 2, 4, 5)]

CARELESS = "ring:16"
"""All that a loop writes is written under a condition."""


def test_what_is_confirmed_is_right() -> None:
    states = {forgeries.judge(case)["state"] for case in FEW}
    assert states & {"confirmed, another program", "confirmed, the same program"}
    assert "rejected" in states and states.isdisjoint(forgeries.FAILURES)


def test_a_solver_that_confirms_all_is_seen(monkeypatch: pytest.MonkeyPatch) -> None:
    """Some forged program violates on a machine, though it is listed as its obligations are."""
    monkeypatch.setattr(smt, "ask_z3", lambda script, **_: smt.Reply("z3 5", "unsat", 0.0))
    assert forgeries.judge(CARELESS)["state"] == "wrong"
