"""Names of the source that C, C++, CUDA or the emitted text itself keep: they are spelled anew."""

from __future__ import annotations

import re
import subprocess
from importlib import resources
from pathlib import Path

import pytest

from exogpu import Procedure, proc
from exogpu.codegen.lowering_rows import ROWS
from exogpu.codegen.names import Names, function_name, is_reserved
from exogpu.codegen.toolchain import find
from exogpu.ir.types import Sym
from exogpu.isa.cuda import cuda_memset0_1d
from exogpu.kernels.attention_sm90 import make_attention
from exogpu.kernels.gemm_sm80 import gemm_sm80
from exogpu.kernels.gemm_sm90 import make_gemm

NVCC = find.find_nvcc()

KERNELS = """
    main exp min printf int new default norm select memcpy free double2 gamma threadIdx clock64
    floor_div _K __x y0 strlen cudaMalloc asm launch std erfcinvf strtok_r fwrite_unlocked uint32_t
"""

VARIABLES = """
    int new default asm register NULL EOF threadIdx blockIdx warpSize expf fmaxf exp smem unix linux
    errno stdin class this union typename xor floor_div mbarrier_wait TensorMap std restrict
    CHAR_BIT INT_MAX M_PI CUDA_VERSION size_t thread_local task_number
"""


@pytest.mark.parametrize("name", KERNELS.split())
def test_kernels_have_names_of_their_own(name: str) -> None:
    assert function_name(name) != name
    assert function_name(name).isidentifier() and not function_name(name).startswith("_")


@pytest.mark.parametrize("name", ["gemm", "copy", "gemm_sm90_2x1", "K", "k_1", "attention"])
def test_other_kernels_keep_their_name(name: str) -> None:
    assert function_name(name) == name


@pytest.mark.parametrize("name", VARIABLES.split())
def test_variables_are_spelled_anew(name: str) -> None:
    assert is_reserved(name)
    # What is kept by its beginning is kept with a number, too.
    expected = f"v_{name}" if is_reserved(f"{name}_1") else f"{name}_1"
    assert Names().declare(Sym(name)) == expected and not is_reserved(expected)


@pytest.mark.parametrize("name", ["M", "FP", "CU", "EXOGPU"])
def test_what_only_numbers_make_a_macro_stays_and_has_an_inner_namesake(name: str) -> None:
    names = Names()
    spelled = [names.declare(Sym(name)) for _ in range(3)]
    assert is_reserved(f"{name}_1")
    assert spelled == [name, f"v_{name}", f"v_{name}_1"]


def test_names_of_the_compiler() -> None:
    names = Names()
    spelled = [names.declare(Sym(name)) for name in ("_K", "__k", "_", "_k", "K", "thread")]
    assert spelled == ["K", "k", "_", "_k", "K_1", "thread_1"]


def awkward() -> Procedure:
    """A kernel all of whose names are taken."""

    @proc
    def main(
        NULL: size,
        new: f32[NULL, 64] @ CudaGmemLinear,
        main: f32[NULL, 64] @ CudaGmemLinear,
        status_: f32[64] @ DRAM,
        stream_: f32[64] @ CudaGmemLinear,
    ):
        cuda_memset0_1d(64, stream_[:])
        with CudaDeviceFunction(blockDim=64):
            for default in cuda_tasks(0, NULL):
                smem: f32[64] @ CudaSmemLinear
                for thread in cuda_threads(0, 64, unit=cuda_thread):
                    smem[thread] = exp(new[default, thread]) + new[default, thread]
                Fence(cuda_in_order, cuda_in_order)
                for threadIdx in cuda_threads(0, 64, unit=cuda_thread):
                    fmaxf: f32
                    fmaxf = 0.0
                    for floor_mod in seq(0, NULL):
                        fmaxf += max(smem[63 - threadIdx], smem[(floor_mod - 3) % 64])
                    main[default, threadIdx] = fmaxf
                Fence(cuda_in_order, cuda_in_order)
        for asm in seq(0, 64):
            status_[asm] = 1.0

    return main


OWN = {"smem", "task_number"}
"""What the emitted text itself declares: kept, so that no variable of the program has these."""


def test_no_declaration_is_reserved() -> None:
    emitted, _ = awkward().emit(unchecked=True)
    for text in (emitted.source, emitted.host.source):
        body = text[text.index('extern "C"') :]
        found = re.findall(r"\b(?:int|float|float\*(?: const)?|__restrict__) (\w+)\b", body)
        assert found and not {name for name in found if is_reserved(name)} - OWN
    assert "main_kernel(" in emitted.source
    assert "launch(main_kernel, " in emitted.host.source
    assert emitted.manifest["steps"][-1]["kernels"][0]["kernel"] == "main_kernel"


DECLARED = re.compile(
    r"\b(?:int|int2|unsigned|long long|short|char|float|double|bool|TensorMap|cudaStream_t"
    r"|(?:GridConstant|DeviceArray|std::vector)<[^>]*>)(?:\s*\*)?(?:\s+(?:const|__restrict__))?"
    r"\s+\(?&?([A-Za-z_]\w*)\)?\s*[\[=;,)(]"
)


@pytest.mark.parametrize("arrive_all", [False, True])
@pytest.mark.parametrize(
    "make",
    [awkward, lambda: make_gemm(2, 1, 128, 256), lambda: make_attention(64), lambda: gemm_sm80],
    ids=["awkward", "gemm in clusters", "attention", "gemm of sm_80"],
)
def test_what_is_no_variable_has_a_reserved_name(make, arrive_all, monkeypatch) -> None:
    """Names of variables differ from each other and from reserved ones, so nothing else may have
    one that is not."""
    spelled = set()
    declare = Names.declare

    def recorded(names: Names, name: Sym) -> str:
        spelled.add(declare(names, name))
        return names._spelling[name]

    monkeypatch.setattr(Names, "declare", recorded)
    emitted, _ = make().emit(unchecked=True, arrive_all=arrive_all)
    kernels = emitted.source[emitted.source.index('extern "C" __global__') :]
    host = emitted.host.source[emitted.host.source.index("_launch(long long") :]
    for text in (kernels, host):
        code = re.sub(r"//.*", "", text)
        found = set(DECLARED.findall(code))
        assert found and not {name for name in found - spelled if not is_reserved(name)}


def test_no_kernel_has_the_name_of_what_the_cpu_part_declares() -> None:
    """A kernel stands outside of the namespace, whose own names would hide it."""
    template = (resources.files("exogpu.codegen") / "templates" / "host.cu.j2").read_text()
    declared = re.findall(
        r"^(?:struct|namespace) (\w+)|^[^\n;=]*static [\w ]+ (\w+)\(", template, re.M
    )
    names = {one or other for one, other in declared}
    assert {"How", "exogpu_host", "tasks", "launch", "DeviceArray", "check"} <= names
    assert not {name for name in names if function_name(name) == name}


def test_rows_declare_reserved_names() -> None:
    found = {name for row in ROWS.values() for name in DECLARED.findall(row.text)}
    assert found == {"to_cta"} and is_reserved("to_cta")


def test_awaits_of_what_was_skipped_declare_reserved_names() -> None:
    """Loops that only race checkers ask for: variables of any name stand in them."""
    emitted, _ = make_gemm(2, 1, 128, 256).emit(unchecked=True, arrive_all=True)
    loops = re.findall(r"for \(\w+ (to_cta|ring_at|phases_back) = ", emitted.source)
    assert set(loops) == {"to_cta", "ring_at", "phases_back"}


def test_products_and_what_the_runtime_has_are_reserved() -> None:
    names = ("Sm90_wgmma_tf32_n256", "cudaMemsetAsync", "int2", "log", "tanh", "fma", "uintptr_t")
    assert all(map(is_reserved, names))


@pytest.mark.skipif(NVCC is None, reason="no nvcc here")
def test_nvcc_accepts_the_names(tmp_path: Path) -> None:
    emitted, _ = awkward().emit(unchecked=True)
    (tmp_path / "main.cu").write_text(emitted.source)
    (tmp_path / "main.h").write_text(emitted.host.header)
    (tmp_path / "main_host.cu").write_text(emitted.host.source)
    assert NVCC is not None
    command = [str(NVCC.nvcc), "-arch=sm_90a", "-cuda", "main_host.cu", "-o", "out.cpp"]
    done = subprocess.run(command, cwd=tmp_path, capture_output=True, text=True, timeout=120)
    assert done.returncode == 0, done.stdout + done.stderr
