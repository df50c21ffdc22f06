"""What is advised where warps of a CTA hand something to all of it, and where roles have loops of
their own, as the branches of a CUDA kernel have."""

from __future__ import annotations

import pytest

from exogpu import CudaWarpConfig, bf16, macro, proc
from exogpu.diagnostics.hazards import HazardKind
from exogpu.isa.sm90 import Sm90_store_D, Sm90_tma_load, Sm90_wgmma_f16, Sm90_zero_scale_d


@proc
def first_warp_adds(x: f32[2, 32] @ CudaGmemLinear, y: f32[1] @ CudaGmemLinear):
    with CudaDeviceFunction(blockDim=64):
        for task in cuda_tasks(0, 1):
            part: f32[2] @ CudaSmemLinear
            for w in cuda_threads(0, 2, unit=cuda_warp):
                for t in cuda_threads(0, 32, unit=cuda_thread):
                    if t == 31:
                        part[w] = x[w, t]
            with CudaWarps(0, 1):
                for t in cuda_threads(0, 1, unit=cuda_thread):
                    y[0] = part[0] + part[1]
                Fence(cuda_in_order, cuda_in_order)
            Fence(cuda_in_order, cuda_in_order)


def test_a_fence_of_one_warp_is_too_small_for_all_that_write() -> None:
    """The threads at fault are of warp 0, but warp 1 writes, too."""
    (hazard,) = first_warp_adds.check().hazards
    assert hazard.kind is HazardKind.RAW
    line = hazard.second.span.line - 2  # of the scope of warp 0, before which it stands
    assert hazard.help == (
        f"add `Fence(cuda_in_order, cuda_in_order)` before line {line}, indented like it "
        f"(12 spaces), in the loop of line {line - 6}"
    )


@proc
def handed_on_by_a_flag(M: size, x: f32[M] @ CudaGmemLinear, y: f32[M, 64] @ CudaGmemLinear):
    sums: f32[M] @ CudaGmemLinear
    ready: barrier[M] @ CudaFlag
    with CudaDeviceFunction(blockDim=64):
        for m in cuda_tasks(0, M):
            sum: f32 @ CudaSmemLinear
            with CudaWarps(0, 1):
                if m > 0:
                    Await(ready[m - 1], cuda_in_order, 0)
                for t in cuda_threads(0, 1, unit=cuda_thread):
                    sum = x[m]
                    if m > 0:
                        sum += sums[m - 1]
                    sums[m] = sum
                Arrive(cuda_in_order) >> ready[m]
            for t in cuda_threads(0, 64, unit=cuda_thread):
                y[m, t] = sum
            Fence(cuda_in_order, cuda_in_order)


def test_a_flag_is_not_awaited_as_an_mbarrier_is() -> None:
    hazards = handed_on_by_a_flag.check().hazards
    assert {(one.kind, one.variable) for one in hazards} == {(HazardKind.RAW, "sum")}
    line = hazards[0].second.span.line - 1
    assert {one.help for one in hazards} == {
        f"add `Fence(cuda_in_order, cuda_in_order)` before line {line}, indented like it "
        f"(12 spaces), in the loop of line {line - 11}"
    }


@macro
def consume(tile, y, k, full, empty):
    Await(full, cuda_in_order, ~0)
    for t in cuda_threads(0, 32, unit=cuda_thread):
        y[k, t] = tile[k % 2, 31 - t]
    Arrive(cuda_in_order) >> empty


@proc
def loops_of_their_own(K: size, x: f32[K, 32] @ CudaGmemLinear, y: f32[K, 32] @ CudaGmemLinear):
    with CudaDeviceFunction(blockDim=64):
        for task in cuda_tasks(0, 1):
            tile: f32[2, 32] @ CudaSmemLinear
            full: barrier @ CudaMbarrier
            empty: barrier(full) @ CudaMbarrier
            with CudaWarps(0, 1):
                for k in seq(0, K):
                    Await(empty, cuda_in_order, ~2)
                    for t in cuda_threads(0, 32, unit=cuda_thread):
                        tile[k % 2, t] = x[k, t]
                    Arrive(cuda_in_order) >> full
            with CudaWarps(1, 2):
                for k in seq(0, K):
                    consume(tile, y, k, full, empty)
            Fence(cuda_in_order, cuda_in_order)


def test_roles_with_a_loop_each_are_told_to_share_one() -> None:
    """No skip would last: what it lets pass are so many steps, and the loop has more. The Arrive
    stands in a macro, above the Await in the file and below it in the program."""
    hazards = loops_of_their_own.check().hazards
    (blocks,) = (h for h in hazards if h.kind is HazardKind.DEADLOCK)
    assert "comes after it" in blocks.message
    assert blocks.first is not None  # the Await; the Arrive is the second
    first = blocks.first.span.line - 1
    assert blocks.help == (
        f"a kernel is read in sequence, and the loop at line {first} is over before that at line "
        f"{first + 6} begins: write one loop with the steps of both roles, each in its own `with "
        "CudaWarps(...)`"
    )
    assert not any("instead of" in hazard.help for hazard in hazards)


@proc
def copied_far_ahead(K: size, x: f32[128 * K] @ CudaGmemLinear, y: f32[K, 32] @ CudaGmemLinear):
    """K is small, and so is what is tried: the sizes at fault and larger ones."""
    with CudaDeviceFunction(blockDim=64):
        for task in cuda_tasks(0, 1):
            tile: f32[2, 32] @ CudaSmemLinear
            full: barrier @ CudaMbarrier
            empty: barrier(full) @ CudaMbarrier
            for k in seq(0, K):
                with CudaWarps(0, 1):
                    Await(empty, cuda_in_order, ~3)
                    for t in cuda_threads(0, 32, unit=cuda_thread):
                        tile[k % 2, t] = x[128 * k + t]
                    Arrive(cuda_in_order) >> full
                with CudaWarps(1, 2):
                    Await(full, cuda_in_order, ~0)
                    for t in cuda_threads(0, 32, unit=cuda_thread):
                        y[k, t] = tile[k % 2, 31 - t]
                    Arrive(cuda_in_order) >> empty
            Fence(cuda_in_order, cuda_in_order)


def test_a_skip_that_helps_at_all_sizes_is_still_told() -> None:
    hazards = copied_far_ahead.check().hazards
    assert {h.help.rpartition(": ")[2] for h in hazards} == {"~2 instead of ~3"}


@proc
def all_into_one(M: size, x: f32[M, 32] @ CudaGmemLinear, y: f32[1] @ CudaGmemLinear):
    with CudaDeviceFunction(blockDim=32):
        for task in cuda_tasks(0, 1):
            for t in cuda_threads(0, 32, unit=cuda_thread):
                for m in seq(0, M):
                    y[0] += x[m, t]


def test_threads_that_add_into_one_element() -> None:
    (hazard,) = all_into_one.check().hazards
    line = hazard.second.span.line - 2
    assert hazard.help == (
        f"the iterations of the loop at line {line} are executed at once: let one of them access "
        "it, give each an element of its own, or add atomically (cuda_atomic_add)"
    )


@proc
def rows_of_groups(
    G: size,
    M: size,
    offsets: i32[G + 1] @ CudaGmemLinear,
    C: f32[M, 8] @ CudaGmemLinear,
):
    assert monotone(offsets)
    with CudaDeviceFunction(blockDim=128):
        for g in cuda_tasks(0, G):
            lo = load_index(offsets[g], 0, M + 1)
            hi = load_index(offsets[g + 1], 0, M + 1)
            d: f32[64, 8] @ Sm90_RmemMatrixD(64, 8)
            for wg in cuda_threads(0, 1, unit=cuda_warpgroup):
                for m, n in fragment(d):
                    d[m, n] = 1.0
                if hi - lo < 64:
                    Sm90_store_D(hi - lo, 8, C[lo : lo + 64, :], d[:, :], N=8)


def test_an_instruction_counts_for_its_window() -> None:
    """No row is stored twice, but the windows overlap: what to do is said, not that it writes."""
    (hazard,) = rows_of_groups.check().hazards
    assert hazard.kind is HazardKind.WAW
    line = hazard.second.span.line
    assert hazard.help.startswith(
        f"Sm90_store_D of line {line} counts for all of its window of C, also where it stores "
        "less: let the window end where that does; "
    )


@macro
def turned(tile, x, y, role):
    for t in cuda_threads(0, 64, unit=cuda_thread):
        tile[role, t] = x[role, t]
    for t in cuda_threads(0, 64, unit=cuda_thread):
        y[role, t] = tile[role, 63 - t]


@proc
def in_two_roles(x: f32[2, 64] @ CudaGmemLinear, y: f32[2, 64] @ CudaGmemLinear):
    with CudaDeviceFunction(blockDim=128):
        for task in cuda_tasks(0, 1):
            tile: f32[2, 64] @ CudaSmemLinear
            with CudaWarps(0, 2):
                turned(tile, x, y, 0)
            with CudaWarps(2, 4):
                turned(tile, x, y, 1)
            Fence(cuda_in_order, cuda_in_order)


def test_a_repair_of_a_macro_is_made_wherever_it_is_read() -> None:
    hazards = in_two_roles.check().hazards
    line = hazards[0].second.span.line - 1
    assert {h.help for h in hazards} == {
        f"add `Fence(cuda_in_order, cuda_in_order)` before line {line}, indented like it "
        "(4 spaces), in turned"
    }


ROLES = [CudaWarpConfig("load", 4), CudaWarpConfig("consume", 8)]


@macro
def fetch(slot, tile, rows, full):
    Sm90_tma_load(slot, tile, rows=rows, cols=16, box=(rows, 16), swizzle=32, dtype=bf16) >> full


@macro
def products(k, d, a, b, full, empty, cg):
    Await(full, cuda_generic_and_async, ~0)
    Sm90_wgmma_f16(d[:, :], a[k % 2, :, :], b[k % 2, :, :], N=8, swizzle=32, dtype=bf16)
    Arrive(wgmma_async) >> cg
    Arrive(cuda_in_order) >> empty  # too early
    Await(cg, cuda_in_order, 0)


@proc
def two_consumers(
    K: size,
    A: bf16[128, 16 * K] @ CudaGmemLinear,
    B: bf16[8, 16 * K] @ CudaGmemLinear,
    C: f32[128, 8] @ CudaGmemLinear,
):
    A_map = A[:, :] @ Sm90_tensorMap(32, 64, 16)
    B_map = B[:, :] @ Sm90_tensorMap(32, 8, 16)
    with CudaDeviceFunction(warp_config=ROLES):
        for task in cuda_tasks(0, 1):
            a: bf16[2, 2, 64, 16] @ Sm90_SmemSwizzled(32)
            b: bf16[2, 2, 8, 16] @ Sm90_SmemSwizzled(32)
            for c in range(2):
                full: barrier @ CudaMbarrier
                empty: barrier(full) @ CudaMbarrier
                cg: barrier @ CudaCommitGroup
                d: f32[64, 8] @ Sm90_RmemMatrixD(64, 8)
                with CudaWarps(4 * c, 4 * c + 4, name="consume"):
                    Sm90_zero_scale_d(d[:, :], N=8)
                    Fence(wgmma_fence_1, wgmma_fence_2)
                for k in seq(0, K):
                    with CudaWarps(0, 1, name="load"):
                        Await(empty, cuda_temporal, ~2)
                        fetch(
                            a[c, k % 2, :, :],
                            A_map[64 * c : 64 * c + 64, 16 * k : 16 * k + 16],
                            64,
                            full,
                        )
                        fetch(b[c, k % 2, :, :], B_map[:, 16 * k : 16 * k + 16], 8, full)
                        Arrive(cuda_temporal) >> full
                    with CudaWarps(4 * c, 4 * c + 4, name="consume"):
                        products(k, d, a[c, :, :, :], b[c, :, :, :], full, empty, cg)
                with CudaWarps(4 * c, 4 * c + 4, name="consume"):
                    Sm90_store_D(64, 8, C[64 * c : 64 * c + 64, :], d[:, :], N=8)
            Fence(cuda_in_order, cuda_in_order)


@pytest.mark.slow
def test_an_arrive_of_a_macro_is_moved_wherever_it_is_read() -> None:
    hazards = two_consumers.check().hazards
    assert hazards and all(h.help.startswith("move the Arrive of line ") for h in hazards)


@proc
def never_given_back(K: size, x: f32[K, 32] @ CudaGmemLinear, y: f32[K, 32] @ CudaGmemLinear):
    with CudaDeviceFunction(blockDim=64):
        for task in cuda_tasks(0, 1):
            tile: f32[2, 32] @ CudaSmemLinear
            full: barrier @ CudaMbarrier
            empty: barrier(full) @ CudaMbarrier
            for k in seq(0, K):
                with CudaWarps(0, 1):
                    Await(empty, cuda_in_order, ~2)
                    for t in cuda_threads(0, 32, unit=cuda_thread):
                        tile[k % 2, t] = x[k, t]
                    Arrive(cuda_in_order) >> full
                with CudaWarps(1, 2):
                    Await(full, cuda_in_order, ~0)
                    for t in cuda_threads(0, 32, unit=cuda_thread):
                        y[k, t] = tile[k % 2, 31 - t]
            Fence(cuda_in_order, cuda_in_order)


def test_a_slot_that_is_never_given_back() -> None:
    """Those who read it do; an Arrive before the Await would be by those who fill it."""
    hazards = never_given_back.check().hazards
    line = next(h.second.span.line for h in hazards if h.kind is HazardKind.DEADLOCK)
    for hazard in hazards:
        if hazard.variable == "empty":
            assert hazard.help == (
                f"add `Arrive(cuda_in_order) >> empty` after line {line + 7}, indented like line "
                f"{line + 6} (20 spaces), in the `with CudaWarps(1, 2)` of line {line + 4}"
            )
