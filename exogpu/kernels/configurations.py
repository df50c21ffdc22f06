"""Times the configurations of a function that makes procedures, on this GPU.

Each configuration is proved and compiled first; those that are not say why, and are not timed.
"""

from __future__ import annotations

import itertools
from collections.abc import Callable, Iterator, Mapping, Sequence
from contextlib import ExitStack, contextmanager
from dataclasses import dataclass
from math import prod
from typing import Any, Final

import numpy as np

from exogpu.api import Procedure
from exogpu.codegen.compiled_kernel import CompiledKernel
from exogpu.codegen.runtime import driver
from exogpu.codegen.runtime.arrays import ITEM_SIZE
from exogpu.codegen.runtime.manifest import Data, LaunchError, Manifest, evaluate, read_manifest
from exogpu.diagnostics.errors import ExoGpuError
from exogpu.kernels.tune import RUNS, OnDevice, fill, measured, middle

Value = int | str
Maker = Callable[..., Procedure]

_BY_VALUE: Final[Mapping[str, type]] = {
    "f16": np.float16,
    "f32": np.float32,
    "f64": np.float64,
    "i8": np.int8,
    "i32": np.int32,
    "i64": np.int64,
}


@dataclass(frozen=True, slots=True)
class Configuration:
    """The arguments of a maker."""

    arguments: tuple[tuple[str, Value], ...]

    def __str__(self) -> str:
        return ", ".join(f"{name}={value}" for name, value in self.arguments)


@dataclass(frozen=True, slots=True)
class Outcome:
    """A configuration with its seconds, the mean of the middle half; or why it has none."""

    configuration: Configuration
    seconds: float | None = None
    registers: int = 0
    spilled: int = 0
    """Bytes of a thread that go to local memory."""
    reason: str = ""


def grid(axes: Mapping[str, Sequence[Value]]) -> tuple[Configuration, ...]:
    """Lists every combination of values, the last axis fastest.

    >>> [str(one) for one in grid({"rows": [64, 128], "stages": [3]})]
    ['rows=64, stages=3', 'rows=128, stages=3']
    """
    values = itertools.product(*axes.values())
    return tuple(Configuration(tuple(zip(axes, one, strict=True))) for one in values)


def tune_maker(
    maker: Maker,
    axes: Mapping[str, Sequence[Value]],
    sizes: Mapping[str, int],
    runs: int = RUNS,
    progress: Callable[[str], None] = lambda line: None,
) -> list[Outcome]:
    """Proves, compiles and times every configuration, in turns; the fastest comes first.

    Raises LaunchError where there is no GPU or too little memory.
    """
    kernels: dict[Configuration, CompiledKernel] = {}
    refused: list[Outcome] = []
    configurations = grid(axes)
    device = driver.current_device()
    for number, one in enumerate(configurations, 1):
        progress(f"{number} of {len(configurations)}: {one}")
        try:
            kernels[one] = maker(**dict(one.arguments)).compile()
        except (ExoGpuError, ValueError, TypeError, AssertionError) as error:
            refused.append(Outcome(one, reason=_first_line(error)))
    with driver.active(device), ExitStack() as stack:
        memory = _Memory(stack)
        launches: dict[Configuration, Callable[[], None]] = {}
        for one, kernel in kernels.items():
            try:
                launches[one] = _launch(kernel, sizes, memory)
                launches[one]()
            except LaunchError as error:
                launches.pop(one, None)
                refused.append(Outcome(one, reason=error.problem))
        driver.call("cuCtxSynchronize")
        progress(f"{runs} runs of {len(launches)} configurations")
        times = measured(launches, runs)
    outcomes = [_outcome(one, kernels[one], middle(times[one])) for one in launches]
    return [*sorted(outcomes, key=lambda one: one.seconds or 0.0), *refused]


def _outcome(one: Configuration, kernel: CompiledKernel, seconds: float) -> Outcome:
    usage = kernel.usage.values()
    registers = max((used.registers for used in usage), default=0)
    spilled = sum(used.stack for used in usage)
    return Outcome(one, seconds, registers, spilled)


def _first_line(error: Exception) -> str:
    """The reason for which a configuration has no kernel."""
    if isinstance(error, ExoGpuError) and error.diagnostics:
        return error.diagnostics[0].message
    return str(error).partition("\n")[0] or type(error).__name__


class _Memory:
    """Memory of the current GPU by the name of an array: kernels that are timed share it."""

    def __init__(self, stack: ExitStack) -> None:
        self._stack = stack
        self._places: dict[tuple[str, str, int], int] = {}

    def place(self, array: Data, count: int) -> int:
        """The address of so many elements: random numbers, or zeros of integers."""
        key = array.name, array.dtype, count
        if key not in self._places:
            self._places[key] = self._stack.enter_context(_allocated(array.dtype, count))
        return self._places[key]


@contextmanager
def _allocated(dtype: str, count: int) -> Iterator[int]:
    address = driver.allocate(count * ITEM_SIZE[dtype])
    try:
        fill(address, count, dtype)
        yield address
    finally:
        driver.free(address)


def _launch(
    kernel: CompiledKernel, sizes: Mapping[str, int], memory: _Memory
) -> Callable[[], None]:
    """Returns a function that launches a kernel on arrays of these sizes.  Raises LaunchError."""
    manifest = read_manifest(kernel.manifest)
    known = _sizes_of(manifest, sizes)
    arrays: dict[str, Any] = {}
    for array in manifest.data:
        shape = tuple(evaluate(extent, known) for extent in array.shape)
        if array.by_value:
            arrays[array.name] = np.ones(shape, _BY_VALUE[array.dtype])
        else:
            arrays[array.name] = OnDevice(memory.place(array, prod(shape)), shape, array.dtype)
    return lambda: kernel(stream=0, **arrays, **known)


def _sizes_of(manifest: Manifest, sizes: Mapping[str, int]) -> dict[str, int]:
    """The sizes that a kernel has.  Raises LaunchError where one is not given."""
    names = [size.name for size in manifest.sizes]
    if missing := [name for name in names if name not in sizes]:
        what = f"{manifest.name} has the sizes {', '.join(names)}"
        raise LaunchError(f"{what}; {', '.join(missing)} is not given", f"give {missing[0]}=")
    return {name: sizes[name] for name in names}
