"""The shapes of generated programs: how many there are of each in a campaign, and what they are."""

from __future__ import annotations

from collections.abc import Mapping
from typing import Final

from campaigns.reach import generate as reach

SHARES: Final[Mapping[str, int]] = {
    "ring": 7,
    "multicast": 5,
    "waits": 6,
    "groups": 5,
    "threads": 4,
    "tiles": 4,
    "chains": 5,
    "fences": 5,
    "proxies": 5,
    "straight_line": 5,
    "tasked": 5,
    "nested": 5,
    "nests": 5,
    "casts": 3,
    "resident": 6,
    "slots": 5,
    "relays": 5,
    "windows": 5,
    "handovers": 5,
    "host": 5,
}
"""The number of a hundred programs that have a shape."""

RUNNING: Final[Mapping[str, int]] = {
    "resident": 20,
    "slots": 20,
    "relays": 25,
    "unequal": 35,
}
"""The same of rings that run on."""

REACH: Final[Mapping[str, int]] = {
    **{name: shape.share for name, shape in reach.SHAPES.items()},
    "resident": 3,
    "slots": 3,
    "relays": 3,
    "flags": 7,
    "loads": 7,
    "roles": 3,
    "turns": 3,
}
"""The same of what the language has lately, alone and together."""

FURTHER: Final[Mapping[str, int]] = {
    "loads": 28,
    "roles": 14,
    "turns": 12,
    "readers": 10,
    "clusters": 20,
    "handovers": 8,
    "host": 8,
}
"""The same of values from memory, of roles that share barriers, and of the memory of a cluster and
of the host."""

GROUPS: Final[Mapping[str, Mapping[str, int]]] = {
    "running": RUNNING,
    "reach": REACH,
    "further": FURTHER,
}
"""Shapes that one word names."""

TITLES: Final[Mapping[str, str]] = {
    "running": "rings that run on",
    "further": "values from memory, roles, clusters, the host",
}
"""The titles of the pages of groups; of the others their word."""

EVERY: Final = tuple(dict.fromkeys((*SHARES, *RUNNING, *REACH, *FURTHER)))

MEANING: Final[Mapping[str, str]] = {
    "ring": "a ring of mbarriers between a producer and consumers, 0 to 3 mutations",
    "multicast": "a ring of tiles sent along the rows or columns of a cluster, 0 to 3 mutations",
    "casts": "such a ring of tiles in two symbolic loops, 0 to 3 mutations",
    "resident": "a ring of mbarriers that runs on from task to task, on one cluster and, in other "
    "orders, on several, 0 to 3 mutations",
    "slots": "a ring by slots that runs on from task to task, or over the iterations of a loop, at "
    "times by the slot of another barrier, a slot too early or after the Arrive, 0 to 3 mutations",
    "relays": "two such rings one after the other, of different depths, in one CTA or two, at "
    "times with a role that leaves steps out, a guard that reads the task, or a table that outlasts"
    " its task, 0 to 3 mutations",
    "unequal": "a ring that runs on through tasks of unequal numbers of steps, by the task, values "
    "from memory or two loops, at times with a step that leaves it out, 0 to 3 mutations",
    "waits": "mbarriers awaited by one role, in turn or now and then, 0 to 3 mutations",
    "groups": "commit groups in flight, 0 to 3 mutations",
    "threads": "scalar threads that add up their neighbours' sums in tasks, 0 to 3 mutations",
    "tiles": "kernels one after the other on tiles of a matrix, 0 to 3 mutations",
    "chains": "few accesses, many syncs between them",
    "fences": "fences alone, many between accesses",
    "proxies": "ordinary and async accesses, and syncs of the language's timelines between them",
    "straight_line": "random statements, rich in fences, without a size",
    "tasked": "random statements in tasks",
    "nested": "random statements in random loops and guards",
    "nests": "rings, hand-overs and commit groups in two symbolic loops, 0 to 3 mutations",
    "windows": "windows of windows, of shared memory, registers and global memory, through calls "
    "too, in source form; bounds as well, and the same program without windows; 0 to 4 mutations",
    "flags": "tasks that wait for earlier ones by flags, one each, few or one for all; at times "
    "with an Arrive too early or too late, 0 to 3 mutations",
    "loads": "rows by offsets, scatters, rings of as many steps and tables of tables, by values "
    "from memory, with monotone or injective arrays or without; at times another element, range or "
    "Fence",
    "roles": "a ring between one or two producers and one to three consumers that share its "
    "phases, and the one mbarrier of the hardware, 0 to 2 mutations",
    "handovers": "one to three handovers a step between roles, on one mbarrier, in any order of "
    "arrivals and Awaits, at times of another handover's element, 0 to 3 mutations",
    "host": "arrays of the host that the stream copies from and to, in loops, under conditions and "
    "in called procedures, with Fences of the CPU too few or misplaced; what is safe computes the "
    "same however late the stream copies",
    "turns": "a tile that warps hand over, or turns that they take, by named barriers, and what "
    "the hardware counts, 0 to 2 mutations",
    **{name: shape.meaning for name, shape in reach.SHAPES.items()},
}
