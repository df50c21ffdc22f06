"""A Gluon kernel whose warps have roles: one loads, one computes, one stores."""

from triton.experimental import gluon
from triton.experimental.gluon import language as gl
from triton.experimental.gluon.language.nvidia.hopper import fence_async_shared, mbarrier, tma


@gluon.jit
def load_role(source, columns, filled, emptied, ring, DEPTH: gl.constexpr):
    """Loads a tile into each slot that is empty."""
    row = gl.program_id(0) * source.block_type.shape[0]
    WIDTH: gl.constexpr = source.block_type.shape[1]
    for step in range(0, gl.cdiv(columns, WIDTH)):
        slot = step % DEPTH
        mbarrier.wait(emptied.index(slot), ((step // DEPTH) & 1) ^ 1)
        mbarrier.expect(filled.index(slot), source.block_type.nbytes)
        tma.async_load(source, [row, step * WIDTH], filled.index(slot), ring.index(slot))


@gluon.jit
def compute_role(source, columns, filled, emptied, ring, ready, free, out, DEPTH: gl.constexpr):
    """Squares each tile that is filled, into the buffer of the store."""
    WIDTH: gl.constexpr = source.block_type.shape[1]
    layout: gl.constexpr = gl.BlockedLayout([1, 1], [1, 32], [4, 1], [1, 0])
    for step in range(0, gl.cdiv(columns, WIDTH)):
        slot = step % DEPTH
        mbarrier.wait(filled.index(slot), (step // DEPTH) & 1)
        value = ring.index(slot).load(layout)
        fence_async_shared()
        mbarrier.arrive(emptied.index(slot), count=1)
        mbarrier.wait(free, (step & 1) ^ 1)
        out.store(value * value)
        fence_async_shared()
        mbarrier.arrive(ready, count=1)


@gluon.jit
def store_role(target, columns, ready, free, out):
    """Stores each tile that is ready."""
    row = gl.program_id(0) * target.block_type.shape[0]
    WIDTH: gl.constexpr = target.block_type.shape[1]
    for step in range(0, gl.cdiv(columns, WIDTH)):
        mbarrier.wait(ready, step & 1)
        tma.async_store(target, [row, step * WIDTH], out)
        tma.store_wait(pendings=0)
        mbarrier.arrive(free, count=1)


@gluon.jit
def square_tiles(source, target, columns, DEPTH: gl.constexpr):
    """Squares a row of tiles, its warps in three roles."""
    ring = gl.allocate_shared_memory(source.dtype, [DEPTH] + source.block_type.shape, source.layout)
    out = gl.allocate_shared_memory(target.dtype, target.block_type.shape, target.layout)
    filled = gl.allocate_shared_memory(gl.int64, [DEPTH, 1], mbarrier.MBarrierLayout())
    emptied = gl.allocate_shared_memory(gl.int64, [DEPTH, 1], mbarrier.MBarrierLayout())
    ready = gl.allocate_shared_memory(gl.int64, [1], mbarrier.MBarrierLayout())
    free = gl.allocate_shared_memory(gl.int64, [1], mbarrier.MBarrierLayout())
    for i in gl.static_range(DEPTH):
        mbarrier.init(filled.index(i), count=1)
        mbarrier.init(emptied.index(i), count=1)
    mbarrier.init(ready, count=1)
    mbarrier.init(free, count=1)
    gl.warp_specialize(
        [
            (compute_role, (source, columns, filled, emptied, ring, ready, free, out, DEPTH)),
            (load_role, (source, columns, filled, emptied, ring, DEPTH)),
            (store_role, (target, columns, ready, free, out)),
        ],
        [1, 1],
        [24, 24],
    )


@gluon.jit
def load_apart(source, columns, filled, emptied, ring, DEPTH: gl.constexpr, AHEAD: gl.constexpr):
    """Loads the first tile ahead of its loop, or the last one after it."""
    row = gl.program_id(0) * source.block_type.shape[0]
    WIDTH: gl.constexpr = source.block_type.shape[1]
    steps = gl.cdiv(columns, WIDTH)
    if AHEAD:
        mbarrier.expect(filled.index(0), source.block_type.nbytes)
        tma.async_load(source, [row, 0], filled.index(0), ring.index(0))
    for step in range(AHEAD, steps - 1 + AHEAD):
        slot = step % DEPTH
        mbarrier.wait(emptied.index(slot), ((step // DEPTH) & 1) ^ 1)
        mbarrier.expect(filled.index(slot), source.block_type.nbytes)
        tma.async_load(source, [row, step * WIDTH], filled.index(slot), ring.index(slot))
    if not AHEAD:
        last = steps - 1
        slot = last % DEPTH
        mbarrier.wait(emptied.index(slot), ((last // DEPTH) & 1) ^ 1)
        mbarrier.expect(filled.index(slot), source.block_type.nbytes)
        tma.async_load(source, [row, last * WIDTH], filled.index(slot), ring.index(slot))


@gluon.jit
def halve_role(source, target, columns, filled, emptied, ring, out, DEPTH: gl.constexpr):
    """Halves each tile that is filled, and stores it."""
    row = gl.program_id(0) * target.block_type.shape[0]
    WIDTH: gl.constexpr = source.block_type.shape[1]
    layout: gl.constexpr = gl.BlockedLayout([1, 1], [1, 32], [4, 1], [1, 0])
    for step in range(0, gl.cdiv(columns, WIDTH)):
        slot = step % DEPTH
        mbarrier.wait(filled.index(slot), (step // DEPTH) & 1)
        value = ring.index(slot).load(layout)
        fence_async_shared()
        mbarrier.arrive(emptied.index(slot), count=1)
        tma.store_wait(pendings=0)
        out.store(value / 2)
        fence_async_shared()
        tma.async_store(target, [row, step * WIDTH], out)
    tma.store_wait(pendings=0)


@gluon.jit
def halve(source, target, columns, DEPTH: gl.constexpr, AHEAD: gl.constexpr):
    """Halves a row of tiles by two roles, of whose loops one has an iteration fewer."""
    ring = gl.allocate_shared_memory(source.dtype, [DEPTH] + source.block_type.shape, source.layout)
    out = gl.allocate_shared_memory(target.dtype, target.block_type.shape, target.layout)
    filled = gl.allocate_shared_memory(gl.int64, [DEPTH, 1], mbarrier.MBarrierLayout())
    emptied = gl.allocate_shared_memory(gl.int64, [DEPTH, 1], mbarrier.MBarrierLayout())
    for i in gl.static_range(DEPTH):
        mbarrier.init(filled.index(i), count=1)
        mbarrier.init(emptied.index(i), count=1)
    gl.warp_specialize(
        [
            (halve_role, (source, target, columns, filled, emptied, ring, out, DEPTH)),
            (load_apart, (source, columns, filled, emptied, ring, DEPTH, AHEAD)),
        ],
        [1],
        [24],
    )


@gluon.jit
def halve_first_ahead(source, target, columns, DEPTH: gl.constexpr):
    """The first tile is loaded ahead of the loop."""
    halve(source, target, columns, DEPTH, 1)


@gluon.jit
def halve_last_after(source, target, columns, DEPTH: gl.constexpr):
    """The last tile is loaded after the loop."""
    halve(source, target, columns, DEPTH, 0)
