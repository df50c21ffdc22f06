"""A CUDA driver that only remembers what it was asked, and arrays that say they are on its GPU."""

from __future__ import annotations

import ctypes
import sys
from contextlib import contextmanager
from functools import partial
from types import SimpleNamespace

import numpy as np

from exogpu.codegen.runtime import device_memory, driver

_VALUES = {75: 9, 76: 0, 16: 132}  # compute capability 9.0, 132 multiprocessors


class FakeDriver:
    """Its GPUs hold two blocks a multiprocessor, or 66 clusters; memory is the host's."""

    def __init__(self, count=1, places=None, capability=(9, 0)):
        self.count = count
        self.places = places or {}
        self.values = {**_VALUES, 75: capability[0], 76: capability[1]}
        self.calls = []
        self.memory = {}
        self.on_launch = lambda function, grid, arguments: None

    def __getattr__(self, name):
        if not name.startswith("cu"):
            raise AttributeError(name)
        return partial(self.call, name)

    def names(self):
        """The calls that do something on the GPU, in order."""
        silent = ("Get", "Retain", "Push", "Pop", "Create", "Destroy", "Alloc", "Free", "Occup")
        return [name for name, _ in self.calls if not any(s in name for s in silent)]

    def arguments(self, wanted):
        return [arguments for name, arguments in self.calls if name == wanted]

    def cuGetErrorString(self, status, text):
        text._obj.value = b"fake error"

    def call(self, name, *arguments):
        self.calls.append((name, arguments))
        match name:
            case "cuDeviceGetCount":
                arguments[0]._obj.value = self.count
            case "cuDeviceGetName":
                arguments[0].value = b"Fake GPU"
            case "cuDeviceGetAttribute":
                arguments[0]._obj.value = self.values[arguments[1]]
            case "cuPointerGetAttribute":
                place = self.places.get(arguments[2].value, 0)
                if place is None:
                    return 1
                arguments[0]._obj.value = place
            case "cuOccupancyMaxActiveBlocksPerMultiprocessor":
                arguments[0]._obj.value = 2
            case "cuOccupancyMaxActiveClusters":
                arguments[0]._obj.value = 66
            case "cuMemAlloc_v2":
                block = ctypes.create_string_buffer(arguments[1].value)
                arguments[0]._obj.value = ctypes.addressof(block)
                self.memory[ctypes.addressof(block)] = block
            case "cuMemPoolCreate":
                arguments[0]._obj.value = 1000 + arguments[1]._obj.device
            case "cuMemAllocFromPoolAsync":
                block = ctypes.create_string_buffer(arguments[1].value)
                arguments[0]._obj.value = ctypes.addressof(block)
                self.memory[ctypes.addressof(block)] = block
            case "cuMemFreeAsync":
                del self.memory[arguments[0].value]
            case "cuMemcpyHtoDAsync_v2" | "cuMemcpyDtoHAsync_v2":
                to, source, count = (a.value for a in arguments[:3])
                ctypes.memmove(to, source, count)
            case "cuMemFree_v2":
                del self.memory[arguments[0].value]
            case "cuLaunchKernelEx":
                config = arguments[0]._obj
                self.on_launch(arguments[1], tuple(config.grid), arguments[2])
        return 0


class CudaArray:
    """A numpy array that says it is on a GPU, by the CUDA array interface."""

    def __init__(self, array, **changes):
        self.array = array
        self.__cuda_array_interface__ = {
            "shape": array.shape,
            "typestr": array.dtype.str,
            "data": (array.ctypes.data, False),
            "strides": None if array.flags.c_contiguous else array.strides,
            "version": 3,
            **changes,
        }


class Packed:
    """A numpy array that says it is on a GPU, by DLPack; it remembers the stream it was given."""

    def __init__(self, array, device=2, versioned=True):
        self.array, self.device, self.versioned = array, device, versioned
        self.stream = None

    def __dlpack_device__(self):
        return self.device, 0

    def __dlpack__(self, *, stream=None, **version):
        if version and not self.versioned:
            raise TypeError("max_version")
        self.stream = stream
        return self.array.__dlpack__(**version)


def aligned(shape, dtype=np.float32, offset=0):
    """Zeros that start `offset` bytes after a multiple of 16."""
    count = int(np.prod(shape)) * np.dtype(dtype).itemsize
    raw = np.zeros(count + 64, np.uint8)
    begin = -raw.ctypes.data % 16 + offset
    return raw[begin : begin + count].view(dtype).reshape(shape)


class Tensor(CudaArray):
    """As torch has it."""

    is_cuda = True

    def __init__(self, array, device=0, requires_grad=False):
        super().__init__(array)
        self.array, self.index, self.requires_grad = array, device, requires_grad
        self.dtype, self.shape = array.dtype, array.shape
        self.device = SimpleNamespace(type="cuda", index=device)
        self.looked_at = 0

    def data_ptr(self):
        return self.array.ctypes.data

    def get_device(self):
        return self.index

    def new_empty(self, shape, dtype=None):
        return Tensor(aligned(shape, dtype or self.dtype), self.index)

    def stride(self):
        return tuple(s // self.array.itemsize for s in self.array.strides)

    @property
    def __cuda_array_interface__(self):
        self.looked_at += 1
        if self.requires_grad:
            raise RuntimeError("it requires a gradient")
        return self.interface

    @__cuda_array_interface__.setter
    def __cuda_array_interface__(self, value):
        self.interface = value


Tensor.__module__ = "torch"


@contextmanager
def torch_on(monkeypatch):
    """A driver of two GPUs, and a torch whose current stream is that of the driver's note."""
    made = FakeDriver(count=2)
    made.current = 5
    cuda = SimpleNamespace(current_stream=lambda device: SimpleNamespace(cuda_stream=made.current))
    torch = SimpleNamespace(Tensor=Tensor, cuda=cuda, _C=SimpleNamespace())
    torch.float32 = np.dtype(np.float32)
    monkeypatch.setitem(sys.modules, "torch", torch)
    for cached in (driver.gpus, driver._primary, device_memory._encoded):
        cached.cache_clear()
    monkeypatch.setattr(driver, "_driver", lambda: made)
    yield made
    for cached in (driver.gpus, driver._primary, device_memory._encoded):
        cached.cache_clear()
