"""Compilation by nvcc and ptxas, in processes of their own."""

from __future__ import annotations

import subprocess
import tempfile
from collections.abc import Sequence
from pathlib import Path

from exogpu.codegen.toolchain.errors import REINSTALL, CompileError
from exogpu.codegen.toolchain.find import Nvcc
from exogpu.codegen.toolchain.output import Compiled


def compile_with_nvcc(nvcc: Nvcc, source: str, arch: str, flags: Sequence[str]) -> Compiled:
    """PTX by nvcc, a cubin from it by ptxas.  Raises CompileError with what they printed."""
    virtual = arch.replace("sm_", "compute_")
    with tempfile.TemporaryDirectory() as scratch:
        folder = Path(scratch)
        (folder / "kernel.cu").write_text(source)
        to_ptx = ["-ptx", f"-arch={virtual}", *flags, "-o", "kernel.ptx", "kernel.cu"]
        log = run_tool(nvcc.nvcc, to_ptx, folder)
        to_cubin = ["-v", f"-arch={arch}", "-lineinfo", "-o", "kernel.cubin", "kernel.ptx"]
        log += run_tool(nvcc.ptxas, to_cubin, folder)
        return Compiled(
            (folder / "kernel.cubin").read_bytes(), (folder / "kernel.ptx").read_text(), log
        )


def run_tool(program: Path, arguments: Sequence[str], folder: Path) -> str:
    """Runs a program and returns its output. It runs in the folder, so that no output has the
    folder's name."""
    try:
        done = subprocess.run(
            [program, *arguments], cwd=folder, capture_output=True, text=True, check=False
        )
    except OSError as error:
        raise CompileError(f"{program} cannot be run: {error.strerror}", REINSTALL) from error
    output = done.stdout + done.stderr
    if done.returncode != 0:
        what = output.strip() or f"{program} stopped with status {done.returncode}"
        raise CompileError(what, REINSTALL)
    return output
