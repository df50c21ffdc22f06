"""Bounds of procedures read from source: instructions, windows, barriers, calls, messages."""

from __future__ import annotations

import sys
from collections.abc import Callable
from dataclasses import dataclass
from time import perf_counter

from exogpu.analysis.bounds import check_bounds
from exogpu.analysis.sizes import check_sizes
from exogpu.diagnostics.errors import Diagnostic, one_line
from exogpu.frontend.instructions import instr
from exogpu.frontend.procedures import parse_proc
from exogpu.hw.memories import CudaMbarrier
from exogpu.hw.operands import CUDA_MEMORY, HOST, TMA_LOAD, WGMMA_D, WGMMA_SMEM, clipped
from exogpu.hw.units import cuda_warp, cuda_warpgroup
from exogpu.ir.nodes import Proc


@dataclass(frozen=True)
class Read:
    """A procedure, callable from others (`frontend.calls.HasProc`)."""

    ir: Proc


def read(function: Callable[..., object]) -> Read:
    proc, diagnostics = parse_proc(function, sys._getframe(1))
    assert proc is not None, "\n".join(map(one_line, diagnostics))
    return Read(proc)


def findings(made: Read) -> list[tuple[str, int]]:
    """Code and line of each finding, the line counted from the `def`."""
    return [(d.code, d.span.line - made.ir.span.line) for d in check_bounds(made.ir)]


def only(made: Read) -> Diagnostic:
    (found,) = check_bounds(made.ir)
    return found


# --- instructions ---------------------------------------------------------------------------


@instr(cuda=False, dst=HOST, src=HOST)
def tile_copy(rows: size, dst: f32[64] @ DRAM, src: f32[64] @ DRAM):
    assert rows >= 0
    for i in seq(0, 64):
        if i < rows:
            dst[i] = src[i]


@instr(cuda=False, dst=HOST)
def zero_first(n: index, dst: f32[64] @ DRAM):
    assert n <= 64
    for i in seq(0, n):
        dst[i] = 0.0


def test_an_instruction_s_window_may_stick_out_where_its_guards_touch_nothing():
    @read
    def p(M: size, x: f32[M] @ DRAM, y: f32[M] @ DRAM):
        for i in seq(0, (M + 63) / 64):
            tile_copy(M - 64 * i, x[64 * i : 64 * i + 64], y[64 * i : 64 * i + 64])

    # rows = M - 64*i is at least 1 in the loop, and rows of each tile are touched.
    assert findings(p) == []


def test_the_elements_that_the_body_touches_are_checked_at_the_call():
    @read
    def p(M: size, x: f32[M] @ DRAM, y: f32[64] @ DRAM):
        for i in seq(0, (M + 63) / 64):
            tile_copy(64, x[64 * i : 64 * i + 64], y[:])

    found = only(p)
    assert found.code == "B601"
    assert found.message == (
        "tile_copy touches x[1], out of bounds: at M = 1, i = 0 the first index is 1, "
        "and x has 1 element"
    )


def test_a_precondition_of_an_instruction_must_hold_for_all_sizes():
    @read
    def p(M: size, x: f32[M] @ DRAM):
        if M >= 64:
            zero_first(M, x[0:64])

    found = only(p)
    assert found.code == "B603"
    # M = 65 is the first size inside the guard that is above 64.
    assert found.message == (
        "the precondition n <= 64 of zero_first does not hold here: at M = 65, n = 65 it is false"
    )


def test_a_size_argument_is_at_least_what_the_callee_admits():
    @read
    def callee(n: size, x: f32[n] @ DRAM):
        x[0] = 0.0

    @read
    def caller(M: size, x: f32[M] @ DRAM):
        callee(M - 1, x[0 : M - 1])

    found = only(caller)
    assert found.code == "B603"
    assert "at M = 1 it is 0" in found.message


def test_extents_of_arguments_agree_for_all_sizes():
    @read
    def callee(n: size, x: f32[n, 4] @ DRAM):
        x[n - 1, 3] = 0.0

    @read
    def caller(M: size, x: f32[M, 8] @ DRAM):
        callee(M, x[0:M, 4:8])
        callee(M, x[:, :])
        if M > 3:
            callee(M - 3, x[1 : M - 1, 0:4])

    # The second call passes 8 columns; the third M-2 rows where M-3 are asked for.
    assert findings(caller) == [("T260", 2), ("T260", 4)]


def test_a_window_passed_to_a_procedure_lies_in_its_variable():
    @read
    def callee(n: size, x: f32[n] @ DRAM):
        x[n - 1] = 0.0

    @read
    def caller(M: size, x: f32[M] @ DRAM):
        callee(M, x[1 : M + 1])

    assert findings(caller) == [("B601", 1)]


def test_an_instruction_s_body_stays_in_its_operands_shapes():
    @instr(cuda=False, dst=HOST)
    def past_the_end(dst: f32[8] @ DRAM):
        for i in seq(0, 9):
            dst[i] = 0.0

    (found,) = check_bounds(past_the_end.instantiate({}))
    assert (
        found.message
        == "dst[i] is out of bounds: at i = 8 the first index is 8, and dst has 8 elements"
    )


def test_what_is_wrong_in_a_callee_is_wrong_in_the_caller():
    @instr(cuda=False, dst=HOST)
    def past_the_end(dst: f32[2] @ DRAM):
        dst[2] = 0.0

    @read
    def callee(n: size, x: f32[n] @ DRAM):
        x[n] = 0.0

    @read
    def caller(M: size, x: f32[M] @ DRAM, y: f32[8] @ DRAM):
        past_the_end(y[0:2])
        callee(M, x[:])
        callee(M, x[:])

    # y[2] itself exists: the fault is the instruction's; the callee's is said once.
    assert [d.message.split(" is ")[0] for d in check_bounds(caller.ir)] == ["x[n]", "dst[2]"]


# --- windows, scalars, guards ---------------------------------------------------------------


def test_windows_of_windows_are_followed_to_the_variable():
    @read
    def p(M: size, N: size, A: f32[M, N] @ DRAM):
        row = A[M / 2, :]
        tail = row[1:N]
        for j in seq(0, N - 1):
            tail[j] = 0.0  # row[1 + j], A[M/2, 1 + j]: inside
        tail[N - 1] = 0.0  # outside of tail, of row and of A: said once

    assert "M = 1, N = 1 the first index is 0, and tail has 0 elements" in only(p).message


def test_else_is_the_negation_of_its_guard():
    @read
    def p(M: size, x: f32[M] @ DRAM):
        for i in seq(0, M + 4):
            if i < M:
                x[i] = 1.0
            else:
                x[i - 4] = 2.0

    # i = M .. M+3: i-4 is negative where M < 4.
    assert only(p).message.startswith(
        "x[i - 4] is out of bounds: at M = 1, i = 1 the first index is -3"
    )


def test_reads_of_every_kind_are_checked():
    @read
    def p(M: size, x: f32[M] @ DRAM, y: f32[M] @ DRAM):
        x[0] = -y[M] + max(y[0], y[M + 1])
        x[0] += select(y[0], y[0], y[0], y[-1])

    assert [d.span.column for d in check_bounds(p.ir)] == [17, 34, 42]


def test_extents_are_not_negative_and_empty_loops_access_nothing():
    @read
    def p(M: size, x: f32[M] @ DRAM):
        tmp: f32[M - 2] @ DRAM
        for i in seq(0, M - 2):
            tmp[i] = x[i + 2]
        for i in seq(M, M - 1):
            x[i - 7] = 0.0

    found = only(p)
    assert found.code == "B602"
    assert "at M = 1 M - 2 is -1" in found.message


def test_a_loop_may_start_at_an_index_argument():
    @read
    def p(M: size, at: index, x: f32[M] @ DRAM):
        for i in seq(at, at + 2):
            x[i] = 0.0

    # Of M = 1, at = 0 gives i = 0, 1; the magnitude of `at` counts like a size.
    assert "at M = 1, at = 0, i = 1 the first index is 1" in only(p).message


def test_preconditions_are_used():
    @read
    def p(M: size, x: f32[M] @ DRAM):
        assert M % 64 == 0
        for i in seq(0, M / 64):
            for m in seq(0, 64):
                x[64 * i + m] = 0.0

    assert findings(p) == []


def test_the_message_names_sizes_iterators_index_and_extent():
    @read
    def p(M: size, K: size, A: f32[M, K] @ DRAM):
        assert M >= 64
        for i in seq(0, (M + 63) / 64):
            for m in seq(0, 64):
                for k in seq(0, K):
                    A[64 * i + m, k] = 0.0

    # 64 is the smallest M admitted, and divides the tile; 65 does not.
    assert only(p).message == (
        "A[64 * i + m, k] is out of bounds: at M = 65, K = 1, i = 1, m = 1 the first index is 65, "
        "and A has 65 rows"
    )


def test_zero_is_a_size_only_where_a_precondition_admits_it():
    @read
    def positive(M: size, x: f32[M] @ DRAM):
        x[0] = 0.0

    @read
    def zero(M: size, x: f32[M] @ DRAM):
        assert M >= 0
        x[0] = 0.0

    assert findings(positive) == []
    assert "at M = 0 the first index is 0, and x has 0 elements" in only(zero).message


# --- a Hopper main loop ---------------------------------------------------------------------


@instr(
    unit=cuda_warp,
    barrier=CudaMbarrier,
    dst=TMA_LOAD,
    src=clipped(TMA_LOAD),
)
def load_tile(
    dst: f32[rows, 32] @ Sm90_SmemSwizzled(128),
    src: f32[rows, 32] @ Sm90_tensorMap(128, rows, 32),
    *,
    rows,
):
    for i in seq(0, rows):
        for j in seq(0, 32):
            dst[i, j] = src[i, j]


@instr(unit=cuda_warpgroup, D=WGMMA_D, A=WGMMA_SMEM, B=WGMMA_SMEM)
def multiply(
    D: f32[64, 256] @ Sm90_RmemMatrixD(64, 256),
    A: f32[64, 8] @ Sm90_SmemSwizzled(128),
    B: f32[256, 8] @ Sm90_SmemSwizzled(128),
):
    for m in seq(0, 64):
        for n in seq(0, 256):
            for k in seq(0, 8):
                D[m, n] += A[m, k] * B[n, k]


@instr(unit=cuda_warpgroup, dst=CUDA_MEMORY, src=WGMMA_D)
def store_tile(
    rows: index,
    columns: index,
    dst: f32[64, 256] @ CudaGmemLinear,
    src: f32[64, 256] @ Sm90_RmemMatrixD(64, 256),
):
    for m in seq(0, 64):
        for n in seq(0, 256):
            if m < rows and n < columns:
                dst[m, n] = src[m, n]


def gemm(rows: int, ring: int) -> Read:
    """A warp-specialised GEMM; `rows` limits the stored rows, `ring` is the ring's depth."""

    @read
    def kernel(
        M: size,
        N: size,
        K: size,
        A: f32[M, K] @ CudaGmemLinear,
        B: f32[N, K] @ CudaGmemLinear,
        C: f32[M, N] @ CudaGmemLinear,
    ):
        a_map = A[:, :] @ Sm90_tensorMap(128, 128, 32)
        b_map = B[:, :] @ Sm90_tensorMap(128, 256, 32)
        with CudaDeviceFunction(
            warp_config=[
                CudaWarpConfig("producer", 4, 40, 0),
                CudaWarpConfig("consumer", 8, 0, 232),
            ]
        ):
            for m1 in cuda_tasks(0, (M + 127) / 128):
                for n1 in cuda_tasks(0, (N + 255) / 256):
                    full: barrier[4] @ CudaMbarrier
                    empty: barrier(full)[4] @ CudaMbarrier
                    a_smem: f32[4, 128, 32] @ Sm90_SmemSwizzled(128)
                    b_smem: f32[4, 256, 32] @ Sm90_SmemSwizzled(128)
                    d: f32[2, 64, 256] @ Sm90_RmemMatrixD(64, 256)
                    for k1 in seq(0, (K + 31) / 32):
                        with CudaWarps(0, 1, name="producer"):
                            Await(empty[k1 % 4], cuda_temporal, ~4)
                            (
                                load_tile(
                                    a_smem[k1 % ring, :, :],
                                    a_map[128 * m1 : 128 * m1 + 128, 32 * k1 : 32 * k1 + 32],
                                    rows=128,
                                )
                                >> full[k1 % 4]
                            )
                            (
                                load_tile(
                                    b_smem[k1 % 4, :, :],
                                    b_map[256 * n1 : 256 * n1 + 256, 32 * k1 : 32 * k1 + 32],
                                    rows=256,
                                )
                                >> full[k1 % 4]
                            )
                            Arrive(tma_to_smem_async) >> full[k1 % 4]
                        with CudaWarps(name="consumer"):
                            Await(full[k1 % 4], cuda_generic_and_async, ~0)
                            for w in cuda_threads(0, 2, unit=cuda_warpgroup):
                                for k2 in seq(0, 4):
                                    multiply(
                                        d[w, :, :],
                                        a_smem[k1 % 4, 64 * w : 64 * w + 64, 8 * k2 : 8 * k2 + 8],
                                        b_smem[k1 % 4, :, 8 * k2 : 8 * k2 + 8],
                                    )
                            Arrive(wgmma_async) >> empty[k1 % 4]
                    with CudaWarps(name="consumer"):
                        for w in cuda_threads(0, 2, unit=cuda_warpgroup):
                            store_tile(
                                M + rows - 128 * m1 - 64 * w,
                                N - 256 * n1,
                                C[
                                    128 * m1 + 64 * w : 128 * m1 + 64 * w + 64,
                                    256 * n1 : 256 * n1 + 256,
                                ],
                                d[w, :, :],
                            )

    return kernel


def test_a_hopper_gemm_is_in_bounds_for_all_sizes_in_seconds():
    kernel = gemm(rows=0, ring=4)
    start = perf_counter()
    assert findings(kernel) == []
    assert perf_counter() - start < 20


def test_planted_mistakes_of_the_gemm_are_found():
    (found,) = check_bounds(gemm(rows=1, ring=4).ir)
    assert found.message == (
        "store_tile touches C[1, 0], out of bounds: at M = 1, N = 1, K = 1, m1 = 0, w = 0 "
        "the first index is 1, and C has 1 row"
    )
    (found,) = check_bounds(gemm(rows=0, ring=5).ir)
    # The fifth stage is reached first at k1 = 4, which takes K = 129.
    assert "at M = 1, N = 1, K = 129, k1 = 4 the first index is 4" in found.message


def test_barriers_are_indexed_inside_their_shape():
    @read
    def p(M: size, x: f32[M] @ CudaGmemLinear):
        with CudaDeviceFunction(clusterDim=2, blockDim=128):
            for _task in cuda_tasks(0, 1):
                ring: barrier[4] @ CudaMbarrier
                pair: barrier[2] @ CudaMbarrier
                for k in seq(0, M):
                    Await(ring[(k + 1) % 5], cuda_in_order, ~0)
                    Arrive(cuda_in_order) >> ring[k % 4]
                for cta in cuda_threads(0, 2, unit=cuda_cta_in_cluster):
                    Arrive(cuda_in_order) >> pair[:]
                    Arrive(cuda_in_order) >> pair[cta : cta + 2]

    assert findings(p) == [("B601", 6), ("B601", 10)]
    await_, arrive = check_bounds(p.ir)
    # (k + 1) % 5 = 4 first at k = 3, which takes M = 4.
    assert "at M = 4, k = 3 the first index is 4, and ring has 4 elements" in await_.message
    assert "at M = 1, cta = 1 the first index is 2" in arrive.message


# --- concrete sizes -------------------------------------------------------------------------


@read
def sized(M: size, N: size, at: index, x: f32[M, N] @ DRAM):
    assert M % 8 == 0
    assert N >= 0 and N <= 64
    pass


def test_sizes_that_fit_are_accepted():
    assert check_sizes(sized.ir, {"M": 8, "N": 0, "at": -3}) == ()


def test_every_wrong_size_is_named_with_its_remedy():
    def codes(**sizes: int) -> list[tuple[str, str]]:
        return [(d.code, d.help) for d in check_sizes(sized.ir, sizes)]

    assert codes(M=8, N=1) == [("X902", "give a value to each: M=8,N=1,at=...")]
    assert codes(m=8, M=8, N=1, at=0) == [("X901", "did you mean M?")]
    assert codes(M=8, N=1, at=0, depth=3) == [("X901", "sized takes M, N, at")]
    assert codes(M=0, N=-1, at=0) == [
        ("X903", "give M a value of at least 1, or admit 0 by the precondition `assert M >= 0`"),
        ("X903", "give N a value of at least 0"),
    ]


def test_a_broken_precondition_is_shown_where_it_stands():
    (found,) = check_sizes(sized.ir, {"M": 12, "N": 4, "at": 0})
    assert found.code == "X904"
    assert found.message == "the precondition M % 8 == 0 of sized does not hold: M = 12"
    assert found.span.line == sized.ir.span.line + 1
