"""Chooses the fastest kernel for a product, from its sizes by a model that was fitted.

The model of a kernel is a sum: what a launch takes, what a wave of tiles takes, and a wave's step
of 128 bytes of a row, of whole waves and of as much of the last as there is; more of either where
rows begin within a cache line, and more again where they begin within a sector of it; bytes of A
and B, operations, and more of these where power has lowered the clock, and elements of C.  Their
seconds, of each GPU that was measured, are in `times.json`, which `benchmarks/gpu_fit.py` writes;
docs/performance.md has what they are worth.
A kernel whose seconds are not there is never chosen.
"""

from __future__ import annotations

import json
import os
from collections.abc import Iterable, Iterator, Mapping
from dataclasses import dataclass, replace
from functools import cache, lru_cache
from math import log10
from pathlib import Path
from typing import Any, Final

from exogpu.codegen.runtime import driver
from exogpu.codegen.runtime.manifest import LaunchError
from exogpu.kernels import repeated_calls

TIMES: Final = Path(__file__).with_name("times.json")
SLICES: Final = 64
"""The slices of K at most, each of at least 128 columns."""
STEP: Final = {"f32": 32, "bf16": 64, "f16": 64}
"""Columns of A and B that a CTA takes at a time: a cache line of a row."""
SECTORS: Final = 4
"""The sectors of a cache line."""
GEMV: Final = ("gemv", "gemv_rows")
"""The kernels of a matrix times a vector."""
AT_ONCE: Final = {1: 132, 2: 66, 4: 30, 8: 15}
"""Clusters that an H100 or H200 runs at a time, by their CTAs: those of 4 do not fill the GPCs."""
ALIKE: Final = 1.02
"""Times of the least, up to which seconds that are expected are as good."""
COLD: Final = 4e11
"""Operations of TF32 in the first millisecond."""


@dataclass(frozen=True, slots=True)
class Product:
    """L products of M x K by K x N, of "f32", which is TF32, "bf16" or "f16"."""

    L: int
    M: int
    N: int
    K: int
    dtype: str = "f32"

    @property
    def work(self) -> float:
        """Operations."""
        return 2.0 * self.L * self.M * self.N * self.K

    @property
    def warm(self) -> float:
        """The extent, from 0 to 1, to which power has lowered the clock in the end."""
        return warm(self.work * STEP["f32"] / STEP[self.dtype])


@dataclass(frozen=True, slots=True)
class Variant:
    """A kernel: its cluster and tile, whether it splits K, and the seconds of its model.

    A tile takes a multiple of `steps` steps.  One that splits K in slices that take turns always
    has as many of them, `turns`.
    """

    name: str
    cluster: tuple[int, int]
    tile: tuple[int, int]
    split: bool
    steps: int = 1
    seconds: tuple[float, ...] = ()
    dtype: str = "f32"
    bulk: bool = False
    """TMA stores C, of which rows then are multiples of 16 bytes."""
    turns: int = 1

    def slices(self, product: Product) -> Iterator[int]:
        """The ways to divide K.

        >>> splitk = Variant("splitk", (1, 1), (128, 256), True)
        >>> list(splitk.slices(Product(1, 64, 64, 512)))
        [1, 2, 4]
        """
        chunk = STEP[self.dtype] // 8  # elements of 16 bytes, which TMA takes
        if not self.split:
            if not self.bulk or product.N % chunk == 0:
                yield 1
        elif product.N % 4 == 0:
            yield 1
            for n in range(2, min(SLICES, product.K // 128) + 1):
                if product.K % (chunk * n) == 0:
                    yield n

    def features(self, product: Product, slices: int) -> tuple[float, ...]:
        """Returns the factor of each of the seconds of the model.

        >>> one = Variant("one", (2, 1), (128, 256), False)
        >>> one.features(Product(1, 4096, 4096, 4096), 1)[:4]
        (1.0, 4.0, 512.0, 496.4848484848485)
        """
        (cm, cn), (tm, tn) = self.cluster, self.tile
        parts = slices * self.turns
        tiles = -(-product.M // (cm * tm)) * -(-product.N // (cn * tn)) * product.L * parts
        waves = -(-tiles // AT_ONCE[cm * cn])
        step, columns = STEP[self.dtype], product.K // slices
        each = -(-columns // (step * self.steps * self.turns)) * self.steps
        steps, some = waves * each, tiles / AT_ONCE[cm * cn] * each
        line, sector = columns % step != 0, columns % (step // SECTORS) != 0
        elements = product.L * product.M * product.N
        found = (
            *(1, waves, steps, some),
            *(line * steps, line * some, sector * steps, sector * some),
            128 / step * product.L * (product.M + product.N) * product.K,
            product.work,
            product.work * product.warm,
            elements * parts,
        )
        return tuple(map(float, found))

    def expected_seconds(self, product: Product, slices: int) -> float:
        """Seconds."""
        terms = zip(self.features(product, slices), self.seconds, strict=True)
        return sum(count * seconds for count, seconds in terms)


def warm(work: float) -> float:
    """Returns the extent, from 0 to 1, to which the power limit has lowered the clock after so many
    operations of TF32: none in the first millisecond, and no more after some ten."""
    return min(1.0, max(0.0, log10(work / COLD))) if work else 0.0


@dataclass(frozen=True, slots=True)
class Choice:
    """A kernel, and in how many slices K goes to it; 0 where it takes K whole."""

    name: str
    slices: int


@lru_cache(maxsize=4096)
def fastest(product: Product, gpu: str = "") -> Choice:
    """The kernel that should be the fastest on a GPU of that name.

    >>> fastest(Product(1, 8192, 8192, 8192)).slices
    0
    """
    return among(product, shipped(gpu))


def among(product: Product, variants: Mapping[str, Variant]) -> Choice:
    """The one of these kernels that should be the fastest."""
    ways = [
        (variant.expected_seconds(product, slices), variant, slices)
        for variant in variants.values()
        if variant.dtype == product.dtype
        for slices in variant.slices(product)
    ]
    least = min(seconds for seconds, _, _ in ways)
    # Of what the models cannot tell apart what needs less power, where that is what limits: results
    # that TMA stores.
    alike = ALIKE if product.warm else 1.0
    frugal = [way for way in ways if way[1].bulk and way[0] <= alike * least]
    _, variant, slices = min(frugal or ways, key=lambda way: way[0])
    return Choice(variant.name, slices if variant.split else 0)


@cache
def measured() -> Mapping[str, Mapping[str, Variant]]:
    """The kernels of `times.json` by name, by what the names of the GPUs begin with; the first one
    stands for those that were not measured."""
    read = json.loads(TIMES.read_text())
    return {
        gpu: {name: variant(name, read["kernels"][name], each) for name, each in seconds.items()}
        for gpu, seconds in read["seconds"].items()
    }


def shipped(gpu: str = "") -> Mapping[str, Variant]:
    """The kernels with their seconds on a GPU of that name."""
    first = next(iter(measured()))
    return measured()[next((known for known in measured() if gpu.startswith(known)), first)]


def variant(name: str, read: Mapping[str, Any], seconds: Iterable[float]) -> Variant:
    """A kernel as `times.json` has it."""
    (cm, cn), (tm, tn) = read["cluster"], read["tile"]
    split, bulk, dtype = bool(read["split"]), bool(read.get("bulk")), read.get("dtype", "f32")
    found = Variant(name, (cm, cn), (tm, tn), split, read["steps"], tuple(seconds), dtype, bulk)
    return replace(found, turns=read.get("turns", 1))


# Records the fastest kernel for a product, as measured on a GPU: a table of the user's.
#
# `exogpu tune` writes it, and `exogpu.kernels.gemm` and `gemv` look into it first.

Table = Mapping[str, Mapping[str, tuple[str, int]]]
"""By the name of the GPU, then by `key`: a kernel, and in how many slices K goes to it."""

FILE: Final = "tuned.json"


def file() -> Path:
    """`exogpu/tuned.json` in the user's cache directory."""
    from platformdirs import user_cache_path

    return user_cache_path("exogpu") / FILE


def key(product: Product) -> str:
    """The sizes and the type.  N is 0 for a matrix times a vector.

    >>> key(Product(1, 512, 1024, 64, "bf16"))
    '1 512 1024 64 bf16'
    """
    return f"{product.L} {product.M} {product.N} {product.K} {product.dtype}"


@cache
def table() -> Table:
    """Reads the measurements; empty if the file is missing, or is not one of these."""
    try:
        read = json.loads(file().read_text(encoding="utf-8"))
        return {
            gpu: {sizes: (str(name), int(slices)) for sizes, (name, slices) in chosen.items()}
            for gpu, chosen in read.items()
        }
    except (OSError, ValueError, AttributeError, TypeError):
        return {}


def current_gpu() -> str:
    """The name of the current GPU; none where there is no GPU."""
    try:
        return driver.gpus()[driver.current_device()].name
    except LaunchError:
        return ""


def choice(product: Product) -> Choice | None:
    """The kernel that was measured to be the fastest on the current GPU; None where none was."""
    if not table():
        return None
    name, slices = table().get(current_gpu(), {}).get(key(product), ("", 0))
    return found if _takes(found := Choice(name, slices), product) else None


def _takes(choice: Choice, product: Product) -> bool:
    """Tests whether a kernel of that name ships, and takes the product so: tables outlive
    kernels."""
    if not product.N:
        return choice.name in GEMV
    variant = shipped().get(choice.name)
    if variant is None or variant.dtype != product.dtype or variant.split != bool(choice.slices):
        return False
    return (choice.slices or 1) in variant.slices(product)


def keep(gpu: str, product: Product, fastest: Choice) -> None:
    """Write down the fastest kernel for a product, beside what is known.  Raises OSError."""
    table.cache_clear()
    known = {name: dict(chosen) for name, chosen in table().items()}
    known.setdefault(gpu, {})[key(product)] = fastest.name, fastest.slices
    target = file()
    target.parent.mkdir(parents=True, exist_ok=True)
    scratch = target.with_suffix(f".{os.getpid()}")
    scratch.write_text(json.dumps(known, indent=1, sort_keys=True) + "\n", encoding="utf-8")
    scratch.replace(target)
    table.cache_clear()
    repeated_calls.forget()
