"""Programs and witnesses altered in what they mean, with digests that fit and obligations listed as
the altered files make them: none is confirmed.

A wrong witness can only fail, in a solver or before one is asked.  A program that obliges to less,
or to something else, is told from that of the kernel by its source.
"""

from __future__ import annotations

import os
import shutil
import subprocess
import sys
from collections.abc import Callable
from functools import cache
from pathlib import Path

import pytest

from exogpu import Procedure
from exogpu.cli.rebuild_program import Sources
from exogpu.solvers import smt
from exogpu.symbolic.certificate.recheck import recheck
from exogpu.symbolic.certificate.strict_json import MalformedError
from exogpu.symbolic.certificate.write import write_certificate
from exogpu.symbolic.encode.witness import WitnessError
from exogpu.symbolic.sites import UndecidedError
from tests.cases.certificates.nest import nest
from tests.cases.certificates.ring import ring
from tests.forging import (
    PROGRAM,
    WITNESS,
    Alter,
    Content,
    change,
    find,
    first,
    flaws,
    forge,
    ops,
    rejected,
    seal,
)

ROOT = Path(__file__).parent.parent
SOURCE = str(ROOT / "tests/cases/certificates/ring.py")
Z3 = (smt.ask_z3,)


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


def forged(folder: Path, file: str, alter: Alter) -> None:
    """Alters a file, and lists the obligations that this makes, if it makes any."""
    change(folder, file, alter)
    try:
        forge(folder)
    except (MalformedError, WitnessError, UndecidedError):
        seal(folder)


# --- programs -----------------------------------------------------------------------------------


def every(kind: str, **values: object) -> Alter:
    """Sets fields of all operations of a kind."""
    return lambda program: [op.update(values) for op in ops(program, kind)]


def at_line(place: int, **values: object) -> Alter:
    """Sets fields of all operations of a line that have them."""

    def alter(program: Content) -> None:
        for kind in KINDS:
            for op in ops(program, kind):
                if op["line"] == place:
                    op.update({name: value for name, value in values.items() if name in op})

    return alter


def without(drops: Callable[[Content], bool]) -> Alter:
    """Drops operations."""

    def alter(program: Content) -> None:
        for kind in KINDS:
            for block, at in reversed(list(find(program["body"], kind))):
                if drops(block[at]):
                    del block[at]

    return alter


KINDS = (
    *("IncTaskID", "Alloc", "Release", "CheckBarrier", "RecordRead", "RecordMutate", "CheckReads"),
    *("CheckMutates", "ClearReads", "ClearMutates", "Fence", "Arrive", "Await"),
)


def on(op: Content, variable: str) -> bool:
    """Whether an operation accesses a variable."""
    return bool(op.get("access", {}).get("variable") == variable)


def variable(program: Content, name: str) -> Content:
    (found,) = (one for one in program["variables"] if one["name"] == name)
    return found  # type: ignore[no-any-return]


def _consumer(program: Content) -> list[Content]:
    """The block of the Await on `full`."""
    for block, at in find(program["body"], "Await"):
        if block[at]["barrier"]["variable"] == "full":
            return block
    raise AssertionError


def _read_before_the_await(program: Content) -> None:
    block = _consumer(program)
    at = next(i for i, op in enumerate(block) if op["op"] == "Await" and op["n"] == -1)
    block[at], block[at + 1] = block[at + 1], block[at]


def _allocated_in_the_loop(program: Content) -> None:
    for kind, place in (("Alloc", 0), ("Release", None)):
        for block, at in find(program["body"], kind):
            if block[at].get("variable") == "tile":
                op = block.pop(at)
                inner = _consumer(program)
                inner.insert(len(inner) if place is None else place, op)
                break


def _awaits(program: Content, name: str) -> Content:
    (found,) = (op for op in ops(program, "Await") if op["barrier"]["variable"] == name)
    return found


def _window(program: Content) -> None:
    for kind in ("RecordRead", "CheckMutates"):
        for op in ops(program, kind):
            if on(op, "tile") and op["line"] == 24:
                op["access"]["coords"][0] = "(((k + (1))) mod 2)"


def _narrow(program: Content) -> None:
    for op in ops(program, "RecordMutate"):
        if on(op, "tile"):
            op["access"]["coords"][1] = "(0)"


EASIER: dict[str, Alter] = {
    "a dropped statement": without(lambda op: op["line"] == 24),
    "a dropped access of the source": without(lambda op: on(op, "x")),
    "a dropped access of the target": without(lambda op: on(op, "y")),
    "dropped checks of a free": without(lambda op: bool(op.get("free"))),
    "a dropped clear": without(lambda op: op["op"] == "ClearReads"),
    "one thread for a warp": lambda p: [
        op.update(threads="{ [] -> [t] : exists j0 : t = 1 * ((0) + j0) and 0 <= j0 < 1 }")
        for kind in KINDS
        for op in ops(p, kind)
    ],
    "all at CPU scope": lambda p: [
        op.update(threads=None) for kind in KINDS for op in ops(p, kind)
    ],
    "a lower level of checks": lambda p: [
        op.update(level="invisible")
        for kind in ("CheckReads", "CheckMutates")
        for op in ops(p, kind)
    ],
    "a level of records": every("RecordRead", level="invisible"),
    "atomic accesses": lambda p: [
        *every("RecordMutate", atomic=["cuda1"])(p),  # type: ignore[misc]
        *every("CheckMutates", level="atomic_only", timelines=["cuda1"])(p),  # type: ignore[misc]
    ],
    "convergent checks": lambda p: [
        op.update(convergent=True) for kind in ("CheckReads", "CheckMutates") for op in ops(p, kind)
    ],
    "one record for all threads": every("RecordMutate", convergent=True),
    "another timeline of a write": every("RecordMutate", timeline="tmaS"),
    "reads for writes": every("CheckMutates", reads=False),
    "a window of one element": _narrow,
    "another slot": _window,
    "a smaller extent": lambda p: variable(p, "tile").update(shape=["(2)", "(1)"]),
    "a shorter loop": lambda p: [
        op.update(hi="(1)") for op in ops(p, "Loop") if op["iterator"] == "k"
    ],
    "a loop that starts later": lambda p: [
        op.update(lo="(1)") for op in ops(p, "Loop") if op["iterator"] == "k"
    ],
    "a stronger precondition": lambda p: p["preconditions"].append("(K = (1))"),
    "a precondition of nothing": lambda p: p["preconditions"].append("(0 = 1)"),
    "another kind of size": lambda p: p["params"][0].update(kind="index"),
    "another name": lambda p: p.update(name="king"),
    "a fence of every timeline": lambda p: first(p, "Fence").update(
        temporal=(everything := ["cpu", "strm", "cuda1", "cuda2", "Sm80", "tmaS", "tmaG", "wgA"]),
        full=everything,
        pre=everything,
    ),
    "an Await that shows more": lambda p: _awaits(p, "full").update(
        full=[*_awaits(p, "full")["temporal"]]
    ),
    "an Arrive that is transitive": every("Arrive", transitive=False),
    "a deeper ring": lambda p: variable(p, "full").update(depth=4),
    "a ring without a depth": lambda p: variable(p, "full").update(depth=None),
    "no guard": lambda p: variable(p, "empty").update(guard=None),
    "tasks that are a loop": lambda p: [
        *(op.update(mode="seq") for op in ops(p, "Loop") if op["mode"] == "tasks"),
        *(one.update(task_local=False) for one in p["variables"]),
    ],
    "another skip count": lambda p: _awaits(p, "empty").update(n=-2),
    "a later line": at_line(24, line=25),
    "another text": at_line(24, text="y[k, t] = 0.0"),
    "another column": at_line(24, column=7),
    "another file": at_line(24, file="rind.py"),
}
"""Programs that oblige to less or to something else, some of which hold what they oblige to."""


@pytest.mark.parametrize("what", EASIER)
def test_an_easier_program_is_not_that_of_the_source(folder: Path, what: str) -> None:
    forged(folder, PROGRAM, EASIER[what])
    found = recheck(folder, Z3, compare=Sources([SOURCE]).compare)
    by_source = "program.json: " in flaws(found) and "program.json: body: " not in flaws(found)
    assert found.word == "rejected" and found.compared is by_source
    assert found.solvers == ()
    if found.compared and what != "another name":
        assert "it is not what its source gives" in flaws(found)


def test_the_policy_is_said(folder: Path) -> None:
    """Another policy is another statement about the same source."""
    forged(folder, PROGRAM, lambda p: p.update(policy="paper"))
    found = recheck(folder, Z3, compare=Sources([SOURCE]).compare)
    assert (found.word, found.policy, found.compared) == ("confirmed", "paper", True)


def test_an_easier_program_alone_is_confirmed(folder: Path) -> None:
    """What a checker cannot tell without the source."""
    forged(folder, PROGRAM, EASIER["a stronger precondition"])
    found = recheck(folder, Z3)
    assert found.word == "confirmed" and not found.compared


def test_a_program_that_no_sizes_admit_is_rejected(folder: Path) -> None:
    """All of its obligations hold."""
    forged(folder, PROGRAM, EASIER["a precondition of nothing"])
    assert rejected(folder, Z3) == "witness.json: its sizes do not satisfy the preconditions"


UNSAFE: dict[str, Alter] = {
    "a read before the Await": _read_before_the_await,
    "an Arrive before the write": lambda p: (lambda block, at: block.insert(1, block.pop(at)))(
        *next(find(p["body"], "Arrive"))
    ),
    "an Arrive of no timeline": every("Arrive", pre=[]),
    "an Await of no timeline": lambda p: _awaits(p, "full").update(full=[], temporal=[]),
    "a fence of no timeline": every("Fence", pre=[]),
    "half of the threads of an Await": lambda p: _awaits(p, "full").update(
        threads="{ [] -> [t] : exists j0 : t = 1 * ((32) + j0) and 0 <= j0 < 16 }"
    ),
    "another warp's Arrive": lambda p: ops(p, "Arrive")[0].update(
        threads=ops(p, "Arrive")[1]["threads"]
    ),
    "an Await that skips more": lambda p: _awaits(p, "empty").update(n=-4),
    "an Await that skips one": lambda p: _awaits(p, "full").update(n=-2),
    "a slot of another iteration": _window,
    "a ring of one slot": lambda p: [
        op["access"]["coords"].__setitem__(0, "(0)")
        for kind in ("RecordRead", "RecordMutate", "CheckReads", "CheckMutates")
        for op in ops(p, kind)
        if on(op, "tile") and not op.get("free")
    ],
    "a shallower ring": lambda p: variable(p, "full").update(depth=1),
    "a guarded Arrive": lambda p: (lambda block, at: block.__setitem__(at, guarded(block[at])))(
        *next(find(p["body"], "Arrive"))
    ),
    "a check of another timeline": every("CheckMutates", timelines=["tmaG"]),
    "an allocation of each iteration": _allocated_in_the_loop,
}
"""Programs that are wrong."""


def guarded(op: Content) -> Content:
    """The operation, in all iterations but the first."""
    rest = {name: op[name] for name in ("file", "line", "column", "text", "threads")}
    return {"op": "Guard", "condition": "(k > (0))", "body": [op], **rest}


@pytest.mark.parametrize("what", UNSAFE)
def test_an_unsafe_program_has_no_certificate(folder: Path, what: str) -> None:
    forged(folder, PROGRAM, UNSAFE[what])
    assert rejected(folder, Z3)


# --- witnesses ----------------------------------------------------------------------------------


def entry(witness: Content, group: str, at: int = 0, **keys: object) -> Content:
    """An entry of a witness, by what it is about."""
    found = [
        one for one in witness[group] if all(one.get(name) == value for name, value in keys.items())
    ]
    return found[at]  # type: ignore[no-any-return]


def chained(witness: Content, role: str) -> Content:
    """The first chain from an Arrive to an Await, or such a part of it."""
    for one in witness["chains"]:
        for by in one["by"]:
            granted = by.get("granted")
            if granted is not None and granted["ways"][0]["via"] != granted["by"]:
                parts = {
                    "entry": one,
                    "chain": by,
                    "granted": granted,
                    "await": granted["by"],
                    "way": granted["ways"][0],
                    "arrive": granted["ways"][0]["via"],
                }
                return parts[role]
    raise AssertionError


def moved(part: Content, by: int) -> None:
    """The instance, so many iterations later."""
    sign = "+" if by > 0 else "-"
    part["at"][-1] = f"({part['at'][-1]} {sign} ({abs(by)}))"


def added(text: str, by: int) -> str:
    return f"({text} {'+' if by > 0 else '-'} ({abs(by)}))"


def partner(aim: str, by: int, at: int = 0) -> Alter:
    """A partner so many iterations later."""
    return lambda w: moved(entry(w, "partners", at, aim=aim)["by"][-1], by)


def lost(group: str, **keys: object) -> Alter:
    return lambda w: w[group].remove(entry(w, group, **keys))


def counted(arrivals: bool, by: int) -> Alter:
    def alter(witness: Content) -> None:
        (piece,) = entry(witness, "counts", arrivals=arrivals)["pieces"]
        piece["count"] = added(piece["count"], by)

    return alter


def phase(order: str, by: int) -> Alter:
    return lambda w: moved(entry(w, "phase", order=order)["by"][0]["of"], by)


def phased(witness: Content, order: str) -> Content:
    """The first way to a grant that PHASE relies on."""
    way = entry(witness, "phase", order=order)["by"][0]["granted"]["ways"][0]
    return way  # type: ignore[no-any-return]


WRONG: dict[str, Alter] = {
    "sizes that the preconditions forbid": lambda w: w["sizes"][0].update(size=0),
    "no sizes": lambda w: w.update(sizes=[]),
    "sizes of others": lambda w: w["sizes"][0].update(name="N"),
    "no chains": lambda w: w.update(chains=[]),
    "a chain of a pair": lambda w: w["chains"].remove(chained(w, "entry")),
    "no way to a grant": lambda w: chained(w, "granted").update(ways=[]),
    "a chain through a later Await": lambda w: moved(chained(w, "await"), 1),
    "a chain through an earlier Await": lambda w: moved(chained(w, "await"), -1),
    "a chain through a later Arrive": lambda w: moved(chained(w, "arrive"), 1),
    "a chain through an earlier Arrive": lambda w: moved(chained(w, "arrive"), -1),
    "a chain through another task": lambda w: chained(w, "await")["at"].__setitem__(0, "(7)"),
    "a chain through another site": lambda w: chained(w, "way").update(
        via={"site": 26, "at": chained(w, "arrive")["at"]}
    ),
    "a shortened chain": lambda w: chained(w, "chain").update(granted=None),
    "a chain without its Arrive": lambda w: chained(w, "way").update(via=chained(w, "await")),
    "a chain that goes round": lambda w: chained(w, "way").update(
        before={**chained(w, "granted"), "ways": [dict(chained(w, "way"))]}
    ),
    "another thread": lambda w: phased(w, "not_early").update(threads=["(77)"]),
    "no thread": lambda w: phased(w, "not_early").update(threads=[]),
    "an arrival without a thread": lambda w: entry(w, "phase", order="followed")["by"][0].update(
        threads=[]
    ),
    "a Clear of another variable": lambda w: chained(w, "entry").update(
        by=[{"clear": {"site": 22, "at": chained(w, "await")["at"] + ["(0)"]}}]
    ),
    "a Clear that is none": lambda w: chained(w, "entry").update(
        by=[{"clear": chained(w, "await")}]
    ),
    "a site that is none": lambda w: chained(w, "await").update(site=900),
    "a site of another kind": lambda w: chained(w, "await").update(site=0, at=["second.task"]),
    "an iterator less": lambda w: chained(w, "await")["at"].pop(),
    "an iterator more": lambda w: chained(w, "await")["at"].append("(0)"),
    "a name of nobody": lambda w: chained(w, "await")["at"].__setitem__(0, "third.task"),
    "a name of another obligation": lambda w: chained(w, "await")["at"].__setitem__(0, "here.task"),
    "a size of nobody": lambda w: chained(w, "await")["at"].__setitem__(0, "N"),
    "an element that is not asked for": lambda w: chained(w, "await")["at"].__setitem__(
        0, "element.7"
    ),
    "a weaker grant, which is not enough": lambda w: [
        by["granted"].update(grant="temporal")
        for one in w["chains"]
        for by in one["by"]
        if by.get("granted")
    ],
    "a timeline that is carried": lambda w: chained(w, "granted").update(carried="tmaG"),
    "a crossing of two threads": lambda w: chained(w, "way").update(
        crossing={**chained(w, "granted"), "ways": []}, threads=["(0)", "(1)"]
    ),
    "a rank too high": counted(True, 1),
    "a rank too low": counted(True, -1),
    "a count of Awaits too high": counted(False, 1),
    "a count of Awaits too low": counted(False, -1),
    "a rank that is always 0": lambda w: entry(w, "counts", arrivals=True)["pieces"][0].update(
        count="(0)"
    ),
    "a rank by cases": lambda w: entry(w, "counts", arrivals=True)["pieces"].insert(
        0, {"holds": "(here.k > (3))", "count": "(3)"}
    ),
    "a rank that is unbounded": lambda w: entry(w, "counts", arrivals=True)["pieces"][0].update(
        count="(2 * here.k)"
    ),
    "a count that is missing": lost("counts", arrivals=True),
    "a count of nothing": lambda w: entry(w, "counts", arrivals=True).update(pieces=[]),
    "the count before, one off": partner("previous", -1),
    "no count before": lost("partners", aim="previous"),
    "an Await of another number": partner("awaited", 1),
    "no Await of an Arrive": lost("partners", aim="awaited"),
    "an Arrive of another number": partner("arrived", -1),
    "no Arrive of an Await": lost("partners", aim="arrived"),
    "an Arrive that is too late": partner("enough", 1, 1),
    "no Arrive that is enough": lost("partners", aim="enough"),
    "an Arrive before the first": partner("signals", -1),
    "no Arrive before an Await": lost("partners", aim="signals"),
    "a partner of another barrier": lambda w: entry(w, "partners", aim="awaited")["by"][0].update(
        site=6
    ),
    "a partner that is none": lambda w: entry(w, "partners", aim="awaited")["by"][0].update(site=5),
    "an earlier Await of PHASE (i)": phase("not_early", -1),
    "a later Await of PHASE (i)": phase("not_early", 3),
    "another arrival of PHASE (ii)": phase("followed", -1),
    "a later Await of PHASE (iii)": phase("not_ahead", 1),
    "an earlier Await of PHASE (iii)": phase("not_ahead", -1),
    "no Await of PHASE (iii)": lost("phase", order="not_ahead"),
    "no order of PHASE (i)": lambda w: entry(w, "phase", order="not_early")["by"][0].update(
        granted=None
    ),
    "a depth beside the program's": lambda w: w["barriers"][0].update(depth=2),
    "loops set apart that are none": lambda w: w["barriers"][0].update(apart=1),
    "more loops than there are": lambda w: w["barriers"][0].update(apart=40),
    "a barrier that is none": lambda w: w["barriers"].append({**w["barriers"][0], "name": "gone"}),
    "a barrier that is missing": lambda w: w["barriers"].pop(),
    "what nobody asks for": lambda w: w["chains"].append(
        {**chained(w, "entry"), "record": 0, "check": 1}
    ),
    "the same twice": lambda w: w["chains"].append(chained(w, "entry")),
    "a further field": lambda w: w.update(safe=True),
    "a further field of a chain": lambda w: chained(w, "chain").update(safe=True),
    "a missing field": lambda w: chained(w, "way").pop("crossing"),
    "an unknown aim": lambda w: w["partners"][0].update(aim="all"),
    "an unknown order": lambda w: w["phase"][0].update(order="none"),
    "a site that is a truth": lambda w: chained(w, "await").update(site=True),
    "a text that is a number": lambda w: chained(w, "await").update(at=[0, 0]),
    "an expression that is a product": lambda w: chained(w, "await")["at"].__setitem__(
        0, "(second.task * second.task)"
    ),
    "an expression that is a quantifier": lambda w: chained(w, "await")["at"].__setitem__(
        0, "(exists j)"
    ),
    "a division by nothing": lambda w: chained(w, "await")["at"].__setitem__(
        0, "floor((second.task) / 0)"
    ),
    "a huge number": lambda w: chained(w, "await")["at"].__setitem__(0, f"({'9' * 50})"),
    "brackets without an end": lambda w: chained(w, "await")["at"].__setitem__(
        0, "(" * 500 + "second.task" + ")" * 500
    ),
    "another way to write it": lambda w: chained(w, "await")["at"].__setitem__(0, "( second.task)"),
}


@pytest.mark.parametrize("what", WRONG)
def test_a_wrong_witness_can_only_fail(folder: Path, what: str) -> None:
    forged(folder, WITNESS, WRONG[what])
    assert rejected(folder, Z3)


def inner(by: int) -> Alter:
    def alter(witness: Content) -> None:
        for piece in entry(witness, "counts")["pieces"]:
            piece["count"] = added(piece["count"], by)

    return alter


def totals(by: int) -> Alter:
    def alter(witness: Content) -> None:
        for piece in witness["barriers"][0]["total"]:
            piece["count"] = added(piece["count"], by)

    return alter


NEST: dict[str, Alter] = {
    "a total that is missing": lambda w: w["barriers"][0].update(total=None),
    "a total too high": totals(1),
    "a total too low": totals(-1),
    "a total of nothing": lambda w: w["barriers"][0].update(total=[]),
    "a count within an iteration too high": inner(1),
    "a count within an iteration too low": inner(-1),
    "the last of an iteration missing": lost("partners", aim="last"),
    "the last of an iteration, one off": partner("last", -1),
    "no loops set apart": lambda w: w["barriers"][0].update(apart=0),
    "fewer loops set apart": lambda w: w["barriers"][0].update(apart=1),
    "more loops set apart": lambda w: w["barriers"][0].update(apart=3),
    "the Arrive of another iteration": partner("arrived", -1),
    "an Await of another iteration": partner("awaited", 1),
}


@pytest.mark.parametrize("what", NEST)
def test_a_wrong_witness_of_a_nest_can_only_fail(nested: Path, what: str) -> None:
    forged(nested, WITNESS, NEST[what])
    assert rejected(nested, Z3)


# --- without ISL --------------------------------------------------------------------------------

BLOCKED = """
import sys
class Blocked:
    def find_spec(self, name, path=None, target=None):
        if name.split(".")[0] == "islpy":
            raise ImportError("no ISL here")
sys.meta_path.insert(0, Blocked())
from exogpu.cli.commands import app
app()
"""


@pytest.mark.parametrize("which", ["folder", "nested"])
def test_recheck_needs_no_isl(which: str, request: pytest.FixtureRequest) -> None:
    folder: Path = request.getfixturevalue(which)
    ran = subprocess.run(
        [sys.executable, "-c", BLOCKED, "recheck", str(folder), "--solver", "z3"],
        cwd=ROOT,
        env={**os.environ, "PYTHONPATH": str(ROOT)},
        capture_output=True,
        text=True,
    )
    assert ran.returncode == 0, ran
    assert "confirmed" in ran.stdout
