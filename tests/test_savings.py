"""What `--redundant` lists: it can be written down, and what saves an instruction comes first."""

from __future__ import annotations

from exogpu import Procedure, proc
from exogpu.cli.redundancy import ranked
from exogpu.hw.timelines import SYNC_TIMELINES
from exogpu.symbolic.search.redundant_synchronisation import redundant


@proc
def reverse(M: size, x: f32[M, 64] @ CudaGmemLinear, y: f32[M, 64] @ CudaGmemLinear):
    with CudaDeviceFunction(blockDim=64):
        for m in cuda_tasks(0, M):
            tile: f32[64] @ CudaSmemLinear
            for t in cuda_threads(0, 64, unit=cuda_thread):
                tile[t] = x[m, t]
            Fence(cuda_in_order, cuda_generic_and_async)
            for t in cuda_threads(0, 64, unit=cuda_thread):
                y[m, t] = tile[63 - t]
            Fence(cuda_in_order, cuda_in_order)
            Fence(cuda_in_order, cuda_in_order)


def listed(procedure: Procedure) -> list[tuple[int, str, tuple[str, ...] | None]]:
    start = procedure.ir.span.line
    return [
        (one.spans[0].line - start, one.replacement, one.saves)
        for one in ranked(procedure, redundant(procedure.amir()))
    ]


def test_what_saves_an_instruction_comes_first():
    found = listed(reverse)
    saved = [bool(saves) for _, _, saves in found]
    assert saved == sorted(saved, reverse=True)
    assert {(line, text) for line, text, saves in found if saves} == {
        (6, "Fence(cuda_in_order, cuda_in_order)"),  # the proxy fence
        (9, ""),
        (10, ""),
    }
    assert any("__syncthreads" in saves[0] for line, _, saves in found if line == 9)


def test_timelines_are_named():
    for one in redundant(reverse.amir()):
        assert one.kind == "delete" or one.timeline in SYNC_TIMELINES
        assert " only" not in one.replacement


def test_without_a_lowering_nothing_is_known_of_instructions():
    @proc
    def host(M: size, x: f32[M] @ DRAM):
        x[0] = 1.0
        Fence(cpu_in_order, cpu_in_order)

    assert [saves for _, _, saves in listed(host)] == [None]
