"""In which order threads and asynchronous operations take turns."""

from __future__ import annotations

from dataclasses import dataclass
from typing import Final


@dataclass(frozen=True, slots=True)
class Order:
    """One order of everything that may happen, made from a seed."""

    seed: int = 0
    eager: float = 0.1
    """The share of turns in which an asynchronous operation goes on while threads can: at 0 copies
    and products are as late as they may be, at 1 they are done at once."""
    fickle: float = 0.02
    """The share of turns in which any thread goes on in the place of the one with the highest
    priority."""
    clusters: int | None = None
    """The number of clusters that take the tasks; None: one a task."""
    ahead: bool = False
    """A dependent launch begins before the one before it, as if that had only begun, and runs until
    it waits."""


ORDERS: Final = (
    Order(0, eager=0.0),
    Order(1, eager=0.05, clusters=1),
    Order(2, eager=1.0, ahead=True),
    Order(3, eager=0.0, fickle=0.5, clusters=1, ahead=True),
    Order(4, eager=0.3, fickle=0.5),
)
"""From copies that are as late as possible to copies that are done at once."""
