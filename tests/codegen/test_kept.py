"""What is emitted keeps what was proved: wgmma's registers, drains of whole warpgroups, releases,
arrays that change during the launch."""

from __future__ import annotations

import re

import pytest

from exogpu.api import Procedure
from exogpu.codegen.host_steps import emit
from exogpu.diagnostics.errors import ExoGpuError
from tests.codegen.kept_kernels import (
    MBARRIER,
    by_role,
    fragments,
    in_warps,
    multicast,
    product,
    ring,
    shapes,
    stores,
)
from tests.texts import made


def lines(procedure: Procedure) -> list[str]:
    """The kernel's lines, without comments."""
    facts = procedure.facts
    body = emit(facts).source.partition("__global__")[2]
    return [line.strip() for line in body.splitlines() if not line.strip().startswith("//")]


def position(found: list[str], text: str, start: int = 0) -> int:
    return next(at for at, line in enumerate(found) if at >= start and text in line)


def codes(procedure: Procedure) -> list[str]:
    verdict = procedure.check()
    return [*(d.code for d in verdict.diagnostics), *(h.code for h in verdict.hazards)]


def refusal(procedure: Procedure) -> str:
    with pytest.raises(ExoGpuError) as refused:
        lines(procedure)
    (diagnostic,) = refused.value.diagnostics
    assert diagnostic.code == "G803" and diagnostic.span.line
    return diagnostic.message


FENCE = "wgmma.fence.sync.aligned;"
COMMIT = "wgmma.commit_group.sync.aligned;"


# --- wgmma_fence_1 completes nothing ------------------------------------------------------------


def test_the_product_is_waited_for():
    found = lines(product("wgmma_async", "cuda_in_order"))
    wait = position(found, COMMIT)
    assert position(found, "Sm90_wgmma_tf32_n64<") < wait < position(found, "Sm90_store_D<")


@pytest.mark.parametrize("second", ["cuda_in_order", "wgmma_fence_1", "cuda_generic_and_async"])
def test_a_wgmma_fence_waits_for_nothing(second):
    assert "wgmma_fence_1" in refusal(product("wgmma_fence_1", second))


def test_repairs_do_not_propose_it():
    verdict = product("empty_sync_tl", "cuda_in_order").check()
    assert verdict.word == "refuted"
    assert all("wgmma_fence_1" not in (hazard.help or "") for hazard in verdict.hazards)
    assert any("wgmma_async" in (hazard.help or "") for hazard in verdict.hazards)


# --- registers that ordinary code has used ------------------------------------------------------


@pytest.mark.parametrize(
    ("synchronise", "barrier"),
    [
        ("Fence(wgmma_fence_1, wgmma_fence_2)", ""),
        ("Fence(cuda_in_order, wgmma_fence_2)", ""),
        ("Fence(cuda_in_order, wgmma_async)", ""),
        ("Fence(Sm80_generic, cuda_async_proxy_wgmma)", ""),
        (MBARRIER.format("wgmma_async"), "z: barrier @ CudaMbarrier"),
        (MBARRIER.format("wgmma_fence_2"), "z: barrier @ CudaMbarrier"),
    ],
)
def test_a_wgmma_fence_follows_every_second_side_with_registers(synchronise, barrier):
    procedure = fragments(synchronise, barrier)
    assert procedure.check().word == "proved"
    found = lines(procedure)
    load = position(found, "Sm90_load_A<")
    fence = position(found, FENCE, load)
    assert fence < position(found, "Sm90_wgmma_rs_tf32_n64<")


def test_no_wgmma_fence_where_no_register_is_named():
    found = lines(fragments("Fence(wgmma_fence_1, wgmma_fence_2)"))
    assert len([line for line in found if FENCE in line]) == 2


def test_wgmma_fence_1_does_not_arrive():
    synchronise = MBARRIER.format("wgmma_fence_2").replace("cuda_in_order", "wgmma_fence_1")
    assert "wgmma_fence_1" in refusal(fragments(synchronise, "z: barrier @ CudaMbarrier"))


# --- whole warpgroups ---------------------------------------------------------------------------


FENCES = (
    "Fence(wgmma_fence_1, wgmma_fence_2)",
    "Fence(wgmma_async, cuda_in_order)",
    "Fence(wgmma_async_smem, cuda_in_order)",
    "Fence(cuda_in_order, wgmma_fence_2)",
)


@pytest.mark.parametrize("fence", FENCES)
@pytest.mark.parametrize("warps", ["5, 9", "0, 6", "2, 4", "4, 5", "1, 12", "11, 13"])
def test_parts_of_warpgroups_diverge(fence, warps):
    assert codes(in_warps(13, warps, fence)) == ["H730"]


@pytest.mark.parametrize("fence", FENCES)
@pytest.mark.parametrize("warps", ["0, 4", "4, 8", "0, 8", "4, 12", "8, 13", "0, 13"])
def test_whole_warpgroups_do_not(fence, warps):
    assert codes(in_warps(13, warps, fence)) == []


@pytest.mark.parametrize("unit", ["cuda_thread", "cuda_warp", "2 * cuda_warp"])
@pytest.mark.parametrize("first", ["wgmma_async", "wgmma_async_smem", "wgmma_fence_2"])
def test_an_arrival_waits_for_the_products_of_a_warpgroup(unit, first):
    statements = f"""for t in cuda_threads(0, 1, unit={unit}):
                    Arrive({first}) >> z
                Await(z, cuda_in_order, ~0)"""
    found = in_warps(4, "0, 4", statements, "z: barrier @ CudaMbarrier")
    assert codes(found) == ["H730"]


def test_an_await_with_a_wgmma_fence_is_of_a_warpgroup():
    statements = """Arrive(cuda_in_order) >> z
                for w in cuda_threads(0, 1, unit=cuda_warp):
                    Await(z, wgmma_async, ~0)"""
    assert codes(in_warps(4, "0, 4", statements, "z: barrier @ CudaMbarrier")) == ["H730"]


@pytest.mark.parametrize("count", [5, 6, 11])
def test_warps_of_no_warpgroup_go_past(count):
    found = lines(in_warps(count, f"0, {count}", "Fence(wgmma_async, cuda_in_order)"))
    at = position(found, COMMIT)
    assert found[at - 1] == f"if (warp < {count // 4 * 4}) {{"
    assert "__syncthreads" not in found[at - 1 : at + 2]


def test_all_warps_of_warpgroups_need_no_condition():
    found = lines(in_warps(8, "0, 8", "Fence(wgmma_async, cuda_in_order)"))
    assert not any(line.startswith("if (warp") for line in found)


# --- accumulators -------------------------------------------------------------------------------


def test_a_flag_without_a_product():
    procedure = made("""
@proc
def flags(x: f32[1] @ CudaGmemLinear):
    with CudaDeviceFunction(blockDim=128):
        for task in cuda_tasks(0, 1):
            for g in cuda_threads(0, 1, unit=cuda_warpgroup):
                D: f32[2, 64, 64] @ Sm90_RmemMatrixD(64, 64)
                Sm90_zero_scale_d(D[0, :, :], M=64, N=64)
                Sm90_zero_scale_d(D[1, :, :], M=64, N=64)
""")
    found = lines(procedure)
    assert "D_scale[1] = 0;" in found
    assert "int D_scale[2] = {1, 1};" in found


def test_products_of_two_shapes_take_a_fence_each():
    """PTX asks for one between them; without it the accumulator's value is undefined."""
    found = lines(shapes("Sm90_wgmma_f16(D[:, :], H[:, 0:16], H[:, 16:32], M=64, N=64)"))
    for name in ("Sm90_wgmma_tf32_n64<", "Sm90_wgmma_f16_n64<"):
        assert FENCE in found[position(found, name) - 1]


def test_products_of_one_shape_take_none():
    found = lines(shapes("Sm90_wgmma_tf32(D[:, :], A[:, 8:16], A[:, 16:24], M=64, N=64)"))
    assert len([line for line in found if FENCE in line]) == 1


# --- arrays that change during the launch -------------------------------------------------------


def test_what_the_launch_writes_is_not_restricted():
    procedure = made("""
@proc
def roles(x: f32[32] @ CudaGmemLinear, y: f32[32] @ CudaGmemLinear, z: f32[32] @ CudaGmemLinear):
    with CudaDeviceFunction(blockDim=32):
        for task in cuda_tasks(0, 1):
            for t in cuda_threads(0, 32, unit=cuda_thread):
                x[t] = y[t]
            Fence(cuda_in_order, cuda_in_order)
            for t in cuda_threads(0, 32, unit=cuda_thread):
                z[t] += x[31 - t]
""")
    source = emit(procedure.facts).source
    parameters = re.search(r"roles\((.*)\)", source)
    assert parameters is not None
    assert parameters[1] == "float* x, const float* __restrict__ y, float* z"


def test_what_a_bulk_store_writes_is_not_restricted():
    procedure = made("""
@proc
def stored(y: f32[32, 32] @ CudaGmemLinear, z: f32[32] @ CudaGmemLinear):
    w = y[:, :] @ Sm90_tensorMap(0, 32, 32)
    with CudaDeviceFunction(blockDim=32):
        for task in cuda_tasks(0, 1):
            S: f32[32, 32] @ CudaSmemLinear
            for t in cuda_threads(0, 32, unit=cuda_thread):
                for k in seq(0, 32):
                    S[t, k] = y[t, k]
            Fence(cuda_in_order, cuda_generic_and_async)
            Sm90_tma_store(w[:, :], S[:, :], rows=32, cols=32, box=(32, 32))
            Fence(tma_to_gmem_async, cuda_in_order)
            for t in cuda_threads(0, 32, unit=cuda_thread):
                z[t] = y[t, 0]
            Fence(cuda_in_order, cuda_in_order)
""")
    source = emit(procedure.facts).source
    assert "float* y" in source and "__restrict__ y" not in source


# --- how far bulk stores are waited for ---------------------------------------------------------


@pytest.mark.parametrize(
    ("procedure", "sources"),
    [
        (stores(), True),
        (stores(store="reduce"), True),
        (stores(store="reduce", loop="for i in seq(0, 2)"), True),
        (stores(loop="for i in seq(0, 2)"), False),
        (stores(after="z[t] = y[t, 0]"), False),
        (stores(after="y[t, 0] = 1"), False),
    ],
)
def test_writes_are_waited_for_where_they_matter(procedure, sources):
    found = "\n".join(lines(procedure))
    assert ("cp.async.bulk.wait_group.read 0;" in found) is sources
    assert ("cp.async.bulk.wait_group 0;" in found) is not sources


# --- proxy fences -------------------------------------------------------------------------------


def test_a_proxy_fence_is_of_the_state_space_where_the_proxies_meet():
    assert any("fence.proxy.async.shared::cta;" in line for line in lines(stores()))
    both = lines(stores(after="y[t, 0] = 1"))
    assert any("fence.proxy.async;" in line for line in both)
    assert not any("fence.proxy.async.shared" in line for line in both)


def test_bytes_that_no_copy_touches_are_freed_without_a_proxy_fence():
    procedure = made("""
@proc
def frees(y: f32[32, 32] @ CudaGmemLinear, z: f32[32] @ CudaGmemLinear):
    w = y[:, :] @ Sm90_tensorMap(0, 32, 32)
    with CudaDeviceFunction(blockDim=32):
        for task in cuda_tasks(0, 1):
            S: f32[32, 32] @ CudaSmemLinear
            T: f32[32] @ CudaSmemLinear
            Sm90_tma_store(w[:, :], S[:, :], rows=32, cols=32, box=(32, 32))
            for t in cuda_threads(0, 32, unit=cuda_thread):
                T[t] = 1
            Fence(cuda_in_order, cuda_in_order)
            for t in cuda_threads(0, 32, unit=cuda_thread):
                z[t] = T[31 - t]
            Fence(tma_to_gmem_async, cuda_in_order)
""")
    assert not any("fence.proxy" in line for line in lines(procedure))


@pytest.mark.parametrize(("cluster", "count"), [(1, 1), (2, 2)])
def test_the_role_without_accesses_needs_no_proxy_fence(cluster, count):
    """In a cluster another CTA's accesses may have come to it."""
    procedure = by_role(cluster)
    assert procedure.check().word == "proved"
    found = [line for line in lines(procedure) if "fence.proxy.async.shared" in line]
    fences = [line for line in found if "::cta" in line or "::cluster" in line]
    assert len(fences) - freed(procedure) == count


def freed(procedure: Procedure) -> int:
    """Proxy fences at the end of a variable's life: the lines before the end of a task."""
    found = lines(procedure)
    return sum(
        "fence.proxy" in line and found[at + 1] in ("}", "") for at, line in enumerate(found)
    )


# --- what other CTAs must see -------------------------------------------------------------------


@pytest.mark.parametrize(
    ("before", "first", "cheap"),
    [
        ("pass", "cuda_in_order", True),
        ("for t in cuda_threads(0, 32, unit=cuda_thread): x[m, t] = 1", "cuda_in_order", False),
        (
            "for t in cuda_threads(0, 32, unit=cuda_thread):\n"
            "                    r: f32 @ CudaRmem\n"
            "                    r = x[m, t]",
            "cuda_in_order",
            False,
        ),
        (
            "Sm90_tma_store(w[:, :], S[m, :, :], rows=32, cols=32, box=(32, 32))",
            "tma_to_gmem_async",
            False,
        ),
        (
            "Sm90_tma_reduce(w[:, :], S[m, :, :], rows=32, cols=32, box=(32, 32))",
            "tma_to_gmem_async",
            False,
        ),
    ],
)
def test_a_cheap_release_has_nothing_to_publish(before, first, cheap):
    found = lines(multicast(before, first))
    assert any("mbarrier_arrive_reads<" in line for line in found) is cheap
    assert any("mbarrier_arrive_cluster<" in line for line in found) is not cheap


# --- slots of a ring ----------------------------------------------------------------------------


def test_a_ring_has_as_many_slots_as_the_proof_needs():
    procedure = ring("with CudaWarps(1, 2):\n                    Await(z, cuda_in_order, ~0)")
    emitted, _ = procedure.emit()
    assert "mbarrier_wait<1>" in emitted.source
    unchecked, _ = procedure.emit(unchecked=True)
    assert "mbarrier_wait<32>" in unchecked.source
