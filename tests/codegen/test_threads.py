"""The checker of inverse thread maps must accept ours and refuse a wrong one."""

from __future__ import annotations

import pytest

from exogpu.api import proc
from exogpu.codegen import threads
from exogpu.codegen.names import InternalError
from exogpu.codegen.threads import Inverse, inverse_of_loop
from exogpu.ir.nodes import Add, CudaThreads, For, Int
from exogpu.ir.walk import walk


@proc
def nested(x: f32[4096] @ CudaGmemLinear):
    with CudaDeviceFunction(clusterDim=4, blockDim=256):
        for task in cuda_tasks(0, 2):
            for n in cuda_threads(0, 2, unit=2 * cuda_cta_in_cluster_strided(2)):
                for m in cuda_threads(0, 2, unit=cuda_cta_in_cluster):
                    for w in cuda_threads(1, 7, unit=cuda_warp):
                        for q in cuda_threads(0, 3, unit=8 * cuda_thread):
                            for t in cuda_threads(0, 8, unit=cuda_thread):
                                x[1024 * n + 512 * m + 32 * w + 8 * q + t] = 0


def loops():
    facts = nested.facts
    for stmt in walk(facts.proc.body):
        if isinstance(stmt, For) and isinstance(stmt.mode, CudaThreads):
            yield stmt, facts.collective.scope[stmt], facts.collective.inner[stmt]


def test_inverses_are_accepted():
    assert len([inverse_of_loop(*loop) for loop in loops()]) == 5


@pytest.mark.parametrize("at", range(5))
def test_wrong_inverses_are_refused(at):
    """One off in the value: every loop's check must see it."""
    stmt, parent, child = list(loops())[at]
    right = inverse_of_loop(stmt, parent, child)
    wrong = Inverse(Add(right.value, Int(1)), right.condition)
    with pytest.raises(InternalError, match=f"cuda_threads over {stmt.iterator}"):
        threads._check(stmt, parent, child, wrong)
