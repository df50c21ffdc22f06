"""The shipped kernels compute what their textbook loops do, for all sizes: compared directly."""

from __future__ import annotations

import re

import pytest

from exogpu import Procedure, proc
from exogpu.hw.language import bf16, f16, f32
from exogpu.kernels.gemm_bias_relu_sm90 import make_gemm_bias_relu
from exogpu.kernels.gemm_half_sm80 import KERNELS as HALF_SM80
from exogpu.kernels.gemm_sm80 import gemm_sm80
from exogpu.kernels.gemm_sm90 import KERNELS as GEMM
from exogpu.kernels.gemm_sm90 import make_resident
from exogpu.kernels.gemm_splitk_sm90 import KERNELS as SPLIT_K
from exogpu.kernels.gemm_splitk_sum_sm90 import KERNELS as SPLIT_K_SUM
from exogpu.kernels.gemv_f32 import gemv


@proc
def matrix_vector(M: size, K: size, A: f32[M, K] @ DRAM, x: f32[K] @ DRAM, y: f32[M] @ DRAM):
    for i in seq(0, M):
        y[i] = 0
        for k in seq(0, K):
            y[i] += A[i, k] * x[k]


@proc
def matrices(
    M: size, N: size, K: size, A: f32[M, K] @ DRAM, B: f32[N, K] @ DRAM, C: f32[M, N] @ DRAM
):
    for i in seq(0, M):
        for j in seq(0, N):
            C[i, j] = 0
            for k in seq(0, K):
                C[i, j] += A[i, k] * B[j, k]


def matrices_of(half) -> Procedure:
    """Sums of f32, rounded once."""

    @proc
    def matrices(
        M: size, N: size, K: size, A: half[M, K] @ DRAM, B: half[N, K] @ DRAM, C: half[M, N] @ DRAM
    ):
        for i in seq(0, M):
            for j in seq(0, N):
                total: f32
                total = 0
                for k in seq(0, K):
                    total += A[i, k] * B[j, k]
                C[i, j] = total

    return matrices


@proc
def batched(
    L: size,
    M: size,
    N: size,
    K: size,
    A: f32[L, M, K] @ DRAM,
    B: f32[L, N, K] @ DRAM,
    C: f32[L, M, N] @ DRAM,
):
    for b in seq(0, L):
        for i in seq(0, M):
            for j in seq(0, N):
                C[b, i, j] = 0
                for k in seq(0, K):
                    C[b, i, j] += tf32(A[b, i, k]) * tf32(B[b, j, k])


def batched_half(half) -> Procedure:
    """Sums of f32, rounded once."""

    @proc
    def batched(
        L: size,
        M: size,
        N: size,
        K: size,
        A: half[L, M, K] @ DRAM,
        B: half[L, N, K] @ DRAM,
        C: half[L, M, N] @ DRAM,
    ):
        for b in seq(0, L):
            for i in seq(0, M):
                for j in seq(0, N):
                    total: f32
                    total = 0
                    for k in seq(0, K):
                        total += A[b, i, k] * B[b, j, k]
                    C[b, i, j] = total

    return batched


BATCHED = {
    "gemm": batched,
    "gemm_bf16": batched_half(bf16),
    "gemm_f16": batched_half(f16),
}
"""By the first words of kernels' names."""


@proc
def with_bias_and_relu(
    L: size,
    M: size,
    N: size,
    K: size,
    A: f32[L, M, K] @ DRAM,
    B: f32[L, N, K] @ DRAM,
    bias: f32[N] @ DRAM,
    C: f32[L, M, N] @ DRAM,
):
    for b in seq(0, L):
        for i in seq(0, M):
            for j in seq(0, N):
                total: f32
                total = 0
                for k in seq(0, K):
                    total += tf32(A[b, i, k]) * tf32(B[b, j, k])
                C[b, i, j] = relu(total + bias[j])


@proc
def sliced(
    L: size,
    M: size,
    N: size,
    S: size,
    K: size,
    A: f32[L, M, S, K] @ DRAM,
    B: f32[L, N, S, K] @ DRAM,
    C: f32[L, M, N] @ DRAM,
):
    for b in seq(0, L):
        for i in seq(0, M):
            for j in seq(0, N):
                C[b, i, j] = 0
                for s in seq(0, S):
                    for k in seq(0, K):
                        C[b, i, j] += tf32(A[b, i, s, k]) * tf32(B[b, j, s, k])


def sliced_half(half) -> Procedure:
    """Sums of f32, rounded once."""

    @proc
    def sliced(
        L: size,
        M: size,
        N: size,
        S: size,
        K: size,
        A: half[L, M, S, K] @ DRAM,
        B: half[L, N, S, K] @ DRAM,
        C: half[L, M, N] @ DRAM,
    ):
        for b in seq(0, L):
            for i in seq(0, M):
                for j in seq(0, N):
                    total: f32
                    total = 0
                    for s in seq(0, S):
                        for k in seq(0, K):
                            total += A[b, i, s, k] * B[b, j, s, k]
                    C[b, i, j] = total

    return sliced


SLICED = {
    "gemm_splitk": sliced,
    "gemm_splitk_sum": sliced,
    "gemm_splitk_sum_bf16": sliced_half(bf16),
    "gemm_splitk_sum_f16": sliced_half(f16),
}
"""By the first words of kernels' names."""


def without_slots(kernel: Procedure) -> Procedure:
    """The same kernel with a ring that each tile begins anew, where it has one that runs on."""
    name = r"gemm_(bf16_|f16_)?sm90_(\d+)x(\d+)_(\d+)x(\d+)_resident"
    found = re.fullmatch(name, kernel.name)
    if found is None:
        return kernel
    dtype = {"bf16_": bf16, "f16_": f16}.get(found[1], f32)
    cm, cn, tm, tn = map(int, found.groups()[1:])
    return make_resident(cm, cn, tm, tn, dtype=dtype, slots=False)


CASES = [
    (matrix_vector, gemv),
    (matrices, gemm_sm80),
    (matrices_of(bf16), HALF_SM80["gemm_bf16_sm80"]),
    *(
        (BATCHED[name.partition("_sm90")[0]], without_slots(kernel))
        for name, kernel in GEMM.items()
    ),
    (with_bias_and_relu, make_gemm_bias_relu(2, 1, 128, 128)),
    (with_bias_and_relu, make_gemm_bias_relu(1, 2, 128, 64)),
    *(
        (SLICED[name.partition("_sm90")[0]], kernel)
        for name, kernel in {**SPLIT_K, **SPLIT_K_SUM}.items()
    ),
]


@pytest.mark.parametrize(("book", "kernel"), CASES, ids=lambda one: one.name)
def test_it_computes_what_the_textbook_does(book: Procedure, kernel: Procedure) -> None:
    found = book.equivalent_to(kernel)
    assert found, found.reason


def test_a_ring_that_runs_on_is_not_followed() -> None:
    """Its slots count Arrives: whether it computes the same is not said."""
    found = batched.equivalent_to(GEMM["gemm_sm90_1x1_128x256_resident"])
    assert found.word == "undecided" and "slot(full)" in found.reason


@proc
def one_short(
    M: size, N: size, K: size, A: f32[M, K] @ DRAM, B: f32[N, K] @ DRAM, C: f32[M, N] @ DRAM
):
    for i in seq(0, M):
        for j in seq(0, N):
            C[i, j] = 0
            for k in seq(0, K):
                if k != 16:
                    C[i, j] += A[i, k] * B[j, k]


def test_and_nothing_else() -> None:
    found = one_short.equivalent_to(gemm_sm80)
    assert found.word == "different" and found.sizes is not None and found.sizes["K"] >= 17
