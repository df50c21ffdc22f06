"""Compiling procedures: the three ways to be checked, manifests, and the command."""

from __future__ import annotations

import json

import pytest
from typer.testing import CliRunner

from exogpu import proc
from exogpu.cli.commands import app
from exogpu.codegen.compiled_kernel import Checked, CompiledKernel, RefusedError, vet
from exogpu.codegen.runtime import Kernel
from exogpu.codegen.toolchain import find, find_toolchain
from exogpu.diagnostics.errors import ExoGpuError
from exogpu.diagnostics.verdict import Policy, Verdict
from exogpu.kernels import gemm_sm80, gemm_sm90, gemm_splitk_sm90, gemv_f32
from exogpu.symbolic.certificate.write import certificate_digest

pytestmark = pytest.mark.slow

needs_compiler = pytest.mark.skipif(find_toolchain() is None, reason="no NVRTC or nvcc here")
NO_DISASSEMBLER = not (find.find_program("nvdisasm") or find.find_program("cuobjdump"))

SHIPPED = {
    **{p.name: p for p in (gemv_f32.gemv, gemm_sm80.gemm_sm80)},
    **gemm_sm90.KERNELS,
    **gemm_splitk_sm90.KERNELS,
}


@proc
def shift(M: size, x: f32[M, 32] @ CudaGmemLinear, y: f32[M, 32] @ CudaGmemLinear):
    """Safe at M = 1, and a race for more: the next task reads what this one writes."""
    with CudaDeviceFunction(blockDim=32):
        for m in cuda_tasks(0, M):
            for t in cuda_threads(0, 32, unit=cuda_thread):
                if m + 1 < M:
                    y[m, t] = y[m + 1, t] + x[m, t]


@proc
def scale(M: size, i: index, x: f32[M, 32] @ CudaGmemLinear):
    assert M >= 0
    assert i >= -5
    with CudaDeviceFunction(blockDim=32):
        for m in cuda_tasks(0, M):
            for t in cuda_threads(0, 32, unit=cuda_thread):
                x[m, t] = x[m, t] * 2.0


SOURCES = ["scale.cu", "scale.h", "scale_host.cu", "scale.json"]


# --- how a procedure was checked ----------------------------------------------------------


def verdict(word, sizes=None):
    return Verdict("p", word, sizes, Policy.PTX, 0.0, reason="too hard" * (word == "undecided"))


AT = Checked("at sizes", {"M": 4}, Policy.PTX, None)
ALL = Checked("all sizes", None, Policy.PTX, "digest")


@pytest.mark.parametrize(
    ("for_all", "at", "expected"),
    [
        ("proved", None, ALL),
        ("proved", "proved", ALL),
        ("undecided", "proved", AT),
        ("undecided", None, "undecided"),
        ("undecided", "refuted", "refuted"),
        ("refuted", None, "refuted"),
        ("refuted", "proved", "refuted"),
        ("error", None, "error"),
        ("proved", "error", "error"),
    ],
)
def test_what_is_checked_how(for_all, at, expected):
    """Given sizes help only where nothing is known for all; what is refuted is never compiled."""
    check_at = None if at is None else lambda: verdict(at, {"M": 4})
    if isinstance(expected, Checked):
        assert vet(lambda: verdict(for_all), check_at, lambda proved: "digest") == expected
    else:
        with pytest.raises(RefusedError) as refused:
            vet(lambda: verdict(for_all), check_at, lambda proved: "digest")
        assert refused.value.verdict.word == expected


def test_a_procedure_that_fails_at_other_sizes_is_refused():
    """Nothing would keep it from being called at those."""
    assert shift.check_at(M=1).word == "proved"
    with pytest.raises(RefusedError, match=r"H\d+: R?W?A[RW]\w* on y"):
        shift.compile(at={"M": 1})


def test_unchecked_code_is_emitted_whatever_the_verdict(monkeypatch):
    monkeypatch.setattr(type(shift), "check", None)
    monkeypatch.setattr(type(shift), "check_at", None)
    _, manifest = shift.emit(unchecked=True)
    assert manifest["checked"] == {
        "how": "unchecked",
        "sizes": None,
        "policy": None,
        "certificate": None,
    }


def test_the_manifest_says_how_it_was_checked(monkeypatch):
    undecided = verdict("undecided")
    monkeypatch.setattr(type(scale), "check", lambda self, **asked: undecided)
    with pytest.raises(ExoGpuError, match=r"X960.*too hard"):
        scale.emit()
    _, manifest = scale.emit(at={"M": 3, "i": 0})
    assert manifest["checked"] == {
        "how": "at sizes",
        "sizes": {"M": 3, "i": 0},
        "policy": "ptx",
        "certificate": None,
    }
    monkeypatch.undo()
    checked = scale.emit()[1]["checked"]
    assert checked["how"] == "all sizes"
    assert checked["certificate"] == certificate_digest(scale, scale.check())


# --- what a call must know ----------------------------------------------------------------


def test_the_manifest_says_what_is_admitted_and_what_is_written():
    """A size is at least 1, unless a precondition admits 0; an index may be anything."""
    parameters = scale.emit(unchecked=True)[1]["parameters"]
    assert [p.get("least") for p in parameters] == [0, None, None]
    gemm = gemm_splitk_sm90.KERNELS["gemm_splitk_sm90_1x1_128x256"].emit(unchecked=True)[1]
    least = {p["name"]: p["least"] for p in gemm["parameters"] if p["kind"] == "size"}
    written = {p["name"]: p["written"] for p in gemm["parameters"] if p["kind"] == "data"}
    assert set(least.values()) == {1}
    assert written == {"A": False, "B": False, "C": True}


@needs_compiler
def test_a_kernel_is_saved_and_loaded(tmp_path):
    kernel = scale.compile(unchecked=True)
    assert isinstance(kernel, CompiledKernel)
    assert "__global__" in kernel.source and ".target sm_90a" in kernel.ptx
    assert kernel.usage["scale"].registers == kernel.manifest["usage"]["scale"]["registers"]
    paths = kernel.save(tmp_path, ptx=True)
    assert [p.name for p in paths] == [*SOURCES, "scale.cubin", "scale.ptx"]
    loaded = Kernel.from_folder(tmp_path, "scale")
    assert (loaded.manifest, loaded.cubin) == (kernel.manifest, kernel.cubin)


# --- shipped kernels ----------------------------------------------------------------------


@needs_compiler
@pytest.mark.parametrize("name", SHIPPED)
def test_shipped_kernels_compile_without_spills(name):
    """A stack frame, too, would put a register tile into local memory; C7510 says that wgmma
    was made to wait for each product."""
    kernel = SHIPPED[name].compile(unchecked=True)
    for used in kernel.usage.values():
        assert (used.stack, used.spill_stores, used.spill_loads) == (0, 0, 0)
    assert "serialized" not in kernel.log


@needs_compiler
@pytest.mark.skipif(NO_DISASSEMBLER, reason="no nvdisasm or cuobjdump here")
@pytest.mark.parametrize("name", [n for n in SHIPPED if "sm90" in n])
def test_shipped_kernels_use_what_hopper_has(name):
    """wgmma, TMA (to several CTAs where there are some), registers by role; no local memory."""
    sass = SHIPPED[name].compile(unchecked=True).sass
    assert "HGMMA" in sass and "USETMAXREG" in sass and "UTMALDG" in sass
    assert (".MULTICAST" in sass) == ("_1x1_" not in name)
    assert "STL" not in sass and "LDL" not in sass


# --- the command --------------------------------------------------------------------------

HEAD = "from exogpu.api import proc\n\n"
SCALE = """@proc
def scale(M: size, x: f32[M, 32] @ CudaGmemLinear):
    with CudaDeviceFunction(blockDim=32):
        for m in cuda_tasks(0, M):
            for t in cuda_threads(0, 32, unit=cuda_thread):
                x[m, t] = x[m, t] * 2.0
"""
RACE = SCALE.replace("def scale", "def race").replace("x[m, t] =", "x[0, t] =")
# A bare barrier would let threads go on before TMA has landed: no lowering.
UNLOWERED = SCALE.replace("def scale", "def waits").replace(
    "for t in", "Fence(tma_to_smem_async, cuda_in_order)\n            for t in"
)
WRONG = SCALE.replace("def scale", "def wrong").replace("cuda_tasks", "cuda_task")


@pytest.fixture
def call(tmp_path, monkeypatch):
    """Runs the command on a file `k.py` in an empty folder."""
    monkeypatch.chdir(tmp_path)
    monkeypatch.setenv("XDG_CACHE_HOME", str(tmp_path / "cache"))

    def call(source, *arguments):
        (tmp_path / "k.py").write_text(HEAD + source)
        return CliRunner().invoke(app, ["compile", "k.py", "-o", "out", *arguments])

    return call


def files(tmp_path):
    return sorted(p.name for p in (tmp_path / "out").glob("*"))


def test_source_and_manifest_need_no_cuda(call, tmp_path, monkeypatch):
    monkeypatch.setattr(find, "find_toolchain", None)
    result = call(SCALE, "--unchecked")
    assert result.exit_code == 0, result.output
    assert files(tmp_path) == sorted(SOURCES)
    assert "scale: compiled, unchecked" in result.stdout
    manifest = json.loads((tmp_path / "out" / "scale.json").read_text())
    assert manifest["checked"]["how"] == "unchecked"


def test_a_hazard_is_shown_and_nothing_written(call, tmp_path):
    for more in ((), ("--at", "M=2")):
        result = call(RACE, *more)
        assert result.exit_code == 1
        assert "hazard H7" in result.stdout and "race is not compiled" in result.stdout
    assert files(tmp_path) == []


def test_what_is_undecided_needs_sizes_or_a_word(call, tmp_path, monkeypatch):
    from exogpu.api import Procedure

    monkeypatch.setattr(Procedure, "check", lambda self, **asked: verdict("undecided"))
    result = call(SCALE)
    assert result.exit_code == 3
    assert "--at" in result.stdout and "--unchecked" in result.stdout
    assert files(tmp_path) == []
    result = call(SCALE, "--at", "M=2")
    assert result.exit_code == 0, result.output
    assert "scale: compiled, checked at M=2" in result.stdout


@pytest.mark.parametrize(
    ("source", "arguments", "status", "expected"),
    [
        (UNLOWERED, ("--unchecked",), 2, "G803"),
        (WRONG, ("--unchecked",), 2, "error"),
        (SCALE, ("--at", "N=2"), 2, "X901"),
        (SCALE, ("--at", "M:2"), 2, "X946"),
        (SCALE, ("--unchecked", "-o", "k.py"), 2, "X948"),
        (SCALE, ("--unchecked", "--task-order", "rows"), 2, "X962"),
        (SCALE + RACE, ("--at", "M=2"), 1, "race is not compiled"),
        (UNLOWERED + RACE, ("--at", "M=2"), 2, "race is not compiled"),
    ],
)
def test_exit_statuses(call, source, arguments, status, expected):
    result = call(source, *arguments)
    assert result.exit_code == status, result.output
    assert expected in result.output


def test_without_a_compiler_a_cubin_is_refused_with_the_remedy(call, monkeypatch):
    from exogpu.codegen.toolchain import compilers

    monkeypatch.setattr(compilers, "find_toolchain", lambda: None)
    result = call(SCALE, "--unchecked", "--cubin")
    assert result.exit_code == 2
    assert "X961" in result.stderr and "pip install 'exogpu[cuda]'" in result.stderr


@needs_compiler
def test_cubin_and_ptx(call, tmp_path):
    result = call(SCALE, "--unchecked", "--ptx", "--arch", "sm_80")
    assert result.exit_code == 0, result.output
    assert files(tmp_path) == sorted([*SOURCES, "scale.cubin", "scale.ptx"])
    assert "registers, no spills" in result.stdout
    assert ".target sm_80" in (tmp_path / "out" / "scale.ptx").read_text()


def test_the_task_order_is_chosen(tmp_path):
    """Bands of rows are the default of a GEMM; another order is another text."""
    target = ["compile", "exogpu.kernels.gemm_sm80", "--unchecked"]
    texts = {}
    for order in ("grouped:8", "grouped:16", "hilbert", "lexicographic"):
        out = tmp_path / order
        result = CliRunner().invoke(app, [*target, "-o", str(out), "--task-order", order])
        assert result.exit_code == 0, result.output
        texts[order] = (out / "gemm_sm80.cu").read_text()
    assert len(set(texts.values())) == 4
    assert texts["grouped:16"] == gemm_sm80.gemm_sm80.emit(unchecked=True)[0].source
