"""Compilation of CUDA C++ to cubins, with a cache that is addressed by content."""

from __future__ import annotations

import hashlib
import os
import shutil
import subprocess
import sysconfig
import tempfile
from dataclasses import dataclass
from functools import cache
from pathlib import Path

FLAGS = ("-std=c++17", "-O3", "-lineinfo", "-diag-suppress=177")


@dataclass(frozen=True, slots=True)
class Toolchain:
    """An nvcc and its version."""

    nvcc: Path
    version: str


@dataclass(frozen=True, slots=True)
class Compiled:
    """A cubin, and what ptxas said about registers and spills."""

    cubin: bytes
    log: str


class CompileError(Exception):
    """nvcc refused emitted code; the message is what it printed."""


@cache
def find_toolchain() -> Toolchain | None:
    """The nvcc of the PyPI wheels if they are installed, else that of the system."""
    site = Path(sysconfig.get_path("purelib"))
    wheels = sorted(site.glob("nvidia/cu*/bin/nvcc")) + sorted(site.glob("nvidia/*/bin/nvcc"))
    system = shutil.which("nvcc") or shutil.which("nvcc", path="/usr/local/cuda/bin")
    for nvcc in (*wheels, *([Path(system)] if system else [])):
        done = subprocess.run([nvcc, "--version"], capture_output=True, text=True, check=False)
        if done.returncode == 0:
            return Toolchain(nvcc, done.stdout.strip().splitlines()[-1])
    return None


def gencode(arch: str) -> str:
    """`sm_90a` -> `arch=compute_90a,code=sm_90a`"""
    return f"arch={arch.replace('sm_', 'compute_')},code={arch}"


def compile_cubin(source: str, arch: str, toolchain: Toolchain) -> Compiled:
    """The cubin of a `.cu` text, from the cache if it was compiled before.

    Raises CompileError with nvcc's output.
    """
    key = hashlib.sha256("\0".join((toolchain.version, arch, *FLAGS, source)).encode()).hexdigest()
    folder = cache_folder()
    cubin, log = folder / f"{key}.cubin", folder / f"{key}.log"
    if cubin.exists() and log.exists():
        return Compiled(cubin.read_bytes(), log.read_text())
    with tempfile.TemporaryDirectory(dir=folder) as scratch:
        text, made = Path(scratch, "kernel.cu"), Path(scratch, "kernel.cubin")
        text.write_text(source)
        command = [
            str(toolchain.nvcc),
            *FLAGS,
            "-gencode",
            gencode(arch),
            "-cubin",
            "-Xptxas=-v",
            "-o",
            str(made),
            str(text),
        ]
        done = subprocess.run(command, capture_output=True, text=True, check=False)
        output = (done.stdout + done.stderr).replace(scratch, "")
        if done.returncode != 0:
            raise CompileError(output)
        Path(scratch, "log").write_text(output)
        found = Compiled(made.read_bytes(), output)
        # A rename is atomic; the log comes first, so that a cubin in the cache has one.
        os.replace(Path(scratch, "log"), log)
        os.replace(made, cubin)
    return found


def cache_folder() -> Path:
    """`exogpu` in the user's cache directory, made if need be."""
    base = os.environ.get("XDG_CACHE_HOME") or str(Path.home() / ".cache")
    folder = Path(base, "exogpu", "cubin")
    folder.mkdir(parents=True, exist_ok=True)
    return folder
