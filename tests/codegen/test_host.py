"""The CPU part as C++: loops, conditions, copies and launches in order; and what is refused."""

from __future__ import annotations

import re
import shutil
from pathlib import Path

import pytest

from exogpu.api import proc
from exogpu.codegen.host_steps import emit
from exogpu.codegen.runtime.manifest import evaluate
from exogpu.codegen.toolchain.find import find_nvcc
from exogpu.diagnostics.errors import ExoGpuError
from exogpu.frontend.instructions import instr
from exogpu.hw.operands import STREAM
from exogpu.ir.types import Memset
from exogpu.isa.cuda import cuda_memcpy_to_device, cuda_memcpy_to_host, cuda_memset0_1d
from exogpu.kernels import gemm_splitk_sm90
from exogpu.kernels.gemm_sm80 import gemm_sm80

GOLDEN = Path(__file__).parent / "golden"
SPLIT_K = gemm_splitk_sm90.KERNELS["gemm_splitk_sm90_2x1_128x256"]
NO_NVCC = find_nvcc() is None or shutil.which("gcc") is None


@proc
def by_rows(n: size, m: size, x: f32[n, m], y: f32[n, m]):
    """y = 2 * x in the even rows, 1 in the others."""
    d: f32[n, m] @ CudaGmemLinear
    factor: f32[1]
    factor[0] = 1
    factor[0] += 1
    for i in seq(0, n):
        cuda_memset0_1d(m, d[i, :])
        if i % 2 == 0:
            for k in seq(0, 2):
                cuda_memcpy_to_device(m, d[i, :], x[i, :])
                with CudaDeviceFunction(blockDim=32):
                    for task in cuda_tasks(0, m):
                        for t in cuda_threads(0, 1, unit=cuda_thread):
                            d[i, task] += d[i, task]
        else:
            with CudaDeviceFunction(blockDim=32):
                for task in cuda_tasks(0, m):
                    for t in cuda_threads(0, 1, unit=cuda_thread):
                        d[i, task] += 1
        cuda_memcpy_to_host(m, y[i, :], d[i, :])
    Fence(cuda_stream_sync, cpu_in_order)


def emitted(procedure):
    facts = procedure.facts
    return emit(facts)


def body(procedure) -> str:
    return emitted(procedure).host.source.partition('extern "C"')[2]


@pytest.mark.parametrize("procedure", [by_rows, gemm_sm80, SPLIT_K], ids=lambda p: p.name)
def test_golden(procedure, golden):
    host = emitted(procedure).host
    golden(GOLDEN / f"{procedure.name}.h", host.header)
    golden(GOLDEN / f"{procedure.name}_host.cu", host.source)


def test_statements_are_in_order():
    """Two launches, each with the iterators around it; the result is waited for at the end."""
    text = body(by_rows)
    found = re.findall(r"cuda\w+Async|launch\(by_rows_\d|Synchronize|\.free", text)
    assert found == [
        "cudaMemsetAsync",
        "cudaMemcpyAsync",
        "launch(by_rows_0",
        "launch(by_rows_1",
        "cudaMemcpyAsync",
        ".free",
        "Synchronize",
    ]
    assert "int sizes[] = {(int)n, (int)m, (int)i, (int)k};" in text
    assert "{&sizes[0], &sizes[1], &sizes[2], &sizes[3], &d.pointer};" in text
    assert "{&sizes[0], &sizes[1], &sizes[2], &d.pointer};" in text


def test_python_learns_that_only_the_c_function_can_run_it():
    (step,) = emitted(by_rows).manifest["steps"]
    assert step["op"] == "host"
    assert [k["kernel"] for k in step["kernels"]] == ["by_rows_0", "by_rows_1"]
    assert [s["op"] for s in emitted(SPLIT_K).manifest["steps"]] == ["launch", "launch"]


def test_conditions_and_constness():
    """Sizes are checked before anything is done; what is only read is const."""
    header = emitted(gemm_sm80).host.header
    sizes = "long long M, long long N, long long K"
    assert f"{sizes}, const float* A, const float* B, float* C, void* stream" in header
    assert "K % 4 == 0" in header
    text = body(gemm_sm80)
    assert text.index("EXOGPU_WRONG_SIZE") < text.index("launch(gemm_sm80")


@proc
def copies_a_column(n: size, d: f32[n, n] @ CudaGmemLinear):
    cuda_memset0_1d(n, d[:, 0])


@instr(cuda=False, dst=STREAM, template=Memset("dst", byte=255))
def cuda_memset0_ones(n: size, dst: i8[n] @ CudaDeviceVisibleLinear):
    """Every byte becomes 255: what its name says does not matter."""
    for i in seq(0, n):
        dst[i] = -1


@instr(cuda=False, dst=STREAM, template="TRY(my_fill({dst}, {value}, {dst.bytes}, stream));")
def fill(value: index, n: size, dst: f32[n] @ CudaDeviceVisibleLinear):
    """A function of the user's own, which sets all elements to zero."""
    for i in seq(0, n):
        dst[i] = 0


@instr(cuda=False, dst=STREAM)
def cuda_memset0_untold(n: size, dst: f32[n] @ CudaDeviceVisibleLinear):
    """No template."""
    for i in seq(0, n):
        dst[i] = 1


@proc
def parts(n: size, x: f32[2 * n] @ CudaGmemLinear, y: i8[n, 4, n] @ CudaGmemLinear):
    cuda_memset0_1d(n, x[n : 2 * n])
    cuda_memset0_ones(n, y[n - 1, 2, :])


@proc
def own_text(n: size, x: f32[n, n] @ CudaGmemLinear):
    fill(7, n, x[1, :])


@proc
def without_text(n: size, x: f32[n] @ CudaGmemLinear):
    cuda_memset0_untold(n, x[:])


def test_the_template_says_what_the_stream_does():
    """Value, place and length are those of the call; a name says nothing."""
    text = body(parts)
    assert "cudaMemsetAsync(&x[n], 0, (size_t)4 * (2 * n - n), stream)" in text
    offset = "&y[((long long)(n - 1) * 4 + (2)) * n]"
    assert f"cudaMemsetAsync({offset}, 255, (size_t)1 * n, stream)" in text
    assert "TRY(my_fill(&x[(long long)(1) * n], 7, (size_t)4 * n, stream));" in body(own_text)
    assert [s["op"] for s in emitted(own_text).manifest["steps"]] == ["host"]


def test_the_manifest_says_the_same():
    """Of 6 and of 3 * 4 * 3 elements: the last 3, and row 2 of the last four."""
    steps = emitted(parts).manifest["steps"]
    places = [[evaluate(s[key], {"n": 3}) for key in ("byte", "offset", "count")] for s in steps]
    assert [s["target"] for s in steps] == ["x", "y"]
    assert places == [[0, 3, 3], [255, (2 * 4 + 2) * 3, 3]]


def test_an_instruction_without_a_template_is_refused():
    with pytest.raises(ExoGpuError, match="no emitted text") as refused:
        emitted(without_text)
    assert [d.code for d in refused.value.diagnostics] == ["G804"]


@pytest.mark.parametrize(
    ("arguments", "expected"),
    [
        ({"cuda": True, "template": Memset("dst")}, "called at CUDA scope"),
        ({"cuda": False, "template": Memset("of")}, r"takes \['of'\], no data of it"),
        ({"cuda": False, "template": Memset("dst", 256)}, "sets bytes to 256"),
    ],
)
def test_templates_that_say_nothing_are_refused(arguments, expected):
    @instr(dst=STREAM, **arguments)
    def clear(n: size, dst: f32[n] @ CudaDeviceVisibleLinear):
        for i in seq(0, n):
            dst[i] = 0

    with pytest.raises(ExoGpuError, match=expected):
        clear.instantiate({})


def test_windows_with_gaps_are_refused():
    """One memset clears adjacent bytes: a column's are not."""
    with pytest.raises(ExoGpuError, match="adjacent elements") as refused:
        emitted(copies_a_column)
    assert [d.code for d in refused.value.diagnostics] == ["G806"]


@proc
def staged(n: size, m: size, d: f32[n, m] @ CudaGmemLinear, sums: f32[n]):
    """Rows are copied to memory of the host, and added up there."""
    total: f32[1]
    for i in seq(0, n):
        row: f32[m]
        total[0] = 0
        cuda_memcpy_to_host(m, row[:], d[i, :])
        Fence(cuda_stream_sync, cpu_in_order)
        for k in seq(0, m):
            total[0] += row[k]
        sums[i] = total[0]


def test_memory_that_the_stream_copies_outlives_a_call_that_fails():
    """The function returns where a call fails: then the destructor waits, and only then."""
    assert staged.check().word == "proved"
    text = body(staged)
    assert "std::vector<float> total;" in text
    assert "HostArray<float> row(stream);" in text
    assert "cudaMemcpyAsync(&row.data()[0], " in text
    assert (
        text.index("cudaStreamSynchronize") < text.index("row.release();") < text.index("return 0;")
    )
    assert "HostArray" not in emitted(by_rows).host.source


@pytest.mark.skipif(NO_NVCC, reason="no nvcc or no gcc on this machine")
@pytest.mark.parametrize("procedure", [by_rows, SPLIT_K, staged], ids=lambda p: p.name)
def test_shared_object(procedure):
    """It compiles, and the function has C linkage."""
    library = procedure.compile(unchecked=True).shared_object
    assert f"\0{procedure.name}_launch\0".encode() in library


@proc
def fenced(n: size, x: f32[n], d: f32[n] @ CudaGmemLinear):
    x[0] = 1
    Fence(cpu_in_order, cuda_stream_sync)
    cuda_memcpy_to_device(n, d[:], x[:])
    Fence(cuda_stream_sync, cuda_stream_sync)
    cuda_memcpy_to_host(n, x[:], d[:])
    Fence(cuda_stream_sync, cpu_in_order)
    x[0] = 2
    Fence(cpu_in_order, cpu_in_order)


def test_the_cpu_waits_for_what_it_goes_on_with():
    """What is enqueued is in order by itself."""
    assert fenced.check().word == "proved"
    lines = emit(fenced.facts).host.source.splitlines()
    waits = [at for at, line in enumerate(lines) if "cudaStreamSynchronize" in line]
    assert len(waits) == 1
    assert "Fence(cuda_stream_sync, cpu_in_order)" in lines[waits[0] - 1]
