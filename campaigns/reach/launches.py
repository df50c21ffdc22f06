"""Launches in a row, some of which may begin while the one before still runs."""

from __future__ import annotations

from dataclasses import dataclass, field
from typing import Final

from campaigns.gpu.making import Making, Node
from campaigns.reach.parts import lanes
from campaigns.reach.schemes import TASKS

LANES: Final = 32


@dataclass
class Touched:
    """The arrays that a launch reads and writes, and whether it waits for those before."""

    dependent: bool
    read: set[str] = field(default_factory=set)
    written: set[str] = field(default_factory=set)


def launches(m: Making) -> list[Node]:
    """Two or three launches on the same arrays, the accesses before a wait on others."""
    count = m.rng.choice((2, 2, 3))
    m.note("launches")
    arrays = [m.array("a", "f32", "M", LANES) for _ in range(4)]
    total = m.name("h") if m.chance(0.4) else ""
    if total:
        m.note("launches with atomics")
        m.parameters.append(f"{total}: f32[4] @ CudaGmemLinear")
    done: list[Touched] = []
    body: list[Node] = []
    for number in range(count):
        now = Touched(number > 0 and m.chance(0.7))
        nodes: list[Node] = []
        if now.dependent:
            m.note("dependent launch")
            nodes += _touch(m, arrays, now, _running(done))
            if nodes or m.chance(0.7):
                nodes += _wait(m)
        for _ in range(m.rng.choice((1, 1, 2))):
            nodes += _touch(m, arrays, now, [])
        if total and m.chance(0.6):
            nodes.append(_add(m, total, arrays, now))
        how = "blockDim=32, dependent=True" if now.dependent else "blockDim=32"
        body.append((f"with CudaDeviceFunction({how}):", [(TASKS, nodes or ["pass"])]))
        done.append(now)
    return body


def _wait(m: Making) -> list[Node]:
    """By all threads; or by some, whom the others meet or do not; or in some tasks alone."""
    wait: Node = "Fence(cuda_stream_sync, cuda_in_order)"
    how = m.rng.random()
    if how < 0.65:
        return [wait]
    if how < 0.9:
        m.note("some threads wait")
        some = lanes(m.name("t"), [wait], m.rng.choice((1, 16)))
        return [some, "Fence(cuda_in_order, cuda_in_order)"] if m.chance(0.8) else [some]
    m.note("some tasks wait")
    return [("if task < 1:", [wait])]


def _running(done: list[Touched]) -> list[Touched]:
    """The launches that may still run when the next one, a dependent one, begins."""
    found = []
    for one in reversed(done):
        found.append(one)
        if not one.dependent:
            break
    return found


def _touch(m: Making, arrays: list[str], now: Touched, running: list[Touched]) -> list[Node]:
    """An array from another one, of which no thread of this launch needs what another writes, nor,
    beforehand, what a launch that still runs does."""
    busy = set[str]().union(*(one.written for one in running))
    used = set[str]().union(*(one.read | one.written for one in running))
    sources = [a for a in arrays if a not in now.written | busy]
    targets = [a for a in arrays if a not in now.read | now.written | used]
    pairs = [(s, t) for s in sources for t in targets if s != t]
    if not pairs or (running and m.chance(0.3)):
        return []
    source, target = m.rng.choice(pairs)
    now.read.add(source)
    now.written.add(target)
    t = m.name("t")
    task, lane = m.rng.choice((("task", t), ("task", f"31 - {t}"), ("M - 1 - task", t)))
    return [lanes(t, [f"{target}[task, {t}] = {source}[{task}, {lane}]"])]


def _add(m: Making, total: str, arrays: list[str], now: Touched) -> Node:
    source = m.rng.choice([a for a in arrays if a not in now.written])
    now.read.add(source)
    r, t = m.name("r"), m.name("t")
    value = f"{r} = {source}[task, 31 - {t}]"
    return lanes(t, [f"{r}: f32", value, f"cuda_atomic_add({total}[{t} % 4], {r})"])
