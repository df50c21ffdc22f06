"""`exogpu tune FILE.py::MAKER`: the configurations of a maker, by their times on this GPU."""

from __future__ import annotations

import json
import re
from collections.abc import Callable, Iterable, Mapping, Sequence
from pathlib import Path
from typing import TYPE_CHECKING, Annotated

import typer
from rich.table import Table
from rich.text import Text

from exogpu.cli import exit_handler as handler
from exogpu.diagnostics.errors import ExoGpuError
from exogpu.report.render_verdict import console

if TYPE_CHECKING:
    from exogpu.api import Procedure
    from exogpu.kernels.configurations import Maker, Outcome, Value


def tune_command(
    target: Annotated[
        str, typer.Argument(metavar="gemm|gemv|FILE.py::MAKER", help="A product, or a maker.")
    ],
    sizes: Annotated[
        list[str], typer.Argument(metavar="SIZES...", help="MxNxK, LxMxNxK, MxK; or M=512,N=512.")
    ],
    dtype: Annotated[str, typer.Option("--dtype", help="f32 (TF32), bf16 or f16.")] = "f32",
    runs: Annotated[int, typer.Option("--runs", min=4, help="Of each kernel.")] = 20,
    grid: Annotated[
        list[str] | None,
        typer.Option("--grid", help="Values of an argument of the maker: rows=64,128."),
    ] = None,
    output: Annotated[
        Path | None, typer.Option("--json", metavar="FILE", help="Also write what was measured.")
    ] = None,
) -> None:
    """Time kernels on this GPU: those of a product, or each that a function of yours makes.

    The fastest kernel of a product is kept for `exogpu.kernels`.  A maker is a function of FILE.py
    that returns a procedure; each is proved before it is timed.
    """
    from exogpu.cli import gpu_commands

    with handler.writing():
        if "::" in target:
            tell(target, sizes, grid or (), runs, output)
        else:
            gpu_commands.tell(target, sizes, dtype, runs)


def tell(
    target: str, sizes: Sequence[str], grid: Iterable[str], runs: int, output: Path | None
) -> None:
    """Times the configurations, prints them, and writes the fastest.

    Raises ExoGpuError and OSError.
    """
    from exogpu.cli.check_command import parse_sizes
    from exogpu.codegen.runtime import LaunchError, driver
    from exogpu.codegen.toolchain import CompileError
    from exogpu.kernels.configurations import tune_maker

    maker, axes, known = maker_of(target), parse_grid(grid), parse_sizes(sizes)
    try:
        gpu = driver.gpus()[driver.current_device()].name
        with console(stderr=True).status("") as status:
            outcomes = tune_maker(maker, axes, known, runs, status.update)
    except (LaunchError, CompileError) as error:
        raise ExoGpuError([handler.wrong("X965", error.problem, error.remedy)]) from None
    console().print(draw(target, gpu, known, outcomes))
    for one in outcomes:
        if one.seconds is None:
            console().print(Text(f"{one.configuration}: not timed: {one.reason}"))
    if output is not None and outcomes and outcomes[0].seconds is not None:
        output.write_text(json.dumps(record(target, gpu, known, outcomes), indent=1) + "\n")


def maker_of(target: str) -> Maker:
    """The function that FILE.py::NAME names.  Raises ExoGpuError where there is none."""
    from exogpu.api import Procedure
    from exogpu.cli.loader import load_modules

    path, _, name = target.partition("::")
    found = [getattr(module, name, None) for module in load_modules(path)]
    makers = [one for one in found if callable(one) and not isinstance(one, Procedure)]
    if not makers:
        what = f"{path} has no function {name}"
        remedy = "name a function that takes the values of --grid and returns a procedure"
        raise ExoGpuError([handler.wrong("X964", what, remedy)])
    return _procedure_maker(makers[0], name)


def _procedure_maker(maker: Callable[..., object], name: str) -> Maker:
    """The maker, which raises TypeError if what it returns is no procedure."""
    from exogpu.api import Procedure

    def make(**arguments: Value) -> Procedure:
        made = maker(**arguments)
        if not isinstance(made, Procedure):
            raise TypeError(f"{name} returns a {type(made).__name__}, and no procedure")
        return made

    return make


def parse_grid(options: Iterable[str]) -> dict[str, tuple[Value, ...]]:
    """The values of each argument.  Raises ExoGpuError for what is no NAME=VALUE,VALUE.

    >>> parse_grid(["rows=64,128", "dtype=bf16"])
    {'rows': (64, 128), 'dtype': ('bf16',)}
    """
    axes: dict[str, tuple[Value, ...]] = {}
    for option in options:
        name, _, values = option.partition("=")
        if not name.isidentifier() or not values or name in axes:
            what = f"--grid {option!r} is no NAME=VALUE,VALUE of a new name"
            raise ExoGpuError([handler.wrong("X964", what, "write --grid rows=64,128")])
        axes[name] = tuple(map(_value, values.split(",")))
    return axes


def _value(text: str) -> Value:
    return int(text) if re.fullmatch(r"-?\d+", text) else text


def draw(target: str, gpu: str, sizes: Mapping[str, int], outcomes: Sequence[Outcome]) -> Table:
    """A line a configuration that was timed, the fastest first."""
    at = ", ".join(f"{name}={value}" for name, value in sizes.items())
    table = Table(title=f"{target} at {at}, {gpu}", title_justify="left", box=None)
    for name in ("configuration", "us", "times the fastest", "registers", "spilled bytes"):
        table.add_column(name, justify="left" if name == "configuration" else "right")
    timed = [one for one in outcomes if one.seconds is not None]
    for one in timed:
        seconds, best = one.seconds or 0.0, timed[0].seconds or 1.0
        table.add_row(
            str(one.configuration),
            f"{seconds * 1e6:.1f}",
            f"{seconds / best:.2f}",
            str(one.registers),
            str(one.spilled),
        )
    return table


def record(
    target: str, gpu: str, sizes: Mapping[str, int], outcomes: Sequence[Outcome]
) -> dict[str, object]:
    """The content of the file: the arguments of the fastest, and the seconds of each."""
    return {
        "target": target,
        "gpu": gpu,
        "sizes": dict(sizes),
        "fastest": dict(outcomes[0].configuration.arguments),
        "seconds": {str(one.configuration): one.seconds for one in outcomes},
    }
