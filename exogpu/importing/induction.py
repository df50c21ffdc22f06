"""Values that a loop carries from iteration to iteration, as functions of the iteration's number.

A closed form is guessed from the shapes that kernels use: counters, counters that wrap, phases.
Then it is proved: it holds before the first iteration, and if it holds before an iteration, it
holds before the next.
"""

from __future__ import annotations

from collections.abc import Callable, Iterator, Mapping, Sequence
from functools import lru_cache
from typing import Final

from exogpu.importing import polynomial_values
from exogpu.importing.value_proofs import equal, follows, known_within

SAMPLES: Final = 48
"""Iterations on numbers by which guesses are told apart, before one is proved."""

LONGEST: Final = 16
"""The longest period that is guessed."""


def closed_forms(
    loop: polynomial_values.Variable,
    turn: polynomial_values.Value,
    first: Mapping[polynomial_values.Variable, polynomial_values.Value],
    following: Mapping[polynomial_values.Variable, polynomial_values.Value],
    facts: Sequence[polynomial_values.Condition],
) -> dict[polynomial_values.Variable, polynomial_values.Value]:
    """The carried values before iteration `turn`, of those for which a form was proved.

    `first` has the values before the loop, `following` those after an iteration, as functions of
    `turn` and of the carried values before it.
    """
    found: dict[polynomial_values.Variable, polynomial_values.Value] = {}
    left = dict(following)
    while True:
        new: dict[polynomial_values.Variable, polynomial_values.Value] = {}
        for carried, after in left.items():
            step = after.substitute({one: form for one, form in found.items()})
            if (form := _linear(loop, turn, carried, first[carried], step)) is not None:
                new[carried] = form
                break
        if not new:
            new = _periodic(loop, turn, first, left, found, facts)
        if not new:
            return found
        found |= new
        left = {one: after for one, after in left.items() if one not in found}


def _linear(
    loop: polynomial_values.Variable,
    turn: polynomial_values.Value,
    carried: polynomial_values.Variable,
    first: polynomial_values.Value,
    after: polynomial_values.Value,
) -> polynomial_values.Value | None:
    """The form of what grows by as much in each iteration."""
    growth = after - polynomial_values.Value((((carried,), 1),))
    if carried in growth.variables() or not known_within(growth, loop.name):
        return None
    return first + turn * growth


def _periodic(
    loop: polynomial_values.Variable,
    turn: polynomial_values.Value,
    first: Mapping[polynomial_values.Variable, polynomial_values.Value],
    following: Mapping[polynomial_values.Variable, polynomial_values.Value],
    found: Mapping[polynomial_values.Variable, polynomial_values.Value],
    facts: Sequence[polynomial_values.Condition],
) -> dict[polynomial_values.Variable, polynomial_values.Value]:
    """The forms of counters that wrap and of phases, which depend on each other."""
    after = {one: value.substitute(_atoms(found)) for one, value in following.items()}
    traces = _traces(loop, first, after)
    guessed = {
        one: form
        for one, trace in traces.items()
        if (form := next(_late_shapes(loop, trace), None)) is not None
    }
    while guessed:
        held = {
            one: form
            for one, form in guessed.items()
            if _inductive(loop, turn, form, first[one], after[one], guessed, facts)
        }
        if len(held) == len(guessed):
            return held
        guessed = held
    return {}


def _inductive(
    loop: polynomial_values.Variable,
    turn: polynomial_values.Value,
    form: polynomial_values.Value,
    first: polynomial_values.Value,
    after: polynomial_values.Value,
    forms: Mapping[polynomial_values.Variable, polynomial_values.Value],
    facts: Sequence[polynomial_values.Condition],
) -> bool:
    start = form.substitute({loop: polynomial_values.Value()})
    then = form.substitute({loop: turn + 1})
    step = after.substitute(_atoms(forms))
    return equal(facts, start, first) and equal(facts, step, then)


def _atoms(
    forms: Mapping[polynomial_values.Variable, polynomial_values.Value],
) -> dict[polynomial_values.Atom, polynomial_values.Value]:
    """The same, to be put in place of atoms."""
    return {one: form for one, form in forms.items()}


def _traces(
    loop: polynomial_values.Variable,
    first: Mapping[polynomial_values.Variable, polynomial_values.Value],
    after: Mapping[polynomial_values.Variable, polynomial_values.Value],
) -> dict[polynomial_values.Variable, list[int]]:
    """The values on numbers in the first iterations, of those that numbers determine."""
    now = {one: value.constant for one, value in first.items() if one in after}
    traces: dict[polynomial_values.Variable, list[int]] = {one: [] for one in now}
    for at in range(SAMPLES):
        known: dict[polynomial_values.Atom, int] = {loop: at}
        for one, value in now.items():
            if value is not None:
                traces[one].append(value)
                known[one] = value
        now = {one: number(value, known) for one, value in after.items()}
    return {one: trace for one, trace in traces.items() if len(trace) == SAMPLES}


def _shapes(
    loop: polynomial_values.Variable, trace: Sequence[int], start: int = 0
) -> Iterator[polynomial_values.Value]:
    """The shapes that have these values in the iterations from `start` on.

    They are constants, `(k + a) mod n` and `((k + a) div n + b) mod 2`.
    """
    if len(set(trace[start:])) == 1:
        yield polynomial_values.integer_value(trace[start])
    values = list(enumerate(trace))[start:]
    for shape in _periodic_shapes(loop):
        if all(number(shape, {loop: at}) == value for at, value in values):
            yield shape


@lru_cache(maxsize=16)
def _periodic_shapes(loop: polynomial_values.Variable) -> tuple[polynomial_values.Value, ...]:
    """The shapes that are no constants."""
    turn = polynomial_values.atom_value(loop)
    shapes = [
        polynomial_values.remainder(turn + a, n) + low
        for n in range(2, LONGEST + 1)
        for a in range(n)
        for low in (0, 1)
    ]
    shapes += [
        polynomial_values.remainder(polynomial_values.floor(turn + a, n) + b, 2)
        for n in range(1, LONGEST + 1)
        for a in range(n)
        for b in (0, 1)
    ]
    return tuple(shapes)


def _late_shapes(
    loop: polynomial_values.Variable, trace: Sequence[int]
) -> Iterator[polynomial_values.Value]:
    """The shapes, also those that only hold from the second iteration on."""
    yield from _shapes(loop, trace)
    for shape in _shapes(loop, trace, 1):
        yield polynomial_values.choice(
            polynomial_values.compare("<=", polynomial_values.atom_value(loop)),
            polynomial_values.integer_value(trace[0]),
            shape,
        )


def fitted(
    atom: polynomial_values.Atom, facts: Sequence[polynomial_values.Condition]
) -> polynomial_values.Value | None:
    """An affine form of an atom that depends on one counter; None where none is proved."""
    counters = {
        one
        for one in polynomial_values.atom_value(atom).atoms()
        if isinstance(one, polynomial_values.Variable)
    }
    if len(counters) != 1:
        return None
    (loop,) = counters
    trace = [_atom(atom, {loop: at}) for at in range(SAMPLES)]
    known = [value for value in trace if value is not None]
    if len(known) < SAMPLES:
        return None
    return next(
        (
            shape
            for shape in _shapes(loop, known)
            if equal(facts, polynomial_values.atom_value(atom), shape)
        ),
        None,
    )


def number(
    value: polynomial_values.Value, known: Mapping[polynomial_values.Atom, int]
) -> int | None:
    """The value on numbers; None where it depends on what is not known."""
    total = 0
    for product, factor in value.terms:
        for atom in product:
            one = known.get(atom)
            if one is None:
                one = _atom(atom, known)
            if one is None:
                return None
            factor *= one
        total += factor
    return total


def _atom(atom: polynomial_values.Atom, known: Mapping[polynomial_values.Atom, int]) -> int | None:
    match atom:
        case polynomial_values.Variable():
            return known.get(atom)
        case polynomial_values.Floor() | polynomial_values.Remainder():
            term = number(atom.term, known)
            if term is None:
                return None
            return (
                term // atom.divisor
                if isinstance(atom, polynomial_values.Floor)
                else term % atom.divisor
            )
        case polynomial_values.Toward():
            term, by = number(atom.term, known), number(atom.divisor, known)
            if term is None or not by:
                return None
            quotient = abs(term) // abs(by) * (1 if (term < 0) == (by < 0) else -1)
            return quotient if atom.part == "quotient" else term - quotient * by
        case polynomial_values.Choice():
            holds = truth(atom.condition, known)
            if holds is None:
                return None
            return number(atom.first if holds else atom.second, known)


def truth(
    condition: polynomial_values.Condition, known: Mapping[polynomial_values.Atom, int]
) -> bool | None:
    match condition:
        case polynomial_values.Known():
            return condition.value
        case polynomial_values.Compare():
            value = number(condition.value, known)
            if value is None:
                return None
            return value == 0 if condition.op == "==" else value <= 0
        case polynomial_values.Negation():
            term = truth(condition.term, known)
            return None if term is None else not term
        case polynomial_values.Both():
            first, second = truth(condition.first, known), truth(condition.second, known)
            return None if first is None or second is None else first and second
        case polynomial_values.Unread():
            return None


def lies_between(
    value: polynomial_values.Value,
    low: int,
    high: int | None,
    facts: Sequence[polynomial_values.Condition],
) -> bool:
    """Returns whether `low <= value <= high` is proved; without `high`, `low <= value` alone."""
    enough = follows(
        facts, polynomial_values.compare("<=", polynomial_values.integer_value(low) - value)
    )
    return enough and (
        high is None or follows(facts, polynomial_values.compare("<=", value - high))
    )


def is_within(
    at_once: Callable[[polynomial_values.Value], bool],
    forms: Mapping[str, polynomial_values.Value],
    name: str,
    high: int | None,
    facts: Sequence[polynomial_values.Condition],
) -> bool:
    """Returns whether a carried value is known, and seen or proved to be in its range."""
    form = forms.get(name)
    return form is not None and (at_once(form) or lies_between(form, 0, high, facts))
