"""The machine code of a cubin as text."""

from __future__ import annotations

import subprocess
import tempfile
from pathlib import Path

from exogpu.codegen.toolchain.errors import INSTALL, REINSTALL, CompileError
from exogpu.codegen.toolchain.find import find_program


def disassemble(cubin: bytes) -> str:
    """The SASS of a cubin, by nvdisasm, or by cuobjdump where only that is found.

    Raises CompileError where neither is.
    """
    nvdisasm, cuobjdump = find_program("nvdisasm"), find_program("cuobjdump")
    if nvdisasm is not None:
        command = [str(nvdisasm), "--print-code"]
    elif cuobjdump is not None:
        command = [str(cuobjdump), "-sass"]
    else:
        raise CompileError("there is neither nvdisasm nor cuobjdump on this machine", INSTALL)
    with tempfile.TemporaryDirectory() as scratch:
        path = Path(scratch, "kernel.cubin")
        path.write_bytes(cubin)
        done = subprocess.run([*command, path], capture_output=True, text=True, check=False)
    if done.returncode != 0:
        raise CompileError(f"{command[0]}: {done.stderr.strip()}", REINSTALL)
    return done.stdout
