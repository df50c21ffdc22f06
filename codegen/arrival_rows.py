"""Rows of the lowering table: how threads, CTAs and copies arrive on mbarriers."""

from __future__ import annotations

from collections.abc import Mapping
from dataclasses import dataclass
from enum import Enum
from typing import Final

# A row of the lowering table.


class Scope(Enum):
    """The threads of a Fence, by the cheapest hardware barrier that joins them."""

    THREAD = "one thread"
    LANES = "part of a warp"
    WARP = "a warp"
    WARPS = "some warps of a CTA"
    CTA = "a CTA"
    CLUSTER = "a cluster"


@dataclass(frozen=True, slots=True)
class Row:
    """One row of the lowering table."""

    mechanism: str
    scope: str
    timelines: str
    text: str
    """C++ with PTX; fields in braces are filled in by the code generator."""
    section: str
    """The section of the PTX ISA."""
    why: str


def asm(instruction: str) -> str:
    """The statement of an instruction, which orders accesses of memory around it."""
    return f'asm volatile("{instruction}" ::: "memory");'


MBARRIER: Final = "Parallel Synchronization and Communication Instructions"
"""The section of the PTX ISA."""


ARRIVALS: Final[Mapping[str, Row]] = {
    "arrive mbarrier": Row(
        "Arrive, CudaMbarrier",
        "each thread",
        "any",
        "mbarrier_arrive<{depth}>({ring}, {number});",
        MBARRIER + ": mbarrier.arrive",
        "Releases what the thread did before, at CTA scope.",
    ),
    "arrive mbarrier of warps": Row(
        "Arrive, CudaMbarrier",
        "whole warps",
        "any",
        "__syncwarp();\nif (lane == 0)\n    mbarrier_arrive<{depth}>({ring}, {number});",
        MBARRIER + ": mbarrier.arrive",
        "bar.warp.sync orders the lanes' accesses before the one arrival, whose release is "
        "cumulative: one arrival a warp completes the phase.",
    ),
    "arrive mbarrier with bytes": Row(
        "Arrive, CudaMbarrier with trailing instructions",
        "whole warps",
        "any",
        "__syncwarp();\nif (lane == 0)\n"
        "    mbarrier_arrive_expect_tx<{depth}>({ring}, {number}, {bytes});\n{bytes} = 0;",
        MBARRIER + ": mbarrier.arrive.expect_tx",
        "The phase completes when this arrival and the bytes of all instructions that trail on "
        "it are there: expect_tx and complete_tx may come in any order before the last arrival.",
    ),
    "arrive mbarrier with bytes, by all": Row(
        "Arrive, CudaMbarrier with trailing instructions, with --arrive-all",
        "whole warps",
        "any",
        "__syncwarp();\nif (lane == 0)\n"
        "    mbarrier_arrive_expect_tx<{depth}>({ring}, {number}, {bytes});\n"
        "else\n    mbarrier_arrive<{depth}>({ring}, {number});\n{bytes} = 0;",
        MBARRIER + ": mbarrier.arrive; mbarrier.arrive.expect_tx",
        "As above, with an arrival a thread: race checkers do not follow one lane's arrival for "
        "its warp.",
    ),
    "arrive mbarrier of CTAs with bytes": Row(
        "Arrive, CudaMbarrier with trailing instructions, multicast",
        "whole warps",
        "any",
        "__syncwarp();\nif (lane == {cta})\n"
        "    mbarrier_arrive_expect_tx<{depth}>({ring}, {number}, {bytes});\n"
        "else if (lane < {ctas} && ({mask} >> lane & 1))\n"
        "    mbarrier_arrive_cluster<{depth}>({ring}, {number}, lane);\n{bytes} = 0;",
        MBARRIER + ": mbarrier.arrive.expect_tx, mbarrier.arrive; mapa",
        "One lane a target.  The mbarrier of each CTA counts the bytes that land in this CTA, and "
        "is told of them by the arrival of this CTA: no phase of it completes without.",
    ),
    "arrive mbarrier of CTAs with bytes, by all": Row(
        "Arrive, CudaMbarrier with trailing instructions, multicast, with --arrive-all",
        "whole warps",
        "any",
        "__syncwarp();\nfor (unsigned to_cta = 0; to_cta < {ctas}; ++to_cta)\n"
        "    if (lane == 0 && to_cta == {cta})\n"
        "        mbarrier_arrive_expect_tx<{depth}>({ring}, {number}, {bytes});\n"
        "    else if ({mask} >> to_cta & 1)\n"
        "        mbarrier_arrive_cluster<{depth}>({ring}, {number}, to_cta);\n{bytes} = 0;",
        MBARRIER + ": mbarrier.arrive.expect_tx, mbarrier.arrive; mapa",
        "As above, with an arrival a thread.",
    ),
    "arrive mbarrier of CTAs, each thread": Row(
        "Arrive, CudaMbarrier, multicast",
        "each thread",
        "any",
        "for (unsigned to_cta = 0; to_cta < {ctas}; ++to_cta)\n    if ({mask} >> to_cta & 1)\n"
        "        mbarrier_arrive_cluster<{depth}>({ring}, {number}, to_cta);",
        MBARRIER + ": mbarrier.arrive; mapa",
        "Each thread arrives in each target, and releases at cluster scope what it did.",
    ),
    "arrive mbarrier of CTAs": Row(
        "Arrive, CudaMbarrier, multicast",
        "whole warps",
        "any",
        "__syncwarp();\nif (lane < {ctas} && ({mask} >> lane & 1))\n"
        "    mbarrier_arrive_cluster<{depth}>({ring}, {number}, lane);",
        MBARRIER + ": mbarrier.arrive; mapa",
        "One lane a target: each releases at cluster scope, cumulatively, what its warp did.",
    ),
    "arrive mbarrier of CTAs, reads": Row(
        "Arrive, CudaMbarrier, multicast, with nothing written since a Fence of the cluster",
        "whole warps",
        "any",
        "__syncwarp();\nif (lane < {ctas} && ({mask} >> lane & 1))\n"
        "    mbarrier_arrive_reads<{depth}>({ring}, {number}, lane);",
        MBARRIER + ": mbarrier.arrive; mapa",
        "A read that is performed is performed for all CTAs; there is no write to publish.",
    ),
    "arrive mbarrier of cp.async": Row(
        "Arrive, CudaMbarrier",
        "each thread",
        "Sm80_cp_async",
        "mbarrier_arrive_cp_async<{depth}>({ring}, {number});",
        MBARRIER + ": cp.async.mbarrier.arrive",
        "The arrival, which the mbarrier's count expects (.noinc), happens when the thread's "
        "copies so far have completed; the thread does not wait for them.",
    ),
}
