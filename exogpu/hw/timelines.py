"""Sync timelines (paper, figure SyncTL), transcribed cell by cell, and the narrowing of decision
`policies`."""

from __future__ import annotations

from typing import Final

from exogpu.diagnostics.verdict import Policy
from exogpu.ir.types import QualSet, QualTL, SyncSets, SyncTL

SHORT: Final[dict[str, QualTL]] = {
    "cpu": QualTL.CPU,
    "strm": QualTL.STRM,
    "cuda1": QualTL.CUDA1,
    "cuda2": QualTL.CUDA2,
    "Sm80": QualTL.SM80,
    "tmaS": QualTL.TMA_S,
    "tmaG": QualTL.TMA_G,
    "tmaR": QualTL.TMA_R,
    "wgA": QualTL.WG_A,
    "wgD": QualTL.WG_D,
    "wgS": QualTL.WG_S,
    "wg0": QualTL.WG_0,
}
"""The paper's short names of the qualitative timelines, in the figure's order."""

SHORT_NAME: Final[dict[QualTL, str]] = {tl: name for name, tl in SHORT.items()}

ASYNC_PROXY: Final[QualSet] = frozenset({QualTL.TMA_S, QualTL.TMA_G, QualTL.TMA_R, QualTL.WG_S})
"""The timelines whose accesses go through the async proxy (decision `policies`)."""

WGMMA: Final[QualSet] = frozenset({QualTL.WG_A, QualTL.WG_D, QualTL.WG_S, QualTL.WG_0})
"""The timelines of wgmma's own accesses."""

TEMPORAL_FROM: Final[dict[QualTL, QualSet]] = {
    **dict.fromkeys(ASYNC_PROXY, ASYNC_PROXY),
    QualTL.WG_A: WGMMA,
    QualTL.WG_D: WGMMA,
}
"""Policy ptx: where temporal entries hold only for records of these original timelines.  Anything
else takes a proxy fence (decision `temporal-async-proxy`), for registers of wgmma a wgmma.fence
(decision `temporal-wgmma`)."""

ORDINARY: Final = "cuda_in_order"
"""The timeline of an Arrive on a flag: flags order ordinary accesses, and what these have been
told."""

AFTER_FLAG: Final = frozenset({ORDINARY, "cuda_temporal", "cuda_generic_and_async"})
"""The timelines of an Await of a flag; after the last one, the async proxy is told too."""

ONLY_BEFORE: Final[dict[str, str]] = {"wgmma_fence_1": "wgmma_fence_2"}
"""First timelines that order without completing: what each may stand before, in a Fence alone."""

_PAPER = """
                        trans | cpu  strm cuda1 cuda2 Sm80 tmaS tmaG tmaR wgA  wgD  wgS  wg0
empty_sync_tl           .     | .    .    .     .     .    .    .    .    .    .    .    .
cpu_in_order            y     | full .    .     .     .    .    .    .    .    .    .    .
cuda_stream_sync        y     | .    full full  full  full full full full full full full .
cuda_in_order           y     | .    temp full  full  temp temp temp temp temp temp temp temp
cuda_temporal           .     | .    temp temp  temp  temp temp temp temp temp temp temp temp
Sm80_cp_async           .     | .    .    .     .     full .    .    .    .    .    .    .
Sm80_generic            .     | .    temp full  full  full temp temp temp temp temp temp temp
tma_to_smem_async       .     | .    .    .     .     .    full .    .    .    .    .    .
tma_to_gmem_async       .     | .    .    .     .     .    .    full full .    .    .    .
tma_to_gmem_source      .     | .    .    .     .     .    .    .    full .    .    .    .
wgmma_async_smem        .     | .    .    .     .     .    .    .    .    .    .    full .
wgmma_fence_1           .     | .    .    full  .     .    .    .    .    full full .    .
wgmma_fence_2           .     | .    .    .     .     .    .    .    .    full full .    .
wgmma_async             .     | .    .    .     .     .    .    .    .    full full full .
cuda_async_proxy        .     | .    .    .     .     .    full full full .    .    full .
cuda_async_proxy_wgmma  .     | .    .    .     .     .    full full full full full full .
cuda_generic_and_async  .     | .    temp full  full  full full full full temp temp full temp
"""

_PTX_CHANGES = """
                        trans | cpu  strm cuda1 cuda2 Sm80 tmaS tmaG tmaR wgA  wgD  wgS  wg0
wgmma_fence_1           .     | .    .    full  .     .    .    .    .    full full .    full
"""


def _rows(table: str) -> dict[str, tuple[bool, SyncSets]]:
    header, *lines = table.strip().splitlines()
    columns = [SHORT[name] for name in header.partition("|")[2].split()]
    rows = {}
    for line in lines:
        (name, transitive), cells = line.partition("|")[0].split(), line.partition("|")[2].split()
        row = dict(zip(columns, cells, strict=True))
        full = frozenset(tl for tl, cell in row.items() if cell == "full")
        temp = frozenset(tl for tl, cell in row.items() if cell in ("full", "temp"))
        rows[name] = (transitive == "y", SyncSets(full, temp))
    return rows


def _timelines() -> dict[str, SyncTL]:
    paper = _rows(_PAPER)
    ptx = paper | _rows(_PTX_CHANGES)
    return {
        name: SyncTL(name, transitive, ((Policy.PAPER, sets), (Policy.PTX, ptx[name][1])))
        for name, (transitive, sets) in paper.items()
    }


SYNC_TIMELINES: Final[dict[str, SyncTL]] = _timelines()
"""Every sync timeline by name."""
