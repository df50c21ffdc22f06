"""Shared memory that the CTAs of a cluster access in each other's parts, in steps."""

from __future__ import annotations

from dataclasses import dataclass
from typing import Final

from campaigns.gpu.making import Making, Node
from campaigns.reach.parts import lanes
from campaigns.reach.schemes import TASKS

LANES: Final = 32
FENCE: Final = "Fence(cuda_in_order, cuda_in_order)"

NOTHING, WARP, CTA, CLUSTER, SPLIT = range(5)
"""The statement after a step: nothing, a Fence of a warp, of a CTA or of the cluster, or an Arrive
and an Await of the cluster."""


@dataclass(frozen=True)
class _Cluster:
    """The parts that the steps of a program have in common."""

    ctas: int
    part: str
    meet: str
    """A barrier of the cluster; empty where the variable resides."""
    steps: str
    """The size that counts the repetitions; empty: there is none."""


def clusters(m: Making) -> list[Node]:
    """Two to four steps, repeated at times; often all CTAs of the cluster meet after each."""
    resides = m.chance(0.25)
    on = _Cluster(
        m.rng.choice((2, 2, 2, 3)),
        m.name("part"),
        "" if resides else m.name("meet"),
        m.size("K") if m.chance(0.5) else "",
    )
    m.note("memory of a cluster", *(["it resides"] if resides else []))
    often = m.chance(0.6)
    k = m.name("k")
    steps: list[Node] = []
    for number in range(m.rng.choice((2, 3, 3, 4))):
        others = ("write", "read", "read", "read" if resides else "add")
        what = "write" if number == 0 else m.rng.choice(others)
        steps += _step(m, on, what, k, often=often)
    body: list[Node] = [(f"for {k} in seq(0, {on.steps}):", steps)] if on.steps else steps
    if not often or m.chance(0.3):
        body += [FENCE]
    shared: list[Node] = [f"{on.part}: f32[{on.ctas}, {LANES}] @ CudaSmemCluster"]
    if on.meet:
        shared.append(f"{on.meet}: barrier @ CudaClusterSync")
    tasks = (TASKS, body if resides else shared + body)
    head = f"with CudaDeviceFunction(clusterDim={on.ctas}, blockDim={LANES}):"
    return [(head, [*(shared if resides else []), tasks])]


def _step(m: Making, on: _Cluster, what: str, k: str, *, often: bool) -> list[Node]:
    """Each CTA accesses a part, most often its own or its neighbour's; and what follows."""
    c, t = m.name("c"), m.name("t")
    a = m.rng.choice((1, 1, 1, 1, 0) if what != "write" else (1, 1, 1, 1, 1, 1, 1, 0))
    b = m.rng.choice((0, 1, 1, 2))
    at = f"{on.part}[({c} + {b}) % {on.ctas}" if a else f"{on.part}[{b} % {on.ctas}"
    if a and b == 0:
        at = f"{on.part}[{c}"
    steps = [on.steps] if on.steps else []
    step = f"{k}, " if on.steps else ""
    array = m.array("x" if what != "read" else "y", "f32", "M", *steps, on.ctas, LANES)
    here = f"{array}[task, {step}{c}, {t}]"
    m.note(f"{what} in a cluster", *([f"{what} of another CTA"] if b % on.ctas or not a else []))
    body: list[Node]
    if what == "write":
        body = [f"{at}, {t}] = {here}"]
    elif what == "read":
        body = [f"{here} = {at}, {LANES - 1} - {t}]"]
    else:
        r = m.name("r")
        body = [f"{r}: f32", f"{r} = {here}", f"cuda_atomic_add({at}, {t} % 4], {r})"]
    choices = (NOTHING, WARP, CTA, CTA, CLUSTER, SPLIT)
    then = m.rng.choice((CLUSTER, CLUSTER, SPLIT) if often else choices)
    if then == SPLIT and not on.meet:
        then = CLUSTER
    inner: list[Node] = [lanes(t, body, LANES)]
    if then == WARP:
        inner.append((f"for {m.name('w')} in cuda_threads(0, 1, unit=cuda_warp):", [FENCE]))
    if then == CTA:
        inner.append(FENCE)
    made: list[Node] = [
        (f"for {c} in cuda_threads(0, {on.ctas}, unit=cuda_cta_in_cluster):", inner)
    ]
    if then == CLUSTER:
        made.append(FENCE)
    if then == SPLIT:
        made += [f"Arrive(cuda_in_order) >> {on.meet}", f"Await({on.meet}, cuda_in_order, 0)"]
    return made
