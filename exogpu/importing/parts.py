"""Counts the parts of each array of cells: one for each thread if it is known who has what."""

from __future__ import annotations

from collections import Counter
from collections.abc import Mapping, Sequence
from dataclasses import dataclass

from exogpu.importing import events as ev
from exogpu.importing.refusing import unsupported
from exogpu.importing.rings import steps


@dataclass(frozen=True, slots=True)
class Parts:
    """The one map from threads to an array's bytes that is followed exactly."""

    threads: int = 1
    key: str = ""

    def exact(self, key: str) -> bool:
        """Returns whether accesses by this map are those of each thread's own part."""
        return bool(key) and key == self.key


def parts_of(items: Sequence[ev.Item], roles: Sequence[ev.Role]) -> Mapping[str, Parts]:
    """By array: its parts.  All accesses by another map are taken to be of all parts by all
    threads, which is more than they access.

    Raises RefusedError (K104) for cp.async by two maps.
    """
    threads = {role.name: role.threads for role in roles}
    keys: dict[str, Counter[str]] = {}
    chosen: dict[str, str] = {}
    by: dict[str, int] = {}
    for step in steps(items):
        match step.event:
            case ev.Load() | ev.Store() if step.event.parts:
                keys.setdefault(step.event.window.array, Counter())[step.event.parts] += 1
                by[step.event.parts] = threads[step.role]
            case ev.AsyncCopy() as copy:
                array, by[copy.parts] = copy.window.array, threads[step.role]
                if chosen.setdefault(array, copy.parts) != copy.parts:
                    raise unsupported(
                        "cp.async copies into the same bytes in two layouts",
                        "copy in one layout, or keep the buffers apart",
                        step.span,
                    )
            case _:
                pass
    found = {array: counter.most_common(1)[0][0] for array, counter in keys.items()}
    found |= chosen
    return {array: Parts(by[key], key) for array, key in found.items()}
