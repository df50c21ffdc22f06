"""A proof by several processes is that of one."""

from __future__ import annotations

import os
import time
from collections import Counter
from dataclasses import replace
from functools import partial
from pathlib import Path

import pytest

from exogpu import Procedure
from exogpu.diagnostics.verdict import Proof, Proving
from exogpu.kernels import attention_sm90, gemm_sm90, gemm_staged_sm90
from exogpu.solvers import parallel
from exogpu.solvers.processes import Limits, Stopped, Tell, isolated
from exogpu.symbolic import prove as symbolic_prove
from exogpu.symbolic.encode.obligations import units
from exogpu.symbolic.model import Placed
from exogpu.symbolic.partition import Share, Topic, dealt, shares, topics, weight
from exogpu.symbolic.prove import prove
from exogpu.symbolic.search.analysis import Analysis, analyse
from exogpu.symbolic.search.witness_builder import Seeker
from tests.kernels.altered_modules import changed

KERNELS = {
    "resident": gemm_sm90.KERNELS["gemm_sm90_1x1_128x256_resident"],
    "staged": gemm_staged_sm90.KERNELS["gemm_sm90_1x1_128x256_staged"],
    "varlen": next(p for n, p in attention_sm90.KERNELS.items() if "varlen" in n),
}


def proof(kernel: Procedure, jobs: int, monkeypatch: pytest.MonkeyPatch) -> Proof:
    monkeypatch.setenv(parallel.VARIABLE, str(jobs))
    told: list[Proving] = []
    findings, found = symbolic_prove.analysed(Analysis(kernel.amir()), told.append)
    if jobs == 1:
        assert found is None
        found = prove(findings, told=told.append)
    assert isinstance(found, Proof)
    assert max(one.answered for one in told) == len(found.answered)
    return replace(
        found,
        answered=tuple(replace(one, seconds=0.0) for one in found.answered),
        isl_seconds=0.0,
        smt_seconds=0.0,
    )


@pytest.mark.parametrize("name", KERNELS)
@pytest.mark.ci
def test_a_proof_does_not_depend_on_how_many_processes_make_it(
    name: str, monkeypatch: pytest.MonkeyPatch
) -> None:
    model = Analysis(KERNELS[name].amir()).model
    assert len(shares(model)) > 2
    assert proof(KERNELS[name], 3, monkeypatch) == proof(KERNELS[name], 1, monkeypatch)


def test_all_topics_are_shared_out() -> None:
    model = Analysis(KERNELS["varlen"].amir()).model
    made = shares(model)
    assert Counter(topic for share in made for topic in share) == Counter(topics(model))
    told = {unit.topic for unit in units(model, Seeker(analyse(KERNELS["varlen"].amir()).evidence))}
    assert told <= {*topics(model)} and Topic(None) in told
    assert shares(model) == made
    weights = [sum(weight(model, topic) for topic in share) for share in made]
    assert weights == sorted(weights, reverse=True)
    assert dealt({"a": 5, "b": 4, "c": 3, "d": 3}, 2) == [["a", "d"], ["b", "c"]]


def test_each_turn_is_one_process_s() -> None:
    def work(turns: parallel.Turns, tell: Tell) -> None:
        tell([*turns])

    with parallel.Turns(200) as turns, parallel.helping([partial(work, turns)] * 3) as some:
        taken = [turn for turn in turns]
        for helper in some:
            taken += helper.receive()  # type: ignore[call-overload]
    assert sorted(taken) == [*range(200)]


@pytest.mark.parametrize("lost", ["A_smem", "full", None])
@pytest.mark.parametrize("jobs", [1, 3])
def test_nothing_is_proved_without_all_parts(
    lost: str | None, jobs: int, monkeypatch: pytest.MonkeyPatch
) -> None:
    def fewer(model: Placed) -> tuple[Share, ...]:
        return tuple(
            frozenset(t for t in share if getattr(t.variable, "name", None) != lost)
            for share in shares(model)
        )

    monkeypatch.setattr("exogpu.symbolic.prove.shares", fewer)
    monkeypatch.setattr(symbolic_prove, "shares", fewer)
    monkeypatch.setenv(parallel.VARIABLE, str(jobs))
    with pytest.raises(AssertionError, match="not all of it"):
        findings, found = symbolic_prove.analysed(
            Analysis(KERNELS["resident"].amir()), lambda _: None
        )
        assert found is None
        prove(findings)


def test_a_refutation_does_not_depend_on_it_either(
    tmp_path: Path, monkeypatch: pytest.MonkeyPatch
) -> None:
    wrong = ("if k > 0:  # of the step before\n", "if k >= 0:\n")
    module = changed(gemm_sm90, *wrong, tmp_path)
    found = []
    for jobs in (1, 3):
        monkeypatch.setenv(parallel.VARIABLE, str(jobs))
        kernel = module.make_gemm(2, 1, 128, 64, 3, 2, overlapped=True)
        assert len(shares(Analysis(kernel.amir()).model)) > 2
        found.append(kernel.check())
    one, other = found
    assert one.word == "refuted"
    assert one.hazards == other.hazards
    assert (one.condition, one.note) == (other.condition, other.note)


@pytest.mark.parametrize("ending", ["crashes", "raises"])
@pytest.mark.ci
def test_what_a_helper_does_not_do_is_done_without_it(
    ending: str, monkeypatch: pytest.MonkeyPatch
) -> None:
    def fails(*_: object) -> None:
        if ending == "crashes":
            os.abort()
        raise RuntimeError

    monkeypatch.setattr(symbolic_prove, "_help", fails)
    monkeypatch.setenv(parallel.VARIABLE, "2")
    told: list[Proving] = []
    findings, found = symbolic_prove.analysed(Analysis(KERNELS["resident"].amir()), told.append)
    assert found is None
    assert isinstance(prove(findings), Proof)


def test_who_finds_no_proof_waits_for_no_other(
    tmp_path: Path, monkeypatch: pytest.MonkeyPatch
) -> None:
    wrong = ("if k > 0:  # of the step before\n", "if k >= 0:\n")
    kernel = changed(gemm_sm90, *wrong, tmp_path).make_gemm(2, 1, 128, 64, 3, 2, overlapped=True)
    monkeypatch.setattr(symbolic_prove, "_help", lambda *_: time.sleep(600))
    monkeypatch.setenv(parallel.VARIABLE, "2")
    begun = time.monotonic()
    findings, found = symbolic_prove.analysed(Analysis(kernel.amir()), lambda _: None)
    assert found is None and findings.violations
    assert time.monotonic() - begun < 500


def test_the_memory_of_helpers_counts() -> None:
    def work(tell: object) -> None:
        def grow(tell: object) -> None:
            kept = bytearray(600 * 10**6)
            kept[:: 1 << 12] = b"1" * len(kept[:: 1 << 12])
            time.sleep(60)

        with parallel.helping([grow]) as some:
            some[0].receive()

    begun = time.monotonic()
    stopped = isolated(work, Limits(None, 0.3))
    assert isinstance(stopped, Stopped)
    assert stopped.cause == "memory"
    assert time.monotonic() - begun < 50


def test_helpers_end_with_their_caller() -> None:
    def work(tell: object) -> None:
        with parallel.helping([lambda tell: tell(os.getpid()) or time.sleep(60)]) as some:
            tell(some[0].receive())  # type: ignore[operator]
            time.sleep(60)

    pids: list[int] = []
    assert isinstance(isolated(work, Limits(0.5), pids.append), Stopped)  # type: ignore[arg-type]
    for _ in range(100):
        if not alive(pids[0]):
            return
        time.sleep(0.1)
    raise AssertionError


def alive(pid: int) -> bool:
    try:
        return Path(f"/proc/{pid}/stat").read_text().rsplit(")", 1)[1].split()[0] not in "ZX"
    except OSError:
        return False


@pytest.mark.parametrize(("said", "is_"), [("3", 3), ("0", 1), ("-2", 1)])
def test_how_many_there_are_may_be_said(
    said: str, is_: int, monkeypatch: pytest.MonkeyPatch
) -> None:
    monkeypatch.setenv(parallel.VARIABLE, said)
    assert parallel.jobs() == is_


@pytest.mark.parametrize("said", [None, "", "many"])
def test_else_it_is_the_processors(said: str | None, monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.delenv(parallel.VARIABLE)
    if said is not None:
        monkeypatch.setenv(parallel.VARIABLE, said)
    assert 1 <= parallel.jobs() <= (os.cpu_count() or 1)
