"""The campaign of TTGIR's mutants tells which are proved without a reason."""

from __future__ import annotations

from campaigns import ttgir_mutants
from tests.importing.redundant_mutants import REDUNDANT


def judged(verdict: str, hazard: str = "") -> dict[str, object]:
    return {"verdict": verdict, "hazard": hazard, "reason": ""}


NEEDED = "square_tiles:71 flipped ttng.wait_barrier"
SPARE = "square_tiles:102 without ttg.barrier"


def test_a_mutant_that_is_proved_needs_a_reason():
    results = {NEEDED: judged("proved"), SPARE: judged("proved")}
    assert ttgir_mutants.wrong(results) == [f"{NEEDED}: proved"]
    page = ttgir_mutants.page(results, "command")
    assert f"- {NEEDED}: proved" in page
    assert f"- {SPARE}: {REDUNDANT['square_tiles']['without ttg.barrier', 102]}" in page


def test_what_is_refuted_is_counted():
    page = ttgir_mutants.page({NEEDED: judged("refuted", "RAW"), SPARE: judged("refused")}, "")
    assert "Refuted as: 1 RAW." in page and "None is proved without a reason." in page
    assert "| all | 2 | 1 | 1 | 0 | 0 |" in page
    assert "| `square_tiles` | 2 | 1 | 1 | 0 | 0 |" in page


def test_a_mutant_that_was_not_judged_is_told():
    assert ttgir_mutants.wrong({NEEDED: {"hang": 180.0}}) == [f"{NEEDED}: hang: 180.0"]


def test_a_mutant_is_judged():
    case = "square_tiles:99 fewer bytes ttng.barrier_expect"
    assert ttgir_mutants.outcome(case) == judged("refuted", "PHASE")
