"""Loops over the threads of a CTA, in units of all shapes."""

from __future__ import annotations

from collections.abc import Callable
from dataclasses import dataclass

from campaigns.gpu.making import Making, Node, nested


@dataclass(frozen=True)
class Spread:
    """Loops that give each of `count` threads a number."""

    kind: str
    headers: tuple[str, ...]
    number: str
    count: int


def _threads(m: Making, block: int) -> Spread:
    t = m.name("t")
    return Spread("threads", (loop(t, block, "cuda_thread"),), t, block)


def _some(m: Making, block: int) -> Spread:
    t, n = m.name("t"), m.rng.choice([1, 7, 31, 33, block // 2 + 1, block - 1])
    n = max(1, min(n, block))
    return Spread("some threads", (loop(t, n, "cuda_thread"),), t, n)


def _shifted(m: Making, block: int) -> Spread:
    """The first iteration is not 0."""
    t, lo = m.name("t"), m.rng.randint(1, 5)
    header = f"for {t} in cuda_threads({lo}, {lo + block}, unit=cuda_thread):"
    return Spread("shifted threads", (header,), f"({t} - {lo})", block)


def _warps(m: Making, block: int) -> Spread:
    w, t = m.name("w"), m.name("t")
    headers = (loop(w, block // 32, "cuda_warp"), loop(t, 32, "cuda_thread"))
    return Spread("warps", headers, f"32 * {w} + {t}", block)


def _groups(m: Making, block: int) -> Spread:
    """Pieces of any number of threads; what is left over idles."""
    g, t = m.name("g"), m.name("t")
    each = m.rng.choice([2, 3, 4, 5, 8, 12, 16, 20, 24, 33, 48, 64])
    each = min(each, block)
    headers = (loop(g, block // each, f"{each} * cuda_thread"), loop(t, each, "cuda_thread"))
    return Spread("odd groups", headers, f"{each} * {g} + {t}", block // each * each)


def _warp_pairs(m: Making, block: int) -> Spread:
    g, t, each = m.name("g"), m.name("t"), m.rng.choice([1, 2, 3])
    each = min(each, block // 32)
    count = block // 32 // each
    headers = (loop(g, count, f"{each} * cuda_warp"), loop(t, 32 * each, "cuda_thread"))
    return Spread("groups of warps", headers, f"{32 * each} * {g} + {t}", 32 * each * count)


def _warpgroups(m: Making, block: int) -> Spread:
    if block < 128:
        return _warps(m, block)
    g, t = m.name("g"), m.name("t")
    headers = (loop(g, block // 128, "cuda_warpgroup"), loop(t, 128, "cuda_thread"))
    return Spread("warpgroups", headers, f"128 * {g} + {t}", block // 128 * 128)


def _strided(m: Making, block: int) -> Spread:
    """Every unit has `each` adjacent threads out of every `pitch`."""
    s, r, t = m.name("s"), m.name("r"), m.name("t")
    pitch = m.rng.choice([p for p in (8, 16, 32, 64) if block % p == 0])
    each = m.rng.choice([e for e in (1, 2, 4, 8) if e < pitch])
    rows = block // pitch
    unit = f"cuda_threads_strided({each}, {pitch})"
    headers = (
        loop(s, pitch // each, f"{rows} * {unit}"),
        loop(r, rows, unit),
        loop(t, each, "cuda_thread"),
    )
    return Spread("strided threads", headers, f"{pitch} * {r} + {each} * {s} + {t}", block)


def _quadpairs(m: Making, block: int) -> Spread:
    w, q, r, t = m.name("w"), m.name("q"), m.name("r"), m.name("t")
    headers = (
        loop(w, block // 32, "cuda_warp"),
        loop(q, 4, "cuda_quadpair"),
        loop(r, 2, "cuda_threads_strided(4, 16)"),
        loop(t, 4, "cuda_thread"),
    )
    return Spread("quadpairs", headers, f"32 * {w} + 16 * {r} + 4 * {q} + {t}", block)


def _chosen_warps(m: Making, block: int) -> Spread:
    """The threads of some warps, by CudaWarps."""
    if block < 64:
        return _threads(m, block)
    lo = m.rng.randint(0, block // 32 - 1)
    hi = m.rng.randint(lo + 1, block // 32)
    t, count = m.name("t"), 32 * (hi - lo)
    headers = (f"with CudaWarps({lo}, {hi}):", loop(t, count, "cuda_thread"))
    return Spread("chosen warps", headers, t, count)


KINDS: tuple[Callable[[Making, int], Spread], ...] = (
    *(_threads, _threads, _some, _shifted, _warps, _groups, _groups, _warp_pairs),
    *(_warpgroups, _strided, _quadpairs, _chosen_warps),
)


def loop(name: str, count: int, unit: str) -> str:
    return f"for {name} in cuda_threads(0, {count}, unit={unit}):"


def spread(m: Making, block: int, *, whole: bool = False, by_role: bool = False) -> Spread:
    """One of the kinds; with `whole` one that gives every thread one number."""
    while True:
        found = m.rng.choice(KINDS)(m, block)
        if by_role and found.kind == "chosen warps":
            continue
        if not whole or found.count == block:
            m.note(f"unit: {found.kind}")
            return found


def elements(
    m: Making,
    block: int,
    total: int,
    body: Callable[[str], list[Node]],
    *,
    by_role: bool = False,
    chosen: Spread | None = None,
) -> list[Node]:
    """The body for every element number below `total`, spread over the threads."""
    s = chosen or spread(m, block, by_role=by_role)
    per = -(-total // s.count)
    i = m.name("i")
    if per == 1:
        at = s.number
    elif m.chance(0.5):
        at = f"{s.number} + {s.count} * {i}"
    else:
        at = f"{per} * ({s.number}) + {i}"
    inside = body(at)
    if per * s.count > total:
        inside = [(f"if {at} < {total}:", inside)]
    if per > 1:
        inside = [(f"for {i} in seq(0, {per}):", inside)]
    return nested(s.headers, inside)
