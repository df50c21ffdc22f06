"""With arrive_all every thread arrives, and mbarriers expect as many arrivals."""

from __future__ import annotations

import json
import re

import pytest
from typer.testing import CliRunner

from exogpu.cli.commands import app
from exogpu.kernels import gemm_sm90


def counts(source: str) -> dict[str, int]:
    """Arrivals that complete a phase, by the mbarrier's name."""
    found = re.findall(r"mbarrier_init\(smem_address.*, (\d+)\);  // (\w+)", source)
    return {name: int(count) for count, name in found}


@pytest.mark.parametrize("name", ["gemm_sm90_1x1_128x256", "gemm_sm90_2x2_128x256"])
def test_a_warp_counts_for_its_threads(name):
    gemm = gemm_sm90.KERNELS[name]
    few, all_ = (gemm.emit(unchecked=True, arrive_all=a)[0].source for a in (False, True))
    assert counts(few) and counts(all_) == {n: 32 * c for n, c in counts(few).items()}
    kernel = all_.partition("__global__")[2]
    arrivals = re.findall(r"(.*)\n\s+mbarrier_arrive(?:_cluster|_reads)?<", kernel)
    assert arrivals and not any("lane ==" in before or "lane <" in before for before in arrivals)
    # The bytes are told once.
    assert re.search(r"if \(lane == 0\)\n\s+mbarrier_arrive_expect_tx<", kernel)


@pytest.mark.slow
def test_the_command_line_has_it_and_the_manifest_says_so(tmp_path):
    name = "gemm_sm90_1x1_128x256"
    words = ["compile", f"exogpu.kernels.gemm_sm90::{name}", "--unchecked", "-o"]
    for folder, more in (("few", []), ("all", ["--arrive-all"])):
        done = CliRunner().invoke(app, [*words, str(tmp_path / folder), *more])
        assert done.exit_code == 0, done.output
    few, all_ = (tmp_path / folder / f"{name}.cu" for folder in ("few", "all"))
    assert counts(all_.read_text())["full"] == 32 * counts(few.read_text())["full"]
    said = [json.loads(file.with_suffix(".json").read_text()) for file in (few, all_)]
    assert "arrive_all" not in said[0] and said[1]["arrive_all"] is True


def test_skipped_phases_are_awaited_before_the_next_arrivals_on_them():
    """The producer skips its first waits, so nobody awaits the ring's last phases of a task."""
    gemm = gemm_sm90.KERNELS["gemm_sm90_1x1_128x256"]
    few, all_ = (gemm.emit(unchecked=True, arrive_all=a)[0].source for a in (False, True))
    back = "phases_back"
    loop = rf"for \(unsigned {back} = (\d+); {back} > 0; --{back}\)"
    rest = rf"{loop}\n\s+if \((\w+)_awaited >= {back}\)"
    assert re.findall(rest, few) == []
    found = re.findall(rest, all_)
    skips = set(re.findall(r"unsigned (\w+)_left = (\d+);", all_))
    assert skips and {(ring, skip) for skip, ring in found} == skips
