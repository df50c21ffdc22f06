"""Ways to hand over tiles: within a warp, from warp to warp, by a ring in a task or beyond it."""

from __future__ import annotations

from collections.abc import Callable, Sequence
from typing import Final

from campaigns.gpu.making import Making, Node, fence
from campaigns.reach import fragments, sources
from campaigns.reach.parts import ACCUMULATOR, SMALL, MakeUse, Step, Tile, Use

TASKS = "for task in cuda_tasks(0, M):"
END = fence("cuda_in_order", "cuda_generic_and_async")


def device(block: int, body: list[Node], resident: Sequence[Node] = ()) -> list[Node]:
    """A launch of M tasks."""
    return [(f"with CudaDeviceFunction(blockDim={block}):", [*resident, (TASKS, body)])]


def _warps(m: Making, number: int, count: int) -> Callable[[list[Node]], list[Node]]:
    """One warp of a CTA."""
    if count == 1:
        name = m.name("w")
        return lambda body: [(f"for {name} in cuda_threads(0, 1, unit=cuda_warp):", body)]
    return lambda body: [(f"with CudaWarps({number}, {number + 1}):", body)]


def fenced(m: Making, uses: Sequence[MakeUse]) -> list[Node]:
    """One tile, filled and used in turn, a Fence between."""
    warps = m.rng.choice((1, 1, 2))
    m.note("handed over by fences")
    buf, k = m.name("buf"), m.name("k")
    rows, cols = _sides(uses)
    step = Step(Tile(buf, rows, cols), k, m.size("K"))
    filler, user = _warps(m, 0, warps), _warps(m, warps - 1, warps)
    fill = m.rng.choice(sources.BY_FENCE)(m, step)
    made = [use(m, step) for use in uses]
    body: list[Node] = [f"{buf}: f32[{rows}, {cols}] @ CudaSmemLinear", *_declared(made)]
    body += _first(made, user)
    loop = [
        *filler(fill.body),
        fence(fill.arrives, "cuda_in_order"),
        *user(_steps(made)),
        fence("cuda_in_order", fill.before),
    ]
    body.append((f"for {k} in seq(0, {step.count}):", loop))
    return device(32 * warps, body + _last(made, user))


def ring(m: Making, uses: Sequence[MakeUse]) -> list[Node]:
    """A warp fills a ring of tiles, and another one uses them."""
    return _ring(m, uses, running=False)


def running(m: Making, uses: Sequence[MakeUse]) -> list[Node]:
    """A ring that runs on from task to task, by its slots."""
    return _ring(m, uses, running=True)


def _ring(m: Making, uses: Sequence[MakeUse], *, running: bool) -> list[Node]:
    depth = m.rng.choice((1, 2, 2, 3))
    m.note("ring", *(["resident ring"] if running else []))
    buf, full, empty, k = (m.name(s) for s in ("buf", "full", "empty", "k"))
    count = m.size("K")
    slots = [f"{k} % {depth}"] * 2 if depth > 1 else ["0"] * 2
    if running:
        slots = [f"slot({full})", f"slot({empty})"]
    rows, cols = _sides(uses)
    there, step = (Step(Tile(buf, rows, cols, slot), k, count) for slot in slots)
    fill = m.rng.choice(sources.BY_BARRIER)(m, there)
    made = [use(m, step) for use in uses]
    first, second = _warps(m, 0, 2), _warps(m, 1, 2)
    shared: list[Node] = [
        f"{buf}: f32[{depth}, {rows}, {cols}] @ CudaSmemLinear",
        f"{full}: barrier @ CudaMbarrier",
        f"{empty}: barrier({full}) @ CudaMbarrier",
    ]
    filled = [_formatted(node, full) for node in fill.body] if fill.trailing else fill.body
    produce: list[Node] = [
        f"Await({empty}, {fill.before}, ~{depth})",
        *filled,
        f"Arrive({fill.arrives}) >> {full}",
    ]
    consume: list[Node] = [
        f"Await({full}, cuda_generic_and_async, ~0)",
        *_steps(made),
        f"Arrive(cuda_in_order) >> {empty}",
    ]
    steps = [*first(produce), *second(consume)]
    body: list[Node] = [*([] if running else shared), *_declared(made), *_first(made, second)]
    body.append((f"for {k} in seq(0, {count}):", steps))
    body += _last(made, second)
    return device(64, body, shared if running else ())


def _formatted(node: Node, full: str) -> Node:
    assert isinstance(node, str)
    return node.replace("{full}", full)


def _sides(uses: Sequence[MakeUse]) -> tuple[int, int]:
    return ACCUMULATOR if fragments.fragments in uses else SMALL


def _declared(uses: Sequence[Use]) -> list[Node]:
    return [node for use in uses for node in use.declared]


def _steps(uses: Sequence[Use]) -> list[Node]:
    return [node for use in uses for node in use.step]


def _first(uses: Sequence[Use], user: Callable[[list[Node]], list[Node]]) -> list[Node]:
    found = [node for use in uses for node in use.first]
    return user(found) if found else []


def _last(uses: Sequence[Use], user: Callable[[list[Node]], list[Node]]) -> list[Node]:
    """Then all threads of the CTA meet, and what lies in shared memory may end."""
    found = [node for use in uses for node in use.last]
    end = [node for use in uses for node in use.end]
    return [*(user(found) if found else []), *end, END]


SCHEMES: Final = (fenced, ring, running)
