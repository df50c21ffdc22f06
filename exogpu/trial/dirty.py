"""Shared memory filled with NaN before a run: nothing there is zero by chance."""

from __future__ import annotations

import ctypes
from collections.abc import Callable
from functools import cache
from typing import Final

from exogpu.codegen.runtime import driver
from exogpu.codegen.runtime.manifest import Launch
from exogpu.codegen.runtime.modules import Loaded, launcher, load, module_of

SOURCE: Final = """\
extern "C" __global__ void dirty(int words)
{
    extern __shared__ unsigned memory[];
    for (int i = threadIdx.x; i < words; i += blockDim.x)
        memory[i] = 0x7fffffffu;
    __syncthreads();
    // Read, so that the writes stay.
    if (memory[(threadIdx.x * 7919u) % words] == 0x12345678u)
        __trap();
}
"""
"""CUDA C++ of the kernel."""

BYTES: Final = 227 * 1024
"""All that a CTA can have on a Hopper GPU, so that one runs on each multiprocessor."""

LAUNCH: Final = Launch("dirty", 1, 1024, BYTES, ((1,),), (), ())


def dirtying(cubin: bytes) -> Callable[[], None]:
    """Returns a function that fills the shared memory of all multiprocessors of the current
    device."""

    @cache
    def loaded() -> Loaded:
        return load(module_of(cubin), (LAUNCH,), driver.current_device())["dirty"]

    def dirty() -> None:
        kernel = loaded()
        launcher(kernel, kernel.clusters, [ctypes.c_int(BYTES // 4)], 0)()

    return dirty
