"""Collective units (paper, figure CollUnit): each a domain and a box."""

from __future__ import annotations

from fractions import Fraction
from typing import Final

from exogpu.ir.types import CollUnit, Extent

_ONE = Extent(Fraction(1))
_BLOCK = Extent(Fraction(1), block=True)
_CLUSTER = Extent(Fraction(1), cluster=True)
_ALL = Extent(Fraction(1), cluster=True, block=True)


def _n(n: int) -> Extent:
    return Extent(Fraction(n))


standalone_thread: Final = CollUnit("standalone_thread", (_ONE,), (_ONE,))
cuda_thread: Final = CollUnit("cuda_thread", (_BLOCK,), (_ONE,), True)
cuda_quadpair: Final = CollUnit(
    "cuda_quadpair", (Extent(Fraction(1, 16), block=True), _n(16)), (_n(2), _n(4))
)
cuda_warp: Final = CollUnit("cuda_warp", (_BLOCK,), (_n(32),), True)
cuda_warpgroup: Final = CollUnit("cuda_warpgroup", (_BLOCK,), (_n(128),), True)
cuda_warp_in_cluster: Final = CollUnit(
    "cuda_warp_in_cluster", (_CLUSTER, _BLOCK), (_ONE, _n(32)), True
)
cuda_cta_in_cluster: Final = CollUnit("cuda_cta_in_cluster", (_ALL,), (_BLOCK,), True)
cuda_cluster: Final = CollUnit("cuda_cluster", (_ALL,), (_ALL,))
cuda_agnostic_sub_cta: Final = CollUnit("cuda_agnostic_sub_cta", (_CLUSTER, _BLOCK), (_ONE, None))
cuda_agnostic_intact_cta: Final = CollUnit(
    "cuda_agnostic_intact_cta", (_CLUSTER, _BLOCK), (None, _BLOCK)
)


def cuda_threads_strided(count: int, pitch: int) -> CollUnit:
    """`cuda_threads_strided(n2, n3)`: n2 adjacent threads out of every n3, n1 times."""
    return CollUnit(
        f"cuda_threads_strided({count}, {pitch})",
        (Extent(Fraction(1, pitch), block=True), _n(pitch)),
        (_ONE, _n(count)),
        True,
    )


def _strided(name: str, pitch: int, box: Extent) -> CollUnit:
    domain = (Extent(Fraction(1, pitch), cluster=True), _n(pitch), _BLOCK)
    return CollUnit(f"{name}({pitch})", domain, (_ONE, _ONE, box), True)


def cuda_cta_in_cluster_strided(pitch: int) -> CollUnit:
    """Every `pitch`-th CTA of the cluster, n1 of them."""
    return _strided("cuda_cta_in_cluster_strided", pitch, _BLOCK)


def cuda_warp_in_cluster_strided(pitch: int) -> CollUnit:
    """One warp in every `pitch`-th CTA of the cluster, n1 of them."""
    return _strided("cuda_warp_in_cluster_strided", pitch, _n(32))
