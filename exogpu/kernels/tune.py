"""Times of kernels on this GPU: each way to compute a product, in turns, in a shuffled order."""

from __future__ import annotations

import ctypes
import random
from collections.abc import Callable, Hashable, Iterator, Mapping
from contextlib import contextmanager
from dataclasses import dataclass
from math import prod
from typing import Final, TypeVar

import numpy as np
import numpy.typing as npt

from exogpu.codegen.runtime import driver
from exogpu.codegen.runtime.arrays import ITEM_SIZE, TYPESTR
from exogpu.codegen.runtime.driver import pointer
from exogpu.kernels import gemm_calls
from exogpu.kernels.select import GEMV, Choice, Product, current_gpu, shipped

RUNS: Final = 20
NEAR: Final = 2.0
"""Times of what the model says of the fastest, beyond which a kernel is not tried."""
FLUSHED: Final = 256 << 20
"""Bytes that are written before each run: more than the L2 cache holds."""
FLUSHES: Final = 5
"""The number of flushes: they take long enough for the launch to be enqueued meanwhile."""
CHUNK: Final = 1 << 22
"""Elements of random data, which are repeated."""

Run = Callable[[], None]
_Way = TypeVar("_Way", bound=Hashable)


@dataclass(frozen=True, slots=True)
class Timed:
    """A way to compute a product, and its seconds: the mean of the middle half."""

    choice: Choice
    seconds: float


class OnDevice:
    """Memory of the current GPU, as an array."""

    def __init__(self, address: int, shape: tuple[int, ...], dtype: str) -> None:
        self.__cuda_array_interface__ = {
            "shape": shape,
            "typestr": TYPESTR[dtype][0],
            "data": (address, False),
            "version": 3,
        }


def choices(product: Product) -> list[Choice]:
    """The kernels that may be the fastest, with their slices of K; all there are for a GEMV."""
    if not product.N:
        return [Choice(name, 0) for name in GEMV]
    expected = {
        Choice(variant.name, slices if variant.split else 0): variant.expected_seconds(
            product, slices
        )
        for variant in shipped(current_gpu()).values()
        if variant.dtype == product.dtype
        for slices in variant.slices(product)
    }
    least = min(expected.values())
    return [choice for choice, seconds in expected.items() if seconds <= NEAR * least]


def tune(
    product: Product,
    runs: int = RUNS,
    said: Callable[[str], None] = lambda what: None,
) -> list[Timed]:
    """Every kernel that may be the fastest for a product, compiled and timed on the current GPU;
    the fastest first.  Raises LaunchError where there is no GPU or too little memory."""
    ways = choices(product)
    device = driver.current_device()
    with driver.active(device), _memory(product) as addresses:
        launches: dict[Choice, Run] = {}
        for number, way in enumerate(ways, 1):
            said(f"{number} of {len(ways)}: {way.name}")
            launches[way] = _launch(way, product, addresses)
            launches[way]()
        driver.call("cuCtxSynchronize")
        said(f"{runs} runs of {len(ways)} kernels")
        seconds = measured(launches, runs)
    return sorted((Timed(w, middle(s)) for w, s in seconds.items()), key=lambda one: one.seconds)


def _launch(way: Choice, product: Product, addresses: Mapping[str, int]) -> Run:
    """Launches a kernel on the arrays."""
    L, M, N, K = product.L, product.M, product.N, product.K
    if not N:
        shapes: dict[str, tuple[int, ...]] = {"A": (M, K), "x": (K,), "y": (M,)}
    elif way.slices:
        k = way.slices, K // way.slices
        shapes = {"A": (L, M, *k), "B": (L, N, *k), "C": (L, M, N)}
    else:
        shapes = {"A": (L, M, K), "B": (L, N, K), "C": (L, M, N)}
    arrays = {n: OnDevice(addresses[n], s, product.dtype) for n, s in shapes.items()}
    kernel = gemm_calls.kernel(way.name)
    return lambda: kernel(stream=0, **arrays)


@contextmanager
def _memory(product: Product) -> Iterator[dict[str, int]]:
    """Yields the places of the arrays, with random elements, and the memory that is flushed."""
    L, M, N, K = product.L, product.M, product.N, product.K
    if N:
        elements = {"A": L * M * K, "B": L * N * K, "C": L * M * N}
    else:
        elements = {"A": M * K, "x": K, "y": M}
    addresses: dict[str, int] = {}
    try:
        for name, count in elements.items():
            addresses[name] = driver.allocate(count * ITEM_SIZE[product.dtype])
            fill(addresses[name], count, product.dtype)
        driver.call("cuCtxSynchronize")
        yield addresses
    finally:
        for address in addresses.values():
            driver.free(address)


def fill(address: int, count: int, dtype: str) -> None:
    """Writes random elements, a chunk again and again: what is multiplied sets the power and the
    clock.  Integers are 0."""
    chunk = _random(min(count, CHUNK), dtype)
    for first in range(0, count, CHUNK):
        size = min(CHUNK, count - first) * chunk.itemsize
        target = address + first * chunk.itemsize
        driver.copy_in(target, chunk.ctypes.data, size, pointer(0))
        driver.call("cuCtxSynchronize")


def _random(count: int, dtype: str) -> npt.NDArray[np.generic]:
    if dtype not in ("f16", "bf16", "f32", "f64"):
        return np.zeros(count * ITEM_SIZE[dtype], np.uint8).view(f"V{ITEM_SIZE[dtype]}")
    values = np.random.default_rng(0).standard_normal(count, np.float32)
    if dtype == "f16":
        return values.astype(np.float16)
    if dtype == "bf16":
        return (values.view(np.uint32) >> 16).astype(np.uint16)
    return values.astype(np.float64) if dtype == "f64" else values


def measured(runs: Mapping[_Way, Run], count: int) -> dict[_Way, list[float]]:
    """Seconds of each run, in a shuffled order, the L2 cache flushed before each."""
    events = [ctypes.c_void_p() for _ in range(2)]
    for event in events:
        driver.call("cuEventCreate", ctypes.byref(event), 0)
    flushed = driver.allocate(FLUSHED)
    times: dict[_Way, list[float]] = {way: [] for way in runs}
    order = [*runs]
    try:
        for _ in range(count):
            random.shuffle(order)
            for way in order:
                target, size = ctypes.c_uint64(flushed), ctypes.c_size_t(FLUSHED)
                for _ in range(FLUSHES):
                    driver.call("cuMemsetD8Async", target, ctypes.c_ubyte(0), size, pointer(0))
                driver.call("cuEventRecord", events[0], pointer(0))
                runs[way]()
                driver.call("cuEventRecord", events[1], pointer(0))
                driver.call("cuEventSynchronize", events[1])
                passed = ctypes.c_float()
                driver.call("cuEventElapsedTime", ctypes.byref(passed), *events)
                times[way].append(passed.value / 1e3)
    finally:
        driver.free(flushed)
        for event in events:
            driver.call("cuEventDestroy_v2", event)
    return times


def middle(times: list[float]) -> float:
    """The mean of the middle half.

    >>> middle([9.0, 2.0, 3.0, 1.0])
    2.5
    """
    quarter = len(times) // 4
    half = sorted(times)[quarter : len(times) - quarter]
    return sum(half) / len(half)


def work(product: Product) -> tuple[float, str]:
    """Returns the work that a product's rate counts, and its unit at a second each: operations, or
    bytes of A."""
    if product.N:
        return 2.0 * prod((product.L, product.M, product.N, product.K)), "TFLOPS"
    return float(product.M * product.K * ITEM_SIZE[product.dtype]), "TB/s"
