"""One mistake in a program: a synchronisation dropped, moved or changed; another slot."""

from __future__ import annotations

import re
from random import Random

from campaigns.gpu.making import Node
from exogpu.hw.timelines import SYNC_TIMELINES

_SYNCS = ("Fence", "Arrive", "Await")
_NAMES = [name for name in SYNC_TIMELINES if name not in ("cpu_in_order", "cuda_stream_sync")]
_TIMELINE = re.compile("|".join(rf"\b{name}\b" for name in SYNC_TIMELINES))
_COUNT = re.compile(r"(?<=[~ ])(\d)(?=\))")
_ELEMENT = re.compile(r"(full|empty)(\d+)\[(0|1|:)\]")
"""An element of a barrier that roles have, or all of them."""
_REMAINDER = re.compile(r"(\w+)( % [23]\b)")
_PARTNER = re.compile(r"\+ 8\) % 16")
"""The row of an accumulator that the same thread holds; four further another one does."""

Path = tuple[int, ...]


def mistaken(random: Random, body: list[Node]) -> list[Node]:
    """The program with one mistake; the same where there is no place for it."""
    chosen = _places(body, ())
    if not chosen:
        return body
    return _changed(random, body, random.choice(chosen))


def _places(nodes: list[Node], at: Path) -> list[Path]:
    """Returns the places of synchronisation and remainders."""
    found: list[Path] = []
    for number, node in enumerate(nodes):
        if isinstance(node, tuple):
            found += _places(node[1], (*at, number))
        elif node.startswith(_SYNCS):
            found += [(*at, number)] * 3
        elif _REMAINDER.search(node) or _PARTNER.search(node):
            found.append((*at, number))
    return found


def _changed(random: Random, nodes: list[Node], at: Path) -> list[Node]:
    made = list(nodes)
    node = made[at[0]]
    if isinstance(node, tuple):
        made[at[0]] = (node[0], _changed(random, node[1], at[1:]))
        return made
    if not node.startswith(_SYNCS):
        shifted = _PARTNER.sub("+ 4) % 16", node, count=1)
        if shifted == node:
            shifted = _REMAINDER.sub(r"(\1 + 1)\2", node, count=1)
        made[at[0]] = shifted
        return made
    if (element := _ELEMENT.search(node)) and random.random() < 0.2:
        other = random.choice([one for one in "01:" if one != element[3]])
        made[at[0]] = node[: element.start(3)] + other + node[element.end(3) :]
        return made
    kind = random.randrange(5)
    if kind == 0:
        del made[at[0]]
        return made or ["pass"]
    if kind == 1:
        del made[at[0]]
        made.insert(max(0, at[0] + random.choice((-1, 1))), node)
        return made
    if kind == 2 and (counts := list(_COUNT.finditer(node))):
        count = counts[-1]
        other = max(0, int(count[1]) + random.choice((-1, 1)))
        made[at[0]] = node[: count.start()] + str(other) + node[count.end() :]
        return made
    found = list(_TIMELINE.finditer(node))
    changed = random.choice(found)
    made[at[0]] = node[: changed.start()] + random.choice(_NAMES) + node[changed.end() :]
    return made
