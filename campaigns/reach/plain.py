"""Uses of a tile by ordinary statements."""

from __future__ import annotations

from campaigns.gpu.making import Making, Node
from campaigns.reach.parts import Step, Use, elsewhere, every


def copied(m: Making, step: Step) -> Use:
    """Each thread writes elements that others may have brought."""
    y = step.array(m, "y")

    def put(i: str, j: str) -> list[Node]:
        value = step.tile.at(*elsewhere(m, step.tile, i, j))
        return [f"{y}[task, {step.number}, {i}, {j}] = {value}"]

    return Use([every(m, step.tile, put)])
