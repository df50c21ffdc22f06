"""Every instruction of the catalogue, and a user's, gets a kernel that shows what it does."""

from __future__ import annotations

from itertools import islice

import pytest
from typer.testing import CliRunner

from exogpu.cli import gpu_commands
from exogpu.cli.commands import app
from exogpu.cli.loader import load
from exogpu.codegen.toolchain import find_toolchain
from exogpu.diagnostics.errors import ExoGpuError
from exogpu.frontend.instructions import InstructionTemplate
from exogpu.gpu_trial.instruction_kernels import NotTried, copies_alone, program, variants
from exogpu.gpu_trial.pool import Result
from exogpu.gpu_trial.run_data import at_sizes
from exogpu.isa import cuda, f8, i8, ldmatrix, mn_major, sm80, sm90

CATALOGUE = {
    name: (value, module.__name__)
    for module in (cuda, sm80, sm90, mn_major, f8, i8, ldmatrix)
    for name, value in vars(module).items()
    if isinstance(value, InstructionTemplate)
}

MINE = '''\
from __future__ import annotations
from exogpu.frontend.instructions import instr
from exogpu.hw.operands import CUDA_MEMORY, CUDA_REGISTER
from exogpu.hw.units import cuda_thread


@instr(unit=cuda_thread, dst=CUDA_MEMORY, src=CUDA_REGISTER, template="*({dst}) = ({src})[0];")
def store_some(count: index, dst: f32[n] @ CudaDeviceVisibleLinear, src: f32[n] @ CudaRmem, *, n=4):
    """A thread writes the first `count` of n adjacent elements."""
    assert n % 2 == 0
    for i in seq(0, n):
        if i < count:
            dst[i] = src[i]
'''

MINE_COPY = """\
from __future__ import annotations
from exogpu import *


@proc
def copy(M: size, x: f32[M, 32] @ CudaGmemLinear, y: f32[M, 32] @ CudaGmemLinear):
    for m in seq(0, M):
        with CudaDeviceFunction(blockDim=32):
            for task in cuda_tasks(0, 1):
                for t in cuda_threads(0, 32, unit=cuda_thread):
                    y[m, t] = x[m, t]
"""


def read(source, file):
    file.write_text(source)
    (unit,) = load(str(file))
    return unit.procedure


@pytest.mark.parametrize("name", CATALOGUE)
def test_some_variant_of_each_is_well_formed(name, tmp_path):
    template, module = CATALOGUE[name]
    if name == "cuda_pick":  # tests/kernels/test_losses_and_scans.py emulates it
        with pytest.raises(NotTried, match="depend on an argument"):
            program(next(iter(variants(template, {}))), "trial", "")
        return
    for number, variant in enumerate(islice(variants(template, {}), 60)):
        source = program(variant, f"trial_{number}", f"from {module} import {name}")
        assert f"{name}(" in source
        procedure = read(source, tmp_path / f"trial_{number}.py")
        if procedure is not None and not procedure.diagnostics:
            return
    raise AssertionError(f"no variant of {name} is well-formed")


def test_variants_are_the_same_each_time_and_take_all_values():
    template = CATALOGUE["cuda_shfl_xor"][0]
    first = [str(v) for v in variants(template, {})]
    assert first == [str(v) for v in variants(template, {})]
    assert all(any(f"mask={mask}," in text for text in first) for mask in (1, 2, 4, 8, 16))
    masks = {dict(v.constants)["mask"] for v in variants(template, {"mask": (4,)})}
    assert masks == {4}


def test_an_operand_is_tried_in_each_memory_that_it_admits():
    found = {v.places for v in variants(CATALOGUE["cuda_load"][0], {})}
    assert found == {("own", "global"), ("own", "shared")}


def test_what_is_written_starts_from_other_numbers(tmp_path):
    """So that what the instruction must not touch is seen."""
    path = tmp_path / "mine.py"
    path.write_text(MINE)
    ((template, header),) = gpu_commands.instructions(str(path))
    variant = next(v for v in variants(template, {}) if v.places[0] == "shared")
    source = program(variant, "trial", header)
    assert "dst_s[(t" in source and "dst_out" in source and "dst_in" in source
    assert read(source, tmp_path / "trial.py").check().word == "proved"


def test_an_instruction_of_an_unknown_unit_is_told(tmp_path):
    path = tmp_path / "mine.py"
    path.write_text(MINE.replace("cuda_thread", "cuda_quadpair"))
    ((template, header),) = gpu_commands.instructions(str(path))
    with pytest.raises(NotTried, match="cuda_quadpair"):
        program(next(iter(variants(template, {}))), "trial", header)


@pytest.mark.parametrize(
    ("result", "said"),
    [
        ({"runs": 2, "wrong": []}, ""),
        ({"hang": 60}, "hangs"),
        ({"died": "exit status -9"}, "died"),
        ({"runs": 2, "wrong": [{"sizes": {"M": 1}, "what": "y: 3 of 4"}]}, "y: 3 of 4"),
    ],
)
def test_only_a_right_run_is_right(result: Result, said, tmp_path):
    assert (said in gpu_commands.wrongs(result)) and bool(said) == bool(gpu_commands.wrongs(result))
    variant = next(iter(variants(CATALOGUE["cuda_load"][0], {})))
    found = gpu_commands.Instruction("cuda_load", {tmp_path: variant})
    told = gpu_commands.describe_results(found, {str(tmp_path): result}, "")
    assert told.right == (not said) and ("1 of 1 right" in told.text) == (not said)


def test_what_was_not_run_is_not_called_right(tmp_path):
    variant = next(iter(variants(CATALOGUE["cuda_load"][0], {})))
    found = gpu_commands.Instruction("cuda_load", {tmp_path: variant})
    told = gpu_commands.describe_results(found, {}, "there is no GPU")
    assert "none run" in told.text and not told.ran
    found = gpu_commands.Instruction("cuda_load", broken={"cuda_load()": "error: odd"})
    assert not gpu_commands.describe_results(found, {}, "").right


def test_values_on_the_command_line():
    assert gpu_commands.parse_values(["n=4,8", "lane=-1"]) == {"n": (4, 8), "lane": (-1,)}
    for wrong in ("n", "n=", "n=x", "1=2"):
        with pytest.raises(ExoGpuError):
            gpu_commands.parse_values([wrong])


@pytest.mark.skipif(find_toolchain() is None, reason="no NVRTC or nvcc here")
def test_without_a_gpu_nothing_is_run_and_the_status_says_so(tmp_path, monkeypatch):
    monkeypatch.setattr(gpu_commands, "_why_not", lambda: "there is no GPU")
    path = tmp_path / "mine.py"
    path.write_text(MINE)
    kept = tmp_path / "kept"
    words = ["trial", str(path), "--most", "1", "--with", "n=2", "-o", str(kept)]
    done = CliRunner().invoke(app, words)
    assert done.exit_code == 3, done.output
    assert done.output == "store_some: 1 compiled, none run\n"
    assert len(list(kept.glob("*.zip"))) == 1


def test_a_target_without_instructions(tmp_path):
    path = tmp_path / "none.py"
    path.write_text("x = 1\n")
    done = CliRunner().invoke(app, ["trial", str(path)])
    assert done.exit_code == 2


def test_copies_are_tried_with_fractions_too(tmp_path):
    copies = ("cuda_load", "cuda_shfl_down", "Sm80_cp_async_copy_zfill", "Sm90_tma_load")
    assert all(copies_alone(next(variants(CATALOGUE[n][0], {}))) for n in copies)
    arithmetic = ("Sm80_mma_tf32", "Sm80_store_D", "Sm90_tma_reduce")
    assert not any(copies_alone(next(variants(CATALOGUE[n][0], {}))) for n in arithmetic)
    procedure = read(MINE_COPY, tmp_path / "copy.py")
    whole, other = (at_sizes(procedure, {"M": 2}, 1, fractions=f) for f in (False, True))
    assert (whole.given["x"] % 1 == 0).all() and (other.given["x"] % 1 != 0).any()


def test_a_failure_of_ours_costs_one_variant(tmp_path, monkeypatch):
    def broken(*args, **kwargs):
        raise KeyError("ours")

    monkeypatch.setattr(gpu_commands, "pack", broken)
    template, module = CATALOGUE["cuda_shfl_idx"]
    header = f"from {module} import cuda_shfl_idx"
    found = gpu_commands.emit(template, header, tmp_path, 2, {"lane": (3,)}, "sm_90a")
    assert len(found.broken) == 2 and not found.packed
    told = gpu_commands.describe_results(found, {}, "")
    assert not told.right and "exogpu failed: KeyError" in told.text
