"""The view model of an emitted file, and its text."""

from __future__ import annotations

from dataclasses import dataclass
from functools import cache

from jinja2 import Environment, PackageLoader, StrictUndefined


@dataclass(frozen=True, slots=True)
class KernelText:
    """One `__global__` function."""

    name: str
    cluster_dim: int
    bounds: str
    parameters: tuple[str, ...]
    body: tuple[str, ...]


@dataclass(frozen=True, slots=True)
class UnitText:
    """One `.cu` file."""

    title: str
    doc: tuple[str, ...]
    source: str
    arch: str
    helpers: tuple[str, ...]
    kernels: tuple[KernelText, ...]


def render(unit: UnitText) -> str:
    """The file's text."""
    return _environment().get_template("kernel.cu.j2").render(unit=unit)


@cache
def _environment() -> Environment:
    return Environment(
        loader=PackageLoader("exogpu.codegen"),
        undefined=StrictUndefined,
        autoescape=False,
        keep_trailing_newline=True,
    )
