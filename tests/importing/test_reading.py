"""TTGIR is read whole or refused; and values are exact."""

from __future__ import annotations

import random

import pytest
from hypothesis import given, settings
from hypothesis import strategies as st

from exogpu.importing.induction import closed_forms, number
from exogpu.importing.mlir_text import read_module, walk
from exogpu.importing.polynomial_values import (
    Value,
    Variable,
    atom_value,
    choice,
    compare,
    divide_toward_zero,
    floor,
    integer_value,
    relation,
    remainder,
)
from exogpu.importing.refusals import RefusedError
from exogpu.importing.value_proofs import counter, equal, follows, settled
from tests.importing.made import KERNELS

X, K = Variable("x"), Variable("k", natural=True)


@pytest.mark.parametrize("made", KERNELS, ids=lambda made: made.kernel)
def test_every_operation_is_read(made):
    module = read_module(made.text)
    lines = [line for line in made.text.splitlines() if " = " in line or "." in line]
    operations = [
        line
        for line in lines
        if line.startswith("  ") and not line.strip().startswith(("^", "}", "default", "partition"))
    ]
    assert module.operations == len(operations) == len(list(walk((module.function,))))


@pytest.mark.parametrize("made", KERNELS, ids=lambda made: made.kernel)
def test_a_line_of_another_form_is_refused(made):
    rng, lines = random.Random(made.kernel), made.text.splitlines()
    inside = [at for at, line in enumerate(lines) if line.startswith("    ")]
    for at in rng.sample(inside, 10):
        for other in ("    %x = what is this", "    unknown", "    %3 = : i32"):
            changed = [*lines[:at], other, *lines[at:]]
            with pytest.raises(RefusedError) as error:
                read_module("\n".join(changed))
            assert error.value.diagnostic.code == "K101"


def test_a_file_that_is_cut_off_is_refused():
    text = KERNELS[0].text
    for part in (0.2, 0.5, 0.7):
        with pytest.raises(RefusedError):
            read_module(text[: int(part * text.index("\n#loc = "))])


VALUES = st.recursive(
    st.sampled_from([atom_value(X), atom_value(K), *map(integer_value, range(-6, 7))]),
    lambda inner: st.one_of(
        st.builds(lambda a, b: a + b, inner, inner),
        st.builds(lambda a, n: a * n, inner, st.integers(-4, 4)),
        st.builds(lambda a, b: a * b, inner, inner),
        st.builds(floor, inner, st.integers(1, 7)),
        st.builds(remainder, inner, st.integers(1, 7)),
        st.builds(
            lambda a, n: divide_toward_zero(a, integer_value(n), "quotient"),
            inner,
            st.integers(1, 7),
        ),
        st.builds(
            lambda a, n: divide_toward_zero(a, integer_value(n), "rest"), inner, st.integers(1, 7)
        ),
        st.builds(lambda a, b, c: choice(compare("<=", a), b, c), inner, inner, inner),
    ),
    max_leaves=6,
)


def at(value: Value, x: int, k: int) -> int:
    found = number(value, {X: x, K: k})
    assert found is not None
    return found


@settings(max_examples=300, deadline=None)
@given(VALUES, VALUES, st.integers(1, 8), st.integers(-40, 40), st.integers(0, 40))
def test_simplified_values_are_those_of_numbers(a, b, n, x, k):
    one, other = at(a, x, k), at(b, x, k)
    assert at(a + b, x, k) == one + other
    assert at(a * b, x, k) == one * other
    assert at(floor(a, n), x, k) == one // n
    assert at(remainder(a, n), x, k) == one % n
    quotient = int(one / n) if abs(one) < 1 << 50 else None
    if quotient is not None:
        assert at(divide_toward_zero(a, integer_value(n), "quotient"), x, k) == quotient
        assert at(divide_toward_zero(a, integer_value(n), "rest"), x, k) == one - quotient * n


@settings(max_examples=200, deadline=None)
@given(VALUES, VALUES, st.integers(-40, 40), st.integers(0, 40))
def test_comparisons_are_those_of_numbers(a, b, x, k):
    from exogpu.importing.induction import truth

    one, other = at(a, x, k), at(b, x, k)
    for name, holds in (
        ("sle", one <= other),
        ("slt", one < other),
        ("sge", one >= other),
        ("sgt", one > other),
        ("eq", one == other),
        ("ne", one != other),
    ):
        condition = relation(name, a, b)
        assert condition is not None and truth(condition, {X: x, K: k}) == holds


def test_division_toward_zero_is_settled_where_nothing_is_negative():
    step = atom_value(K) - 1
    rest = divide_toward_zero(step, integer_value(3), "rest")
    assert settled(rest, ()) == rest
    assert settled(rest, (compare("<=", integer_value(1) - atom_value(K)),)) == remainder(step, 3)


def test_follows_does_not_hold_of_what_may_fail():
    assert follows((), compare("<=", atom_value(K) * -1))
    assert not follows((), compare("<=", atom_value(X) * -1))
    assert not equal((), remainder(atom_value(K), 3), remainder(atom_value(K), 4))


TURN = Variable("turn", natural=True, within=frozenset({"turn"}))


def carried(name: str) -> Variable:
    return Variable(name, within=frozenset({"turn"}))


@pytest.mark.parametrize("n", range(1, 9))
def test_counters_that_wrap_and_their_phases_have_closed_forms(n):
    """`slot = slot + 1 == n ? 0 : slot + 1; phase ^= slot == 0`, as pipelines have it."""
    slot, phase = carried("slot"), carried("phase")
    after = atom_value(slot) + 1
    wraps = compare("==", after - n)
    following = {
        slot: choice(wraps, Value(), after),
        phase: choice(wraps, remainder(atom_value(phase) + 1, 2), atom_value(phase)),
    }
    first = {slot: Value(), phase: Value()}
    found = closed_forms(TURN, counter("turn"), first, following, ())
    values = {slot: 0, phase: 0}
    for turn in range(40):
        for one in (slot, phase):
            assert number(found[one], {TURN: turn}) == values[one]
        values = {one: number(value, dict(values)) for one, value in following.items()}


def test_a_form_that_only_seems_right_is_not_proved():
    """It agrees for as many iterations as are tried, and not further."""
    slot = carried("slot")
    late = compare("<=", integer_value(60) - atom_value(TURN))
    following = {slot: choice(late, integer_value(7), remainder(atom_value(slot) + 1, 3))}
    assert not closed_forms(TURN, counter("turn"), {slot: Value()}, following, ())
