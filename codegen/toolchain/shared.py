"""Shared objects of a procedure's C function, by nvcc and the host compiler that it calls."""

from __future__ import annotations

import os
import shutil
import subprocess
import tempfile
from collections.abc import Mapping
from pathlib import Path
from typing import Final

from exogpu.codegen.toolchain.cache import cache_folder, entry, load, store
from exogpu.codegen.toolchain.compile import FLAGS
from exogpu.codegen.toolchain.errors import INSTALL, CompileError
from exogpu.codegen.toolchain.find import find_nvcc
from exogpu.codegen.toolchain.nvcc import run_tool

LIBRARY_FLAGS: Final = (*FLAGS, "-shared", "-Xcompiler", "-fPIC,-ffp-contract=off")
"""The CUDA runtime is linked statically, by nvcc's default; the driver is not linked."""

INSTALL_HOST: Final = "install g++ (apt install g++), or name a host compiler in NVCC_CCBIN"


def compile_shared(
    main: str, texts: Mapping[str, str], arch: str, folder: Path | None = None
) -> bytes:
    """The shared object of the text `main`, which includes the others by their names.

    It comes from the cache if it was compiled before.  Raises CompileError where there is no nvcc
    (NVRTC alone does not do) or no host compiler, and with their text where they refuse.
    """
    nvcc = find_nvcc()
    if nvcc is None:
        what = "a shared object needs nvcc, and there is none on this machine"
        raise CompileError(what, INSTALL)
    named = (part for item in texts.items() for part in item)
    made_by = (nvcc.build, _host_compiler(), arch, *LIBRARY_FLAGS)
    path = entry(folder or cache_folder(), ("shared object", *made_by, main, *named))
    parts = load(path)
    if parts is None:
        parts = {"so": _compile(nvcc.nvcc, main, texts, arch)}
        store(path, parts)
    return parts["so"]


def _host_compiler() -> str:
    """Returns the identity of the host compiler. Raises CompileError where there is none."""
    if chosen := os.environ.get("NVCC_CCBIN"):
        return chosen
    found = shutil.which("gcc")
    if found is None:
        what = "a shared object needs a host C++ compiler, and there is none on this machine"
        raise CompileError(what, INSTALL_HOST)
    done = subprocess.run([found, "--version"], capture_output=True, text=True, check=False)
    return done.stdout


def _compile(nvcc: Path, main: str, texts: Mapping[str, str], arch: str) -> bytes:
    target = f"-gencode=arch={arch.replace('sm_', 'compute_')},code={arch}"
    with tempfile.TemporaryDirectory() as scratch:
        folder = Path(scratch)
        for name, text in texts.items():
            (folder / name).write_text(text)
        try:
            run_tool(nvcc, [*LIBRARY_FLAGS, target, "-o", "library.so", main], folder)
        except CompileError as error:
            what = f"nvcc made no shared object for {arch}:\n{error.problem}"
            raise CompileError(
                what, f"choose an architecture that it knows, or {INSTALL_HOST}"
            ) from None
        return (folder / "library.so").read_bytes()
