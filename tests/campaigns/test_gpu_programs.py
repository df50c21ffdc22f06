"""Random programs in source form: well-formed, the same for a seed, with every feature in some."""

from __future__ import annotations

import ast

import pytest

from campaigns.gpu import emitting, programs
from campaigns.gpu.page import PROVED
from exogpu.codegen.toolchain import find_toolchain
from exogpu.diagnostics.errors import ExoGpuError
from exogpu.gpu_trial.run_data import read_packed

FEATURES = {
    *("unit: odd groups", "unit: strided threads", "unit: quadpairs", "unit: chosen warps"),
    *("unit: shifted threads", "unit: groups of warps", "unit: warpgroups", "fence of 4 lanes"),
    *("cluster multicast", "multicast arrive", "cluster sync", "roles", "setmaxnreg", "ring"),
    *("ring of 1", "ring of 4", "cp.async by groups", "cp.async by fence", "cp.async by mbarrier"),
    *("cp.async 3 ahead", "cp.async with zero fill", "TMA load", "TMA store", "TMA reduce"),
    *("swizzle 0", "swizzle 32", "swizzle 64", "swizzle 128", "TMA box beyond the tensor"),
    *("wgmma SS", "wgmma RS", "wgmma ring", "accumulator staged for TMA", "mma.sync f16", "exp"),
    *("register tiles", "several kernels", "CPU loops", "CPU conditions", "memset"),
    *("aliasing of shared memory", "needless fences", "mutated", "ragged tasks", "shuffles"),
    *("two loops over tasks", "exchange in global memory", "split barrier", "vectors of 16 bytes"),
    *(f"type {t}" for t in ("f16", "bf16", "f32", "f64", "i8", "i32", "i64", "ui8", "ui16")),
}


def test_a_seed_gives_the_same_program():
    one, two = programs.generated(17), programs.generated(17)
    assert one == two and one != programs.generated(18)
    assert len({programs.generated(seed).source for seed in range(50)}) == 50


def test_every_feature_is_in_some_programs():
    every = frozenset().union(*(programs.generated(seed).features for seed in range(800)))
    assert not FEATURES - every


def test_sizes_are_three_and_small():
    for seed in range(100):
        program = programs.generated(seed)
        assert len(program.sizes) == 3
        parameters = ast.parse(program.source).body[-1].args.args
        names = [p.arg for p in parameters if ast.unparse(p.annotation) == "size"]
        assert all(list(sizes) == names and min(sizes.values()) >= 1 for sizes in program.sizes)


def test_most_programs_are_well_formed(tmp_path):
    """What is not is a gap between the generator and the language, and hides what it is for."""
    wrong = []
    for seed in range(16):
        try:
            wrong += emitting.procedure_of(programs.generated(seed), tmp_path).diagnostics[:1]
        except ExoGpuError as error:
            wrong += error.diagnostics[:1]
    assert len(wrong) <= 2, wrong


@pytest.mark.skipif(find_toolchain() is None, reason="no NVRTC or nvcc here")
def test_programs_are_packed_with_their_values(tmp_path):
    """Those of one kernel, in f32: the first three."""
    seen = 0
    for seed in range(200):
        program = programs.generated(seed)
        kinds = {f for f in program.features if f.startswith("type")}
        if kinds != {"type f32"} or program.features & {"mutated", "swizzle 0", "2 pieces"}:
            continue
        result = emitting.emit_one(f"{tmp_path}:{seed}")
        if result["state"] != "packed":
            assert result["state"] in ("no lowering", "refuted", "ill-formed"), result
            continue
        packed = read_packed(tmp_path / f"fuzz_{seed}.zip")
        assert packed.source == program.source
        assert [dict(at.sizes) for at in packed.at] == list(program.sizes)
        assert all(at.wanted for at in packed.at)
        seen += 1
        if seen == 3:
            return
    raise AssertionError("hardly a program is packed")


def test_what_fails_has_a_state_of_its_own(tmp_path, monkeypatch):
    """Neither crash nor refusal passes for a program that was not proved."""

    def state(source):
        program = programs.Program("fuzz_0", programs.HEAD + source, frozenset(), ({"M": 1},))
        return emitting.emit_program(program, tmp_path)["state"]

    launch = "    with CudaDeviceFunction(blockDim=32):\n        for m in cuda_tasks(0, M):\n"
    head = "def fuzz_0(M: size, x: f32[M, 32] @ CudaGmemLinear):\n" + launch
    loop = "            for t in cuda_threads(0, 32, unit=cuda_thread):\n                "
    assert state(head + loop + "y[m, t] = 0\n") == "ill-formed"
    assert state(head + loop + "x[0, t] = 0\n") == "refuted"
    assert state(head + loop + "pass\n            Fence(tma_to_smem_async, cuda_in_order)\n") == (
        "no lowering"
    )

    def broken(*args, **kwargs):
        raise KeyError("ours")

    monkeypatch.setattr(emitting, "pack", broken)
    assert state(head + loop + "x[m, t] = 0\n") == "crash"
    assert {"crash", "no lowering"} <= set(PROVED)
