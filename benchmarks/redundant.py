"""The GEMM with one Fence more than it needs, in ten ways: compiled, and run on a GPU.

python -m exogpu.codegen.emit benchmarks.redundant -o build/gpu/redundant
"""

from __future__ import annotations

import sys
from collections.abc import Iterator
from dataclasses import replace
from pathlib import Path
from typing import Final

sys.path.insert(0, str(Path(__file__).resolve().parent.parent / "tests" / "codegen"))

from sync_mutants import inserted, numbered

from exogpu.api import Procedure
from exogpu.hw.timelines import SYNC_TIMELINES
from exogpu.ir.nodes import Fence
from exogpu.kernels import gemm_sm90

GEMM: Final = gemm_sm90.KERNELS["gemm_sm90_2x1_128x256"]

ALL, PROXY = ("cuda_in_order", "cuda_in_order"), ("cuda_in_order", "cuda_generic_and_async")
WGMMA = ("wgmma_fence_1", "wgmma_fence_2")

FENCES: Final = (
    ("zero", "before", "CallInstr 1", ALL),
    ("wgmma_fence", "after", "Fence 1", WGMMA),
    ("producer_warp", "after", "Await 1", ALL),
    ("producer_proxy", "after", "Await 1", PROXY),
    ("consumers", "after", "Await 2", ALL),
    ("products", "before", "CallInstr 4", WGMMA),
    ("warpgroup", "after", "Await 3", ALL),
    ("release", "before", "Arrive 3", ALL),
    ("task", "before", "Fence 2", PROXY),
    ("twice", "after", "Fence 2", ALL),
)
"""A name, the place of the Fence, and its timelines."""


def fenced() -> Iterator[Procedure]:
    """A procedure for each row."""
    proc = GEMM.ir
    assert proc is not None
    statements = dict(numbered(proc.body))
    for suffix, where, place, (pre, post) in FENCES:
        stmt = statements[place]
        span = replace(stmt.span, text=f"Fence({pre}, {post})")
        fence = Fence(SYNC_TIMELINES[pre], SYNC_TIMELINES[post], span=span)
        block = (fence, stmt) if where == "before" else (stmt, fence)
        body, name = inserted(proc.body, stmt, block), f"{proc.name}_{suffix}"
        yield Procedure(name, replace(proc, name=name, body=body), ())


KERNELS: Final[dict[str, Procedure]] = {procedure.name: procedure for procedure in fenced()}
