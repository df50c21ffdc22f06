"""Golden files: compared, or rewritten with --update-golden.  Verdicts are kept for one test."""

from __future__ import annotations

from collections.abc import Callable
from pathlib import Path

import pytest

# Tests that several modules run: their assertions tell as much as those of the modules.
pytest.register_assert_rewrite("tests.machine.decisions", "tests.machine.pitfalls")


def pytest_addoption(parser: pytest.Parser) -> None:
    parser.addoption("--update-golden", action="store_true", help="rewrite the golden files")


@pytest.fixture(autouse=True)
def verdicts(tmp_path_factory: pytest.TempPathFactory, monkeypatch: pytest.MonkeyPatch) -> Path:
    """The folder of the verdicts that a test keeps: what it plants is nobody else's."""
    folder = tmp_path_factory.mktemp("verdicts")
    monkeypatch.setenv("EXOGPU_CACHE", str(folder))
    return folder


@pytest.fixture
def golden(request: pytest.FixtureRequest) -> Callable[[Path, str], None]:
    """Compares a text with a golden file."""

    def compare(path: Path, text: str) -> None:
        if request.config.getoption("--update-golden"):
            path.parent.mkdir(parents=True, exist_ok=True)
            path.write_text(text)
        assert path.exists(), f"{path} is missing: run pytest with --update-golden"
        assert text == path.read_text(), f"{path} differs: look, then run with --update-golden"

    return compare
