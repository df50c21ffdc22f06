"""Products of arrays of jax: lent and given by DLPack, in the order of the streams.

Where there is no GPU a stand-in of jax's arrays is used, which does what those on a GPU do; the
capsules are taken by jax itself where it is installed.
"""

from __future__ import annotations

import ctypes
import gc
import sys
import weakref
from types import SimpleNamespace

import numpy as np
import pytest

from exogpu.codegen.runtime import LaunchError, device_memory, driver
from exogpu.codegen.runtime.arrays import array_of
from exogpu.codegen.runtime.dlpack import _read_capsule
from exogpu.kernels import gemm, gemm_calls, gemv

COMPUTES, WAITS = 41, 42
"""Streams of jax: on which it computes, and on which it takes what others give."""


class Gpu:
    """A driver whose memory is the host's; it remembers what streams were asked to do."""

    def __init__(self) -> None:
        self.done: list[tuple[object, ...]] = []
        self.memory: dict[int, object] = {}
        self.over = False

    def __getattr__(self, name: str):
        if not name.startswith("cu"):
            raise AttributeError(name)
        return lambda *arguments: self.call(name, *arguments)

    def call(self, name: str, *arguments) -> int:
        match name:
            case "cuDeviceGetCount":
                arguments[0]._obj.value = 1
            case "cuMemAllocFromPoolAsync":
                block = ctypes.create_string_buffer(arguments[1].value + 64)
                arguments[0]._obj.value = -(-ctypes.addressof(block) // 64) * 64
                self.memory[arguments[0]._obj.value] = block
                self.done.append(("allocate", arguments[3].value or 0))
            case "cuMemFreeAsync":
                del self.memory[arguments[0].value]
                self.done.append(("free", arguments[1].value or 0))
            case "cuEventCreate":
                arguments[0]._obj.value = 1000 + len(self.done)
            case "cuEventRecord":
                self.done.append(("record", arguments[1].value or 0))
            case "cuStreamWaitEvent":
                self.done.append(("wait", arguments[0].value))
            case "cuEventQuery":
                return 0 if self.over else 600
        return 0


@pytest.fixture
def gpu(monkeypatch):
    def forget():
        for cached in (driver.gpus, driver._primary, driver._pool):
            cached.cache_clear()
        device_memory._reads.clear()

    forget()
    gpu = Gpu()
    monkeypatch.setattr(driver, "_driver", lambda: gpu)
    monkeypatch.setattr(gemm_calls, "kernel", lambda name: lambda **given: compute(gpu, **given))
    monkeypatch.setitem(sys.modules, "jax.dlpack", SimpleNamespace(from_dlpack=taken))
    yield gpu
    forget()


def compute(gpu, stream, **arrays) -> None:
    """The product, on memory as the kernel is given it."""
    gpu.done.append(("launch", stream))
    found = {name: host(array_of(name, one, stream)) for name, one in arrays.items()}
    assert not array_of("C", arrays.get("C", arrays.get("y")), stream).readonly
    if "x" in found:
        found["y"][...] = found["A"] @ found["x"]
    elif found["A"].ndim == 4:
        found["C"][...] = np.einsum("lmsk,lnsk->lmn", found["A"], found["B"])
    else:
        found["C"][...] = np.einsum("lmk,lnk->lmn", found["A"], found["B"])


def host(array) -> np.ndarray:
    kinds = {"<f4": np.float32, "<f2": np.float16}
    block = (ctypes.c_ubyte * array.bytes).from_address(array.pointer)
    return np.frombuffer(block, kinds[array.typestr]).reshape(array.shape)


class ArrayImpl:
    """An array of jax on a GPU: immutable, and computed on a stream that nobody knows."""

    def __init__(self, gpu, array: np.ndarray) -> None:
        self._gpu, self._array = gpu, array
        self.shape, self.dtype, self.ndim = array.shape, array.dtype, array.ndim

    def __dlpack_device__(self):
        return 2, 0

    def __dlpack__(self, *, stream=None, max_version=None, dl_device=None, copy=None):
        assert isinstance(stream, int) and stream > 0
        self._gpu.done.append(("wait", stream))  # for COMPUTES
        return self._array.__dlpack__()

    @property
    def __cuda_array_interface__(self):
        """Of version 2: it says nothing of streams, and is not to be used."""
        nowhere = {"data": (64, True), "typestr": self.dtype.str, "version": 2}
        return {"shape": self.shape, "strides": None, **nowhere}

    def reshape(self, shape):
        raise AssertionError("which is a computation of jax, and a copy")

    __getitem__ = reshape


ArrayImpl.__module__ = "jaxlib._jax"


class Taken(np.ndarray):
    """What jax makes of a capsule."""


def taken(exporter, device=None, copy=None):
    """As `jax.dlpack.from_dlpack` does."""
    assert exporter.__dlpack_device__() == (2, 0)
    held = exporter.__dlpack__(stream=WAITS)
    packed = _read_capsule("given", held)
    kinds = {"<f4": (ctypes.c_float, np.float32), "<f2": (ctypes.c_uint16, np.float16)}
    count = int(np.prod(packed.shape))
    block = (kinds[packed.typestr][0] * count).from_address(packed.pointer)
    made = np.frombuffer(block, kinds[packed.typestr][1]).reshape(packed.shape).view(Taken)
    weakref.finalize(made, delete, held)
    return made


def delete(held) -> None:
    """Calls the deleter, as whoever takes a capsule does at the end."""
    get = ctypes.pythonapi.PyCapsule_GetPointer
    get.argtypes, get.restype = (ctypes.py_object, ctypes.c_char_p), ctypes.c_void_p
    managed = device_memory._Managed.from_address(get(held, b"dltensor"))
    managed.deleter(ctypes.byref(managed))


def integers(*shape: int) -> np.ndarray:
    return np.random.default_rng(0).integers(-3, 4, shape).astype(np.float32)


def test_the_product_is_an_array_of_jax(gpu):
    """jax sees to it that its computations come before, and ours before what it does next."""
    a, b = integers(64, 256), integers(96, 256)
    c = gemm(ArrayImpl(gpu, a), ArrayImpl(gpu, b))
    assert isinstance(c, Taken) and np.array_equal(c, a @ b.T)
    legacy = 1
    waits = [("wait", legacy), ("wait", legacy)]
    assert gpu.done == [
        *waits,
        ("allocate", 0),
        ("launch", 0),
        ("record", 0),
        ("wait", WAITS),
    ]
    del c
    gc.collect()
    assert gpu.done[-1] == ("free", 0) and not gpu.memory


def test_batches_and_vectors_on_a_stream(gpu):
    a, b = integers(3, 8, 128), integers(3, 12, 128)
    c = gemm(ArrayImpl(gpu, a), ArrayImpl(gpu, b), stream=7)
    assert np.array_equal(c, a @ b.transpose(0, 2, 1))
    assert gpu.done[:4] == [("wait", 7), ("wait", 7), ("allocate", 7), ("launch", 7)]
    y = gemv(ArrayImpl(gpu, a[0]), ArrayImpl(gpu, b[0, 0]))
    assert np.array_equal(y, a[0] @ b[0, 0])


def test_inputs_live_until_they_are_read(gpu):
    """jax does not know that their memory is in use, and would give it to its next array."""
    a = ArrayImpl(gpu, integers(8, 128))
    gone = weakref.ref(a)
    gemm(a, a)
    del a
    gc.collect()
    assert gone() is not None
    other = ArrayImpl(gpu, integers(4, 128))
    gemm(other, other)
    assert gone() is not None
    gpu.over = True
    gemm(other, other)
    gc.collect()
    assert gone() is None


def test_what_does_not_fit_takes_no_memory(gpu):
    a, b = ArrayImpl(gpu, integers(8, 128)), ArrayImpl(gpu, integers(8, 64))
    with pytest.raises(LaunchError, match=r"A is \(8, 128\) and B is \(8, 64\)"):
        gemm(a, b)
    with pytest.raises(LaunchError, match="arrays of jax are never written"):
        gemm(a, a, np.zeros((8, 8), np.float32))
    with pytest.raises(LaunchError, match="B has 1 dimension "):
        gemm(a, ArrayImpl(gpu, integers(8)))
    with pytest.raises(LaunchError, match="A holds <f8"):
        gemm(ArrayImpl(gpu, np.zeros((8, 8))), a)
    assert not gpu.memory


def test_an_array_of_jax_is_no_output(gpu):
    array = ArrayImpl(gpu, integers(4))
    found = array_of("x", array, 7)
    assert found.readonly and found.pointer == array._array.ctypes.data
    assert gpu.done == [("wait", 7)]


def test_memory_is_freed_where_jax_does_not_take_it(gpu, monkeypatch):
    def refuses(exporter):
        raise RuntimeError("no GPU here")

    monkeypatch.setitem(sys.modules, "jax.dlpack", SimpleNamespace(from_dlpack=refuses))
    a = ArrayImpl(gpu, integers(8, 128))
    with pytest.raises(RuntimeError):
        gemm(a, a)
    assert not gpu.memory


# --- jax itself, on the CPU -----------------------------------------------------------------


def test_jax_takes_the_capsule():
    """Shape, type and memory are what was given; the deleter is called once, when it is gone."""
    dlpack = pytest.importorskip("jax.dlpack")
    for kind, shape in (("f32", (3, 5)), ("bf16", (4,)), ("f16", (2, 1, 3))):
        values = np.arange(128, dtype=np.uint8)
        at = -values.ctypes.data % 64
        view = device_memory.View(values.ctypes.data + at, shape, kind, 0)
        freed: list[int] = []

        class Exporter:
            def __dlpack_device__(self):
                return 1, 0

            def __dlpack__(self, *, stream=None, view=view, freed=freed, **_):
                return device_memory.capsule(view, (1, 0), lambda: freed.append(1))

        array = dlpack.from_dlpack(Exporter(), copy=False)
        assert (array.shape, str(array.dtype)) == (shape, device_memory.NAMES[kind])
        count = int(np.prod(shape)) * array.dtype.itemsize
        assert np.asarray(array).tobytes() == values[at : at + count].tobytes()
        assert not freed
        del array
        gc.collect()
        assert freed == [1]


def test_arrays_of_jax_on_the_cpu_and_traced_ones_are_told():
    jax = pytest.importorskip("jax")
    a = jax.numpy.ones((8, 128))
    with pytest.raises(LaunchError, match="A is not on a GPU"):
        gemm(a, a)
    with pytest.raises(LaunchError, match="outside of functions that jax traces"):
        jax.jit(lambda x: gemm(x, x))(a)
