"""Thread maps against brute-force enumeration, for every collective unit of the figure.

The oracle knows nothing of splitting or operators.  It reshapes the natural thread indices of a
cluster by the unit's domain, lays a grid of boxes over the parent's threads, and takes the
non-empty cells in order: iteration y is executed by the y-th.
"""

from __future__ import annotations

import itertools
import math

import pytest
from hypothesis import given, settings
from hypothesis import strategies as st

from exogpu.analysis.common_dimensions import TilingError
from exogpu.analysis.derive_tiling import derive, derive_warps, is_unit_scope
from exogpu.analysis.threadmap import threads_of
from exogpu.analysis.tiling import Tiling, launch_tiling
from exogpu.hw import units
from exogpu.ir.nodes import WarpConfig
from exogpu.ir.types import CollUnit, Sym
from exogpu.solvers import isl

UNITS = {
    "thread": units.cuda_thread,
    "8 threads": 8 * units.cuda_thread,
    "16 threads": 16 * units.cuda_thread,
    "quadpair": units.cuda_quadpair,
    "warp": units.cuda_warp,
    "2 warps": 2 * units.cuda_warp,
    "4 warps": 4 * units.cuda_warp,
    "warpgroup": units.cuda_warpgroup,
    "2 warpgroups": 2 * units.cuda_warpgroup,
    "2 of 8": units.cuda_threads_strided(2, 8),
    "8 of 8": units.cuda_threads_strided(8, 8),
    "16 * 2 of 8": 16 * units.cuda_threads_strided(2, 8),
    "32 * 1 of 8": 32 * units.cuda_threads_strided(1, 8),
    "4 * 4 of 64": 4 * units.cuda_threads_strided(4, 64),
    "warp in cluster": units.cuda_warp_in_cluster,
    "2 * warp in cluster": 2 * units.cuda_warp_in_cluster,
    "cta": units.cuda_cta_in_cluster,
    "2 ctas": 2 * units.cuda_cta_in_cluster,
    "cluster": units.cuda_cluster,
    "every 2nd cta": units.cuda_cta_in_cluster_strided(2),
    "2 * every 2nd cta": 2 * units.cuda_cta_in_cluster_strided(2),
    "warp in every 2nd cta": units.cuda_warp_in_cluster_strided(2),
    "2 * warp in every 2nd cta": 2 * units.cuda_warp_in_cluster_strided(2),
    "agnostic intact cta": units.cuda_agnostic_intact_cta,
    "agnostic sub cta": units.cuda_agnostic_sub_cta,
}


def coordinates(thread: int, domain: list[int]) -> tuple[int, ...]:
    """Mixed-radix digits of a natural thread index; what is left over comes first."""
    digits = []
    for extent in reversed(domain):
        digits.append(thread % extent)
        thread //= extent
    return (thread, *reversed(digits))


def tiles(unit: CollUnit, cluster: int, block: int, parent: list[int]) -> list[list[int]]:
    """The non-empty cells of the unit's grid over the parent's threads, in order."""
    domain = [int(e.evaluate(cluster, block)) for e in unit.domain]
    box = [None if e is None else int(e.evaluate(cluster, block)) for e in unit.box]
    covers_all = math.prod(domain) == cluster * block
    # One box never spans two copies of the domain, and an agnostic entry never divides.
    widths = [None if covers_all else 1] + [
        None if b is None or b == d else b for b, d in zip(box, domain, strict=True)
    ]
    points = {t: coordinates(t, domain) for t in parent}
    starts = [min(p[m] for p in points.values()) for m in range(len(widths))]
    cells: dict[tuple[int, ...], list[int]] = {}
    for t, p in points.items():
        cell = tuple(
            0 if w is None else (x - s) // w for x, s, w in zip(p, starts, widths, strict=True)
        )
        cells.setdefault(cell, []).append(t)
    return [sorted(cells[c]) for c in sorted(cells)]


def expected(
    levels: list[tuple[CollUnit, int, int]], tiling: Tiling, start: list[int]
) -> dict[tuple[int, ...], list[int]]:
    """Threads by values of the nested iterators."""
    table = {(): start}
    for unit, lo, count in levels:
        table = {
            (*ys, lo + y): tiles(unit, tiling.cluster_dim, tiling.block_dim, threads)[y]
            for ys, threads in table.items()
            for y in range(count)
        }
    return table


def actual(tiling: Tiling) -> dict[tuple[int, ...], list[int]]:
    """Threads by values of the nested iterators, from the thread map."""
    spans = [range(r.lo, r.lo + r.count) for r in tiling.ranges]
    names = [r.iterator for r in tiling.ranges]
    return {
        ys: list(threads_of(tiling.thread_map(), dict(zip(names, ys, strict=True))))
        for ys in itertools.product(*spans)
    }


def from_isl(tiling: Tiling) -> dict[tuple[int, ...], list[int]]:
    """The same from the exact ISL relation."""
    pairs = isl.wrapped_points(tiling.isl_map())
    table: dict[tuple[int, ...], list[int]] = {}
    for *ys, thread in pairs:
        table.setdefault(tuple(ys), []).append(thread)
    return table


def nest(tiling: Tiling, levels: list[tuple[CollUnit, int, int]]) -> Tiling | TilingError:
    for depth, (unit, lo, count) in enumerate(levels):
        found = derive(tiling, unit, Sym(f"y{depth}"), lo, count)
        if isinstance(found, TilingError):
            return found
        tiling = found
    return tiling


def agrees(tiling: Tiling, levels: list[tuple[CollUnit, int, int]], start: list[int]) -> None:
    table = expected(levels, tiling, start)
    assert actual(tiling) == table
    assert from_isl(tiling) == table


@pytest.mark.parametrize("name", UNITS)
@pytest.mark.parametrize("cluster", [1, 2, 4])
@pytest.mark.parametrize("block", [128, 256, 384])
def test_one_loop_at_cluster_scope(name: str, cluster: int, block: int) -> None:
    """Every accepted loop agrees, for one iteration, for all that fit, and no further one fits."""
    launch = launch_tiling(cluster, block)
    everything = list(range(cluster * block))
    fits = 0
    for count in range(1, cluster * block + 2):
        levels = [(UNITS[name], 3, count)]
        found = nest(launch, levels)
        if isinstance(found, TilingError):
            break
        fits = count
    else:
        raise AssertionError("every count was accepted")
    for count in {1, fits} if fits else ():
        levels = [(UNITS[name], 3, count)]
        found = nest(launch, levels)
        assert isinstance(found, Tiling)
        agrees(found, levels, everything)
    if fits:
        # Maximal: what is left over is less than one more tile.
        used = sum(map(len, actual(nest(launch, [(UNITS[name], 0, fits)])).values()))
        one = len(actual(nest(launch, [(UNITS[name], 0, 1)]))[(0,)])
        assert cluster * block - used < one


# Which units may be looped over at cluster scope of a launch of 2 CTAs: those that leave one
# dimension to divide.  The others divide the CTAs and the threads at once.
AMBIGUOUS_IN_A_CLUSTER = {
    "thread", "8 threads", "16 threads", "quadpair", "warp", "2 warps", "4 warps", "2 of 8",
    "8 of 8", "16 * 2 of 8", "32 * 1 of 8", "4 * 4 of 64", "warp in cluster",
    "warpgroup", "warp in every 2nd cta", 
}  # fmt: skip


@pytest.mark.parametrize("name", UNITS)
def test_ambiguous_at_cluster_scope(name: str) -> None:
    found = derive(launch_tiling(2, 256), UNITS[name], Sym("y"), 0, 1)
    ambiguous = isinstance(found, TilingError) and found.code == "C401"
    assert ambiguous == (name in AMBIGUOUS_IN_A_CLUSTER)


NESTS = [
    (1, 128, ["warp", "thread"], [4, 32]),
    (1, 128, ["warp", "quadpair"], [3, 4]),
    (1, 128, ["warp", "quadpair", "8 of 8"], [4, 4, 1]),
    (1, 256, ["warpgroup", "warp", "8 threads", "thread"], [2, 4, 4, 8]),
    (1, 256, ["2 warps", "warp", "thread"], [4, 2, 32]),
    # After a warp loop a unit whose pitch is 64 cuts the loop's operator in two.
    (1, 256, ["warp", "4 * 4 of 64"], [8, 1]),
    (2, 256, ["cta", "warpgroup", "warp", "thread"], [2, 2, 4, 32]),
    (2, 256, ["cta", "16 threads", "thread"], [2, 16, 16]),
    (4, 128, ["2 ctas", "cta", "warp"], [2, 2, 4]),
    (4, 128, ["2 * every 2nd cta", "cta", "warpgroup"], [2, 2, 1]),
    (4, 128, ["2 * every 2nd cta", "2 * warp in every 2nd cta", "cta"], [2, 4, 2]),
    (4, 128, ["2 ctas", "every 2nd cta"], [2, 2]),
    (2, 256, ["cta", "32 * 1 of 8"], [2, 8]),
    (1, 256, ["32 * 1 of 8", "thread"], [8, 32]),
    (1, 256, ["warp", "32 * 1 of 8"], [8, 1]),
]


@pytest.mark.parametrize(("cluster", "block", "names", "counts"), NESTS)
def test_nests(cluster: int, block: int, names: list[str], counts: list[int]) -> None:
    levels = [(UNITS[n], 0, c) for n, c in zip(names, counts, strict=True)]
    found = nest(launch_tiling(cluster, block), levels)
    if isinstance(found, TilingError):
        # 32 positions of pitch 8 span 256 threads, a warp has 4 of them.
        assert (names, found.code) == (["warp", "32 * 1 of 8"], "C402")
        return
    agrees(found, levels, list(range(cluster * block)))


GROUPS = (WarpConfig("p", 1), WarpConfig("u", 3), WarpConfig("c", 8))


@given(
    cluster=st.sampled_from([1, 2, 4]),
    warps=st.sampled_from([None, ("p", 0, 1), ("c", 0, 8), ("c", 0, 4), ("c", 4, 8), ("u", 1, 3)]),
    picks=st.lists(
        st.tuples(st.sampled_from(sorted(UNITS)), st.integers(-2, 3), st.integers(1, 8)),
        min_size=1,
        max_size=4,
    ),
)
@settings(max_examples=400, derandomize=True, deadline=None)
def test_random_nests(
    cluster: int,
    warps: tuple[str, int, int] | None,
    picks: list[tuple[str, int, int]],
) -> None:
    """CTA loops, then a warp range, then loops: each accepted level agrees with the oracle."""
    tiling: Tiling = launch_tiling(cluster, 384)
    start = list(range(cluster * 384))
    if warps is not None:
        name, lo, hi = warps
        before = {"p": 0, "u": 1, "c": 4}[name]
        found = derive_warps(tiling, GROUPS, name, lo, hi)
        assert isinstance(found, Tiling)
        tiling = found
        start = [t for t in start if before + lo <= t % 384 // 32 < before + hi]
    levels: list[tuple[CollUnit, int, int]] = []
    for name, lo, count in picks:
        deeper = derive(tiling, UNITS[name], Sym("y"), lo, count)
        if isinstance(deeper, TilingError):
            continue
        tiling = deeper
        levels.append((UNITS[name], lo, count))
    if math.prod(count for _, _, count in levels) <= 64:
        agrees(tiling, levels, start)


@pytest.mark.parametrize("name", UNITS)
def test_a_loop_over_a_unit_makes_its_scope(name: str) -> None:
    """Where a loop divides CTAs into a unit, its body is that unit's scope."""
    launch = launch_tiling(1, 256)
    found = derive(launch, UNITS[name], Sym("y"), 0, 1)
    if isinstance(found, Tiling):
        assert is_unit_scope(found, UNITS[name])


def test_alignment() -> None:
    """Four warps from warp 1 on are no warpgroup: PTX wants it at a multiple of four warps."""
    launch = launch_tiling(1, 384)
    shifted = derive_warps(launch, (WarpConfig("", 12),), None, 1, 5)
    aligned = derive_warps(launch, (WarpConfig("", 12),), None, 4, 8)
    assert isinstance(shifted, Tiling) and isinstance(aligned, Tiling)
    assert not is_unit_scope(shifted, units.cuda_warpgroup)
    assert is_unit_scope(aligned, units.cuda_warpgroup)
