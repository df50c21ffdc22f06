"""Certificates of flags that values from memory name: forged ones are rejected.

Their Arrives are not numbered, so that no lemma counts them (decision `flags`): an Await waits for
all.
"""

from __future__ import annotations

import shutil
from collections.abc import Callable
from pathlib import Path

import pytest

from exogpu.cli.loader import load
from exogpu.diagnostics.errors import ExoGpuError
from exogpu.solvers import smt
from exogpu.symbolic.certificate.recheck import recheck
from exogpu.symbolic.certificate.strict_json import MalformedError
from exogpu.symbolic.certificate.write import write_certificate
from exogpu.symbolic.encode.witness import WitnessError
from exogpu.symbolic.sites import UndecidedError
from tests.forging import Content, change, find, forge, names, ops, problems

TABLES = Path(__file__).parent / "cases" / "verdicts" / "tables.py"
RIGHT = ("one_table", "table_of_tables", "arrives_by_table", "sometimes")


@pytest.fixture(scope="module")
def written(tmp_path_factory: pytest.TempPathFactory) -> Path:
    folder = tmp_path_factory.mktemp("tables")
    for name in RIGHT:
        (unit,) = load(f"{TABLES}::{name}")
        assert unit.procedure is not None
        verdict = unit.procedure.check()
        assert verdict.word == "proved", verdict.reason
        write_certificate(folder / name, unit.procedure, verdict)
    return folder


def copied(written: Path, name: str, tmp_path: Path) -> Path:
    return Path(shutil.copytree(written / name, tmp_path / name))


@pytest.mark.parametrize("name", RIGHT)
def test_it_is_confirmed_and_counts_nothing(name: str, written: Path) -> None:
    assert not names(written / name, "COUNT")
    found = recheck(written / name, [smt.ask_z3])
    assert found.word == "confirmed", found.flaws


def _without(kind: str) -> Callable[[Content], object]:
    def alter(program: Content) -> None:
        block, at = next(find(program["body"], kind))
        del block[at]

    return alter


def _awaits(element: str) -> Callable[[Content], object]:
    return lambda program: ops(program, "Await")[0]["barrier"].update(coords=[element])


def _arrives(element: str) -> Callable[[Content], object]:
    def alter(program: Content) -> None:
        arrive = ops(program, "Arrive")[0]
        arrive["home"]["coords"] = [element]
        arrive["targets"] = [arrive["home"]]

    return alter


def _arrives_first(program: Content) -> None:
    """Before what it tells of is written."""
    block, at = next(find(program["body"], "Arrive"))
    block.insert(1, block.pop(at))


def _awaits_itself(program: Content) -> None:
    guard = ops(program, "Guard")[0]
    guard["condition"] = guard["condition"].replace("<", "<=")


WRONG: dict[str, tuple[str, Callable[[Content], object]]] = {
    "nobody arrives": ("one_table", _without("Arrive")),
    "nobody waits": ("one_table", _without("Await")),
    "another is awaited": ("one_table", _awaits("m")),
    "another arrives": ("one_table", _arrives("b")),
    "it arrives first": ("one_table", _arrives_first),
    "it awaits itself": ("one_table", _awaits_itself),
    "no table of tables": ("table_of_tables", _awaits("b")),
    "two arrive": ("arrives_by_table", lambda p: p.update(contracts=[])),
    "the last is awaited": ("arrives_by_table", _awaits("(M - (1))")),
}


@pytest.mark.parametrize("what", WRONG)
def test_another_program_is_refused(what: str, written: Path, tmp_path: Path) -> None:
    name, alter = WRONG[what]
    folder = copied(written, name, tmp_path)
    change(folder, "program.json", alter)
    try:
        forge(folder)
    except (ExoGpuError, MalformedError, UndecidedError, WitnessError):
        assert problems(folder)
        return
    found = recheck(folder, [smt.ask_z3])
    assert found.word == "rejected" and found.flaws
