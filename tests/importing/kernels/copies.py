"""Gluon kernels that copy by cp.async and by TMA, in rings."""

from triton.experimental import gluon
from triton.experimental.gluon import language as gl
from triton.experimental.gluon.language.nvidia.ampere import async_copy
from triton.experimental.gluon.language.nvidia.hopper import fence_async_shared, mbarrier, tma


@gluon.jit
def scale_rows(
    source, target, columns, stride, ROWS: gl.constexpr, WIDTH: gl.constexpr, DEPTH: gl.constexpr
):
    """Doubles ROWS rows, WIDTH columns at a time, by a ring of DEPTH cp.async copies."""
    layout: gl.constexpr = gl.BlockedLayout([1, 1], [1, 32], [4, 1], [1, 0])
    flat: gl.constexpr = gl.SwizzledSharedLayout(vec=1, per_phase=1, max_phase=1, order=[1, 0])
    ring = gl.allocate_shared_memory(source.dtype.element_ty, [DEPTH, ROWS, WIDTH], flat)
    row = gl.program_id(0) * ROWS + gl.arange(0, ROWS, gl.SliceLayout(1, layout))
    column = gl.arange(0, WIDTH, gl.SliceLayout(0, layout))
    for first in gl.static_range(DEPTH - 1):
        begin = first * WIDTH + column
        async_copy.async_load(
            ring.index(first),
            source + row[:, None] * stride + begin[None, :],
            (begin < columns)[None, :],
        )
        async_copy.commit_group()
    for step in range(0, gl.cdiv(columns, WIDTH)):
        ahead = step + DEPTH - 1
        at = ahead * WIDTH + column
        async_copy.async_load(
            ring.index(ahead % DEPTH),
            source + row[:, None] * stride + at[None, :],
            (at < columns)[None, :],
        )
        async_copy.commit_group()
        async_copy.wait_group(DEPTH - 1)
        value = ring.index(step % DEPTH).load(layout)
        here = step * WIDTH + column
        gl.store(
            target + row[:, None] * stride + here[None, :], value * 2, (here < columns)[None, :]
        )
    async_copy.wait_group(0)


@gluon.jit
def negate_tiles(source, target, columns, DEPTH: gl.constexpr):
    """Negates a row of tiles: TMA loads into a ring, a TMA store from one buffer."""
    ROWS: gl.constexpr = source.block_type.shape[0]
    WIDTH: gl.constexpr = source.block_type.shape[1]
    layout: gl.constexpr = gl.BlockedLayout([1, 1], [1, 32], [4, 1], [1, 0])
    ring = gl.allocate_shared_memory(source.dtype, [DEPTH, ROWS, WIDTH], source.layout)
    out = gl.allocate_shared_memory(target.dtype, [ROWS, WIDTH], target.layout)
    ready = gl.allocate_shared_memory(gl.int64, [DEPTH, 1], mbarrier.MBarrierLayout())
    for i in gl.static_range(DEPTH):
        mbarrier.init(ready.index(i), count=1)
    row = gl.program_id(0) * ROWS
    for i in gl.static_range(DEPTH):
        mbarrier.expect(ready.index(i), source.block_type.nbytes)
        tma.async_load(source, [row, i * WIDTH], ready.index(i), ring.index(i))
    for step in range(0, gl.cdiv(columns, WIDTH)):
        slot = step % DEPTH
        mbarrier.wait(ready.index(slot), (step // DEPTH) & 1)
        value = ring.index(slot).load(layout)
        fence_async_shared()
        mbarrier.expect(ready.index(slot), source.block_type.nbytes)
        tma.async_load(source, [row, (step + DEPTH) * WIDTH], ready.index(slot), ring.index(slot))
        tma.store_wait(pendings=0)
        out.store(-value)
        fence_async_shared()
        tma.async_store(target, [row, step * WIDTH], out)
    for i in gl.static_range(DEPTH):
        last = gl.cdiv(columns, WIDTH) + i
        mbarrier.wait(ready.index(last % DEPTH), (last // DEPTH) & 1)
    tma.store_wait(pendings=0)


@gluon.jit
def negate_while(source, target, columns, DEPTH: gl.constexpr):
    """Negates a row of tiles, its loop written with `while`."""
    ROWS: gl.constexpr = source.block_type.shape[0]
    WIDTH: gl.constexpr = source.block_type.shape[1]
    layout: gl.constexpr = gl.BlockedLayout([1, 1], [1, 32], [4, 1], [1, 0])
    ring = gl.allocate_shared_memory(source.dtype, [DEPTH, ROWS, WIDTH], source.layout)
    out = gl.allocate_shared_memory(target.dtype, [ROWS, WIDTH], target.layout)
    ready = gl.allocate_shared_memory(gl.int64, [DEPTH, 1], mbarrier.MBarrierLayout())
    for i in gl.static_range(DEPTH):
        mbarrier.init(ready.index(i), count=1)
    row = gl.program_id(0) * ROWS
    for i in gl.static_range(DEPTH):
        mbarrier.expect(ready.index(i), source.block_type.nbytes)
        tma.async_load(source, [row, i * WIDTH], ready.index(i), ring.index(i))
    step = 0
    first = 0
    while first < columns:
        slot = step % DEPTH
        mbarrier.wait(ready.index(slot), (step // DEPTH) & 1)
        value = ring.index(slot).load(layout)
        fence_async_shared()
        mbarrier.expect(ready.index(slot), source.block_type.nbytes)
        tma.async_load(source, [row, first + DEPTH * WIDTH], ready.index(slot), ring.index(slot))
        tma.store_wait(pendings=0)
        out.store(-value)
        fence_async_shared()
        tma.async_store(target, [row, first], out)
        step += 1
        first += WIDTH
    for i in gl.static_range(DEPTH):
        mbarrier.wait(ready.index((step + i) % DEPTH), ((step + i) // DEPTH) & 1)
    tma.store_wait(pendings=0)
