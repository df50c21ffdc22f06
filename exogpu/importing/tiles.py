"""That programs store different tiles of global memory."""

from __future__ import annotations

from collections.abc import Sequence
from dataclasses import dataclass

from exogpu.importing import events as ev
from exogpu.importing.rings import steps


@dataclass(frozen=True, slots=True)
class Tiles:
    """The tensors of which it is assumed."""

    assumed: tuple[str, ...]


def tiles_of(items: Sequence[ev.Item]) -> Tiles:
    """Of all tensors that are stored by TMA."""
    stored = [s.event.tensor for s in steps(items) if isinstance(s.event, ev.TmaStore)]
    return Tiles(tuple(dict.fromkeys(name.strip("%") for name in stored)))
