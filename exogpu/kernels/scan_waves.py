"""y[m, n] = x[m, 0] + ... + x[m, n]: inclusive sums of each row, which is read and written once.

A task has a tile of a row in registers.  It publishes the tile's sum, and signals it by a flag.
What comes before the tile it finds in parallel, a thread a tile: the sums of the earlier tiles of
its wave, and the sum of all waves before, which the last tile of each wave publishes.  So from one
end of a row to the other there is one step a wave, not one a tile.
"""

from __future__ import annotations

from typing import Final

from exogpu.api import Procedure, proc
from exogpu.frontend.macros import macro
from exogpu.isa.cuda import cuda_load, cuda_shfl_up, cuda_shfl_xor, cuda_store
from exogpu.kernels.scan_rows import Shape


def make_scan(shape: Shape) -> Procedure:
    """The kernel of a shape.  A wave is as many tiles as a CTA has threads."""
    dtype, V, WARPS, LOADS = shape.type, shape.vector, shape.warps, shape.loads
    SPAN, TILE, WAVE = shape.span, shape.tile, 32 * shape.warps
    PARTS = LOADS * WARPS
    """The parts of a tile, which a warp has at once: as many as a warp scans, some a lane."""
    EACH = (PARTS + 31) // 32

    @macro
    def scanned(a, other):
        """Inclusive, over the lanes of a warp."""
        for delta in (1, 2, 4, 8, 16):
            cuda_shfl_up(other[:], a[:], delta=delta, dtype=dtype)
            for t in cuda_threads(0, 32, unit=cuda_thread):
                if t >= delta:
                    a[t] += other[t]

    @macro
    def shifted(a, other):
        """From inclusive to exclusive."""
        cuda_shfl_up(other[:], a[:], delta=1, dtype=dtype)
        for t in cuda_threads(0, 32, unit=cuda_thread):
            a[t] = 0
            if t > 0:
                a[t] = other[t]

    @macro
    def summed(a, other):
        for mask in (16, 8, 4, 2, 1):
            cuda_shfl_xor(other[:], a[:], mask=mask, dtype=dtype)
            for t in cuda_threads(0, 32, unit=cuda_thread):
                a[t] += other[t]

    @proc(name=f"scan_{shape}")
    def scan(
        M: size,
        N: size,
        x: dtype[M, N] @ CudaGmemLinear,
        y: dtype[M, N] @ CudaGmemLinear,
    ):
        assert N % V == 0
        tile_sum: dtype[M, (N + TILE - 1) / TILE] @ CudaGmemLinear
        wave_sum: dtype[M, (N + TILE * WAVE - 1) / (TILE * WAVE)] @ CudaGmemLinear
        tile_over: barrier[M, (N + TILE - 1) / TILE] @ CudaFlag
        wave_over: barrier[M, (N + TILE * WAVE - 1) / (TILE * WAVE)] @ CudaFlag
        with CudaDeviceFunction(blockDim=32 * WARPS):
            for m in cuda_tasks(0, M):
                for tile in cuda_tasks(0, (N + TILE - 1) / TILE):
                    wave = tile / WAVE
                    place = tile % WAVE
                    v: dtype[WARPS, 32, LOADS, V]
                    part: dtype[LOADS, WARPS, 32]
                    other: dtype[WARPS, 32]
                    before: dtype[WARPS, 32]
                    parts: dtype[PARTS] @ CudaSmemLinear
                    offsets: dtype[PARTS] @ CudaSmemLinear
                    earlier: dtype[WARPS] @ CudaSmemLinear
                    whole: dtype[2] @ CudaSmemLinear
                    for w in cuda_threads(0, WARPS, unit=cuda_warp):
                        for t in cuda_threads(0, 32, unit=cuda_thread):
                            for i in seq(0, LOADS):  # all are on their way
                                for j in seq(0, V):
                                    v[w, t, i, j] = 0
                                at = TILE * tile + SPAN * i + V * (32 * w + t)
                                if at < N:
                                    cuda_load(v[w, t, i, :], x[m, at : at + V], n=V, dtype=dtype)
                            for i in seq(0, LOADS):
                                for j in seq(1, V):
                                    v[w, t, i, j] += v[w, t, i, j - 1]
                                part[i, w, t] = v[w, t, i, V - 1]
                        for i in seq(0, LOADS):
                            scanned(part[i, w, :], other[w, :])
                        for t in cuda_threads(0, 32, unit=cuda_thread):
                            if t == 31:
                                for i in seq(0, LOADS):
                                    parts[WARPS * i + w] = part[i, w, t]
                    Fence(cuda_in_order, cuda_in_order)
                    with CudaWarps(0, 1):
                        own: dtype[32, EACH]
                        total: dtype[32]
                        next: dtype[32]
                        for t in cuda_threads(0, 32, unit=cuda_thread):
                            for e in seq(0, EACH):
                                own[t, e] = 0
                                if EACH * t + e < PARTS:
                                    own[t, e] = parts[EACH * t + e]
                                if e > 0:
                                    own[t, e] += own[t, e - 1]
                            total[t] = own[t, EACH - 1]
                        scanned(total[:], next[:])
                        for t in cuda_threads(0, 32, unit=cuda_thread):
                            if t == 31:
                                tile_sum[m, tile] = total[t]
                                whole[0] = total[t]
                        Arrive(cuda_in_order) >> tile_over[m, tile]
                        shifted(total[:], next[:])
                        for t in cuda_threads(0, 32, unit=cuda_thread):
                            for e in seq(0, EACH):
                                if EACH * t + e < PARTS:
                                    offsets[EACH * t + e] = total[t]
                                    if e > 0:
                                        offsets[EACH * t + e] += own[t, e - 1]
                    for w in cuda_threads(0, WARPS, unit=cuda_warp):
                        for t in cuda_threads(0, 32, unit=cuda_thread):
                            before[w, t] = 0
                            if 32 * w + t < place:
                                Await(tile_over[m, WAVE * wave + 32 * w + t], cuda_in_order, 0)
                                before[w, t] = tile_sum[m, WAVE * wave + 32 * w + t]
                        summed(before[w, :], other[w, :])
                        for t in cuda_threads(0, 1, unit=cuda_thread):
                            earlier[w] = before[w, t]
                    with CudaWarps(WARPS - 1, WARPS):
                        for t in cuda_threads(0, 1, unit=cuda_thread):
                            whole[1] = 0
                            if wave > 0:
                                Await(wave_over[m, wave - 1], cuda_in_order, 0)
                                whole[1] = wave_sum[m, wave - 1]
                    Fence(cuda_in_order, cuda_in_order)
                    for w in cuda_threads(0, WARPS, unit=cuda_warp):
                        for t in cuda_threads(0, 32, unit=cuda_thread):
                            before[w, t] = whole[1]
                            for e in seq(0, WARPS):
                                before[w, t] += earlier[e]
                    with CudaWarps(0, 1):
                        for t in cuda_threads(0, 1, unit=cuda_thread):
                            if place == WAVE - 1:
                                wave_sum[m, wave] = before[0, t] + whole[0]
                                Arrive(cuda_in_order) >> wave_over[m, wave]
                    for w in cuda_threads(0, WARPS, unit=cuda_warp):
                        for i in seq(0, LOADS):
                            shifted(part[i, w, :], other[w, :])
                        for t in cuda_threads(0, 32, unit=cuda_thread):
                            for i in seq(0, LOADS):
                                part[i, w, t] += before[w, t] + offsets[WARPS * i + w]
                                for j in seq(0, V):
                                    v[w, t, i, j] += part[i, w, t]
                                at = TILE * tile + SPAN * i + V * (32 * w + t)
                                if at < N:
                                    cuda_store(y[m, at : at + V], v[w, t, i, :], n=V, dtype=dtype)
                    Fence(cuda_in_order, cuda_temporal)

    return scan


SHIPPED: Final = (Shape("f32", 16, 8), Shape("i32", 1, 8, vectors=False))

KERNELS: dict[str, Procedure] = {f"scan_{shape}": make_scan(shape) for shape in SHIPPED}
"""Some, by name."""
