"""Every shipped kernel is safe, in every configuration, under both policies."""

from __future__ import annotations

from collections.abc import Sequence
from itertools import cycle
from typing import TypeVar

import pytest

from exogpu.api import Procedure
from exogpu.diagnostics.verdict import Policy
from exogpu.kernels.attention_sm90 import KERNELS as ATTENTION
from exogpu.kernels.gemm_fp8_blocks_sm90 import KERNELS as BLOCKS
from exogpu.kernels.gemm_fp8_sm90 import KERNELS as FP8
from exogpu.kernels.gemm_half_sm80 import KERNELS as HALF_SM80
from exogpu.kernels.gemm_sm80 import gemm_sm80
from exogpu.kernels.gemm_sm90 import KERNELS as GEMM
from exogpu.kernels.gemm_splitk_sm90 import KERNELS as SPLITK
from exogpu.kernels.gemv_f32 import gemv

pytestmark = pytest.mark.slow

T = TypeVar("T")

BOTH = pytest.mark.parametrize("policy", list(Policy), ids=lambda p: p.value)


def in_turn(cases: Sequence[T]) -> list[tuple[T, Policy]]:
    """Each case under one policy, so that of four one after the other two are under each."""
    one, other = Policy
    return list(zip(cases, cycle((one, other, other, one)), strict=False))


def safe(kernel: Procedure, policy: Policy, sizes: dict[str, int]) -> None:
    verdict = kernel.check_at(policy=policy, **sizes)
    assert (verdict.word, verdict.hazards, verdict.diagnostics) == ("proved", (), ())
    assert verdict.operations > 0


GEMM_SIZES = [
    {"L": 1, "M": 512, "N": 512, "cluster_K": 512},
    {"L": 1, "M": 500, "N": 800, "cluster_K": 240},  # divides no tile
    {"L": 3, "M": 257, "N": 1, "cluster_K": 4},  # several batches, a row of tiles, one trip
    {"L": 1, "M": 1, "N": 1, "cluster_K": 32},  # one task, one trip
    {"L": 1, "M": 128, "N": 256, "cluster_K": 128},  # one task, exactly one turn of the ring
    {"L": 1, "M": 64, "N": 68, "cluster_K": 36},  # two trips, the last one short
]


GEMM_CASES = [
    *((name, sizes) for name in GEMM if name.startswith("gemm_sm90") for sizes in GEMM_SIZES),
    *(  # of 16 bits: a step has twice as many columns
        (name, sizes | {"cluster_K": 2 * sizes["cluster_K"]})
        for name in GEMM
        if not name.startswith("gemm_sm90")
        for sizes in GEMM_SIZES[-2:]
    ),
]


@pytest.mark.parametrize(("case", "policy"), in_turn(GEMM_CASES), ids=str)
def test_gemm(case: tuple[str, dict[str, int]], policy: Policy) -> None:
    name, sizes = case
    safe(GEMM[name], policy, sizes)


SPLITK_SIZES = [
    {"L": 1, "M": 512, "N": 512, "K_split": 1, "cluster_K": 512},
    {"L": 1, "M": 512, "N": 512, "K_split": 2, "cluster_K": 256},
    {"L": 1, "M": 512, "N": 512, "K_split": 16, "cluster_K": 32},
    {"L": 1, "M": 500, "N": 800, "K_split": 2, "cluster_K": 240},
    {"L": 2, "M": 1, "N": 4, "K_split": 1, "cluster_K": 4},
]


SPLITK_CASES = [(name, sizes) for name in SPLITK for sizes in SPLITK_SIZES]


@pytest.mark.parametrize(("case", "policy"), in_turn(SPLITK_CASES), ids=str)
def test_gemm_splitk(case: tuple[str, dict[str, int]], policy: Policy) -> None:
    name, sizes = case
    safe(SPLITK[name], policy, sizes)


@BOTH
@pytest.mark.parametrize("size", [(512, 512), (500, 240), (1, 4), (33, 36), (1000, 28)], ids=str)
def test_gemv(size: tuple[int, int], policy: Policy) -> None:
    safe(gemv, policy, {"M": size[0], "K": size[1]})


@BOTH
@pytest.mark.parametrize(
    "size", [(512, 512, 512), (500, 800, 240), (1, 1, 4), (65, 63, 20)], ids=str
)
def test_gemm_sm80(size: tuple[int, int, int], policy: Policy) -> None:
    safe(gemm_sm80, policy, dict(zip("MNK", size, strict=True)))


def test_zero_sizes_are_not_admitted() -> None:
    # A size is at least 1 unless a precondition admits 0, and none of these kernels does.
    verdict = gemv.check_at(M=0, K=4)
    assert verdict.word == "error"
    assert [d.span.line > 0 for d in verdict.diagnostics] == [True]


def test_preconditions_hold_before_a_concrete_run() -> None:
    assert gemv.check_at(M=4, K=5).word == "error"  # K % 4 == 0
    assert gemm_sm80.check_at(M=1, N=1, K=2).word == "error"


OTHERS = [
    (ATTENTION["attention_sm90_64"], {"H": 1, "S": 130}),
    (ATTENTION["attention_sm90_64_causal"], {"H": 1, "S": 130}),
    (FP8["gemm_fp8_sm90_1x1_128x128"], {"L": 1, "M": 64, "N": 68, "cluster_K": 144}),
    (FP8["gemm_fp8_sm90_2x1_128x256"], {"L": 1, "M": 64, "N": 68, "cluster_K": 144}),
    (
        BLOCKS["gemm_fp8_blocks_sm90"],
        {"L": 1, "M": 64, "N": 68, "cluster_K": 144, "scales": 64},
    ),
    *((kernel, {"M": 65, "N": 63, "K": 72}) for kernel in HALF_SM80.values()),
]


@BOTH
@pytest.mark.parametrize(("kernel", "sizes"), OTHERS, ids=lambda x: getattr(x, "name", ""))
def test_others(kernel: Procedure, sizes: dict[str, int], policy: Policy) -> None:
    safe(kernel, policy, sizes)
