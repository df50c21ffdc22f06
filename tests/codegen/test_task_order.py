"""Task orders: every task once, whatever the order; neighbours in time are neighbours in place."""

from __future__ import annotations

import ctypes
import shutil
import subprocess
from itertools import pairwise, product

import pytest

from exogpu.codegen.host_steps import emit
from exogpu.codegen.instruction_text import helper_text
from exogpu.codegen.task_order import Grouped, Hilbert, Lexicographic, parse_order
from exogpu.diagnostics.errors import ExoGpuError
from exogpu.kernels import gemm_sm90, gemm_splitk_sm90
from exogpu.kernels.gemv_f32 import gemv

GEMM = gemm_sm90.KERNELS["gemm_sm90_1x1_128x256"]
SPLIT_K = gemm_splitk_sm90.KERNELS["gemm_splitk_sm90_2x1_128x256"]

# What the helpers take from CUDA, for a C++ compiler of the host.
SHIM = """
#include <algorithm>
#include <cstdlib>
using std::min; using std::abs;
#define __device__
#define __forceinline__
struct int2 { int x, y; };
int2 make_int2(int x, int y) { return {x, y}; }
"""
EXPORTS = """
extern "C" int2 grouped(int n, int r, int c, int g) { return grouped_tile(n, r, c, g); }
extern "C" int2 hilbert(int n, int r, int c) { return hilbert_tile(n, r, c); }
"""
COMPILER = shutil.which("g++") or shutil.which("clang++")
RECTANGLES = [*product(range(1, 13), range(1, 13)), (1, 97), (97, 1), (43, 32), (64, 64), (5, 211)]


class Int2(ctypes.Structure):
    _fields_ = (("x", ctypes.c_int), ("y", ctypes.c_int))


def source(procedure, order=None) -> str:
    facts = procedure.facts
    return emit(facts, task_order=order).source


@pytest.fixture(scope="module")
def helpers(tmp_path_factory):
    if COMPILER is None:
        pytest.skip("no C++ compiler on this machine")
    folder = tmp_path_factory.mktemp("task_order")
    text = SHIM + helper_text("grouped_tile") + helper_text("hilbert_tile") + EXPORTS
    (folder / "helpers.cpp").write_text(text)
    made = folder / "helpers.so"
    command = [COMPILER, "-std=c++17", "-shared", "-fPIC", "-o", made, folder / "helpers.cpp"]
    subprocess.run(command, check=True)
    library = ctypes.CDLL(str(made))
    library.grouped.restype = library.hilbert.restype = Int2
    return library


def tiles(function, rows, columns, *more):
    found = [function(n, rows, columns, *more) for n in range(rows * columns)]
    return [(tile.x, tile.y) for tile in found]


@pytest.mark.parametrize(("rows", "columns"), RECTANGLES)
def test_every_task_once(helpers, rows, columns):
    """A task that was left out would leave a tile unwritten; one taken twice would race."""
    every = set(product(range(rows), range(columns)))
    for order in (
        tiles(helpers.hilbert, rows, columns),
        *(tiles(helpers.grouped, rows, columns, group) for group in (1, 2, 8)),
    ):
        assert set(order) == every


@pytest.mark.parametrize(("rows", "columns"), RECTANGLES)
def test_hilbert_walks_to_neighbours(helpers, rows, columns):
    """Steps go to one of the eight neighbours: a curve that jumped would not reuse data."""
    order = tiles(helpers.hilbert, rows, columns)
    assert all(max(abs(a - c), abs(b - d)) == 1 for (a, b), (c, d) in pairwise(order))


def test_grouped_walks_bands(helpers):
    """Three rows in bands of two: both rows of a column, then the next column."""
    assert tiles(helpers.grouped, 3, 2, 2) == [(0, 0), (1, 0), (0, 1), (1, 1), (2, 0), (2, 1)]


def test_default_groups_the_loops_that_share_data():
    """A depends on tm and not on tn, B on tn and not on tm; both depend on batch and on s."""
    assert "grouped_tile(task_number % (tasks_tm * tasks_tn), tasks_tm, tasks_tn, 16)" in source(
        GEMM
    )
    assert "grouped_tile(task_number / tasks_s % (tasks_tm * tasks_tn), " in source(SPLIT_K)
    assert "grouped_tile" not in source(gemv)


def test_orders_that_are_asked_for():
    lexicographic = source(GEMM, Lexicographic())
    assert "const int tn = task_number % tasks_tn;" in lexicographic
    assert "_tile(" not in lexicographic.partition("__global__")[2]
    assert "tasks_tm, tasks_tn, 3)" in source(GEMM, Grouped(3))
    assert "hilbert_tile(task_number % (tasks_tm * tasks_tn)" in source(GEMM, Hilbert())
    batched = source(GEMM, Grouped(2, loops=("batch", "tn")))
    assert "grouped_tile(task_number / tasks_tm, tasks_batch, tasks_tn, 2)" in batched
    assert "tasks_task" in source(gemv, Hilbert()), "one loop has one order"


@pytest.mark.parametrize("loops", [("tm", "tx"), ("tm", "tm")])
def test_order_without_its_loops_is_refused(loops):
    with pytest.raises(ExoGpuError) as refused:
        source(GEMM, Grouped(8, loops=loops))
    assert [d.code for d in refused.value.diagnostics] == ["G808"]


NO_ORDERS = (
    *(Grouped(rows) for rows in (0, -4, 2.5, "4", True, 1 << 31)),
    *(Grouped(8, loops) for loops in (("tm",), ("tm", "tn", "batch"), "tm")),
    *(Hilbert(3), "grouped", Grouped, 8),
)


@pytest.mark.parametrize("order", NO_ORDERS, ids=str)
def test_what_is_no_order_is_refused(order):
    """A band of no rows divides by 0, and one of 2^31 has a negative number of them."""
    for of in (GEMM, gemv):
        with pytest.raises(ExoGpuError, match=r"X962.*is no order of tasks"):
            source(of, order)
    with pytest.raises(ExoGpuError, match="X962"):
        gemv.emit(task_order=order)


def test_the_greatest_band(helpers):
    greatest = parse_order("grouped:2147483647").rows
    walked = [helpers.grouped(n, 3, 5, greatest) for n in range(15)]
    assert {(at.x, at.y) for at in walked} == set(product(range(3), range(5)))


def test_parse_order():
    assert parse_order("grouped:4") == Grouped(4)
    assert parse_order("grouped") == Grouped()
    assert parse_order("hilbert") == Hilbert()
    assert parse_order("lexicographic") == Lexicographic()
    for wrong in ("", "grouped:0", "grouped:2147483648", "grouped:x", "hilbert:2", "random"):
        with pytest.raises(ValueError, match="is none of"):
            parse_order(wrong)
