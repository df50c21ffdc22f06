"""Generated programs: the prover's violations are those of the literal machine, as sets of
(kind, variable, element, check, iteration, record), at every size from 0 on.

`campaigns/agreement.py` compares thousands more.
"""

from __future__ import annotations

from collections.abc import Iterator
from types import ModuleType

import pytest

from exogpu.analysis import bounds, inline, requirements
from exogpu.ir.nodes import CExpr, Int
from exogpu.ir.types import Sym
from exogpu.symbolic.search.analysis import analyse
from tests.symbolic.agreement import (
    RUNNING,
    SHAPES,
    admitting_zero,
    check,
    choices_wrong,
    generated,
    small_sizes,
    sources_wrong,
)

pytestmark = pytest.mark.slow

SEEDS = {
    "chains": 24,
    "fences": 12,
    "proxies": 6,
    "straight_line": 30,
    "ring": 12,
    "multicast": 12,
    "waits": 16,
    "groups": 12,
    "nested": 12,
    "threads": 6,
    "tasked": 20,
    "tiles": 6,
    "nests": 10,
    "casts": 3,
    "resident": 6,
    "slots": 10,
    "relays": 4,
    "flags": 3,
    "roles": 4,
    "turns": 6,
    "handovers": 30,
    "unequal": 6,
    "windows": 10,
}
"""By shape, how many programs: a few tenths of a second each for rings, less for others; nests and
windows take a second."""

CASES = [
    (shape, seed)
    for shape, count in SEEDS.items()
    for first in (501 if shape == "casts" else 500,)  # of casts, some take half a minute
    for seed in range(first, first + count)
]


def test_every_shape_is_compared() -> None:
    assert set(SEEDS) == set(SHAPES)


@pytest.mark.parametrize(("shape", "seed"), CASES)
def test_same_violations(shape: str, seed: int) -> None:
    program = admitting_zero(generated(shape, seed))
    sizes = small_sizes(shape, program)
    check(program, sizes)
    if shape in RUNNING:
        safe = not analyse(program).violations
        assert not any(choices_wrong(program, at, seed, safe) for at in sizes[-6:])
    if shape == "windows":
        assert sources_wrong(seed, sizes) == []


def outer_offset_alone(left: CExpr, right: CExpr) -> CExpr:
    return right if left == Int(0) else left


def nothing_behind(
    views: requirements.Views, name: Sym, indices: tuple[CExpr, ...]
) -> Iterator[requirements.Element]:
    yield from list(requirements.elements(views, name, indices))[:1]


@pytest.mark.parametrize(
    ("module", "name", "mistake"),
    [(inline, "_plus", outer_offset_alone), (bounds, "elements", nothing_behind)],
    ids=["an offset in a window is lost", "the bounds of a window alone"],
)
def test_mistakes_with_windows_are_seen(
    module: ModuleType, name: str, mistake: object, monkeypatch: pytest.MonkeyPatch
) -> None:
    monkeypatch.setattr(module, name, mistake)
    assert any(sources_wrong(seed, [{"K": 2}]) for seed in range(500, 510))
