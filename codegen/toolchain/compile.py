"""Compilation of CUDA C++, through the cache."""

from __future__ import annotations

from pathlib import Path
from typing import Final, assert_never

from exogpu.codegen.toolchain.cache import cache_folder, entry, load, store
from exogpu.codegen.toolchain.errors import INSTALL, CompileError
from exogpu.codegen.toolchain.find import Nvcc, Nvrtc, Toolchain, find_toolchain
from exogpu.codegen.toolchain.nvcc import compile_with_nvcc
from exogpu.codegen.toolchain.nvrtc import compile_with_nvrtc
from exogpu.codegen.toolchain.output import Compiled

FLAGS: Final = ("-std=c++17", "-fmad=false", "-lineinfo", "-diag-suppress=177")
"""Every product is rounded before it is added to, as the language says; line numbers for profilers;
177 is "declared but never referenced"."""


def compile_cubin(
    source: str, arch: str, toolchain: Toolchain | None = None, folder: Path | None = None
) -> Compiled:
    """The PTX and the cubin of a `.cu` text, from the cache if it was compiled before.

    Without a toolchain, by the one that is found; without a folder, in the user's cache.  Raises
    CompileError with the compiler's text, or with the command that installs a compiler.
    """
    found = toolchain or find_toolchain()
    if found is None:
        raise CompileError("there is neither NVRTC nor nvcc on this machine", INSTALL)
    path = entry(folder or cache_folder(), (found.version, found.build, arch, *FLAGS, source))
    parts = load(path)
    if parts is not None:
        return Compiled(parts["cubin"], parts["ptx"].decode(), parts["log"].decode())
    try:
        compiled = _compile(found, source, arch)
    except CompileError as error:
        what = f"{found.version} refused code for {arch}:\n{error.problem}"
        raise CompileError(what, "choose an architecture that has what it asks for") from None
    texts = {"ptx": compiled.ptx.encode(), "log": compiled.log.encode()}
    store(path, {"cubin": compiled.cubin, **texts})
    return compiled


def _compile(toolchain: Toolchain, source: str, arch: str) -> Compiled:
    match toolchain:
        case Nvrtc():
            return compile_with_nvrtc(toolchain, source, arch, FLAGS)
        case Nvcc():
            return compile_with_nvcc(toolchain, source, arch, FLAGS)
        case _:
            assert_never(toolchain)
