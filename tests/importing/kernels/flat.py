"""Kernels whose branches depend on counters of tiles, or on data."""

import triton
import triton.language as tl
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
def multiply_flat(a, b, c, tiles, total, num_warps: gl.constexpr, DEPTH: gl.constexpr):
    """Several tiles of c in one loop over all steps of all tiles; a tile's last step stores it."""
    M: gl.constexpr = c.block_type.shape[0]
    N: gl.constexpr = c.block_type.shape[1]
    K: gl.constexpr = a.block_type.shape[1]
    layout: gl.constexpr = gl.NVMMADistributedLayout([3, 0], [num_warps, 1], [16, N, 16])
    at = gl.allocate_shared_memory(a.dtype, [DEPTH] + a.block_type.shape, a.layout)
    bt = gl.allocate_shared_memory(b.dtype, [DEPTH] + b.block_type.shape, b.layout)
    out = gl.allocate_shared_memory(c.dtype, c.block_type.shape, c.layout)
    bars = gl.allocate_shared_memory(gl.int64, [DEPTH, 1], mbarrier.MBarrierLayout())
    for i in gl.static_range(DEPTH):
        mbarrier.init(bars.index(i), count=1)
    steps = gl.cdiv(a.shape[1], K)
    for i in gl.static_range(DEPTH - 1):
        row = (gl.program_id(0) * tiles + i // steps) * M
        mbarrier.expect(bars.index(i), a.block_type.nbytes + b.block_type.nbytes)
        tma.async_load(a, [row, (i % steps) * K], bars.index(i), at.index(i))
        tma.async_load(b, [(i % steps) * K, 0], bars.index(i), bt.index(i))
    acc = gl.zeros((M, N), gl.float32, layout)
    for i in range(0, total):
        slot = i % DEPTH
        mbarrier.wait(bars.index(slot), (i // DEPTH) & 1)
        step = i % steps
        acc = warpgroup_mma(at.index(slot), bt.index(slot), acc, is_async=True, use_acc=step > 0)
        acc = warpgroup_mma_wait(0, deps=(acc,))
        ahead = i + DEPTH - 1
        slot = ahead % DEPTH
        row = (gl.program_id(0) * tiles + ahead // steps) * M
        mbarrier.expect(bars.index(slot), a.block_type.nbytes + b.block_type.nbytes)
        tma.async_load(a, [row, (ahead % steps) * K], bars.index(slot), at.index(slot))
        tma.async_load(b, [(ahead % steps) * K, 0], bars.index(slot), bt.index(slot))
        if step == steps - 1:
            tma.store_wait(pendings=0)
            out.store(acc.to(c.dtype))
            fence_async_shared()
            row = (gl.program_id(0) * tiles + i // steps) * M
            tma.async_store(c, [row, 0], out)
    for i in gl.static_range(DEPTH - 1):
        last = total + i
        mbarrier.wait(bars.index(last % DEPTH), (last // DEPTH) & 1)
    tma.store_wait(pendings=0)


@gluon.jit
def scale_some_rows(source, scales, target, columns, WIDTH: gl.constexpr):
    """Doubles, through shared memory, the rows of a matrix whose scale is positive."""
    layout: gl.constexpr = gl.BlockedLayout([1], [32], [4], [0])
    other: gl.constexpr = gl.BlockedLayout([4], [32], [4], [0])
    flat: gl.constexpr = gl.SwizzledSharedLayout(vec=1, per_phase=1, max_phase=1, order=[0])
    buffer = gl.allocate_shared_memory(source.dtype.element_ty, [WIDTH], flat)
    for step in range(0, gl.cdiv(columns, WIDTH)):
        at = gl.program_id(0) * columns + step * WIDTH
        if gl.load(scales + step) > 0:
            first = at + gl.arange(0, WIDTH, layout)
            buffer.store(gl.load(source + first) * 2)
            value = buffer.load(other)
            gl.store(target + at + gl.arange(0, WIDTH, other), value)


@triton.jit
def multiply_tiles(
    a, b, c, tiles, K, TILE: tl.constexpr, STEP: tl.constexpr, PROGRAMS: tl.constexpr
):
    """Tiles of c in turn: the compiler makes one loop of the two, and loads ahead across tiles."""
    steps = tl.cdiv(K, STEP)
    for tile in tl.range(tl.program_id(0), tiles, PROGRAMS, flatten=True):
        acc = tl.zeros((TILE, TILE), tl.float32)
        for step in range(steps):
            at = a.load([tile * TILE, step * STEP])
            bt = b.load([0, step * STEP])
            acc = tl.dot(at, bt.T, acc)
        c.store([tile * TILE, 0], acc.to(tl.float16))
