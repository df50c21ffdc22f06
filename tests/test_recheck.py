"""Certificates: the same bytes each time, confirmed as written, rejected once altered."""

from __future__ import annotations

import json
import re
import shutil
from collections.abc import Callable
from functools import cache
from pathlib import Path
from random import Random
from time import monotonic
from typing import Any, Literal

import pytest
from typer.testing import CliRunner

from exogpu import Procedure
from exogpu.cli.commands import app
from exogpu.result.verdict import Verdict
from exogpu.solvers import smt
from exogpu.solvers.apart import Apart
from exogpu.solvers.smtlib import plain
from exogpu.symbolic.certificate.recheck import Ask, recheck, solvers
from exogpu.symbolic.certificate.sealing import json_text, sealed, sha256
from exogpu.symbolic.certificate.write import certificate_digest, write_certificate
from tests.cases.certificates.ring import ring

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


def seal(folder: Path, change: Callable[[dict[str, Any]], None] = lambda content: None) -> None:
    """Makes every digest fit what the files and the changed certificate say."""
    path = folder / "certificate.json"
    content = json.loads(path.read_text())
    change(content)
    content["program"]["sha256"] = sha256((folder / "program.json").read_bytes())
    for one in content["obligations"]:
        if one["by"] == "solver":
            one["sha256"] = sha256((folder / one["file"]).read_bytes())
    path.write_text(json_text(sealed(content)))


def rewrite(path: Path, pattern: str, new: str) -> None:
    text = path.read_text()
    altered = re.sub(pattern, new, text)
    assert altered != text
    path.write_text(altered)


# --- altered, and not sealed anew ---------------------------------------------------------------


@pytest.mark.parametrize("at", [0.1, 0.35, 0.6, 0.9])
@pytest.mark.parametrize("file", ["certificate.json", "program.json", "raw-tile-19-24.smt2"])
def test_a_changed_byte_is_a_changed_digest(folder: Path, file: str, at: float) -> None:
    path = folder / ("obligations" if file.endswith("smt2") else "") / file
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
    (folder / "obligations" / "raw-tile-19-24.smt2").rename(folder / "obligations" / "mine.smt2")
    assert word(folder) == (
        "rejected",
        [
            "obligations/mine.smt2: the file is not in certificate.json",
            "raw-tile-19-24: the file obligations/raw-tile-19-24.smt2: it is missing",
        ],
    )


# --- altered, with digests that fit -------------------------------------------------------------

ALTERED = {
    "the first's domain": (
        "raw-tile-19-24",
        r"\(assert \(<= 0 first.k\)\)",
        "(assert (<= (- 5) first.k))",
    ),
    "the second's domain": ("war-tile-24-19", r"\(assert \(< second.k K\)\)", ""),
    "the thread's domain": (
        "free-tile-19-12",
        r"\(assert \(< first.thread0 1\)\)",
        "(assert (< first.thread0 100))",
    ),
    "the slot": (
        "war-tile-24-19",
        r"\(= element0 \(mod second.k 2\)\)",
        "(= element0 (mod second.k 3))",
    ),
    "the order of two Arrives": (
        "count-empty-25",
        r"\(< (arrive\d.k) here.k\)",
        r"(<= \1 here.k)",
    ),
    "an Arrive's rank": (
        "raw-tile-19-24",
        r"\(<= first.k first.k\)",
        "(<= (+ first.k 1) first.k)",
    ),
    "an Await's bound": (
        "war-tile-24-19",
        r"\(<= first.k \(- (await\d.k) 2\)\)",
        r"(<= first.k (- \1 3))",
    ),
    "a count": (
        "count-full-20",
        r"\(= (arrive\d.k) \(- here.k 1\)\)",
        r"(= \1 (- here.k 2))",
    ),
    "a bound of DEADLOCK": (
        "deadlock-empty-17-25",
        r"\(<= arrive.k \(- await.k 2\)\)",
        "(<= arrive.k await.k)",
    ),
    "the depth of PHASE": (
        "phase-full-20",
        r"\(assert \(<= 3 arrival.k\)\)",
        "(assert (<= 2 arrival.k))",
    ),
    "a step of a chain, one later": (
        "war-tile-24-19",
        r"(\(define-fun await\d.k \(\) Int .*) 2\)\)",
        r"\1 3))",
    ),
    "a step of a chain, one earlier": (
        "phase-full-22-20",
        r"(\(define-fun arrive\d.k \(\) Int \(\+ await.k) 3\)\)",
        r"\1 2))",
    ),
    "a partner of the balance": (
        "barrier-empty-25-14",
        r"\(= arrive.k arrive.k\)",
        "(= arrive.k (+ arrive.k 1))",
    ),
}
"""What is altered in which obligation, so that it no longer holds."""


def alter(folder: Path, what: str) -> str:
    """Alters one script and fixes up the digests; the obligation's name."""
    name, pattern, new = ALTERED[what]
    rewrite(folder / "obligations" / f"{name}.smt2", pattern, new)
    seal(folder)
    return name


@pytest.mark.parametrize("what", ALTERED)
def test_only_the_solver_can_tell(folder: Path, what: str) -> None:
    name = alter(folder, what)
    says = f"z3 {smt.z3_version()} answers sat: there is a case in which the claim fails"
    assert word(folder) == ("rejected", [f"{name}: {says}"])


@with_cvc5
@pytest.mark.parametrize("what", ALTERED)
def test_the_other_solver_can_tell_too(folder: Path, what: str) -> None:
    name = alter(folder, what)
    verdict, problems = word(folder, (smt.ask_cvc5,))
    assert verdict == "rejected" and len(problems) == 1
    assert problems[0].startswith(f"{name}: cvc5") and "answers sat" in problems[0]


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
    def without(content: dict[str, Any]) -> None:
        content["obligations"] = [o for o in content["obligations"] if o["name"] != name]

    (folder / "obligations" / f"{name}.smt2").unlink()
    seal(folder, without)
    verdict, problems = word(folder)
    assert verdict == "rejected" and len(problems) == 1
    missing = "certificate.json: an obligation of the program is missing: "
    assert problems[0].startswith(missing + says)


def test_what_needs_a_solver_is_not_by_rules(folder: Path) -> None:
    def by_rules(content: dict[str, Any]) -> None:
        (one,) = (o for o in content["obligations"] if o["name"] == "raw-tile-19-24")
        one["by"] = "rules"
        for field in ("file", "sha256", "solver", "answer"):
            del one[field]

    (folder / "obligations" / "raw-tile-19-24.smt2").unlink()
    seal(folder, by_rules)
    verdict, problems = word(folder)
    assert verdict == "rejected" and "does not follow from the rules alone" in problems[0]


def test_the_claim_is_the_script_s(folder: Path) -> None:
    def other(content: dict[str, Any]) -> None:
        content["obligations"][0]["claim"] = "P = NP."

    seal(folder, other)
    assert word(folder)[1] == ["free-empty-17-14: its script states another claim"]


def test_the_policy_is_the_program_s(folder: Path) -> None:
    seal(folder, lambda content: content.update(policy="paper"))
    assert word(folder)[1] == ["program.json: it is of another procedure or policy"]


def test_a_weaker_claim_is_told_by_making_it_again(folder: Path) -> None:
    """The limit of checking answers alone: a script may ask for less than the kernel needs.  Its
    certificate is another than that of the kernel."""
    path = folder / "obligations" / "raw-tile-19-24.smt2"
    rewrite(path, r"\(assert \(< first.k K\)\)", "(assert (< first.k 0))")
    seal(folder)
    assert recheck(folder, Z3).word == "confirmed"
    stated = json.loads((folder / "certificate.json").read_text())["digest"]
    assert stated != certificate_digest(ring, proved(ring))


# --- the command line ---------------------------------------------------------------------------


def run(*arguments: str) -> tuple[int, str]:
    ran = CliRunner().invoke(app, ["recheck", *arguments, "--solver", "z3"])
    return ran.exit_code, " ".join(ran.output.split())


def test_a_folder_of_certificates(folder: Path) -> None:
    shutil.copytree(folder, folder.parent / "worse")
    (folder.parent / "notes").mkdir()
    alter(folder.parent / "worse", "an Arrive's rank")
    status, text = run(str(folder.parent))
    assert status == 1
    assert text.count("confirmed") == text.count("rejected") == 1
    assert "the claim: No RAW on tile: the write at line 19" in text


def test_json(folder: Path) -> None:
    alter(folder, "an Arrive's rank")
    status, text = run(str(folder), "--json")
    (one,) = json.loads(text)
    (flaw,) = one["flaws"]
    assert (status, one["procedure"], one["word"]) == (1, "ring", "rejected")
    assert flaw["where"] == "raw-tile-19-24" and flaw["claim"].startswith("No RAW on tile")


def hard(folder: Path) -> None:
    """Replaces a script by one that takes solvers very long."""
    path = folder / "obligations" / "raw-tile-19-24.smt2"
    head = path.read_text().split("(declare-const")[0]
    # A knapsack of thirty dimensions: its numbers grow, which Z3's own limit does not count.
    random = Random(3)
    names = [f"x{at}" for at in range(40)]
    lines = [
        f"(declare-const {x} Int)\n(assert (<= 0 {x}))\n(assert (< {x} 100001))" for x in names
    ]
    for _ in range(30):
        total = "0"
        for x in names:
            factor = random.randint(1000, 99999)
            total = f"(+ {total} (* {random.choice((str(factor), f'(- {factor})'))} {x}))"
        lines.append(f"(assert (= {total} {random.randint(1, 10**6)}))")
    path.write_text(head + "\n".join([*lines, "(check-sat)", ""]))
    seal(folder)


def test_what_no_solver_decides_is_unknown(folder: Path) -> None:
    hard(folder)
    start = monotonic()
    status, text = run(str(folder), "--timeout", "4")
    assert monotonic() - start < 6
    assert status == 3 and "ring: unknown" in text
    assert "raw-tile-19-24: z3" in text and "does not decide it: no answer within" in text
    assert "the time is up" in text and "the claim: No RAW on tile" in text


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
            if op["op"] in ("RecordMutate", "CheckReads", "CheckMutates"):
                block += [op] * 1000

    widen(program["body"])
    (folder / "program.json").write_text(json_text(program))
    seal(folder)
    start = monotonic()
    status, text = run(str(folder), "--timeout", "1")
    assert monotonic() - start < 2.5
    assert status == 3 and "the time is up: it is not read to its end" in text


def test_nothing_is_asked_where_a_digest_differs(folder: Path) -> None:
    path = folder / "obligations" / "raw-tile-19-24.smt2"
    path.write_text(path.read_text() + "; more\n")
    status, text = run(str(folder))
    assert status == 1 and "28 obligations, of which no solver was asked" in text
    assert text.count("digest of its script differs") == 1


def test_one_bad_certificate_does_not_end_a_folder(folder: Path) -> None:
    for name in ("a", "b", "c", "d", "e", "z"):
        shutil.copytree(folder, folder.parent / name)
    (folder.parent / "a" / "certificate.json").write_text("[" * 200_000)
    (folder.parent / "b" / "certificate.json").write_bytes(b"\xff")
    (folder.parent / "c" / "program.json").unlink()
    shutil.rmtree(folder.parent / "d" / "obligations")
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
    assert len(one["checked"]) == 4 and "scripts encode it" in one["not_checked"][0]
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


def test_a_script_has_a_time_limit(folder: Path) -> None:
    hard(folder)
    script = plain((folder / "obligations" / "raw-tile-19-24.smt2").read_text())
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
        ('{"format": "exogpu certificate", "version": 2}', "the field procedure is missing"),
    ],
)
def test_a_broken_certificate(folder: Path, text: str, says: str) -> None:
    (folder / "certificate.json").write_bytes(text.encode(errors="surrogateescape"))
    status, output = run(str(folder))
    assert status == 2 and "X971" in output and says in output


def test_a_name_does_not_leave_the_folder(folder: Path) -> None:
    def climbs(content: dict[str, Any]) -> None:
        content["program"]["file"] = "../program.json"

    seal(folder, climbs)
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
