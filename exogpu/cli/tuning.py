"""`exogpu tune`: the kernels of a product on this GPU, by their measured times."""

from __future__ import annotations

import re
from collections.abc import Sequence

from rich.table import Table
from rich.text import Text

from exogpu.cli.render import console, shown_path
from exogpu.cli.stopping import wrong
from exogpu.codegen.runtime import LaunchError, driver
from exogpu.codegen.toolchain import CompileError
from exogpu.kernels import calls, tuned
from exogpu.kernels.choice import Choice, Product, fastest
from exogpu.kernels.tuning import RUNS, Timed, tune, work
from exogpu.result.errors import ExoGpuError

FORMS = {"gemm": "LxMxNxK or MxNxK", "gemv": "MxK"}
"""Of sizes, by what is called."""


TYPES = {"gemm": ("f32", "bf16", "f16"), "gemv": ("f32",)}


def check_call(target: str, dtype: str) -> None:
    """Raises ExoGpuError for a product or type that no kernel has."""
    if target not in FORMS:
        raise ExoGpuError([wrong("X964", f"there is no product {target}", "give gemm or gemv")])
    if dtype not in TYPES[target]:
        types = ", ".join(TYPES[target])
        raise ExoGpuError([wrong("X964", f"there is no {target} of {dtype}", f"it is of {types}")])


def product(target: str, sizes: str, dtype: str) -> Product:
    """Sizes as they are written.  Raises ExoGpuError for what is none.

    >>> product("gemm", "4096x2048x1024", "bf16")
    Product(L=1, M=4096, N=2048, K=1024, dtype='bf16')
    >>> product("gemv", "128x65536", "f32").K
    65536
    """
    numbers = [int(n) for n in sizes.split("x")] if re.fullmatch(r"\d+(x\d+)*", sizes) else []
    if not all(0 < n < 1 << 31 for n in numbers):
        numbers = []
    match target, numbers:
        case "gemm", [*batch, m, n, k] if len(batch) < 2:
            found = Product(batch[0] if batch else 1, m, n, k, dtype)
        case "gemv", [m, k]:
            found = Product(1, m, 0, k, dtype)
        case _:
            said = f"{sizes!r} are no sizes of a {target}"
            raise ExoGpuError([wrong("X964", said, f"write them as {FORMS[target]}")])
    chunk = 4 if dtype == "f32" else 8
    if found.K % chunk:
        said = f"K is {found.K}: rows of {found.dtype} that are no multiple of 16 bytes"
        raise ExoGpuError([wrong("X964", said, f"take a multiple of {chunk}")])
    return found


def tell(target: str, sizes: Sequence[str], dtype: str, runs: int = RUNS) -> None:
    """Times the kernels for each of the sizes, prints and keeps what is found.  Raises ExoGpuError,
    OSError."""
    check_call(target, dtype)
    products = [product(target, one, dtype) for one in sizes]
    for one in products:
        try:
            gpu = driver.gpus()[driver.current_device()].name
            with console(stderr=True).status("") as status:
                times = tune(one, runs, status.update)
        except (LaunchError, CompileError) as error:
            raise ExoGpuError([wrong("X965", error.problem, error.remedy)]) from None
        tuned.keep(gpu, one, times[0].choice)
        console().print(draw(one, gpu, times))
    said = f"kept in {shown_path(str(tuned.file()))}: exogpu.kernels.{target} looks there first\n"
    console().print(Text(said), end="")


def draw(product: Product, gpu: str, times: Sequence[Timed]) -> Table:
    """A line a kernel; the one that would have been taken untuned is marked."""
    count, unit = work(product)
    untuned = (
        fastest(product, gpu) if product.N else Choice(calls.of_vector(product.M, product.K), 0)
    )
    title = " x ".join(str(n) for n in (product.L, product.M, product.N, product.K) if n)
    found = Table(title=f"{title} {product.dtype}, {gpu}", title_justify="left", box=None)
    for name in ("kernel", "slices of K", "us", unit, ""):
        found.add_column(name, justify="left" if name in ("kernel", "") else "right")
    for one in times:
        found.add_row(
            one.choice.name,
            str(one.choice.slices or ""),
            f"{one.seconds * 1e6:.1f}",
            f"{count / one.seconds / 1e12:.4g}",
            "taken untuned" if one.choice == untuned else "",
        )
    return found
