"""What is measured on a GPU is kept, and taken by the next call: with a driver that only remembers,
and launches that take as long as the test says."""

from __future__ import annotations

import json
from types import SimpleNamespace

import numpy as np
import pytest
from typer.testing import CliRunner

from exogpu.cli.commands import app
from exogpu.codegen.runtime import driver
from exogpu.kernels import gemm, gemm_calls, gemv, select, tune
from exogpu.kernels.select import Choice, Product, fastest, shipped

GPU = "Some GPU"
PRODUCT = Product(1, 512, 512, 512)


@pytest.fixture
def machine(monkeypatch, tmp_path):
    """A machine with one GPU; a launch takes as many microseconds as `slow` says of its kernel."""
    monkeypatch.setattr(select, "file", lambda: tmp_path / "exogpu" / "tuned.json")
    made = SimpleNamespace(slow={}, now=0.0, last=[], allocated=[], freed=[], names=[])
    monkeypatch.setattr(driver, "gpus", lambda: (SimpleNamespace(name=GPU),))
    monkeypatch.setattr(driver, "current_device", lambda: 0)
    monkeypatch.setattr(driver, "active", lambda device: _nothing())

    def allocate(count):
        made.allocated.append(count)
        return 1 << 20 + len(made.allocated)

    def call(name, *arguments):
        if name == "cuEventRecord":
            made.last = [*made.last[-1:], made.now]
        if name == "cuEventElapsedTime":
            arguments[0]._obj.value = (made.last[1] - made.last[0]) / 1e3

    monkeypatch.setattr(driver, "allocate", allocate)
    monkeypatch.setattr(driver, "free", made.freed.append)
    monkeypatch.setattr(driver, "copy_in", lambda *arguments: None)
    monkeypatch.setattr(driver, "call", call)

    def kernel(name):
        def launch(stream=None, **arrays):
            made.names.append(name)
            made.now += made.slow.get(name, 100.0)

        return launch

    monkeypatch.setattr(gemm_calls, "kernel", kernel)
    select.table.cache_clear()
    yield made
    select.table.cache_clear()


class _nothing:
    def __enter__(self):
        return None

    def __exit__(self, *_):
        return None


def run(*words):
    return CliRunner().invoke(app, ["tune", *words])


def test_the_fastest_comes_first(machine):
    (first, *_) = ways = tune.choices(PRODUCT)
    assert fastest(PRODUCT) in ways and len(ways) > 1
    machine.slow = {ways[-1].name: 7.0}
    times = tune.tune(PRODUCT, runs=8)
    assert times[0].choice.name == ways[-1].name and times[0].seconds == pytest.approx(7e-6)
    assert {one.choice for one in times} == set(ways)
    assert times[-1].seconds == pytest.approx(100e-6)
    assert len(machine.allocated) == len(machine.freed) == 4  # A, B, C, and what is flushed
    assert first


def test_what_is_kept_is_taken(machine):
    a = np.zeros((512, 512), np.float32)
    before = fastest(PRODUCT)
    other = next(way for way in tune.choices(PRODUCT) if way.name != before.name)
    gemm(a, a, a.copy())
    assert machine.names[-1] == before.name
    machine.slow = {other.name: 1.0}
    done = run("gemm", "512x512x512", "--runs", "4")
    assert done.exit_code == 0, done.output
    assert other.name in done.output and "taken untuned" in done.output
    gemm(a, a, a.copy())
    assert machine.names[-1] == other.name
    gemm(a[:256], a, np.zeros((256, 512), np.float32))  # other sizes: nothing is known
    assert machine.names[-1] == fastest(Product(1, 256, 512, 512)).name
    assert json.loads(select.file().read_text())[GPU]["1 512 512 512 f32"][0] == other.name


def test_gemv(machine):
    machine.slow = {"gemv_rows": 1.0}
    assert gemm_calls.of_vector(1000, 64) == "gemv"
    assert run("gemv", "1000x64", "--runs", "4").exit_code == 0
    gemv(np.zeros((1000, 64), np.float32), np.zeros(64, np.float32))
    assert machine.names[-1] == "gemv_rows"


def test_another_gpu_has_a_table_of_its_own(machine, monkeypatch):
    select.keep("Another GPU", PRODUCT, Choice("gemm_sm90_1x1_64x32", 0))
    assert select.choice(PRODUCT) is None
    monkeypatch.setattr(driver, "gpus", lambda: (SimpleNamespace(name="Another GPU"),))
    assert select.choice(PRODUCT) == Choice("gemm_sm90_1x1_64x32", 0)


@pytest.mark.parametrize("text", ["", "{", "[]", '{"Some GPU": 1}', '{"Some GPU": {"a": 1}}'])
def test_a_broken_table_is_none(machine, text):
    select.file().parent.mkdir(parents=True)
    select.file().write_text(text)
    assert select.choice(PRODUCT) is None
    select.keep(GPU, PRODUCT, Choice("gemm_sm90_1x1_64x32", 0))
    assert select.choice(PRODUCT) == Choice("gemm_sm90_1x1_64x32", 0)


def test_a_kernel_that_ships_no_more_is_not_taken(machine):
    select.keep(GPU, PRODUCT, Choice("gemm_of_yesterday", 0))
    assert select.choice(PRODUCT) is None


@pytest.mark.parametrize(
    "way",
    [
        Choice("gemm_splitk_sum_sm90_1x1_64x128", 0),  # it takes slices
        Choice("gemm_splitk_sum_sm90_1x1_64x128", 7),  # that divide K
        Choice("gemm_splitk_sum_sm90_1x1_64x128", -2),
        Choice("gemm_splitk_sum_bf16_sm90_1x1_64x128", 2),  # of its type
        Choice("gemm_sm90_1x1_64x128", 2),  # and the others none
    ],
    ids=str,
)
def test_what_a_kernel_does_not_take_is_not_taken(machine, way):
    product = Product(1, 64, 256, 65536)
    assert way.name in shipped()
    select.keep(GPU, product, way)
    assert select.choice(product) is None


def test_slices_that_are_kept_are_taken(machine):
    split = next(way for way in tune.choices(Product(1, 64, 256, 65536)) if way.slices > 1)
    select.keep(GPU, Product(1, 64, 256, 65536), split)
    a, b = (np.zeros((n, 65536), np.float32) for n in (64, 256))
    gemm(a, b, np.zeros((64, 256), np.float32))
    assert machine.names[-1] == split.name


@pytest.mark.parametrize(
    ("words", "said"),
    [
        (("gemm", "4096"), "MxNxK"),
        (("gemm", "0x4x4"), "no sizes"),
        (("gemm", "4x4x6"), "multiple of 4"),
        (("gemm", "4x4x4", "--dtype", "bf16"), "multiple of 8"),
        (("gemm", "1x2x3x4x8"), "no sizes"),
        (("gemm", "axb"), "no sizes"),
        (("gemv", "4x4x4"), "MxK"),
        (("gemv", "4x4", "--dtype", "f16"), "no gemv of f16"),
        (("gemm", "4x4x4", "--dtype", "f64"), "no gemm of f64"),
        (("conv", "4x4x4"), "no product conv"),
    ],
)
def test_what_is_not_understood(machine, words, said):
    done = run(*words)
    assert done.exit_code == 2 and said in done.output and "X964" in done.output
    assert not machine.names


def test_without_a_gpu():
    done = run("gemm", "64x64x64")
    if driver_is_there():
        pytest.skip("this machine has a GPU")
    assert done.exit_code == 2 and "X965" in done.output


def driver_is_there() -> bool:
    try:
        return bool(driver.gpus())
    except Exception:
        return False
