"""Certificates of steps: answered again without ISL, and refused where they are altered."""

from __future__ import annotations

import json
import shutil
import subprocess
import sys
from collections.abc import Callable, Iterator
from pathlib import Path
from random import Random
from typing import Any

import pytest
from mutated_edits import differ, mutations
from steps import carried, even, gemm, guarded_by_i, last, pieces, scalar, tail, two
from typer.testing import CliRunner

from exogpu import ExoGpuError, schedule
from exogpu.api import Procedure
from exogpu.cli.commands import app
from exogpu.schedule.certificates import chain
from exogpu.schedule.certificates.chain import uncertified
from exogpu.schedule.reparse import out_of_scope
from exogpu.solvers import smt
from exogpu.symbolic.certificate.recheck import Rechecked, answered
from exogpu.symbolic.certificate.strict_json import json_text, sealed, sha256
from exogpu.symbolic.steps.recheck_steps import derivation, prepare

ROOT = Path(__file__).resolve().parents[2]


def tiled() -> Procedure:
    """The thinnest slice: divide_loop, reorder_loops, fission, stage_mem."""
    p = schedule.divide_loop(gemm, "i", 8, ["io", "ii"], "cut")
    p = schedule.reorder_loops(p, "ii")
    p = schedule.fission(p, schedule.find(p, "C[_] = _").after())
    p = schedule.stage_mem(p, "for k in _: _", "C[8 * io + ii, j]", "acc")
    p = schedule.divide_loop(p, "k", 4, ["ko", "ki"], "guard")
    return schedule.rename(p, "tiled")


@pytest.fixture(scope="module")
def made(tmp_path_factory: pytest.TempPathFactory) -> Path:
    folder = tmp_path_factory.mktemp("certificates")
    found = schedule.certificate(tiled())
    assert [step.decided for step in found.steps] == ["certificate"] * 5 + ["same"]
    found.write(folder)
    return folder


def again(folder: Path) -> Rechecked:
    return answered(prepare(folder), (smt.ask_z3,))


def folders(made: Path) -> list[Path]:
    return sorted(path for path in made.iterdir() if path.is_dir())


WITHOUT_ISL = """
import sys
for name in ("islpy", "exogpu.schedule"):
    sys.modules[name] = None
from pathlib import Path
from exogpu.solvers import smt
from exogpu.symbolic.certificate.recheck import answered
from exogpu.symbolic.steps.recheck_steps import derivation, prepare
folder = Path(sys.argv[1])
print(derivation(folder).word)
for one in sorted(path for path in folder.iterdir() if path.is_dir()):
    print(answered(prepare(one), (smt.ask_z3,)).word)
"""


@pytest.mark.slow
def test_they_are_confirmed_without_isl_and_the_scheduler(made: Path) -> None:
    ran = subprocess.run(
        [sys.executable, "-c", WITHOUT_ISL, str(made)], capture_output=True, text=True, cwd=ROOT
    )
    assert ran.stdout.split() == ["confirmed"] * 6, ran.stderr


def test_equal_derivations_give_equal_bytes(made: Path, tmp_path: Path) -> None:
    second = schedule.certificate(tiled())
    assert [(step.decided, step.why) for step in second.steps if step.why] == []
    second.write(tmp_path)
    files = sorted(path.relative_to(made) for path in made.rglob("*.json"))
    assert len(files) == 16
    for file in files:
        assert (made / file).read_text().split(",") == (tmp_path / file).read_text().split(",")


def test_each_step_is_made_of_what_the_one_before_it_made(made: Path) -> None:
    for before, after in zip(folders(made), folders(made)[1:], strict=False):
        texts = [json.loads((one / "program.json").read_text()) for one in (before, after)]
        assert texts[0]["new"] == texts[1]["old"]


# --- altered ------------------------------------------------------------------------------------

Change = Callable[[dict[str, Any]], None]


def altered(folder: Path, to: Path, file: str, change: Change, *, seal: bool) -> Path:
    """A copy of a certificate with one file changed; with `seal`, all digests are made to fit."""
    for path in folder.iterdir():
        (to / path.name).write_bytes(path.read_bytes())
    value = json.loads((to / file).read_text())
    change(value)
    (to / file).write_text(json_text(sealed(value) if file == "certificate.json" else value))
    if seal and file != "certificate.json":
        content = json.loads((to / "certificate.json").read_text())
        part = file.removesuffix(".json")
        content[part]["sha256"] = sha256((to / file).read_text())
        program = json.loads((to / "program.json").read_text())
        for which in {"old", "new"} & program.keys():
            content[which] = sha256(json_text(program[which]))
        (to / "certificate.json").write_text(json_text(sealed(content)))
    return to


def texts_in(value: Any) -> Iterator[tuple[Any, Any]]:
    """Every place of a formula: the list or object that has it, and where."""
    items = value.items() if isinstance(value, dict) else enumerate(value)
    for key, one in items:
        if isinstance(one, str) and key not in (
            "text",
            "source",
            "end",
            "name",
            "type",
            "variable",
        ):
            yield value, key
        elif isinstance(one, dict | list):
            yield from texts_in(one)


def test_a_digest_that_does_not_fit_is_told(made: Path, tmp_path: Path) -> None:
    def change(value: dict[str, Any]) -> None:
        value["found"].pop()

    found = again(altered(folders(made)[0], tmp_path, "witness.json", change, seal=False))
    assert found.word == "rejected" and "digest" in found.flaws[0].problem


@pytest.mark.parametrize("step", range(5))
def test_another_witness_is_refused(made: Path, tmp_path: Path, step: int) -> None:
    """Every instance that is named is the only one: a neighbour of it is none."""
    folder = folders(made)[step]
    witness = json.loads((folder / "witness.json").read_text())
    places = [one for one in texts_in(witness) if isinstance(one[1], int)]
    assert len(places) > 10
    for number in range(0, len(places), 5):

        def change(value: dict[str, Any], number: int = number) -> None:
            where, key = [one for one in texts_in(value) if isinstance(one[1], int)][number]
            where[key] = f"({where[key]} + (1))"

        found = again(altered(folder, tmp_path, "witness.json", change, seal=True))
        assert found.word == "rejected", places[number]


def test_a_witness_that_leaves_out_a_case_is_refused(made: Path, tmp_path: Path) -> None:
    for part in ("kept", "found"):
        witness = json.loads((folders(made)[0] / "witness.json").read_text())
        for number in range(len(witness[part])):

            def change(value: dict[str, Any], number: int = number, part: str = part) -> None:
                value[part][number]["by"].pop()

            found = again(altered(folders(made)[0], tmp_path, "witness.json", change, seal=True))
            assert found.word == "rejected"


CHANGED: dict[str, Change] = {
    "an index": lambda v: v["new"]["statements"][0]["target"]["index"].__setitem__(0, "io"),
    "a bound": lambda v: v["new"]["statements"][1]["holds"].pop(),
    "a constant": lambda v: v["new"]["statements"][0]["computes"].update(number="1"),
    "a type": lambda v: v["new"]["variables"][2].update(type="f16"),
    "a precondition": lambda v: v["new"]["preconditions"].append("((M) > (8))"),
    "times exchanged": lambda v: v["new"]["statements"][0]["time"].__setitem__(4, 7),
    "two statements at one time": lambda v: v["new"]["statements"][1].update(
        v["new"]["statements"][0]
    ),
    "an image gone": lambda v: v["images"].pop(),
    "an image twice": lambda v: v["images"].append(v["images"][0]),
    "an iterator": lambda v: v["images"][0]["at"].__setitem__(0, "(8 * io)"),
    "sides": lambda v: v["images"][1].update(reads=[1, 0]),
    "another statement": lambda v: v["images"][0].update(old=1),
    "no statement": lambda v: v["images"][0].update(old=9),
    "a name that is none": lambda v: v["images"][0]["at"].__setitem__(0, "k_9"),
}


@pytest.mark.parametrize("name", CHANGED)
def test_another_record_is_refused(made: Path, tmp_path: Path, name: str) -> None:
    folder = folders(made)[0]
    found = again(altered(folder, tmp_path, "program.json", CHANGED[name], seal=True))
    assert found.word == "rejected"


def test_an_obligation_left_out_is_told(made: Path, tmp_path: Path) -> None:
    def change(value: dict[str, Any]) -> None:
        value["obligations"].pop(3)

    found = again(altered(folders(made)[0], tmp_path, "certificate.json", change, seal=True))
    assert found.word == "rejected" and "missing" in found.flaws[0].problem


ODD = [0, -1, 9, None, True, [], {}, "", "x", "(0 = 1)", "io", "nan", {"read": 5}, "(0 = 0)"]


@pytest.mark.parametrize("file", ["program.json", "witness.json", "certificate.json"])
def test_whatever_stands_in_a_file_is_told(made: Path, tmp_path: Path, file: str) -> None:
    random = Random(file)
    for _ in range(60):

        def change(value: dict[str, Any]) -> None:
            places = [*places_in(value)]
            where, key = places[random.randrange(len(places))]
            where[key] = random.choice(ODD)

        try:
            prepare(altered(folders(made)[4], tmp_path, file, change, seal=True))
        except ExoGpuError as error:
            assert error.diagnostics[0].code == "X971"


def places_in(value: Any) -> Iterator[tuple[Any, Any]]:
    """Every place in a JSON value."""
    for key in [*value] if isinstance(value, dict) else range(len(value)):
        yield value, key
        if isinstance(value[key], dict | list):
            yield from places_in(value[key])


def test_a_derivation_with_a_gap_is_refused(made: Path, tmp_path: Path) -> None:
    whole = json.loads((made / "derivation.json").read_text())
    assert (found := derivation(made)) is not None and found.word == "confirmed"
    for change, word in (
        (lambda v: v["steps"].pop(2), "rejected"),
        (lambda v: v["steps"][1].update(decided="same", certificate=None), "rejected"),
        (lambda v: v["steps"][1].update(decided="isl", why="so", certificate=None), "unknown"),
    ):
        value = json.loads(json.dumps(whole))
        change(value)
        for folder in folders(made):
            (tmp_path / folder.name).mkdir(exist_ok=True)
            for file in folder.iterdir():
                (tmp_path / folder.name / file.name).write_bytes(file.read_bytes())
        (tmp_path / "derivation.json").write_text(json_text(sealed(value)))
        assert (found := derivation(tmp_path)) is not None and found.word == word


def test_a_step_of_another_procedure_is_refused(made: Path, tmp_path: Path) -> None:
    shutil.copytree(made, tmp_path, dirs_exist_ok=True)
    path = folders(tmp_path)[1] / "certificate.json"
    path.write_text(json_text(sealed({**json.loads(path.read_text()), "procedure": "other"})))
    listed = json.loads((made / "derivation.json").read_text())
    listed["steps"][1]["certificate"] = sha256(path.read_bytes())
    (tmp_path / "derivation.json").write_text(json_text(sealed(listed)))
    assert (found := derivation(tmp_path)) is not None and found.word == "rejected"


def test_what_isl_alone_decided_is_not_confirmed(
    tmp_path: Path, monkeypatch: pytest.MonkeyPatch
) -> None:
    """As where ISL has not the time to find a witness."""
    p = schedule.stage_sum(gemm, "for k in _: _", "C[i, j]", "t")
    monkeypatch.setattr(chain, "BUDGET", 1)
    found = schedule.certificate(p)
    assert not found.complete and "budget" in found.steps[0].why
    found.write(tmp_path)
    assert (listed := derivation(tmp_path)) is not None and listed.word == "unknown"


def test_operations_may_run_out_anywhere(monkeypatch: pytest.MonkeyPatch) -> None:
    """Also where ISL has to print a number."""
    p = schedule.divide_loop(even, "i", 4, ["io", "ii"], "guard")
    for budget in range(10, 5000, 45):
        monkeypatch.setattr(chain, "BUDGET", budget)
        assert schedule.certificate(p).steps[0].decided in ("certificate", "isl")


# --- commands -----------------------------------------------------------------------------------

SOURCE = """from __future__ import annotations
from exogpu import *
from exogpu.schedule import *

@proc
def even(n: size, x: f32[n] @ DRAM):
    assert n % 4 == 0
    for i in seq(0, n):
        x[i] = 2

tiled = rename(divide_loop(even, "i", 4, ["io", "ii"], "perfect"), "tiled")
"""


def lines_of(said: str) -> list[str]:
    """Who is confirmed, without times and folders."""
    return [line.partition(" (")[0] for line in said.splitlines() if "confirmed" in line]


@pytest.mark.slow
def test_commands(tmp_path: Path) -> None:
    file, out = tmp_path / "derived.py", tmp_path / "out"
    file.write_text(SOURCE)
    ran = CliRunner().invoke(app, ["history", str(file), "--certify", "-o", str(out)])
    assert ran.exit_code == 0, ran.output
    assert "1 step certified" in ran.stdout and "1 without a change" in ran.stdout
    ran = CliRunner().invoke(app, ["recheck", str(out / "tiled"), "--solver", "z3"])
    assert ran.exit_code == 0, ran.output
    assert "tiled, as derived: confirmed (2 steps in a chain" in ran.stdout
    assert "tiled, step 1 (divide_loop): confirmed" in ran.stdout
    above = CliRunner().invoke(app, ["recheck", str(out), "--solver", "z3"])
    assert above.exit_code == 0 and lines_of(above.stdout) == lines_of(ran.stdout)
    again = ["recheck", str(out / "tiled"), "--solver", "z3", "--source", str(file)]
    ran = CliRunner().invoke(app, again)
    assert ran.exit_code == 0 and "its steps were made again from the source" in ran.stdout
    listed = (out / "tiled" / "derivation.json").read_text()
    value = json.loads(listed)
    value["steps"][1]["arguments"] = ["'filed'"]
    (out / "tiled" / "derivation.json").write_text(json_text(sealed(value)))
    ran = CliRunner().invoke(app, again)
    assert ran.exit_code == 1 and "derives tiled by other steps" in ran.stdout
    (out / "tiled" / "derivation.json").write_text(listed)
    file.write_text(SOURCE.replace('"perfect"', '"cut"'))
    ran = CliRunner().invoke(app, again)
    assert ran.exit_code == 1 and "derives tiled by other steps" in ran.stdout
    assert CliRunner().invoke(app, ["history", str(file), "--certify"]).exit_code == 2


@pytest.mark.slow
def test_a_certificate_beside_the_steps_does_not_stand_for_them(made: Path, tmp_path: Path) -> None:
    out = tmp_path / "tiled"
    for folder in folders(made):
        shutil.copytree(folder, out / folder.name)
    step = out / folders(made)[3].name
    (step / "program.json").write_text("nothing")
    value = json.loads((step / "certificate.json").read_text())
    value["obligations"] = []
    (step / "certificate.json").write_text(json_text(sealed(value)))
    listed = json.loads((made / "derivation.json").read_text())
    listed["steps"][3]["certificate"] = sha256((step / "certificate.json").read_bytes())
    (out / "derivation.json").write_text(json_text(sealed(listed)))
    for file in folders(made)[0].iterdir():
        shutil.copy(file, out)
    for place in (out, tmp_path):
        ran = CliRunner().invoke(app, ["recheck", str(place), "--solver", "z3"])
        assert ran.exit_code == 1 and "tiled, step 4 (stage_mem): rejected" in ran.stdout


def test_a_proof_and_the_steps_in_one_folder(tmp_path: Path) -> None:
    """Whichever is written first."""
    file, out = tmp_path / "derived.py", tmp_path / "out"
    file.write_text(SOURCE)
    report = ["report", f"{file}::tiled", "-o", str(out)]
    steps = ["history", f"{file}::tiled", "--certify", "-o", str(out)]
    for command in (report, steps, report):
        assert CliRunner().invoke(app, command).exit_code == 0
        if command is steps:
            assert (out / "tiled" / "certificate.json").is_file()
    ran = CliRunner().invoke(app, ["recheck", str(out / "tiled"), "--solver", "z3"])
    assert ran.exit_code == 0, ran.output
    for what in ("tiled, as derived: confirmed", "tiled: confirmed", "tiled, step 1 (divide_loop)"):
        assert what in ran.stdout


# --- mistakes -----------------------------------------------------------------------------------

STEPS: list[tuple[Procedure, Callable[[Procedure], Procedure]]] = [
    (even, lambda p: schedule.divide_loop(p, "i", 4, ["io", "ii"], "guard")),
    (carried, lambda p: schedule.divide_loop(p, "i", 3, ["io", "ii"], "cut")),
    (two, lambda p: schedule.fission(p, schedule.find(p, "x[_] = _").after())),
    (pieces, lambda p: schedule.join_loops(p, "i")),
    (last, lambda p: schedule.remove_loop(p, "i")),
    (tail, lambda p: schedule.remove_if(p, "if _: _")),
    (guarded_by_i, lambda p: schedule.extend_loop(p, "i", "0", "n + 2")),
    (scalar, lambda p: schedule.expand_dim(p, "t", "n", "i")),
    (pieces, lambda p: schedule.stage_mem(p, "for i in _: _", "x[0:n]", "t")),
]


@pytest.mark.parametrize("number", range(len(STEPS)))
def test_a_mistake_that_is_seen_is_never_certified(number: int) -> None:
    """The oracle runs both procedures; the witness is what ISL finds about the wrong step."""
    before, step = STEPS[number]
    made = schedule.derivation(step(before))
    assert made is not None
    refused = 0
    for edit in mutations(made.edit):
        if out_of_scope(edit.new) is not None or uncertified(edit):
            refused += 1
            continue
        for size in (3, 4, 5, 8):
            assert not differ(edit.old, edit.new, dict.fromkeys(before.size_names, size))
    assert refused > 3
