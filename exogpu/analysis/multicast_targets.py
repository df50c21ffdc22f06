"""Finds the barrier element that completes the writes of an instruction of several CTAs."""

from __future__ import annotations

from collections.abc import Iterator
from itertools import product

from exogpu.analysis.thread_names import Desugared
from exogpu.analysis.tiling import cluster_axes
from exogpu.ir import nodes as ir
from exogpu.ir.affine import difference
from exogpu.ir.types import Sym
from exogpu.ir.walk import substitute


def cta_of(loops: Desugared) -> ir.CExpr | None:
    """The rank in the cluster of the CTA that executes the body; None where several do."""
    rank: ir.CExpr = ir.Int(0)
    for axis in cluster_axes(loops.tiling):
        if axis.extent != 1:
            return None
        rank = ir.Add(rank, ir.Mul(axis.pitch, axis.offset))
    return rank


def same_order(data: Desugared, barrier: Desugared) -> bool:
    """Tests whether equal indices of the two distributions stand for one CTA."""
    here, there = cta_of(data), cta_of(barrier)
    if here is None or there is None or data.extents != barrier.extents:
        return False
    return all(
        difference(_rank_at(here, data.iterators, index), _rank_at(there, barrier.iterators, index))
        == 0
        for index in _indices(data)
    )


def one_each(data: Desugared, barrier: Desugared) -> bool:
    """Tests whether for each index of the data exactly one of the barrier is known to be in its
    CTA."""
    here, there = cta_of(data), cta_of(barrier)
    if here is None or there is None:
        return False
    ranks = [_rank_at(there, barrier.iterators, index) for index in _indices(barrier)]
    for index in _indices(data):
        mine = _rank_at(here, data.iterators, index)
        apart = [difference(mine, rank) for rank in ranks]
        if None in apart or apart.count(0) != 1:
            return False
    return True


def in_one_cta(data: Desugared, barrier: Desugared, index: tuple[Sym, ...]) -> ir.BExpr:
    """The data's indices and these of the barrier stand for one CTA; each stands for one at all."""
    here, there = cta_of(data), cta_of(barrier)
    assert here is not None and there is not None
    renamed: dict[Sym, ir.CExpr] = dict(zip(barrier.iterators, map(ir.CVar, index), strict=True))
    return ir.Compare("==", here, substitute(there, renamed))


def _indices(loops: Desugared) -> Iterator[tuple[int, ...]]:
    return product(*map(range, loops.extents))


def _rank_at(rank: ir.CExpr, iterators: tuple[Sym, ...], index: tuple[int, ...]) -> ir.CExpr:
    return substitute(rank, dict(zip(iterators, map(ir.Int, index), strict=True)))
