"""With arrive_all every thread arrives, and mbarriers expect as many arrivals."""

from __future__ import annotations

import re

import pytest

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
