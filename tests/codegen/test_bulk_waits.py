"""How bulk stores are waited for: what their group asks for, and by whom."""

from __future__ import annotations

import pytest

from exogpu.api import Procedure
from exogpu.codegen.host_steps import emit
from tests.texts import made

READ, FULL = "cp.async.bulk.wait_group.read 0;", "cp.async.bulk.wait_group 0;"


def stores(*waits: str) -> Procedure:
    """A store into y, what waits for it, and what reads y."""
    body = "\n            ".join(waits)
    return made(f"""
@proc
def waits(y: f32[8, 32] @ CudaGmemLinear, z: f32[2] @ CudaGmemLinear):
    w = y[:, :] @ Sm90_tensorMap(0, 8, 32)
    with CudaDeviceFunction(blockDim=32):
        for task in cuda_tasks(0, 1):
            S: f32[8, 32] @ CudaSmemLinear
            cg: barrier @ CudaCommitGroup
            z_done: barrier @ CudaMbarrier
            Sm90_tma_store(w[:, :], S[:, :], rows=8, cols=32, box=(8, 32))
            {body}
            Fence(tma_to_gmem_async, cuda_in_order)
            for t in cuda_threads(0, 1, unit=cuda_thread):
                z[0] = y[0, 0]
            Fence(cuda_in_order, cuda_in_order)
""")


def emitted(procedure: Procedure) -> list[str]:
    body = emit(procedure.facts).source.partition("__global__")[2]
    return [line.strip() for line in body.splitlines() if not line.strip().startswith("//")]


AWAIT = "Await(cg, cuda_in_order, 0)"
SOURCE, ASYNC = "Arrive(tma_to_gmem_source) >> cg", "Arrive(tma_to_gmem_async) >> cg"


@pytest.mark.parametrize(
    ("waits", "reads"),
    [
        ((SOURCE, AWAIT), 1),
        ((ASYNC, AWAIT), 0),
        ((SOURCE, ASYNC, AWAIT), 0),  # one variable has one kind of wait: the longer
        (("Fence(tma_to_gmem_source, cuda_in_order)",), 1),
        (("Fence(tma_to_gmem_async, cuda_in_order)",), 0),
        (("Arrive(tma_to_gmem_source) >> z_done", "Await(z_done, cuda_in_order, ~0)"), 1),
    ],
)
def test_reads_alone_are_waited_for_where_they_are_asked_for(waits, reads):
    found = "\n".join(emitted(stores(*waits)))
    assert found.count(READ) == reads
    assert found.count(FULL) == 2 - reads


@pytest.mark.parametrize("arrive", [SOURCE, ASYNC])
def test_all_lanes_wait_for_the_one_that_has_stored(arrive):
    found = emitted(stores(arrive, AWAIT))
    wait = found.index(f'asm volatile("{READ if arrive is SOURCE else FULL}" ::: "memory");')
    assert found[wait + 1] == "__syncwarp();"


def copies(lanes: int) -> Procedure:
    """Copies of a warp, of which one group is waited for by all lanes, or by each."""
    own = lanes == 1
    element = "[t]" if own else ""
    wait = f"Arrive(Sm80_cp_async) >> cg{element}\n{{}}Await(cg{element}, cuda_in_order, 0)"
    inner, outer = (wait.format(" " * 16), "pass") if own else ("pass", wait.format(" " * 12))
    return made(f"""
@proc
def copies(x: f32[32, 4] @ CudaGmemLinear, y: f32[32] @ CudaGmemLinear):
    with CudaDeviceFunction(blockDim=32):
        for task in cuda_tasks(0, 1):
            S: f32[32, 4] @ CudaSmemLinear
            cg: barrier{"[32]" if own else ""} @ CudaCommitGroup
            for t in cuda_threads(0, 32, unit=cuda_thread):
                Sm80_cp_async_copy(S[t, :], x[t, :])
                {inner}
            {outer}
            for t in cuda_threads(0, 32, unit=cuda_thread):
                y[t] = S[{"t" if own else "31 - t"}, 0]
            Fence(cuda_in_order, cuda_in_order)
""")


@pytest.mark.parametrize("lanes", [1, 32])
def test_what_another_lane_has_copied_is_waited_for(lanes):
    procedure = copies(lanes)
    assert procedure.check().word == "proved"
    found = emitted(procedure)
    wait = found.index('asm volatile("cp.async.wait_group 0;" ::: "memory");')
    assert (found[wait + 1] == "__syncwarp();") is (lanes == 32)


@pytest.mark.parametrize(("argument", "unrolled"), [("8 * j", True), ("0", False)])
def test_columns_of_a_tile_are_chosen_while_compiling(argument, unrolled):
    """Registers have no addresses: a loop that tells an instruction which to take is unrolled."""
    procedure = made(f"""
@proc
def staged():
    with CudaDeviceFunction(blockDim=128):
        for task in cuda_tasks(0, 1):
            D: f32[64, 256] @ Sm90_RmemMatrixD(64, 256)
            S: f32[32, 64, 8] @ Sm90_SmemSwizzled(32)
            for j in seq(0, 32):
                Sm90_stage_tile({argument}, S[j, :, :], D[:, :], cols=8, swizzle=32)
            Fence(cuda_in_order, cuda_in_order)
""")
    found = emitted(procedure)
    loop = next(at for at, line in enumerate(found) if line.startswith("for (int j"))
    assert (found[loop - 1] == "#pragma unroll") is unrolled
