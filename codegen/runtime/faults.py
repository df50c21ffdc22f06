"""Reads the index from memory that was out of its range, left on the host by a kernel that ended
itself.

Its error, CUDA_ERROR_LAUNCH_FAILED, names nothing, and no memory of the device can be read after
it.  So the kernels write to memory of the host; see `checked_index` of the prelude.
"""

from __future__ import annotations

import ctypes
from collections.abc import Mapping
from typing import Final

from exogpu.codegen.runtime.driver import call

_EVERYWHERE: Final = 3  # CU_MEMHOSTALLOC_PORTABLE | CU_MEMHOSTALLOC_DEVICEMAP
_Found = ctypes.c_longlong * 4


def listen(module: ctypes.c_void_p) -> ctypes.Array[ctypes.c_longlong]:
    """Memory to which the kernels of a module write the value, its range, and its line."""
    place, size, memory = ctypes.c_uint64(), ctypes.c_size_t(), ctypes.c_void_p()
    found = ctypes.byref(place), ctypes.byref(size)
    call("cuModuleGetGlobal_v2", *found, module, b"wrong_index")
    call(
        "cuMemHostAlloc", ctypes.byref(memory), ctypes.c_size_t(ctypes.sizeof(_Found)), _EVERYWHERE
    )
    written = _Found.from_address(memory.value or 0)
    written[:] = [0] * 4
    call("cuMemcpyHtoD_v2", place, ctypes.byref(memory), size)
    return written


def told(written: ctypes.Array[ctypes.c_longlong], loads: Mapping[int, str]) -> str:
    """Describes the fault in words; empty if there was none.

    >>> told((ctypes.c_longlong * 4)(9, 0, 4, 12), {12: "b = load_index(cuts[t], 0, n)"})
    'line 12: b = load_index(cuts[t], 0, n): 9 is not one of 0 .. 3'
    """
    value, lo, hi, line = written
    if lo == hi == value == line == 0:
        return ""
    where = f"line {line}: {loads[line]}" if line in loads else "load_index"
    return f"{where}: {value} is not one of {lo} .. {hi - 1}"
