"""The weakest conditions on sizes: `tests/cases/conditions` states them, the machine confirms."""

from __future__ import annotations

import re
from pathlib import Path

import pytest

from exogpu.api import Procedure, collecting
from exogpu.diagnostics.verdict import Policy
from exogpu.ir.render import identifier
from exogpu.ir.walk import holds
from exogpu.solvers import isl
from exogpu.solvers import isl_relations as rel
from exogpu.symbolic.search.weakest_condition import condition_excluding, weakest_condition
from tests.machine.build import Builder

pytestmark = pytest.mark.slow

CASES = Path(__file__).parent.parent / "cases" / "conditions" / "kernels.py"
EXPECTED = re.findall(r"^(\w+) = .*# (safe iff .+|never safe)$", CASES.read_text(), re.MULTILINE)


@pytest.fixture(scope="module")
def kernels() -> dict[str, Procedure]:
    with collecting() as found:
        exec(compile(CASES.read_text(), str(CASES), "exec"), {"__name__": "kernels"})
    return {p.name: p for p in found}


@pytest.mark.parametrize(("name", "expected"), EXPECTED)
def test_the_comment_holds(kernels: dict[str, Procedure], name: str, expected: str) -> None:
    procedure = kernels[name]
    assert procedure.ir is not None
    found = weakest_condition(procedure.ir, procedure.amir(Policy.PTX))
    assert ("never safe" if found is None else f"safe iff {found}") == expected
    # The machine agrees at each of the smallest sizes, and some beyond.
    params = [p.name for p in procedure.amir().params]
    for value in (1, 2, 3, 4, 5, 15, 16, 17, 32, 33, 64):
        sizes = {name: value if name.name != "M" else 2 for name in params}
        verdict = procedure.check_at(**{name.name: value for name, value in sizes.items()})
        assert (verdict.word == "proved") == (found is not None and holds(found.expr, sizes))


TEXTS = {
    "K = 1": "K = 1",
    "K mod 32 = 0": "K mod 32 = 0",
    "K mod 3 = 1 or M = 2": "M = 2 or (K - 1) mod 3 = 0",
    "K <= 4 and M > K": "K <= 4 and M >= K + 1",
    "floor((K + 31) / 32) < M": None,
    "K mod 4 >= 2 and M mod 2 = 0": None,
    "exists j : 2j <= K and 3j >= M": None,
    "2 * M != K": None,
}


@pytest.mark.parametrize("text", TEXTS)
def test_conditions_are_exact_and_short(text: str) -> None:
    b = Builder()
    b.size("K")
    b.size("M")
    program = b.program()
    names = {p.name.name: identifier(p.name) for p in program.params}
    wanted = re.sub(r"\b[KM]\b", lambda found: names[found[0]], text)
    good = rel.context(names.values(), wanted)
    found = condition_excluding(program, isl.subtract(rel.context(names.values(), "0 = 0"), good))
    assert found is not None
    if TEXTS[text] is not None:
        assert str(found) == TEXTS[text]
    for k in range(1, 40):
        for m in range(1, 20):
            at = {p.name: value for p, value in zip(program.params, (k, m), strict=True)}
            there = {identifier(name): value for name, value in at.items()}
            assert holds(found.expr, at) == (not isl.is_empty(isl.fix(good, there)))


def test_there_are_cases() -> None:
    assert len(EXPECTED) == 7
