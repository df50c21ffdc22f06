"""Instructions of every CUDA device, and of the stream: vector copies, shuffles, memcpy, memset."""

from __future__ import annotations

from exogpu.frontend.instructions import instr
from exogpu.hw.language import f32, i32
from exogpu.hw.operands import CUDA_ATOMIC, CUDA_MEMORY, CUDA_REGISTER, STREAM, aligned, over
from exogpu.hw.units import cuda_thread, cuda_warp
from exogpu.ir.types import Memcpy, Memset

VECTORS = (1, 2, 4, 8, 16)
"""Bytes that a thread reads or writes at once, and must be aligned to (PTX ISA, Vectors)."""

ATOMIC_TYPES = ("i32", "i64", "ui64", "f32", "f64")
"""Types of elements that change atomically."""


def _vector(n, dtype):
    return aligned(CUDA_MEMORY, n * dtype.bytes)


@instr(unit=cuda_thread, dst=CUDA_REGISTER, src=_vector, template="cuda_load<{n}>({dst}, {src});")
def cuda_load(dst: dtype[n] @ CudaRmem, src: dtype[n] @ CudaDeviceVisibleLinear, *, n=4, dtype=f32):
    """A thread reads n adjacent elements, up to 16 bytes, into its registers (ld.v4)."""
    assert n * dtype.bytes in VECTORS
    for i in seq(0, n):
        dst[i] = src[i]


@instr(unit=cuda_thread, dst=_vector, src=CUDA_REGISTER, template="cuda_store<{n}>({dst}, {src});")
def cuda_store(
    dst: dtype[n] @ CudaDeviceVisibleLinear, src: dtype[n] @ CudaRmem, *, n=4, dtype=f32
):
    """A thread writes n adjacent elements, up to 16 bytes, from its registers (st.v4)."""
    assert n * dtype.bytes in VECTORS
    for i in seq(0, n):
        dst[i] = src[i]


@instr(
    unit=cuda_thread,
    dst=CUDA_REGISTER,
    at=CUDA_REGISTER,
    src=lambda dtype: aligned(CUDA_MEMORY, dtype.bytes),
    template="cuda_pick({n}, {dst}, {at}, {src});",
)
def cuda_pick(
    n: size,
    dst: dtype @ CudaRmem,
    at: place @ CudaRmem,
    src: dtype[n] @ CudaDeviceVisibleLinear,
    *,
    dtype=f32,
    place=i32,
):
    """A thread reads element `at` of n adjacent ones, or keeps its register where there is none;
    then n less is left in `at` (ld)."""
    assert place.value in ("i32", "i64")
    for i in seq(0, n):
        dst = select(at, 0, dst, select(0, at, dst, src[i]))
        at = at - 1


@instr(
    unit=cuda_thread,
    dst=CUDA_ATOMIC,
    src=CUDA_REGISTER,
    template="cuda_atomic_add({dst}, {src});",
)
def cuda_atomic_add(dst: dtype @ CudaDeviceVisibleLinear, src: dtype @ CudaRmem, *, dtype=f32):
    """A thread adds its register to an element, atomically (red.relaxed, of gpu scope)."""
    assert dtype.value in ATOMIC_TYPES
    dst += src


@instr(
    unit=cuda_thread,
    dst=CUDA_ATOMIC,
    src=CUDA_REGISTER,
    template="cuda_atomic_max({dst}, {src});",
)
def cuda_atomic_max(dst: dtype @ CudaDeviceVisibleLinear, src: dtype @ CudaRmem, *, dtype=f32):
    """A thread replaces an element by the greater of it and its register, atomically (red.max)."""
    assert dtype.value in ATOMIC_TYPES[:4]
    dst = max(dst, src)


@instr(
    unit=cuda_warp,
    dst=over(CUDA_REGISTER, cuda_thread),
    src=over(CUDA_REGISTER, cuda_thread),
    template="{dst} = __shfl_xor_sync(0xffffffffu, {src}, {mask});",
)
def cuda_shfl_xor(dst: dtype[32] @ CudaRmem, src: dtype[32] @ CudaRmem, *, mask, dtype=f32):
    """Lane t reads the register of lane t ^ mask, mask a power of two (shfl.sync.bfly)."""
    assert mask in (1, 2, 4, 8, 16)
    for t in seq(0, 32):
        dst[t] = src[t + mask - 2 * mask * ((t / mask) % 2)]


@instr(
    unit=cuda_warp,
    dst=over(CUDA_REGISTER, cuda_thread),
    src=over(CUDA_REGISTER, cuda_thread),
    template="{dst} = __shfl_down_sync(0xffffffffu, {src}, {delta});",
)
def cuda_shfl_down(dst: dtype[32] @ CudaRmem, src: dtype[32] @ CudaRmem, *, delta, dtype=f32):
    """Lane t reads the register of lane t + delta, or its own past the end (shfl.sync.down)."""
    assert 0 <= delta < 32  # the hardware takes the last five bits
    for t in seq(0, 32):
        if t + delta < 32:
            dst[t] = src[t + delta]
        else:
            dst[t] = src[t]


@instr(
    unit=cuda_warp,
    dst=over(CUDA_REGISTER, cuda_thread),
    src=over(CUDA_REGISTER, cuda_thread),
    template="{dst} = __shfl_up_sync(0xffffffffu, {src}, {delta});",
)
def cuda_shfl_up(dst: dtype[32] @ CudaRmem, src: dtype[32] @ CudaRmem, *, delta, dtype=f32):
    """Lane t reads the register of lane t - delta, or its own before the first (shfl.sync.up)."""
    assert 0 <= delta < 32  # the hardware takes the last five bits
    for t in seq(0, 32):
        if t >= delta:
            dst[t] = src[t - delta]
        else:
            dst[t] = src[t]


@instr(
    unit=cuda_warp,
    dst=over(CUDA_REGISTER, cuda_thread),
    src=over(CUDA_REGISTER, cuda_thread),
    template="{dst} = __shfl_sync(0xffffffffu, {src}, {lane});",
)
def cuda_shfl_idx(dst: dtype[32] @ CudaRmem, src: dtype[32] @ CudaRmem, *, lane, dtype=f32):
    """Every lane reads the register of one lane (shfl.sync.idx)."""
    assert 0 <= lane < 32
    for t in seq(0, 32):
        dst[t] = src[lane]


@instr(
    unit=cuda_warp,
    dst=over(CUDA_REGISTER, cuda_thread),
    src=over(CUDA_REGISTER, cuda_thread),
    template="{dst} = __shfl_sync(0xffffffffu, {src}, {lane});",
)
def cuda_shfl_from(lane: index, dst: dtype[32] @ CudaRmem, src: dtype[32] @ CudaRmem, *, dtype=f32):
    """As cuda_shfl_idx, of a lane that is the same for the whole warp, below 32."""
    assert lane >= 0
    assert lane < 32
    for t in seq(0, 32):
        dst[t] = src[lane]


@instr(
    unit=cuda_warp,
    dst=over(CUDA_REGISTER, cuda_thread),
    src=over(CUDA_REGISTER, cuda_thread),
    template="{dst} = __reduce_max_sync(0xffffffffu, {src});",
)
def cuda_reduce_max(dst: i32[32] @ CudaRmem, src: i32[32] @ CudaRmem):
    """Every lane gets the greatest register of all lanes (redux.sync.max)."""
    for t in seq(0, 32):
        dst[t] = src[0]
        for lane in seq(1, 32):
            dst[t] = max(dst[t], src[lane])


@instr(
    unit=cuda_warp,
    dst=over(CUDA_REGISTER, cuda_thread),
    src=over(CUDA_REGISTER, cuda_thread),
    template="{dst} = __reduce_min_sync(0xffffffffu, {src});",
)
def cuda_reduce_min(dst: i32[32] @ CudaRmem, src: i32[32] @ CudaRmem):
    """Every lane gets the least register of all lanes (redux.sync.min)."""
    for t in seq(0, 32):
        dst[t] = src[0]
        for lane in seq(1, 32):
            dst[t] = min(dst[t], src[lane])


@instr(unit=cuda_thread, dst=CUDA_REGISTER, template="{dst} = {n};")
def cuda_number(n: index, dst: i32 @ CudaRmem):
    """A thread has a control value, which is not negative, in a register."""
    assert n >= 0
    dst = 0
    for i in seq(0, n):
        dst = dst + 1


@instr(cuda=False, dst=STREAM, src=STREAM, template=Memcpy("dst", "src", "HostToDevice"))
def cuda_memcpy_to_device(
    n: size, dst: dtype[n] @ CudaDeviceVisibleLinear, src: dtype[n] @ DRAM, *, dtype=f32
):
    """The stream copies n elements from the host to the device (cudaMemcpyAsync)."""
    for i in seq(0, n):
        dst[i] = src[i]


@instr(cuda=False, dst=STREAM, src=STREAM, template=Memcpy("dst", "src", "DeviceToHost"))
def cuda_memcpy_to_host(
    n: size, dst: dtype[n] @ DRAM, src: dtype[n] @ CudaDeviceVisibleLinear, *, dtype=f32
):
    """The stream copies n elements from the device to the host (cudaMemcpyAsync)."""
    for i in seq(0, n):
        dst[i] = src[i]


@instr(cuda=False, dst=STREAM, template=Memset("dst"))
def cuda_memset0_1d(n: size, dst: dtype[n] @ CudaDeviceVisibleLinear, *, dtype=f32):
    """The stream zeroes a vector on the device (cudaMemsetAsync)."""
    for i in seq(0, n):
        dst[i] = 0


@instr(cuda=False, dst=STREAM, template=Memset("dst"))
def cuda_memset0_3d(
    a: size, b: size, c: size, dst: dtype[a, b, c] @ CudaDeviceVisibleLinear, *, dtype=f32
):
    """The stream zeroes a three-dimensional tensor on the device (cudaMemsetAsync)."""
    for i in seq(0, a):
        for j in seq(0, b):
            for k in seq(0, c):
                dst[i, j, k] = 0
