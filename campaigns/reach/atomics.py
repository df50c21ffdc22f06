"""Atomic additions and maxima, in shared memory and among the tasks of a kernel."""

from __future__ import annotations

from campaigns.gpu.making import Making, Node
from campaigns.reach.parts import Step, Use, every, lanes

FENCE = "Fence(cuda_in_order, cuda_in_order)"


def atomics(m: Making, step: Step) -> Use:
    """The elements of the tiles are added to a few numbers, or these are the greatest of them."""
    operation = m.rng.choice(("cuda_atomic_add", "cuda_atomic_add", "cuda_atomic_max"))
    shared = m.chance(0.6)
    m.note(operation, "atomics in shared memory" if shared else "atomics in global memory")
    h, cols = m.name("h"), step.tile.cols
    r, t = m.name("r"), m.name("t")

    def one(i: str, j: str) -> list[Node]:
        where = m.rng.choice((j, f"{cols - 1} - ({j})", f"({i} + {j}) % {cols}", "0"))
        target = f"{h}[{where}]"
        return [f"{r}: f32", f"{r} = {step.tile.at(i, j)}", f"{operation}({target}, {r})"]

    if not shared:
        m.parameters.append(f"{h}: f32[{cols}] @ CudaGmemLinear")
        return Use([every(m, step.tile, one)])
    y = m.array("y", "f32", "M", cols)
    zero = lanes(t, [f"{h}[{t}] = 0.0"], cols)
    q = m.name("t")
    read = lanes(q, [f"{y}[task, {q}] = {h}[{cols - 1} - {q}]"], cols)
    # At times what is added to is ordered, and yet not seen.
    begun = FENCE if m.chance(0.85) else "Fence(cuda_in_order, cuda_temporal)"
    declared: list[Node] = [f"{h}: f32[{cols}] @ CudaSmemLinear"]
    steps: list[Node] = [every(m, step.tile, one)]
    if m.chance(0.3):  # read in the middle of it, or changed in the old way
        z, s = m.array("z", "f32", "M", step.count, cols), m.name("t")
        value = f"{z}[task, {step.number}, {s}] = {h}[{s}]"
        if m.chance(0.3):
            value = f"{h}[{s}] = {h}[{s}] + 1.0"
        steps += [FENCE, lanes(s, [value], cols), FENCE]
    if m.chance(0.5):
        return Use(steps, declared, [zero, begun], [FENCE, read])
    return Use(steps, declared, [zero, begun], [], [FENCE, read])
