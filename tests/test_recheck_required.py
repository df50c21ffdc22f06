"""Altered certificates of what statements require: dropped, weakened, or of another place.

Each is sealed anew and lists what its program obliges to, as a forger would write it.  A program
without its source can oblige to less than the kernel does; what its own text tells is noticed, and
with the source everything is.
"""

from __future__ import annotations

import shutil
from collections.abc import Callable
from pathlib import Path
from typing import Any

import pytest

from exogpu.cli.rebuild_program import Sources
from exogpu.symbolic.certificate.recheck import recheck, solvers
from exogpu.symbolic.certificate.write import write_certificate
from tests.cases.certificates.asking import asking
from tests.forging import Content, change, content, find, forge, ops, problems, rejected

SOURCE = Path(__file__).parent / "cases/certificates/asking.py"
Z3 = solvers("z3")
Alter = Callable[[Content], object]


@pytest.fixture(scope="module")
def written(tmp_path_factory: pytest.TempPathFactory) -> Path:
    folder = tmp_path_factory.mktemp("asking") / "asking"
    verdict = asking.check()
    assert verdict.word == "proved", verdict.reason
    write_certificate(folder, asking, verdict)
    return folder


@pytest.fixture
def folder(written: Path, tmp_path: Path) -> Path:
    return Path(shutil.copytree(written, tmp_path / "asking"))


def required(kind: str, variable: str | None = None) -> Callable[[Content], dict[str, Any]]:
    """The first Require of a kind, and of a variable."""

    def of(program: Content) -> dict[str, Any]:
        every = (op for op in ops(program, "Require") if op["kind"] == kind)
        return next(op for op in every if variable in (None, op["variable"]))

    return of


def dropped(which: Callable[[Content], dict[str, Any]]) -> Alter:
    """In its place stands what another statement requires anyway: the witness still fits."""

    def alter(program: Content) -> None:
        other = {**GUARDED(program), "conditions": ["(0 = 0)"]}
        wanted = which(program)
        for block, at in find(program["body"], "Require"):
            if block[at] is wanted:
                block[at] = other

    return alter


def gone(which: Callable[[Content], dict[str, Any]]) -> Alter:
    def alter(program: Content) -> None:
        wanted = which(program)
        for block, at in [*find(program["body"], "Require")]:
            if block[at] is wanted:
                del block[at]
                return

    return alter


def changed(which: Callable[[Content], dict[str, Any]], **values: object) -> Alter:
    return lambda program: which(program).update(values)


def records(**values: object) -> Alter:
    def alter(program: Content) -> None:
        for kind in ("RecordRead", "RecordMutate"):
            for op in ops(program, kind):
                if op["access"]["variable"] == "r":
                    op.update(values)

    return alter


BOUNDS, ALIGN, OVERLAP = required("BOUNDS", "x"), required("ALIGN", "x"), required("OVERLAP")
GUARDED, TOGETHER = required("BOUNDS", "y"), required("DIVERGENCE")


def test_it_has_one_of_each_kind(folder: Path) -> None:
    kinds = {op["kind"] for op in ops(content(folder, "program.json"), "Require")}
    assert kinds == {"BOUNDS", "ALIGN", "OVERLAP", "DIVERGENCE"}
    found = recheck(folder, solvers("all"), compare=Sources([str(SOURCE)]).compare)
    assert found.word == "confirmed" and found.compared


EASIER: dict[str, Alter] = {
    "an extent of a window": dropped(BOUNDS),
    "a weaker extent": changed(BOUNDS, conditions=["((1) <= K)"]),
    "what always holds": changed(BOUNDS, conditions=["(0 = 0)"]),
    "another kind": changed(BOUNDS, kind="ALIGN"),
    "an alignment": dropped(ALIGN),
    "a weaker alignment": changed(ALIGN, conditions=["(((K) mod 2) = (0))"]),
    "an overlap": dropped(OVERLAP),
    "a group of threads": dropped(TOGETHER),
    "a smaller group": changed(
        TOGETHER,
        together=[
            {"pitch": 64, "extent": 1, "size": 1},
            {"pitch": 1, "extent": 64, "size": 16},
        ],
    ),
    "a larger owner": lambda p: next(v for v in p["variables"] if v["name"] == "r").update(
        owner=32
    ),
    "a larger variable": lambda p: p["variables"][0].update(shape=["n", "(2 * K)"]),
}
"""What obliges to less, and is true: only the source tells."""


@pytest.mark.parametrize("what", EASIER)
def test_an_easier_program_is_not_the_source_s(folder: Path, what: str) -> None:
    change(folder, "program.json", EASIER[what])
    forge(folder)
    assert recheck(folder, Z3).word == "confirmed"
    compare = Sources([str(SOURCE)]).compare
    assert "it is not what its source gives" in rejected(folder, Z3, compare)


NOTICED: dict[str, tuple[Alter, str]] = {
    "what a record touches": (gone(GUARDED), "has RecordMutate of y without bounds"),
    "bounds of records": (records(inside=False), "of r without bounds"),
    "no condition": (changed(BOUNDS, conditions=[]), "it requires conditions of numbers, or that"),
    "threads and conditions": (
        changed(BOUNDS, together=[{"pitch": 1, "extent": 64, "size": 32}]),
        "it requires conditions of numbers, or that",
    ),
    "threads of another kind": (changed(TOGETHER, kind="BOUNDS"), "another kind of requirement"),
    "an unknown kind": (changed(BOUNDS, kind="RAW"), '"RAW" is not known here'),
    "a variable of nobody": (changed(BOUNDS, variable="z"), '"z" is no variable'),
    "a condition of nobody": (changed(BOUNDS, conditions=["((4) <= L)"]), "L is no variable here"),
    "a condition that is none": (changed(BOUNDS, conditions=["K"]), "it is no formula"),
    "digits with a gap": (
        changed(TOGETHER, together=[{"pitch": 2, "extent": 32, "size": 16}]),
        "the digits of a thread's index have no gaps",
    ),
    "a group of nothing": (
        changed(TOGETHER, together=[{"pitch": 1, "extent": 64, "size": 0}]),
        "no whole number",
    ),
    "a shadow": (
        changed(BOUNDS, each=[{"name": "K", "lo": "(0)", "hi": "(1)"}]),
        "the name of something else",
    ),
    "registers of nobody": (
        lambda p: next(v for v in p["variables"] if v["name"] == "r").update(owner=None),
        "r has an owner if it is allocated in registers",
    ),
    "a size of nothing": (
        lambda p: next(v for v in p["variables"] if v["name"] == "r").update(owner=0),
        "no whole number",
    ),
    "an owner of an array": (
        lambda p: p["variables"][0].update(owner=1),
        "x has an owner if it is allocated in registers",
    ),
    "threads of nobody": (changed(TOGETHER, threads=None), "there are none that could stay"),
}
"""What is rejected before any solver is asked, without the source."""


@pytest.mark.parametrize("what", NOTICED)
def test_what_the_text_alone_tells(folder: Path, what: str) -> None:
    alter, says = NOTICED[what]
    change(folder, "program.json", alter)
    assert says in problems(folder)


WRONG: dict[str, tuple[Alter, str]] = {
    "fewer threads than there are": (
        changed(TOGETHER, together=[{"pitch": 1, "extent": 32, "size": 32}]),
        "divergence",
    ),
    "a smaller variable": (
        lambda p: p["variables"][0].update(shape=["n", "(K - (1))"]),
        "bounds-x-",
    ),
    "a larger window": (
        lambda p: [
            op["access"]["coords"].__setitem__(1, ["(4)", "(12)"])
            for kind in ("RecordRead", "CheckMutates")
            for op in ops(p, kind)
            if op["access"]["variable"] == "x"
        ],
        "bounds-x-",
    ),
    "a stronger extent": (changed(BOUNDS, conditions=["((9) <= K)"]), "bounds-x-"),
    "each of more": (
        changed(
            BOUNDS,
            each=[{"name": "any", "lo": "(0)", "hi": "(9)"}],
            conditions=["(any < K)"],
        ),
        "bounds-x-",
    ),
    "a stronger alignment": (changed(ALIGN, conditions=["(((K) mod 16) = (0))"]), "align-x-"),
    "a larger group": (
        changed(TOGETHER, together=[{"pitch": 1, "extent": 64, "size": 64}]),
        "divergence-",
    ),
    "fewer threads": (
        lambda p: required("DIVERGENCE")(p).update(
            threads="{ [] -> [t] : exists j0 : t = 1 * ((0) + j0) and 0 <= j0 < 31 }"
        ),
        "divergence-",
    ),
    "an element of two threads": (
        lambda p: [
            op["access"]["coords"].__setitem__(1, "floor((r_cuda_thread_2) / 2)")
            for kind in ("RecordRead", "CheckMutates")
            for op in ops(p, kind)
            if op["access"]["variable"] == "r" and "r_cuda_thread_2" in op["access"]["coords"]
        ],
        "ownership-r-",
    ),
    "another precondition": (lambda p: p.update(preconditions=[]), "align-x-"),
}
"""What a solver rejects: there are sizes at which it does not hold."""


@pytest.mark.parametrize("what", WRONG)
def test_what_does_not_hold(folder: Path, what: str) -> None:
    alter, name = WRONG[what]
    change(folder, "program.json", alter)
    forge(folder)
    assert f"{name}" in rejected(folder, Z3)


@pytest.mark.parametrize("kind", ["BOUNDS", "ALIGN", "OVERLAP", "DIVERGENCE", "OWNERSHIP"])
def test_an_obligation_that_is_not_listed_is_missed(folder: Path, kind: str) -> None:
    def unlist(certificate: Content) -> None:
        listed = certificate["obligations"]
        listed.remove(next(one for one in listed if one["kind"] == kind))

    change(folder, "certificate.json", unlist)
    assert f"an obligation of the program is missing: {kind}" in problems(folder)
