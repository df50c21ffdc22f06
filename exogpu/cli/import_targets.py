"""Targets that others compile: `.ttgir` files, and kernels of Triton with their arguments."""

from __future__ import annotations

from collections.abc import Iterator
from dataclasses import dataclass
from pathlib import Path

from exogpu.cli.files import Unit
from exogpu.diagnostics.errors import NOWHERE, Span
from exogpu.imported import ImportedKernel, UnimportedKernel, from_file, from_source


@dataclass(frozen=True, slots=True)
class Launch:
    """The launch of a Triton kernel, as far as its compiler needs it."""

    arguments: str | None = None
    num_warps: int | None = None
    num_stages: int | None = None
    arch: str = "sm_90"

    @property
    def capability(self) -> int:
        """`90`"""
        digits = "".join(char for char in self.arch if char.isdigit())
        return int(digits) if digits else 90


def is_import(target: str, launch: Launch) -> bool:
    """Returns whether a target is a kernel that another compiler compiles."""
    path = Path(target.partition("::")[0])
    if path.suffix == ".ttgir" or launch.arguments is not None:
        return True
    return path.is_dir() and not any(path.rglob("*.py")) and any(path.rglob("*.ttgir"))


def units_of(target: str, launch: Launch) -> Iterator[Unit]:
    """The kernels of a target."""
    file, _, name = target.partition("::")
    path = Path(file)
    if path.suffix == ".py":
        kernels = from_source(
            path,
            name,
            launch.arguments or "",
            num_warps=launch.num_warps,
            num_stages=launch.num_stages,
            arch=launch.capability,
        )
        yield from (_unit(kernel) for kernel in kernels)
        return
    for one in sorted(path.rglob("*.ttgir")) if path.is_dir() else [path]:
        yield _unit(from_file(one))


def _unit(kernel: ImportedKernel | UnimportedKernel) -> Unit:
    return Unit(kernel.name, _span(kernel), kernel, ())


def _span(kernel: ImportedKernel | UnimportedKernel) -> Span:
    if isinstance(kernel, UnimportedKernel):
        return kernel.reason.span
    return NOWHERE if kernel.ir is None else kernel.ir.span
