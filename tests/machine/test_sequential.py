"""The sequential meaning: against the naive interpreter, and case by case."""

from __future__ import annotations

import dataclasses
import time
from itertools import product

import numpy as np
import pytest
from hypothesis import HealthCheck, given, settings
from hypothesis import strategies as st
from random_procs import arguments, random_proc

from exogpu.api import proc
from exogpu.errors import ExoGpuError
from exogpu.ir.names import Sym
from exogpu.ir.nodes import Int, Proc
from exogpu.machine import naive, sequential
from exogpu.machine.sequential import execute, round_bf16
from exogpu.machine.sequential.affine import Affine, divide, remainder
from exogpu.machine.sequential.contract import sum_of_products
from exogpu.machine.sequential.core import Buffer, Guard, Loop, Nodes
from exogpu.machine.sequential.dependence import annotate
from exogpu.machine.sequential.inline import inline
from exogpu.machine.sequential.lanes import Lanes, evaluate
from exogpu.machine.sequential.rewrite import split_digits
from exogpu.platforms.cuda import cuda_shfl_xor
from exogpu.platforms.sm90 import Sm90_tma_load, Sm90_tma_reduce


@settings(
    derandomize=True,
    max_examples=1000,
    deadline=None,
    suppress_health_check=[HealthCheck.function_scoped_fixture],
)
@given(st.integers(0, 1 << 32), st.sampled_from([2, 5, 40, 1 << 20]))
def test_agrees_with_naive_interpreter(monkeypatch, seed, instances):
    procedure = random_proc(seed)
    # Few instances at once: loops run in chunks, or in order; many: all at once.
    monkeypatch.setattr(execute, "INSTANCES", instances)
    expected, actual = arguments(procedure, seed), arguments(procedure, seed)
    try:
        naive.run(procedure, expected)
    except ExoGpuError:
        with pytest.raises(ExoGpuError):
            sequential.run(procedure, actual)
        return
    sequential.run(procedure, actual)
    for name, array in expected.items():
        np.testing.assert_array_equal(actual[name], array, err_msg=name)


# --- which loops are parallel -------------------------------------------------------------


def loops(nodes: Nodes) -> list[tuple[str, bool]]:
    """The loops in program order, and whether they are parallel."""
    found = []
    for node in nodes:
        if isinstance(node, Loop):
            found += [(node.iterator.name, node.parallel), *loops(node.body)]
        elif isinstance(node, Guard):
            found += loops((*node.body, *node.orelse))
    return found


def compiled(procedure: Proc, **shapes: tuple[int, ...]) -> list[tuple[str, bool]]:
    buffers = {
        p.name: Buffer(p.name.name, p.dtype, shapes[p.name.name], False) for p in procedure.params
    }
    nodes, ranges = inline(procedure, {}, buffers)
    return loops(annotate(split_digits(nodes, ranges), ranges))


@proc
def independent(x: f32[16] @ DRAM, y: f32[16] @ DRAM):
    for i in seq(0, 16):
        x[i] = y[i] + x[i]


@proc
def carried(x: f32[17] @ DRAM):
    for i in seq(0, 16):
        x[i + 1] = x[i]


@proc
def distant(x: f32[32] @ DRAM):
    for i in seq(0, 16):
        x[i + 16] = x[i]  # reads 0..15, writes 16..31


@proc
def even_and_odd(x: f32[33] @ DRAM):
    for i in seq(0, 16):
        x[2 * i] = x[2 * i + 1]


@proc
def tiles(x: f32[32] @ DRAM):
    for i in seq(0, 4):
        for j in seq(0, 8):
            x[8 * i + j] = 0


@proc
def overlapping_tiles(x: f32[32] @ DRAM):
    for i in seq(0, 4):
        for j in seq(0, 8):
            x[7 * i + j] = 0


@proc
def digits(x: f32[8, 4] @ DRAM):
    for t in seq(0, 32):
        x[t / 4, t % 4] = 0


@proc
def summed(s: f32 @ DRAM, x: f32[16] @ DRAM):
    for i in seq(0, 16):
        s += x[i]


@proc
def summed_in_bf16(s: bf16 @ DRAM, x: f32[16] @ DRAM):
    for i in seq(0, 16):
        s += x[i]


@proc
def prefix(s: f32 @ DRAM, x: f32[16] @ DRAM):
    for i in seq(0, 16):
        s += x[i]
        x[i] = s


@proc
def shared_scalar(s: f32 @ DRAM, x: f32[16] @ DRAM):
    for i in seq(0, 16):
        s = x[i]
        x[i] = s


@proc
def private_scalar(x: f32[16] @ DRAM):
    for i in seq(0, 16):
        t: f32 @ DRAM
        t = x[i]
        x[i] = t + 1


@proc
def one_lane_writes(x: f32[4] @ DRAM):
    for t in seq(0, 32):
        if t % 8 == 0:
            x[t / 8] = 1


@proc
def either_lane_writes(x: f32[4] @ DRAM):
    for t in seq(0, 32):
        if t % 8 == 0 or t % 8 == 3:
            x[t / 8] = 1


@proc
def other_lanes_write(x: f32[4] @ DRAM):
    for t in seq(0, 32):
        if t % 8 == 0:
            pass
        else:
            x[t / 8] = 1


@proc
def opaque_division(x: f32[6] @ DRAM):
    for i in seq(0, 16):
        x[i / 3] = 1  # 16 is no multiple of 3: the loop is not split


@pytest.mark.parametrize(
    ("procedure", "shapes", "expected"),
    [
        (independent, {"x": (16,), "y": (16,)}, [("i", True)]),
        (carried, {"x": (17,)}, [("i", False)]),
        (distant, {"x": (32,)}, [("i", True)]),
        (even_and_odd, {"x": (33,)}, [("i", True)]),
        (tiles, {"x": (32,)}, [("i", True), ("j", True)]),
        # The last element of a tile is the first of the next.
        (overlapping_tiles, {"x": (32,)}, [("i", False), ("j", True)]),
        # t becomes two loops, one a digit.
        (digits, {"x": (8, 4)}, [("t", True), ("t", True)]),
        (summed, {"s": (), "x": (16,)}, [("i", True)]),
        # Each step rounds, so the order shows.
        (summed_in_bf16, {"s": (), "x": (16,)}, [("i", False)]),
        (prefix, {"s": (), "x": (16,)}, [("i", False)]),
        (shared_scalar, {"s": (), "x": (16,)}, [("i", False)]),
        (private_scalar, {"x": (16,)}, [("i", True)]),
        # The guard pins the low digit, so only the high one can differ.
        (one_lane_writes, {"x": (4,)}, [("t", True), ("t", True)]),
        (either_lane_writes, {"x": (4,)}, [("t", True), ("t", False)]),
        (other_lanes_write, {"x": (4,)}, [("t", True), ("t", False)]),
        (opaque_division, {"x": (6,)}, [("i", False)]),
    ],
)
def test_parallel_loops(procedure, shapes, expected):
    assert compiled(procedure.ir, **shapes) == expected


# --- values -------------------------------------------------------------------------------


def both(procedure, **given):
    """Run both interpreters on copies; they must agree, and the arrays are returned."""
    results = []
    for run in (naive.run, sequential.run):
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
    # The first guard makes one axis of two, the second one of that and the third.
    @proc
    def simplex(x: f32[5, 5, 5, 5] @ DRAM):
        for i in seq(0, 5):
            for j in seq(0, 5):
                for k in seq(0, 5):
                    if i + j < 6 and i != j:
                        if j + k > 2:
                            for p in seq(0, 5):
                                if k + p != i:
                                    x[i, j, k, p] = 1
                                else:
                                    x[i, j, k, p] = 2

    both(simplex, x=np.zeros((5, 5, 5, 5), np.float32))


@settings(derandomize=True, max_examples=200, deadline=None)
@given(st.data())
def test_sum_of_products(data):
    # Every assignment of axes to the two factors and to the sum, against einsum.
    shape = tuple(data.draw(st.lists(st.integers(2, 3), min_size=1, max_size=5)))
    axes = st.sets(st.sampled_from(range(len(shape))))
    of_left, of_right, summed = data.draw(axes), data.draw(axes), sorted(data.draw(axes))
    generator = np.random.default_rng(3)
    left, right = (
        generator.integers(-3, 4, [n if a in of else 1 for a, n in enumerate(shape)]).astype("f4")
        for of in (of_left, of_right)
    )
    full = np.broadcast_to(left * right, shape).sum(axis=tuple(summed), keepdims=True)
    found = sum_of_products(left, right, shape, summed)
    np.testing.assert_array_equal(np.broadcast_to(found, full.shape), full)


@settings(derandomize=True, max_examples=300, deadline=None)
@given(st.integers(-9, 9), st.tuples(*[st.integers(-12, 12)] * 3), st.integers(1, 12))
def test_divisions_of_forms(constant, coefficients, divisor):
    names = [Sym(n) for n in "ijk"]
    ranges = {name: (-2, 3) for name in names}
    form = Affine(constant, tuple((n, c) for n, c in zip(names, coefficients, strict=True) if c))
    quotient, rest = divide(form, divisor, ranges), remainder(form, divisor, ranges)
    for values in product(range(-2, 4), repeat=3):
        lanes = Lanes((), dict(zip(names, values, strict=True)), ())
        exact = evaluate(form, lanes).base
        assert evaluate(quotient, lanes).base == exact // divisor
        assert evaluate(rest, lanes).base == exact % divisor


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
        sequential.run(out_of_range(n), {"n": n, "x": np.zeros(8, np.float32)})
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
    for run in (naive.run, sequential.run):
        A = np.ones((8, 32), np.float32)
        with pytest.raises(ExoGpuError, match=r"X927: index 8 of (dst|src)"):
            run(procedure, {"A": A, "C": A.copy()})


# --- arguments ----------------------------------------------------------------------------


@proc
def scale(M: size, K: size, A: f32[M, K] @ DRAM, b: bf16[K] @ DRAM, s: f32 @ DRAM):
    assert K % 2 == 0
    for m in seq(0, M):
        for k in seq(0, K):
            A[m, k] = A[m, k] * s + b[k]


@proc
def sum_of(M: size, x: f32[M] @ DRAM, s: f32 @ DRAM):
    assert M >= 0
    for m in seq(0, M):
        s += x[m]


def good() -> dict[str, object]:
    return {
        "A": np.ones((3, 4), np.float32),
        "b": np.ones(4, np.float32),
        "s": np.full((), 2, np.float32),
    }


def test_sizes_follow_from_shapes_and_scalars_may_be_numbers():
    for change in ({}, {"M": 3}, {"s": 2.0}, {"K": np.int64(4)}):
        given = good() | change
        sequential.run(scale.ir, given)
        np.testing.assert_array_equal(given["A"], np.full((3, 4), 3))


def test_arrays_of_any_layout_change_in_place():
    base = np.ones((8, 6), np.float32)
    view = base[1::2, ::-2][:3].T.T
    sequential.run(scale.ir, {"A": view[:, :2], "b": np.ones(2, np.float32), "s": 2.0})
    np.testing.assert_array_equal(view[:, :2], np.full((3, 2), 3))
    assert base.sum() == 8 * 6 + 2 * 6  # six elements grew by two, no other


@pytest.mark.parametrize(
    ("change", "code"),
    [
        ({"AA": 1}, "X920"),
        ({"A": None}, "X922"),
        ({"A": np.ones((3, 4))}, "X922"),  # float64
        ({"M": 3.0}, "X922"),
        ({"M": True}, "X922"),
        ({"A": np.ones(4, np.float32)}, "X923"),
        ({"A": np.ones((3, 6), np.float32)}, "X923"),  # b says K = 4
        ({"M": 4}, "X923"),
        ({"b": np.full(4, 0.1, np.float32)}, "X924"),  # 0.1 in f32 is not bf16
        ({"A": np.ones((3, 3), np.float32), "b": np.ones(3, np.float32)}, "X904"),  # K odd
        ({"A": np.ones((0, 4), np.float32)}, "X903"),  # M = 0
    ],
)
def test_arguments_are_checked_first(change, code):
    given = good() | change
    with pytest.raises(ExoGpuError) as error:
        sequential.run(scale.ir, given)
    assert {d.code for d in error.value.diagnostics} == {code}
    assert all(d.help for d in error.value.diagnostics)


def test_missing_array_and_what_follows_from_it():
    with pytest.raises(ExoGpuError) as error:
        sequential.run(scale.ir, {"b": np.ones(4, np.float32), "s": 1.0})
    assert "X921" in {d.code for d in error.value.diagnostics}


def test_written_arrays_must_be_writable_and_their_own():
    x = np.ones(4, np.float32)
    with pytest.raises(ExoGpuError, match="X925"):
        sequential.run(sum_of.ir, {"x": x, "s": 0.0})
    with pytest.raises(ExoGpuError, match="X926"):
        sequential.run(sum_of.ir, {"x": x, "s": x[2:3].reshape(())})


def test_zero_size_where_a_precondition_admits_it():
    given = {"x": np.ones(0, np.float32), "s": np.full((), 7, np.float32)}
    sequential.run(sum_of.ir, given)
    assert given["s"] == 7


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
        sequential.run(matmul.ir, {"A": A, "B": B, "C": C})
        assert time.perf_counter() - start < 5
        np.testing.assert_allclose(C, A @ B, rtol=1e-4)
