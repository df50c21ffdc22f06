"""Tiles of several roles: a ring whose phases they share, turns of named barriers, or one
mbarrier on which several roles hand over tiles."""

from __future__ import annotations

from collections.abc import Sequence
from typing import Final

from campaigns.gpu.making import Making, Node
from campaigns.reach import plain, schemes, sources
from campaigns.reach.parts import SMALL, Step, Tile, Use

READERS: Final = 2


def roles(m: Making) -> list[Node]:
    """A warp fills what two others read, each at its own pace."""
    return m.rng.choice((_shared, _shared, _named, exchanges, exchanges))(m)


def _role(number: int, body: list[Node]) -> Node:
    return (f"with CudaWarps({number}, {number + 1}):", body)


def _shared(m: Making) -> list[Node]:
    """A ring, one mbarrier of each slot for both: an Await or an Arrive is on all elements."""
    depth = m.rng.choice((1, 2, 2, 3))
    running = m.chance(0.2)
    m.note("phases that roles share", *(["they run on"] if running else []))
    buf, full, empty, k = (m.name(s) for s in ("buf", "full", "empty", "k"))
    count = m.size("K")
    slot = f"{k} % {depth}" if depth > 1 else "0"
    if running:
        # What roles count for themselves has no slot, so a task has whole turns of the ring.
        count = str(depth * m.rng.choice((1, 2)))
    step = Step(Tile(buf, *SMALL, slot), k, count)
    fill = m.rng.choice(sources.BY_BARRIER)(m, step)
    uses = _uses(m, step)
    shared: list[Node] = [
        f"{buf}: f32[{depth}, {SMALL[0]}, {SMALL[1]}] @ CudaSmemLinear",
        f"{full}: barrier[{READERS}] @ CudaMbarrier",
        f"{empty}: barrier({full})[{READERS}] @ CudaMbarrier",
    ]
    filled = [_trailing(node, f"{full}[:]") for node in fill.body] if fill.trailing else fill.body
    steps: list[Node] = [
        _role(
            0,
            [
                f"Await({empty}[:], {fill.before}, ~{depth})",
                *filled,
                f"Arrive({fill.arrives}) >> {full}[:]",
            ],
        )
    ]
    for number, use in enumerate(uses):
        consume: list[Node] = [
            f"Await({full}[{number}], cuda_generic_and_async, ~0)",
            *use.step,
            f"Arrive(cuda_in_order) >> {empty}[{number}]",
        ]
        steps.append(_role(1 + number, consume))
    loop: Node = (f"for {k} in seq(0, {count}):", steps)
    body: list[Node] = [*([] if running else shared), loop, schemes.END]
    return schemes.device(32 * (1 + READERS), body, shared if running else ())


def _named(m: Making) -> list[Node]:
    """One tile, and two named barriers for each reader: one says that it is there, one that it is
    read, which the last step does not."""
    m.note("named barriers")
    buf, full, empty, k = (m.name(s) for s in ("buf", "full", "empty", "k"))
    step = Step(Tile(buf, *SMALL), k, m.size("K"))
    fill = m.rng.choice(sources.BY_FENCE)(m, step)
    uses = _uses(m, step)
    waits: list[Node] = [f"Await({empty}[{n}], cuda_in_order)" for n in range(READERS)]
    # What copies have brought is the thread's that has waited for them.
    ready = [] if fill.arrives == "cuda_in_order" else [f"Fence({fill.arrives}, cuda_in_order)"]
    gives: list[Node] = [f"Arrive(cuda_in_order) >> {full}[{n}]" for n in range(READERS)]
    steps: list[Node] = [_role(0, [(f"if {k} > 0:", waits), *fill.body, *ready, *gives])]
    for number, use in enumerate(uses):
        back: list[Node] = [f"Arrive(cuda_in_order) >> {empty}[{number}]"]
        consume: list[Node] = [
            f"Await({full}[{number}], cuda_in_order)",
            *use.step,
            (f"if {k} < {step.count} - 1:", back),
        ]
        steps.append(_role(1 + number, consume))
    body: list[Node] = [
        f"{buf}: f32[{SMALL[0]}, {SMALL[1]}] @ CudaSmemLinear",
        f"{full}: barrier[{READERS}] @ CudaNamedBarrier",
        f"{empty}: barrier[{READERS}] @ CudaNamedBarrier",
        (f"for {k} in seq(0, {step.count}):", steps),
        schemes.END,
    ]
    return schemes.device(32 * (1 + READERS), body)


def exchanges(m: Making) -> list[Node]:
    """Two or three tiles a step, each from one warp to another, all on one mbarrier: arrivals and
    Awaits of different warps stand in any order, and each Await is of its own arrival."""
    m.note("several roles on one mbarrier")
    buf, full, k = (m.name(s) for s in ("buf", "full", "k"))
    count, tiles = m.size("K"), m.rng.choice((2, 2, 3))
    copies = m.chance(0.5)
    given: list[list[Node]] = []
    taken: list[list[Node]] = []
    for number in range(tiles):
        step = Step(Tile(buf, *SMALL, str(number)), k, count)
        fill = m.rng.choice(sources.BY_BARRIER if copies else (sources.by_threads,))(m, step)
        body = [_trailing(n, full) for n in fill.body] if fill.trailing else fill.body
        arrive = f"Arrive({fill.arrives}) >> {full}"
        given.append([_role(0 if copies else m.rng.choice((0, 1)), [*body, arrive])])
        use = plain.copied(m, step)
        wait = f"Await({full}, cuda_in_order, ~0)"
        taken.append([_role(m.rng.choice((2, 3)), [wait, *use.step])])
    steps: list[Node] = []
    while taken:
        late = len(given) < len(taken) and (not given or m.chance(0.5))
        steps += taken.pop(0) if late else given.pop(0)
    body = [
        f"{buf}: f32[{tiles}, {SMALL[0]}, {SMALL[1]}] @ CudaSmemLinear",
        f"{full}: barrier @ CudaMbarrier",
        (f"for {k} in seq(0, {count}):", [*steps, schemes.END]),
    ]
    return schemes.device(128, body)


def _uses(m: Making, step: Step) -> Sequence[Use]:
    return [plain.copied(m, step) for _ in range(READERS)]


def _trailing(node: Node, full: str) -> Node:
    assert isinstance(node, str)
    return node.replace("{full}", full)
