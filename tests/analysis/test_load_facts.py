"""Bounds and operands know what two values from memory have to do with each other."""

from __future__ import annotations

from dataclasses import replace

import pytest

from exogpu import Procedure, proc
from exogpu.analysis.bounds import violations, violations_at
from exogpu.diagnostics.hazards import HazardKind


@proc
def guarded(G: size, N: size, offs: i32[G + 1] @ CudaGmemLinear, y: f32[N, 32] @ CudaGmemLinear):
    assert monotone(offs)
    with CudaDeviceFunction(blockDim=32):
        for g in cuda_tasks(0, G):
            lo = load_index(offs[g], 0, N + 1)
            hi = load_index(offs[g + 1], 0, N + 1)
            if lo != hi:
                for t in cuda_threads(0, 32, unit=cuda_thread):
                    y[lo, t] = 1.0


@proc
def length(G: size, N: size, offs: i32[G + 1] @ CudaGmemLinear, y: f32[G, N + 1] @ CudaGmemLinear):
    assert monotone(offs)
    with CudaDeviceFunction(blockDim=32):
        for g in cuda_tasks(0, G):
            lo = load_index(offs[g], 0, N + 1)
            hi = load_index(offs[g + 1], 0, N + 1)
            for t in cuda_threads(0, 1, unit=cuda_thread):
                y[g, hi - lo] = 1.0


@proc
def between(G: size, N: size, offs: i32[G + 1] @ CudaGmemLinear, y: f32[G, N] @ CudaGmemLinear):
    assert monotone(offs)
    assert injective(offs)
    with CudaDeviceFunction(blockDim=32):
        for g in cuda_tasks(0, G):
            lo = load_index(offs[g], 0, N + 1)
            hi = load_index(offs[g + 1], 0, N + 1)
            for t in cuda_threads(0, 1, unit=cuda_thread):
                y[g, hi - lo - 1] = 1.0


@proc
def one_element(G: size, N: size, p: i32[G] @ CudaGmemLinear, y: f32[G, N] @ CudaGmemLinear):
    with CudaDeviceFunction(blockDim=32):
        for g in cuda_tasks(0, G):
            a = load_index(p[g], 0, N)
            b = load_index(p[g], 0, 2 * N)
            for t in cuda_threads(0, 1, unit=cuda_thread):
                y[g, b] = 1.0 * y[g, a]


def without(kernel: Procedure, contract: str) -> Procedure:
    """The kernel without one of its contracts."""
    left = tuple(one for one in kernel.ir.contracts if one.kind != contract)
    assert len(left) < len(kernel.ir.contracts)
    return Procedure(kernel.name, replace(kernel.ir, contracts=left), ())


@pytest.mark.parametrize("kernel", [guarded, length, between], ids=lambda k: k.name)
def test_what_a_contract_excludes_is_no_refutation(kernel: Procedure) -> None:
    assert kernel.check().word == "proved"


@pytest.mark.parametrize(
    ("kernel", "contract"),
    [(guarded, "monotone"), (length, "monotone"), (between, "monotone"), (between, "injective")],
    ids=lambda one: getattr(one, "name", one),
)
def test_without_it_there_is_one(kernel: Procedure, contract: str) -> None:
    verdict = without(kernel, contract).check()
    assert verdict.word == "refuted"
    assert verdict.hazards[0].kind is HazardKind.BOUNDS


def test_one_element_has_one_value() -> None:
    assert one_element.check().word != "refuted"
    assert not violations(one_element.ir)


@pytest.mark.parametrize("kernel", [guarded, length, between, one_element], ids=lambda k: k.name)
def test_what_is_found_at_sizes_may_happen(kernel: Procedure) -> None:
    assert not violations_at(kernel.ir, {"G": 2, "N": 3})


@proc
def of_one_row(M: size, at: i32[M] @ CudaGmemLinear, y: f32[M, 8] @ CudaGmemLinear):
    with CudaDeviceFunction(blockDim=32):
        for b in cuda_tasks(0, M):
            d: f32[16, 8] @ Sm80_RmemMatrixD(16, 8)
            for w in cuda_threads(0, 1, unit=cuda_warp):
                for m, n in fragment(d):
                    d[m, n] = 1.0
                a = load_index(at[b], 0, 16)
                c = load_index(at[b], 0, 16)
                for m, n in fragment(d):
                    if m == a:
                        y[b, n] = d[c, n]


def test_the_row_of_a_fragment_that_memory_tells_twice_is_one_row() -> None:
    verdict = of_one_row.check()
    assert verdict.word == "proved", verdict
