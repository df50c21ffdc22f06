"""Checks end: within their time and memory, and whatever becomes of a solver's process."""

from __future__ import annotations

import ctypes
import os
import re
import time
from collections.abc import Callable
from pathlib import Path

import pytest
from typer.testing import CliRunner

from exogpu import Procedure, proc
from exogpu.amir.nodes import Program
from exogpu.cli.commands import app
from exogpu.diagnostics.verdict import Proving
from exogpu.explain.trials import Budget
from exogpu.machine import fast
from exogpu.pipeline.check import Answer, answer
from exogpu.solvers import processes
from exogpu.solvers.processes import Limits, Stopped, isolated, stage, streamed
from exogpu.symbolic.search.analysis import Findings

pytestmark = pytest.mark.slow

HEAD = "from exogpu import *\n\n"

SAFE = """
@proc
def twice(M: size, x: f32[M, 32] @ CudaGmemLinear):
    with CudaDeviceFunction(blockDim=32):
        for m in cuda_tasks(0, M):
            for t in cuda_threads(0, 32, unit=cuda_thread):
                x[m, t] += x[m, t]
"""

# A ring at which ISL once crashed; the tests that need a crash plant one.
CRASH = """
@proc
def crash(M: size, K: size):
    with CudaDeviceFunction(blockDim=64):
        for m in cuda_tasks(0, M):
            z: barrier[2] @ CudaMbarrier
            for i in seq(0, 3):
                for k in seq(0, K):
                    Arrive(cuda_in_order) >> z[(i + k) % 2]
                    Await(z[(i + k) % 2], cuda_in_order, ~0)
            Fence(cuda_in_order, cuda_in_order)
"""

NOTHING = Findings((), (), 0, False)


@pytest.fixture
def call(tmp_path, monkeypatch):
    """Runs the command in an empty folder."""
    monkeypatch.chdir(tmp_path)

    def run(*arguments, **files):
        for name, text in files.items():
            Path(f"{name}.py").write_text(HEAD + text)
        result = CliRunner().invoke(app, [str(argument) for argument in arguments])
        assert result.exception is None or isinstance(result.exception, SystemExit), result
        return result

    return run


def twice() -> Procedure:
    @proc
    def twice(M: size, x: f32[M, 32] @ CudaGmemLinear):
        with CudaDeviceFunction(blockDim=32):
            for m in cuda_tasks(0, M):
                for t in cuda_threads(0, 32, unit=cuda_thread):
                    x[m, t] += x[m, t]

    return twice


def sleep(*_, **__):
    time.sleep(60)


def crash(*_, **__):
    os.kill(os.getpid(), 11)


def hoard(*_, **__):
    kept = []
    while True:
        kept.append(bytearray(10_000_000))


# --- work in a process of its own ---------------------------------------------------------------


def test_what_is_found_told_and_raised_comes_back() -> None:
    heard: list[object] = []

    def work(tell) -> int:
        tell("half")
        return 3

    assert isolated(work, Limits(), heard.append) == 3
    assert heard == ["half"]
    with pytest.raises(ZeroDivisionError) as raised:
        isolated(lambda tell: 1 // 0, Limits())
    assert "in <lambda>" in str(raised.value.__cause__)  # the traceback of the process


def test_an_exception_that_cannot_be_sent_is_still_said() -> None:
    class OddError(Exception):
        pass

    def work(tell) -> None:
        raise OddError("how odd")

    with pytest.raises(RuntimeError, match="OddError: how odd"):
        isolated(work, Limits())


@pytest.mark.parametrize(
    "work, cause, said",
    [
        (sleep, "time", "the time limit of 0.3 s ran out while dozing"),
        (hoard, "memory", "the memory limit of 0.4 GB ran out while dozing"),
        (crash, "crash", r"ended \(SIGSEGV\) while dozing"),
        (lambda: os._exit(7), "crash", r"ended \(exit status 7\) while dozing"),
    ],
)
def test_what_is_stopped_says_why_and_where(work, cause: str, said: str) -> None:
    def dozing(tell) -> None:
        stage("dozing")
        work()

    start = time.perf_counter()
    limits = Limits(0.3 if cause == "time" else None, 0.4 if cause == "memory" else None)
    stopped = isolated(dozing, limits)
    assert isinstance(stopped, Stopped) and stopped.cause == cause
    assert re.search(said, str(stopped))
    if cause == "time":
        assert time.perf_counter() - start < 10


def test_memory_of_the_caller_does_not_count() -> None:
    kept = bytearray(os.urandom(1 << 20) * 600)
    assert isolated(lambda tell: time.sleep(0.3) or len(kept), Limits(None, 0.3)) == len(kept)


def test_no_process_is_left_behind() -> None:
    pids: list[object] = []

    def work(tell) -> None:
        tell(os.getpid())
        time.sleep(60)

    isolated(work, Limits(0.2), pids.append)
    (pid,) = pids
    assert isinstance(pid, int)
    with pytest.raises(ProcessLookupError):
        os.kill(pid, 0)


def test_seconds_may_be_each_stages() -> None:
    def produce():
        for number in range(3):
            stage(f"stage {number}")
            time.sleep(0.3)
            yield number
        stage("the last")
        time.sleep(60)

    *made, stopped = streamed(produce, Limits(0.8, each_stage=True))
    assert made == [0, 1, 2]
    assert isinstance(stopped, Stopped) and stopped.stage == "the last"


def test_isolated_work_within_streamed_work_has_a_process_of_its_own() -> None:
    def produce():
        yield isolated(lambda tell: ctypes.string_at(0), Limits())
        yield "alive"

    first, second = streamed(produce, Limits())
    assert isinstance(first, Stopped) and first.cause == "crash"
    assert second == "alive"


def test_without_processes_the_work_is_done_in_place(monkeypatch) -> None:
    monkeypatch.setattr(processes, "FORKS", False)
    heard: list[object] = []
    assert isolated(lambda tell: tell(1) or os.getpid(), Limits(1), heard.append) == os.getpid()
    assert heard == [1]
    assert list(streamed(lambda: iter((1, 2)), Limits(1))) == [1, 2]


# --- checks -------------------------------------------------------------------------------------

STAGES = {
    "exogpu.pipeline.stages.bounds.violations": "reading the procedure and checking its bounds",
    "exogpu.pipeline.check.analysed": "analysing the order of accesses",
    "exogpu.pipeline.check.refute": "refuting",
    "exogpu.pipeline.check.prove": "proving",
}


@pytest.mark.parametrize("at", STAGES)
def test_a_check_that_takes_too_long_says_where(at: str, monkeypatch) -> None:
    monkeypatch.setattr(at, sleep)
    start = time.perf_counter()
    verdict = twice().check(timeout=1.5)
    assert time.perf_counter() - start < 15
    assert verdict.word == "undecided"
    assert f"the time limit of 1.5 s ran out while {STAGES[at]}" in verdict.reason


def test_a_check_at_sizes_keeps_to_its_time_and_memory(monkeypatch) -> None:
    for work, said in ((sleep, "time limit of 1 s"), (hoard, "memory limit of 0.6 GB")):
        monkeypatch.setattr(fast, "run", work)
        limits = {"timeout": 1.0} if work is sleep else {"memory": 0.6}
        verdict = twice().check_at(M=4, **limits)
        assert (verdict.word, verdict.sizes) == ("undecided", {"M": 4})
        assert f"the {said} ran out while running the abstract machine" in verdict.reason


def test_what_was_stopped_is_not_remembered(monkeypatch) -> None:
    procedure = twice()
    with monkeypatch.context() as patch:
        patch.setattr("exogpu.pipeline.check.prove", sleep)
        assert procedure.check(timeout=1).word == "undecided"
    assert procedure.check().word == "proved"


def test_a_refutation_is_not_lost_where_its_condition_takes_too_long(call, monkeypatch) -> None:
    monkeypatch.setattr("exogpu.pipeline.check.weakest_condition", sleep)
    racy = SAFE.replace("x[m, t] += x[m, t]", "x[m, t] += x[m, 31 - t]")
    result = call("check", "k.py", "--timeout", "4", k=racy)
    assert result.exit_code == 1
    assert "hazard H7" in result.stdout and "safe if" not in result.stdout


def test_a_crash_of_the_prover_does_not_end_the_folder(call, monkeypatch) -> None:
    def planted(program: Program, tell: Callable[[Proving], None]) -> Answer:
        with monkeypatch.context() as patch:
            if program.name == "crash":
                patch.setattr("exogpu.pipeline.check.prove", crash)
            return answer(program, tell)

    monkeypatch.setattr("exogpu.pipeline.check.answer", planted)
    result = call("check", ".", a=CRASH, b=SAFE)
    assert result.exit_code == 3
    assert "crash: undecided" in result.stdout
    assert "SIGSEGV) while proving" in result.stdout
    # The concrete machine has no such trouble.
    assert "safe at M=1, K=1 and at M=1, K=2" in result.stdout
    assert "twice: proved for all sizes" in result.stdout


def test_a_crash_is_undecided_from_python_too(monkeypatch) -> None:
    monkeypatch.setattr("exogpu.pipeline.check.answer", crash)
    monkeypatch.setattr("exogpu.pipeline.limited_check.TRIED", 0)
    verdict = twice().check()
    assert verdict.word == "undecided"
    assert "SIGSEGV" in verdict.reason and "not of the kernel" in verdict.reason


@pytest.mark.parametrize("command", ["check", "compile", "report"])
def test_a_file_that_cannot_be_loaded_in_time_does_not_end_the_folder(call, command: str) -> None:
    output = () if command == "check" else ("-o", "out")
    result = call(command, ".", *output, "--timeout", "3", a="import time\ntime.sleep(60)", b=SAFE)
    assert result.exit_code == 3
    assert "the time limit of 3 s ran out while loading a.py" in result.stdout
    assert "twice: proved" in result.stdout or "twice: compiled" in result.stdout


def test_loading_has_a_memory_limit(call) -> None:
    text = "kept = [bytearray(10_000_000) for _ in range(300)]\n"
    result = call("check", ".", "--memory", "0.8", a=text, b=SAFE)
    assert result.exit_code == 3
    assert "the memory limit of 0.8 GB ran out while loading a.py" in result.stdout
    assert "twice: proved" in result.stdout


@pytest.mark.parametrize("command", ["compile", "report"])
def test_other_commands_keep_to_the_limits_of_their_check(call, command: str, monkeypatch) -> None:
    monkeypatch.setattr("exogpu.pipeline.check.prove", sleep)
    start = time.perf_counter()
    result = call(command, "k.py", "-o", "out", "--timeout", "3", k=SAFE)
    assert result.exit_code == 3
    assert time.perf_counter() - start < 30
    assert "undecided" in result.stdout


# --- the smallest sizes of what is undecided ----------------------------------------------------


def undecided(program, tell) -> Answer:
    return Answer(NOTHING, reason="planted")


def test_what_is_undecided_is_run_at_its_smallest_sizes(call, monkeypatch) -> None:
    monkeypatch.setattr("exogpu.pipeline.check.answer", undecided)
    result = call("check", "k.py", k=SAFE.replace("with Cuda", "assert M % 3 == 0\n    with Cuda"))
    assert result.exit_code == 3
    assert "planted; safe at M=3 and at M=6; give sizes" in result.stdout


def test_a_hazard_there_is_a_refutation(call, monkeypatch) -> None:
    monkeypatch.setattr("exogpu.pipeline.check.answer", undecided)
    # One task writes what the next reads: at M = 1 there is no other.
    racy = SAFE.replace("x[m, t] += x[m, t]", "x[M - 1, t] += x[0, t]")
    result = call("check", "k.py", k=racy)
    assert result.exit_code == 1
    assert "at M=2" in result.stdout and "replayed" in result.stdout


def test_the_machine_may_come_to_no_end_there(call, monkeypatch) -> None:
    monkeypatch.setattr("exogpu.pipeline.check.answer", undecided)
    monkeypatch.setattr("exogpu.pipeline.limited_check.TRYING", 1.0)
    monkeypatch.setattr(fast, "run", sleep)
    result = call("check", "k.py", k=SAFE)
    assert result.exit_code == 3
    assert "at M=1 the abstract machine came to no end" in result.stdout


UNFENCED = """
@proc
def turned(M: size, x: f32[M, 64] @ CudaGmemLinear):
    with CudaDeviceFunction(blockDim=64):
        for m in cuda_tasks(0, M):
            tile: f32[64] @ CudaSmemLinear
            for t in cuda_threads(0, 64, unit=cuda_thread):
                tile[t] = x[m, t]
            for t in cuda_threads(0, 64, unit=cuda_thread):
                x[m, t] = tile[63 - t]
            Fence(cuda_in_order, cuda_in_order)
"""


@pytest.mark.parametrize("at", [("--at", "M=3"), ()], ids=["at a size", "for all sizes"])
def test_repairs_that_are_not_tried_are_said(call, at: tuple[str, ...], monkeypatch) -> None:
    said = "further repairs were not tried: that would take too long"
    with monkeypatch.context() as patch:
        patch.setattr("exogpu.pipeline.refutation.Budget", lambda *_: Budget(0.0))
        result = call("check", "k.py", *at, k=UNFENCED)
        assert result.exit_code == 1
        assert "further" in result.stdout and "were not tried" in result.stdout
        assert "repair: add" not in result.stdout
        assert said in result.stdout or not at
    result = call("check", "k.py", *at, k=UNFENCED)
    assert "were not tried" not in result.stdout and "repair: add" in result.stdout


def test_the_machine_may_do_too_much_work_there(call, monkeypatch) -> None:
    monkeypatch.setattr("exogpu.pipeline.check.answer", undecided)
    monkeypatch.setattr("exogpu.pipeline.check.WORK", 1)
    result = call("check", "k.py", k=SAFE)
    assert result.exit_code == 3
    assert "planted; at M=1 the abstract machine came to no end" in result.stdout


def test_without_sizes_the_machine_decides(monkeypatch) -> None:
    @proc
    def one(x: f32[32] @ CudaGmemLinear):
        with CudaDeviceFunction(blockDim=32):
            for task in cuda_tasks(0, 1):
                for t in cuda_threads(0, 32, unit=cuda_thread):
                    x[t] += 1

    monkeypatch.setattr("exogpu.pipeline.check.answer", crash)
    verdict = one.check()
    assert (verdict.word, verdict.sizes) == ("proved", {})
