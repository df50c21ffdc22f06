"""Every kind of alteration of a certificate, sealed anew, is named where it is rejected.

Each stands in a table: what is altered, and what is said of it.  `nest` has the lemmas on an
iteration's total; `ring` all other kinds of obligations.
"""

from __future__ import annotations

import json
import os
import shutil
from collections.abc import Callable
from functools import cache
from pathlib import Path
from time import monotonic

import pytest

from exogpu import Procedure
from exogpu.amir import export
from exogpu.solvers import smt
from exogpu.symbolic.certificate.program_reader import threads
from exogpu.symbolic.certificate.program_schema import SCHEMA
from exogpu.symbolic.certificate.recheck import recheck
from exogpu.symbolic.certificate.strict_json import MalformedError, json_text, sealed
from exogpu.symbolic.certificate.write import write_certificate
from tests.cases.certificates.nest import nest
from tests.cases.certificates.ring import ring
from tests.forging import Content, change, find, first, names, of, problems, seal


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
    "another schema": (lambda p: p.update(schema=5), "schema: 5 is not known here"),
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
        lambda p: p["variables"][-1].update(mechanism="CudaFlags"),
        '"CudaFlags" is not known here',
    ),
    "another mechanism": (
        lambda p: p["variables"][-1].update(mechanism="CudaCommitGroup"),
        "what has phases is in shared memory, other barriers are not",
    ),
    "no mechanism": (
        lambda p: [p["variables"][-1].pop(k) for k in ("mechanism", "guard", "depth")],
        "is no barrier",
    ),
    "an unknown guard": (lambda p: p["variables"][-1].update(guard="z"), '"z" is no variable'),
    "a depth of nothing": (lambda p: p["variables"][-1].update(depth=0), "no whole number"),
    "an Await of the other sign": (
        one("Await", n=0),
        "what has phases waits for a numbered arrival, and no other does",
    ),
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
        one("Arrive", threads="{ [q] -> [t] : exists j0 : t = 1 * (q + j0) and 0 <= j0 < 1 }"),
        "q is no variable here",
    ),
    "threads that are no map": (one("Arrive", threads="all"), "no map from iterators to threads"),
    "another line": (one("Await", line=7), "and neither Arrive nor Await"),
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
    "a parameter in shared memory": (
        lambda p: next(v for v in p["variables"] if v["name"] == "y").update(shared=True),
        "y is allocated nowhere",
    ),
    "a parameter of a task": (
        lambda p: next(v for v in p["variables"] if v["name"] == "y").update(task_local=True),
        "y is of a task if it is allocated in one",
    ),
    "memory of all tasks, allocated in one": (
        lambda p: next(v for v in p["variables"] if v["name"] == "tile").update(task_local=False),
        "tile is of a task if it is allocated in one",
    ),
    "an extent that is none": (
        lambda p: p["variables"][0].update(shape=["", "(32)"]),
        "it is no number",
    ),
    "an extent that changes": (
        lambda p: next(v for v in p["variables"] if v["name"] == "x").update(shape=["k", "(32)"]),
        "the extents of x change with an iterator",
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
    *("ClearReads", "Fence", "IncTaskID", "RecordMutate", "RecordRead", "Release", "Require"),
    *("Initialise", "CheckInitialised"),
)


@pytest.mark.parametrize("what", PROGRAM)
def test_a_program_of_another_shape(folder: Path, what: str) -> None:
    alter, says = PROGRAM[what]
    change(folder, "program.json", alter)  # type: ignore[arg-type]
    assert says in problems(folder)


def test_a_long_map_of_threads_is_soon_refused() -> None:
    start, bounds = monotonic(), " and 0 <= j0 < 1" * 30_000
    with pytest.raises(MalformedError, match="it is no map from iterators to threads"):
        threads(f"{{ [] -> [t] : exists j0 : t = {bounds} and }}", lambda name: None)
    assert monotonic() - start < 10


TEXTS: dict[str, tuple[Callable[[str, str], str], str]] = {
    "a key that stands twice": (
        lambda text, field: text.replace(field, f"{field},\n {field}", 1),
        "stands twice in an object",
    ),
    "other white space": (lambda text, field: text.replace(": ", ":  ", 1), "line 2 is not"),
    "no line break at the end": (lambda text, field: text.rstrip(), "is not written as"),
    "an escape": (
        lambda text, field: text.replace('"ring"', r'"\u0072ing"', 1).replace(
            '"full"', r'"\u0066ull"'
        ),
        "is not written",
    ),
    "a byte order mark": (lambda text, field: f"\ufeff{text}", "it is no JSON"),
    "something behind it": (lambda text, field: f"{text}{{}}", "it is no JSON"),
    "NaN": (lambda text, field: text.replace(field, f"{field[:-1]}NaN", 1), "NaN is no whole"),
    "a float": (lambda text, field: text.replace(field, f"{field}.0", 1), ".0 is no whole number"),
    "an exponent": (lambda text, field: text.replace(field, f"{field}e0", 1), "e0 is no whole"),
    "a huge number": (lambda text, field: text.replace(field, field + "1" * 5000, 1), "no JSON"),
    "half a character": (
        lambda text, field: text.replace('"ring"', r'"\ud800"', 1).replace('"full"', r'"\ud800"'),
        "is no ",
    ),
    "half of it": (lambda text, field: text[: len(text) // 2], "it is no JSON"),
    "nothing": (lambda text, field: "", "it is no JSON"),
    "depth": (lambda text, field: "[" * 100_000, "lists and objects within each other"),
}


@pytest.mark.parametrize(
    ("file", "field"),
    [
        ("program.json", '"schema": 4'),
        ("witness.json", '"schema": 2'),
        ("certificate.json", '"version": 6'),
    ],
)
@pytest.mark.parametrize("what", TEXTS)
def test_another_text(folder: Path, file: str, field: str, what: str) -> None:
    alter, says = TEXTS[what]
    path = folder / file
    text = path.read_text()
    assert field in text
    path.write_text(alter(text, field))
    if file != "certificate.json":
        seal(folder)
        assert says in problems(folder)
    else:
        found = problems(folder)
        assert says in found or "certificate.json: its digest differs" in found


# --- the certificate ----------------------------------------------------------------------------


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
    "a witness elsewhere": (
        lambda c: c["witness"].update(file="../witness.json"),
        '"../witness.json" is not known here',
    ),
    "no witness": (lambda c: c.pop("witness"), "the field witness is missing"),
    "a name that climbs": (lambda c: of(c, RAW).update(name="../raw"), "no name of an obligation"),
    "an absolute name": (lambda c: of(c, RAW).update(name="/raw"), "no name of an obligation"),
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
    "a claim's beginning": (
        lambda c: of(c, RAW).update(claim="No RAW on tile"),
        f"{RAW}: its claim is another: No RAW on tile: the write at line 19",
    ),
    "no claim": (lambda c: of(c, RAW).update(claim=""), '"" is no sentence'),
    "a claim in other words": (
        lambda c: of(c, RAW).update(claim="Nothing is wrong."),
        f"{RAW}: its claim is another",
    ),
    "a claim run together": (
        lambda c: of(c, RAW).update(claim=of(c, RAW)["claim"].replace(" ", "")),
        f"{RAW}: its claim is another",
    ),
    "another name": (
        lambda c: of(c, RAW).update(name="raw-1"),
        f"an obligation of the program is missing: {RAW}",
    ),
    "another order": (
        lambda c: c["obligations"].reverse(),
        "its obligations stand in another order, or twice",
    ),
    "by the rules alone": (
        lambda c: [of(c, RAW).update(by="rules"), *map(of(c, RAW).pop, ("solver", "answer"))],
        "does not follow from the rules alone: RAW at line 19",
    ),
    "a script of its own": (
        lambda c: of(c, RAW).update(smt="(check-sat)"),
        'a field "smt" is not known here',
    ),
    "an obligation twice": (
        lambda c: c["obligations"].append(dict(of(c, RAW))),
        "no obligation of the program: RAW at line 19",
    ),
    "no obligations": (lambda c: c["obligations"].clear(), "obligation of the program is missing"),
    "a digest that is none": (lambda c: c["witness"].update(sha256="abc"), "is no SHA-256"),
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


# --- nests --------------------------------------------------------------------------------------


def without(folder: Path, name: str) -> None:
    """Deletes an obligation."""
    change(folder, "certificate.json", lambda c: c["obligations"].remove(of(c, name)))


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
    assert "an obligation of the program is missing: total-" in problems(nested)


@pytest.mark.parametrize(("before", "after"), [("TOTAL", "INNER"), ("INNER", "TOTAL")])
def test_the_lemmas_of_a_nest_are_told_apart(nested: Path, before: str, after: str) -> None:
    renamed(nested, names(nested, before)[0], after)
    assert "certificate.json: " in problems(nested)


def test_a_count_of_a_nest_is_no_other(nested: Path) -> None:
    name = names(nested, "INNER")[1]
    renamed(nested, name, "COUNT")
    assert f"{name}: its kind is another: INNER" in problems(nested)


def test_no_total_without_a_nest(folder: Path) -> None:
    renamed(folder, names(folder, "COUNT")[0], "TOTAL")
    assert "an obligation of the program is missing: COUNT" in problems(folder)


def renamed(folder: Path, name: str, kind: str) -> None:
    """Gives an obligation another kind."""
    change(folder, "certificate.json", lambda c: of(c, name).update(kind=kind))


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


@pytest.mark.parametrize("file", ["certificate.json", "program.json", "witness.json"])
@pytest.mark.parametrize("what", FILES)
def test_a_file_that_is_none(folder: Path, file: str, what: str) -> None:
    alter, says = FILES[what]
    alter(folder / file)
    assert says in problems(folder)


def test_other_files_are_named_and_not_read(folder: Path) -> None:
    (folder / "report.html").write_text("all is well")
    os.mkfifo(folder / "pipe")
    found = recheck(folder, [lambda script: smt.Reply("mine", "unsat", 0.0)])
    assert (found.word, found.others) == ("confirmed", ("pipe", "report.html"))


def test_the_schema_is_that_of_the_export() -> None:
    assert export.SCHEMA == SCHEMA
