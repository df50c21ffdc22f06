"""Steps that are kept on disk: believed only where nothing that determines them has changed."""

from __future__ import annotations

import os
import subprocess
import sys
from collections.abc import Callable, Iterator
from dataclasses import replace
from pathlib import Path

import pytest

from exogpu import ExoGpuError, proc, schedule
from exogpu.api import Procedure
from exogpu.diagnostics import disk_cache
from exogpu.ir.nodes import Assign, Block, Int, Proc, Stmt
from exogpu.ir.walk import map_blocks, walk
from exogpu.schedule import primitive, step_cache
from exogpu.schedule.derivations import ir_of
from exogpu.schedule.rewrite import Image, Rewrite, copied, unchanged_rewrite

ROOT = Path(__file__).parent.parent.parent


@proc
def tailed(n: size, x: f32[n] @ DRAM, y: f32[n] @ DRAM):
    for i in seq(0, n):
        x[i] = 2
    for i in seq(0, n):
        y[i] = x[i]


def derive(p: Procedure = tailed) -> Procedure:
    p = schedule.divide_loop(p, "i", 4, ["io", "ii"])
    return schedule.stage_mem(p, "y[_] = _", "x[i]", "t")


@pytest.fixture
def decided(monkeypatch: pytest.MonkeyPatch) -> list[str]:
    """The steps that were decided, and not found."""
    found: list[str] = []
    plain = primitive.refusal_of

    def refused(name: str, edit: Rewrite) -> object:
        found.append(name)
        return plain(name, edit)

    monkeypatch.setattr(primitive, "refusal_of", refused)
    return found


@pytest.fixture
def keeping() -> Iterator[None]:
    with schedule.kept_steps():
        yield


def names(folder: Path) -> list[str]:
    return sorted(path.name for path in folder.iterdir())


def test_a_step_is_decided_once(decided: list[str], verdicts: Path, keeping: None) -> None:
    first = derive()
    made = list(decided)
    assert made.count("divide_loop") == 1 and "stage_mem" in made
    assert schedule.text(derive()) == schedule.text(first) and decided == made
    assert all(name.endswith(step_cache.SUFFIX) for name in names(verdicts))
    assert len(names(verdicts)) == len(made)


def test_by_itself_nothing_is_kept(decided: list[str], verdicts: Path) -> None:
    derive()
    with schedule.kept_steps():
        derive()
    count = len(names(verdicts))
    with schedule.kept_steps(False):
        derive()
    derive()
    assert count == len(names(verdicts)) > 0 and decided.count("divide_loop") == 4


def test_a_refusal_is_told_alike_again(verdicts: Path, keeping: None) -> None:
    told = []
    for _ in range(2):
        with pytest.raises(ExoGpuError) as refusal:
            schedule.divide_loop(tailed, "i", 4, ["io", "ii"], "perfect")
        told.append(str(refusal.value))
    assert told[0] == told[1] and "would not run" in told[0] and len(names(verdicts)) == 1


@pytest.mark.parametrize(
    ("part", "value"), [("tools", ("islpy 0",)), ("own_files", "another digest")]
)
def test_another_version_decides_anew(
    part: str, value: object, decided: list[str], keeping: None, monkeypatch: pytest.MonkeyPatch
) -> None:
    derive()
    count = len(decided)
    with monkeypatch.context() as changed:
        changed.setattr(disk_cache, part, lambda: value)
        derive()
    assert len(decided) == 2 * count
    derive()
    assert len(decided) == 2 * count


def test_where_exogpu_s_files_have_changed_nothing_is_written(
    verdicts: Path, keeping: None, monkeypatch: pytest.MonkeyPatch
) -> None:
    monkeypatch.setattr(disk_cache, "unchanged", lambda: False)
    derive()
    monkeypatch.setattr(disk_cache, "own_files", lambda: None)
    derive()
    assert names(verdicts) == []


def test_the_place_of_the_source_does_not_matter(decided: list[str], keeping: None) -> None:
    derive()
    count = len(decided)

    @proc
    def tailed(n: size, x: f32[n] @ DRAM, y: f32[n] @ DRAM):
        """The same on other lines."""
        for i in seq(0, n):
            x[i] = 2
        for i in seq(0, n):
            y[i] = x[i]

    derive(tailed)
    assert len(decided) == count


# --- what the name of an entry depends on ---------------------------------------------------------


def made_by(old: Proc, change: Callable[[Rewrite, Stmt], Stmt]) -> Rewrite:
    """A rewriting that copies the procedure, its first assignment changed."""
    edit = unchanged_rewrite(old)
    body = copied(edit, old.body, {}, fresh=False)
    target = next(stmt for stmt in walk(body) if isinstance(stmt, Assign))

    def block(given: Block) -> Block:
        return tuple(
            change(edit, stmt) if stmt is target else map_blocks(stmt, block) for stmt in given
        )

    edit.new = replace(old, body=block(body))
    return edit


def same(edit: Rewrite, stmt: Stmt) -> Stmt:
    return stmt


def nothing_said(edit: Rewrite, stmt: Stmt) -> Stmt:
    del edit.origins[stmt]
    return stmt


def at_another_iteration(edit: Rewrite, stmt: Stmt) -> Stmt:
    (image,) = edit.origins[stmt]
    loop = next(walk(edit.old.body))
    edit.origins[stmt] = (replace(image, at={loop.iterator: Int(0)}),)
    return stmt


def another_statement(edit: Rewrite, stmt: Stmt) -> Stmt:
    last = [one for one in walk(edit.old.body) if isinstance(one, Assign)][-1]
    edit.origins[stmt] = (Image(last),)
    return stmt


def twice(edit: Rewrite, stmt: Stmt) -> Stmt:
    edit.origins[stmt] = (*edit.origins[stmt], *edit.origins[stmt])
    return stmt


def inside_of_it(edit: Rewrite, stmt: Stmt) -> Stmt:
    (image,) = edit.origins[stmt]
    edit.origins[stmt] = (replace(image, inside=(image.old,)),)
    return stmt


def other_reads(edit: Rewrite, stmt: Stmt) -> Stmt:
    (image,) = edit.origins[stmt]
    edit.origins[stmt] = (replace(image, reads=()),)
    return stmt


def said_of_a_call(edit: Rewrite, stmt: Stmt) -> Stmt:
    edit.inner[stmt, stmt] = (Image(next(walk(edit.old.body))),)
    return stmt


def by_results(edit: Rewrite, stmt: Stmt) -> Stmt:
    edit.by_results = True
    return stmt


def another_value(edit: Rewrite, stmt: Stmt) -> Stmt:
    assert isinstance(stmt, Assign)
    new = replace(stmt, value=replace(stmt.value, value=3))
    edit.origins[new] = edit.origins.pop(stmt)
    return new


CHANGES = (
    nothing_said, at_another_iteration, another_statement, twice, inside_of_it, other_reads,
    said_of_a_call, by_results, another_value,
)  # fmt: skip


def test_all_that_is_said_of_a_rewriting_counts(keeping: None) -> None:
    ir = ir_of(tailed)
    found = {change.__name__: step_cache.key(made_by(ir, change)) for change in (same, *CHANGES)}
    assert None not in found.values() and len({*found.values()}) == len(CHANGES) + 1
    assert step_cache.key(made_by(ir, same)) == found["same"]
    assert step_cache.key(made_by(replace(ir, preconditions=()), same)) == found["same"]
    assert step_cache.key(made_by(ir_of(derive()), same)) != found["same"]


def test_what_only_this_process_knows_is_not_kept(keeping: None) -> None:
    edit = made_by(ir_of(tailed), same)
    edit.equal[object()] = (tailed, tailed)  # type: ignore[index]
    assert step_cache.key(edit) is None
    odd = made_by(replace(ir_of(tailed), preconditions=(object(),)), same)  # type: ignore[arg-type]
    assert step_cache.key(odd) is None


@pytest.mark.slow
def test_another_process_finds_it(verdicts: Path) -> None:
    program = (
        "import sys; sys.path.insert(0, 'tests/schedule'); import test_schedule_kept as t\n"
        "import exogpu.schedule\nwith exogpu.schedule.kept_steps(): t.derive()"
    )
    found = []
    for seed in ("1", "2"):
        environment = {
            **os.environ, "PYTHONHASHSEED": seed,
            "PYTHONPATH": str(ROOT), "EXOGPU_CACHE": str(verdicts),
        }  # fmt: skip
        subprocess.run([sys.executable, "-c", program], env=environment, cwd=ROOT, check=True)
        found.append(names(verdicts))
    assert found[0] == found[1] and found[0]


# --- damage ---------------------------------------------------------------------------------------


def test_an_entry_under_another_name_is_not_believed(
    decided: list[str], verdicts: Path, keeping: None
) -> None:
    """What was accepted, in the place of what was refused."""
    schedule.divide_loop(tailed, "i", 4, ["io", "ii"])
    (good,) = verdicts.iterdir()
    with pytest.raises(ExoGpuError):
        schedule.divide_loop(tailed, "i", 4, ["io", "ii"], "perfect")
    (bad,) = set(verdicts.iterdir()) - {good}
    bad.write_bytes(good.read_bytes())
    with pytest.raises(ExoGpuError):
        schedule.divide_loop(tailed, "i", 4, ["io", "ii"], "perfect")
    assert decided.count("divide_loop") == 3


def test_a_damaged_entry_is_decided_anew(decided: list[str], verdicts: Path, keeping: None) -> None:
    schedule.divide_loop(tailed, "i", 4, ["io", "ii"])
    (entry,) = verdicts.iterdir()
    data = entry.read_bytes()
    for at, wrong in enumerate(
        (b"", data[:-1], data + b"x", data[:33] + b"?" + data[34:], b"\0" * 99)
    ):
        entry.write_bytes(wrong)
        schedule.divide_loop(tailed, "i", 4, ["io", "ii"])
        assert len(decided) == at + 2 and entry.read_bytes() == data


def test_another_word_is_no_entry(decided: list[str], verdicts: Path, keeping: None) -> None:
    schedule.divide_loop(tailed, "i", 4, ["io", "ii"])
    (entry,) = verdicts.iterdir()
    for word in (b"", b"accepted ", b"\xff", b"proved"):
        disk_cache.write(entry.stem, step_cache.SUFFIX, word)
        assert step_cache.load(entry.stem) is None
    disk_cache.write(entry.stem, step_cache.SUFFIX, b"refused")
    # What is kept as refused is found out again where nothing else is accepted.
    assert schedule.text(schedule.divide_loop(tailed, "i", 4, ["io", "ii"])) and len(decided) == 2


def test_the_oldest_are_forgotten(
    verdicts: Path, keeping: None, monkeypatch: pytest.MonkeyPatch
) -> None:
    monkeypatch.setattr(step_cache, "MOST", 4)
    monkeypatch.setattr(step_cache, "TOGETHER", 1)
    for at in range(6):
        step_cache.store(f"{at}" * 8, True)
    assert len(names(verdicts)) <= 4 and step_cache.load("5" * 8)
