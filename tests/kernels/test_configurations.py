"""Configurations of a maker: proved, compiled, timed in turns; on a driver that only remembers."""

from __future__ import annotations

import json
from types import SimpleNamespace

import pytest
from typer.testing import CliRunner

from exogpu import api
from exogpu.cli.commands import app
from exogpu.cli.tune_command import parse_grid
from exogpu.codegen.runtime import driver
from exogpu.codegen.toolchain import Usage
from exogpu.diagnostics.errors import ExoGpuError
from exogpu.kernels.configurations import grid, tune_maker

MAKER = """from exogpu import *


def make(rows, broken=0):
    if rows > 64:
        raise ValueError(f"{rows} rows are too many")

    @proc
    def reverse(M: size, x: f32[M, 64] @ CudaGmemLinear, y: f32[M, 64] @ CudaGmemLinear):
        with CudaDeviceFunction(blockDim=64):
            for m in cuda_tasks(0, M):
                tile: f32[64] @ CudaSmemLinear
                for t in cuda_threads(0, 64, unit=cuda_thread):
                    tile[t] = x[m, t]
                if broken == 0:
                    Fence(cuda_in_order, cuda_in_order)
                for t in cuda_threads(0, 64, unit=cuda_thread):
                    y[m, t] = tile[63 - t]
                Fence(cuda_in_order, cuda_in_order)
    return reverse


def number(rows):
    return 5
"""


@pytest.fixture
def machine(monkeypatch):
    """A GPU on which a launch takes as many microseconds as `times` says of the one it is."""
    made = SimpleNamespace(now=0.0, last=[], times={}, launched=[])
    monkeypatch.setattr(driver, "gpus", lambda: (SimpleNamespace(name="Some GPU"),))
    monkeypatch.setattr(driver, "current_device", lambda: 0)
    monkeypatch.setattr(driver, "active", lambda device: _Nothing())
    monkeypatch.setattr(driver, "allocate", lambda count: 4096)
    monkeypatch.setattr(driver, "free", lambda address: None)
    monkeypatch.setattr(driver, "copy_in", lambda *arguments: None)

    def call(name, *arguments):
        if name == "cuEventRecord":
            made.last = [*made.last[-1:], made.now]
        if name == "cuEventElapsedTime":
            arguments[0]._obj.value = (made.last[1] - made.last[0]) / 1e3

    monkeypatch.setattr(driver, "call", call)

    def compiled(self, **_):
        verdict = self.check()
        if verdict.word != "proved":
            raise ExoGpuError([_diagnostic(f"{self.name} is {verdict.word}")])
        return _Kernel(self.emit(unchecked=True)[1], made)

    monkeypatch.setattr(api.Procedure, "compile", compiled)
    return made


def _diagnostic(message):
    from exogpu.diagnostics.errors import NOWHERE, Diagnostic

    return Diagnostic("X960", message, NOWHERE, "")


class _Kernel:
    def __init__(self, manifest, machine):
        self.usage = {"reverse": Usage(32, 0, 0, 0)}
        self.manifest, self.machine = manifest, machine

    def __call__(self, stream, **arguments):
        self.machine.launched.append(arguments)
        self.machine.now += self.machine.times.get(len(self.machine.launched) % 2, 5.0)


class _Nothing:
    def __enter__(self):
        return None

    def __exit__(self, *_):
        return None


def run(*words):
    return CliRunner().invoke(app, ["tune", *words])


@pytest.fixture
def target(tmp_path):
    file = tmp_path / "makers.py"
    file.write_text(MAKER)
    return f"{file}::make"


def test_the_grid_has_every_combination():
    axes = parse_grid(["rows=32,64", "kind=bf16,-1"])
    assert axes == {"rows": (32, 64), "kind": ("bf16", -1)}
    assert [str(one) for one in grid(axes)][-1] == "rows=64, kind=-1" and len(grid(axes)) == 4


@pytest.mark.parametrize("option", ["rows", "=3", "rows=", "2=3", "a-b=1"])
def test_what_is_no_axis_is_refused(option):
    with pytest.raises(ExoGpuError, match="--grid"):
        parse_grid([option])


def test_each_configuration_is_proved_and_timed(machine, target, tmp_path):
    out = tmp_path / "best.json"
    done = run(
        target, "M=100", "--grid", "rows=32,64,128", "--grid", "broken=0,1", "--json", str(out)
    )
    assert done.exit_code == 0, done.output
    assert "rows=128, broken=0: not timed: 128 rows are too many" in done.output
    assert "rows=32, broken=1: not timed: reverse is refuted" in done.output
    found = json.loads(out.read_text())
    assert found["sizes"] == {"M": 100} and found["fastest"]["broken"] == 0
    assert sum(seconds is not None for seconds in found["seconds"].values()) == 2
    assert machine.launched[0]["M"] == 100


def test_a_size_that_is_not_given_is_named(machine, target):
    done = run(target, "N=100", "--grid", "rows=32")
    assert "M is not given" in done.output


def test_the_fastest_comes_first(machine, target):
    from exogpu.cli.tune_command import maker_of

    machine.times = {0: 3.0, 1: 9.0}
    outcomes = tune_maker(maker_of(target), {"rows": (32, 64)}, {"M": 10}, runs=8)
    assert [one.reason for one in outcomes] == ["", ""]
    assert [one.seconds for one in outcomes] == sorted(one.seconds for one in outcomes)


def test_what_is_no_maker_is_refused(machine, target):
    assert "has no function nothing" in run(target.replace("::make", "::nothing"), "M=1").output
    done = run(target.replace("::make", "::number"), "M=1", "--grid", "rows=1")
    assert "returns a int, and no procedure" in done.output
