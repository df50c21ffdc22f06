"""Random AMIR programs, each with symbolic sizes and the values to run it at.

Every shape is a correct idiom of synchronisation (a ring of mbarriers, commit groups, fences,
tasks on global memory) that `mutate` then breaks in up to three places, or random code that mixes
everything.  `program(random)` draws one.  The shapes are those of `tests/machine/shapes`.
"""

from __future__ import annotations

from collections.abc import Callable
from contextlib import suppress
from dataclasses import dataclass
from random import Random

from exogpu.amir import nodes as amir
from exogpu.amir.slot_privacy import PrivateSlotError, with_comparisons
from exogpu.diagnostics.verdict import Policy
from tests.machine.build import Builder, dropping
from tests.machine.shapes import sources
from tests.machine.shapes.flags import flags
from tests.machine.shapes.handovers import handovers
from tests.machine.shapes.mutate import mutate
from tests.machine.shapes.nests import nests
from tests.machine.shapes.random_code import nested, straight_line, tasked
from tests.machine.shapes.relays import relays
from tests.machine.shapes.resident import resident
from tests.machine.shapes.rings import casts, multicast, ring
from tests.machine.shapes.roles import roles
from tests.machine.shapes.slots import slots
from tests.machine.shapes.tasks import threads, tiles
from tests.machine.shapes.turns import turns
from tests.machine.shapes.unequal import unequal
from tests.machine.shapes.waiting import groups, waits
from tests.machine.shapes.windows import windows


@dataclass(frozen=True)
class Generated:
    """A program of the size `K`, and the sizes to run it at."""

    program: amir.Program
    sizes: tuple[dict[str, int], ...]
    shape: str


BUILT: dict[str, Callable[[Random, Builder], None]] = {
    "straight_line": straight_line,
    "nested": nested,
    "tasked": tasked,
    "ring": ring,
    "multicast": multicast,
    "waits": waits,
    "groups": groups,
    "threads": threads,
    "tiles": tiles,
    "nests": nests,
    "casts": casts,
    "resident": resident,
    "slots": slots,
    "relays": relays,
    "flags": flags,
    "roles": roles,
    "turns": turns,
    "handovers": handovers,
    "unequal": unequal,
}
SHAPES = (*BUILT, "windows")
IDIOMS = (
    *("ring", "multicast", "waits", "groups", "threads", "tiles", "nests", "casts"),
    *("resident", "slots", "relays", "flags", "handovers", "unequal"),
)


def mutated(random: Random, made: amir.Program) -> amir.Program:
    """The program with one mistake; with another one where a slot would be a number by it."""
    while True:
        mutant = mutate(random, made)
        with suppress(PrivateSlotError):
            with_comparisons(mutant)
            return mutant


def program(random: Random, shape: str, sizes: int = 2) -> Generated:
    """A program of the shape; idioms are mutated in up to three places."""
    if shape == "windows":
        made = sources.procedure(windows(random).windows).amir(
            random.choice((Policy.PTX, Policy.PAPER))
        )
        made = dropping(made)
        return Generated(made, ({"K": 2}, {"K": random.choice((0, 1, 5))})[:sizes], shape)
    b = Builder()
    BUILT[shape](random, b)
    made = b.program(random.choice((Policy.PTX, Policy.PAPER)), compared=False)
    if shape in IDIOMS:
        for _ in range(random.choice((0, 1, 1, 2, 3))):
            made = mutated(random, made)
    made = with_comparisons(made)
    if not made.params:
        return Generated(made, ({},), shape)
    if shape == "tiles":
        # Kernels: each has all the tasks.
        return Generated(made, ({"K": 1}, {"K": random.choice((0, 2, 3))})[:sizes], shape)
    if shape == "casts":
        return Generated(
            made, ({"I": 2, "K": 3}, {"I": 3, "K": random.choice((1, 4))})[:sizes], shape
        )
    if shape in ("resident", "slots", "relays", "unequal"):
        return Generated(
            made, ({"I": 3, "K": 2}, {"I": random.choice((2, 7)), "K": 4})[:sizes], shape
        )
    if shape == "nests":
        pairs = ((random.randrange(5), random.randrange(6)), random.choice(((4, 5), (3, 9))))
        return Generated(made, tuple({"I": i, "K": k} for i, k in pairs[-sizes:]), shape)
    values = [random.randrange(0, 10) for _ in range(sizes - 1)]
    # Longer runs are there for the interpreter that skips; random code nests loops of that size.
    values.append(random.choice((5, 9, 13, 20) if shape in IDIOMS else (5, 7, 9)))
    return Generated(made, tuple({"K": k} for k in values), shape)
