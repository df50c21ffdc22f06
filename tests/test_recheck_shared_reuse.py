"""Shared memory that is freed too late, or for too few threads: rejected unasked."""

from __future__ import annotations

import shutil
from pathlib import Path

import pytest

from exogpu.solvers import smt
from exogpu.symbolic.certificate.recheck import recheck
from exogpu.symbolic.certificate.write import write_certificate
from tests.cases.verdicts.lifetimes import all_meet, same_warp
from tests.forging import PROGRAM, Alter, Content, change, find, problems

THREAD_0 = "{ [] -> [t] : t = 0 }"
CHECKS = ("CheckReads", "CheckMutates")


@pytest.fixture(scope="module")
def written(tmp_path_factory: pytest.TempPathFactory) -> Path:
    """Certificates of both procedures."""
    folder = tmp_path_factory.mktemp("reuse")
    for procedure in (same_warp, all_meet):
        verdict = procedure.check()
        assert verdict.word == "proved", verdict.reason
        write_certificate(folder / procedure.name, procedure, verdict)
    return folder


def names(op: Content) -> object:
    """The variable of an operation."""
    return op["variable"] if "variable" in op else op.get("access", {}).get("variable")


def release(program: Content, name: str) -> Content:
    """The Release of a variable."""
    found = [block[at] for block, at in find(program["body"], "Release")]
    return next(op for op in found if op["variable"] == name)


def ends(program: Content, name: str, *, early: bool) -> list[tuple[list[Content], Content]]:
    """The checks of the end of a variable, before what takes its bytes or before its Release."""
    found = [
        (block, block[at])
        for kind in CHECKS
        for block, at in find(program["body"], kind)
        if block[at]["free"] and names(block[at]) == name
    ]
    threads = release(program, name)["threads"]
    return [(b, op) for b, op in found if (op["threads"] != threads) == early]


def dropped(program: Content) -> None:
    """Nobody checks before the bytes are taken."""
    for block, op in ends(program, "old", early=True):
        block.remove(op)


def by_one_thread(program: Content) -> None:
    for _, op in ends(program, "old", early=True):
        op["threads"] = THREAD_0


def after_the_bytes_are_taken(program: Content) -> None:
    found = ends(program, "old", early=True)
    for block, op in found:
        block.remove(op)
    block, at = next((b, at) for b, at in find(program["body"], "Alloc") if names(b[at]) == "new")
    block[at + 1 : at + 1] = [op for _, op in found]


def half(program: Content) -> None:
    for _, op in ends(program, "old", early=True):
        op["access"]["coords"] = [["(0)", "(16)"]]


def released_by_one_thread(program: Content) -> None:
    for _, op in ends(program, "new", early=False):
        op["threads"] = THREAD_0
    release(program, "new")["threads"] = THREAD_0


def released_late(program: Content) -> None:
    """The end of old stands where the block ends."""
    block = next(b for b, at in find(program["body"], "Release") if names(b[at]) == "old")
    moved = [op for op in block if names(op) == "old" and op["op"] in (*CHECKS, "Release")]
    moved = [op for op in moved if op.get("free", True)]
    block[:] = [op for op in block if op not in moved] + moved


FORGED: dict[str, tuple[str, Alter, str]] = {
    "no early check": ("same_warp", dropped, "may take the bytes of old, without CheckReads"),
    "one thread": ("same_warp", by_one_thread, "leaves out threads that may use the bytes of old"),
    "too late": ("same_warp", after_the_bytes_are_taken, "may take the bytes of old"),
    "a part": ("same_warp", half, "checks a part of old at its end"),
    "a release by one thread": (
        "all_meet",
        released_by_one_thread,
        "releases new without threads that use its bytes",
    ),
    "a late release": ("all_meet", released_late, "may take the bytes of old, without CheckReads"),
}


@pytest.mark.parametrize("what", FORGED)
def test_a_forged_end(written: Path, tmp_path: Path, what: str) -> None:
    name, alter, says = FORGED[what]
    folder = Path(shutil.copytree(written / name, tmp_path / "altered"))
    change(folder, PROGRAM, alter)
    assert says in problems(folder)


@pytest.mark.parametrize("name", ["same_warp", "all_meet"])
def test_an_honest_end_is_confirmed(written: Path, name: str) -> None:
    assert recheck(written / name, [smt.ask_z3]).word == "confirmed"
