"""The examples of codes: what is wrong there is found, and with the repair it is gone."""

from __future__ import annotations

import re
from collections.abc import Iterator
from pathlib import Path
from textwrap import dedent, indent

import pytest
from code_calls import BODIES, CALLS
from code_frames_kernels import KERNELS
from code_frames_language import READ
from code_scenes import SCENES, TEXTS
from typer.testing import CliRunner

from exogpu.cli.commands import app
from exogpu.cli.loader import load
from exogpu.diagnostics.codes import CODES
from exogpu.diagnostics.codes.parsing_codes import PARSING
from exogpu.diagnostics.codes.scope_codes import SCOPES
from exogpu.diagnostics.codes.type_codes import TYPES

EXAMPLES = {**PARSING, **SCOPES, **TYPES}
"""Those that are of one statement, or a few, with the same repaired."""

PLACED = sorted(EXAMPLES.keys() - READ.keys() - {"P101"})
"""Those of which the comments say enough of what stands around them."""

NOT_APPLIED: dict[str, str] = {
    code: "a kernel of Triton: tests/importing draws each" for code in CODES if code[0] == "K"
}
"""Codes whose repair no test applies, and why."""

HEAD = """from __future__ import annotations
from exogpu import *
from exogpu.isa.cuda import *
from exogpu.isa.sm80 import *
from exogpu.isa.sm90 import *

TILES = {"K": 8}

"""
CALLED = """
@proc
def copy(n: size, x: f32[n] @ DRAM):
    pass


@macro
def clear(x):
    x[0] = 0.0


@instr(dst=CUDA_REGISTER, src=CUDA_MEMORY)
def load(dst: f32[4, 32] @ CudaRmem, src: f32[4, 32] @ CudaGmemLinear):
    for i in seq(0, 4):
        for j in seq(0, 32):
            dst[i, j] = src[i, j]

"""
PLACES = {
    "host": ("x: f32[n] @ DRAM, y: f32[n] @ DRAM", ""),
    "host loop": (
        "x: f32[n] @ DRAM, y: f32[n] @ DRAM",
        "for i in seq(0, n):\n    for j in seq(0, n):\n",
    ),
    "launch": (
        "x: f32[n] @ CudaGmemLinear, y: f32[n] @ CudaGmemLinear",
        "with CudaDeviceFunction(blockDim=128):\n    for task in cuda_tasks(0, 1):\n",
    ),
    "warp group": (
        "x: f32[n] @ CudaGmemLinear, y: f32[n] @ CudaGmemLinear",
        'with CudaDeviceFunction(warp_config=[CudaWarpConfig("consumer", 4, 0, 0)]):\n'
        "    for task in cuda_tasks(0, 1):\n",
    ),
    "thread": (
        "x: f32[n] @ CudaGmemLinear, y: f32[n] @ CudaGmemLinear",
        "with CudaDeviceFunction(blockDim=128):\n    for task in cuda_tasks(0, 1):\n"
        "        for i in cuda_threads(0, 128, unit=cuda_thread):\n",
    ),
}
BARRIERS = {
    name: f"{name}: barrier @ CudaMbarrier" for name in ("z", "full", "empty", "tile_full")
} | {"cg": "cg: barrier @ CudaCommitGroup", "tile": "tile: f32[64, 32] @ CudaSmemLinear"}


def modules(snippet: str, told: str) -> Iterator[str]:
    """Files that have the snippet in them, each in another place; what comments declare is so."""
    text = dedent(snippet).replace(": ...", ": pass").replace("    ...", "    pass")
    if re.search(r"^(def|@proc|@instr)", text, re.M):
        yield HEAD + CALLED + re.sub(r"^(?<!@proc\n)def ", "@proc\ndef ", text, flags=re.M) + "\n"
    if text.startswith("CudaDeviceFunction("):
        text = f"with {text.partition('  #')[0]}:\n    for task in cuda_tasks(0, 1):\n        pass"
    declared = dict(
        re.findall(
            r"(\w+): ((?:\w+(?:\[[^\]]*\])?)(?: @ \w+)?)",
            "\n".join(line.partition("#")[2] for line in told.splitlines()),
        )
    )
    for parameters, around in PLACES.values():
        if "n" in declared:
            parameters = parameters.replace("[n]", "[64]")
        where = "DRAM" if "DRAM" in parameters else "CudaGmemLinear"
        given, inner = dict(re.findall(r"(\w+): ([^@]+ @ \w+)(?:, )?", parameters)), {}
        for name, kind in declared.items():
            if kind in ("size", "index"):
                continue
            if kind.startswith("barrier") or name == "tile":
                inner[name] = f"{name}: {kind}"
            else:
                given[name] = kind if "@" in kind else f"{kind} @ {where}"
        lines = [line for name, line in BARRIERS.items() if uses(name, text) and name not in inner]
        body = "\n".join([*(lines if "tasks" in around else ()), *inner.values(), text, "pass"])
        given = {"n": "size"} | given
        signature = ", ".join(f"{name}: {kind}" for name, kind in given.items())
        level = around.count("\n")
        yield (
            f"{HEAD}{CALLED}@proc\ndef k({signature}):\n"
            + indent(around, "    ")
            + indent(body, "    " * (level + 1))
            + "\n"
        )


def uses(name: str, text: str) -> bool:
    return re.search(rf"\b{name}\b(?!:)", text) is not None


def codes_of(file: Path, text: str) -> set[str]:
    file.write_text(text)
    return {
        found.code
        for unit in load(str(file))
        for found in (unit.procedure.diagnostics if unit.procedure else unit.diagnostics)
    }


def changes(code: str, file: Path) -> bool:
    """Whether in some place the example has this code, and its repair nothing at all."""
    _, _, bad, good = EXAMPLES[code]
    both = f"{bad}\n{good}"
    for before in modules(bad, bad):
        if code in codes_of(file, before):
            return any(not codes_of(file, after) for after in modules(good, both))
    return False


@pytest.mark.parametrize("code", sorted(PLACED))
def test_the_repair_of_an_example_changes_what_is_found(code, tmp_path):
    assert changes(code, tmp_path / "kernel.py")


@pytest.mark.parametrize("code", CODES)
def test_every_example_is_narrow_and_has_its_repair(code):
    shown = CliRunner().invoke(app, ["explain", code]).output
    assert max(map(len, shown.splitlines())) < 100
    assert "# repair" in shown


def test_every_code_has_its_repair_applied():
    """Each in one place; P101 in a test of its own."""
    places = (PLACED, KERNELS, READ, SCENES, TEXTS, CALLS, BODIES, NOT_APPLIED, ["P101"])
    applied = [code for place in places for code in place]
    assert sorted(applied) == sorted(CODES)
