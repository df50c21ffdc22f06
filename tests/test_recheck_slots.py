"""Alterations of what a certificate says of slots: refused as no program of ours, or not confirmed.

Where the altered program is one, obligations are listed anew and digests fit, as a forger would;
then a solver refuses it.
"""

from __future__ import annotations

import shutil
from collections.abc import Callable
from pathlib import Path

import pytest

from exogpu.amir.export import to_json
from exogpu.amir.slot_privacy import PrivateSlotError, with_comparisons
from exogpu.diagnostics.errors import ExoGpuError
from exogpu.solvers import smt
from exogpu.symbolic.certificate.program_reader import program_of
from exogpu.symbolic.certificate.program_schema import check_program
from exogpu.symbolic.certificate.recheck import recheck
from exogpu.symbolic.certificate.strict_json import MalformedError
from exogpu.symbolic.certificate.write import write_certificate
from exogpu.symbolic.encode.witness import WitnessError
from exogpu.symbolic.sites import UndecidedError
from tests.cases.certificates.counted import counted
from tests.forging import Content, change, find, flaws, forge, names, ops, problems


@pytest.fixture(scope="module")
def written(tmp_path_factory: pytest.TempPathFactory) -> Path:
    folder = tmp_path_factory.mktemp("slots") / "counted"
    verdict = counted.check()
    assert verdict.word == "proved", verdict.reason
    write_certificate(folder, counted, verdict)
    return folder


@pytest.fixture
def folder(written: Path, tmp_path: Path) -> Path:
    """A copy of the certificate."""
    return Path(shutil.copytree(written, tmp_path / "counted"))


def slots(program: Content) -> tuple[Content, Content]:
    """The loops that bind the slots of the filled and of the emptied."""
    bound = [op for op in ops(program, "Loop") if op.get("mode") == "slot"]
    filled, emptied = (op for op in bound if not requiring(op))
    return filled, emptied


def requiring(op: Content) -> bool:
    """Whether an operation is what a task requires of slots."""
    inner = [*find([op], "Require")]
    return bool(inner) and not [*find([op], "RecordRead"), *find([op], "RecordMutate")]


def compared_anew(program: Content) -> None:
    """The program requires of its slots what it has to."""

    def without(block: list[Content]) -> list[Content]:
        kept = [op for op in block if not (op.get("mode") == "slot" and requiring(op))]
        return [{**op, "body": without(op["body"])} if "body" in op else op for op in kept]

    bare = {**program, "body": without(program["body"])}
    program["body"] = to_json(with_comparisons(program_of(check_program(bare))))["body"]


def set_first(**values: object) -> Callable[[Content], object]:
    return lambda program: slots(program)[0].update(values)


def of_barrier(name: str) -> dict[str, object]:
    return {"variable": name, "coords": []}


def test_it_is_confirmed(folder: Path) -> None:
    assert len(names(folder, "INNER")) == 8 and len(names(folder, "TOTAL")) == 2
    assert len(names(folder, "SLOT")) == 1
    assert recheck(folder, [smt.ask_z3]).word == "confirmed"


def test_what_serves_all_tasks_is_not_of_one(folder: Path) -> None:
    """The proof would be by the iterations of a task, in which it is not allocated."""

    def alter(program: Content) -> None:
        full = next(one for one in program["variables"] if one["name"] == "full")
        assert not full["task_local"]
        full["task_local"] = True

    change(folder, "program.json", alter)
    assert "full is of a task if it is allocated in one" in problems(folder)


# --- no program of ours -------------------------------------------------------------------------

MALFORMED: dict[str, tuple[Callable[[Content], object], str]] = {
    "another mode": (set_first(mode="count"), "slot"),
    "no mode": (lambda p: slots(p)[0].pop("mode"), ""),
    "of nobody": (set_first(slot=of_barrier("filled")), '"filled" is no variable'),
    "of data": (set_first(slot=of_barrier("tile")), "no barrier"),
    "of a ring of barriers": (
        set_first(slot={"variable": "full", "coords": ["(0)"]}),
        "another number of dimensions",
    ),
    "no barrier at all": (lambda p: slots(p)[0].pop("slot"), "the field slot is missing"),
    "a slot that begins at one": (set_first(lo="(1)"), '"(1)" is not known here'),
    "a loop that binds none": (
        lambda p: next(op for op in ops(p, "Loop") if op.get("mode") != "slot").update(
            slot=of_barrier("full")
        ),
        "",
    ),
    "a slot of an Await": (
        lambda p: slots(p)[0]["body"].append(next(iter(ops(p, "Await")))),
        "",
    ),
    "a ring of K slots": (set_first(hi="K"), ""),
    "a ring of none": (set_first(hi="(0)"), ""),
}


@pytest.mark.parametrize("what", MALFORMED)
def test_what_binds_no_slot_is_rejected_unasked(folder: Path, what: str) -> None:
    alter, says = MALFORMED[what]
    change(folder, "program.json", alter)
    assert says in problems(folder)


# --- another program ----------------------------------------------------------------------------


def _awaits(program: Content, by: int) -> None:
    """Of the Await that skips."""
    (one,) = (op for op in ops(program, "Await") if op["barrier"]["variable"] == "empty")
    one["n"] += by


def _first_arrive(program: Content) -> tuple[list[Content], int]:
    return next(iter(find(program["body"], "Arrive")))


def _arrives_first(program: Content) -> None:
    """The producer arrives before it fills."""
    block, at = _first_arrive(program)
    block.insert(at - 1, block.pop(at))


def _arrives_twice(program: Content) -> None:
    block, at = _first_arrive(program)
    block.insert(at, block[at])


WRONG: dict[str, Callable[[Content], object]] = {
    "the writer counts what is emptied": set_first(slot=of_barrier("empty")),
    "the reader counts what is filled": lambda p: slots(p)[1].update(slot=of_barrier("full")),
    "both count the other": lambda p: (
        slots(p)[0].update(slot=of_barrier("empty")),
        slots(p)[1].update(slot=of_barrier("full")),
    ),
    "a ring of two": lambda p: [one.update(hi="(2)") for one in slots(p)],
    "a ring of one for the reader": lambda p: slots(p)[1].update(hi="(1)"),
    "a ring of one for the writer": lambda p: slots(p)[0].update(hi="(1)"),
    "rings of two depths": lambda p: slots(p)[0].update(hi="(2)"),
    "a slot too early": lambda p: _awaits(p, -1),
    "the Arrive before the slot": _arrives_first,
    "two Arrives": _arrives_twice,
}


@pytest.mark.parametrize("what", WRONG)
def test_another_slot_is_not_confirmed(folder: Path, what: str) -> None:
    def alter(program: Content) -> None:
        WRONG[what](program)
        compared_anew(program)

    try:
        change(folder, "program.json", alter)
    except PrivateSlotError:
        return
    _is_refused(folder)


# --- a number -----------------------------------------------------------------------------------


def _conditions(program: Content) -> list[str]:
    (asked,) = (op for op in ops(program, "Require") if op["kind"] == "SLOT")
    return asked["conditions"]  # type: ignore[no-any-return]


def _accesses(program: Content, name: str) -> list[Content]:
    """The accesses of a variable, but for its free."""
    kinds = [f"{one}{of}" for one in ("Record", "Check", "Clear") for of in ("Reads", "Mutates")]
    kinds += ["RecordRead", "RecordMutate"]
    found = [op for kind in kinds for op in ops(program, kind) if not op.get("free")]
    return [op["access"] for op in found if op["access"]["variable"] == name]


def _index(program: Content, name: str, old: str, new: str) -> None:
    changed = [one for one in _accesses(program, name) if old in one["coords"]]
    assert changed
    for one in changed:
        one["coords"] = [new if coord == old else coord for coord in one["coords"]]


def _read_by(program: Content) -> str:
    """The slot by which the ring is read."""
    return slots(program)[1]["iterator"]  # type: ignore[no-any-return]


def _requires_nothing(program: Content) -> None:
    for block, at in find(program["body"], "IncTaskID"):
        assert requiring(block[at + 1])
        del block[at + 1]


def _guarded(program: Content) -> None:
    reader = slots(program)[1]
    plain = {k: v for k, v in reader["body"][0].items() if k in ("file", "line", "column", "text")}
    guard = {"op": "Guard", "condition": f"({reader['iterator']} = (1))", "body": reader["body"]}
    reader["body"] = [{**guard, **plain, "threads": reader["threads"]}]


NUMBERS: dict[str, Callable[[Content], object]] = {
    "an index of results": lambda p: _index(p, "y", "k", _read_by(p)),
    "a condition": _guarded,
    "a sum": lambda p: _index(p, "tile", _read_by(p), f"({_read_by(p)} + (1))"),
    "another element of the ring": lambda p: _index(p, "tile", _read_by(p), "(1)"),
    "nothing is required": lambda p: _requires_nothing(p),
    "something else is required": lambda p: _conditions(p).__setitem__(0, "((0) = (0))"),
    "less is required": lambda p: _conditions(p).__setitem__(
        0, f"({_conditions(p)[0]} or ((0) = (0)))"
    ),
}


@pytest.mark.parametrize("what", NUMBERS)
def test_a_slot_that_is_a_number_is_refused(folder: Path, what: str) -> None:
    """Whoever forges it, with obligations that fit: no program of ours has it."""
    change(folder, "program.json", NUMBERS[what])
    _is_refused(folder)
    found = recheck(folder, [smt.ask_z3])
    assert found.word == "rejected"
    assert "slot" in flaws(found), flaws(found)


def _is_refused(folder: Path) -> None:
    try:
        forge(folder)
    except (ExoGpuError, MalformedError, UndecidedError, WitnessError):
        assert problems(folder)
        return
    found = recheck(folder, [smt.ask_z3])
    assert found.word == "rejected" and found.flaws


# --- another witness ----------------------------------------------------------------------------


def _counts(witness: Content) -> list[Content]:
    return witness["counts"]  # type: ignore[no-any-return]


SAID: dict[str, Callable[[Content], object]] = {
    "a count less": lambda w: _counts(w).pop(),
    "no loop set apart": lambda w: [one.update(apart=0) for one in w["barriers"]],
    "two barriers of other totals": lambda w: w["barriers"][0].update(
        total=[{"holds": "(0 = 0)", "count": "(K + (1))"}]
    ),
    "no chains": lambda w: w.update(chains=[]),
    "no Awaits before arrivals": lambda w: w.update(phase=[]),
}


@pytest.mark.parametrize("what", SAID)
def test_another_witness_is_refused(folder: Path, what: str) -> None:
    change(folder, "witness.json", SAID[what])
    _is_refused(folder)


def test_a_count_that_is_another_is_refused(folder: Path) -> None:
    """All counts are one more than they were."""

    def more(witness: Content) -> None:
        for one in _counts(witness):
            for piece in one["pieces"]:
                piece["count"] = f"({piece['count']} + (1))"

    change(folder, "witness.json", more)
    _is_refused(folder)
