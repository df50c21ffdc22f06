"""A procedure that computes on the CPU around its launches is called from Python like any other."""

from __future__ import annotations

import subprocess
from pathlib import Path

import numpy as np
import pytest
from fake_cuda import CudaArray, FakeDriver, aligned
from fake_runtime import RUNTIME
from on_the_host import FLAGS, GXX, SHIM

from exogpu import proc
from exogpu.codegen.compiled_kernel import save_source
from exogpu.codegen.runtime import Kernel, LaunchError, device_memory, driver

pytestmark = pytest.mark.skipif(GXX is None, reason="no g++ on this machine")


@proc
def in_turns(
    steps: size,
    h: f32[steps] @ DRAM,
    total: f32[2] @ DRAM,
    a: f32 @ CudaGridConstant,
    x: f32[32] @ CudaGmemLinear,
):
    """A launch a step, whose factor the CPU computes; the CPU writes the sum of the factors."""
    c: f32[1] @ CudaGridConstant
    total[0] = 0.0
    total[1] = a
    for k in seq(0, steps):
        c[0] = h[k] * 2.0
        total[0] += c[0]
        if k % 2 == 0:
            with CudaDeviceFunction(blockDim=32):
                for task in cuda_tasks(0, 1):
                    for t in cuda_threads(0, 32, unit=cuda_thread):
                        x[t] += c[0] * a


@pytest.fixture
def fake(monkeypatch):
    def forget():
        for cached in (driver.gpus, driver._primary, device_memory._encoded):
            cached.cache_clear()

    forget()
    made = FakeDriver()
    monkeypatch.setattr(driver, "_driver", lambda: made)
    yield made
    forget()


@pytest.fixture(scope="module")
def library(tmp_path_factory) -> Path:
    """The C function, compiled against a runtime that launches nothing."""
    folder = tmp_path_factory.mktemp("library")
    made, _ = in_turns.emit()
    (folder / "in_turns.cu").write_text(made.source)
    (folder / "in_turns.h").write_text(made.host.header)
    (folder / "host.cpp").write_text(SHIM + RUNTIME + made.host.source)
    command = [GXX, *FLAGS, "-o", "libin_turns.so", "host.cpp"]
    subprocess.run(command, cwd=folder, check=True, capture_output=True, text=True)
    return folder / "libin_turns.so"


def kernel_of(library: Path) -> Kernel:
    return Kernel(in_turns.emit()[1], b"cubin", library.read_bytes)


def test_the_cpu_computes_and_the_results_are_there(fake, library) -> None:
    h, total = np.array([1, 2, 4], np.float32), np.zeros(2, np.float32)
    kernel_of(library)(h, total, 0.5, CudaArray(aligned((32,))))
    assert list(total) == [14, 0.5]
    assert "cuStreamSynchronize" in fake.names()  # the stream might still access them


class Tensor:
    """A tensor of one element, of another library, on a GPU."""

    shape = (1,)

    def item(self) -> float:
        return 2.5


@pytest.mark.parametrize(
    "a", [2.5, np.full((1,), 2.5, np.float32), Tensor()], ids=["number", "numpy", "tensor"]
)
def test_one_element_is_taken_by_value_from_a_tensor(fake, library, a) -> None:
    total = np.zeros(2, np.float32)
    kernel_of(library)(np.zeros(1, np.float32), total, a, CudaArray(aligned((32,))))
    assert total[1] == 2.5


def test_arrays_of_numpy_go_to_the_gpu_where_kernels_use_them(fake, library) -> None:
    x = aligned((32,))
    kernel_of(library)(np.zeros(1, np.float32), np.zeros(2, np.float32), 1.0, x)
    names = fake.names()
    assert names.count("cuMemcpyHtoDAsync_v2") == names.count("cuMemcpyDtoHAsync_v2") == 1


def test_what_does_not_fit_is_refused_before_anything_is_done(fake, library) -> None:
    kernel, x = kernel_of(library), CudaArray(aligned((32,)))
    h, total = np.zeros(3, np.float32), np.zeros(2, np.float32)
    with pytest.raises(LaunchError, match="total is on the GPU, and the CPU accesses it"):
        kernel(h, CudaArray(aligned((2,))), 1.0, x)
    with pytest.raises(LaunchError, match="total has the shape"):
        kernel(h, np.zeros(3, np.float32), 1.0, x)
    with pytest.raises(LaunchError, match=r"total.*write|read-only|written"):
        total.flags.writeable = False
        kernel(h, total, 1.0, x)


def test_a_refusal_of_the_function_is_told(fake, library) -> None:
    """As one of a library that was made of another text."""
    kernel = kernel_of(library)
    kernel._function = lambda *values: -4
    with pytest.raises(LaunchError, match="in_turns stopped: a kernel would compute an index"):
        kernel(np.zeros(1, np.float32), np.zeros(2, np.float32), 1.0, CudaArray(aligned((32,))))


def test_the_library_lies_beside_the_manifest(fake, library, tmp_path) -> None:
    made, manifest = in_turns.emit()
    save_source(made, manifest, tmp_path)
    (tmp_path / "in_turns.cubin").write_bytes(b"cubin")
    arguments = np.ones(1, np.float32), np.zeros(2, np.float32), 1.0, CudaArray(aligned((32,)))
    with pytest.raises(LaunchError, match=r"libin_turns\.so beside its manifest"):
        Kernel.from_folder(tmp_path, "in_turns")(*arguments)
    (tmp_path / "libin_turns.so").write_bytes(library.read_bytes())
    Kernel.from_folder(tmp_path, "in_turns")(*arguments)
    assert arguments[1][0] == 2
    (tmp_path / "libin_turns.so").write_bytes(b"no library")
    with pytest.raises(LaunchError, match="cannot be loaded"):
        Kernel.from_folder(tmp_path, "in_turns")(*arguments)
