"""Targets that others compile: `.ttgir` files, and kernels of Triton with their arguments."""

from __future__ import annotations

import ast
from collections.abc import Iterator
from dataclasses import dataclass
from pathlib import Path

from exogpu.cli.files import Unit
from exogpu.diagnostics.errors import NOWHERE, Diagnostic, Span
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
    if path.suffix == ".py":
        return bool(_of_triton(target))
    return path.is_dir() and not any(path.rglob("*.py")) and any(path.rglob("*.ttgir"))


def units_of(target: str, launch: Launch) -> Iterator[Unit]:
    """The kernels of a target."""
    file, _, name = target.partition("::")
    path = Path(file)
    if path.suffix == ".py" and launch.arguments is None and (found := _of_triton(target)):
        yield from (_without_arguments(path, one) for one in found)
        return
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


def _of_triton(target: str) -> tuple[ast.FunctionDef, ...]:
    """Kernels of Triton or Gluon in a Python file: the one that is named; without a name all, where
    the file imports nothing of exogpu."""
    file, _, name = target.partition("::")
    try:
        body = ast.parse(Path(file).read_bytes()).body
    except (OSError, SyntaxError, ValueError):
        return ()
    if not name and any("exogpu" in ast.unparse(one) for one in body if _imports(one)):
        return ()
    jitted = ("triton.jit", "gluon.jit")
    return tuple(
        one
        for one in body
        if isinstance(one, ast.FunctionDef)
        and name in ("", one.name)
        and any(ast.unparse(decorator).startswith(jitted) for decorator in one.decorator_list)
    )


def _imports(statement: ast.stmt) -> bool:
    return isinstance(statement, ast.Import | ast.ImportFrom)


def _without_arguments(path: Path, kernel: ast.FunctionDef) -> Unit:
    """The kernel as one that was not imported, since a launch has arguments."""
    names = ", ".join(one.arg for one in kernel.args.args)
    reason = Diagnostic(
        "K109",
        f"{kernel.name} is a kernel of Triton, which is compiled for arguments: {names}",
        Span(str(path), kernel.lineno, 1, kernel.lineno, 1),
        f'give a launch: exogpu check {path}::{kernel.name} --args "fp16[2048, 2048], ..."',
    )
    return _unit(UnimportedKernel(kernel.name, reason))


def _unit(kernel: ImportedKernel | UnimportedKernel) -> Unit:
    return Unit(kernel.name, _span(kernel), kernel, ())


def _span(kernel: ImportedKernel | UnimportedKernel) -> Span:
    if isinstance(kernel, UnimportedKernel):
        return kernel.reason.span
    return NOWHERE if kernel.ir is None else kernel.ir.span
