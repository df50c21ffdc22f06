"""Certificates of roles that share phases and of named barriers, and alterations of them."""

from __future__ import annotations

import shutil
from collections.abc import Callable
from pathlib import Path

import pytest

from exogpu.api import Procedure
from exogpu.solvers import smt
from exogpu.symbolic.certificate.recheck import recheck
from exogpu.symbolic.certificate.write import write_certificate
from tests.codegen.role_kernels import handed_over, two_consumers
from tests.forging import Content, change, find, ops, problems

TWO = two_consumers(2)


@pytest.fixture(scope="module")
def written(tmp_path_factory: pytest.TempPathFactory) -> dict[str, Path]:
    folders = {}
    for procedure in (TWO, handed_over):
        folder = tmp_path_factory.mktemp("roles") / procedure.name
        write_certificate(folder, procedure, procedure.check())
        folders[procedure.name] = folder
    return folders


@pytest.mark.parametrize("procedure", [TWO, handed_over], ids=lambda p: p.name)
def test_it_is_confirmed(written: dict[str, Path], procedure: Procedure) -> None:
    assert recheck(written[procedure.name], [smt.ask_z3]).word == "confirmed"


def _without(kind: str, which: int) -> Callable[[Content], object]:
    def alter(program: Content) -> None:
        block, at = list(find(program["body"], kind))[which]
        del block[at]

    return alter


def _depth(value: object) -> Callable[[Content], object]:
    return lambda program: next(
        v for v in program["variables"] if v.get("mechanism") == "CudaNamedBarrier"
    ).update(depth=value)


ALTERED: dict[str, tuple[str, Callable[[Content], object], str]] = {
    "a named barrier of two phases": ("handed_over", _depth(2), "keeps one phase"),
    "a named barrier of any depth": ("handed_over", _depth(None), "keeps one phase"),
    "a named barrier that counts groups": (
        "handed_over",
        lambda program: ops(program, "Await")[0].update(n=0),
        "waits for a numbered arrival",
    ),
    "an Await of one role alone": ("two_consumers_2", _without("Await", 1), ""),
    "an Arrive for one role alone": ("two_consumers_2", _without("Arrive", 1), ""),
}


@pytest.mark.parametrize("what", ALTERED)
def test_what_is_altered_is_rejected_unasked(
    written: dict[str, Path], what: str, tmp_path: Path
) -> None:
    name, alter, says = ALTERED[what]
    folder = Path(shutil.copytree(written[name], tmp_path / name))
    change(folder, "program.json", alter)
    assert says in problems(folder)
