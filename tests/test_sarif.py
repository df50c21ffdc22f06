"""What editors and code-scanning services make of a result: steps to go through, and an identity
that outlives edits elsewhere in the file."""

from __future__ import annotations

import json
from pathlib import Path

import pytest
from typer.testing import CliRunner

from exogpu.cli.commands import app

KERNEL = """from __future__ import annotations
from exogpu import *


@proc
def turned(M: size, x: f32[M, 64] @ CudaGmemLinear, y: f32[M, 64] @ CudaGmemLinear):
    with CudaDeviceFunction(blockDim=64):
        for m in cuda_tasks(0, M):
            tile: f32[64] @ CudaSmemLinear
            for t in cuda_threads(0, 64, unit=cuda_thread):
                tile[t] = x[m, t]
            for t in cuda_threads(0, 64, unit=cuda_thread):
                y[m, t] = tile[63 - t]
"""


@pytest.fixture
def results(tmp_path, monkeypatch):
    monkeypatch.chdir(tmp_path)

    def check(text: str) -> list[dict]:
        Path("k.py").write_text(text)
        CliRunner().invoke(app, ["check", "k.py", "--sarif", "out.sarif"])
        return json.loads(Path("out.sarif").read_text())["runs"][0]["results"]

    return check


def prints(found: list[dict]) -> list[str]:
    return [result["partialFingerprints"]["exogpu/v1"] for result in found]


def test_a_hazard_is_a_flow_of_two_steps(results):
    raw = next(one for one in results(KERNEL) if one["ruleId"] == "H701")
    ((flow,),) = [one["threadFlows"] for one in raw["codeFlows"]]
    steps = [step["location"] for step in flow["locations"]]
    assert [step["physicalLocation"]["region"]["startLine"] for step in steps] == [11, 13]
    assert steps[0]["message"]["text"] == (
        "the write: ordinary shared-memory access (cuda2) by thread 63"
    )


def test_freed_memory_is_related_to_its_declaration(results):
    free = next(one for one in results(KERNEL) if one["ruleId"] == "H704")
    assert free["locations"][0]["physicalLocation"]["region"]["startLine"] == 13
    related = {
        one["message"]["text"]: one["physicalLocation"]["region"]["startLine"]
        for one in free["relatedLocations"]
    }
    assert related["tile is declared here"] == 9


def test_fingerprints_outlive_edits_elsewhere_and_differ_among_results(results):
    before = prints(results(KERNEL))
    assert len(set(before)) == len(before) > 1
    assert prints(results(KERNEL.replace("\n\n\n@proc", "\n# a comment\n\n\n\n@proc"))) == before
    assert prints(results(KERNEL.replace("63 - t", "62 - t + 1"))) != before
    # Of two that are alike, each has its own.
    twice = "    x: floot[8] @ DRAM\n    x: floot[8] @ DRAM\n"
    same = prints(results(KERNEL[: KERNEL.index("    with")] + twice))
    assert len(set(same)) == 2 and len({one.partition(":")[0] for one in same}) == 1
