"""The sequential meaning: against the naive interpreter, and case by case."""

from __future__ import annotations

import dataclasses
import time

import numpy as np
import pytest
from hypothesis import HealthCheck, given, settings
from hypothesis import strategies as st
from random_procs import arguments, random_proc

from exogpu import interpreter
from exogpu.api import proc
from exogpu.diagnostics.errors import ExoGpuError
from exogpu.interpreter import elementwise, execution, round_bf16
from exogpu.ir.nodes import Int, Proc
from exogpu.isa.cuda import cuda_shfl_xor
from exogpu.isa.sm90 import Sm90_tma_load, Sm90_tma_reduce


@settings(
    derandomize=True,
    max_examples=400,
    deadline=None,
    suppress_health_check=[HealthCheck.function_scoped_fixture],
)
@given(st.integers(0, 1 << 32), st.sampled_from([2, 5, 40, 1 << 20]))
def test_agrees_with_naive_interpreter(monkeypatch, seed, instances):
    procedure = random_proc(seed)
    # Few instances at once: loops run in chunks, or in order; many: all at once.
    monkeypatch.setattr(execution, "INSTANCES", instances)
    expected, actual = arguments(procedure, seed), arguments(procedure, seed)
    try:
        elementwise.run(procedure, expected)
    except ExoGpuError:
        with pytest.raises(ExoGpuError):
            interpreter.run(procedure, actual)
        return
    interpreter.run(procedure, actual)
    for name, array in expected.items():
        np.testing.assert_array_equal(actual[name], array, err_msg=name)


# --- values -------------------------------------------------------------------------------


def both(procedure, **given):
    """Run both interpreters on copies; they must agree, and the arrays are returned."""
    results = []
    for run in (elementwise.run, interpreter.run):
        copies = {n: a.copy() if isinstance(a, np.ndarray) else a for n, a in given.items()}
        run(procedure.ir, copies)
        results.append(copies)
    for name, array in results[0].items():
        np.testing.assert_array_equal(results[1][name], array, err_msg=name)
    return results[1]


def test_bf16_rounds_to_nearest_even():
    # bf16 has 8 significant bits: from 256 on it steps by 2, and ties go to the even one.
    values = np.array([1, 256, 257, 259, 258.5, -257, np.inf, np.nan], np.float32)
    rounded = np.array([1, 256, 256, 260, 258, -256, np.inf, np.nan], np.float32)
    np.testing.assert_array_equal(round_bf16(values), rounded)


def test_bf16_sum_stagnates():
    # 256 + 1 rounds back to 256 at every step; a sum rounded once would be 272.
    @proc
    def summed_in_bf16(s: bf16 @ DRAM, x: f32[16] @ DRAM):
        for i in seq(0, 16):
            s += x[i]

    got = both(summed_in_bf16, s=np.array(256, np.float32), x=np.ones(16, np.float32))
    assert got["s"] == 256


def test_bf16_stores_round():
    # 1 + 1/256 is not bf16.
    @proc
    def store(b: bf16[1] @ DRAM, x: f32[1] @ DRAM):
        b[0] = x[0]

    got = both(store, b=np.zeros(1, np.float32), x=np.array([1 + 2**-8], np.float32))
    assert got["b"][0] == 1


def test_f16_operands_multiply_in_f32():
    # 300 * 300 overflows f16, and must not before it reaches the f32 accumulator.
    @proc
    def multiply(a: f16[4] @ DRAM, s: f32 @ DRAM):
        for i in seq(0, 4):
            s += a[i] * a[i]

    got = both(multiply, a=np.full(4, 300, np.float16), s=np.zeros((), np.float32))
    assert got["s"] == 360000


def test_integers_truncate_and_wrap():
    @proc
    def arithmetic(n: i32[2] @ DRAM, b: i8[1] @ DRAM):
        n[0] = n[0] / n[1]
        b[0] += b[0]

    got = both(arithmetic, n=np.array([-7, 2], np.int32), b=np.array([100], np.int8))
    assert got["n"][0] == -3 and got["b"][0] == -56  # 200 - 256


def test_fresh_memory_is_poisoned():
    @proc
    def uninitialised(x: f32[4] @ DRAM):
        for i in seq(0, 4):
            t: f32 @ DRAM
            if i == 2:
                t = 5
            x[i] = t

    # A t of one iteration is not the next one's.
    got = both(uninitialised, x=np.zeros(4, np.float32))
    np.testing.assert_array_equal(got["x"], [np.nan, np.nan, 5, np.nan])


def test_functions():
    @proc
    def functions(x: f32[6] @ DRAM):
        x[0] = select(x[0], x[1], 1, 2)
        x[1] = relu(x[2]) + max(x[3], 0)
        x[4] = exp(sqrt(x[4])) - min(x[5], x[4])

    got = both(functions, x=np.array([1, 1, -3, 2, 4, 9], np.float32))
    np.testing.assert_allclose(got["x"], [2, 2, -3, 2, np.exp(2.0) - 4, 9], rtol=1e-6)


def test_sums_into_overlapping_diagonals():
    # Both loops are parallel; steps 1 and 2 (or 1 and 1) meet in one element.
    @proc
    def diagonals(x: f32[8] @ DRAM, y: f32[8] @ DRAM, A: f32[3, 3] @ DRAM):
        for i in seq(0, 3):
            for j in seq(0, 3):
                x[2 * i + j] += A[i, j]
                y[i + j] += 1

    A = np.arange(9, dtype=np.float32).reshape(3, 3)
    x = np.zeros(8, np.float32)
    got = both(diagonals, x=x, y=x, A=A)
    np.testing.assert_array_equal(got["x"], [0, 1, 2 + 3, 4, 5 + 6, 7, 8, 0])
    np.testing.assert_array_equal(got["y"], [1, 2, 3, 2, 1, 0, 0, 0])


def test_sums_into_a_row_and_a_reach():
    # Steps 1, 2 and 3: each exceeds or equals the reach of the one before, not of all before.
    @proc
    def cube(x: f32[7] @ DRAM):
        for i in seq(0, 2):
            for j in seq(0, 2):
                for k in seq(0, 2):
                    x[3 * i + 2 * j + k] += 1

    got = both(cube, x=np.zeros(7, np.float32))
    np.testing.assert_array_equal(got["x"], [1, 1, 1, 2, 1, 1, 1])  # 3 = 3 + 0 + 0 = 0 + 2 + 1


def test_guards_that_couple_iterators():
    # i + j makes one axis of two; i != j shortens it; j + k joins the third; then the fourth.
    @proc
    def simplex(x: f32[5, 5, 5, 5] @ DRAM):
        for i in seq(0, 5):
            for j in seq(0, 5):
                for k in seq(0, 5):
                    if i + j < 6 and i != j and j + k > 2:
                        for p in seq(0, 5):
                            if k + p != i:
                                x[i, j, k, p] = 1
                            else:
                                x[i, j, k, p] = 2

    both(simplex, x=np.zeros((5, 5, 5, 5), np.float32))


def test_guards_that_thin_an_iterator_twice():
    # 0, 2, 3, 5, 6 are left of i, then 0, 2, 5, 6: neither is evenly spaced.
    @proc
    def thinned(x: f32[8, 3] @ DRAM, y: f32[8] @ DRAM):
        for i in seq(0, 7):
            for j in seq(0, 3):
                if i % 3 != 1 and i != 3:
                    x[i, j] = y[i] + 1

    both(thinned, x=np.zeros((8, 3), np.float32), y=np.arange(8, dtype=np.float32))


def test_windows_of_one_variable_overlap():
    @proc
    def shift(n: size, dst: f32[n] @ DRAM, src: f32[n] @ DRAM):
        for i in seq(0, n):
            dst[i] = src[i]

    @proc
    def caller(x: f32[8] @ DRAM):
        shift(7, x[1:8], x[0:7])

    # In program order every element copies its freshly written neighbour.
    got = both(caller, x=np.arange(8, dtype=np.float32))
    np.testing.assert_array_equal(got["x"], np.zeros(8))


def test_register_without_distribution_broadcasts():
    # Section 2.1 of the paper: read sequentially, tmp holds the last element.
    @proc
    def broadcast(A: f32[32] @ DRAM, B: f32[32] @ DRAM):
        tmp: f32 @ DRAM
        for i in seq(0, 32):
            tmp = A[i]
        for i in seq(0, 32):
            B[i] = tmp

    A = np.arange(32, dtype=np.float32)
    np.testing.assert_array_equal(both(broadcast, A=A, B=A)["B"], np.full(32, 31))


def test_shuffle():
    @proc
    def butterfly(x: f32[2, 32] @ CudaGmemLinear):
        with CudaDeviceFunction(blockDim=64):
            for _task in cuda_tasks(0, 1):
                mine: f32[2, 32]
                other: f32[2, 32]
                for w in cuda_threads(0, 2, unit=cuda_warp):
                    for t in cuda_threads(0, 32, unit=cuda_thread):
                        mine[w, t] = x[w, t]
                    for mask in (16, 8, 4, 2, 1):
                        cuda_shfl_xor(other[w, :], mine[w, :], mask=mask)
                        for t in cuda_threads(0, 32, unit=cuda_thread):
                            mine[w, t] += other[w, t]
                    for t in cuda_threads(0, 32, unit=cuda_thread):
                        x[w, t] = mine[w, t]

    x = np.arange(64, dtype=np.float32).reshape(2, 32)
    got = both(butterfly, x=x)
    np.testing.assert_array_equal(got["x"], np.repeat(x.sum(1, keepdims=True), 32, 1))


# --- bounds -------------------------------------------------------------------------------


@proc
def edge_tiles(M: size, N: size, A: f32[M, N] @ CudaGmemLinear, C: f32[M, N] @ CudaGmemLinear):
    A_map = A[:, :] @ Sm90_tensorMap(128, 8, 32)
    C_map = C[:, :] @ Sm90_tensorMap(0, 8, 32)
    with CudaDeviceFunction(blockDim=32):
        for m in cuda_tasks(0, (M + 7) / 8):
            for n in cuda_tasks(0, (N + 31) / 32):
                tile: f32[8, 32] @ Sm90_SmemSwizzled(128)
                flat: f32[8, 32] @ CudaSmemLinear
                bar: barrier @ CudaMbarrier
                cg: barrier @ CudaCommitGroup
                (
                    Sm90_tma_load(
                        tile[:, :],
                        A_map[8 * m : 8 * m + 8, 32 * n : 32 * n + 32],
                        rows=8,
                        cols=32,
                        box=(8, 32),
                    )
                    >> bar
                )
                Arrive(cuda_temporal) >> bar
                Await(bar, cuda_generic_and_async, ~0)
                for t in cuda_threads(0, 32, unit=cuda_thread):
                    for i in seq(0, 8):
                        flat[i, t] = tile[i, t] + 1
                Fence(cuda_in_order, cuda_generic_and_async)
                Sm90_tma_reduce(
                    C_map[8 * m : 8 * m + 8, 32 * n : 32 * n + 32],
                    flat[:, :],
                    rows=8,
                    cols=32,
                    box=(8, 32),
                )
                Arrive(tma_to_gmem_async) >> cg
                Await(cg, cuda_in_order, 0)


def test_tma_clips_at_the_edges():
    # Tiles reach past both edges: zeros come in, what is outside is dropped.
    A = np.arange(10 * 40, dtype=np.float32).reshape(10, 40)
    got = both(edge_tiles, A=A, C=np.ones_like(A))
    np.testing.assert_array_equal(got["C"], A + 2)


def out_of_range(n: int) -> Proc:
    """x[i + n] of 8 elements, for i up to 7: as IR, since the front end refuses it."""

    @proc
    def shifted(n: index, x: f32[8] @ DRAM):
        for i in seq(0, 8):
            if i + n < 8 and i + n >= 0:
                x[i + n] = 1

    guard = shifted.ir.body[0].body[0]
    loop = type(shifted.ir.body[0])(
        shifted.ir.body[0].iterator,
        shifted.ir.body[0].lo,
        shifted.ir.body[0].hi,
        shifted.ir.body[0].mode,
        guard.body,
    )
    return Proc(shifted.ir.name, shifted.ir.params, (), (loop,))


@pytest.mark.parametrize(("n", "index"), [(1, 8), (-1, -1)])
def test_out_of_range_is_an_error_with_a_place(n, index):
    with pytest.raises(ExoGpuError) as error:
        interpreter.run(out_of_range(n), {"n": n, "x": np.zeros(8, np.float32)})
    (diagnostic,) = error.value.diagnostics
    assert diagnostic.code == "X927" and f"index {index} of x" in diagnostic.message
    assert diagnostic.span.text.strip() == "x[i + n] = 1"


def test_clipping_excuses_nothing_but_the_variable_below():
    # Row 8 is outside the operand itself, although the write would be dropped for M = 8.
    load = edge_tiles.ir.body[2].body[0].body[0].body[4].instr
    grown = dataclasses.replace(
        load, body=(dataclasses.replace(load.body[0], hi=Int(9)),), preconditions=()
    )
    outer = edge_tiles.ir.body[2].body[0].body[0]
    call = dataclasses.replace(outer.body[4], instr=grown)
    block = (*outer.body[:4], call)
    body = (*edge_tiles.ir.body[:2], dataclasses.replace(outer, body=block, hi=Int(1)))
    first = edge_tiles.ir.body[2].body[0]
    procedure = dataclasses.replace(
        edge_tiles.ir, body=(*body[:2], dataclasses.replace(first, hi=Int(1), body=(body[2],)))
    )
    for run in (elementwise.run, interpreter.run):
        A = np.ones((8, 32), np.float32)
        with pytest.raises(ExoGpuError, match=r"X927: index 8 of (dst|src)"):
            run(procedure, {"A": A, "C": A.copy()})


# --- speed --------------------------------------------------------------------------------


def test_a_thread_an_output_is_fast():
    # 128 cubed is two million multiplications; one at a time they take minutes.
    @proc
    def matmul(
        n: size,
        A: f32[n, n] @ CudaGmemLinear,
        B: f32[n, n] @ CudaGmemLinear,
        C: f32[n, n] @ CudaGmemLinear,
    ):
        with CudaDeviceFunction(blockDim=256):
            for tm in cuda_tasks(0, (n + 15) / 16):
                for tn in cuda_tasks(0, (n + 15) / 16):
                    acc: f32[256]
                    for t in cuda_threads(0, 256, unit=cuda_thread):
                        if 16 * tm + t / 16 < n and 16 * tn + t % 16 < n:
                            acc[t] = 0
                            for k in seq(0, n):
                                acc[t] += A[16 * tm + t / 16, k] * B[k, 16 * tn + t % 16]
                            C[16 * tm + t / 16, 16 * tn + t % 16] = acc[t]

    generator = np.random.default_rng(1)
    for n in (128, 121):
        A, B = generator.random((2, n, n), np.float32)
        C = np.zeros((n, n), np.float32)
        start = time.perf_counter()
        interpreter.run(matmul.ir, {"A": A, "B": B, "C": C})
        assert time.perf_counter() - start < 60
        np.testing.assert_allclose(C, A @ B, rtol=1e-4)


def test_index_arithmetic_is_exact_or_refused():
    """10**18 * 19 leaves 64 bits; numpy would go on with what is left."""

    @proc
    def far(n: size, y: i32[7] @ DRAM):
        for i in seq(0, n):
            y[(1000000000000000000 * i) / 3 % 7] += 1

    @proc
    def near(n: size, y: i32[7] @ DRAM):
        for i in seq(0, n):
            y[(1000000000000000000 * i) % 7] += 1

    # Of a remainder the factor's own is enough.
    both(near, n=20, y=np.zeros(7, np.int32))
    for n in (1, 4):
        both(far, n=n, y=np.zeros(7, np.int32))
    with pytest.raises(ExoGpuError, match="X930"):
        far.run(n=20, y=np.zeros(7, np.int32))


def test_zeros_and_nan_in_min_and_max():
    @proc
    def ends(x: f32[4] @ DRAM, y: f32[4] @ DRAM, least: f32[4] @ DRAM, most: f32[4] @ DRAM):
        for i in seq(0, 4):
            least[i] = min(x[i], y[i])
            most[i] = max(x[i], y[i])
            x[i] = relu(x[i])

    x, y = np.array([[0, -0.0, np.nan, 1], [-0.0, 0, 1, np.nan]], np.float32)
    got = both(ends, x=x, y=y, least=np.zeros(4, np.float32), most=np.zeros(4, np.float32))
    assert np.signbit(got["least"][:2]).all() and not np.signbit(got["most"][:2]).any()
    assert not np.signbit(got["x"][:2]).any()
    assert np.isnan([got["least"][2:], got["most"][2:]]).all() and np.isnan(got["x"][2])


def test_the_least_integer_divided_by_minus_one_wraps():
    @proc
    def divide(n: i32[2] @ DRAM, m: i64[2] @ DRAM):
        n[0] = n[0] / n[1]
        m[0] = m[0] / m[1]

    n, m = np.array([-(2**31), -1], np.int32), np.array([-(2**63), -1], np.int64)
    got = both(divide, n=n, m=m)
    assert got["n"][0] == -(2**31) and got["m"][0] == -(2**63)
