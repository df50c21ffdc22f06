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
    """Comments."""
    source: str
    arch: str
    helpers: tuple[str, ...]
    kernels: tuple[KernelText, ...]


@dataclass(frozen=True, slots=True)
class ContractText:
    """An assumption of the proof about an array."""

    text: str
    kind: str
    array: str
    extents: str
    least: str
    """The least element that it is about."""


@dataclass(frozen=True, slots=True)
class HeaderText:
    """The C declaration of a host function."""

    name: str
    parameters: tuple[str, ...]
    sizes: tuple[str, ...]
    """The control parameters."""
    conditions: tuple[str, ...]
    """The conditions on the sizes, as C."""
    arrays: tuple[str, ...]
    """The array behind each pointer, in words."""
    contracts: tuple[ContractText, ...] = ()


@dataclass(frozen=True, slots=True)
class HostText:
    """The file of a host function."""

    header: HeaderText
    helpers: tuple[str, ...]
    aligned: tuple[str, ...]
    """Pointers to device memory."""
    body: tuple[str, ...]
    maps: bool
    """It makes tensor maps."""
    copies: bool
    """True if the stream copies host memory of its own."""


def render_header(header: HeaderText) -> str:
    """The text of `<name>.h`."""
    return _environment().get_template("header.h.j2").render(header=header)


def render_host(host: HostText) -> str:
    """The text of `<name>_host.cu`."""
    return _environment().get_template("host.cu.j2").render(host=host, header=host.header)


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
