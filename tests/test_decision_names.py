"""A comment that cites a decision cites it by its name, and docs/decisions.md has that name."""

from __future__ import annotations

import re
from collections.abc import Iterator
from pathlib import Path

import pytest

from tests.pages import DOCS, ROOT

FOLDERS = ("exogpu", "symbolic", "codegen", "campaigns", "benchmarks", "examples", "tests")
SUFFIXES = {".py", ".cuh", ".j2", ".md"}
NAME = re.compile(r"[a-z][a-z0-9]*(?:-[a-z0-9]+)*")
NAMES = re.findall(r"^###? (.*)$", (DOCS / "decisions.md").read_text(), re.M)
CITED = re.compile(
    r"\b[Dd]ecisions?\s+((?:\d[\w.]*|`[^`]+`)(?:(?:,\s+|\s+and\s+)(?:\d[\w.]*|`[^`]+`))*)"
)
"""The names or numbers that follow the word, which may be at the end of a line."""


def citations(text: str) -> Iterator[str]:
    """What a text cites, in order: names as they are between backquotes, and anything else."""
    for cited in CITED.finditer(re.sub(r"\n\s*(?:# )?", " ", text)):
        for part in re.split(r",\s+|\s+and\s+", cited[1]):
            yield part.strip("`") if part.startswith("`") else f"number {part}"


def files() -> list[Path]:
    here = Path(__file__)
    found = (file for folder in FOLDERS for file in (ROOT / folder).rglob("*"))
    sources = [
        file
        for file in (*found, *DOCS.glob("*.md"))
        if file.suffix in SUFFIXES and file != here and file.is_file()
    ]
    return [f for f in sources if not any(parent.is_symlink() for parent in f.parents)]


def test_each_decision_has_a_name_of_its_own() -> None:
    assert len(NAMES) > 40 and len({*NAMES}) == len(NAMES)
    assert not [name for name in NAMES if not NAME.fullmatch(name)]


def test_every_citation_is_of_a_decision() -> None:
    unknown = [
        f"{file.relative_to(ROOT)}: {name}"
        for file in files()
        for name in citations(file.read_text())
        if name not in NAMES
    ]
    assert not unknown


def test_decisions_are_cited() -> None:
    """Of most of them a comment says where they hold; were none found, nothing would be tested."""
    cited = {
        name for file in files() if file.suffix == ".py" for name in citations(file.read_text())
    }
    assert len(cited) > 30


def test_every_decision_is_named_by_a_test_of_it() -> None:
    """So that a search for its name in tests/ finds where it is tested."""
    tests = [file.read_text() for file in files() if ROOT / "tests" in file.parents]
    assert not [name for name in NAMES if not any(f"`{name}`" in text for text in tests)]


@pytest.mark.parametrize("name", [name for name in NAMES if not name.startswith("policies")])
def test_a_decision_is_short(name: str) -> None:
    text = (DOCS / "decisions.md").read_text()
    entry = re.split(rf"^###? {name}$", text, flags=re.M)[1]
    assert len(re.split(r"^##", entry, flags=re.M)[0].split()) <= 125


@pytest.mark.parametrize(
    ("text", "found"),
    [
        ("(decision `flags`).", ["flags"]),
        ("    # so (decision\n    # `flags`)", ["flags"]),
        ("by decisions `slots` and\n    `flags`", ["slots", "flags"]),
        ("Decision 12 (ii)", ["number 12"]),
        ("decision 4.12, decisions 3, `flags`", ["number 4.12", "number 3", "flags"]),
        ("the decision was made, decisions.md", []),
    ],
)
def test_citations_are_found(text: str, found: list[str]) -> None:
    assert [name.rstrip(",") for name in citations(text)] == found
