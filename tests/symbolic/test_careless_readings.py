"""Each careless reading of the rules, as a mutant of the prover: some program must tell it apart.

A reading that a pitfall warns of is told apart by one of the pitfalls' programs; the others by a
program of the decisions' tests, or by a generated one.  A mutant that agreed with the machine on
all of them would show that the tests do not look at the rule at all.
"""

from __future__ import annotations

from collections.abc import Iterator
from functools import cache

import pytest

from exogpu.symbolic.search.analysis import analyse
from tests.machine import decisions, pitfalls
from tests.symbolic.agreement import Sizes, admitting_zero, generated, machine_set, prover_set
from tests.symbolic.careless import MUTANTS
from tests.symbolic.suspects import Suspect, told, told_by

pytestmark = pytest.mark.slow


@cache
def drawn(shape: str, seed: int) -> Suspect:
    program = admitting_zero(generated(shape, seed))
    names = [parameter.name.name for parameter in program.params]
    sizes: list[Sizes] = [dict.fromkeys(names, k) for k in (1, 2, 5)] if names else [{}]
    return program, [(at, machine_set(program, at)) for at in sizes]


def suspects(pitfall: int | None) -> Iterator[Suspect]:
    yield from told()
    yield from told_by(pitfalls)
    if pitfall is None:
        yield from told_by(decisions)
        for seed in range(500, 515):
            for shape in ("chains", "fences", "straight_line", "groups", "tasked", "ring"):
                yield drawn(shape, seed)
        for seed in range(500, 505):
            for shape in ("resident", "handovers"):
                yield drawn(shape, seed)


def told_apart(pitfall: int | None = None) -> bool:
    """Whether some program's violations now differ from the machine's."""
    for program, expected in suspects(pitfall):
        findings = analyse(program)
        if findings.undecided:
            continue
        if any(prover_set(findings, at) != theirs for at, theirs in expected):
            return True
    return False


def test_unchanged_prover_agrees() -> None:
    assert len(told_by(pitfalls)) > 50 and len(told_by(decisions)) > 50
    assert not told_apart()


@pytest.mark.parametrize("name", MUTANTS)
def test_careless_reading_is_told_apart(name: str, monkeypatch: pytest.MonkeyPatch) -> None:
    pitfall, apply = MUTANTS[name]
    apply(monkeypatch)
    assert told_apart(pitfall)
