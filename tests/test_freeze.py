"""A sample of what tools/freeze.py records; `python tools/freeze.py --check` compares all."""

from __future__ import annotations

import importlib.util
import json
import re
from pathlib import Path

import pytest

ROOT = Path(__file__).parent.parent
SPEC = importlib.util.spec_from_file_location("freeze", ROOT / "tools" / "freeze.py")
assert SPEC is not None and SPEC.loader is not None
freeze = importlib.util.module_from_spec(SPEC)
SPEC.loader.exec_module(freeze)
RECORD = json.loads(freeze.RECORD.read_text())
PROGRAM = "examples/tutorial/ring.py"


def test_the_record_has_every_part_and_program() -> None:
    assert RECORD.keys() == freeze.PARTS.keys()
    for part in ("amir", "emitted", "verdicts"):
        assert not {*freeze.programs()} - RECORD[part].keys()
        assert not RECORD[part].keys() - {*freeze.programs(), freeze.KERNELS}


def test_the_public_names_are_as_recorded() -> None:
    assert freeze.public_names() == RECORD["names"]


@pytest.mark.parametrize("name", ["", "check", "compile"])
def test_help_is_as_recorded(name: str) -> None:
    arguments = (name, "--help") if name else ("--help",)
    assert freeze.digest(freeze.command(*arguments)) == RECORD["help"][name]


def test_codes_are_as_recorded() -> None:
    """The codes of one letter; explaining each of them takes a moment."""
    codes = re.findall(r"^(B\d{3})  ", freeze.command("explain"), re.MULTILINE)
    assert freeze.codes_of("B", codes) == RECORD["codes"]["B"]


@pytest.mark.parametrize("part", sorted(freeze.OF_A_PROGRAM))
def test_a_program_is_as_recorded(part: str) -> None:
    made = freeze.OF_A_PROGRAM[part](PROGRAM)
    assert freeze.digest(made) == RECORD[part][PROGRAM]


def test_a_command_that_breaks_is_reported() -> None:
    """An unknown command ends with 2, which a check may too; only a crash stops the record."""
    assert freeze.command("no-such-command") == ""


def test_a_difference_is_named() -> None:
    """The comparison tells what is gone, what is new and what differs."""
    found = freeze.differences({"a": 1, "b": {"c": "x"}}, {"b": {"c": "y"}, "d": 2}, "part")
    assert [*found] == ["part a: is gone", "part b c: differs", "part d: is new"]
