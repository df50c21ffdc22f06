"""`exogpu check` of TTGIR and of Triton's kernels."""

from __future__ import annotations

import json
from pathlib import Path

import pytest
from typer.testing import CliRunner

from exogpu.cli.commands import app
from exogpu.importing import triton_compiler
from exogpu.importing.kernel_arguments import parse_call
from tests.importing.made import HERE, KERNELS

TRITON = pytest.mark.skipif(
    triton_compiler.triton_version() is None, reason="Triton is not installed"
)


def told(*arguments: str) -> tuple[int, str]:
    result = CliRunner().invoke(app, ["check", "--no-cache", *arguments])
    return result.exit_code, result.output


def test_a_file_of_ttgir_is_checked():
    status, output = told(str(KERNELS[0].path))
    assert status == 0 and "proved for all sizes" in output and "trip count at line" in output


def test_json_has_the_assumptions_and_remarks():
    status, output = told("--json", str(KERNELS[0].path))
    (found,) = json.loads(output)
    assert status == 0 and found["verdict"] == "proved"
    assert found["assumptions"] and found["remarks"]


def test_a_folder_of_ttgir_is_checked(tmp_path):
    for made in KERNELS[:2]:
        (tmp_path / made.path.name).write_text(made.text)
    status, output = told(str(tmp_path))
    assert status == 0 and "2 procedures: 2 proved" in output


def test_what_is_no_ttgir_is_undecided(tmp_path):
    (tmp_path / "other.ttgir").write_text("module attributes {ttg.shared = 0 : i32} {\n what\n}\n")
    status, output = told(str(tmp_path / "other.ttgir"))
    assert status == 3 and "K101" in output


def test_without_triton_the_command_says_what_to_install(monkeypatch):
    monkeypatch.setattr(triton_compiler, "triton_version", lambda: None)
    made = KERNELS[0]
    path = HERE / "kernels" / made.file
    status, output = told(f"{path}::{made.kernel}", "--args", made.arguments)
    assert status == 3 and "K106" in output and "pip install 'exogpu[triton]'" in output


def test_arguments_that_are_not_understood_are_told():
    status, output = told(f"{HERE / 'kernels' / 'plain.py'}::matmul", "--args", "A=1, A=2")
    assert status == 3 and "K109" in output


@TRITON
@pytest.mark.parametrize("made", KERNELS, ids=lambda made: made.kernel)
def test_a_kernel_of_a_python_file_is_compiled_and_checked(made):
    path = HERE / "kernels" / made.file
    warps = ["--num-warps", str(made.num_warps), "--num-stages", "3"]
    status, output = told(f"{path}::{made.kernel}", "--args", made.arguments, *warps)
    assert status == 0 and "proved for all sizes" in output


@TRITON
@pytest.mark.parametrize("made", [KERNELS[0], KERNELS[2]], ids=lambda made: made.kernel)
def test_what_triton_keeps_in_its_cache_gets_its_barriers(made, tmp_path):
    path, options = HERE / "kernels" / made.file, {"num_warps": made.num_warps}
    call = parse_call(made.arguments)
    ((_, kept),) = triton_compiler.compile_all(path, made.kernel, call, options, 90, barriers=False)
    assert isinstance(kept, triton_compiler.Compiled) and "allocation.offset" not in kept.ttgir
    (tmp_path / "kept.ttgir").write_text(kept.ttgir)
    status, output = told(str(tmp_path))
    assert status == 0 and "the lowering of Triton 3.9" in output
    (tmp_path / "kept.ptx").write_text(kept.ptx)
    status, output = told(str(tmp_path))
    assert status == 0 and "the lowering of Triton" not in output


@TRITON
def test_statements_beside_the_kernel_may_want_a_gpu(tmp_path):
    """An import ahead of the kernel may not stop."""
    source = (HERE / "kernels" / "plain.py").read_text()
    wants = "raise RuntimeError('no GPU')\n"
    (tmp_path / "after.py").write_text(f"{source}\n{wants}")
    (tmp_path / "ahead.py").write_text(f"{wants}{source}")
    (tmp_path / "stops.py").write_text(f"import no_such_module\n{source}")
    arguments = ["--args", KERNELS[5].arguments, "--num-stages", "3"]
    for name in ("after", "ahead"):
        status, output = told(f"{tmp_path / name}.py::matmul", *arguments)
        assert status == 0 and "proved for all sizes" in output
    status, output = told(f"{tmp_path / 'stops.py'}::matmul", *arguments)
    assert status == 3 and "K107" in output and "no_such_module" in output


@TRITON
def test_all_configurations_of_a_tuned_kernel_are_checked():
    path = HERE / "kernels" / "plain.py"
    status, output = told(f"{path}::row_norms", "--args", "fp32[64, 4096], fp32[64], 4096")
    assert status == 0 and "4 procedures: 4 proved" in output


def test_a_kernel_without_arguments_is_told_how_to_give_them(tmp_path):
    path = HERE / "kernels" / "plain.py"
    status, output = told(f"{path}::matmul")
    assert status == 3 and "K109" in output and "a, b, c, m, n, k" in output
    assert f'exogpu check {path}::matmul --args "' in output
    status, output = told(str(path))
    assert status == 3 and output.count("K109") == 5 and "plain.py:8" in output


@TRITON
def test_statements_before_the_kernel_may_want_a_gpu(tmp_path):
    """A name that such a statement binds has no value, so a kernel that uses it is refused."""
    source = (HERE / "kernels" / "plain.py").read_text()
    head = "import torch\nassert torch.cuda.is_available()\nthis_gpu()\nLEAST = 8\n"
    head += "if torch.cuda.get_device_capability()[0] >= 9:\n    LEAST = this_gpu()\n"
    (tmp_path / "asserts.py").write_text(head + source)
    (tmp_path / "uses.py").write_text(head + source.replace("left = k -", "left = k + LEAST -"))
    (tmp_path / "binds.py").write_text("\nfrom this_gpu import block\n" + source)
    arguments = ["--args", KERNELS[5].arguments, "--num-stages", "3"]
    status, output = told(f"{tmp_path / 'asserts.py'}::matmul", *arguments)
    assert status == 0 and "proved for all sizes" in output
    status, output = told(f"{tmp_path / 'uses.py'}::matmul", *arguments)
    assert status == 3 and "K108" in output
    status, output = told(f"{tmp_path / 'binds.py'}::matmul", *arguments)
    assert status == 3 and "K107" in output and "binds.py:2:1" in output


@TRITON
def test_definitions_before_the_kernel_may_want_a_gpu(tmp_path):
    """A kernel that calls a function whose definition stopped is refused."""
    source = (HERE / "kernels" / "plain.py").read_text()
    head = "@this_gpu(9)\ndef scaled(n):\n    return n\n"
    (tmp_path / "defines.py").write_text(head + source)
    (tmp_path / "calls.py").write_text(head + source.replace("left = k -", "left = scaled(k) -"))
    arguments = ["--args", KERNELS[5].arguments, "--num-stages", "3"]
    status, output = told(f"{tmp_path / 'defines.py'}::matmul", *arguments)
    assert status == 0 and "proved for all sizes" in output
    status, output = told(f"{tmp_path / 'calls.py'}::matmul", *arguments)
    assert status == 3 and "K108" in output


@TRITON
def test_arguments_that_heuristics_compute_need_not_be_given():
    path = HERE / "kernels" / "plain.py"
    status, output = told(f"{path}::add_rows", "--args", "fp32[64, 4096], fp32[64, 4096], 4096")
    assert status == 0 and "proved for all sizes" in output


@TRITON
def test_a_file_without_the_kernel_is_told(tmp_path: Path):
    (tmp_path / "empty.py").write_text("x = 1\n")
    status, output = told(f"{tmp_path / 'empty.py'}::kernel", "--args", "")
    assert status == 3 and "K107" in output


@TRITON
def test_what_triton_says_is_told():
    path = HERE / "kernels" / "plain.py"
    status, output = told(f"{path}::matmul", "--args", "fp16[8, 8]")
    assert status == 3 and "K108" in output
