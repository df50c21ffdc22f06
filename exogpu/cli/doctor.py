"""Lists the parts of this installation of exogpu, and those that are missing."""

from __future__ import annotations

import importlib
import platform
import sys
from collections.abc import Iterable, Iterator
from contextlib import suppress
from dataclasses import dataclass
from importlib import metadata
from typing import Final

from rich.text import Text

from exogpu.codegen.runtime import LaunchError, driver
from exogpu.codegen.toolchain import find
from exogpu.codegen.toolchain.compilers import INSTALL, cache_folder


@dataclass(frozen=True, slots=True)
class Finding:
    """One line of the doctor: a part, its version or what is wrong, and the command that repairs
    it; `needed` tells parts that exogpu cannot do without."""

    part: str
    state: str
    repair: str = ""
    needed: bool = True
    found: bool = True
    """The part is there; for parts that are not needed."""


PACKAGES: Final = (
    ("islpy", "exogpu.solvers.isl"),
    ("z3-solver", "exogpu.solvers.smt"),
    ("numpy", "numpy"),
    ("platformdirs", "platformdirs"),
    ("jinja2", "jinja2"),
    ("sympy", "sympy"),
    ("typer", "typer"),
    ("rich", "rich"),
    ("pygments", "pygments"),
)
"""The distributions that exogpu needs, and the module whose import shows that each works."""


def examine() -> list[Finding]:
    """The findings, those that exogpu needs first."""
    packages = (_package(*names) for names in PACKAGES)
    extras = (_extra("matplotlib", "plot", "plots"), _extra("pygls", "lsp", "the language server"))
    return [_python(), _exogpu(), *packages, *extras, *_verdicts(), *_cuda()]


def _python() -> Finding:
    state = f"{platform.python_version()} ({sys.executable})"
    repair = "" if sys.version_info >= (3, 11) else "install Python 3.11 or newer"
    return Finding("python", state, repair)


def exogpu_version() -> str:
    """The installed version, or `unknown` where exogpu runs from a folder that is not installed."""
    try:
        return metadata.version("exogpu")
    except metadata.PackageNotFoundError:
        return "unknown"


def _exogpu() -> Finding:
    version = exogpu_version()
    if version == "unknown":
        return Finding("exogpu", "not installed: used from its folder", "pip install -e .", False)
    return Finding("exogpu", version)


def _package(distribution: str, module: str) -> Finding:
    repair = f"pip install --force-reinstall {distribution}"
    try:
        version = metadata.version(distribution)
    except metadata.PackageNotFoundError:
        return Finding(distribution, "missing", f"pip install {distribution}")
    try:
        importlib.import_module(module)
    except ModuleNotFoundError as error:
        if error.name is not None and error.name.startswith("exogpu"):
            return Finding(distribution, version)
        return Finding(distribution, f"{version}, broken: {error}", repair)
    except Exception as error:  # a broken shared library raises whatever it likes
        return Finding(distribution, f"{version}, broken: {error}", repair)
    return Finding(distribution, version)


def _extra(distribution: str, extra: str, purpose: str) -> Finding:
    """Looks for a distribution that only some use needs."""
    try:
        return Finding(distribution, metadata.version(distribution), needed=False)
    except metadata.PackageNotFoundError:
        repair = f"pip install 'exogpu[{extra}]'"
        state = f"not installed (only for {purpose})"
        return Finding(distribution, state, repair, needed=False, found=False)


# --- CUDA: only compiling and running kernels need it ---------------------------------------


def _cuda() -> Iterator[Finding]:
    """The tools of the extra `cuda`, the driver, the GPUs, and where compiled kernels are kept."""
    folders = (*find.wheel_folders(), *find.system_folders())
    nvrtc = next(filter(None, map(find.nvrtc_in, folders)), None)
    nvcc = next(filter(None, map(find.nvcc_in, folders)), None)
    compiles = bool(nvrtc or nvcc)
    yield _tool("NVRTC", nvrtc and f"{nvrtc.version} ({nvrtc.library})", compiles)
    yield _tool("nvcc", nvcc and f"{nvcc.version} ({nvcc.nvcc})", compiles)
    yield _tool("ptxas", find.find_program("ptxas"), compiles)
    disassemblers = {name: find.find_program(name) for name in ("nvdisasm", "cuobjdump")}
    for name, path in disassemblers.items():
        yield _tool(name, path, any(disassemblers.values()))
    yield from _gpus()
    with suppress(ModuleNotFoundError):  # then platformdirs is a finding already
        yield Finding("cache", str(cache_folder()), needed=False)


def _verdicts() -> Iterator[Finding]:
    """Yields the place of the verdict cache, and its size."""
    with suppress(ModuleNotFoundError):
        from exogpu.diagnostics import disk_cache
        from exogpu.pipeline import verdict_cache

        count, size = disk_cache.size(verdict_cache.SUFFIX)
        state = f"{disk_cache.folder()} ({count:,} verdicts, {size / 1e6:.1f} MB)"
        yield Finding("verdicts", state, needed=False)


def _tool(part: str, found: object, replaced: bool) -> Finding:
    """A tool, and how to get it where neither it nor another that does the same is there."""
    if found:
        return Finding(part, str(found), needed=False)
    state = "not installed, and not needed beside the others" if replaced else "not installed"
    return Finding(part, state, "" if replaced else INSTALL, needed=False, found=False)


def _gpus() -> Iterator[Finding]:
    try:
        found = driver.gpus()
    except LaunchError as error:
        state = f"{error.problem}: kernels can be compiled, and not run"
        yield Finding("GPU", state, error.remedy, needed=False, found=False)
        return
    major, minor = divmod(driver.version(), 1000)
    yield Finding("driver", f"for CUDA {major}.{minor // 10}", needed=False)
    for gpu in found:
        major, minor = gpu.capability
        yield Finding("GPU", f"{gpu.ordinal}: {gpu.name}, sm_{major}{minor}", needed=False)


def draw_findings(findings: Iterable[Finding]) -> Text:
    """Draws the doctor's findings, a line a part, and the command that repairs it."""
    text = Text()
    for finding in findings:
        mark = ("ok", "green") if finding.found else ("absent", "dim")
        if finding.repair and finding.needed:
            mark = ("missing", "red")
        text.append(Text.assemble((f"{mark[0]:>8}", mark[1]), f"  {finding.part:<12} "))
        text.append(f"{finding.state}\n")
        if finding.repair:
            text.append(f"{'':>10}{finding.repair}\n", "bold")
    return text
