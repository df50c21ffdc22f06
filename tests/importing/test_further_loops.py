"""mbarriers that each iteration initialises, roles that have an iteration more, and `while`."""

from __future__ import annotations

import pytest

from exogpu.imported import ImportedKernel, UnimportedKernel, import_ttgir
from tests.importing.made import FURTHER, KERNELS
from tests.importing.mutating import mutants

TEXTS = {made.kernel: made.text for made in (*KERNELS, *FURTHER)}


def without(name: str, *words: str, nth: int = 0, count: int = 1) -> str:
    """The TTGIR without the nth line that has all of these words, and those that follow it."""
    lines = TEXTS[name].split("\n")
    found = [at for at, line in enumerate(lines) if all(word in line for word in words)]
    del lines[found[nth] : found[nth] + count]
    return "\n".join(lines)


# --- an mbarrier of each iteration ----------------------------------------------------------


def test_each_iteration_declares_its_mbarriers():
    from exogpu.ir.nodes import BarrierAlloc, For, Seq
    from exogpu.ir.walk import walk

    kernel = import_ttgir(TEXTS["all_products"])
    assert isinstance(kernel, ImportedKernel) and kernel.ir is not None
    loops = [s for s in walk(kernel.ir.body) if isinstance(s, For) and isinstance(s.mode, Seq)]
    assert any(isinstance(one, BarrierAlloc) for one in loops[0].body)


@pytest.mark.parametrize(
    ("words", "nth", "said"),
    [
        (("inval_barrier",), 2, "initialised again by the next iteration"),
        (("inval_barrier",), 0, "initialised again by the next iteration"),
        (("init_barrier",), 1, "not all threads see it initialised"),
        (("ttg.barrier local",), 7, "threads may still use it"),
    ],
)
def test_an_mbarrier_that_an_iteration_leaves_in_use_is_refused(words, nth, said):
    kernel = import_ttgir(without("all_products", *words, nth=nth))
    assert isinstance(kernel, UnimportedKernel) and kernel.reason.code == "K104"
    reason = kernel.check().reason
    assert said in reason and "kernels/plain.py:" in reason


def test_what_an_iteration_leaves_under_way_is_not_proved():
    """The first tile of each product is loaded for the first row of tiles alone."""
    lines = TEXTS["all_products"].split("\n")
    (at,) = [n for n, line in enumerate(lines) if "%acc_6 = arith.cmpi sgt" in line]
    other = "      %acc_6 = arith.cmpi slt, %tile, %c132_i32 : i32 loc(unknown)"
    verdict = import_ttgir("\n".join([*lines[:at], other, *lines[at + 1 :]])).check(timeout=60)
    assert verdict.word in ("refuted", "undecided")


# --- roles that have an iteration more ------------------------------------------------------


@pytest.mark.parametrize("name", ["halve_first_ahead", "halve_last_after"])
def test_a_loop_with_an_iteration_more_is_proved_from_one_iteration_on(name):
    verdict = import_ttgir(TEXTS[name]).check()
    assert verdict.word == "proved"
    assert any(one.startswith("trips_102 >= 1") for one in verdict.assumptions)


@pytest.mark.parametrize(("name", "nth"), [("halve_first_ahead", 0), ("halve_last_after", 1)])
def test_without_the_load_apart_from_the_loop_it_is_not_proved(name, nth):
    lines = TEXTS[name].split("\n")
    loads = ("ttng.barrier_expect", "ttng.async_tma_copy_global_to_local")
    found = [at for at, line in enumerate(lines) if any(load in line for load in loads)]
    gone = found[2 * nth : 2 * nth + 2]
    left = "\n".join(line for at, line in enumerate(lines) if at not in gone)
    verdict = import_ttgir(left).check(timeout=60)
    assert verdict.word == "refuted" and verdict.hazards[0].kind.value == "DEADLOCK"


def test_an_order_that_was_not_found_is_no_deadlock():
    """The load waits for the first slot alone: no role is stuck, though none can be read first."""
    found = mutants(TEXTS["square_tiles"])
    (text,) = [m.text for m in found if m.line == 93 and m.what.startswith("first slot")]
    verdict = import_ttgir(text).check(timeout=60)
    assert verdict.word == "undecided" and "no order was found" in verdict.reason


def test_one_iteration_more_that_nobody_loads_for_is_a_deadlock():
    found = mutants(TEXTS["square_tiles"])
    (text,) = [m.text for m in found if m.line == 58 and m.what.startswith("one more turn")]
    verdict = import_ttgir(text).check(timeout=60)
    assert verdict.word == "refuted" and verdict.hazards[0].kind.value == "DEADLOCK"


# --- loops with `while` ---------------------------------------------------------------------


def altered(old: str, new: str) -> str:
    """The kernel with `while`, with one text in place of another, each time."""
    assert old in TEXTS["negate_while"]
    return TEXTS["negate_while"].replace(old, new)


def test_a_loop_with_while_that_counts_is_proved():
    kernel = import_ttgir(TEXTS["negate_while"])
    assert isinstance(kernel, ImportedKernel)
    verdict = kernel.check()
    assert verdict.word == "proved" and "(63 + columns) // 64" in " ".join(verdict.remarks)


def test_a_mistake_in_a_loop_with_while_is_refuted():
    verdict = import_ttgir(without("negate_while", "fence_async_shared")).check(timeout=60)
    assert verdict.word == "refuted" and verdict.hazards[0].kind.value == "WAR"


@pytest.mark.parametrize(
    ("old", "new"),
    [
        ("arith.cmpi slt, %first_1, %columns", "arith.cmpi ne, %first_1, %columns"),
        ("arith.cmpi slt, %first_1, %columns", "arith.cmpi slt, %first_1, %step"),
        ("scf.condition(%13) %step, %first_1", "scf.condition(%13) %first_1, %first_1"),
        ("%first_4 = arith.addi %first_1, %c64_i32", "%first_4 = arith.muli %first_1, %c64_i32"),
        ("%first_4 = arith.addi %first_1, %c64_i32", "%first_4 = arith.addi %first_1, %step"),
    ],
)
def test_a_loop_with_while_that_does_not_count_is_refused(old, new):
    kernel = import_ttgir(altered(old, new))
    assert isinstance(kernel, UnimportedKernel) and kernel.reason.code == "K104"
    reason = kernel.check().reason
    assert "`while`" in reason and "kernels/copies.py:" in reason


def test_names_of_both_regions_of_while_are_told_apart():
    """The counter's name in the first region is another value's in the second, and its own is
    swapped with the other's."""
    text = altered("scf.condition(%13) %step, %first_1", "scf.condition(%13) %first_1, %step")
    assert import_ttgir(text).check(timeout=60).word in ("refuted", "undecided")
