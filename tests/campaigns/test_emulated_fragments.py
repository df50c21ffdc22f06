"""Loops over fragments on the emulator, beside instructions that know the tiles by themselves; with
a wrong map they are wrong."""

from __future__ import annotations

import shutil
from pathlib import Path

import pytest

from campaigns.emulator.launch import Emulated, EmulatedError
from campaigns.emulator.orders import ORDERS
from exogpu.api import Procedure
from exogpu.gpu_trial.run_data import at_sizes, difference
from exogpu.hw import register_tiles
from exogpu.hw.language import bf16, f32
from exogpu.kernels.attention_sm90 import make_attention
from exogpu.kernels.gemm_fused_sm90 import make_gemm_fused
from tests.codegen import fragment_kernels

pytestmark = [
    pytest.mark.slow,
    pytest.mark.skipif(shutil.which("g++") is None, reason="no g++ on this machine"),
]

ATTENTION = {"H": 1, "S": 197}
CASES = [
    *((kernel, {}, 0.0) for kernel in fragment_kernels.KERNELS),
    (make_gemm_fused(2, 1, 128, 64), {"L": 1, "M": 200, "N": 72, "cluster_K": 40}, 0.0),
    (make_attention(64), ATTENTION, 2e-2),
    (make_attention(64, causal=True, G=2), ATTENTION, 2e-2),
    (make_attention(64), {"H": 1, "S": 400}, 2e-2),
]


def disagreements(
    procedure: Procedure, sizes: dict[str, int], tolerance: float, folder: Path, orders=ORDERS
) -> list[str]:
    """What is wrong in each order; empty texts: nothing."""
    made, manifest = procedure.emit(unchecked=True)
    kernel = Emulated(made.source, manifest, folder)
    types = {p["name"]: p["dtype"] for p in manifest["parameters"] if p["kind"] == "data"}
    there = at_sizes(procedure, sizes, 1)
    found = []
    for order in orders:
        arrays = {name: array.copy() for name, array in there.given.items()}
        try:
            kernel(arrays, sizes, order)
        except EmulatedError as error:
            found.append(str(error))
            continue
        wrong = (
            difference(arrays[n], wanted, types[n], tolerance) for n, wanted in there.wanted.items()
        )
        found.append("; ".join(filter(None, wrong)))
    return found


@pytest.mark.parametrize(
    ("procedure", "sizes", "tolerance"), CASES, ids=[p.name for p, *_ in CASES]
)
def test_right_in_every_order(procedure, sizes, tolerance, builds) -> None:
    orders = ORDERS[:3] if tolerance else ORDERS
    found = disagreements(procedure, sizes, tolerance, builds, orders)
    assert found == [""] * len(orders)


WRONG = {
    "columns of lanes first": (("wgmma D", 32), ("8 T4, 2 R2, 4 T32, * R", "4 T1, 2 R1, * R")),
    "rows before columns": (("wgmma D", 32), ("8 T4, 2 R1, 4 T32, * R", "2 R2, 4 T1, * R")),
    "warps outside": (("wgmma D", 32), ("8 T4, 4 T32, 2 R2, * R", "2 R1, 4 T1, * R")),
    "lanes the other way": (("wgmma D", 32), ("4 T1, 2 R2, 2 T4, 4 T32, * R", "2 R1, 4 T8, * R")),
    "A as the accumulator of tf32": (("wgmma A", 32), ("8 T4, 2 R2, 4 T32", "2 R1, 4 T1, * R")),
    "A of bf16 by lanes": (("wgmma A", 16), ("8 T4, 2 R2, 4 T32", "4 T1, 2 R1, * R")),
    "A of bf16 by rows": (("wgmma A", 16), ("8 T4, 2 R1, 4 T32", "2 R2, 4 T1, * R")),
    "rows of lanes": (("rows", 32), ("4 T1, 2 R1, 2 T4, 4 T32, * R", "4 T8")),
    "rows of registers first": (("rows", 32), ("2 R1, 8 T4, 4 T32, * R", "4 T1")),
    "mma's pairs": (("mma D", 32), ("8 T4, 2 R1", "2 R2, 4 T1")),
    "mma's A": (("mma A", 16), ("8 T4, 2 R1", "2 R2, 4 T1, * R")),
    "mma's A of tf32": (("mma A", 32), ("8 T4, 2 R2", "4 T1, * R")),
    "mma's B": (("mma B", 16), ("8 T4", "4 T1, 2 R1, * R")),
    "mma's B of tf32": (("mma B", 32), ("4 T1, 2 R1", "8 T4")),
}
"""Maps that take each element somewhere else, and are maps."""


def looking_at(layout: str, bits: int) -> Procedure:
    """A kernel whose results a map decides."""
    dtype = f32 if bits == 32 else bf16
    match layout:
        case "wgmma D":
            return fragment_kernels.make_stored()
        case "wgmma A":
            return fragment_kernels.make_multiplied(dtype)
        case "rows":
            return fragment_kernels.make_rows()
        case _:
            return fragment_kernels.make_by_a_warp(dtype)


@pytest.mark.parametrize("name", WRONG)
def test_a_wrong_map_is_seen(name, builds, monkeypatch) -> None:
    (layout, bits), texts = WRONG[name]
    digits = tuple(tuple(d.strip() for d in text.split(",")) for text in texts)
    monkeypatch.setitem(register_tiles.LAYOUTS, (layout, bits), digits)
    register_tiles.fragment_of.cache_clear()
    try:
        procedure = looking_at(layout, bits)
        word = procedure.check().word
        # Rows and accumulators are read together: of the rows alone a wrong map is refused.
        assert word == ("error" if layout == "rows" else "proved")
        if word == "proved":
            assert all(disagreements(procedure, {}, 0.0, builds, ORDERS[:1]))
    finally:
        register_tiles.fragment_of.cache_clear()
