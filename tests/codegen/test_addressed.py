"""Which registers are indexed at run time: ptxas puts them into memory, and a warning says so."""

from __future__ import annotations

from pathlib import Path

import pytest
from typer.testing import CliRunner

from exogpu import Procedure, proc
from exogpu.cli.commands import app
from exogpu.codegen.toolchain import find_toolchain, held_up

HEAD = "from __future__ import annotations\nfrom exogpu import *\n\n\n@proc\n"


def sums(n: int, index: str) -> str:
    """Each thread adds to one of its registers."""
    return (
        f"def sums(K: size, x: f32[K] @ CudaGmemLinear, y: f32[32, {n}] @ CudaGmemLinear):\n"
        "    with CudaDeviceFunction(blockDim=32):\n"
        "        for task in cuda_tasks(0, 1):\n"
        f"            r: f32[32, {n}]\n"
        "            for t in cuda_threads(0, 32, unit=cuda_thread):\n"
        f"                for j in seq(0, {n}):\n"
        "                    r[t, j] = 0.0\n"
        "                for k in seq(0, K):\n"
        f"                    r[t, {index}] += x[k]\n"
        f"                for j in seq(0, {n}):\n"
        "                    y[t, j] = r[t, j]\n"
    )


def made(text: str, folder: Path) -> Procedure:
    file = folder / "sums.py"
    file.write_text(HEAD + text)
    space: dict[str, object] = {}
    exec(compile(file.read_text(), str(file), "exec"), space)
    found = space["sums"]
    assert isinstance(found, Procedure)
    return found


@pytest.mark.parametrize(
    ("n", "index", "told"),
    [
        (16, "k % 16", "its index has k"),
        (16, "(k + K) % 16", "its index has K and k"),
        (16, "3", ""),
        (1, "k % 1", ""),  # which is 0
    ],
)
def test_the_index_tells(n: int, index: str, told: str, tmp_path: Path) -> None:
    found = made(sums(n, index), tmp_path).emit()[0].addressed
    assert [(one.code, told in one.message) for one in found] == ([("G816", True)] if told else [])
    assert all(f"r[t, {index}] +=" in one.span.text for one in found)


def test_the_iterators_of_unrolled_loops_and_of_threads_are_no_addresses(tmp_path: Path) -> None:
    text = sums(16, "8 * a + b").replace(
        "                for k in seq(0, K):\n",
        "                for a in seq(0, 2):\n                  for b in seq(0, 8):\n"
        "                   for k in seq(0, K):\n",
    )
    assert made(text, tmp_path).emit()[0].addressed == ()


def test_the_thread_is_an_address() -> None:
    """One in four of a thread's own registers; and of those that it has for its half, none."""

    @proc
    def chosen(x: f32[32] @ CudaGmemLinear):
        with CudaDeviceFunction(blockDim=32):
            for task in cuda_tasks(0, 1):
                for t in cuda_threads(0, 32, unit=cuda_thread):
                    r: f32[4]
                    half: f32[4]
                    for j in seq(0, 4):
                        r[j] = x[j]
                        half[(32 * j + t) / 32] = x[4 + j]
                    x[t] = r[t % 4] + half[t / 32]

    (found,) = chosen.emit(unchecked=True)[0].addressed
    assert found.message.startswith("r is in local memory") and "index has t" in found.message


def test_a_window_tells_where_it_is_made() -> None:
    @proc
    def windows(K: size, y: f32[32, 16] @ CudaGmemLinear):
        with CudaDeviceFunction(blockDim=32):
            for task in cuda_tasks(0, 1):
                r: f32[32, 16, 2]
                for t in cuda_threads(0, 32, unit=cuda_thread):
                    for k in seq(0, K):
                        w = r[t, k % 16, :]
                        w[0] = 1.0
                        w[1] = 2.0
                    for j in seq(0, 16):
                        y[t, j] = r[t, j, 0] + r[t, j, 1]

    (found,) = windows.emit(unchecked=True)[0].addressed
    assert found.message.startswith("r is in local memory")


@pytest.mark.skipif(find_toolchain() is None, reason="there is no CUDA compiler")
def test_it_is_said_of_what_lies_in_memory_alone(tmp_path, monkeypatch) -> None:
    """Of two registers ptxas chooses one without an address."""
    monkeypatch.chdir(tmp_path)
    for n, said in ((2, False), (16, True)):
        (tmp_path / "k.py").write_text(HEAD + sums(n, f"k % {n}"))
        ran = CliRunner().invoke(app, ["compile", "k.py", "-o", "build", "--cubin"])
        assert ran.exit_code == 0
        assert ("warning G816" in ran.output) is said
        assert ("bytes of local memory" in ran.output) is said


def test_what_ptxas_says_of_wgmma_is_found_in_its_log() -> None:
    """Once each, by kernel."""
    said = "wgmma.mma_async instructions are serialized due to {} in function 'a'\n"
    serialized = "ptxas info    : (C7510) Potential Performance Loss: " + said
    log = (
        serialized.format("insufficient register resources for the wgmma pipeline")
        + serialized.format("insufficient register resources for the wgmma pipeline")
        + "ptxas info    : (C7517) wgmma.wait_group is injected in around line 290 by compiler to "
        "allow use of registers defined by GMMA in function 'b'\n"
        "ptxas info    : Compiling entry function 'a' for 'sm_90a'\n"
    )
    assert list(held_up(log)) == ["a", "b"]
    (only,) = held_up(log)["a"]
    assert only.endswith("insufficient register resources for the wgmma pipeline (C7510)")
    assert held_up("") == {}


def test_an_older_ptxas_has_other_words() -> None:
    """That of CUDA 13.0; an arrival makes nothing wait."""
    of_13_0 = "is injected in around line 292 by compiler to allow use of registers"
    log = (
        f"ptxas info    : (C7519) warpgroup.arrive {of_13_0} in GMMA in function 'a'\n"
        f"ptxas info    : (C7517) warpgroup.wait {of_13_0} defined by GMMA in function 'a'\n"
    )
    assert held_up(log) == {"a": (f"warpgroup.wait {of_13_0} defined by GMMA (C7517)",)}
