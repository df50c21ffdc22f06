"""`exogpu tune FILE.py::MAKER`: the configurations of a maker, by their times on this GPU."""

from __future__ import annotations

import json
import re
from collections.abc import Callable, Iterable, Mapping, Sequence
from pathlib import Path

from rich.table import Table
from rich.text import Text

from exogpu.api import Procedure
from exogpu.cli import exit_handler as handler
from exogpu.cli.check_command import parse_sizes
from exogpu.cli.loader import load_modules
from exogpu.codegen.runtime import LaunchError, driver
from exogpu.codegen.toolchain import CompileError
from exogpu.diagnostics.errors import ExoGpuError
from exogpu.kernels.configurations import Maker, Outcome, Value, tune_maker
from exogpu.report.render_verdict import console


def tell(
    target: str, sizes: Sequence[str], grid: Iterable[str], runs: int, output: Path | None
) -> None:
    """Times the configurations, prints them, and writes the fastest.

    Raises ExoGpuError and OSError.
    """
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
