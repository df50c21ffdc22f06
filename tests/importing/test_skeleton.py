"""PTX synchronises as the operations of TTGIR say, or the kernel is not imported."""

from __future__ import annotations

import random
from dataclasses import replace

import pytest

from exogpu.imported import ImportedKernel, UnimportedKernel, import_ttgir
from exogpu.importing.mlir_text import read_module
from exogpu.importing.ptx_skeleton import mismatches
from exogpu.importing.read_ttgir import with_barriers_of
from exogpu.importing.triton_tables import NEWEST
from tests.importing.made import KERNELS

SYNCHRONISING = (
    "bar.sync",
    "mbarrier.",
    "wgmma.fence",
    "wgmma.wait_group",
    "cp.async.wait_group",
    "cp.async.commit_group",
    "cp.async.bulk.wait_group",
    "fence.proxy.async",
)


@pytest.mark.parametrize("made", KERNELS, ids=lambda made: made.kernel)
def test_the_ptx_of_triton_agrees(made):
    assert not list(mismatches(read_module(made.text), made.ptx, NEWEST))
    kernel = import_ttgir(made.text, ptx=made.ptx)
    assert isinstance(kernel, ImportedKernel)
    assert not any("lowering" in assumed for assumed in kernel.source.assumptions)


@pytest.mark.parametrize("made", KERNELS, ids=lambda made: made.kernel)
def test_ptx_that_lacks_an_instruction_is_found(made):
    lines = made.ptx.splitlines()
    there = [at for at, line in enumerate(lines) if line.strip().startswith(SYNCHRONISING)]
    kept = [at for at in there if "init" not in lines[at] and "inval" not in lines[at]]
    module = read_module(made.text)
    missed = []
    for at in random.Random(made.kernel).sample(kept, min(len(kept), 12)):
        changed = "\n".join([*lines[:at], *lines[at + 1 :]])
        if not list(mismatches(module, changed, NEWEST)):
            missed.append(lines[at].strip())
    # Of two barriers in a row one may go, and those where partitions begin are not TTGIR's.
    assert all(line.startswith("bar") for line in missed), missed


def test_a_table_that_is_wrong_for_the_version_is_found():
    made = KERNELS[4]
    wrong = replace(NEWEST, meet_after_product_wait=False)
    assert made.kernel == "multiply_persistent"
    found = list(mismatches(read_module(made.text), made.ptx, wrong))
    assert not found  # more barriers take no order away
    right = made.ptx.replace("wgmma.wait_group.sync.aligned 0;", "wgmma.wait_group 0; //")
    kernel = import_ttgir(made.text, ptx=right.replace("\tbar.sync", "\t// bar.sync"))
    assert isinstance(kernel, UnimportedKernel) and kernel.reason.code == "K111"
    assert "lowers" in kernel.check().reason


def older(ptx: str) -> str:
    """PTX as Triton 3.8 would have lowered it: without the barrier after a wait for products."""
    lines = ptx.splitlines()
    found = [at for at, line in enumerate(lines) if "wgmma.wait_group" in line]
    after = [at + n for at in found for n in (1, 2) if lines[at + n].strip() == "bar.sync \t0;"]
    return "\n".join(line for at, line in enumerate(lines) if at not in after)


def test_ptx_tells_which_lowering_it_was():
    made = KERNELS[4]
    kernel = import_ttgir(made.text, ptx=older(made.ptx))
    assert isinstance(kernel, ImportedKernel) and kernel.ir is not None
    assert kernel.ir.imported is not None and kernel.ir.imported.compiler == "Triton 3.8"
    named = import_ttgir(made.text, version="3.9.0", ptx=older(made.ptx))
    assert isinstance(named, UnimportedKernel) and named.reason.code == "K111"


def without(text: str, at: int) -> str:
    lines = text.split("\n")
    return "\n".join([*lines[:at], *lines[at + 1 :]])


def test_barriers_that_only_ptx_shows_are_added_and_no_others():
    made = KERNELS[4]
    lines = made.text.split("\n")
    ptx = older(made.ptx)
    assert with_barriers_of(ptx, made.text) == made.text
    (at,) = [
        n
        for n, line in enumerate(lines)
        if "ttg.barrier" in line
        and "warp_group_dot " in lines[n + 1]
        and line.startswith("      t")
    ]
    fewer = without(made.text, at)
    assert with_barriers_of(made.ptx, fewer) == fewer  # the newest placed them itself
    again = with_barriers_of(ptx, fewer)
    assert len(again.split("\n")) == len(lines) and again.split("\n")[at].startswith("ttg.barrier")
    line = next(n for n, one in enumerate(ptx.splitlines()) if "products.py:98:15" in one)
    assert "bar.sync" in ptx.splitlines()[line + 1]
    assert with_barriers_of(without(ptx, line + 1), fewer) == fewer
