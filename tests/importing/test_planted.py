"""Mistakes that people make in kernels of Gluon and Triton, planted one by one: none is proved."""

from __future__ import annotations

import pytest

from exogpu.diagnostics.hazards import HazardKind
from exogpu.imported import import_ttgir
from tests.importing.made import KERNELS
from tests.importing.mutating import mutants

BY_NAME = {made.kernel: made for made in KERNELS}

PLANTED = [
    # The fence between what threads access and what a copy does.
    ("square_tiles", "without ttng.fence_async_shared", 0, HazardKind.WAR),
    ("square_tiles", "without ttng.fence_async_shared", 1, HazardKind.RAW),
    ("add_products", "without ttng.fence_async_shared", 1, HazardKind.RAW),
    # An arrival before the access that it tells of: a read, a write, a store.
    ("square_tiles", "early ttng.arrive_barrier", 0, HazardKind.WAR),
    ("square_tiles", "early ttng.arrive_barrier", 1, HazardKind.WAR),
    ("square_tiles", "early ttng.arrive_barrier", 2, HazardKind.WAR),
    # Each phase.
    ("square_tiles", "flipped ttng.wait_barrier", 0, HazardKind.UNINIT),
    ("square_tiles", "flipped ttng.wait_barrier", 1, HazardKind.DEADLOCK),
    ("square_tiles", "flipped ttng.wait_barrier", 2, HazardKind.DEADLOCK),
    ("square_tiles", "flipped ttng.wait_barrier", 3, HazardKind.UNINIT),
    ("multiply", "flipped ttng.wait_barrier", 0, HazardKind.RAW),
    ("multiply", "flipped ttng.wait_barrier", 1, HazardKind.WAW),
    ("multiply", "flipped ttng.wait_barrier", 2, HazardKind.WAW),
    # Each count of what may be pending.
    ("square_tiles", "weaker ttng.async_tma_store_wait", 0, HazardKind.FREE),
    ("multiply", "weaker ttng.warp_group_dot_wait", 0, HazardKind.RAW),
    ("matmul", "weaker ttng.warp_group_dot_wait", 0, HazardKind.WAR),
    ("scale_rows", "weaker ttg.async_wait", 0, HazardKind.RAW),
    # Another slot, and one that is always the first.
    ("square_tiles", "next slot ttg.memdesc_index", 5, HazardKind.UNINIT),
    ("square_tiles", "first slot ttg.memdesc_index", 3, HazardKind.WAR),
    ("square_tiles", "first slot ttg.memdesc_index", 4, HazardKind.PHASE),
    ("square_tiles", "slot past ttg.memdesc_index", 5, HazardKind.BOUNDS),
    ("multiply", "next slot ttg.memdesc_index", 8, HazardKind.RAW),
    ("multiply", "first slot ttg.memdesc_index", 5, HazardKind.RAW),
    # Other bytes, and another count of arrivals.
    ("multiply", "fewer bytes ttng.barrier_expect", 2, HazardKind.PHASE),
    ("multiply", "more bytes ttng.barrier_expect", 2, HazardKind.DEADLOCK),
    ("square_tiles", "count of ttng.init_barrier", 0, HazardKind.DEADLOCK),
    # A second program, or iteration, that writes the same tile.
    ("multiply", "half tile 0 ttng.async_tma_copy_local_to_global", 0, HazardKind.WAW),
    ("multiply", "one tile 1 ttng.async_tma_copy_local_to_global", 0, HazardKind.WAW),
    ("square_tiles", "half tile 1 ttng.async_tma_copy_local_to_global", 0, HazardKind.WAW),
]


CASES = [
    case if at % 3 == 0 else pytest.param(*case, marks=pytest.mark.slow)
    for at, case in enumerate(PLANTED)
]


@pytest.mark.parametrize(("name", "what", "nth", "kind"), CASES)
def test_a_planted_mistake_is_refuted_at_lines_of_the_source(name, what, nth, kind):
    mutant = [one for one in mutants(BY_NAME[name].text) if one.what == what][nth]
    verdict = import_ttgir(mutant.text).check(timeout=90)
    assert verdict.word == "refuted", verdict.reason
    hazard = verdict.hazards[0]
    assert hazard.kind is kind, hazard.message
    for site in (hazard.first, hazard.second):
        if site is not None:
            assert site.span.file == f"kernels/{BY_NAME[name].file}" and site.span.line > 0
    assert all(value >= 0 for value in hazard.sizes.values())


@pytest.mark.parametrize(
    ("mask", "kind"),
    [("%acc_6", HazardKind.WAW), ("%acc_8", HazardKind.FREE), ("%acc_18", HazardKind.FREE)],
)
def test_loads_whose_mask_is_widened_are_refuted(mask, kind):
    """They are loaded beyond the last tile, and nothing waits for them."""
    loads = ("ttng.barrier_expect", "ttng.async_tma_copy_global_to_local")
    lines = [
        line.replace(f"{mask} :", "%true :") if any(name in line for name in loads) else line
        for line in BY_NAME["add_products"].text.split("\n")
    ]
    assert "\n".join(lines) != BY_NAME["add_products"].text
    verdict = import_ttgir("\n".join(lines)).check(timeout=90)
    assert verdict.word == "refuted" and verdict.hazards[0].kind is kind


def test_a_mask_that_is_widened_on_one_side_is_not_proved():
    for mutant in mutants(BY_NAME["add_products"].text):
        if mutant.what.startswith("always"):
            assert import_ttgir(mutant.text).check(timeout=90).word in ("refuted", "undecided")
