"""Procedures compared by their results: sums as sets of terms."""

from __future__ import annotations

from collections import Counter
from random import Random
from textwrap import dedent, indent

import numpy as np
import pytest
from hypothesis import given, settings
from hypothesis import strategies as st
from programs import program
from steps import gemm

from exogpu import ExoGpuError, proc, schedule
from exogpu.analysis.bounds import violations
from exogpu.api import Procedure
from exogpu.schedule.checking import equivalence
from exogpu.schedule.checking.stored_terms import Terms
from exogpu.solvers import isl_unions, processes
from exogpu.solvers.processes import cuts
from tests.texts import made

HEAD = (
    "@proc\ndef f(M: size, N: size, K: size, X: f32[M, K] @ DRAM, Y: f32[K, N] @ DRAM, "
    "Z: f32[M, N] @ DRAM):\n"
)


def product(body: str) -> Procedure:
    """Of matrices: `body` is within loops over i and j."""
    lines = indent(dedent(body).strip("\n") + "\n", " " * 12)
    return made(f"{HEAD}    for i in seq(0, M):\n        for j in seq(0, N):\n{lines}")


EQUAL = {
    "in another order": """
        Z[i, j] = 0
        for k in seq(0, K):
            Z[i, j] += Y[K - 1 - k, j] * X[i, K - 1 - k]
    """,
    "first term apart": """
        Z[i, j] = X[i, 0] * Y[0, j]
        for k in seq(1, K):
            Z[i, j] += X[i, k] * Y[k, j]
    """,
    "even and odd": """
        t: f32
        t = 0
        for k in seq(0, K / 2):
            t += X[i, 2 * k + 1] * Y[2 * k + 1, j]
        Z[i, j] = t
        for k in seq(0, (K + 1) / 2):
            Z[i, j] += X[i, 2 * k] * Y[2 * k, j]
    """,
    "overwritten": """
        Z[i, j] = X[i, 0]
        Z[i, j] = 0
        for k in seq(0, K):
            Z[i, j] += X[i, k] * Y[k, j]
    """,
    "slices": """
        Z[i, j] = 0
        for s in seq(0, 3):
            part: f32
            part = 0
            for k in seq(0, (K + 2) / 3):
                if 3 * k + s < K:
                    part += X[i, 3 * k + s] * Y[3 * k + s, j]
            Z[i, j] += part
    """,
    "through copies": """
        a: f32[K]
        b: f32[K]
        Z[i, j] = 0
        for k in seq(0, K):
            a[k] = X[i, k]
            b[k] = a[k]
            Z[i, j] += b[k] * Y[k, j]
    """,
}

DIFFERENT = {
    "one short": """
        Z[i, j] = 0
        for k in seq(1, K):
            Z[i, j] += X[i, k] * Y[k, j]
    """,
    "begun anew": """
        Z[i, j] = 0
        for k in seq(0, K):
            Z[i, j] = X[i, k] * Y[k, j]
    """,
    "not cleared": """
        for k in seq(0, K):
            Z[i, j] += X[i, k] * Y[k, j]
    """,
    "another element": """
        Z[i, j] = 0
        for k in seq(0, K):
            Z[i, j] += X[i, k] * Y[0, j]
    """,
    "a sum": """
        Z[i, j] = 0
        for k in seq(0, K):
            Z[i, j] += X[i, k] + Y[k, j]
    """,
    "an input changed": """
        Z[i, j] = 0
        for k in seq(0, K):
            Z[i, j] += X[i, k] * Y[k, j]
        X[i, 0] = 0
    """,
    "changed too early": """
        Z[i, j] = 0
        for k in seq(0, K):
            Z[i, j] += X[i, k] * Y[k, j]
            Y[k, j] = 0
    """,
}

UNDECIDED = {
    "narrow": """
        t: f16
        t = 0
        for k in seq(0, K):
            t += X[i, k] * Y[k, j]
        Z[i, j] = t
    """,
    "twice": """
        Z[i, j] = 0
        for k in seq(0, K):
            Z[i, j] += X[i, k] * Y[k, j]
        Z[i, j] += X[i, 0] * Y[0, j]
    """,
    "never written": """
        t: f32
        for k in seq(0, K):
            t += X[i, k] * Y[k, j]
        Z[i, j] = t
    """,
}


@pytest.mark.parametrize("name", EQUAL)
def test_equivalent(name: str) -> None:
    other = product(EQUAL[name])
    assert schedule.equivalent(gemm, other) == schedule.Equivalence("equivalent")
    assert gemm.equivalent_to(other) and other.equivalent_to(gemm)


@pytest.mark.parametrize("name", DIFFERENT)
def test_different(name: str) -> None:
    other = product(DIFFERENT[name])
    for found in (schedule.equivalent(gemm, other), schedule.equivalent(other, gemm)):
        assert found.word == "different" and not found
        assert found.sizes is not None and "first at M = 1, N = 1, K = " in found.reason


@pytest.mark.parametrize("name", UNDECIDED)
def test_undecided(name: str) -> None:
    assert schedule.equivalent(gemm, product(UNDECIDED[name])).word == "undecided"


def test_different_is_said_of_results_alone() -> None:
    """Terms that only look different: what both leave is the same."""
    one = product(DIFFERENT["a sum"])
    other = product(DIFFERENT["a sum"].replace("X[i, k] + Y[k, j]", "Y[k, j] + X[i, k]"))
    found = schedule.equivalent(one, other)
    assert found.word == "undecided" and "there the results were the same" in found.reason


def activation(first: int) -> Procedure:
    @proc
    def activation(M: size, K: size, x: f32[M, K] @ DRAM, y: f32[M] @ DRAM):
        for i in seq(0, M):
            t: f32
            t = 0
            for k in seq(first, K):
                t += x[i, k]
            y[i] = max(t, 0.0) * 2.0

    return activation


@proc
def by_columns(M: size, K: size, x: f32[M, K] @ DRAM, y: f32[M] @ DRAM):
    t: f32[M]
    for i in seq(0, M):
        t[i] = 0
    for k in seq(0, K):
        for i in seq(0, M):
            t[i] += x[i, K - 1 - k]
    for i in seq(0, M):
        y[i] = max(t[i], 0.0) * 2.0


def test_sums_within_expressions() -> None:
    assert schedule.equivalent(activation(0), by_columns)
    assert schedule.equivalent(activation(1), by_columns).word == "different"


def with_sum(form: str) -> Procedure:
    """t is a sum, x and y are given."""
    return made(
        "@proc\ndef f(n: size, x: f32[n] @ DRAM, y: f32[n] @ DRAM, z: f32[n] @ DRAM):\n"
        "    for i in seq(0, n):\n"
        "        t: f32\n        t = 0\n"
        "        for k in seq(0, n):\n            t += x[k]\n"
        f"        z[i] = {form}\n"
    )


@pytest.mark.parametrize(
    ("one", "other"),
    [
        ("y[i] - t", "t - y[i]"),
        ("y[i] / t", "t / y[i]"),
        ("select(y[i], t, 0.0, 1.0)", "select(t, y[i], 0.0, 1.0)"),
        ("select(x[i], y[i], t, x[i])", "select(t, x[i], y[i], x[i])"),
        ("x[i] - y[i]", "y[i] - x[i]"),
    ],
)
def test_the_places_of_what_is_read_count(one: str, other: str) -> None:
    assert schedule.equivalent(with_sum(one), with_sum(one))
    assert not schedule.equivalent(with_sum(one), with_sum(other))


def test_products_of_three_round_in_their_order() -> None:
    one, other = with_sum("x[i] * y[i] * x[0]"), with_sum("x[0] * y[i] * x[i]")
    assert schedule.equivalent(one, one) and not schedule.equivalent(one, other)


def stored(dtype: str) -> Procedure:
    """Rounded on the way to a type that does not have all numbers."""
    return made(
        "@proc\ndef f(n: size, x: f32[n] @ DRAM, y: f32[n] @ DRAM):\n"
        f"    for i in seq(0, n):\n        t: {dtype}\n        t = x[i] * x[i]\n"
        "        y[i] = t * 2.0\n"
    )


def test_storage_in_another_type_is_another_value() -> None:
    types = ("f16", "bf16", "f32", "f64")
    for one in types:
        for other in types:
            assert bool(schedule.equivalent(stored(one), stored(other))) == (one == other), (
                one,
                other,
            )


@proc
def running(n: size, x: f32[n] @ DRAM, y: f32[n] @ DRAM):
    y[0] = x[0]
    for i in seq(1, n):
        y[i] = y[i - 1] * 2.0 + x[i]


@proc
def carried(n: size, x: f32[n] @ DRAM, y: f32[n] @ DRAM):
    t: f32
    t = x[0]
    y[0] = t
    for i in seq(1, n):
        u: f32
        u = t * 2.0 + x[i]
        t = u
        y[i] = u


@proc
def from_one(n: size, x: f32[n] @ DRAM, y: f32[n] @ DRAM):
    y[0] = 1.0
    for i in seq(1, n):
        y[i] = y[i - 1] * 2.0 + x[i]


def test_recurrences() -> None:
    assert schedule.equivalent(running, carried)
    assert schedule.equivalent(running, from_one).word == "different"


def test_parameters_correspond_by_place() -> None:
    assert schedule.equivalent(gemm, running).word == "different"
    assert schedule.equivalent(activation(0), running).word == "different"


# --- careless comparisons -----------------------------------------------------------------------

ADDED_TWICE = """
    a: f32
    b: f32
    a = X[i, 0]
    b = X[i, 0]
    Z[i, j] = a
    Z[i, j] += b
"""


@pytest.mark.parametrize(
    ("owner", "name", "found", "one", "other"),
    [
        (Terms, "_check_distinct", lambda *_: None, "Z[i, j] = X[i, 0]", ADDED_TWICE),
        (isl_unions, "is_function", lambda _: True, EQUAL["in another order"], UNDECIDED["twice"]),
        (equivalence, "same_term", lambda *_: True, DIFFERENT["a sum"], EQUAL["slices"]),
    ],
)
def test_each_condition_is_needed(monkeypatch, owner, name, found, one, other) -> None:
    first, second = product(one), product(other)
    assert not schedule.equivalent(first, second)
    monkeypatch.setattr(owner, name, found)
    assert schedule.equivalent(first, second)


# --- random programs ----------------------------------------------------------------------------


def mutated(random: Random, text: str) -> str:
    """Another bound, index, constant, operator, or two lines exchanged."""
    lines = text.splitlines()
    at = random.randrange(len(lines))
    changes = [("+ 1", "+ 2"), ("+ 0", "+ 1"), ("+=", "="), (" = ", " += "), ("(0, n)", "(1, n)")]
    changes += [("<", ">="), ("==", "<"), ("y[", "y[1 + "), ("+ 2", "+ 0"), ("= 1", "= 2")]
    old, new = random.choice(changes)
    if random.random() < 0.7:
        lines[at] = lines[at].replace(old, new, 1)
    elif at and len(lines[at]) - len(lines[at].lstrip()) == len(lines[at - 1]) - len(
        lines[at - 1].lstrip()
    ):
        lines[at - 1], lines[at] = lines[at], lines[at - 1]
    return "\n".join(lines) + "\n"


def results(p: Procedure, n: int) -> tuple[np.ndarray, np.ndarray]:
    """On small integers, of which all sums are exact."""
    random = np.random.default_rng(n)
    x = random.integers(-4, 5, (n + 3, n + 3)).astype(np.float32)
    y = random.integers(-4, 5, n + 3).astype(np.float32)
    p.run(n=n, x=x, y=y)
    return x, y


words: Counter[str] = Counter()


@settings(derandomize=True, max_examples=140, deadline=None)
@given(st.integers(0, 1 << 32))
def any_change(seed: int) -> None:
    random = Random(seed)
    text = program(random)
    first = made(text)
    try:
        second = made(mutated(random, text))
    except Exception:
        return  # it is no program any more
    if any(p.ir is None or violations(p.ir) for p in (first, second)):
        return  # it is ill-formed, or leaves its variables
    assert schedule.equivalent(first, first).word != "different"
    found = schedule.equivalent(first, second)
    words[found.word] += 1
    same = all(
        (one == other).all()
        for n in range(1, 6)
        for one, other in zip(results(first, n), results(second, n), strict=True)
    )
    assert same or not found, text


@pytest.mark.slow
def test_what_is_called_equivalent_computes_the_same() -> None:
    words.clear()
    any_change()
    assert words["equivalent"] > 15 and words.total() > 70, words


# --- in bounded time ------------------------------------------------------------------------------


def pair() -> tuple[Procedure, Procedure]:
    """A sum of a copy, and the same without."""
    whole = product("Z[i, j] = 0\nfor k in seq(0, K):\n    Z[i, j] += X[i, k] * Y[k, j]")
    copied = product(
        "Z[i, j] = 0\nfor k in seq(0, K):\n    v: f32 @ DRAM\n    v = X[i, k]\n"
        "    Z[i, j] += v * Y[k, j]"
    )
    return whole, copied


def test_relations_of_many_pieces_are_compared_apart(monkeypatch: pytest.MonkeyPatch) -> None:
    asked = []
    apart = processes.isolated
    monkeypatch.setattr(equivalence, "FEW", 0)
    monkeypatch.setattr(equivalence, "isolated", lambda *a: (asked.append(1), apart(*a))[1])
    whole, copied = pair()
    assert whole.equivalent_to(copied).word == "equivalent" and asked
    other = product("Z[i, j] = 0\nfor k in seq(1, K):\n    Z[i, j] += X[i, k] * Y[k, j]")
    assert other.equivalent_to(copied).word == "different" and len(asked) == 2


def test_a_comparison_that_does_not_end_is_undecided(monkeypatch: pytest.MonkeyPatch) -> None:
    """ISL's budget is not asked everywhere: the clock ends it."""
    compare = equivalence.Comparison.compare

    def endless(self: equivalence.Comparison) -> None:
        compare(self)
        while True:
            pass

    monkeypatch.setattr(equivalence.Comparison, "compare", endless)
    monkeypatch.setattr(equivalence, "FEW", 0)
    monkeypatch.setattr(equivalence, "PATIENCE", 1.0)
    cut, (whole, copied) = cuts(), pair()
    assert whole.equivalent_to(copied).word == "undecided"
    assert cuts() == cut + 1, "what another machine may decide is not kept"


@pytest.mark.parametrize(
    ("pieces", "function"),
    [
        (["A[i] -> B[i] : 0 <= i < 4", "A[i] -> B[i + 1] : i > 9"], True),
        (["A[i] -> B[i] : 0 <= i < 4", "A[i] -> B[i + 1] : i > 2"], False),
        (["A[i] -> B[i] : 0 <= i < 4", "A[i] -> C[i] : i > 9"], True),
        (["A[i] -> B[i] : 0 <= i < 4", "A[i] -> C[i] : i > 2"], False),
        # Pieces of one function, which their hull is as well, and of two.
        (
            [f"A[i] -> B[j] : 2j <= i <= 2j + 1 and {n} <= i < {n + 5}" for n in range(0, 40, 3)],
            True,
        ),
        (
            [f"A[i] -> B[j] : 2j <= i <= 2j + {n // 39 + 1} and i > {n}" for n in range(0, 40, 3)],
            False,
        ),
    ],
)
def test_functions_of_many_pieces(pieces: list[str], function: bool) -> None:
    found = isl_unions.relation([], pieces)
    assert isl_unions.is_function(found) == found.is_single_valued() == function


# --- 0 and -0 ---------------------------------------------------------------------------------


def of_constant(text: str) -> Procedure:
    return made(
        f"@proc\ndef f(x: f32[4] @ DRAM):\n    for i in seq(0, 4):\n        x[i] = {text}\n"
    )


@pytest.mark.parametrize(
    ("one", "other"), [("ordinal(0.0)", "ordinal(-0.0)"), ("1.0 / 0.0", "1.0 / -0.0")]
)
def test_constants_of_two_signs_are_two(one: str, other: str) -> None:
    one, other = (f"select({text}, 0, 2.0, 3.0)" for text in (one, other))
    assert of_constant(one).equivalent_to(of_constant(other)).word == "different"
    assert of_constant(one).equivalent_to(of_constant(one))


def test_a_constant_of_another_sign_is_put_in_its_place_by_no_exact_step() -> None:
    p = of_constant("1.0 * 0.0")
    product = schedule.find(p, "x[_] = _").expressions()[0]
    assert schedule.assumptions(schedule.rewrite_expr(p, "x[_] = _", product, "1.0 * -0.0"))
    p = of_constant("1.0 / 0.0")
    quotient = schedule.find(p, "x[_] = _").expressions()[0]
    with pytest.raises(ExoGpuError, match="divides by zero"):
        schedule.rewrite_expr(p, "x[_] = _", quotient, "1.0 / -0.0")
    negative = of_constant("-0.0")
    with pytest.raises(ExoGpuError, match="X991"):
        schedule.replace(of_constant("0.0"), "i", negative)
    assert schedule.replace(of_constant("-0.0"), "i", negative)
