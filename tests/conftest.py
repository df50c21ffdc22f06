"""Golden files: compared, or rewritten with --update-golden.  Verdicts are kept for one test."""

from __future__ import annotations

import gc
import os
from collections import Counter
from collections.abc import Callable, Iterator
from itertools import count
from pathlib import Path
from typing import Final

import pytest

from exogpu.amir import lower
from exogpu.amir.nodes import Guard, Loop, Program
from exogpu.amir.walk import operations
from exogpu.analysis import inline, lifetimes
from exogpu.analysis.facts import Facts
from exogpu.diagnostics.verdict import Policy
from exogpu.ir.nodes import Proc
from exogpu.ir.wellformed import flaws
from exogpu.pipeline import refutation, stages
from exogpu.solvers import isl, smt
from exogpu.solvers.parallel import VARIABLE
from exogpu.symbolic.certificate.program_schema import check_program
from exogpu.symbolic.certificate.write import program_json

# Tests that several modules run: their assertions tell as much as those of the modules.
pytest.register_assert_rewrite("tests.machine.decisions", "tests.machine.pitfalls")


# The tests share the processors already; `test_together.py` says otherwise.
os.environ[VARIABLE] = "1"

# A fifth of the tests' time, and as much of their collection, went to looking for garbage.
gc.set_threshold(50_000, 20, 100)

isl.LOUD = smt.LOUD = refutation.LOUD = True


def pytest_addoption(parser: pytest.Parser) -> None:
    parser.addoption("--update-golden", action="store_true", help="rewrite the golden files")


EACH: Final = 8
"""The step between the cases of one test that `make test` runs, from the first on.  Continuous
integration runs the others too, and so many of the slow ones; `make test-long` runs the rest."""


@pytest.hookimpl(tryfirst=True)
def pytest_collection_modifyitems(items: list[pytest.Item]) -> None:
    """Marks the further cases of each test as left to CI, since they are of one kind, and those of
    slow tests as long.  Pages of the documentation say each something else."""
    cases: Counter[tuple[str, str, bool]] = Counter()
    for item in items:
        if item.get_closest_marker("long") is not None:
            item.add_marker(pytest.mark.slow)
        slow = item.get_closest_marker("slow") is not None
        test = item.location[0], getattr(item, "originalname", item.name), slow
        if cases[test] % EACH:
            item.add_marker(pytest.mark.ci)
            if slow and not item.path.name.startswith("test_docs"):
                item.add_marker(pytest.mark.long)
        cases[test] += 1


def pytest_collection_finish() -> None:
    """Looks no more for garbage among the modules and programs that live on: they are many."""
    gc.collect()
    gc.freeze()


@pytest.fixture(scope="session")
def folders(tmp_path_factory: pytest.TempPathFactory) -> Iterator[Path]:
    """Paths of one folder that do not exist yet: pytest looks at all there are to make the next."""
    parent = tmp_path_factory.mktemp("verdicts")
    return (parent / str(number) for number in count())


@pytest.fixture(autouse=True)
def verdicts(folders: Iterator[Path], monkeypatch: pytest.MonkeyPatch) -> Path:
    """The folder of the verdicts that a test keeps: what it plants is nobody else's."""
    folder = next(folders)
    folder.mkdir()
    monkeypatch.setenv("EXOGPU_CACHE", str(folder))
    return folder


@pytest.fixture(scope="session")
def builds(tmp_path_factory: pytest.TempPathFactory) -> Path:
    """Where the emulator compiles: its header takes seconds, and is compiled once."""
    return tmp_path_factory.mktemp("builds")


@pytest.fixture(autouse=True, scope="session")
def well_formed() -> Iterator[None]:
    """Every pass leaves a procedure, and the conversion a program, as the specification has it."""

    def inlined(proc: Proc) -> Proc:
        made = inline.inline(proc)
        assert not [*flaws(proc)] and not [*flaws(made, inlined=True)]
        return made

    def with_frees(proc: Proc) -> Proc:
        made = lifetimes.insert_frees(proc)
        assert not [*flaws(made, inlined=True)]
        return made

    def lowered(facts: Facts, policy: Policy) -> Program:
        program = lower.lower(facts, policy)
        if any(not isinstance(op, Loop | Guard) for op in operations(program.body)):
            # A procedure may be called what no name is; of the rest nothing may be strange.
            check_program({**program_json(program), "name": "named"})
        return program

    with pytest.MonkeyPatch.context() as patch:
        patch.setattr(stages, "inline", inlined)
        patch.setattr(stages, "insert_frees", with_frees)
        patch.setattr(stages, "lower", lowered)
        yield


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
