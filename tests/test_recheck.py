"""Certificates: the same bytes each time, confirmed as written, rejected once altered."""

from __future__ import annotations

import json
import shutil
from collections.abc import Callable
from functools import cache
from importlib import metadata
from operator import mul
from pathlib import Path
from random import Random
from time import monotonic
from typing import Any, Literal

import pytest
from typer.testing import CliRunner

from exogpu import Procedure
from exogpu.cli.commands import app
from exogpu.cli.loader import load
from exogpu.diagnostics.verdict import Verdict
from exogpu.solvers import smt
from exogpu.solvers.solver_process import Apart
from exogpu.symbolic.certificate.recheck import Ask, prepare, recheck, solvers
from exogpu.symbolic.certificate.strict_json import json_text
from exogpu.symbolic.certificate.write import version, write_certificate
from tests.cases.certificates.ring import ring
from tests.forging import Content, change, forge, of, seal

ROOT = Path(__file__).parent.parent
Z3 = (smt.ask_z3,)

with_cvc5 = pytest.mark.skipif(smt.cvc5_version() is None, reason="cvc5 is not installed")


@cache
def proved(procedure: Procedure) -> Verdict:
    verdict = procedure.check()
    assert verdict.word == "proved", verdict.reason
    return verdict


@pytest.fixture
def folder(tmp_path: Path) -> Path:
    """The certificate of the ring."""
    write_certificate(tmp_path / "ring", ring, proved(ring))
    return tmp_path / "ring"


def word(folder: Path, ask: tuple[Ask, ...] = Z3) -> tuple[str, list[str]]:
    found = recheck(folder, ask)
    return found.word, [f"{flaw.where}: {flaw.problem}" for flaw in found.flaws]


# --- altered, and not sealed anew ---------------------------------------------------------------


@pytest.mark.parametrize("at", [0.1, 0.35, 0.6, 0.9])
@pytest.mark.parametrize("file", ["certificate.json", "program.json", "witness.json"])
def test_a_changed_byte_is_a_changed_digest(folder: Path, file: str, at: float) -> None:
    path = folder / file
    data = bytearray(path.read_bytes())
    # A letter in a text or comment: what is read is still well-formed.
    letters = [i for i, b in enumerate(data) if data[i - 1 : i + 2].isalpha()]
    where = letters[int(at * len(letters))]
    data[where] = ord("x") if data[where] != ord("x") else ord("y")
    path.write_bytes(data)
    runner = CliRunner()
    ran = runner.invoke(app, ["recheck", str(folder), "--solver", "z3"])
    # A field's name may be hit: then the certificate cannot be read.
    assert ran.exit_code in (1, 2)
    assert "digest" in ran.output or "X971" in ran.output


def test_white_space_counts(folder: Path) -> None:
    path = folder / "certificate.json"
    path.write_text(path.read_text() + "\n")
    assert word(folder) == (
        "rejected",
        ["certificate.json: its digest differs: it is not the text that was written"],
    )


def test_missing_and_extra_files(folder: Path) -> None:
    (folder / "witness.json").rename(folder / "mine.json")
    found = recheck(folder, Z3)
    assert [str(flaw.problem) for flaw in found.flaws] == ["it is missing"]
    assert found.word == "rejected" and found.others == ("mine.json",)


# --- altered, with digests that fit -------------------------------------------------------------


def text(group: str, before: str, after: str, at: int = 0) -> Callable[[Content], None]:
    """Replaces a text in an entry of a witness."""

    def alter(witness: Content) -> None:
        found = json.dumps(witness[group][at])
        assert before in found
        witness[group][at] = json.loads(found.replace(before, after))

    return alter


ALTERED: dict[str, tuple[str, Callable[[Content], None]]] = {
    "a rank": ("count-full-20", text("counts", "here.k", "(here.k + (1))", 1)),
    "a step of a chain, one later": (
        "raw-tile-19-24",
        text("chains", "first.k", "(first.k + (1))", 2),
    ),
    "a step of a chain, one earlier": (
        "war-tile-24-19",
        text("chains", "(first.k + (2))", "(first.k + (1))", 6),
    ),
    "a count before": ("count-full-20", text("partners", "(here.k - (1))", "(here.k - (2))", 7)),
    "a partner of the balance": ("barrier-full-20-13", text("partners", "here.k", "(0)", 2)),
    "a first arrival": ("deadlock-full-22", text("partners", '"(0)"', '"(5)"', 11)),
    "a step of PHASE": ("phase-full-20", text("phase", "(here.k - (3))", "(here.k - (2))", 4)),
    "a thread of PHASE": ("phase-full-20", text("phase", "(32)", "(31)", 4)),
}
"""What is altered in the witness, and an obligation that no longer holds."""


def alter(folder: Path, what: str) -> str:
    """Alters the witness and fixes up the digests; the obligation's name."""
    name, change_it = ALTERED[what]
    change(folder, "witness.json", change_it)
    return name


@pytest.mark.parametrize("what", ALTERED)
def test_only_the_solver_can_tell(folder: Path, what: str) -> None:
    name = alter(folder, what)
    says = f"z3 {smt.z3_version()} answers sat: there is a case in which the claim fails"
    verdict, problems = word(folder)
    assert verdict == "rejected" and f"{name}: {says}" in problems


@with_cvc5
@pytest.mark.parametrize("what", ALTERED)
def test_the_other_solver_can_tell_too(folder: Path, what: str) -> None:
    name = alter(folder, what)
    verdict, problems = word(folder, (smt.ask_cvc5,))
    assert verdict == "rejected"
    assert any(one.startswith(f"{name}: cvc5") and "answers sat" in one for one in problems)


@pytest.mark.parametrize(
    ("name", "says"),
    [
        ("raw-tile-19-24", "RAW at line 19 (tile[k % 2, t] = x[k, t]) and line 24"),
        ("count-empty-25", "COUNT at line 25 (Arrive(cuda_in_order) >> empty)"),
        ("barrier-full-20-13", "BARRIER at line 20"),
        ("deadlock-empty-17", "DEADLOCK at line 17"),
        ("phase-full-22-20", "PHASE at line 22"),
    ],
)
def test_every_obligation_of_the_program_must_be_there(folder: Path, name: str, says: str) -> None:
    change(folder, "certificate.json", lambda c: c["obligations"].remove(of(c, name)))
    verdict, problems = word(folder)
    assert verdict == "rejected" and len(problems) == 1
    missing = "certificate.json: an obligation of the program is missing: "
    assert problems[0].startswith(missing + says)


def test_the_claim_is_the_program_s(folder: Path) -> None:
    def other(certificate: Content) -> None:
        certificate["obligations"][0]["claim"] = "P = NP."

    change(folder, "certificate.json", other)
    (problem,) = word(folder)[1]
    assert problem.startswith("free-empty-17-14: its claim is another: No FREE on empty")


def test_the_policy_is_the_program_s(folder: Path) -> None:
    change(folder, "certificate.json", lambda c: c.update(policy="paper"))
    assert word(folder)[1] == ["program.json: it is of another procedure or policy"]


def test_a_script_beside_a_certificate_is_not_asked(folder: Path) -> None:
    """Solvers are asked what is encoded anew, whatever lies there."""
    (folder / "obligations").mkdir()
    (folder / "obligations" / "raw-tile-19-24.smt2").write_text("(assert true)\n(check-sat)\n")
    found = recheck(folder, Z3)
    assert (found.word, found.others) == ("confirmed", ("obligations",))


def test_what_is_asked_is_what_was_proved(folder: Path) -> None:
    """The scripts made from files are those that the prover made, to the last letter."""
    asked = {one.name: one.smt for one in prepare(folder).obligations}
    proof = proved(ring).proof
    assert proof is not None
    assert asked == {one.obligation.name: one.obligation.smt for one in proof.answered}


# --- the command line ---------------------------------------------------------------------------


def run(*arguments: str) -> tuple[int, str]:
    ran = CliRunner().invoke(app, ["recheck", *arguments, "--solver", "z3"])
    return ran.exit_code, " ".join(ran.output.split())


def test_a_folder_of_certificates(folder: Path) -> None:
    shutil.copytree(folder, folder.parent / "worse")
    (folder.parent / "notes").mkdir()
    alter(folder.parent / "worse", "a step of a chain, one later")
    status, text = run(str(folder.parent))
    assert status == 1
    assert text.count("confirmed") == text.count("rejected") == 1
    assert "the claim: No RAW on tile: the write at line 19" in text


def test_scripts_are_written(folder: Path, tmp_path: Path) -> None:
    status, _ = run(str(folder), "--scripts", str(tmp_path / "asked"))
    written = {path.stem: path.read_text() for path in (tmp_path / "asked/ring").iterdir()}
    assert status == 0 and len(written) == 36
    assert written["raw-tile-19-24"].startswith("; No RAW on tile: the write at line 19")
    (tmp_path / "file").write_text("")
    status, text = run(str(folder), "--scripts", str(tmp_path / "file"))
    assert status == 2 and "X948" in text


def test_the_source_is_named(folder: Path, tmp_path: Path) -> None:
    source = ROOT / "tests/cases/certificates/ring.py"
    status, text = run(str(folder), "--source", str(source))
    assert status == 0 and "made again from the source, and is the same" in text
    status, text = run(str(folder), "--source", str(source.with_name("nest.py")))
    assert status == 1 and "the source has no procedure ring" in text
    (tmp_path / "ring.py").write_text(f"{source.read_text()}\n# more\n")
    status, text = run(str(folder), "--source", str(tmp_path / "ring.py"))
    assert status == 1 and "the digests differ" in text


@pytest.mark.parametrize("stated", [{"file": "rind.py"}, {"line": 10}])
def test_the_place_of_the_source_is_compared(folder: Path, stated: Content) -> None:
    seal(folder, lambda certificate: certificate["source"].update(stated))
    status, text = run(str(folder), "--source", str(ROOT / "tests/cases/certificates/ring.py"))
    assert status == 1 and "its source stands elsewhere than is stated" in text


def test_a_process_states_one_version(monkeypatch: pytest.MonkeyPatch) -> None:
    """Also while exogpu is installed anew beside it."""
    found = version("exogpu")
    monkeypatch.setattr(metadata, "version", lambda package: "none")
    assert version("exogpu") == found


@pytest.mark.parametrize("name", ["two\nlines.py", "r\u202ey.py", "z\udcff.py"])
def test_a_file_of_an_odd_name(tmp_path: Path, name: str) -> None:
    file = tmp_path / name
    shutil.copy(ROOT / "tests/cases/certificates/ring.py", file)
    (unit,) = load(str(file))
    assert unit.procedure is not None
    write_certificate(tmp_path / "ring", unit.procedure, proved(unit.procedure))
    status, text = run(str(tmp_path / "ring"), "--source", str(file))
    assert status == 0 and "made again from the source, and is the same" in text


def test_json(folder: Path) -> None:
    alter(folder, "a step of a chain, one later")
    status, text = run(str(folder), "--json")
    (one,) = json.loads(text)
    (flaw,) = one["flaws"]
    assert (status, one["procedure"], one["word"]) == (1, "ring", "rejected")
    assert flaw["where"] == "raw-tile-19-24" and flaw["claim"].startswith("No RAW on tile")


NAMES = [f"x{at}" for at in range(40)]
SOLUTION = Random(4).choices(range(1, 100001), k=len(NAMES))


def knapsack() -> list[tuple[list[int], int]]:
    """Equations of forty sizes, which take solvers very long: the numbers of thirty dimensions
    grow, which Z3's own limit does not count."""
    random = Random(3)
    rows = [
        [random.choice((1, -1)) * random.choice(range(1000, 99999)) for _ in NAMES]
        for _ in range(30)
    ]
    return [(row, sum(map(mul, row, SOLUTION))) for row in rows]


def hard(folder: Path) -> None:
    """Makes obligations that take solvers very long."""

    def alter(program: Content) -> None:
        program["params"] += [{"name": name, "kind": "size"} for name in NAMES]
        rows = program["preconditions"]
        rows += [f"({name} < (100001))" for name in NAMES]
        for factors, total in knapsack():
            row = "(0)"
            for factor, name in zip(factors, NAMES, strict=True):
                row = f"({row} + ({factor} * {name}))"
            rows.append(f"({row} = ({total}))")

    change(folder, "program.json", alter)
    sizes = [{"name": x, "size": size} for x, size in zip(NAMES, SOLUTION, strict=True)]
    change(folder, "witness.json", lambda w: (w.update(chains=[]), w["sizes"].extend(sizes)))
    forge(folder)


def test_what_no_solver_decides_is_unknown(folder: Path) -> None:
    hard(folder)
    start = monotonic()
    status, text = run(str(folder), "--timeout", "4")
    assert monotonic() - start < 30  # a script alone may take 60
    assert status == 3 and "ring: unknown" in text
    assert "-tile-19-" in text and "does not decide it: no answer within" in text
    assert "the time is up" in text and "the claim: No " in text


def test_no_time_at_all(folder: Path) -> None:
    status, text = run(str(folder.parent), "--timeout", "0")
    assert status == 3 and "the time is up: it is not read" in text


def test_odd_times(folder: Path) -> None:
    assert run(str(folder), "--timeout", "nan")[0] == 2
    assert run(str(folder), "--timeout", "-1")[0] == 2
    assert run(str(folder), "--timeout", "inf")[0] == 0


def test_reading_takes_no_longer_than_the_time(folder: Path) -> None:
    """A program with a million pairs of accesses."""
    program = json.loads((folder / "program.json").read_text())

    def widen(block: list[dict[str, Any]]) -> None:
        for op in [*block]:
            widen(op.get("body", []))
        lines = {op["line"] for op in block if op["op"] == "RecordMutate"}
        for line in lines:
            block[:0] = 1000 * [op for op in block if op["line"] == line and "access" in op]

    widen(program["body"])
    (folder / "program.json").write_text(json_text(program))
    seal(folder)
    start = monotonic()
    status, text = run(str(folder), "--timeout", "1")
    assert monotonic() - start < 20  # without a limit, minutes
    assert status == 3 and "the time is up: it is not read to its end" in text


def test_nothing_is_asked_where_a_digest_differs(folder: Path) -> None:
    path = folder / "witness.json"
    path.write_text(path.read_text() + "\n")
    status, text = run(str(folder))
    assert status == 1 and "36 obligations under policy ptx, of which no solver was asked" in text
    assert text.count("its digest differs from that in certificate.json") == 1


def test_one_bad_certificate_does_not_end_a_folder(folder: Path) -> None:
    for name in ("a", "b", "c", "d", "e", "z"):
        shutil.copytree(folder, folder.parent / name)
    (folder.parent / "a" / "certificate.json").write_text("[" * 200_000)
    (folder.parent / "b" / "certificate.json").write_bytes(b"\xff")
    (folder.parent / "c" / "program.json").unlink()
    (folder.parent / "d" / "witness.json").unlink()
    (folder.parent / "e" / "certificate.json").unlink()
    (folder.parent / "link").symlink_to("z")
    shutil.copytree(folder, folder.parent / "odd\udcff\x1b[2J")
    (folder.parent / "lost").mkdir()
    (folder.parent / "lost" / "certificate.json").symlink_to("nowhere")
    status, text = run(str(folder.parent))
    assert status == 2
    assert text.count("confirmed (") == 3 and text.count("rejected (") == 2
    assert r"odd\udcff\x1b[2J" in text and "\x1b" not in text
    assert text.count("X971") == 5 and text.count("symbolic link") == 2


def test_what_was_checked_is_said(folder: Path) -> None:
    status, text = run(str(folder))
    assert status == 0
    assert "checked: the digests of certificate.json" in text
    assert "not checked here: that program.json is the program of the kernel" in text
    (one,) = json.loads(run(str(folder), "--json")[1])
    assert len(one["checked"]) == 3 and "--source" in one["not_checked"][0]
    assert one["digest"] == json.loads((folder / "certificate.json").read_text())["digest"]


# --- solvers in processes of their own ----------------------------------------------------------

SCRIPT = "(set-logic QF_LIA)\n(assert false)\n(check-sat)\n"


@pytest.mark.parametrize("name", ["z3", pytest.param("cvc5", marks=with_cvc5)])
def test_a_crash_of_a_solver_is_an_answer(name: Literal["z3", "cvc5"]) -> None:
    with Apart(name) as ask:
        assert ask(SCRIPT).word == "unsat"
        assert ask._process is not None
        ask._process.kill()
        crashed = ask(SCRIPT)
        assert crashed.word == "unknown" and "crashed (exit status -9)" in crashed.why
        assert crashed.solver == ask(SCRIPT).solver
        assert ask(SCRIPT).word == "unsat"


def number(value: int) -> str:
    return str(value) if value >= 0 else f"(- {-value})"


def test_a_script_has_a_time_limit() -> None:
    lines = [f"(declare-const {x} Int)\n(assert (and (<= 0 {x}) (< {x} 100001)))" for x in NAMES]
    for factors, total in knapsack():
        terms = [f"(* {number(n)} {x})" for n, x in zip(factors, NAMES, strict=True)]
        lines.append(f"(assert (= {total} (+ {' '.join(terms)})))")
    script = "\n".join(["(set-logic QF_LIA)", *lines, "(check-sat)"])
    with Apart("z3", limit=1.0) as ask:
        assert ask(SCRIPT).word == "unsat"
        assert ask(script).why.startswith("no answer within")
        assert ask(SCRIPT).word == "unsat"
    with Apart("z3", monotonic()) as ask:
        assert ask(SCRIPT).why == "no time is left"


def test_nothing_but_answers_comes_from_a_solver() -> None:
    with Apart("z3") as ask:
        assert ask('(echo "sat")(simplify 1)' + SCRIPT).word == "unsat"


def test_no_certificate(tmp_path: Path) -> None:
    assert run(str(tmp_path))[0] == 2
    assert "has no certificate" in run(str(tmp_path))[1]
    status, text = run(str(tmp_path / "none"))
    assert status == 2 and "X970" in text and "is no folder" in text


@pytest.mark.parametrize(
    ("text", "says"),
    [
        ("{", "it is no JSON"),
        ("\udcff", "it is no UTF-8"),
        ("[]", "it is no certificate of exogpu"),
        ('{"format": "exogpu certificate", "version": 99}', "version 99 of the format"),
        ('{"format": "exogpu certificate", "version": 6}', "the field procedure is missing"),
    ],
)
def test_a_broken_certificate(folder: Path, text: str, says: str) -> None:
    (folder / "certificate.json").write_bytes(text.encode(errors="surrogateescape"))
    status, output = run(str(folder))
    assert status == 2 and "X971" in output and says in output


def test_a_name_does_not_leave_the_folder(folder: Path) -> None:
    change(folder, "certificate.json", lambda c: c["program"].update(file="../program.json"))
    assert run(str(folder))[0] == 2


def test_an_interrupted_certificate_cannot_be_read(folder: Path) -> None:
    (folder / "certificate.json").unlink()
    status, text = run(str(folder.parent))
    assert status == 2 and "X971" in text


def test_cvc5_is_optional(folder: Path, monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.setattr(smt, "cvc5_version", lambda: None)
    assert solvers("all") == (smt.ask_z3,)
    ran = CliRunner().invoke(app, ["recheck", str(folder), "--solver", "cvc5"])
    assert ran.exit_code == 2 and "X972" in ran.output
