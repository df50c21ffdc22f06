"""C functions of procedures compiled by g++ against a CUDA runtime that only counts."""

from __future__ import annotations

import ctypes
import subprocess
from pathlib import Path

from on_the_host import FLAGS, GXX, SHIM, emitted

RUNTIME = """
#include <cstdint>
#include <cstddef>
using cudaStream_t = void*;
struct dim3 { unsigned x, y, z; dim3(unsigned x = 1) : x(x), y(1), z(1) {} };
struct cudaLaunchAttribute {
    int id;
    struct { dim3 clusterDim; int programmaticStreamSerializationAllowed, cooperative; } val;
};
struct cudaLaunchConfig_t {
    dim3 gridDim, blockDim; size_t dynamicSmemBytes; cudaStream_t stream;
    cudaLaunchAttribute* attrs; unsigned numAttrs;
};
enum { cudaFuncAttributeMaxDynamicSharedMemorySize, cudaFuncAttributeNonPortableClusterSizeAllowed,
       cudaLaunchAttributeClusterDimension, cudaLaunchAttributeProgrammaticStreamSerialization,
       cudaLaunchAttributeCooperative, cudaDevAttrMultiProcessorCount,
       cudaErrorMemoryAllocation = 2, cudaErrorLaunchOutOfResources = 701 };
static long long launched[8];  // the grid, and then the arguments that are sizes
template <typename... T> static int cudaFuncSetAttribute(T...) { return 0; }
template <typename... T> static int cudaMemsetAsync(T...) { return 0; }
template <typename... T> static int cudaMallocAsync(T...) { return 0; }
template <typename... T> static int cudaFreeAsync(T...) { return 0; }
static int cudaGetDevice(int* device) { *device = 0; return 0; }
static int cudaDeviceGetAttribute(int* value, int, int) { *value = 132; return 0; }
template <typename... T>
static int cudaOccupancyMaxActiveClusters(int* count, T...) { *count = 66; return 0; }
template <typename... T>
static int cudaOccupancyMaxActiveBlocksPerMultiprocessor(int* count, T...) { *count = 2; return 0; }
static int sizes_launched;
static int cudaLaunchKernelExC(const cudaLaunchConfig_t* config, const void*, void** arguments)
{
    launched[0] = config->gridDim.x;
    for (int at = 0; at < sizes_launched; ++at)
        launched[1 + at] = *static_cast<int*>(arguments[at]);
    return 0;
}
extern "C" long long* what_was_launched(int sizes) { sizes_launched = sizes; return launched; }
"""


class HostFunction:
    """Calls `<name>_launch` with sizes and no arrays; remembers the last grid and its sizes."""

    def __init__(self, procedure, folder: Path) -> None:
        made = emitted(procedure)
        (folder / f"{made.name}.cu").write_text(made.source)
        (folder / f"{made.name}.h").write_text(made.host.header)
        (folder / "host.cpp").write_text(SHIM + RUNTIME + made.host.source)
        command = [GXX, *FLAGS, "-o", "libhost.so", "host.cpp"]
        subprocess.run(command, cwd=folder, check=True, capture_output=True, text=True)
        library = ctypes.CDLL(str(folder / "libhost.so"))
        parameters = made.manifest["parameters"]
        self.arrays = sum(p["kind"] == "data" for p in parameters)
        self.sizes = [p["name"] for p in parameters if p["kind"] != "data"]
        assert [p["kind"] == "data" for p in parameters] == sorted(
            p["kind"] == "data" for p in parameters
        )
        self.function = library[f"{made.name}_launch"]
        library.what_was_launched.restype = ctypes.POINTER(ctypes.c_longlong)
        self.launched = library.what_was_launched(len(self.sizes))

    def __call__(self, **sizes: int) -> int:
        self.launched[0] = 0
        values = [ctypes.c_longlong(sizes[name]) for name in self.sizes]
        return self.function(*values, *[ctypes.c_void_p()] * (self.arrays + 1))

    @property
    def grid(self) -> int:
        return self.launched[0]
