"""Finds NVIDIA's tools: the wheels of the extra `cuda` first, a system toolkit second."""

from __future__ import annotations

import ctypes
import importlib.util
import os
import shutil
import subprocess
from collections.abc import Iterator
from dataclasses import dataclass
from functools import cache
from pathlib import Path
from typing import TypeAlias


@dataclass(frozen=True, slots=True)
class Nvrtc:
    """NVIDIA's runtime compiler, a library: it needs neither headers nor a host compiler."""

    library: Path
    version: str
    build: str
    """Tells builds of one version apart."""


@dataclass(frozen=True, slots=True)
class Nvcc:
    """nvcc, which makes PTX with the help of a host compiler, and ptxas."""

    nvcc: Path
    ptxas: Path
    version: str
    build: str


Toolchain: TypeAlias = Nvrtc | Nvcc


@cache
def find_toolchain() -> Toolchain | None:
    """The first of: NVRTC and nvcc of the wheels, NVRTC and nvcc of a system toolkit."""
    for folders in (wheel_folders(), system_folders()):
        for folder in folders:
            found = nvrtc_in(folder) or nvcc_in(folder)
            if found is not None:
                return found
    return None


@cache
def find_nvcc() -> Nvcc | None:
    """The first nvcc of the wheels and of a system toolkit: NVRTC links nothing."""
    return next(filter(None, map(nvcc_in, (*wheel_folders(), *system_folders()))), None)


@cache
def find_program(name: str) -> Path | None:
    """A program of the toolkit, such as `nvdisasm`."""
    for folder in (*wheel_folders(), *system_folders()):
        if os.access(program := folder / "bin" / name, os.X_OK):
            return program
    return None


def nvrtc_in(folder: Path) -> Nvrtc | None:
    """The NVRTC below a toolkit's folder, if it can be loaded."""
    for library in _libraries(folder):
        try:
            major, minor = ctypes.c_int(), ctypes.c_int()
            ctypes.CDLL(str(library)).nvrtcVersion(ctypes.byref(major), ctypes.byref(minor))
        except (OSError, AttributeError):
            continue
        # The library does not tell its patch version; two of them differ in size.
        size = library.stat().st_size
        return Nvrtc(library, f"NVRTC {major.value}.{minor.value}", f"{size} bytes")
    return None


def _libraries(folder: Path) -> Iterator[Path]:
    for place in ("lib", "lib64"):
        yield from sorted((folder / place).glob("libnvrtc.so*"), reverse=True)


def nvcc_in(folder: Path) -> Nvcc | None:
    """The nvcc below a toolkit's folder, if it runs and has a ptxas beside it."""
    nvcc, ptxas = folder / "bin" / "nvcc", folder / "bin" / "ptxas"
    if not (os.access(nvcc, os.X_OK) and os.access(ptxas, os.X_OK)):
        return None
    try:
        done = subprocess.run([nvcc, "--version"], capture_output=True, text=True, check=False)
    except OSError:
        return None
    if done.returncode != 0:
        return None
    release = done.stdout.rpartition("release ")[2].partition(",")[0]
    return Nvcc(nvcc, ptxas, f"nvcc {release}", done.stdout.strip())


@cache
def wheel_folders() -> tuple[Path, ...]:
    """`site-packages/nvidia/cu13` and the like, the newest first."""
    spec = importlib.util.find_spec("nvidia")
    places = (spec.submodule_search_locations if spec else None) or ()
    found = [folder for place in places for folder in Path(place).glob("cu*")]
    return tuple(sorted(found, key=lambda f: (f.name[2:].isdigit(), f.name), reverse=True))


@cache
def system_folders() -> tuple[Path, ...]:
    """The toolkits that CUDA_HOME, CUDA_PATH and the PATH name, and the usual place."""
    found = [Path(os.environ[n]) for n in ("CUDA_HOME", "CUDA_PATH") if os.environ.get(n)]
    if (nvcc := shutil.which("nvcc")) is not None:
        found.append(Path(nvcc).parent.parent)
    found.append(Path("/usr/local/cuda"))
    return tuple(dict.fromkeys(found))
