"""A procedure that moved as a whole is proved still; any other change is another procedure."""

from __future__ import annotations

import json
from dataclasses import replace
from pathlib import Path

import pytest

from exogpu.api import Procedure
from exogpu.cli.loader import load
from exogpu.diagnostics import disk_cache
from exogpu.diagnostics.errors import NOWHERE, Diagnostic
from exogpu.diagnostics.verdict import Policy
from exogpu.ir.digest import digest
from exogpu.pipeline import verdict_cache
from exogpu.pipeline.verdict_cache import cached_verdict

HEAD = "from exogpu import *\n"
MACRO = "\n@macro\ndef put(z, i):\n    z[i] = 1.0\n"
KERNEL = (
    "\n@proc\ndef fill(n: size, z: f32[n] @ DRAM):\n    for i in seq(0, n):\n        put(z, i)\n"
)
OTHER = KERNEL.replace("fill", "other")


def read(tmp_path: Path, text: str, name: str = "kernel.py") -> Procedure:
    (tmp_path / name).write_text(text)
    units = [unit for unit in load(str(tmp_path / name)) if unit.name == "fill"]
    assert units[0].procedure is not None
    return units[0].procedure


def key(procedure: Procedure) -> str | None:
    assert procedure.ir is not None
    return digest(procedure.ir, from_first_line=True)


def test_it_is_the_same_where_all_of_it_moves(tmp_path: Path) -> None:
    first = key(read(tmp_path, HEAD + MACRO + KERNEL))
    assert first is not None
    for same in ("# a line\n" + HEAD + MACRO + KERNEL, HEAD + OTHER + MACRO + KERNEL + OTHER):
        assert key(read(tmp_path, same)) == first
        assert digest(read(tmp_path, same).ir) != digest(read(tmp_path, HEAD + MACRO + KERNEL).ir)


def test_it_is_another_where_a_part_moves_or_changes(tmp_path: Path) -> None:
    texts = [
        HEAD + MACRO + KERNEL,
        HEAD + MACRO + "\n" + KERNEL,
        HEAD + MACRO + KERNEL.replace("seq(0", "seq(1"),
        HEAD + MACRO.replace("1.0", "2.0") + KERNEL,
        HEAD + MACRO + KERNEL.replace("    for", "\n    for"),
        HEAD + MACRO + KERNEL.replace("put(z", "put( z"),
    ]
    assert len({key(read(tmp_path, text)) for text in texts}) == len(texts)
    assert key(read(tmp_path, texts[0], "another.py")) != key(read(tmp_path, texts[0]))


def check(procedure: Procedure):
    verdict = cached_verdict(procedure, Policy.PTX, None, procedure.check)
    verdict_cache.keep(procedure, verdict)
    return verdict


def test_what_moved_is_proved_and_says_no_more(tmp_path: Path) -> None:
    before = read(tmp_path, HEAD + MACRO + KERNEL)
    assert verdict_cache.proved(before, Policy.PTX) is None, "nothing is known"
    assert check(before)
    assert verdict_cache.proved(before, Policy.PTX) is None, "its own verdict is kept"
    after = read(tmp_path, "\n" + HEAD + MACRO + KERNEL)
    found = verdict_cache.proved(after, Policy.PTX)
    assert found is not None and found.word == "proved" and found.proof is None
    assert verdict_cache.proved(after, Policy.PAPER) is None, "by other rules nothing is known"
    changed = read(tmp_path, "\n" + HEAD + MACRO + KERNEL.replace("(0, n)", "(0, n + 1)"))
    assert verdict_cache.proved(changed, Policy.PTX) is None


def test_what_is_not_proved_is_not_kept(tmp_path: Path, verdicts: Path) -> None:
    procedure = read(tmp_path, HEAD + MACRO + KERNEL.replace("(0, n)", "(0, n + 1)"))
    assert check(procedure).word == "refuted"
    right = read(tmp_path, HEAD + MACRO + KERNEL)
    verdict = right.check()
    warning = Diagnostic("G803", "no lowering", NOWHERE, "another")
    assert verdict.proof is not None
    for other in (
        replace(verdict, word="undecided"),
        replace(verdict, sizes={"n": 1}),
        replace(verdict, warnings=(warning,)),
        replace(verdict, proof=None),
    ):
        verdict_cache.keep(right, other)
    assert not [*verdicts.glob(f"*{verdict_cache.MOVED_SUFFIX}")]


@pytest.mark.parametrize(
    ("part", "value"), [("tools", lambda: ("z3 0",)), ("own_files", lambda: "other")]
)
def test_another_version_knows_nothing(part: str, value, tmp_path: Path, monkeypatch) -> None:
    assert check(read(tmp_path, HEAD + MACRO + KERNEL))
    after = read(tmp_path, "\n" + HEAD + MACRO + KERNEL)
    with monkeypatch.context() as changed:
        changed.setattr(disk_cache, part, value)
        assert verdict_cache.proved(after, Policy.PTX) is None
    assert verdict_cache.proved(after, Policy.PTX) is not None


def test_a_damaged_entry_is_none(tmp_path: Path, verdicts: Path) -> None:
    assert check(read(tmp_path, HEAD + MACRO + KERNEL))
    (entry,) = verdicts.glob(f"*{verdict_cache.MOVED_SUFFIX}")
    entry.write_bytes(entry.read_bytes()[:-1])
    assert verdict_cache.proved(read(tmp_path, "\n" + HEAD + MACRO + KERNEL), Policy.PTX) is None
    assert json.dumps(verdict_cache.SUFFIX) != json.dumps(verdict_cache.MOVED_SUFFIX)
