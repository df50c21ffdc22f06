"""Compilation by NVRTC, in this process."""

from __future__ import annotations

import ctypes
from collections.abc import Sequence

from exogpu.codegen.toolchain.errors import REINSTALL, CompileError
from exogpu.codegen.toolchain.find import Nvrtc
from exogpu.codegen.toolchain.output import Compiled


def compile_with_nvrtc(nvrtc: Nvrtc, source: str, arch: str, flags: Sequence[str]) -> Compiled:
    """PTX and cubin by one compilation.  Raises CompileError with NVRTC's log."""
    library = ctypes.CDLL(str(nvrtc.library))
    program = ctypes.c_void_p()
    library.nvrtcCreateProgram(ctypes.byref(program), source.encode(), b"kernel.cu", 0, None, None)
    try:
        options = [f"--gpu-architecture={arch}", "--ptxas-options=-v", *flags]
        texts = (ctypes.c_char_p * len(options))(*(o.encode() for o in options))
        status = library.nvrtcCompileProgram(program, len(options), texts)
        log = _text(library, program, "ProgramLog")
        if status:
            raise CompileError(log.strip() or f"NVRTC stopped with status {status}", REINSTALL)
        cubin = _output(library, program, "CUBIN")
        return Compiled(cubin, _text(library, program, "PTX"), log)
    finally:
        library.nvrtcDestroyProgram(ctypes.byref(program))


def _text(library: ctypes.CDLL, program: ctypes.c_void_p, what: str) -> str:
    return _output(library, program, what).rstrip(b"\0").decode(errors="replace")


def _output(library: ctypes.CDLL, program: ctypes.c_void_p, what: str) -> bytes:
    size = ctypes.c_size_t()
    library[f"nvrtcGet{what}Size"](program, ctypes.byref(size))
    buffer = ctypes.create_string_buffer(size.value)
    if library[f"nvrtcGet{what}"](program, buffer):
        raise CompileError(f"NVRTC made no {what}", REINSTALL)
    return buffer.raw
