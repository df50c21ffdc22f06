"""From CUDA C++ to PTX, cubin and SASS: NVIDIA's compilers, found and called, with a cache.

Emitted kernels are freestanding, so that NVRTC compiles them: no CUDA headers, no host compiler.
Shared objects need both, and nvcc.
"""

from exogpu.codegen.toolchain.compilers import (
    Compiled,
    CompileError,
    Usage,
    compile_cubin,
    compile_shared,
    disassemble,
    held_up,
    usage,
)
from exogpu.codegen.toolchain.find import Nvcc, Nvrtc, Toolchain, find_toolchain

__all__ = [
    "CompileError",
    "Compiled",
    "Nvcc",
    "Nvrtc",
    "Toolchain",
    "Usage",
    "compile_cubin",
    "compile_shared",
    "disassemble",
    "find_toolchain",
    "held_up",
    "usage",
]
