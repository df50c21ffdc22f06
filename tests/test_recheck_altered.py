"""Every kind of alteration of a certificate, sealed anew, is named where it is rejected.

Each stands in a table: what is altered, and what is said of it.  `nest` has the lemmas on an
iteration's total; `ring` all other kinds of obligations.
"""

from __future__ import annotations

import json
import os
import re
import shutil
from collections.abc import Callable, Iterator
from functools import cache
from pathlib import Path
from typing import Any

import pytest

from exogpu import Procedure
from exogpu.amir import export
from exogpu.result.errors import ExoGpuError
from exogpu.solvers import smt
from exogpu.symbolic.certificate.program_schema import SCHEMA
from exogpu.symbolic.certificate.recheck import recheck
from exogpu.symbolic.certificate.sealing import json_text, obligation_name, sealed, sha256
from exogpu.symbolic.certificate.write import write_certificate
from tests.cases.certificates.nest import nest
from tests.cases.certificates.ring import ring

Content = dict[str, Any]


@pytest.fixture(scope="session")
def written(tmp_path_factory: pytest.TempPathFactory) -> Callable[[Procedure], Path]:
    """Certificates, each made once."""

    @cache
    def write(procedure: Procedure) -> Path:
        folder = tmp_path_factory.mktemp(procedure.name) / procedure.name
        verdict = procedure.check()
        assert verdict.word == "proved", verdict.reason
        write_certificate(folder, procedure, verdict)
        return folder

    return write


@pytest.fixture
def folder(written: Callable[[Procedure], Path], tmp_path: Path) -> Path:
    """A copy of the ring's."""
    return Path(shutil.copytree(written(ring), tmp_path / "ring"))


@pytest.fixture
def nested(written: Callable[[Procedure], Path], tmp_path: Path) -> Path:
    """A copy of the nest's."""
    return Path(shutil.copytree(written(nest), tmp_path / "nest"))


def seal(folder: Path) -> None:
    """Makes every digest fit."""
    path = folder / "certificate.json"
    content = json.loads(path.read_text())
    content["program"]["sha256"] = sha256((folder / "program.json").read_bytes())
    for one in content["obligations"]:
        if one["by"] == "solver" and (folder / one["file"]).is_file():
            one["sha256"] = sha256((folder / one["file"]).read_bytes())
    path.write_text(json_text(sealed(content)))


def change(folder: Path, file: str, alter: Callable[[Content], None]) -> None:
    """Alters the JSON of a file, and seals."""
    path = folder / file
    content = json.loads(path.read_text())
    alter(content)
    path.write_text(json_text(content))
    seal(folder)


def never(script: str) -> smt.Reply:
    raise AssertionError(f"a solver was asked: {script}")


def problems(folder: Path) -> str:
    """What is wrong, none of it found by a solver."""
    try:
        found = recheck(folder, [never])
    except ExoGpuError as error:
        return str(error)
    assert found.word == "rejected" and found.solvers == ()
    return "\n".join(f"{flaw.where}: {flaw.problem}" for flaw in found.flaws)


def find(block: list[Content], kind: str) -> Iterator[tuple[list[Content], int]]:
    """Where operations of a kind stand."""
    for at, op in enumerate(block):
        if op["op"] == kind:
            yield block, at
        yield from find(op.get("body", []), kind)


def first(program: Content, kind: str) -> Content:
    """The first operation of a kind."""
    block, at = next(find(program["body"], kind))
    return block[at]


# --- the program --------------------------------------------------------------------------------


def every(kind: str, **values: object) -> Callable[[Content], None]:
    """Sets fields of all operations of a kind."""

    def alter(program: Content) -> None:
        for block, at in find(program["body"], kind):
            block[at].update(values)

    return alter


def one(kind: str, **values: object) -> Callable[[Content], None]:
    """Sets fields of the first operation of a kind."""
    return lambda program: first(program, kind).update(values)


def _drop(kind: str) -> Callable[[Content], None]:
    def alter(program: Content) -> None:
        for block, at in reversed(list(find(program["body"], kind))):
            del block[at]

    return alter


def _reordered(program: Content) -> None:
    items = list(program.items())
    program.clear()
    program.update(reversed(items))


PROGRAM: dict[str, tuple[Callable[[Content], object], str]] = {
    "renamed checks": (every("CheckReads", op="CheckRead"), 'there is no operation "CheckRead"'),
    "an unknown operation": (one("Fence", op="Nop"), 'there is no operation "Nop"'),
    "an operation of no name": (one("Fence", op=7), "there is no operation 7"),
    "another operation's fields": (one("CheckReads", op="ClearReads"), 'a field "level"'),
    "an operation that is none": (
        lambda p: p["body"].append("Fence"),
        '"Fence" is no operation',
    ),
    "an empty body": (lambda p: p.update(body=[]), "there are no operations"),
    "loops around nothing": (
        lambda p: [_drop(k)(p) for k in OPERATIONS],
        "there are no operations",
    ),
    "a body that is no list": (lambda p: p.update(body={}), "{} is no list"),
    "no body": (lambda p: p.pop("body"), "the field body is missing"),
    "a further field": (lambda p: p.update(more=1), 'a field "more" is not known here'),
    "a further field of an operation": (one("Fence", safe=True), 'a field "safe" is not known'),
    "a missing field": (lambda p: first(p, "Await").pop("n"), "the field n is missing"),
    "fields in another order": (_reordered, "the fields stand in another order"),
    "another schema": (lambda p: p.update(schema=2), "schema: 2 is not known here"),
    "a schema that is a truth": (lambda p: p.update(schema=True), "schema: True is not known"),
    "an unknown policy": (lambda p: p.update(policy="lax"), 'policy: "lax" is no policy'),
    "another policy": (lambda p: p.update(policy="paper"), "another procedure or policy"),
    "another procedure": (lambda p: p.update(name="king"), "another procedure or policy"),
    "further preconditions": (
        lambda p: p["preconditions"].append("(K = (1))"),
        "its preconditions are not those of program.json",
    ),
    "a precondition that is none": (
        lambda p: p.update(preconditions=["K"]),
        "it is no formula",
    ),
    "an unknown kind of size": (lambda p: p["params"][0].update(kind="int"), '"int" is not known'),
    "two of one name": (lambda p: p["params"].append(p["params"][0]), "there are two K"),
    "a variable named as a size": (
        lambda p: p["variables"][0].update(name="K"),
        "there are two K",
    ),
    "an undeclared variable": (
        one("CheckMutates", access={"variable": "tale", "coords": []}),
        '"tale" is no variable',
    ),
    "another dimension": (
        one("CheckMutates", access={"variable": "x", "coords": ["(0)"]}),
        "another number of dimensions",
    ),
    "data that is arrived on": (
        one("Arrive", home={"variable": "x", "coords": ["(0)", "(0)"]}),
        '"x" is no barrier',
    ),
    "a home that is a window": (
        one("Arrive", home={"variable": "full", "coords": [["(0)", "(1)"]]}),
        "is no text",
    ),
    "an unknown mechanism": (
        lambda p: p["variables"][-1].update(mechanism="CudaFlag"),
        '"CudaFlag" is not known here',
    ),
    "another mechanism": (
        lambda p: p["variables"][-1].update(mechanism="CudaCommitGroup"),
        "mbarriers are in shared memory, other barriers are not",
    ),
    "no mechanism": (
        lambda p: [p["variables"][-1].pop(k) for k in ("mechanism", "guard", "depth")],
        "is no barrier",
    ),
    "an unknown guard": (lambda p: p["variables"][-1].update(guard="z"), '"z" is no variable'),
    "a depth of nothing": (lambda p: p["variables"][-1].update(depth=0), "no whole number"),
    "an Await of the other sign": (one("Await", n=0), "mbarriers wait for a numbered arrival"),
    "a number with a fraction": (one("Await", n=-1.5), "-1.5 is no whole number"),
    "an unknown level": (one("CheckReads", level="fully"), '"fully" is not known here'),
    "an unknown timeline": (one("CheckReads", timelines=["cuda3"]), '"cuda3" is not known here'),
    "a timeline twice": (one("CheckReads", timelines=["cpu", "cpu"]), "another order, or twice"),
    "timelines in another order": (
        one("CheckReads", timelines=["cuda1", "cpu"]),
        "another order, or twice",
    ),
    "full without temporal": (one("Await", temporal=[]), "it does not include `full`"),
    "a truth that is a number": (one("CheckReads", free=0), "0 is not known here"),
    "a bound of nobody": (one("Loop", hi="N"), '"N": N is no variable here'),
    "a bound that is no number": (one("Loop", hi="(K < (2))"), "it is no number"),
    "a bound in no notation": (one("Loop", hi="K + 1"), "it is no number"),
    "a division by nothing": (one("Loop", hi="floor((K) / 0)"), "0 is no divisor"),
    "an iterator named as a size": (one("Loop", iterator="K"), "the name of something else"),
    "an unknown mode": (one("Loop", mode="par"), '"par" is not known here'),
    "threads of nobody": (
        one("Arrive", threads="{ [q] -> [t] : t = q }"),
        "q is no iterator here",
    ),
    "threads that are no map": (one("Arrive", threads="all"), "no map from iterators to threads"),
    "another line": (one("Await", line=7), "an obligation of the program is missing"),
    "a text of two lines": (one("Await", text="a\nb"), "is no text on one line"),
    "a text for a terminal": (one("Await", text="\x1b[2Jconfirmed"), "is no text on one line"),
    "a file with a folder": (one("Await", file="/etc/ring.py"), "without its folder"),
    "a check more": (
        lambda p: (lambda block, at: block.insert(at, block[at]))(
            *next(find(p["body"], "CheckReads"))
        ),
        "an obligation of the program is missing: WAR",
    ),
    "dropped checks of reads": (_drop("CheckReads"), "has RecordMutate of y and no CheckReads"),
    "dropped checks of writes": (_drop("CheckMutates"), "has RecordRead of x and no CheckMutates"),
    "a dropped check of a barrier": (_drop("CheckBarrier"), "full has no CheckBarrier"),
    "a dropped release": (_drop("Release"), "tile is allocated and not released"),
    "an extent that is none": (
        lambda p: p["variables"][0].update(shape=["", "(32)"]),
        "it is no number",
    ),
    "an extent of nobody": (
        lambda p: p["variables"][0].update(shape=["N", "K"]),
        "no variable here",
    ),
    "a file without a name": (one("Await", file=""), '"" is no name of a file'),
    "deeper than any program": (
        lambda p: p.update(body=json.loads("[" * 300 + "]" * 300)),
        "more than 200 lists and objects within each other",
    ),
}
OPERATIONS = (
    *("Alloc", "Arrive", "Await", "CheckBarrier", "CheckMutates", "CheckReads", "ClearMutates"),
    *("ClearReads", "Fence", "IncTaskID", "RecordMutate", "RecordRead", "Release"),
)


@pytest.mark.parametrize("what", PROGRAM)
def test_a_program_of_another_shape(folder: Path, what: str) -> None:
    alter, says = PROGRAM[what]
    change(folder, "program.json", alter)  # type: ignore[arg-type]
    assert says in problems(folder)


TEXTS: dict[str, tuple[Callable[[str, str], str], str]] = {
    "a key that stands twice": (
        lambda text, field: text.replace(field, f"{field},\n {field}", 1),
        "stands twice in an object",
    ),
    "other white space": (lambda text, field: text.replace(": ", ":  ", 1), "line 2 is not"),
    "no line break at the end": (lambda text, field: text.rstrip(), "is not written as"),
    "an escape": (lambda text, field: text.replace('"ring"', r'"\u0072ing"', 1), "is not written"),
    "a byte order mark": (lambda text, field: f"\ufeff{text}", "it is no JSON"),
    "something behind it": (lambda text, field: f"{text}{{}}", "it is no JSON"),
    "NaN": (lambda text, field: text.replace(field, f"{field[:-1]}NaN", 1), "NaN is no whole"),
    "a float": (lambda text, field: text.replace(field, f"{field}.0", 1), ".0 is no whole number"),
    "an exponent": (lambda text, field: text.replace(field, f"{field}e0", 1), "e0 is no whole"),
    "a huge number": (lambda text, field: text.replace(field, field + "1" * 5000, 1), "no JSON"),
    "half a character": (
        lambda text, field: text.replace('"ring"', r'"\ud800"', 1),
        "is no ",
    ),
    "half of it": (lambda text, field: text[: len(text) // 2], "it is no JSON"),
    "nothing": (lambda text, field: "", "it is no JSON"),
    "depth": (lambda text, field: "[" * 100_000, "lists and objects within each other"),
}


@pytest.mark.parametrize(
    ("file", "field"), [("program.json", '"schema": 1'), ("certificate.json", '"version": 2')]
)
@pytest.mark.parametrize("what", TEXTS)
def test_another_text(folder: Path, file: str, field: str, what: str) -> None:
    alter, says = TEXTS[what]
    path = folder / file
    text = path.read_text()
    assert field in text
    path.write_text(alter(text, field))
    if file == "program.json":
        seal(folder)
        assert says in problems(folder)
    else:
        found = problems(folder)
        assert says in found or "certificate.json: its digest differs" in found


# --- the certificate ----------------------------------------------------------------------------


def of(content: Content, name: str) -> Content:
    """The obligation of that name."""
    (found,) = (one for one in content["obligations"] if one["name"] == name)
    return found  # type: ignore[no-any-return]


RAW = "raw-tile-19-24"

MANIFEST: dict[str, tuple[Callable[[Content], object], str]] = {
    "another program file": (
        lambda c: c["program"].update(file="other.json"),
        '"other.json" is not known here',
    ),
    "a program file elsewhere": (
        lambda c: c["program"].update(file="../program.json"),
        '"../program.json" is not known here',
    ),
    "a script elsewhere": (
        lambda c: of(c, RAW).update(file="../raw.smt2"),
        f'"../raw.smt2" is not the file of {RAW}',
    ),
    "a name that climbs": (
        lambda c: of(c, RAW).update(name="../raw", file="obligations/../raw.smt2"),
        "no name of an obligation",
    ),
    "an absolute name": (
        lambda c: of(c, RAW).update(name="/raw", file="obligations//raw.smt2"),
        "no name of an obligation",
    ),
    "an unknown policy": (lambda c: c.update(policy="lax"), '"lax" is no policy'),
    "another policy": (lambda c: c.update(policy="paper"), "another procedure or policy"),
    "another procedure": (lambda c: c.update(procedure="king"), "another procedure or policy"),
    "other preconditions": (
        lambda c: c.update(preconditions=["(K = (1))"]),
        "its preconditions are not those of program.json",
    ),
    "an assumption less": (
        lambda c: c["assumptions"].pop(0),
        "it does not begin with sizes satisfy",
    ),
    "nothing trusted": (lambda c: c.update(trusted=[]), "trusted: [] is not known here"),
    "a further field": (lambda c: c.update(note="safe"), 'a field "note" is not known here'),
    "a missing field": (lambda c: c.pop("source"), "the field source is missing"),
    "fields in another order": (_reordered, "the fields stand in another order"),
    "a version that is a truth": (lambda c: c.update(version=True), "it has version true"),
    "a line that is a truth": (
        lambda c: of(c, RAW)["first"].update(line=True),
        "True is no whole number",
    ),
    "an unknown kind": (lambda c: of(c, RAW).update(kind="RACE"), '"RACE" is not known here'),
    "no kind": (lambda c: of(c, RAW).update(kind=None), "None is not known here"),
    "another kind": (lambda c: of(c, RAW).update(kind="WAW"), "no obligation of the program: WAW"),
    "another answer": (lambda c: of(c, RAW).update(answer="sat"), '"sat" is not known here'),
    "another way": (lambda c: of(c, RAW).update(by="belief"), '"belief" is not known here'),
    "another statement": (
        lambda c: of(c, RAW)["first"].update(line=20),
        "an obligation of the program is missing: RAW at line 19",
    ),
    "another variable": (
        lambda c: of(c, RAW).update(variable="tale"),
        "the program has no variable tale",
    ),
    "a claim's beginning": (
        lambda c: of(c, RAW).update(claim="No RAW on tile"),
        "its script states another claim",
    ),
    "no claim": (lambda c: of(c, RAW).update(claim=""), '"" is no sentence'),
    "a claim in other words": (
        lambda c: of(c, RAW).update(claim="Nothing is wrong."),
        "its script states another claim",
    ),
    "a claim run together": (
        lambda c: of(c, RAW).update(claim=of(c, RAW)["claim"].replace(" ", "")),
        "its script states another claim",
    ),
    "a chain of other statements": (
        lambda c: of(c, RAW)["chains"][0][0].update(text="Fence()"),
        "the program has no statement at",
    ),
    "an unknown role": (
        lambda c: of(c, RAW)["chains"][0][0].update(role="hope"),
        '"hope" is not known here',
    ),
    "an obligation twice": (
        lambda c: c["obligations"].append(dict(of(c, RAW))),
        f"is called {RAW}-2",
    ),
    "no obligations": (lambda c: c["obligations"].clear(), "obligation of the program is missing"),
    "a digest that is none": (lambda c: of(c, RAW).update(sha256="abc"), "is no SHA-256"),
}


@pytest.mark.parametrize("what", MANIFEST)
def test_a_certificate_of_another_shape(folder: Path, what: str) -> None:
    alter, says = MANIFEST[what]
    path = folder / "certificate.json"
    content = json.loads(path.read_text())
    alter(content)
    path.write_text(json_text(sealed(content)))  # of scripts the digests fit already
    if what not in ("a missing field", "fields in another order"):
        assert content != json.loads((folder / "program.json").read_text())
    assert says in problems(folder)


def test_an_obligation_by_another_name(folder: Path) -> None:
    def rename(content: Content) -> None:
        of(content, RAW).update(file="obligations/raw-1.smt2", name="raw-1")

    (folder / f"obligations/{RAW}.smt2").rename(folder / "obligations/raw-1.smt2")
    change(folder, "certificate.json", rename)
    assert problems(folder) == f"raw-1: an obligation of this kind and place is called {RAW}"


# --- nests --------------------------------------------------------------------------------------


def names(folder: Path, kind: str) -> list[str]:
    content = json.loads((folder / "certificate.json").read_text())
    return [one["name"] for one in content["obligations"] if one["kind"] == kind]


def without(folder: Path, name: str) -> None:
    """Deletes an obligation and its script."""
    (folder / f"obligations/{name}.smt2").unlink()
    change(
        folder,
        "certificate.json",
        lambda c: c.update(obligations=[one for one in c["obligations"] if one["name"] != name]),
    )


def test_a_nest_is_confirmed(nested: Path) -> None:
    assert len(names(nested, "TOTAL")) == 2 and len(names(nested, "INNER")) == 4
    assert recheck(nested, [smt.ask_z3]).word == "confirmed"


@pytest.mark.parametrize("number", range(4))
def test_a_count_is_missed_beside_its_total(nested: Path, number: int) -> None:
    without(nested, names(nested, "INNER")[number])
    assert "an obligation of the program is missing: COUNT at line" in problems(nested)


@pytest.mark.parametrize("number", range(2))
def test_a_total_is_missed_beside_its_counts(nested: Path, number: int) -> None:
    without(nested, names(nested, "TOTAL")[number])
    assert "certificate.json: an obligation is missing: TOTAL at line" in problems(nested)


@pytest.mark.parametrize(("before", "after"), [("TOTAL", "INNER"), ("INNER", "TOTAL")])
def test_the_lemmas_of_a_nest_are_told_apart(nested: Path, before: str, after: str) -> None:
    name = names(nested, before)[0]
    renamed(nested, name, after)
    assert "certificate.json: " in problems(nested)


def test_a_count_of_a_nest_is_no_other(nested: Path) -> None:
    renamed(nested, names(nested, "INNER")[1], "COUNT")
    assert "only some counts of the barrier of line" in problems(nested)


def test_no_total_without_a_nest(folder: Path) -> None:
    renamed(folder, names(folder, "COUNT")[0], "TOTAL")
    assert "no obligation of the program: TOTAL" in problems(folder)


def renamed(folder: Path, name: str, kind: str) -> None:
    """Gives an obligation another kind, and all obligations the names that this makes."""

    def alter(content: Content) -> None:
        of(content, name)["kind"] = kind
        taken: set[str] = set()
        for one in content["obligations"]:
            lines = [one[side]["line"] for side in ("first", "second") if one[side]]
            new = obligation_name(one["kind"], one["variable"], lines, taken)
            if one["by"] == "solver" and new != one["name"]:
                (folder / one["file"]).rename(folder / f"obligations/{new}.smt2")
                one["file"] = f"obligations/{new}.smt2"
            one["name"] = new

    change(folder, "certificate.json", alter)


# --- scripts ------------------------------------------------------------------------------------

END = r"\(check-sat\)\n\Z"

SCRIPTS: dict[str, tuple[str, str, str]] = {
    "a file written": (
        END,
        '(set-option :regular-output-channel "/tmp/x")(echo "unsat")(check-sat)\n',
        "is no part of such a script",
    ),
    "an end before the question": (END, "(exit)\n(check-sat)\n", "no command of such a script"),
    "a reset": (END, "(reset)\n(assert false)\n(check-sat)\n", "no command of such a script"),
    "two questions": (END, "(check-sat)\n(assert false)\n(check-sat)\n", "after check-sat"),
    "an assertion behind": (END, "(check-sat)\n(assert false)\n", "after check-sat"),
    "no question": (END, "", "it has no check-sat"),
    "a NUL": (END, "\0(check-sat)\n", r"the character '\\x00'"),
    "a carriage return": (END, "; \r(assert false)\n(check-sat)\n", r"the character '\\r'"),
    "an open quotation": (END, "; |\n(assert |false|)\n(check-sat)\n", "is no part of such"),
    "another letter": (END, "; é\n(check-sat)\n", "is not ASCII"),
    "another logic": (r"QF_LIA", "ALL", "states another claim"),
    "an operator redefined": (
        END,
        "(define-fun and () Bool false)\n(check-sat)\n",
        "and can be no name",
    ),
    "a constant redefined": (END, "(define-fun K () Int 0)\n(check-sat)\n", "declared twice"),
    "an unknown operator": (END, "(assert (huh))\n(check-sat)\n", "huh is no operator"),
    "deep brackets": (
        END,
        f"(assert {'(not ' * 100_000}true{')' * 100_000})\n(check-sat)\n",
        "more than 500 brackets within each other",
    ),
    "a huge script": (END, f"{'; ' * (1 << 19)}\n(check-sat)\n", "more than 1048576 bytes"),
    "another claim": (r"\A; No RAW", "; No WAR", "states another claim"),
    "a longer claim": (r"\A", "; For most sizes:\n", "states another claim"),
    "no claim": (r"\A(;.*\n)+", "", "states another claim"),
}


@pytest.mark.parametrize("what", SCRIPTS)
def test_a_script_that_does_more_than_ask(folder: Path, what: str) -> None:
    pattern, new, says = SCRIPTS[what]
    path = folder / f"obligations/{RAW}.smt2"
    text = path.read_text()
    altered = re.sub(pattern, lambda _: new, text, count=1)
    assert altered != text
    path.write_bytes(altered.encode())
    seal(folder)
    assert says.replace("\\\\", "\\") in problems(folder)


# --- files --------------------------------------------------------------------------------------


def _link(path: Path) -> None:
    path.rename(path.with_name("elsewhere"))
    path.symlink_to("elsewhere")


def _fifo(path: Path) -> None:
    path.unlink()
    os.mkfifo(path)


def _huge(path: Path) -> None:
    with path.open("ab") as file:
        file.truncate(20 << 20)


def _folder(path: Path) -> None:
    path.unlink()
    path.mkdir()


FILES: dict[str, tuple[Callable[[Path], object], str]] = {
    "a symbolic link": (_link, "it is a symbolic link"),
    "a FIFO": (_fifo, "it is no file"),
    "a device": (lambda p: (p.unlink(), p.symlink_to("/dev/zero")), "it is a symbolic link"),
    "a huge file": (_huge, "it has more than"),
    "a folder": (_folder, ""),
    "nothing": (Path.unlink, "it is missing"),
    "no UTF-8": (lambda p: p.write_bytes(p.read_bytes() + b"\xff"), "it is no"),
}


@pytest.mark.parametrize("file", ["certificate.json", "program.json", f"obligations/{RAW}.smt2"])
@pytest.mark.parametrize("what", FILES)
def test_a_file_that_is_none(folder: Path, file: str, what: str) -> None:
    alter, says = FILES[what]
    alter(folder / file)
    found = problems(folder)
    assert says in found or "is not ASCII" in found


def test_the_folder_of_scripts_is_no_link(folder: Path) -> None:
    (folder / "obligations").rename(folder / "mine")
    (folder / "obligations").symlink_to("mine")
    assert "obligations: it is a symbolic link" in problems(folder)


@pytest.mark.parametrize("name", ["more.smt2", ".hidden", "raw-tile-19-24.smt2~", "\n"])
def test_a_further_script(folder: Path, name: str) -> None:
    (folder / "obligations" / name).write_text("(check-sat)")
    assert "the file is not in certificate.json" in problems(folder)


def test_other_files_are_named_and_not_read(folder: Path) -> None:
    (folder / "report.html").write_text("all is well")
    os.mkfifo(folder / "pipe")
    found = recheck(folder, [lambda script: smt.Reply("mine", "unsat", 0.0)])
    assert (found.word, found.others) == ("confirmed", ("pipe", "report.html"))


def test_the_schema_is_that_of_the_export() -> None:
    assert export.SCHEMA == SCHEMA
