"""Tiles of shared memory one after the other; later ones take the bytes of earlier ones."""

from __future__ import annotations

from typing import Final

from campaigns.gpu.making import Making, Node, fence
from campaigns.reach import plain, schemes, sources
from campaigns.reach.parts import SMALL, Step, Tile

ROLES: Final = 3


def reuse(m: Making) -> list[Node]:
    """Two to four tiles a step: one warp fills each, the same or another one reads it; then the
    reader's warp meets, or all do, or nobody."""
    m.note("shared memory that is used again")
    k, count = m.name("k"), m.size("K")
    favourite = m.rng.randrange(ROLES)
    often = m.chance(0.7)
    steps: list[Node] = []
    for number in range(m.rng.choice((2, 2, 3, 4))):
        steps += _stage(m, k, count, 0.5 if number == 0 else 0.85, favourite, often=often)
    if m.chance(0.9):
        steps.append(schemes.END)
    return schemes.device(32 * ROLES, [(f"for {k} in seq(0, {count}):", steps)])


def _stage(
    m: Making, k: str, count: str, share: float, favourite: int, *, often: bool
) -> list[Node]:
    """A tile, at times two slots of it; with a share of `share` by the favourite warp."""
    buf, slots = m.name("buf"), m.rng.choice((1, 1, 2))
    writer, reader = (favourite if m.chance(share) else m.rng.randrange(ROLES) for _ in range(2))
    step = Step(Tile(buf, *SMALL, str(slots - 1)), k, count)
    declared: list[Node] = [f"{buf}: f32[{slots}, {SMALL[0]}, {SMALL[1]}] @ CudaSmemLinear"]
    by_barrier = m.chance(0.5)
    fill = m.rng.choice(sources.BY_BARRIER if by_barrier else sources.BY_FENCE)(m, step)
    use = plain.copied(m, step).step
    if by_barrier:
        full = m.name("full")
        declared.append(f"{full}: barrier @ CudaMbarrier")
        filled = [str(n).replace("{full}", full) for n in fill.body] if fill.trailing else fill.body
        taken: list[Node] = [
            _role(writer, [*filled, f"Arrive({fill.arrives}) >> {full}"]),
            _role(reader, [f"Await({full}, cuda_in_order, ~0)", *use]),
        ]
    elif writer == reader and m.chance(0.8):
        taken = [_role(writer, [*fill.body, fence(fill.arrives, "cuda_in_order"), *use])]
    else:
        met = fence(fill.arrives, "cuda_in_order")
        taken = [_role(writer, fill.body), met, _role(reader, use)]
    meets = m.rng.choice(("reader", "reader", "all") if often else ("reader", "all", "nobody"))
    end = {"reader": [_role(reader, [schemes.END])], "all": [schemes.END], "nobody": []}
    return [*declared, *taken, *end[meets]]


def _role(number: int, body: list[Node]) -> Node:
    return (f"with CudaWarps({number}, {number + 1}):", body)
