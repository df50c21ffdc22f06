"""Emitted kernels on the emulator: right in every order, and without a synchronisation not."""

from __future__ import annotations

import re
import shutil
from collections.abc import Iterator, Mapping
from functools import cache
from pathlib import Path
from typing import Any

import pytest

from campaigns.emulator.launch import Emulated, EmulatedError
from campaigns.emulator.orders import ORDERS, Order
from campaigns.emulator.translate import UnknownError, translated
from exogpu.api import Procedure
from exogpu.gpu_trial.run_data import At, at_sizes, difference
from exogpu.hw.language import bf16, f32
from exogpu.kernels import gemm_sm80, gemm_sm90
from exogpu.kernels.gemm_alternating_sm90 import make_gemm_alternating
from exogpu.kernels.gemm_splitk_sum_sm90 import make_gemm_splitk_sum
from tests.codegen.dependent_kernels import in_two, scaled_by
from tests.codegen.kept_kernels import by_role, fragments
from tests.codegen.nested_kernels import pipelined, relay
from tests.codegen.role_kernels import (
    across_ctas,
    handed_over,
    in_turns,
    two_by_two,
    two_consumers,
)
from tests.codegen.shared_kernels import consumers_in_turn, producers_in_turn, slots_of_two
from tests.kernels.cooperative import make_cooperative
from tests.kernels.pingpong import make_pingpong
from tests.symbolic.slot_files import CASES as CASES_OF_SLOTS
from tests.symbolic.slot_files import procedures

pytestmark = [
    pytest.mark.slow,
    pytest.mark.skipif(shutil.which("g++") is None, reason="no g++ on this machine"),
]

SM80 = gemm_sm80.gemm_sm80
SM90 = gemm_sm90.make_gemm(1, 1, 128, 64, 8)
OVERLAPPED = gemm_sm90.make_gemm(1, 1, 64, 64, 3, 1, overlapped=True)
PAIR = gemm_sm90.KERNELS["gemm_sm90_2x1_128x256"]
SPLIT = make_gemm_splitk_sum(1, 1, 64, 16, 2, 1)
TURNS = make_gemm_alternating(2, 2, 64, 32, 3, 2, 1)
RUNNING = gemm_sm90.make_resident(1, 1, 128, 64)

UNEQUAL = procedures(CASES_OF_SLOTS / "unequal.py")["by_task"]

HALF = gemm_sm90.make_gemm(1, 1, 64, 64, 4, 1, dtype=bf16)

CASES: list[tuple[Procedure, dict[str, int]]] = [
    (SM80, {"M": 70, "N": 100, "K": 100}),
    (SM90, {"L": 2, "M": 130, "N": 40, "cluster_K": 300}),
    (PAIR, {"L": 1, "M": 130, "N": 60, "cluster_K": 160}),
    (OVERLAPPED, {"L": 3, "M": 130, "N": 40, "cluster_K": 228}),
    (RUNNING, {"L": 3, "M": 130, "N": 40, "cluster_K": 160}),
    (HALF, {"L": 1, "M": 70, "N": 33, "cluster_K": 168}),
    (fragments("Fence(cuda_in_order, wgmma_async)"), {}),
    (by_role(2), {}),
    (pipelined(0, 0), {"R": 3, "K": 5}),
    (relay(1, 1), {"R": 3, "K": 4}),
    (relay(2, 1), {"R": 2, "K": 3}),
    (consumers_in_turn(2), {"T": 3, "K": 5, "J": 3}),
    (consumers_in_turn(3), {"T": 2, "K": 5, "J": 2}),
    (producers_in_turn(2), {"K": 3}),
    (producers_in_turn(3), {"K": 2}),
    (slots_of_two(3), {"K": 3}),
    (two_consumers(2), {"T": 3, "K": 5}),
    (two_by_two(3), {"K": 5}),
    (across_ctas(2), {"K": 5}),
    (handed_over, {"T": 3, "K": 3}),
    (in_turns, {"T": 3, "K": 3}),
    (make_cooperative(64, 32, 2, f32), {"L": 2, "M": 140, "N": 40, "cluster_K": 100}),
    (make_pingpong(64, 32, 2), {"L": 3, "M": 200, "N": 40, "cluster_K": 100}),
    (scaled_by, {"M": 1}),
    (in_two, {"n": 3}),
    (UNEQUAL, {"M": 6}),
    (SPLIT, {"L": 1, "M": 3, "N": 20, "K_split": 5, "cluster_K": 36}),
    (TURNS, {"L": 2, "M": 70, "N": 40, "cluster_K": 132}),
]
IDS = [procedure.name for procedure, _ in CASES]


@cache
def emitted(procedure: Procedure) -> tuple[str, Mapping[str, Any]]:
    made, manifest = procedure.emit(unchecked=True)
    return made.source, manifest


@cache
def data(procedure: Procedure, sizes: tuple[tuple[str, int], ...]) -> At:
    """Small whole numbers, of which every order of sums is exact, and what they become."""
    return at_sizes(procedure, dict(sizes), 1)


def disagreement(
    kernel: Emulated, procedure: Procedure, sizes: Mapping[str, int], order: Order
) -> str:
    """What is wrong with a run; empty: nothing."""
    there = data(procedure, tuple(sizes.items()))
    arrays = {name: array.copy() for name, array in there.given.items()}
    try:
        kernel(arrays, sizes, order)
    except EmulatedError as error:
        return str(error)
    found = (difference(arrays[n], wanted, "f32", 0.0) for n, wanted in there.wanted.items())
    return "; ".join(filter(None, found))


@pytest.mark.parametrize(("procedure", "sizes"), CASES, ids=IDS)
def test_right_in_every_order(procedure: Procedure, sizes: dict[str, int], builds: Path) -> None:
    kernel = Emulated(*emitted(procedure), builds)
    found = [disagreement(kernel, procedure, sizes, order) for order in ORDERS]
    assert found == [""] * len(ORDERS)


NEEDLESS = ("__syncwarp();", "wgmma.fence", "fence.", "setmaxnreg", "arrive.release.aligned;\\n")
"""Lines that the emulator does not model, or whose absence another line makes up for."""

_SYNC = re.compile(r"mbarrier_(?:wait|arrive)\w*<|__syncthreads|asm volatile\(")


def without_one(source: str) -> Iterator[tuple[str, str]]:
    """The source without one line of synchronisation after the start, and that line."""
    start = source.index("task_number += gridDim.x")
    lines = source[start:].split("\n")
    for at, line in enumerate(lines):
        if _SYNC.search(line) and not any(word in line for word in NEEDLESS):
            left = [*lines[:at], ";", *lines[at + 1 :]]
            yield line.strip(), source[:start] + "\n".join(left)


def test_wrong_without_a_synchronisation(builds: Path) -> None:
    procedure, sizes = CASES[1]
    source, manifest = emitted(procedure)
    mutants = list(without_one(source))
    assert len(mutants) >= 5
    for line, mutant in mutants:
        kernel = Emulated(mutant, manifest, builds)
        assert any(disagreement(kernel, procedure, sizes, order) for order in ORDERS), line


def test_what_is_refuted_hangs_or_is_wrong(builds: Path) -> None:
    """Two producers that take no turns: PHASE, and the phases are mistaken for each other."""
    procedure = slots_of_two(3, turns=False)
    assert procedure.check().word == "refuted"
    kernel = Emulated(*emitted(procedure), builds)
    assert any(disagreement(kernel, procedure, {"K": 3}, order) for order in ORDERS)


def test_who_comes_twice_to_a_named_barrier_is_found(builds: Path) -> None:
    """The producer does not wait for the place to be given back: PHASE, where nothing else is."""
    source, manifest = emitted(handed_over)
    start = source.index("task_number += gridDim.x")
    sync = re.compile(
        r'asm volatile\("barrier\.cta\.(?:sync|arrive)\.aligned %0, 96;" :: "r"\(14\).*'
    )
    mutant = source[:start] + sync.sub(";", source[start:])
    kernel = Emulated(mutant, manifest, builds)
    found = [disagreement(kernel, handed_over, {"T": 1, "K": 3}, order) for order in ORDERS]
    assert any("comes twice" in one for one in found)


def test_wrong_where_the_phases_of_others_are_not_counted(builds: Path) -> None:
    procedure, sizes = next(case for case in CASES if case[0].name == "consumers_in_turn_2")
    source, manifest = emitted(procedure)
    lines = source.split("\n")
    counting = [at for at, line in enumerate(lines) if re.search(r"ed (\+=|= \(\w+ \+) ", line)]
    assert len(counting) >= 2
    for at in counting:
        mutant = "\n".join([*lines[:at], *lines[at + 1 :]])
        kernel = Emulated(mutant, manifest, builds)
        assert any(disagreement(kernel, procedure, sizes, order) for order in ORDERS), lines[at]


def test_who_does_not_wait_leaves_nothing_to_the_next(builds: Path) -> None:
    procedure, sizes = next(case for case in CASES if case[0] is scaled_by)
    source, manifest = emitted(procedure)
    mutant, waits = re.subn(r'asm volatile\("griddepcontrol\.wait;"[^;]*\);', ";", source)
    assert waits
    runs = {order: Emulated(mutant, manifest, builds) for order in ORDERS if order.ahead}
    for order, kernel in runs.items():
        assert "has not waited" in disagreement(kernel, procedure, sizes, order)
    kernel = Emulated(source, manifest, builds)
    assert disagreement(kernel, procedure, sizes, ORDERS[0]) == ""


def test_what_is_not_known_is_said() -> None:
    source, _ = emitted(SM80)
    with pytest.raises(UnknownError, match=r"the instruction bar\.red"):
        translated(source.replace("cp.async.wait_group 0", "bar.red"))
