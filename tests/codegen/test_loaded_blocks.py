"""Values from memory that several blocks of one block name, and such that nothing reads."""

from __future__ import annotations

import shutil

import numpy as np
import pytest

from campaigns.emulator.launch import Emulated, EmulatedError
from campaigns.emulator.orders import ORDERS
from exogpu import macro, proc
from exogpu.api import Procedure

emulating = pytest.mark.skipif(shutil.which("g++") is None, reason="no g++ on this machine")


@macro
def add_at(y, table, g, n):
    j = load_index(table[g], 0, n)
    a: f32
    a = y[g, j]
    y[g, j] = a + 1.0


def several(by: str) -> Procedure:
    """Loads of one name, beside registers of one name: of a loop that is unrolled, or of macros."""
    unrolled, called = by == "unrolled", by == "macros"

    @proc(name=f"several_{by}")
    def made(N: size, table: i32[N] @ CudaGmemLinear, y: f32[N, N] @ CudaGmemLinear):
        with CudaDeviceFunction(blockDim=32):
            for g in cuda_tasks(0, N):
                for t in cuda_threads(0, 1, unit=cuda_thread):
                    if unrolled:
                        for u in range(2):
                            j = load_index(table[g], 0, N)
                            a: f32
                            a = y[g, j]
                            y[g, j] = a + 1.0
                    if called:
                        add_at(y, table, g, N)
                        add_at(y, table, g, N)

    return made


@pytest.mark.slow
@emulating
@pytest.mark.parametrize("by", ["unrolled", "macros"])
def test_each_names_what_it_reads_in_its_own_block(by, tmp_path):
    procedure = several(by)
    made, manifest = procedure.emit(unchecked=True)
    kernel = Emulated(made.source, manifest, tmp_path)
    table = np.array([2, 0, 2], np.int32)
    wanted = np.zeros((3, 3), np.float32)
    wanted[np.arange(3), table] = 2.0
    found = np.zeros((3, 3), np.float32)
    procedure.run(table=table, y=found)
    assert np.array_equal(found, wanted)
    for order in ORDERS:
        y = np.zeros((3, 3), np.float32)
        kernel({"table": table, "y": y}, {"N": 3}, order)
        assert np.array_equal(y, wanted)


@pytest.mark.slow
@emulating
def test_what_nothing_reads_is_in_its_range_nevertheless(tmp_path):
    @proc
    def unread(N: size, table: i32[N] @ CudaGmemLinear, y: f32[N] @ CudaGmemLinear):
        with CudaDeviceFunction(blockDim=32):
            for g in cuda_tasks(0, N):
                for t in cuda_threads(0, 1, unit=cuda_thread):
                    y[g] = 1.0
                    j = load_index(table[g], 0, N)

    made, manifest = unread.emit(unchecked=True)
    kernel = Emulated(made.source, manifest, tmp_path)
    y = np.zeros(2, np.float32)
    kernel({"table": np.array([1, 0], np.int32), "y": y}, {"N": 2}, ORDERS[0])
    assert y.tolist() == [1.0, 1.0]
    with pytest.raises(EmulatedError, match=r"2, no index of 0 .. 1"):
        kernel({"table": np.array([1, 2], np.int32), "y": y}, {"N": 2}, ORDERS[0])
