"""Kernels that Triton compiled are proved; their mutants are not, but for those that are right.

Decision `imported-kernels`.
"""

from __future__ import annotations

import random

import pytest

from exogpu.diagnostics.hazards import HazardKind
from exogpu.imported import ImportedKernel, UnimportedKernel, import_ttgir
from exogpu.ir.wellformed import flaws
from tests.importing.made import KERNELS
from tests.importing.mutating import mutants
from tests.importing.redundant_mutants import REDUNDANT

BY_NAME = {made.kernel: made for made in KERNELS}


@pytest.mark.parametrize("made", KERNELS, ids=lambda made: made.kernel)
def test_a_right_kernel_is_proved_for_all_trip_counts(made):
    kernel = import_ttgir(made.text)
    assert isinstance(kernel, ImportedKernel) and kernel.ir is not None
    assert not list(flaws(kernel.ir))
    verdict = kernel.check()
    assert verdict.word == "proved", str(verdict)
    assert "integers of 32 bits do not wrap" in verdict.assumptions
    assert not verdict.warnings and verdict.remarks
    assert kernel.ir.span.file == f"kernels/{made.file}"


TRIED = 14
"""Mutants of each kernel that are tried."""


@pytest.mark.slow
@pytest.mark.parametrize("name", REDUNDANT)
def test_no_mutant_is_proved_that_lacks_what_it_needs(name):
    every = list(mutants(BY_NAME[name].text))
    for mutant in random.Random(name).sample(every, min(TRIED, len(every))):
        verdict = import_ttgir(mutant.text).check(timeout=60)
        assert verdict.word in ("proved", "refuted", "undecided")
        if verdict.word == "proved":
            assert (mutant.what, mutant.line) in REDUNDANT[name]


@pytest.mark.parametrize("name", REDUNDANT)
def test_what_is_redundant_is_a_mutant(name):
    assert set(REDUNDANT[name]) <= {(one.what, one.line) for one in mutants(BY_NAME[name].text)}


def changed(name: str, old: str, new: str, nth: int = 0) -> str:
    """The TTGIR of a kernel with the nth of some lines changed."""
    lines = BY_NAME[name].text.split("\n")
    found = [at for at, line in enumerate(lines) if old in line]
    lines[found[nth]] = lines[found[nth]].replace(old, new)
    return "\n".join(lines)


@pytest.mark.parametrize(
    ("name", "old", "new", "nth", "kind"),
    [
        ("square_tiles", "ttng.fence_async_shared", "// ttng", 1, HazardKind.RAW),
        ("square_tiles", "ttng.wait_barrier", "// ttng", 0, HazardKind.UNINIT),
        ("scale_rows", "num = 2", "num = 3", 0, HazardKind.RAW),
        ("matmul", "pendings = 1", "pendings = 2", 0, HazardKind.WAR),
    ],
)
def test_a_planted_mistake_is_refuted_at_lines_of_the_source(name, old, new, nth, kind):
    verdict = import_ttgir(changed(name, old, new, nth)).check(timeout=60)
    assert verdict.word == "refuted"
    (hazard,) = verdict.hazards
    assert hazard.kind is kind
    assert (hazard.first is None) is (kind is HazardKind.UNINIT)
    for site in (hazard.first or hazard.second, hazard.second):
        assert site.span.file == f"kernels/{BY_NAME[name].file}" and site.span.line > 0
    assert "Fence" not in hazard.message + hazard.link + hazard.help
    assert all(value >= 0 for value in hazard.sizes.values())


def test_roles_that_wait_for_each_other_are_a_deadlock():
    text = BY_NAME["square_tiles"].text
    (mutant,) = [m for m in mutants(text) if m.what.startswith("flipped") and m.line == 71]
    kernel = import_ttgir(mutant.text)
    assert isinstance(kernel, UnimportedKernel)
    verdict = kernel.check()
    assert verdict.word == "refuted" and verdict.hazards[0].kind is HazardKind.DEADLOCK
    assert "default waits at line" in verdict.hazards[0].message


def test_too_few_expected_bytes_complete_a_phase_early():
    verdict = import_ttgir(changed("square_tiles", ", 8192, ", ", 4096, ")).check()
    assert verdict.word == "refuted" and verdict.hazards[0].kind is HazardKind.PHASE


def test_too_many_expected_bytes_never_complete():
    verdict = import_ttgir(changed("square_tiles", ", 8192, ", ", 16384, ")).check()
    assert verdict.word == "refuted" and verdict.hazards[0].kind is HazardKind.DEADLOCK


@pytest.mark.parametrize(
    ("old", "new", "code"),
    [
        ("ttng.fence_async_shared {", "ttng.fence_something {", "K102"),
        (
            "ttng.fence_async_shared {bCluster = false}",
            "ttng.fence_async_shared {x = 1 : i32}",
            "K104",
        ),
        ("ttng.arrive_barrier %ready, 1,", "ttng.arrive_barrier %ready, 2,", "K104"),
        ("ttg.barrier local ", "ttg.barrier global_read ", "K104"),
        ("allocation.offset = 24688", "allocation.offset = 16384", "K104"),
        ("allocation.offset = 24704", "allocation.offset = 24688", "K104"),
    ],
)
def test_what_is_not_known_is_undecided_with_its_line(old, new, code):
    text = BY_NAME["square_tiles"].text.replace(old, new, 1)
    assert text != BY_NAME["square_tiles"].text
    kernel = import_ttgir(text)
    assert isinstance(kernel, UnimportedKernel)
    verdict = kernel.check()
    assert verdict.word == "undecided" and code in verdict.reason
    assert "kernels/roles.py:" in verdict.reason


def test_depths_are_those_of_the_hardware():
    """Each mbarrier of an array is one of the hardware's; a ring that runs on is all of them."""
    from exogpu.ir.nodes import BarrierAlloc
    from exogpu.ir.types import BarrierMechanism
    from exogpu.ir.walk import walk

    for name, depths in (("square_tiles", {1}), ("multiply_persistent", {3, 1})):
        kernel = import_ttgir(BY_NAME[name].text)
        assert kernel.ir is not None
        declared = [s for s in walk(kernel.ir.body) if isinstance(s, BarrierAlloc)]
        found = {s.depth for s in declared if s.mechanism is BarrierMechanism.MBARRIER}
        assert found == depths
