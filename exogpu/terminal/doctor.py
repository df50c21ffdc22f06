"""What this installation of exogpu consists of, and what it lacks."""

from __future__ import annotations

import importlib
import platform
import shutil
import subprocess
import sys
from dataclasses import dataclass
from importlib import metadata
from typing import Final


@dataclass(frozen=True, slots=True)
class Finding:
    """One line of the doctor: a part, its version or what is wrong, and the command that repairs
    it; `needed` tells parts that exogpu cannot do without."""

    part: str
    state: str
    repair: str = ""
    needed: bool = True


PACKAGES: Final = (
    ("islpy", "exogpu.solvers.isl"),
    ("z3-solver", "exogpu.solvers.smt"),
    ("numpy", "numpy"),
    ("jinja2", "jinja2"),
    ("sympy", "sympy"),
    ("typer", "typer"),
    ("rich", "rich"),
    ("pygments", "pygments"),
)
"""What exogpu cannot do without: the distribution, and the module whose import shows it works."""


def examine() -> list[Finding]:
    """The findings, those that exogpu needs first."""
    return [_python(), _exogpu(), *(_package(*names) for names in PACKAGES), _plot(), _nvcc()]


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


def _plot() -> Finding:
    try:
        return Finding("matplotlib", metadata.version("matplotlib"), needed=False)
    except metadata.PackageNotFoundError:
        repair = "pip install 'exogpu[plot]'"
        return Finding("matplotlib", "not installed (only for plots)", repair, needed=False)


def _nvcc() -> Finding:
    path = shutil.which("nvcc")
    if path is None:
        return Finding("nvcc", "not installed (checking needs no CUDA)", needed=False)
    done = subprocess.run([path, "--version"], capture_output=True, text=True, check=False)
    words = [line for line in done.stdout.splitlines() if "release" in line]
    return Finding("nvcc", words[0].strip() if words else path, needed=False)
