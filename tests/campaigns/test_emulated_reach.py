"""Generated programs on the emulator: what a careless rule would let through is wrong there."""

from __future__ import annotations

import shutil
from pathlib import Path

import pytest

from campaigns import emulated
from campaigns.emulator.launch import Emulated
from campaigns.reach import fragments as reach_fragments
from campaigns.reach import generate
from exogpu.amir import lower_arguments
from exogpu.analysis import ownership_check
from exogpu.ir.nodes import Compare, Int
from exogpu.symbolic.search.analysis import analyse
from tests.symbolic.careless_reach import PROGRAMS, changed

pytestmark = [
    pytest.mark.slow,
    pytest.mark.skipif(shutil.which("g++") is None, reason="no g++ on this machine"),
]


@pytest.fixture(scope="session")
def folder(tmp_path_factory: pytest.TempPathFactory) -> Path:
    return tmp_path_factory.mktemp("reach")


def state(shape: str, seed: int, folder: Path) -> str:
    """What becomes of a program on the emulator, proved or not."""
    procedure = generate.procedure(shape, seed)
    made, manifest = procedure.emit(unchecked=True)
    kernel = Emulated(made.source, manifest, folder)
    return str(emulated.run(kernel, procedure, generate.generated(shape, seed))["state"])


@pytest.mark.parametrize(
    ("name", "seed"),
    [
        ("who_awaits_the_reads_knows_of_the_writes", 13),
        ("a_dependent_launch_begins_late", 1),
    ],
)
def test_what_a_careless_rule_lets_through_is_wrong(name: str, seed: int, folder: Path) -> None:
    shape, change = PROGRAMS[name]
    program = generate.procedure(shape, seed).amir()
    assert analyse(program).violations
    assert not analyse(changed(program, change)).violations
    assert state(shape, seed, folder) == "wrong"


def test_who_accesses_a_strangers_registers_gets_its_own(
    folder: Path, monkeypatch: pytest.MonkeyPatch
) -> None:
    """The campaign sees it where nobody asks whose an element is."""
    own, stranger = ("{m}", "{n}"), ("{m}", "({n} + 2) % 8")
    monkeypatch.setattr(reach_fragments, "PARTNERS", (own, stranger))
    monkeypatch.setattr(reach_fragments, "_changed", lambda *_: ["pass"])
    monkeypatch.setattr(generate, "mistaken", lambda random, body: body)
    every = ((seed, next(generate._tried("fragments", seed))) for seed in range(30))
    refused = [seed for seed, (made, read) in every if read is None and "Fence(" in made.source]
    assert refused
    monkeypatch.setattr(ownership_check, "_stranger", lambda use, found: None)
    monkeypatch.setattr(
        lower_arguments, "held_by_its_thread", lambda *_: Compare("==", Int(0), Int(0))
    )
    proved = (s for s in refused if generate.procedure("fragments", s).check().word == "proved")
    assert state("fragments", next(proved), folder) == "wrong"


def test_a_dependent_launch_has_to_wait(folder: Path) -> None:
    """Its text without the instruction."""
    shape, seed = "launches", 1
    procedure = generate.procedure(shape, seed)
    made, manifest = procedure.emit(unchecked=True)
    source = made.source.replace("griddepcontrol.wait;", "")
    assert source != made.source
    kernel = Emulated(source, manifest, folder)
    found = emulated.run(kernel, procedure, generate.generated(shape, seed))
    assert found["state"] == "wrong"
    assert "has not waited" in found["what"] or "order" in found["what"]
