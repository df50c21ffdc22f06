"""Alterations of what a certificate says of values from memory and of contracts: refused as no
program of ours, or not confirmed."""

from __future__ import annotations

import re
import shutil
from collections.abc import Callable
from pathlib import Path

import pytest

from exogpu.diagnostics.errors import ExoGpuError
from exogpu.solvers import smt
from exogpu.symbolic.certificate.recheck import recheck
from exogpu.symbolic.certificate.strict_json import ASSUMED, MalformedError
from exogpu.symbolic.certificate.write import write_certificate
from exogpu.symbolic.encode.witness import WitnessError
from exogpu.symbolic.sites import UndecidedError
from tests.cases.certificates.loaded import loaded
from tests.cases.certificates.loaded_twice import loaded_twice
from tests.forging import Content, change, content, find, forge, ops, problems, seal


@pytest.fixture(scope="module")
def written(tmp_path_factory: pytest.TempPathFactory) -> Path:
    folder = tmp_path_factory.mktemp("loaded") / "loaded"
    verdict = loaded.check()
    assert verdict.word == "proved", verdict.reason
    assert verdict.assumptions == ("monotone(cuts)",)
    write_certificate(folder, loaded, verdict)
    return folder


@pytest.fixture
def folder(written: Path, tmp_path: Path) -> Path:
    """A copy of the certificate."""
    return Path(shutil.copytree(written, tmp_path / "loaded"))


def loads(program: Content) -> list[Content]:
    """The loops that bind the two cuts."""
    return [op for op in ops(program, "Loop") if op.get("mode") == "loaded"]


def test_it_is_confirmed(folder: Path) -> None:
    assert content(folder, "certificate.json")["assumptions"] == [*ASSUMED, "monotone(cuts)"]
    found = recheck(folder, [smt.ask_z3])
    assert found.word == "confirmed", found.flaws


# --- no program of ours -------------------------------------------------------------------------


def _source(**changed: object) -> Callable[[Content], object]:
    return lambda program: loads(program)[0]["source"].update(changed)


def _of(name: str, kind: str = "monotone") -> Callable[[Content], object]:
    return lambda program: program["contracts"].append({"kind": kind, "array": name})


def _written(program: Content) -> None:
    """What is written to y is written to the array."""
    kinds = ("RecordMutate", "CheckReads", "CheckMutates", "ClearReads", "ClearMutates")
    for op in (op for kind in kinds for op in ops(program, kind)):
        if op["access"]["variable"] == "y":
            op["access"] = {"variable": "cuts", "coords": ["m"]}


def _unread(program: Content) -> None:
    """Nothing says that a cut is read."""
    block, at = next(
        (block, at)
        for block, at in find(program["body"], "RecordRead")
        if block[at]["access"]["variable"] == "cuts"
    )
    del block[at]


MALFORMED: dict[str, tuple[Callable[[Content], object], str]] = {
    "another mode": (lambda p: loads(p)[0].update(mode="seq"), ""),
    "no source": (lambda p: loads(p)[0].pop("source"), "the field source is missing"),
    "of nobody": (_source(variable="rows"), '"rows" is no variable'),
    "of a barrier": (_source(variable="full", coords=[]), "is a barrier"),
    "of a window": (_source(coords=[["(0)", "G"]]), ""),
    "of more dimensions": (_source(coords=["g", "g"]), "another number of dimensions"),
    "a contract of nobody": (_of("rows"), '"rows" is no variable'),
    "a contract of a barrier": (_of("full"), "is a barrier"),
    "a contract of a matrix": (_of("x"), "x has not one dimension"),
    "a contract twice": (_of("cuts"), "stands twice"),
    "a contract of its own": (_of("cuts", "sorted"), ""),
    "no contracts in a list": (lambda p: p.update(contracts=[]), "there are none"),
    "an array that is written": (_written, "changes cuts"),
    "an array that is not read": (_unread, "no RecordRead of cuts"),
}


@pytest.mark.parametrize("what", MALFORMED)
def test_what_loads_nothing_is_rejected_unasked(folder: Path, what: str) -> None:
    alter, says = MALFORMED[what]
    change(folder, "program.json", alter)
    assert says in problems(folder)


def _renamed(value: object) -> object:
    """What says m says n."""
    if isinstance(value, dict):
        return {name: _renamed(inner) for name, inner in value.items()}
    if isinstance(value, list):
        return [_renamed(inner) for inner in value]
    return re.sub(r"\bm\b", "n", value) if isinstance(value, str) else value


def test_two_values_have_two_names(tmp_path: Path) -> None:
    """An operation that counts with others reads their loads, too: with one name of two values,
    these were taken for equal."""
    folder = tmp_path / "twice"
    verdict = loaded_twice.check()
    assert verdict.word == "proved", verdict.reason
    write_certificate(folder, loaded_twice, verdict)

    def alter(program: Content) -> None:
        other = next(one for one in loads(program) if one["iterator"] == "m")
        changed = _renamed({name: other[name] for name in ("iterator", "body")})
        assert isinstance(changed, dict)
        other.update(changed)

    change(folder, "program.json", alter)
    assert "has another loop's iterator" in problems(folder)


# --- another program ----------------------------------------------------------------------------

WRONG: dict[str, Callable[[Content], object]] = {
    "no contract": lambda p: p.pop("contracts"),
    "another contract": lambda p: p["contracts"][0].update(kind="injective"),
    "rows up to the cut after the next": lambda p: loads(p)[1]["source"].update(
        coords=["(g + (2))"]
    ),
    "rows from the first cut on": lambda p: loads(p)[0]["source"].update(coords=["(0)"]),
    "a range that lets them be outside": lambda p: loads(p)[1].update(hi="(N + (2))"),
    "the range of no rows": lambda p: loads(p)[0].update(lo="((0) - (1))"),
}


@pytest.mark.parametrize("what", WRONG)
def test_other_values_are_not_confirmed(folder: Path, what: str) -> None:
    change(folder, "program.json", WRONG[what])
    try:
        forge(folder)
    except (ExoGpuError, MalformedError, UndecidedError, WitnessError):
        assert problems(folder)
        return
    contracts = content(folder, "program.json").get("contracts", [])
    stated = [*ASSUMED, *(f"{one['kind']}({one['array']})" for one in contracts)]
    seal(folder, lambda certificate: certificate.update(assumptions=stated))
    found = recheck(folder, [smt.ask_z3])
    assert found.word == "rejected" and found.flaws


@pytest.mark.parametrize(
    "stated", [[], ["monotone(cuts)", "injective(cuts)"], ["injective(cuts)"]], ids=str
)
def test_assumptions_are_those_of_the_program(folder: Path, stated: list[str]) -> None:
    seal(folder, lambda certificate: certificate.update(assumptions=[*ASSUMED, *stated]))
    assert "other assumptions" in problems(folder)
