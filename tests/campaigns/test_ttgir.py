"""The campaign of random TTGIR tells what is proved and goes wrong."""

from __future__ import annotations

from random import Random

from campaigns import ttgir
from tests.importing.random_roles import Choice, draw


def judged(verdict: str, goes_wrong: str) -> dict[str, object]:
    return {"verdict": verdict, "kinds": [], "goes wrong": goes_wrong, "features": ["ring of 2"]}


def test_a_program_that_is_proved_and_goes_wrong_is_told():
    results = {"1": judged("proved", "stuck at 2"), "2": judged("refuted", "stuck at 2")}
    assert ttgir.wrong(results) == ["1 is proved: stuck at 2"]
    page = ttgir.page(results)
    assert "- 1 is proved: stuck at 2" in page
    assert "| ring of 2 | 2 | 1 | 1 | 0 | 0 | 2 | 1 |" in page


def test_a_program_that_was_not_judged_is_told():
    results = {"1": {"crash": "what"}, "2": {"hang": 120.0}, "3": judged("proved", "")}
    assert ttgir.wrong(results) == ["1: crash: what", "2: hang: 120.0"]
    assert "None is proved" in ttgir.page({"3": results["3"]})


def test_a_program_is_judged():
    found = ttgir.outcome("8")
    assert found["verdict"] in ttgir.VERDICTS and not ttgir.wrong({"8": found})


def test_features_name_what_is_wrong():
    assert ttgir.features(Choice(depth=3)) == ["ring of 3", "three roles, of which one stores"]
    mistakes = [one for seed in range(300) for one in ttgir.features(draw(Random(seed)))[2:]]
    assert {"no arrive", "other expected bytes", "another slot is read"} <= set(mistakes)


def test_each_run_of_seeds_has_its_command():
    head = "    python -m campaigns.ttgir --programs"
    assert list(ttgir.commands([4, 5, 6, 9])) == [f"{head} 3 --seed 4", f"{head} 1 --seed 9"]
    assert not list(ttgir.commands([]))
