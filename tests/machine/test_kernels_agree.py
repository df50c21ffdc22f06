"""The literal and the fast machine agree on every shipped kernel, and on its mutants.

The GEMMs are made with a narrow tile, since the literal machine visits every element; they are
the same text as the shipped configurations.
"""

from __future__ import annotations

import pytest

from exogpu.api import Procedure
from exogpu.diagnostics.verdict import Policy
from exogpu.kernels.gemm_sm80 import gemm_sm80
from exogpu.kernels.gemm_sm90 import CLUSTERS, make_gemm
from exogpu.kernels.gemm_splitk_sm90 import make_gemm_splitk
from exogpu.kernels.gemv_f32 import make_gemv
from exogpu.machine import fast, literal
from tests.machine.mutants import without_each_sync

pytestmark = pytest.mark.slow

GEMMS = [make_gemm(m, n, 128, 8 * m, RING=2) for m, n in CLUSTERS]
SPLITKS = [make_gemm_splitk(m, n, 128, 16 * m, RING=2) for m, n in CLUSTERS]
GEMM_SIZES = {"L": 1, "M": 70, "N": 12, "cluster_K": 100}  # 4 trips through a ring of 2
SHORT = {"L": 1, "M": 70, "N": 12, "cluster_K": 36}  # 2 trips
PTX, PAPER = Policy.PTX, Policy.PAPER

CASES = [
    (GEMMS[0], GEMM_SIZES, PTX),
    (GEMMS[0], GEMM_SIZES, PAPER),
    (GEMMS[1], GEMM_SIZES, PTX),
    (GEMMS[2], SHORT, PAPER),
    (GEMMS[3], SHORT, PTX),
    (SPLITKS[0], {**SHORT, "K_split": 2}, PTX),
    (SPLITKS[1], {**SHORT, "K_split": 1}, PAPER),
    (SPLITKS[2], {**SHORT, "K_split": 1}, PTX),
    (make_gemv(2), {"M": 9, "K": 36}, PTX),
    (make_gemv(2), {"M": 9, "K": 36}, PAPER),
    (gemm_sm80, {"M": 5, "N": 9, "K": 36}, PTX),
]


@pytest.mark.parametrize(
    ("kernel", "sizes", "policy"), CASES, ids=[f"{k.name}-{p.value}" for k, _, p in CASES]
)
def test_shipped(kernel: Procedure, sizes: dict[str, int], policy: Policy) -> None:
    program = kernel.amir(policy)
    assert fast.run(program, sizes).violations == literal.run(program, sizes) == ()


def test_a_synchronisation_less() -> None:
    hazards = 0
    for mutant in without_each_sync(GEMMS[0].amir(PTX)):
        found = literal.run(mutant, SHORT)
        assert fast.run(mutant, SHORT).violations == found
        hazards += bool(found)
    # Most of the kernel's synchronisation is needed, so this compares hazards, not only safety.
    assert hazards >= 8
