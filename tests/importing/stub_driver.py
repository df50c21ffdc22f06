"""A driver of Triton's without a GPU: it loads no binary and writes launches down.

All before that is Triton's own: the specialisation, the cache, tuning, and compiling to a cubin.
"""

from __future__ import annotations

from collections.abc import Callable, Iterator
from contextlib import contextmanager
from types import SimpleNamespace
from typing import Any

from exogpu.importing.kernel_arguments import StandingTensor

SHARED_MEMORY = 232_448


class StubDriver:
    """A driver that has launched every kernel when it is asked to."""

    def __init__(self) -> None:
        self.launches: list[tuple[str, tuple[int, ...]]] = []
        """The kernels by name, with their grids."""
        self.utils = SimpleNamespace(
            load_binary=lambda name, binary, shared, device: (1, name, 32, 0, 1024),
            unload_module=lambda module: None,
            get_device_properties=lambda device: {
                "max_shared_mem": SHARED_MEMORY,
                "multiprocessor_count": 132,
            },
        )

    def get_current_device(self) -> int:
        return 0

    def get_current_stream(self, device: int) -> int:
        return 0

    def get_device_capability(self, device: int = 0) -> tuple[int, int]:
        return 9, 0

    def get_current_target(self) -> object:
        from triton.backends.compiler import GPUTarget

        return GPUTarget("cuda", 90, 32)

    def launcher_cls(self, source: object, metadata: object) -> Callable[..., None]:
        def launch(*arguments: Any) -> None:
            *grid, _, function = arguments[:5]
            self.launches.append((function, tuple(grid)))

        return launch

    def get_benchmarker(self) -> Callable[..., list[float]]:
        def run_once(call: Callable[[], object], quantiles: tuple[float, ...]) -> list[float]:
            call()
            return [1.0 for _ in quantiles]

        return run_once


@contextmanager
def stub_driver() -> Iterator[StubDriver]:
    """Triton's driver, while kernels are launched; without a GPU's, afterwards too, since compiled
    kernels ask it as they are deleted."""
    from triton.runtime import driver

    before, made = getattr(driver, "_active", None), StubDriver()
    driver.set_active(made)
    try:
        yield made
    finally:
        if before is not None:
            driver.set_active(before)


def tensor(dtype: str, *shape: int) -> StandingTensor:
    """A tensor without data."""
    return StandingTensor(dtype, shape)
