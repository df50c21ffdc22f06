"""Which loops may run all iterations at once, and the arithmetic that this rests on."""

from __future__ import annotations

from itertools import product

import numpy as np
import pytest
from hypothesis import given, settings
from hypothesis import strategies as st

from exogpu.api import proc
from exogpu.interpreter.divide_iterators import split_digits
from exogpu.interpreter.inline import inline
from exogpu.interpreter.lanes import Lanes, evaluate, sum_of_products
from exogpu.interpreter.parallel_loops import annotate
from exogpu.interpreter.program import Buffer, Guard, Loop, Nodes
from exogpu.ir.affine import Affine, Floor, Range, Rest, divide, range_of, remainder
from exogpu.ir.nodes import Proc
from exogpu.ir.types import Sym


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
    ranges = {name: Range(-2, 3) for name in names}
    form = Affine(constant, tuple((n, c) for n, c in zip(names, coefficients, strict=True) if c))
    quotient, rest = divide(form, divisor, ranges), remainder(form, divisor, ranges)
    for values in product(range(-2, 4), repeat=3):
        lanes = Lanes((), dict(zip(names, values, strict=True)), ())
        exact = evaluate(form, lanes).base
        assert evaluate(quotient, lanes).base == exact // divisor
        assert evaluate(rest, lanes).base == exact % divisor


@settings(derandomize=True, max_examples=300, deadline=None)
@given(
    st.integers(-9, 9),
    st.tuples(*[st.integers(-12, 12)] * 2),
    st.tuples(*[st.sampled_from((1, 2, 3))] * 2),
    st.integers(1, 12),
)
def test_ranges_of_forms(constant, coefficients, steps, divisor):
    names = [Sym(n) for n in "ij"]
    ranges = {name: Range(-2, 4, step) for name, step in zip(names, steps, strict=True)}
    form = Affine(constant, tuple((n, c) for n, c in zip(names, coefficients, strict=True) if c))
    forms = [form, divide(form, divisor, ranges), remainder(form, divisor, ranges)]
    forms += [Affine(0, ((Rest(form, divisor), 1),)), Affine(0, ((Floor(form, divisor), -2),))]
    for values in product(*(range(-2, 5, step) for step in steps)):
        lanes = Lanes((), dict(zip(names, values, strict=True)), ())
        for one in forms:
            lo, hi, step = range_of(one, ranges)
            assert evaluate(one, lanes).base in range(lo, hi + 1, step or 1)


def test_products_in_bands():
    # 100 rows of 64 * 80 multiplications each do not fit in one band.
    generator = np.random.default_rng(4)
    left, right = (generator.integers(-3, 4, s).astype("f4") for s in ((100, 64, 1), (1, 64, 80)))
    found = sum_of_products(left, right, (100, 64, 80), [1])
    np.testing.assert_array_equal(found[:, 0], left[:, :, 0] @ right[0])
