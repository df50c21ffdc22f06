"""A verdict is true if it is proved, prints what the terminal prints, and policies have names."""

from __future__ import annotations

from pathlib import Path

import pytest
from typer.testing import CliRunner

from exogpu import Policy
from exogpu.api import proc
from exogpu.cli.commands import app
from exogpu.diagnostics.errors import ExoGpuError
from exogpu.diagnostics.verdict import Verdict, Word


@proc
def race(M: size, y: f32[M, 32] @ CudaGmemLinear):
    with CudaDeviceFunction(blockDim=32):
        for m in cuda_tasks(0, M):
            for t in cuda_threads(0, 32, unit=cuda_thread):
                y[m, 0] = 1.0


@proc
def fine(M: size, y: f32[M, 32] @ CudaGmemLinear):
    with CudaDeviceFunction(blockDim=32):
        for m in cuda_tasks(0, M):
            for t in cuda_threads(0, 32, unit=cuda_thread):
                y[m, t] = 1.0


@pytest.mark.parametrize(
    ("word", "true"),
    [("proved", True), ("refuted", False), ("undecided", False), ("error", False)],
)
def test_only_what_is_proved_is_true(word: Word, true: bool) -> None:
    assert bool(Verdict("p", word, None, Policy.PAPER, 0.0)) is true


def test_an_assertion_of_a_race_fails() -> None:
    assert fine.check() and fine.check_at(M=2)
    assert not race.check() and not race.check_at(M=2)
    assert not fine.check_at(N=2)


def test_a_verdict_prints_what_the_terminal_prints(
    tmp_path: Path, monkeypatch: pytest.MonkeyPatch
) -> None:
    monkeypatch.chdir(tmp_path)
    target = f"{Path(__file__)}::race"
    printed = CliRunner().invoke(app, ["check", target, "--at", "M=1"]).stdout
    said = str(race.check_at(M=1))
    assert said.splitlines()[1:] == printed.splitlines()[1:]  # the first has the seconds
    assert said.startswith("race: refuted at M=1 (") and "chain: " in said
    assert "\x1b" not in said and not said.endswith("\n")


def test_policies_are_accepted_by_name() -> None:
    assert fine.check(policy="paper") is fine.check(policy=Policy.PAPER)
    assert fine.check_at(policy="paper", M=1).policy is Policy.PAPER
    assert fine.amir("paper").policy is Policy.PAPER
    with pytest.raises(ExoGpuError, match=r"X908.*leave the policy out"):
        fine.emit(policy="paper")
    assert Policy.from_name(Policy.PAPER) is Policy.PAPER


@pytest.mark.parametrize("policy", ["lenient", "", "PAPER", 3, None])
def test_other_policies_are_refused(policy: object) -> None:
    calls = (
        lambda: fine.check(policy=policy),
        lambda: fine.check_at(policy=policy, M=1),
        lambda: fine.amir(policy),
        lambda: fine.emit(policy=policy),
    )
    for call in calls:
        with pytest.raises(ExoGpuError, match=r"X906.*'paper'"):
            call()


@pytest.mark.parametrize("at", [[("M", 1)], "M=1", 3, {3: 3}, {"M": "1"}])
def test_sizes_to_emit_at_are_given_by_name(at: object) -> None:
    with pytest.raises(ExoGpuError, match="X905"):
        fine.emit(at=at)


@pytest.mark.parametrize("limit", ["60", float("nan"), -1, [60], True])
def test_limits_are_numbers(limit: object) -> None:
    calls = (
        lambda: fine.check(timeout=limit),
        lambda: fine.check(memory=limit),
        lambda: fine.check_at(timeout=limit, M=1),
        lambda: fine.check_at(memory=limit, M=1),
    )
    for call in calls:
        with pytest.raises(ExoGpuError, match=r"X907.*at least 0"):
            call()


@pytest.mark.parametrize("size", [2.0, "2", None, True, 2**63, 10**400])
def test_sizes_are_integers_of_64_bits(size: object) -> None:
    verdict = fine.check_at(M=size)  # type: ignore[arg-type]
    assert verdict.word == "error" and verdict.diagnostics[0].code == "X905"
