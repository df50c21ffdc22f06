"""A GPU that does with the arrays of `fake_program` what a test wants."""

from __future__ import annotations

import ctypes
from collections.abc import Callable

import numpy as np

from exogpu.codegen.runtime import device_memory, driver
from tests.codegen.fake_cuda import FakeDriver


class Gpu(FakeDriver):
    """`kernel(x, y)` gets the arrays, as long as memory goes, when something is launched."""

    def __init__(self, kernel: Callable[[np.ndarray, np.ndarray], None]) -> None:
        super().__init__()
        self.grids: list[tuple[int, ...]] = []
        self.broken = False

        def on_launch(function, grid, arguments):
            self.grids.append(grid)
            m = ctypes.cast(arguments[0], ctypes.POINTER(ctypes.c_int))[0]
            x, y = (self.array(arguments[i], 32 * m) for i in (1, 2))
            kernel(x, y)

        self.on_launch = on_launch

    def array(self, argument, count):
        """A view of `count` f32 at an argument, and of the guards after it."""
        address = ctypes.cast(argument, ctypes.POINTER(ctypes.c_uint64))[0]
        whole = (ctypes.c_float * (count + 8)).from_address(address)
        return np.frombuffer(whole, np.float32)

    def call(self, name, *arguments):
        if self.broken and name.endswith("Synchronize"):
            return 719
        return super().call(name, *arguments)


def right(x, y):
    y[:-8] = x[:-8] + 1


def install(gpu: FakeDriver) -> FakeDriver:
    """The GPU of this process from now on."""
    for cached in (driver.gpus, driver._primary, device_memory._encoded):
        cached.cache_clear()
    driver._driver = lambda: gpu
    return gpu
