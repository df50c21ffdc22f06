"""Finding compilers, calling them, and the cache."""

from __future__ import annotations

import os
import zipfile
from concurrent.futures import ThreadPoolExecutor
from pathlib import Path

import pytest

from exogpu.cli import doctor
from exogpu.codegen.toolchain import (
    Compiled,
    CompileError,
    Usage,
    compile_cubin,
    compilers,
    find,
    find_toolchain,
    usage,
)

TOOLCHAIN = find_toolchain()
needs_compiler = pytest.mark.skipif(TOOLCHAIN is None, reason="no NVRTC or nvcc here")
SOURCE = 'extern "C" __global__ void one(int* x) { *x = 1; }'
MADE = Compiled(b"\x7fELF\0cubin", "ptx", "log")
PARTS = {"cubin": b"\x7fELF\0cubin", "ptx": b"ptx", "log": b"log"}


# --- the cache ----------------------------------------------------------------------------


def test_an_entry_is_addressed_by_all_it_depends_on(tmp_path):
    """Texts that only run together differently are different, too."""
    texts = [("ab", "c"), ("a", "bc"), ("abc",), ("ab", "c", ""), ("ab", "d")]
    paths = {compilers.entry(tmp_path, t) for t in texts}
    assert len(paths) == len(texts)
    assert compilers.entry(tmp_path, ["ab", "c"]) in paths


def test_an_entry_is_there_or_not(tmp_path):
    path = compilers.entry(tmp_path / "new" / "folder", ["x"])
    assert compilers.load(path) is None
    compilers.store(path, PARTS)
    assert compilers.load(path) == PARTS
    assert list(path.parent.iterdir()) == [path]


def test_an_interrupted_write_leaves_no_entry(tmp_path, monkeypatch):
    path = compilers.entry(tmp_path, ["x"])

    def full(*_):
        raise OSError("no space left on device")

    monkeypatch.setattr(zipfile.ZipFile, "writestr", full)
    compilers.store(path, PARTS)
    assert list(tmp_path.iterdir()) == []


@pytest.mark.parametrize("keep", [0, 1, 0.5, 0.99])
def test_a_damaged_entry_is_none(tmp_path, keep):
    path = compilers.entry(tmp_path, ["x"])
    compilers.store(path, {"cubin": os.urandom(4096), "log": b"log"})
    data = path.read_bytes()
    # With keep 1 a byte of the cubin is flipped: the checksum tells.
    cut = data[: int(len(data) * keep)] if keep != 1 else data[:999] + b"?!" + data[1001:]
    path.write_bytes(cut)
    assert compilers.load(path) is None


def test_writers_of_one_entry_do_not_disturb_each_other(tmp_path):
    path = compilers.entry(tmp_path, ["x"])
    big = {"cubin": os.urandom(1 << 18), "log": b"log"}

    def turn(number):
        compilers.store(path, big)
        return compilers.load(path)

    with ThreadPoolExecutor(8) as pool:
        assert all(found == big for found in pool.map(turn, range(40)))
    assert list(tmp_path.iterdir()) == [path]


def test_a_folder_that_cannot_be_written_is_no_error(tmp_path):
    (tmp_path / "file").write_text("")
    compilers.store(tmp_path / "file" / "entry.zip", PARTS)


def test_the_cache_is_in_the_users_folder(tmp_path, monkeypatch):
    monkeypatch.setenv("XDG_CACHE_HOME", str(tmp_path))
    assert tmp_path in compilers.cache_folder().parents


def test_what_is_cached_is_not_compiled_again(tmp_path, monkeypatch):
    compiled = []
    monkeypatch.setattr(compilers, "_compile", lambda *a: compiled.append(a[1:]) or MADE)
    nvrtc = find.Nvrtc(Path("none"), "NVRTC 13.5", "1 byte")
    for toolchain, source, arch in (
        (nvrtc, SOURCE, "sm_90a"),
        (nvrtc, SOURCE, "sm_90a"),
        (nvrtc, SOURCE, "sm_80"),
        (nvrtc, SOURCE + " ", "sm_90a"),
        (find.Nvrtc(Path("none"), "NVRTC 13.5", "2 bytes"), SOURCE, "sm_90a"),
        (nvrtc, SOURCE, "sm_90a"),
    ):
        assert compile_cubin(source, arch, toolchain, tmp_path) == MADE
    assert len(compiled) == 4


# --- compilers ----------------------------------------------------------------------------


@needs_compiler
def test_ptx_and_cubin(tmp_path):
    made = compile_cubin(SOURCE, "sm_90a", folder=tmp_path)
    assert made.cubin.startswith(b"\x7fELF")
    assert ".target sm_90a" in made.ptx
    assert usage(made.log)["one"].registers > 0


@needs_compiler
def test_a_refusal_has_the_compilers_text_and_leaves_nothing(tmp_path):
    with pytest.raises(CompileError, match=r'identifier "two" is undefined') as refused:
        compile_cubin(SOURCE.replace("= 1", "= two"), "sm_90a", folder=tmp_path)
    assert "for sm_90a" in refused.value.problem
    assert "kernel.cu(1)" in refused.value.problem
    assert list(tmp_path.iterdir()) == []


@needs_compiler
def test_every_compiler_here_makes_working_code(tmp_path):
    """A machine may have NVRTC and nvcc, of wheels and of the system."""
    folders = (*find.wheel_folders(), *find.system_folders())
    found = [t for f in folders for t in (find.nvrtc_in(f), find.nvcc_in(f)) if t]
    assert TOOLCHAIN in found
    for toolchain in found:
        made = compile_cubin(SOURCE, "sm_90a", toolchain, tmp_path)
        assert made.cubin.startswith(b"\x7fELF") and ".target sm_90a" in made.ptx


def test_usage_is_read_from_the_logs_of_ptxas():
    """Of NVRTC and of nvcc; the frame of a function that is no kernel is not a kernel's."""
    nvcc = (
        "ptxas info    : 0 bytes gmem\n"
        "ptxas info    : Compiling entry function 'a' for 'sm_90a'\n"
        "ptxas info    : Function properties for a\n"
        "    8 bytes stack frame, 4 bytes spill stores, 12 bytes spill loads\n"
        "ptxas info    : Used 168 registers, used 1 barriers\n"
        "ptxas info    : Compiling entry function 'b' for 'sm_90a'\n"
    )
    nvrtc = "ptxas         .     0 bytes stack frame, 0 bytes spill stores, 0 bytes spill loads\n"
    log = nvcc + nvrtc + "ptxas info    : Used 38 registers, used 0 barriers\n"
    assert usage(log) == {"a": Usage(168, 8, 4, 12), "b": Usage(38, 0, 0, 0)}
    assert usage("") == {}


# --- finding them -------------------------------------------------------------------------


@pytest.fixture
def nothing(monkeypatch):
    """A machine without any of NVIDIA's tools."""
    cached = (find.find_toolchain, find.find_program, find.wheel_folders, find.system_folders)
    monkeypatch.setattr(find, "wheel_folders", lambda: ())
    monkeypatch.setattr(find, "system_folders", lambda: ())
    for function in cached:
        function.cache_clear()
    yield monkeypatch
    for function in cached:
        function.cache_clear()


def test_without_compilers_the_command_that_installs_one_is_named(nothing, tmp_path):
    for call in (
        lambda: compile_cubin(SOURCE, "sm_90a", folder=tmp_path),
        lambda: compilers.disassemble(b""),
    ):
        with pytest.raises(CompileError) as refused:
            call()
        assert refused.value.remedy == "pip install 'exogpu[cuda]'"


def test_wheels_come_before_the_system(nothing, tmp_path):
    """And an nvcc that does not run, or has no ptxas, is none."""
    for name, version in (("wheel", "13.5"), ("system", "12.0"), ("broken", None)):
        folder = tmp_path / name / "bin"
        folder.mkdir(parents=True)
        tools = ("nvcc",) if name == "broken" else ("nvcc", "ptxas")
        for tool in tools:
            text = f"#!/bin/sh\necho 'Cuda compilation tools, release {version}, V{version}.1'\n"
            (folder / tool).write_text(text)
            (folder / tool).chmod(0o755)
    nothing.setattr(find, "system_folders", lambda: (tmp_path / "broken", tmp_path / "system"))
    assert find.find_toolchain().version == "nvcc 12.0"
    find.find_toolchain.cache_clear()
    nothing.setattr(find, "wheel_folders", lambda: (tmp_path / "wheel",))
    assert find.find_toolchain().version == "nvcc 13.5"
    assert find.find_program("ptxas") == tmp_path / "wheel" / "bin" / "ptxas"


# --- the doctor ---------------------------------------------------------------------------


@pytest.mark.slow
def test_the_doctor_says_what_is_missing_and_how_to_get_it(nothing):
    found = {f.part: f for f in doctor.examine()}
    for part in ("NVRTC", "nvcc", "ptxas", "nvdisasm", "cuobjdump"):
        assert found[part].state == "not installed"
        assert found[part].repair == "pip install 'exogpu[cuda]'"
        assert not found[part].needed  # checking needs no CUDA
    assert found["cache"].state.endswith("compiled")


@needs_compiler
def test_the_doctor_names_the_compiler_that_is_used():
    states = [f.state for f in doctor.examine() if f.part in ("NVRTC", "nvcc")]
    assert any(TOOLCHAIN.version in state for state in states)


def test_the_doctor_names_gpus_or_why_there_are_none():
    (gpu, *_) = [f for f in doctor.examine() if f.part == "GPU"]
    assert "sm_" in gpu.state or gpu.repair
