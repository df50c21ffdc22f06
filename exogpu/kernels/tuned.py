"""Records the fastest kernel for a product, as measured on a GPU: a table of the user's.

`exogpu tune` writes it, and `exogpu.kernels.gemm` and `gemv` look into it first.
"""

from __future__ import annotations

import json
import os
from collections.abc import Mapping
from functools import cache
from pathlib import Path
from typing import Final

from exogpu.codegen.runtime import driver
from exogpu.codegen.runtime.errors import LaunchError
from exogpu.kernels.choice import GEMV, Choice, Product, shipped

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
