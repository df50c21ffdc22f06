"""Poison, guard bands, comparison and numbers of clusters, on a GPU that is none."""

from __future__ import annotations

import shutil
import subprocess
from dataclasses import replace

import numpy as np
import pytest

from exogpu.codegen.runtime import device_memory, driver
from exogpu.gpu_trial import run_data, run_on_gpu
from exogpu.gpu_trial.run_data import read_packed, write_packed
from tests.trial import fake_gpu, fake_program


@pytest.fixture
def ran(monkeypatch):
    """Runs the program with a kernel; what was wrong, the runs, the GPU."""
    monkeypatch.setattr(driver, "_driver", driver._driver)

    def run(kernel, counts=run_on_gpu.COUNTS, before=lambda: None):
        gpu = fake_gpu.install(fake_gpu.Gpu(kernel))
        runs, wrong = run_on_gpu.run(fake_program.packed(), counts, before)
        assert not gpu.memory, "all memory is given back"
        return [w.what for w in wrong], runs, gpu

    yield run
    for cached in (driver.gpus, driver._primary, device_memory._encoded):
        cached.cache_clear()


def test_a_right_kernel_is_right_with_all_numbers_of_clusters(ran):
    wrong, runs, gpu = ran(fake_gpu.right)
    assert not wrong
    # One task admits one cluster; five admit all five, 1, 2 and 3, and 7 or 132 are no more.
    assert [grid[0] for grid in gpu.grids] == [1, 5, 1, 2, 3] and runs == 5


def test_wrong_values_are_told_with_their_place(ran):
    def kernel(x, y):
        fake_gpu.right(x, y)
        y[3] = 77

    wrong, _, _ = ran(kernel, (run_on_gpu.ALL,))
    assert len(wrong) == 2
    assert wrong[0].startswith("y: 1 of 32 elements, first (0, 3): 77.0 for ")


def test_what_is_not_written_keeps_its_poison(ran):
    wrong, _, _ = ran(lambda x, y: None, (run_on_gpu.ALL,))
    assert wrong[0].startswith("y: 32 of 32 elements, first (0, 0): nan for ")


def test_writes_beside_an_array_are_seen(ran):
    def kernel(x, y):
        fake_gpu.right(x, y)
        y[-8] = 0

    assert ran(kernel, (run_on_gpu.ALL,))[0] == ["wrote beside y"] * 2


def test_changed_inputs_are_seen(ran):
    def kernel(x, y):
        fake_gpu.right(x, y)
        x[0] += 1

    assert ran(kernel, (run_on_gpu.ALL,))[0][0].startswith("x, an input: 1 of 32 elements")


def test_a_lost_context_ends_the_process_s_work(monkeypatch):
    monkeypatch.setattr(driver, "_driver", driver._driver)
    gpu = fake_gpu.install(fake_gpu.Gpu(lambda x, y: setattr(gpu, "broken", True)))
    with pytest.raises(run_on_gpu.DeviceLost, match="719"):
        run_on_gpu.run(fake_program.packed(), (run_on_gpu.ALL,))


def test_shared_memory_is_dirtied_before_each_run(monkeypatch, ran):
    launched = []
    clean = run_data.dirtying(b"cubin")

    def launcher(kernel, clusters, *_):
        return lambda: launched.append(clusters)

    monkeypatch.setattr(run_data, "launcher", launcher)
    assert not ran(fake_gpu.right, before=clean)[0]
    assert launched == [264] * 5


def test_a_packed_file_is_read_as_it_was_written(tmp_path):
    packed = fake_program.packed()
    files = [tmp_path / name for name in ("one.zip", "two.zip")]
    for file in files:
        write_packed(file, packed)
    assert files[0].read_bytes() == files[1].read_bytes()
    again = read_packed(files[0])
    assert (again.name, again.source, again.cubin) == (packed.name, packed.source, packed.cubin)
    assert again.manifest == packed.manifest and len(again.at) == 2
    for one, other in zip(again.at, packed.at, strict=True):
        assert one.sizes == other.sizes
        for mine, theirs in ((one.given, other.given), (one.wanted, other.wanted)):
            assert list(mine) == list(theirs)
            for name in mine:
                np.testing.assert_array_equal(mine[name], theirs[name])


def test_only_what_is_never_read_is_poisoned():
    at = fake_program.packed().at[1]
    assert np.isnan(at.given["y"]).all() and list(at.wanted) == ["y"]
    assert set(np.unique(at.given["x"])) <= set(range(-3, 4)) and len(np.unique(at.given["x"])) > 3
    np.testing.assert_array_equal(at.wanted["y"], at.given["x"] + 1)


C = """
int add_one_launch(int m, const float* x, float* y, void* stream)
{
    for (int i = 0; i < 32 * m; ++i)
        y[i] = x[i] + 1;
    return m == 5 ? STATUS : stream != 0;
}
"""


@pytest.mark.skipif(shutil.which("gcc") is None, reason="no C compiler here")
@pytest.mark.parametrize("status", [0, 7])
def test_a_program_of_the_cpu_is_called_by_its_c_function(status, monkeypatch, tmp_path):
    """Once at each sizes: it takes as many clusters as the device holds."""
    (tmp_path / "f.c").write_text(C.replace("STATUS", str(status)))
    library = tmp_path / "f.so"
    subprocess.run(["gcc", "-shared", "-fPIC", "-o", library, tmp_path / "f.c"], check=True)
    monkeypatch.setattr(driver, "_driver", driver._driver)
    fake_gpu.install(fake_gpu.Gpu(lambda x, y: None))
    packed = replace(fake_program.packed(), library=library.read_bytes())
    runs, wrong = run_on_gpu.run(packed)
    assert runs == 2
    assert [w.what for w in wrong] == (["the C function returned 7"] if status else [])
