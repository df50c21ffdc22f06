"""Variables that are written as a whole before they are read need not be followed."""

from __future__ import annotations

from dataclasses import replace

import pytest

from exogpu.amir.nodes import Alloc, Guard, Loop, OnWindow
from exogpu.amir.walk import operations
from exogpu.machine import fast, literal
from exogpu.machine.fast.first_writes import written_first
from tests.texts import made

KERNEL = """
@proc
def kernel(M: size, y: f32[M] @ CudaGmemLinear):
    with CudaDeviceFunction(blockDim=32):
        for task in cuda_tasks(0, M):
            r: f32[2, 32] @ CudaSmemLinear
{first}
            Fence(cuda_in_order, cuda_in_order)
            for t in cuda_threads(0, 1, unit=cuda_thread):
                y[task] = r[1, 31]
            Fence(cuda_in_order, cuda_in_order)
"""
THREADS = "            for t in cuda_threads(0, {threads}, unit=cuda_thread):\n"


@pytest.mark.parametrize(
    ("threads", "body", "whole"),
    [
        (32, "for i in seq(0, 2):\n                    r[i, t] = 0.0", True),
        (32, "for i in seq(0, M):\n                    r[i % 2, t] = 0.0", False),
        (31, "for i in seq(0, 2):\n                    r[i, t] = 0.0", False),
        (32, "for i in seq(1, 2):\n                    r[i, t] = 0.0", False),
        (
            32,
            "if task > 0:\n                    for i in seq(0, 2):\n"
            "                        r[i, t] = 0.0",
            False,
        ),
        (32, "for i in seq(0, 2):\n                    r[i, t] = r[i, t] + 1.0", False),
    ],
)
def test_only_what_is_written_as_a_whole_is_left_out(threads, body, whole):
    first = THREADS.format(threads=threads) + " " * 16 + body
    program = made(KERNEL.format(first=first)).amir()
    size = program.params[0].name
    (name,) = (v.name for v in program.variables if v.name.name == "r")
    assert (name in written_first(program.body, program, {size: 2})) is whole
    for sizes in ({"M": 1}, {"M": 2}):
        assert fast.run(program, sizes).violations == literal.run(program, sizes)
        found = fast.run(program, sizes, collect=True).violations
        assert found == literal.run(program, sizes, collect=True)


TWICE = """
@proc
def kernel(M: size, y: f32[M] @ CudaGmemLinear):
    with CudaDeviceFunction(blockDim=32):
        for task in cuda_tasks(0, M):
            for t in cuda_threads(0, 1, unit=cuda_thread):
                r: f32[2]
                for i in seq(0, 2):
                    r[i] = 0.0
                y[task] = r[1]
            for t in cuda_threads(0, 1, unit=cuda_thread):
                r: f32[2]
                r[0] = 0.0
                y[task] = r[1]
"""


def test_a_variable_of_each_name_has_its_own_allocation():
    """The machine follows a variable if one of its allocations is not written whole."""
    program = made(TWICE).amir()
    size, names = program.params[0].name, [v.name for v in program.variables if v.name.name == "r"]
    found = written_first(program.body, program, {size: 1})
    assert [name in found for name in names] == [True, False]
    (first, second) = (op for op in _allocs(program.body) if op.name in names)
    renamed = _renamed(program.body, second.name, first.name)
    assert not written_first(renamed, program, {size: 1}) & {first.name}


def _allocs(block):
    return [op for op in operations(block) if isinstance(op, Alloc)]


def _renamed(block, old, new):
    """The block with another name for a variable."""
    found = []
    for op in block:
        if isinstance(op, Loop | Guard):
            op = replace(op, body=_renamed(op.body, old, new))
        elif isinstance(op, Alloc) and op.name == old:
            op = replace(op, name=new)
        elif isinstance(op, OnWindow) and op.access.name == old:
            op = replace(op, access=replace(op.access, name=new))
        found.append(op)
    return tuple(found)
