"""Mutants of the GEMM, one statement each: `compile` refuses those that have a hazard, and names
it; those with more fences than needed are compiled.

The kernel is the shipped one with a narrow tile and a ring of two, so that a few operations show
what a mutant breaks: one, two or three steps of its main loop (K = 4, 36, 68).
"""

from __future__ import annotations

from functools import cache

import pytest
from sync_mutants import mutants

from benchmarks import extra_fences
from exogpu.api import Procedure
from exogpu.codegen.compiled_kernel import RefusedError
from exogpu.diagnostics.errors import ExoGpuError
from exogpu.kernels.gemm_sm90 import make_gemm

pytestmark = pytest.mark.slow

WEAKER = ("empty_sync_tl", "cuda_temporal", "wgmma_fence_2")

RING = "WAR:A_smem WAR:B_smem WAW:A_smem WAW:B_smem"
UNSEEN = "FREE:A_smem FREE:B_smem FREE:full RAW:A_smem RAW:B_smem"
ENDED = "FREE:A_smem FREE:B_smem FREE:empty FREE:full"

# Fence 1 lets wgmma touch the accumulator; Await 1 is the producer's for a free slot, Await 2 the
# consumers' for a full one, Await 3 theirs for the products before the last; Arrive 3 frees a
# slot; Fence 2 ends the task.  Calls 2 and 3 load A and B by TMA, into
# windows 3 and 4; windows 8 and 9 are what call 4 multiplies.
ONE_CTA = f"""
    Fence 1: deleted                  4   RAW:D
    Fence 1: after empty_sync_tl      4   RAW:D
    Fence 1: before empty_sync_tl     4   RAW:D
    Fence 1: after cuda_temporal      4   RAW:D
    Fence 1: before cuda_temporal     4   RAW:D
    Fence 1: after wgmma_fence_2      4   RAW:D
    Await 1: deleted                  4   BARRIER:empty
    Await 1: empty_sync_tl            68  {RING}
    Await 1: wgmma_fence_2            4   DIVERGENCE:
    Await 1: n -1                     68  {RING}
    CallInstr 2: no signal            4   FREE:A_smem RAW:A_smem
    WindowStmt 3: next slot of A_smem  36  WAR:A_smem
    CallInstr 3: no signal            4   FREE:B_smem RAW:B_smem
    WindowStmt 4: next slot of B_smem  36  WAR:B_smem
    Arrive 1: deleted                 4   BARRIER:full DEADLOCK:full
    Await 2: deleted                  4   BARRIER:full {UNSEEN}
    Await 2: empty_sync_tl            4   {UNSEEN}
    Await 2: cuda_temporal            4   RAW:A_smem RAW:B_smem
    Await 2: wgmma_fence_2            4   {UNSEEN}
    Await 2: n -1                     4   {UNSEEN}
    WindowStmt 8: next slot of A_smem  36  WAR:A_smem
    WindowStmt 9: next slot of B_smem  36  WAR:B_smem
    Arrive 2: wgmma_fence_2           4   FREE:A_smem FREE:B_smem
    Await 3: deleted                  4   BARRIER:cg FREE:A_smem FREE:B_smem RAW:D
    Await 3: empty_sync_tl            4   FREE:A_smem FREE:B_smem RAW:D
    Await 3: cuda_temporal            4   RAW:D
    Await 3: wgmma_fence_2            4   FREE:A_smem FREE:B_smem RAW:D
    Await 3: n +1                     4   BARRIER:cg FREE:A_smem FREE:B_smem RAW:D
    Arrive 3: deleted                 4   BARRIER:empty
    Arrive 3: empty_sync_tl           68  {RING}
    Arrive 3: cuda_temporal           68  {RING}
    Arrive 3: wgmma_fence_2           68  {RING}
    Fence 2: deleted                  4   {ENDED}
    Fence 2: after empty_sync_tl      4   {ENDED}
    Fence 2: before empty_sync_tl     4   {ENDED}
    Fence 2: after cuda_temporal      4   {ENDED}
    Fence 2: after wgmma_fence_2      4   {ENDED}
    Fence 2: before wgmma_fence_2     4   {ENDED}
"""

# Slots are freed for the CTAs that multicast into them: only one of two must not do.
TWO_CTAS = f"""
    WindowStmt 3: next slot of A_smem   36  WAR:A_smem
    WindowStmt 4: next slot of B_smem   36  WAR:B_smem
    Await 2: deleted                    4   BARRIER:full {UNSEEN}
    Arrive 3: only the first target     68  WAR:B_smem WAW:B_smem
"""

# These break a rule of the language already, whatever the sizes.
ILL_FORMED = {
    "Arrive 2: deleted": "D516",
    "Arrive 2: empty_sync_tl": "D511",
    "Arrive 2: cuda_temporal": "D511",
}


def rows(table: str) -> list[tuple[str, int, frozenset[str]]]:
    """Mutant, K, and the hazards that it has: `kind:variable`."""
    found = []
    for line in table.strip().splitlines():
        name, k, hazards = (part.strip() for part in line.split("  ") if part.strip())
        found.append((name, int(k), frozenset(hazards.split())))
    return found


@cache
def by_name(cluster: int) -> dict[str, Procedure]:
    gemm = make_gemm(cluster, 1, 128, 16, RING=2)
    return {mutant.name: mutant.procedure for mutant in mutants(gemm, WEAKER)}


CASES = [(1, *row) for row in rows(ONE_CTA)] + [(2, *row) for row in rows(TWO_CTAS)]


def test_there_are_forty():
    assert len(set(CASES)) >= 40


@pytest.mark.parametrize(
    ("cluster", "name", "k", "hazards"), CASES, ids=[f"{c[0]}x1 {c[1]}" for c in CASES]
)
def test_refused(cluster, name, k, hazards):
    with pytest.raises(RefusedError) as refused:
        by_name(cluster)[name].compile(at={"L": 1, "M": 1, "N": 1, "cluster_K": k})
    verdict = refused.value.verdict
    assert verdict.word == "refuted"
    assert {f"{h.kind.value}:{h.variable}" for h in verdict.hazards} == hazards
    message = str(refused.value)
    assert all(" on ".join(hazard.split(":")) in message for hazard in hazards)


@pytest.mark.parametrize(
    ("name", "k"), [("Fence 2: deleted", 4), ("WindowStmt 9: next slot of B_smem", 36)]
)
def test_refused_for_all_sizes_at_the_smallest_that_fail(name, k):
    with pytest.raises(RefusedError) as refused:
        by_name(1)[name].compile()
    assert refused.value.verdict.hazards[0].sizes == {"L": 1, "M": 1, "N": 1, "cluster_K": k}


@pytest.mark.parametrize("name", ILL_FORMED)
def test_ill_formed(name):
    with pytest.raises(ExoGpuError) as refused:
        by_name(1)[name].compile(at={"L": 1, "M": 1, "N": 1, "cluster_K": 4})
    assert [d.code for d in refused.value.diagnostics] == [ILL_FORMED[name]]


NARROW = make_gemm(1, 1, 128, 16, RING=2)


def test_the_kernel_itself_is_not_refused():
    """Otherwise the mutants would show nothing."""
    assert NARROW.emit(at={"L": 1, "M": 1, "N": 1, "cluster_K": 68})


@pytest.mark.parametrize("name", extra_fences.KERNELS)
def test_one_more_fence_is_no_hazard_and_is_emitted(name):
    """A GPU runs them, too: `make gpu-test`."""
    emitted, manifest = extra_fences.KERNELS[name].emit()
    assert manifest["checked"]["how"] == "all sizes"
    assert emitted.source
