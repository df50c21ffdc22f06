"""Certificates of sums, laws and what is computed again: every kind of claim is needed, and nothing
that changes results is certified."""

from __future__ import annotations

from collections.abc import Callable
from contextlib import suppress
from copy import deepcopy
from dataclasses import replace
from random import Random
from typing import Any

import pytest
from mutated_edits import differ as leaves_something_else
from mutated_edits import mutations
from recorded_runs import differ
from steps import gemm
from sum_steps import summed, summed_on, under_relu
from write_steps import indexed, scalar

from exogpu import proc, schedule
from exogpu.api import Procedure
from exogpu.ir.nodes import Assign, Block, Const, DExpr, Proc, Reduce, Stmt
from exogpu.ir.scalars import INTEGERS, Constant, Convert, Operation
from exogpu.ir.types import DataType
from exogpu.ir.walk import map_blocks
from exogpu.schedule.certificates import chain
from exogpu.schedule.checking.equivalence import Comparison, Differ
from exogpu.schedule.checking.stored_terms import Unclear
from exogpu.schedule.reparse import out_of_scope
from exogpu.schedule.rewrite import Rewrite
from exogpu.symbolic.certificate.strict_json import MalformedError
from exogpu.symbolic.encode.witness import WitnessError
from exogpu.symbolic.steps import record_json
from exogpu.symbolic.steps.normal_form import Leaf, Stored, Tree, as_numbers, exactly
from exogpu.symbolic.steps.step_certificate import UnlikeError
from tests.schedule.careless import inlined_after_a_change, inlined_before
from tests.schedule.step_records import Json, failing, recorded, recorded_of


@proc
def squares_of(n: size, x: f32[n, 3] @ DRAM, y: f32[n] @ DRAM):
    for i in seq(0, n):
        y[i] = 0
        for k in seq(0, 3):
            y[i] += x[i, k] * x[i, k]


@proc
def read_beside(n: size, x: f32[n] @ DRAM, a: f32[n] @ DRAM):
    for i in seq(0, n):
        x[i] = a[i]
        x[i] += x[0]


@proc
def changed_later(n: size, x: f32[n] @ DRAM, y: f32[n] @ DRAM):
    for i in seq(0, n):
        t: f32 @ DRAM
        t = 2 * x[i]
        y[i] = t + 1
        y[i] += t


def staged(p: Procedure) -> Procedure:
    return schedule.stage_sum(p, "for k in _: _", "y[i]", "t")


def added(record: Json, statement: int, **changes: Any) -> None:
    """One statement more in the iteration, at its end, like another one but for something."""
    statements = record["new"]["statements"]
    last = statements[-1]
    statements.append({**deepcopy(statements[statement]), "time": [0, "i", 9]} | changes)
    statements[-1]["iterators"] = ["i"]
    statements[-1]["holds"] = deepcopy(last["holds"])
    statements[-1]["target"] = deepcopy(last["target"])


def one_more(record: Json, witness: Json) -> None:
    at = {"variable": "x", "index": ["i", "(0)"], "within": []}
    added(record, 2, reads=[at, deepcopy(at)])


def a_copy_more(record: Json, witness: Json) -> None:
    at = {"variable": "x", "index": ["i", "(0)"], "within": []}
    added(record, 2, reads=[at], computes={"read": 0})


def set_again(record: Json, witness: Json) -> None:
    added(record, 0)


def one_less(record: Json, witness: Json) -> None:
    holds = record["new"]["statements"][2]["holds"]
    holds[holds.index("(k < (3))")] = "(k < (2))"


def others(record: Json, witness: Json) -> None:
    for part in ("forth", "back"):
        (one,) = witness[part]
        one["by"][0]["at"][1] = "((2) - k)"


def no_counterpart(record: Json, witness: Json) -> None:
    witness["forth"].clear()


def beyond(record: Json, witness: Json) -> None:
    record["new"]["variables"][-1]["shape"].append("(0)")
    for statement in record["new"]["statements"]:
        for cell in (*statement["reads"], statement["target"]):
            if cell["variable"] == "t_2":
                cell["index"].append("(0)")


ALONE = {
    "TERM": one_more,
    "KNOWN": a_copy_more,
    "BEGIN": set_again,
    "COMES": one_less,
    "MATCH": others,
    "LEFT": no_counterpart,
    "BOUNDS": beyond,
}
"""By kind, an alteration of a step that no other kind of claim refuses."""


@pytest.mark.parametrize("kind", ALONE)
def test_each_kind_of_claim_about_sums_is_needed(kind: str) -> None:
    ((record, witness),) = recorded(staged(squares_of))
    assert failing(record, witness) == set()
    ALONE[kind](record, witness)
    assert failing(record, witness) == {kind}


def test_an_element_that_may_be_another_is_told_apart() -> None:
    """The whole would read x[0] before it is written, the parts after that."""
    edit = next(
        iter(
            schedule.merge_writes.__wrapped__(
                read_beside.ir, schedule.find(read_beside, "x[_] = _").path
            )
        )
    )
    assert chain.uncertified(edit).startswith("sat: What `x[i] = a[i]`")
    assert "not written before" in chain.uncertified(edit)


def test_elements_that_are_said_to_be_one_are() -> None:
    record, witness = recorded(schedule.bind_expr(indexed, "y[_] = _", "x[i] * 3", "t"))[0]
    assert failing(record, witness) == set()
    (classes,) = witness["elements"]
    # The whole reads another element than the part does.
    cell = record["new"]["statements"][0]["reads"][0]
    cell["index"][-1] = "(i - i)"
    assert classes and failing(record, witness) == {"SAME"}


@pytest.mark.parametrize("careless", [inlined_after_a_change, inlined_before])
def test_what_is_computed_again_is_what_it_was(careless: Callable[[], Rewrite]) -> None:
    ((record, witness),) = recorded_of(careless())
    assert failing(record, witness) in ({"AGAIN"}, {"AGAIN", "FLOW"})


# --- mistakes -----------------------------------------------------------------------------------

STEPS: dict[str, tuple[Procedure, Callable[[Procedure], Procedure]]] = {
    "stage_sum": (squares_of, staged),
    "stage_sum of a product": (
        gemm,
        lambda p: schedule.stage_sum(p, "for k in _: _", "C[i, j]", "t"),
    ),
    "sum_by_exchange": (summed, lambda p: schedule.sum_by_exchange(p, "j #1", "u")),
    "sum_by_exchange on": (summed_on, lambda p: schedule.sum_by_exchange(p, "j #1", "u")),
    "apply_at_writes": (under_relu, lambda p: schedule.apply_at_writes(p, "t")),
    "add_loop": (scalar, lambda p: schedule.add_loop(p, "t = _", "j", 4)),
    "bind_expr": (indexed, lambda p: schedule.bind_expr(p, "y[_] = _", "x[i] * 3", "t")),
    "inline_assign": (changed_later, lambda p: schedule.inline_assign(p, "t = _")),
}


@pytest.fixture
def careless(monkeypatch: pytest.MonkeyPatch) -> None:
    """What ISL sees to be different is certified by nobody, nor by the comparison."""
    compare = Comparison.compare

    def compared(self: Comparison) -> None:
        with suppress(Differ, Unclear):
            compare(self)

    monkeypatch.setattr(Comparison, "compare", compared)


@pytest.mark.slow
@pytest.mark.parametrize(
    "name",
    [
        pytest.param(name, marks=[pytest.mark.long] if name == "sum_by_exchange" else [])
        for name in STEPS
        if name != "sum_by_exchange on"
    ],
)
def test_a_mistake_that_is_seen_is_never_certified(name: str, careless: None) -> None:
    before, step = STEPS[name]
    made = schedule.derivation(step(before))
    assert made is not None
    refused = 0
    for edit in mutations(made.edit):
        if out_of_scope(edit.new) is not None or chain.uncertified(edit):
            refused += 1
            continue
        for size in (1, 2, 3, 5):
            sizes = dict.fromkeys(before.size_names, size)
            assert not leaves_something_else(edit.old, edit.new, sizes)
    assert refused > 3


def with_more(p: Procedure, value: Callable[[Assign], DExpr] | None) -> Proc:
    """What is assigned to u is added to, too."""

    def each(block: Block) -> Block:
        found: list[Stmt] = []
        for stmt in block:
            found.append(map_blocks(stmt, each))
            if value is not None and isinstance(stmt, Assign) and stmt.target.name.name == "u":
                found.append(Reduce(stmt.target, value(stmt)))
        return tuple(found)

    assert p.ir is not None
    return replace(p.ir, body=each(p.ir.body))


MORE: dict[str, Callable[[Assign], DExpr] | None] = {
    "once": None,
    "twice": lambda stmt: stmt.value,
    "and nothing": lambda stmt: Const(0),
    "and one": lambda stmt: Const(1),
}


@pytest.mark.parametrize(
    ("one", "other", "right"),
    [
        ("once", "once", True),
        ("once", "and nothing", True),
        ("and nothing", "once", True),
        ("once", "twice", False),
        ("twice", "once", False),
        ("once", "and one", False),
        ("and one", "once", False),
    ],
)
def test_what_is_computed_again_and_again_is_counted(
    one: str, other: str, right: bool, careless: None
) -> None:
    """Sums whose terms have no one counterpart are the same if each has one term."""
    moved = schedule.apply_at_writes(under_relu, "t")
    old, new = with_more(under_relu, MORE[one]), with_more(moved, MORE[other])
    for edit in (Rewrite(old, new, by_results=True), Rewrite(new, old, by_results=True)):
        assert (not chain.uncertified(edit)) == right


# --- attacks ------------------------------------------------------------------------------------


def places(value: Any) -> list[tuple[Any, Any]]:
    found = []
    for key in [*value] if isinstance(value, dict) else range(len(value)):
        found.append((value, key))
        if isinstance(value[key], dict | list):
            found += places(value[key])
    return found


def corrupted(random: Random, value: Any) -> None:
    """One thing in a JSON is another."""
    untold = ("text", "schema", "line", "type", "name", "compared")
    where, key = random.choice([one for one in places(value) if one[1] not in untold])
    was = where[key]
    match was:
        case bool():
            where[key] = not was
        case int():
            where[key] = max(0, was + random.choice((-1, 1)))
        case str() if "<" in was or " = " in was:
            others_ = ("(0 = 0)", "(0 = 1)", f"(not {was})", was.replace("<", "<=", 1))
            where[key] = random.choice(others_)
        case str() if key == "kind":
            where[key] = random.choice(("=", "+="))
        case str():
            where[key] = f"({was} + (1))" if random.random() < 0.5 else "(0)"
        case list() if was:
            random.shuffle(was) if random.random() < 0.5 else was.pop()
        case dict():
            alike = [h[k] for h, k in places(value) if k == key and isinstance(h[k], dict)]
            where[key] = deepcopy(random.choice(alike))


@pytest.mark.slow
@pytest.mark.parametrize("name", STEPS)
def test_whatever_is_certified_computes_the_same(name: str) -> None:
    """The record itself is run, on rational numbers."""
    before, step = STEPS[name]
    random, refused = Random(name), 0
    for record, witness in recorded(step(before)):
        for _ in range(12):
            both = deepcopy([record, witness])
            corrupted(random, both[random.randrange(2)])
            try:
                read = record_json.record_of(both[0])
                if failing(both[0], both[1]):
                    refused += 1
                    continue
            except (MalformedError, UnlikeError, WitnessError):
                refused += 1
                continue
            for size in (1, 2, 4):
                sizes = {p.name.name: size for p in read.old.params}
                assert not differ(read.old, read.new, sizes)
    assert refused > 0


# --- values -------------------------------------------------------------------------------------

I8, I32, I64 = DataType.I8, DataType.I32, DataType.I64


def kept(value: int, dtype: DataType) -> int:
    least, greatest = INTEGERS[dtype]
    return (value - least) % (greatest - least + 1) + least


def worth(tree: Tree, given: list[int]) -> int:
    """The value of a tree of integers, which wrap around."""
    match tree:
        case Leaf():
            return given[tree.number]
        case Constant():
            return kept(int(tree.value), tree.dtype)
        case Convert() | Stored():
            return kept(worth(tree.term, given), tree.dtype)  # type: ignore[arg-type]
        case Operation():
            terms = [worth(one, given) for one in tree.arguments]  # type: ignore[arg-type]
    match tree.function, terms:
        case "+", [a, b]:
            return kept(a + b, tree.dtype)
        case "-", [a, b]:
            return kept(a - b, tree.dtype)
        case "*", [a, b]:
            return kept(a * b, tree.dtype)
        case "negate", [a]:
            return kept(-a, tree.dtype)
        case "max", [a, b]:
            return max(a, b)
    raise AssertionError(tree)


def grown(random: Random, depth: int, dtype: DataType) -> Tree:
    """Some tree: elements are i32; what is narrower was stored, what is wider converted."""
    if depth == 0 or random.random() < 0.2:
        leaf: Tree = Leaf(random.randrange(3), I32, I32)
        if random.random() < 0.3:
            return Constant(random.randint(-3, 3), dtype)
        return leaf if dtype is I32 else Convert(leaf, dtype)  # type: ignore[arg-type]
    if random.random() < 0.25:
        inner = grown(random, depth - 1, I32 if dtype is I64 else I64)
        if dtype is I64:
            return Convert(inner, I64)  # type: ignore[arg-type]
        narrow = random.choice((I8, I32))
        stored = Stored(inner, narrow)
        return stored if narrow is I32 else Convert(stored, I32)  # type: ignore[arg-type]
    function = random.choice(("+", "-", "*", "negate", "max"))
    count = 1 if function == "negate" else 2
    terms = tuple(grown(random, depth - 1, dtype) for _ in range(count))
    return Operation(function, terms, dtype)  # type: ignore[arg-type]


def turned(random: Random, tree: Tree) -> Tree:
    """The tree with one rule of arithmetic applied somewhere, right or wrong."""
    if isinstance(tree, Convert | Stored):
        if random.random() < 0.15:  # a conversion less
            return tree.term if tree.term.dtype is tree.dtype else tree  # type: ignore[return-value]
        return type(tree)(turned(random, tree.term), tree.dtype)  # type: ignore[arg-type]
    if not isinstance(tree, Operation):
        return tree
    given: list[Any] = list(tree.arguments)
    if random.random() < 0.5:
        at = random.randrange(len(given))
        given[at] = turned(random, given[at])
    elif len(given) == 2:
        right = given[1]
        if tree.function == "*" and isinstance(right, Operation) and right.function in "+-":
            sides = [Operation("*", (given[0], one), tree.dtype) for one in right.arguments]
            if len(sides) == 2:
                return Operation(right.function, tuple(sides), tree.dtype)
        given.reverse()
    return Operation(tree.function, tuple(given), tree.dtype)


def test_values_that_are_called_the_same_are() -> None:
    random, seen = Random(3), [0, 0]
    for _ in range(4000):
        dtype = random.choice((I8, I32, I64))
        one = grown(random, 4, I64 if dtype is I64 else I32)
        other = turned(random, turned(random, one))
        same = exactly(one, other) or as_numbers(one, other, dtype) is False
        seen[same] += 1
        if not same:
            continue
        for _ in range(8):
            given = [random.choice((0, 1, -1, 127, 128, 1 << 30, -(1 << 31))) for _ in range(3)]
            assert kept(worth(one, given), dtype) == kept(worth(other, given), dtype), (one, other)
    assert min(seen) > 300


@pytest.mark.parametrize(
    ("one", "other", "dtype", "same"),
    [
        # A sum in i32 that wraps around, made wider after that.
        ("narrow", "wide", I64, None),
        ("narrow", "wide", I32, False),
    ],
)
def test_a_sum_that_wraps_is_no_wider_one(
    one: str, other: str, dtype: DataType, same: bool | None
) -> None:
    a, b = Leaf(0, I32, I32), Leaf(1, I32, I32)
    wider = [Convert(leaf, I64) for leaf in (a, b)]  # type: ignore[arg-type]
    trees: dict[str, Tree] = {
        "narrow": Convert(Operation("+", (a, b), I32), I64),  # type: ignore[arg-type]
        "wide": Operation("+", (wider[0], wider[1]), I64),
    }
    assert as_numbers(trees[one], trees[other], dtype) is same


def test_of_floating_point_other_roundings_are_said() -> None:
    f = DataType.F32
    a, b, c = (Leaf(n, f, f) for n in range(3))
    left = Operation("+", (Operation("+", (a, b), f), c), f)  # type: ignore[arg-type]
    right = Operation("+", (a, Operation("+", (b, c), f)), f)  # type: ignore[arg-type]
    assert not exactly(left, right) and as_numbers(left, right, f) is True
    assert exactly(left, Operation("+", (c, Operation("+", (b, a), f)), f))  # type: ignore[arg-type]
    assert as_numbers(left, Operation("+", (a, b), f), f) is None  # type: ignore[arg-type]
