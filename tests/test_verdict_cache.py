"""Verdicts that are kept on disk: found again only where nothing that determines them changed."""

from __future__ import annotations

import json
import multiprocessing
import os
import re
import subprocess
import sys
import time
from dataclasses import replace
from enum import IntEnum
from pathlib import Path

import pytest
from hypothesis import HealthCheck, given, settings
from hypothesis import strategies as st
from typer.testing import CliRunner

from exogpu.cli.commands import app
from exogpu.cli.loader import load
from exogpu.diagnostics import disk_cache
from exogpu.diagnostics.codec import UnreadableError, decode, encode
from exogpu.diagnostics.verdict import Policy, Verdict
from exogpu.ir.digest import digest
from exogpu.ir.nodes import Block, CallInstr, Proc, Stmt
from exogpu.ir.walk import map_blocks, walk
from exogpu.kernels.gemm_sm90 import KERNELS
from exogpu.pipeline import check as pipeline_check
from exogpu.pipeline import verdict_cache
from exogpu.solvers import processes

ROOT = Path(__file__).parent.parent

HEAD = "from exogpu import *\n\n"

KERNEL = """
@proc
def reverse(M: size, x: f32[M, 64] @ CudaGmemLinear, y: f32[M, 64] @ CudaGmemLinear):
    with CudaDeviceFunction(blockDim=64):
        for m in cuda_tasks(0, M):
            tile: f32[64] @ CudaSmemLinear
            for t in cuda_threads(0, 64, unit=cuda_thread):
                tile[t] = x[m, t]
            {fence}
            for t in cuda_threads(0, 64, unit=cuda_thread):
                y[m, t] = tile[63 - t]
            Fence(cuda_in_order, cuda_in_order)
"""
SAFE = HEAD + KERNEL.format(fence="Fence(cuda_in_order, cuda_in_order)")
HAZARD = HEAD + KERNEL.format(fence="pass")
OUTSIDE = HEAD + "@proc\ndef outside(n: size, z: f32[n] @ DRAM):\n    z[n] = 1.0\n"
CONDITIONAL = HEAD + "@proc\ndef even(n: size, z: f32[n] @ DRAM):\n    z[n - 2] = 1.0\n"
PROGRAMS = {
    "proved": (SAFE, "M"),
    "refuted": (HAZARD, "M"),
    "outside": (OUTSIDE, "n"),
    "conditional": (CONDITIONAL, "n"),
}
"""Each with its size."""


@pytest.fixture
def kernel(tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> Path:
    monkeypatch.chdir(tmp_path)
    path = tmp_path / "kernel.py"
    path.write_text(SAFE)
    return path


@pytest.fixture
def made(monkeypatch: pytest.MonkeyPatch) -> list[str]:
    """The checks that were made, and not found, in this process."""
    found: list[str] = []
    plain, at = pipeline_check.check, pipeline_check.check_at

    def check(*arguments: object) -> object:
        found.append("check")
        return plain(*arguments)

    def check_at(*arguments: object) -> object:
        found.append("check_at")
        return at(*arguments)

    monkeypatch.setattr(pipeline_check, "check", check)
    monkeypatch.setattr(pipeline_check, "check_at", check_at)
    return found


def run(*arguments: str) -> str:
    return CliRunner().invoke(app, ["check", *arguments]).stdout


def told(*arguments: str) -> list[dict[str, object]]:
    """The verdicts as JSON, without what tells how long they took."""
    found = json.loads(run(*arguments, "--json"))
    return [{name: one[name] for name in one if name not in ("seconds", "cached")} for one in found]


def cached(*arguments: str) -> list[bool]:
    return [one["cached"] for one in json.loads(run(*arguments, "--json"))]


# --- what is found is what was made -------------------------------------------------------------


@pytest.mark.parametrize("name", PROGRAMS)
@pytest.mark.parametrize("at", [None, 1, 3])
def test_the_same_text_and_json(name: str, at: int | None, kernel: Path, made: list[str]) -> None:
    text, size = PROGRAMS[name]
    kernel.write_text(text)
    options = ("kernel.py",) if at is None else ("kernel.py", "--at", f"{size}={at}")
    fresh = run(*options, "--no-cache").splitlines()
    objects = told(*options, "--no-cache")
    assert cached(*options) == [False]
    assert cached(*options) == [True]
    assert told(*options) == objects
    again = run(*options).splitlines()
    assert len(made) == 3
    assert again[1:] == fresh[1:]
    # The first line has the time: `(3 obligations in 0.02 s, policy ptx)`.
    assert re.sub(r"( in |(?<=\())\d+\.\d\d s,", ", from cache,", fresh[0]) == again[0].replace(
        "(from", "(, from"
    )


@pytest.mark.parametrize("name", PROGRAMS)
def test_verdicts_come_back_from_json_as_they_were(name: str, kernel: Path) -> None:
    kernel.write_text(PROGRAMS[name][0])
    (unit,) = load("kernel.py")
    assert unit.procedure is not None
    verdict = unit.procedure.check()
    again = decode(Verdict, json.loads(json.dumps(encode(verdict))))
    assert again == verdict and again is not verdict
    # Spans compare without their text.
    assert encode(again) == encode(verdict)


@settings(max_examples=300, deadline=None, suppress_health_check=[*HealthCheck])
@given(st.data())
def test_no_other_json_is_taken_for_a_verdict(data: st.DataObject) -> None:
    """One value anywhere is replaced by one of another type."""
    stored = encode(Verdict("p", "proved", {"n": 1}, Policy.PTX, 0.5, reason="r"))
    assert isinstance(stored, list)
    at = data.draw(st.integers(0, len(stored) - 1))
    other = data.draw(st.sampled_from([None, True, 3, 0.5, "x", [], {}, [1], {"n": "m"}]))
    if type(other) is type(stored[at]) or (type(other), type(stored[at])) == (int, float):
        return
    name = list(Verdict.__dataclass_fields__)[at]
    taken = {"condition": "x", "sizes": {}, "redundant": []}
    optional = name in taken or name == "proof"
    if (other is None and optional) or (name in taken and other == taken[name]):
        return
    with pytest.raises(UnreadableError):
        decode(Verdict, [*stored[:at], other, *stored[at + 1 :]])


# --- what determines a verdict ------------------------------------------------------------------


def test_a_changed_kernel_is_checked(kernel: Path, made) -> None:
    assert "proved" in run("kernel.py")
    kernel.write_text(HAZARD)
    assert "refuted" in run("kernel.py") and len(made) == 2
    kernel.write_text(SAFE)
    assert "from cache" in run("kernel.py") and len(made) == 2


def test_a_kernel_that_moves_is_checked_as_its_lines_are_told(kernel: Path, made) -> None:
    kernel.write_text(HAZARD)
    run("kernel.py")
    kernel.write_text("# a line more\n" + HAZARD)
    assert cached("kernel.py") == [False]


def test_a_comment_changes_nothing(kernel: Path) -> None:
    run("kernel.py")
    kernel.write_text(SAFE + "# a comment below\n")
    assert cached("kernel.py") == [True]


def test_each_policy_and_each_size_has_its_own(kernel: Path, made) -> None:
    for options in ((), ("--policy", "paper"), ("--at", "M=1"), ("--at", "M=2")):
        assert cached("kernel.py", *options) == [False]
        assert cached("kernel.py", *options) == [True]
    assert made == ["check", "check", "check_at", "check_at"]


@pytest.mark.parametrize(
    ("part", "value"),
    [("tools", ("z3-solver 0",)), ("own_files", "another digest")],
)
def test_another_version_has_its_own(part: str, value: object, kernel: Path, monkeypatch) -> None:
    run("kernel.py")
    with monkeypatch.context() as changed:
        changed.setattr(disk_cache, part, lambda: value)
        assert cached("kernel.py") == [False]
    assert cached("kernel.py") == [True]


def test_any_change_of_a_file_is_another_version(tmp_path: Path) -> None:
    (tmp_path / "inner").mkdir()
    (tmp_path / "inner" / "rule.py").write_text("a rule")
    (tmp_path / "table.py").write_text("a table")
    found = {disk_cache.digest_of_files(tmp_path)}
    (tmp_path / "inner" / "rule.py").write_text("a Rule")
    found.add(disk_cache.digest_of_files(tmp_path))
    (tmp_path / "table.py").rename(tmp_path / "tables.py")
    found.add(disk_cache.digest_of_files(tmp_path))
    assert len(found) == 3
    (tmp_path / "__pycache__").mkdir()
    (tmp_path / "__pycache__" / "rule.pyc").write_text("made from it")
    assert disk_cache.digest_of_files(tmp_path) in found


def test_where_exogpu_is_no_files_nothing_is_kept(
    kernel: Path, verdicts: Path, monkeypatch
) -> None:
    monkeypatch.setattr(disk_cache, "own_files", lambda: None)
    assert "proved" in run("kernel.py") and not [*verdicts.iterdir()]
    with pytest.raises(OSError):
        disk_cache.digest_of_files(kernel)


def test_what_other_files_decided_is_not_kept(kernel: Path, verdicts: Path, monkeypatch) -> None:
    """Edited after this process read them, exogpu's files are not what decides in it."""
    assert disk_cache.unchanged()
    (kernel.parent / "edited.py").write_text("a rule")
    monkeypatch.setattr(disk_cache, "_OWN", kernel.parent)
    monkeypatch.setattr(disk_cache, "own_files", disk_cache.own_files.__wrapped__)
    assert not disk_cache.unchanged() and disk_cache.own_files() is None
    assert "proved" in run("kernel.py") and not [*verdicts.iterdir()]


def test_every_folder_of_exogpu_decides() -> None:
    """The prover and the code generator are linked into the package."""
    root = Path(disk_cache.__file__).parent.parent
    before = disk_cache.digest_of_files(root)
    for folder in ("symbolic", "codegen", "machine"):
        assert (root / folder).is_dir()
        assert disk_cache.digest_of_files(root / folder) != before


def test_the_versions_are_those_of_the_tools() -> None:
    names = [found.split()[0] for found in disk_cache.tools()]
    assert {"python", "z3-solver", "islpy"} <= {*names}


def test_an_instruction_that_changes_changes_the_procedure(kernel: Path) -> None:
    ir = KERNELS["gemm_sm90_1x1_128x64"].ir
    assert ir is not None
    before = digest(ir)
    assert before is not None and before == digest(ir) == digest(replace(ir))
    call = next(stmt for stmt in walk(ir.body) if isinstance(stmt, CallInstr))
    other = replace(call, instr=replace(call.instr, template="another"))
    assert digest(with_statement(ir, call, other)) not in (before, None)


def with_statement(proc: Proc, old: Stmt, new: Stmt) -> Proc:
    def block(body: Block) -> Block:
        return tuple(new if stmt is old else map_blocks(stmt, block) for stmt in body)

    return replace(proc, body=block(proc.body))


def test_what_is_not_known_to_determine_a_verdict_is_never_kept(kernel: Path) -> None:
    (unit,) = load("kernel.py")
    assert unit.procedure is not None and unit.procedure.ir is not None
    odd = replace(unit.procedure.ir, preconditions=(object(),))
    assert digest(odd) is None and verdict_cache.verdict_key(odd, Policy.PTX, None) is None


CONFIGURED = """from enum import IntEnum
from exogpu import *
from configuration import Size

@proc
def fill(M: size, z: f32[M, 4] @ DRAM):
    for m in seq(0, M):
        z[m, Size.LAST] = Size.VALUE
"""


def test_a_member_of_an_enumeration_is_told_by_its_value(kernel: Path, monkeypatch) -> None:
    """It prints as `Size.LAST`, whatever that is."""
    monkeypatch.syspath_prepend(kernel.parent)
    # Bytecode of a text of the same length and second would stand for the next one.
    monkeypatch.setattr(sys, "dont_write_bytecode", True)
    found = []
    for last, value in ((3, 1), (4, 1), (3, 2)):
        text = f"from enum import IntEnum\nclass Size(IntEnum):\n    LAST = {last}\n"
        kernel.with_name("configuration.py").write_text(f"{text}    VALUE = {value}\n")
        sys.modules.pop("configuration", None)
        (unit,) = load(str(kernel)) if kernel.write_text(CONFIGURED) else ()
        assert unit.procedure is not None and unit.procedure.ir is not None
        found.append(digest(unit.procedure.ir))
    assert None not in found and len({*found}) == 3


class Odd(IntEnum):
    ONE = 1


class Text(str):
    def __repr__(self) -> str:
        return "''"


@pytest.mark.parametrize("value", [Odd.ONE, Text("a")])
def test_a_type_of_the_user_s_is_not_known_to_determine_a_verdict(value: object) -> None:
    ir = KERNELS["gemm_sm90_1x1_128x64"].ir
    assert ir is not None and digest(ir) is not None
    assert digest(replace(ir, doc=value)) is None  # type: ignore[arg-type]


def test_the_digest_is_the_same_in_another_process(kernel: Path) -> None:
    program = "import sys; from exogpu.cli.loader import load; from exogpu.ir.digest import digest;"
    program += "print(digest(load('kernel.py')[0].procedure.ir))"
    found = set()
    for seed in ("1", "2"):
        environment = {**os.environ, "PYTHONHASHSEED": seed, "PYTHONPATH": str(ROOT)}
        done = subprocess.run(
            [sys.executable, "-c", program], env=environment, capture_output=True, text=True
        )
        found.add(done.stdout.strip())
    assert len(found) == 1 and len(found.pop()) == 64


# --- what is not kept ---------------------------------------------------------------------------


def test_without_the_cache_nothing_is_read_or_written(kernel: Path, verdicts: Path) -> None:
    run("kernel.py", "--no-cache")
    assert not [*verdicts.iterdir()]
    run("kernel.py")
    assert cached("kernel.py", "--no-cache") == [False]


def test_what_ran_out_of_time_is_not_kept(kernel: Path, verdicts: Path, monkeypatch) -> None:
    monkeypatch.setattr("exogpu.pipeline.check.prove", sleep)
    assert "undecided" in run("kernel.py", "--timeout", "1")
    assert not [*verdicts.iterdir()]


def sleep(*_: object) -> None:
    import time

    time.sleep(60)


def test_what_was_cut_short_in_the_check_s_process_is_not_kept(
    kernel: Path, verdicts: Path, monkeypatch
) -> None:
    """A repair that took too long is not told of: on a faster machine it is."""
    kernel.write_text(HAZARD)
    monkeypatch.setattr("exogpu.explain.trials.PATIENCE", 0.0)
    assert "refuted" in run("kernel.py")
    assert not [*verdicts.iterdir()]
    monkeypatch.undo()


def test_that_something_was_cut_short_is_heard_of_through_processes() -> None:
    def outer(tell: processes.Tell) -> int:
        processes.cut_short()
        return 1

    before = processes.cuts()
    assert processes.isolated(lambda tell: 1, processes.Limits()) == 1
    assert processes.cuts() == before
    assert processes.isolated(outer, processes.Limits()) == 1
    assert processes.cuts() > before


def test_an_ill_formed_procedure_is_not_kept(kernel: Path, verdicts: Path) -> None:
    kernel.write_text(HEAD + "@proc\ndef bad(n: size, z: f32[n] @ DRAM):\n    z[n * n] = 1.0\n")
    run("kernel.py")
    assert not [*verdicts.iterdir()]


# --- damage, and several processes --------------------------------------------------------------


def damaged(data: bytes) -> list[bytes]:
    return [b"", data[:-1], data[:20], data + b"x", data[:40] + b"?" + data[41:], b"\0" * 200]


def test_a_damaged_entry_is_no_entry(kernel: Path, verdicts: Path, made) -> None:
    run("kernel.py")
    (entry,) = verdicts.iterdir()
    data = entry.read_bytes()
    for at, wrong in enumerate(damaged(data)):
        entry.write_bytes(wrong)
        assert "proved" in run("kernel.py") and len(made) == at + 2
        assert entry.read_bytes() != wrong, "it was made anew"
        assert cached("kernel.py") == [True]


def test_what_is_no_file_or_too_large_is_no_entry(
    kernel: Path, verdicts: Path, monkeypatch
) -> None:
    run("kernel.py")
    (entry,) = verdicts.iterdir()
    with monkeypatch.context() as smaller:
        smaller.setattr(disk_cache, "LARGEST", 100)
        assert verdict_cache.load(entry.stem) is None
    assert verdict_cache.load(entry.stem) is not None
    entry.unlink()
    os.mkfifo(entry)  # nobody writes into it
    assert "proved" in run("kernel.py") and cached("kernel.py") == [True]


def test_an_entry_under_another_name_is_no_entry(kernel: Path, verdicts: Path) -> None:
    run("kernel.py")
    (safe,) = verdicts.iterdir()
    kernel.write_text(HAZARD)
    run("kernel.py")
    (hazard,) = set(verdicts.iterdir()) - {safe}
    hazard.write_bytes(safe.read_bytes())
    assert "refuted" in run("kernel.py")


def test_a_folder_that_cannot_be_written_is_left_alone(kernel: Path, monkeypatch) -> None:
    file = kernel.with_name("no folder")
    file.write_text("")
    monkeypatch.setenv("EXOGPU_CACHE", str(file))
    assert "proved" in run("kernel.py") and "from cache" not in run("kernel.py")


def test_an_unlisted_scratch_file_is_no_entry(kernel: Path, verdicts: Path) -> None:
    (verdicts / "x.tmp").write_bytes(b"half")
    run("kernel.py")
    assert disk_cache.size(verdict_cache.SUFFIX)[0] == 1


def write_often(folder: str, verdict: Verdict) -> None:
    os.environ["EXOGPU_CACHE"] = folder
    for _ in range(200):
        verdict_cache.store("k" * 64, verdict)


def test_two_processes_write_one_entry_and_every_reader_finds_it_whole(verdicts: Path) -> None:
    verdict = Verdict("p", "proved", None, Policy.PTX, 0.0, assumptions=("text " * 5000,))
    context = multiprocessing.get_context("fork")
    verdict_cache.store("k" * 64, verdict)
    writers = [
        context.Process(target=write_often, args=(str(verdicts), replace(verdict, reason=str(at))))
        for at in range(2)
    ]
    for writer in writers:
        writer.start()
    reasons = set()
    while any(writer.is_alive() for writer in writers):
        found = verdict_cache.load("k" * 64)
        assert found is not None and found.assumptions == verdict.assumptions
        reasons.add(found.reason)
    for writer in writers:
        writer.join()
        assert writer.exitcode == 0
    assert reasons <= {"", "0", "1"} and not [*verdicts.glob("*.tmp")]


def test_two_commands_at_once(kernel: Path, verdicts: Path) -> None:
    command = [sys.executable, "-m", "exogpu", "check", "kernel.py", "--json"]
    environment = {**os.environ, "PYTHONPATH": str(ROOT)}
    both = [subprocess.Popen(command, env=environment, stdout=subprocess.PIPE) for _ in range(2)]
    for one in both:
        (found,) = json.loads(one.communicate()[0])
        assert found["verdict"] == "proved"
    assert len([*verdicts.iterdir()]) == 1


def test_the_oldest_are_forgotten(verdicts: Path, monkeypatch) -> None:
    monkeypatch.setattr(verdict_cache, "MOST", 8)
    verdict = Verdict("p", "proved", None, Policy.PTX, 0.0)
    for at in range(9):
        verdict_cache.store(f"{at}", verdict)
        os.utime(verdicts / f"{at}.verdict", (at, at))
    verdict_cache.store("last", verdict)
    assert disk_cache.size(verdict_cache.SUFFIX)[0] <= 8
    assert verdict_cache.load("last") is not None and verdict_cache.load("0") is None


def test_what_a_killed_writer_left_is_removed(verdicts: Path) -> None:
    """After an hour: until then its writer may still be at it."""
    verdicts.mkdir(exist_ok=True)
    left, present = verdicts / "left.tmp", verdicts / "present.tmp"
    for path in (left, present):
        path.write_bytes(b"half")
    os.utime(left, ns=(0, time.time_ns() - disk_cache.ABANDONED - 10**9))
    verdict_cache.store("k", Verdict("p", "proved", None, Policy.PTX, 0.0))
    assert not left.exists() and present.exists()


def test_doctor_names_the_folder(verdicts: Path, kernel: Path) -> None:
    run("kernel.py")
    shown = CliRunner().invoke(app, ["doctor"]).stdout.replace("\n", "").replace(" ", "")
    assert str(verdicts).replace(" ", "") in shown and "1verdicts" in shown


def test_the_folder_is_the_user_s(monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.delenv("EXOGPU_CACHE")
    assert disk_cache.folder().name == "verdicts"
