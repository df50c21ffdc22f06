"""Every code that a diagnostic or hazard carries is registered, and every registered one used."""

from __future__ import annotations

import ast
import re
from pathlib import Path

import pytest

from exogpu.diagnostics.codes import CODES

ROOT = Path(__file__).parent.parent
CODE = re.compile(r"[PTSCDBHGXK]\d{3}")


def codes_in_use() -> dict[str, str]:
    """The string constants of the sources that have the form of a code, with a place of each."""
    return {
        node.value: f"{file.relative_to(ROOT)}:{node.lineno}"
        for folder in ("exogpu", "symbolic", "codegen")
        for file in sorted((ROOT / folder).rglob("*.py"))
        if file.parent != ROOT / "exogpu" / "diagnostics" / "codes"
        for node in ast.walk(ast.parse(file.read_text()))
        if isinstance(node, ast.Constant)
        and isinstance(node.value, str)
        and CODE.fullmatch(node.value)
    }


@pytest.mark.slow
def test_every_code_in_use_is_registered():
    assert not {code: place for code, place in codes_in_use().items() if code not in CODES}


def test_every_registered_code_is_in_use():
    assert not CODES.keys() - codes_in_use().keys()


def test_no_code_is_registered_twice():
    """A second entry would silently replace the first."""
    keys = [
        key.value
        for file in (ROOT / "exogpu" / "diagnostics" / "codes").glob("*.py")
        for node in ast.walk(ast.parse(file.read_text()))
        if isinstance(node, ast.Dict)
        for key in node.keys
        if isinstance(key, ast.Constant)
    ]
    assert sorted(keys) == sorted(CODES)


def test_codes_name_their_stage():
    stages = {"P": 1, "T": 2, "S": 3, "C": 4, "D": 5, "B": 6, "H": 7, "G": 8, "X": 9, "K": 1}
    for code in CODES:
        assert CODE.fullmatch(code) and int(code[1]) == stages[code[0]], code
