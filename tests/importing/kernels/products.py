"""Gluon kernels with wgmma: a ring of tiles, and a persistent one whose ring runs on."""

from triton.experimental import gluon
from triton.experimental.gluon import language as gl
from triton.experimental.gluon.language.nvidia.hopper import (
    fence_async_shared,
    mbarrier,
    tma,
    warpgroup_mma,
    warpgroup_mma_wait,
)


@gluon.jit
def fill(a, b, row, column, k, bar, at, bt):
    """Loads a tile of both operands."""
    mbarrier.expect(bar, a.block_type.nbytes + b.block_type.nbytes)
    tma.async_load(a, [row, k], bar, at)
    tma.async_load(b, [k, column], bar, bt)


@gluon.jit
def multiply(a, b, c, num_warps: gl.constexpr, DEPTH: gl.constexpr):
    """One tile of c, with the loads of DEPTH - 1 tiles ahead of the product."""
    M: gl.constexpr = c.block_type.shape[0]
    N: gl.constexpr = c.block_type.shape[1]
    K: gl.constexpr = a.block_type.shape[1]
    layout: gl.constexpr = gl.NVMMADistributedLayout([3, 0], [num_warps, 1], [16, N, 16])
    at = gl.allocate_shared_memory(a.dtype, [DEPTH] + a.block_type.shape, a.layout)
    bt = gl.allocate_shared_memory(b.dtype, [DEPTH] + b.block_type.shape, b.layout)
    bars = gl.allocate_shared_memory(gl.int64, [DEPTH, 1], mbarrier.MBarrierLayout())
    for i in gl.static_range(DEPTH):
        mbarrier.init(bars.index(i), count=1)
    row = gl.program_id(0) * M
    column = gl.program_id(1) * N
    for i in gl.static_range(DEPTH - 1):
        fill(a, b, row, column, i * K, bars.index(i), at.index(i), bt.index(i))
    acc = gl.zeros((M, N), gl.float32, layout)
    steps = gl.cdiv(a.shape[1], K)
    for step in range(0, steps):
        slot = step % DEPTH
        mbarrier.wait(bars.index(slot), (step // DEPTH) & 1)
        acc = warpgroup_mma(at.index(slot), bt.index(slot), acc, is_async=True)
        acc = warpgroup_mma_wait(0, deps=(acc,))
        ahead = step + DEPTH - 1
        slot = ahead % DEPTH
        fill(a, b, row, column, ahead * K, bars.index(slot), at.index(slot), bt.index(slot))
    for i in gl.static_range(DEPTH - 1):
        last = steps + i
        mbarrier.wait(bars.index(last % DEPTH), (last // DEPTH) & 1)
    out = gl.allocate_shared_memory(c.dtype, c.block_type.shape, c.layout)
    out.store(acc.to(c.dtype))
    fence_async_shared()
    tma.async_store(c, [row, column], out)
    tma.store_wait(pendings=0)


@gluon.jit
def multiply_persistent(a, b, c, tiles, num_warps: gl.constexpr, DEPTH: gl.constexpr):
    """Several tiles of c, one after the other, with one ring for all of them."""
    M: gl.constexpr = c.block_type.shape[0]
    N: gl.constexpr = c.block_type.shape[1]
    K: gl.constexpr = a.block_type.shape[1]
    layout: gl.constexpr = gl.NVMMADistributedLayout([3, 0], [num_warps, 1], [16, N, 16])
    bars = gl.allocate_shared_memory(gl.int64, [DEPTH, 1], mbarrier.MBarrierLayout())
    for i in gl.static_range(DEPTH):
        mbarrier.init(bars.index(i), count=1)
    at = gl.allocate_shared_memory(a.dtype, [DEPTH] + a.block_type.shape, a.layout)
    bt = gl.allocate_shared_memory(b.dtype, [DEPTH] + b.block_type.shape, b.layout)
    out = gl.allocate_shared_memory(c.dtype, c.block_type.shape, c.layout)
    filled = 0
    used = 0
    for tile in range(0, tiles):
        row = (gl.program_id(0) * tiles + tile) * M
        fill(
            a,
            b,
            row,
            0,
            0,
            bars.index(filled % DEPTH),
            at.index(filled % DEPTH),
            bt.index(filled % DEPTH),
        )
        filled += 1
        acc = gl.zeros((M, N), gl.float32, layout)
        for k in range(K, a.shape[1], K):
            slot = filled % DEPTH
            fill(a, b, row, 0, k, bars.index(slot), at.index(slot), bt.index(slot))
            filled += 1
            slot = used % DEPTH
            mbarrier.wait(bars.index(slot), (used // DEPTH) & 1)
            acc = warpgroup_mma(at.index(slot), bt.index(slot), acc, is_async=True)
            acc = warpgroup_mma_wait(0, deps=(acc,))
            used += 1
        slot = used % DEPTH
        mbarrier.wait(bars.index(slot), (used // DEPTH) & 1)
        acc = warpgroup_mma(at.index(slot), bt.index(slot), acc, is_async=True)
        acc = warpgroup_mma_wait(0, deps=(acc,))
        used += 1
        tma.store_wait(pendings=0)
        out.store(acc.to(c.dtype))
        fence_async_shared()
        tma.async_store(c, [row, 0], out)
    tma.store_wait(pendings=0)
