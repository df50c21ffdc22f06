"""What every newcomer types first: it works, or the message has its place and its remedy."""

from __future__ import annotations

from pathlib import Path
from textwrap import indent

import pytest
from typer.testing import CliRunner

from exogpu.cli.commands import app

HEAD = """from __future__ import annotations
from exogpu import *
from exogpu.isa.sm90 import Sm90_tma_load

TK = 64


@proc
def k(%s):
"""
PARAMETERS = "M: size, x: f32[256 * M] @ CudaGmemLinear"
KERNEL = """    with CudaDeviceFunction(blockDim=256):
        for b in cuda_tasks(0, M):
            for t in cuda_threads(0, 256, unit=cuda_thread):
"""


@pytest.fixture
def told(tmp_path, monkeypatch):
    monkeypatch.chdir(tmp_path)

    def check(text: str | bytes, *arguments: str, name: str = "kernel.py") -> str:
        data = text.encode() if isinstance(text, str) else text
        Path(name).write_bytes(data)
        result = CliRunner().invoke(app, ["check", name, *arguments])
        assert result.exit_code in (0, 1, 2) and "Traceback" not in result.output
        return result.output

    return check


def kernel(body: str, parameters: str = PARAMETERS) -> str:
    """A kernel with these statements of a thread."""
    return HEAD % parameters + KERNEL + indent(body, " " * 16)


WORKS = {
    "a control value has a name": "i = 256 * b + t\nx[i] = 0.0\n",
    "an integer has a name": "i0 = 4 * 64\nx[i0 * b + t] = 0.0\n",
    "several names in an unrolled loop": "for i, d in enumerate((0, 0)):\n    x[256 * b + t] = d\n",
    "nested ones": "for i, (c, d) in enumerate([(1, 2)]):\n    x[256 * b + t] = c + d\n",
    "names of a dictionary": "for n, c in {'a': 1}.items():\n    x[256 * b + t] = c\n",
}


@pytest.mark.parametrize("body", WORKS.values(), ids=WORKS.keys())
def test_what_works(told, body):
    assert "proved for all sizes" in told(kernel(body))


REFUSED = {
    "i: i32 = 256 * b + t": ("P115", 13, "write i = 256 * b + t"),
    "i: index = 256 * b + t": ("P115", 13, "write i = 256 * b + t"),
    "i = blockIdx.x * 256 + threadIdx.x": ("P102", 13, "for b in cuda_tasks(0, n)"),
    "i = t\ni = i + 1": ("T201", 14, "give another one another name"),
    "for s in (0,):\n    s += 1": ("P102", 14, "s: f32 @ CudaRmem"),
    "n = 0.5": ("P102", 13, "outside of the procedure"),
    "acc = 0\nacc += x[0]": ("P102", 14, "acc: f32 @ CudaRmem"),
    "acc = 0.0": ("P102", 13, "acc: f32"),
    "acc: float32 @ CudaRmem": ("T211", 13, "write f32"),
    "acc: f32 @ CudaRmen": ("P102", 13, "did you mean CudaRmem?"),
    "acc: half[4] @ CudaRmem": ("T211", 13, "write f16[4]"),
    "for i, d in seq(0, 4):\n    x[0] = 0.0": ("P116", 13, "nest a loop for each"),
    "for i, d in ((1, 2, 3),):\n    x[0] = 0.0": ("P116", 13, "as many names"),
    "for i, d in (1, 2):\n    x[0] = 0.0": ("P116", 13, "as many names"),
    "for i in range(TK / 16):\n    x[0] = 0.0": ("P103", 13, "write //"),
    "for i in range(M):\n    x[0] = 0.0": ("P117", 13, "write seq(0, M)"),
    "for i in sequ(0, M):\n    x[0] = 0.0": ("P117", 13, "did you mean seq?"),
    "for i in seq(M):\n    x[0] = 0.0": ("P120", 13, "write seq(0, M)"),
    "fence(cuda_in_order, cuda_in_order)": ("P102", 13, "did you mean Fence?"),
    "Fence(cuda_inorder, cuda_in_order)": ("P102", 13, "did you mean cuda_in_order?"),
    "for u in cuda_threads(0, 4, unit=cuda_threads):\n    pass": ("P102", 13, "cuda_thread?"),
    "__syncthreads()": ("P102", 13, "Fence(cuda_in_order, cuda_in_order)"),
}


@pytest.mark.parametrize("body", REFUSED)
def test_a_statement_is_refused_with_its_remedy(told, body):
    code, line, remedy = REFUSED[body]
    output = told(kernel(f"{body}\n"))
    assert f"kernel.py:{line}:" in output and f"error {code}: " in output
    assert remedy in output[output.index("remedy: ") :], output


TYPES = {
    "M: int": "M: size",
    "M: size, y: float[M]": "write f32[M]",
    "M: size, y: double[M, 2] @ CudaGmemLinear": "write f64[M, 2]",
    "M: size, y: f32[M] @ CudaGmemLiner": "did you mean CudaGmemLinear?",
    "M: sise": "did you mean size?",
    "M": "write n: size",
}


@pytest.mark.parametrize("given", TYPES)
def test_types_of_parameters(told, given):
    output = told(HEAD % given + "    pass\n")
    assert "kernel.py:9:" in output
    assert TYPES[given].replace("M: size", "size") in output[output.index("remedy: ") :], output


LAUNCHES = {
    "block_dim=256": "did you mean blockDim?",
    "blockdim=256": "did you mean blockDim?",
    "cluster_dim=2, blockDim=256": "did you mean clusterDim?",
    "threads=256": "it takes clusterDim, blockDim, warp_config",
    "256": "write CudaDeviceFunction(blockDim=256)",
    "": "blockDim=",
}


@pytest.mark.parametrize("given", LAUNCHES)
def test_what_describes_a_launch(told, given):
    output = told(kernel("x[256 * b + t] = 0.0\n").replace("blockDim=256", given, 1))
    assert "error P121" in output and LAUNCHES[given] in output[output.index("remedy: ") :]


def test_a_loop_over_tasks_that_is_spelt_otherwise(told):
    text = HEAD % PARAMETERS + KERNEL.replace("cuda_tasks(", "cuda_task(") + " " * 16 + "pass\n"
    assert "S312" in (shown := told(text))
    assert "did you mean cuda_tasks in place of cuda_task?" in shown


def test_the_unit_of_a_loop(told):
    output = told(kernel("x[256 * b + t] = 0.0\n").replace("unit=", "units="))
    assert "error T219: cuda_threads has no units" in output and "unit=cuda_thread" in output


TMA = """    w = x[:] @ Sm90_tensorMap(0, 8, 32)
    with CudaDeviceFunction(blockDim=32):
        for m in cuda_tasks(0, M):
            z: barrier @ CudaMbarrier
            s: f32[8, 32] @ CudaSmemLinear
            Sm90_tma_load(s[:, :], w[0:8, 0:32], rows=8, cols=32, %s) >> z
"""
MAPPED = {
    "box=128, swizzle=0": "such as box=(8, 32)",
    "boxes=(8, 32)": "did you mean box?",
    "box=(8, 32), swizzle=48": "32, 64 or 128 bytes",
    "box=(0, 32), swizzle=0": "such as Sm90_tensorMap(0, 8, 32)",
    "box=(8, 32)": "swizzle=0",
    "box=(4, 32), swizzle=0": "let w be made so, or give the call its swizzle and box",
    "**{'box': (8, 32)}": "write each by its name in place of **",
}


@pytest.mark.parametrize("given", MAPPED)
def test_parameters_of_a_tma_load(told, given):
    text = HEAD % "M: size, x: f32[M, 64] @ CudaGmemLinear" + TMA.replace("x[:]", "x[:, :]") % given
    output = told(text)
    assert MAPPED[given] in output and "has no len" not in output


def test_a_window_of_a_map_has_no_name(told):
    text = HEAD % "M: size, x: f32[M, 64] @ CudaGmemLinear"
    output = told(text + "    w = x[:, :] @ Sm90_tensorMap(0, 8, 32)\n    v = w[0:8, 0:32]\n")
    assert "error T218: w is a tensor map" in output
    assert "remedy: pass w[...] to the instruction that copies it" in output


def test_a_box_of_a_map_is_integers(told):
    for given in ("0, '8'", "0", "7, 8, 32"):
        text = HEAD % "M: size, x: f32[M, 64] @ CudaGmemLinear"
        output = told(text + f"    w = x[:, :] @ Sm90_tensorMap({given})\n")
        assert "error T221" in output and "mend this" not in output


def test_what_is_no_def(told):
    start = "from exogpu import *\n"
    outputs = [output := told(f"{start}@proc\nasync def k(M: size):\n    pass\n")]
    assert "k is an async function" in output and "remedy: write def" in output
    outputs += [output := told(f"{start}@proc\nclass k:\n    pass\n")]
    assert "class k is no function" in output and "kernel.py:2" in output
    outputs += [output := told(f"{start}k = proc(lambda M: None)\n")]
    assert "a lambda has no statements" in output
    assert not any("put the procedure into a file" in found for found in outputs)


def test_a_file_in_another_encoding(told, tmp_path):
    text = "# caf\xe9\nfrom exogpu import *\n@proc\ndef k(M: size):\n    pass\n"
    output = told(text.encode("latin-1"))
    assert "kernel.py:1:1: error X942" in output and "coding: latin-1" in output
    assert "proved" in told(f"# -*- coding: latin-1 -*-\n{text}".encode("latin-1"))
    assert "X942" in told(f"# -*- coding: no-such -*-\n{text}".encode("latin-1"))
    # A report says no more: there is a folder for what is known.
    Path("kernel.py").write_bytes(text.encode("latin-1"))
    result = CliRunner().invoke(app, ["report", "kernel.py", "-o", str(tmp_path / "out")])
    assert result.exit_code == 2 and result.output.count("error") == 1
    assert (tmp_path / "out" / "results.sarif").exists()


def test_a_module_that_is_imported_without_the_future_import(told):
    Path("helper_of_it.py").write_text(
        "from exogpu import *\n\n\n@proc\ndef inner(\n    M: size,\n):\n    pass\n"
    )
    output = told("from exogpu import *\nimport helper_of_it\n")
    assert "helper_of_it.py:6:8: error X944" in output
    assert "remedy: write `from __future__ import annotations`" in output
    # Another name that is missing is not told so.
    Path("helper_of_it.py").write_text("nothing\n")
    assert "future" not in told("import helper_of_it\n", name="other.py")


def test_an_instruction_that_is_not_imported_is_told_with_its_module(told):
    said = told(kernel("r: f32[4]\ncuda_store(x[0:4], r[:], n=4)\n"))
    assert "remedy: from exogpu.isa.cuda import cuda_store, if it is an instruction" in said
