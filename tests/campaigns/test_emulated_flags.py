"""Tasks that wait for each other on the emulator: right in every order of the CTAs and threads."""

from __future__ import annotations

import re
import shutil

import numpy as np
import pytest

from campaigns.emulator.launch import Emulated, EmulatedError
from campaigns.emulator.orders import ORDERS, Order
from exogpu.kernels.scan_rows import Shape
from exogpu.kernels.scan_waves import make_scan
from tests.codegen.flag_kernels import KERNELS, chain, total

pytestmark = [
    pytest.mark.slow,
    pytest.mark.skipif(shutil.which("g++") is None, reason="no g++ on this machine"),
]

TOGETHER = (*ORDERS, Order(5, clusters=2), Order(6, clusters=3, fickle=0.4))


@pytest.fixture(scope="module")
def folder(tmp_path_factory):
    return tmp_path_factory.mktemp("emulated")


def arrays(T, columns=32):
    rng = np.random.default_rng(T)
    return rng.integers(-9, 9, (T, columns)).astype(np.float32)


def results(procedure, T):
    """The arrays of a call, and what is wanted of it."""
    x = arrays(T)
    shape = 32 if procedure is total else (T, 32)
    wanted = np.zeros(shape, np.float32)
    procedure.run(x=x, y=wanted)
    return x, wanted


@pytest.mark.parametrize("procedure", KERNELS, ids=lambda k: k.name)
def test_right_in_every_order(procedure, folder):
    made, manifest = procedure.emit()
    emulated = Emulated(made.source, manifest, folder)
    for T in (1, 2, 5):
        x, wanted = results(procedure, T)
        for order in TOGETHER:
            y = np.full_like(wanted, np.nan)
            emulated({"x": x, "y": y}, {"T": T}, order)
            assert np.array_equal(y, wanted), (T, order)


MUTANTS = {
    "no barrier before the arrival": (
        chain,
        r"__syncthreads\(\);(\s+if \(thread == 0\)\s+flag_arrive)",
        r"\1",
    ),
    "no barrier after the wait": (chain, r"(flag_await\([^\n]*\n\s+)__syncthreads\(\);", r"\1"),
    "no wait": (chain, r"flag_await\([^\n]*;", ";"),
    "one arrival too few": (total, r"(flag_await\(&done\[0\], T)", r"\1 - 1"),
    "tasks in the other order": (
        chain,
        r"const int t = (task_number)",
        r"const int t = T - 1 - \1",
    ),
}
"""By name: of which kernel, what is replaced, and by what."""


@pytest.mark.parametrize("name", MUTANTS)
def test_what_is_emitted_is_needed(name, folder):
    """Each mutant of the text hangs, or is wrong, in some order."""
    procedure, what, instead = MUTANTS[name]
    made, manifest = procedure.emit()
    mutant, count = re.subn(what, instead, made.source)
    assert count >= 1
    emulated = Emulated(mutant, manifest, folder)
    x, wanted = results(procedure, 6)
    for order in (*TOGETHER, *(Order(seed, fickle=0.5, clusters=2) for seed in range(20))):
        y = np.full_like(wanted, np.nan)
        try:
            emulated({"x": x, "y": y}, {"T": 6}, order)
        except EmulatedError:
            return
        if not np.array_equal(y, wanted):
            return
    raise AssertionError("every order is right")


def test_a_scan_of_several_waves(folder):
    """Tiles of 32 elements, of which 32 are a wave."""
    scan = make_scan(Shape("i32", 1, 1, vectors=False))
    made, manifest = scan.emit()
    emulated = Emulated(made.source, manifest, folder)
    for M, N in ((2, 33), (1, 2100)):
        x = np.random.default_rng(N).integers(-(2**31), 2**31, (M, N)).astype(np.int32)
        for order in (Order(1, clusters=1), Order(2, clusters=5, fickle=0.3)):
            y = np.full_like(x, -1)
            emulated({"x": x, "y": y}, {"M": M, "N": N}, order)
            assert np.array_equal(y, np.cumsum(x, 1, dtype=np.int32))
