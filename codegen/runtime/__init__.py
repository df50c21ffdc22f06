"""Launches compiled procedures on arrays of torch, cupy, jax, numba or numpy.

It needs Python and the CUDA driver alone, and nothing else of exogpu: a folder that `exogpu
compile` wrote can be used on a machine without the solvers.

    kernel = Kernel.from_folder(Path("build"), "gemv")
    kernel(A, x, y)
"""

from exogpu.codegen.runtime.kernel import Kernel
from exogpu.codegen.runtime.manifest import LaunchError, evaluate

__all__ = ["Kernel", "LaunchError", "evaluate"]
