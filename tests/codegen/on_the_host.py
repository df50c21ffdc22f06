"""Emitted kernels compiled by g++ and run by one thread: what their arithmetic computes."""

from __future__ import annotations

import ctypes
import importlib.util
import shutil
import subprocess
from pathlib import Path

import numpy as np

from exogpu.codegen.host_steps import emit

GXX = shutil.which("g++")

SHIM = """
#include <math.h>
#define __global__
#define __device__
#define __host__
#define __forceinline__ inline
#define __restrict__
#define __grid_constant__
#define __launch_bounds__(...)
#define __cluster_dims__(...)
struct Index { unsigned x, y, z; };
struct int2 { int x, y; };
static inline int2 make_int2(int x, int y) { return {x, y}; }
template <typename T> static inline T min(T a, T b) { return b < a ? b : a; }
template <typename T> static inline T max(T a, T b) { return a < b ? b : a; }
static Index threadIdx = {0, 0, 0}, blockIdx = {0, 0, 0}, gridDim = {1, 1, 1};
template <typename To, typename From> static inline To same_bits(From from)
{
    To to;
    __builtin_memcpy(&to, &from, sizeof to);
    return to;
}
static inline unsigned __float_as_uint(float value) { return same_bits<unsigned>(value); }
static inline float __uint_as_float(unsigned value) { return same_bits<float>(value); }
static inline int __shfl_sync(unsigned, int value, int) { return value; }
"""

FLAGS = ("-O2", "-std=c++17", "-ffp-contract=off", "-w", "-shared", "-fPIC")


def compiled(text: str, folder: Path, name: str = "kernel") -> ctypes.CDLL:
    """The library of a C++ text, behind the definitions that stand for CUDA's."""
    source, library = folder / f"{name}.cpp", folder / f"lib{name}.so"
    source.write_text(SHIM + text)
    subprocess.run([GXX, *FLAGS, "-o", library, source], check=True, capture_output=True, text=True)
    return ctypes.CDLL(str(library))


def procedures(text: str, folder: Path, name: str = "generated"):
    """The module of a source text."""
    path = folder / f"{name}.py"
    path.write_text("from __future__ import annotations\nfrom exogpu import proc\n" + text)
    spec = importlib.util.spec_from_file_location(name, path)
    module = importlib.util.module_from_spec(spec)
    spec.loader.exec_module(module)
    return module


def emitted(procedure):
    facts = procedure.facts
    return emit(facts)


def run_emitted(procedure, arguments, folder: Path) -> None:
    """Run the one kernel of a procedure on numpy arrays and sizes, by thread 0 of one CTA."""
    made = emitted(procedure)
    (launch,) = made.manifest["steps"]
    function = compiled(made.source, folder)[launch["kernel"]]
    function(
        *(
            ctypes.c_void_p(value.ctypes.data)
            if isinstance(value := arguments[name], np.ndarray)
            else ctypes.c_int(value)
            for name in launch["arguments"]
        )
    )
