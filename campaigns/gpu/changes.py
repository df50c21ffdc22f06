"""Changes a program once it is made: needless synchronisation added, and some taken away."""

from __future__ import annotations

import re

from campaigns.gpu.making import Making, Node, fence
from exogpu.hw.timelines import SYNC_TIMELINES

NEEDLESS = (
    fence(),
    fence("cuda_in_order", "cuda_generic_and_async"),
    fence("cuda_temporal", "cuda_temporal"),
    fence("Sm80_generic", "cuda_in_order"),
    fence("tma_to_gmem_async", "cuda_in_order"),
)

OF_A_WARPGROUP = (
    fence("wgmma_fence_1", "wgmma_fence_2"),
    fence("wgmma_async", "cuda_in_order"),
    fence("cuda_in_order", "wgmma_fence_2"),
)


def with_fences(m: Making, body: list[Node]) -> list[Node]:
    """Some more Fences where a CTA, or a part of it, is the scope."""
    m.note("needless fences")
    share = m.rng.choice([0.05, 0.15, 0.3])
    cluster = any(feature.startswith("cluster of") for feature in m.features)

    def inside(nodes: list[Node], allowed: tuple[str, ...]) -> list[Node]:
        found: list[Node] = []
        for node in nodes:
            orphan = isinstance(node, tuple) and node[0] == "else:"
            if allowed and not orphan and m.chance(share):
                found.append(m.rng.choice(allowed))
            if isinstance(node, tuple):
                header, block = node
                starts = ("cuda_tasks" in header and not cluster) or "cuda_cta_in_cluster" in header
                within = NEEDLESS if starts and _innermost(block) else allowed
                if within and header.endswith("unit=cuda_warpgroup):"):
                    within = NEEDLESS + OF_A_WARPGROUP
                elif within and "cuda_threads(" in header:
                    within = NEEDLESS
                found.append((header, inside(block, within)))
            else:
                found.append(node)
        return found

    return inside(body, ())


def _innermost(block: list[Node]) -> bool:
    return not any(isinstance(n, tuple) and "cuda_tasks" in n[0] for n in block)


OF_CUDA = [name for name in SYNC_TIMELINES if name not in ("cpu_in_order", "cuda_stream_sync")]
_TIMELINE = re.compile("|".join(rf"\b{name}\b" for name in SYNC_TIMELINES))


def without_one(m: Making, body: list[Node]) -> list[Node]:
    """One synchronisation less, or one of other timelines: most of these are refuted."""
    places: list[tuple[int, ...]] = []

    def look(nodes: list[Node], at: tuple[int, ...]) -> None:
        for number, node in enumerate(nodes):
            if isinstance(node, tuple):
                look(node[1], (*at, number))
            elif node.startswith(("Fence", "Arrive", "Await")):
                places.append((*at, number))

    look(body, ())
    if not places:
        return body
    chosen, drop, other = m.rng.choice(places), m.chance(0.5), m.rng.choice(OF_CUDA)
    first = m.chance(0.5)
    m.note("mutated")

    def change(nodes: list[Node], at: tuple[int, ...]) -> list[Node]:
        found = list(nodes)
        node = found[at[0]]
        if isinstance(node, tuple):
            found[at[0]] = (node[0], change(node[1], at[1:]))
        elif drop:
            del found[at[0]]
        else:
            there = list(_TIMELINE.finditer(node))
            changed = there[0 if first else -1]
            found[at[0]] = node[: changed.start()] + other + node[changed.end() :]
        return found or ["pass"]

    return change(body, chosen)
