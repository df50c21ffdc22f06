"""A program of a shape from its seed; the list of shapes."""

from __future__ import annotations

import tempfile
from collections.abc import Callable, Iterator, Mapping
from dataclasses import dataclass
from pathlib import Path
from random import Random
from typing import Final

from campaigns.gpu import programs
from campaigns.gpu.making import Making, Node, lines
from campaigns.reach import (
    atomics,
    clusters,
    fragments,
    launches,
    plain,
    products,
    reuse,
    roles,
    schemes,
    stores,
)
from campaigns.reach.mistakes import mistaken
from campaigns.reach.parts import MakeUse
from exogpu.amir import nodes
from exogpu.api import Procedure
from exogpu.cli.loader import load
from exogpu.diagnostics.errors import ExoGpuError
from exogpu.diagnostics.verdict import Policy

Sizes = Mapping[str, int]
NONE: Final = ({"M": 0, "K": 1}, {"M": 1, "K": 0})
"""Without a task, and without a step."""
SMALL: Final = ({"M": 2, "K": 2}, {"M": 1, "K": 4}, *NONE, {"M": 1, "K": 1})
"""At which a program is compared: several tasks, past a ring's depth, and where it is bare."""

LARGER: Final = ({"M": 1, "K": 1}, {"M": 3, "K": 5}, {"M": 8, "K": 2})
"""At which an emitted program is run."""


@dataclass(frozen=True)
class Shape:
    """Programs of one feature, most often with others beside it."""

    meaning: str
    share: int
    """The number of programs of a hundred."""
    make: Callable[[Making], list[Node]]
    sizes: tuple[Sizes, ...] = SMALL


USES: Final[Mapping[MakeUse, int]] = {
    plain.copied: 3,
    fragments.fragments: 1,
    atomics.atomics: 2,
    stores.stores: 2,
}
"""Uses of tiles, and how often each is made beside something else."""


def with_tiles(use: MakeUse) -> Callable[[Making], list[Node]]:
    """Programs with a use of tiles, and in half of them another one."""

    def make(m: Making) -> list[Node]:
        uses = [use]
        if m.chance(0.5):
            # A thread has one commit group of bulk stores.
            others = {one: n for one, n in USES.items() if one is not use}
            uses += m.rng.choices(list(others), list(others.values()))
            m.rng.shuffle(uses)
        return m.rng.choice(schemes.SCHEMES)(m, uses)

    return make


def persistent(m: Making) -> list[Node]:
    """Programs with a ring that runs on by its slots, and one use of its tiles."""
    (use,) = m.rng.choices(list(USES), list(USES.values()))
    return schemes.running(m, [use])


SHAPES: Final[Mapping[str, Shape]] = {
    "fragments": Shape(
        "tiles in accumulators of mma.sync, changed by loops over fragments, multiplied or staged",
        11,
        with_tiles(fragments.fragments),
    ),
    "atomics": Shape(
        "atomic additions and maxima of tiles in shared memory, and among tasks in global memory",
        11,
        with_tiles(atomics.atomics),
    ),
    "stores": Shape(
        "bulk stores and additions of tiles, waited for by their reads or their writes",
        11,
        with_tiles(stores.stores),
    ),
    "products": Shape(
        "products of a warpgroup, its accumulator changed by loops over fragments, by its rows, and"
        " made an operand",
        4,
        products.products,
        ({"M": 1, "K": 2}, *NONE, {"M": 2, "K": 1}),
    ),
    "launches": Shape(
        "launches in a row, some dependent, with accesses before and after the wait",
        9,
        launches.launches,
    ),
    "readers": Shape(
        "a tile that two roles use, which share the phases of a ring or have named barriers",
        5,
        roles.roles,
    ),
    "reuse": Shape(
        "tiles of shared memory one after the other, of three roles, that take each other's bytes",
        6,
        reuse.reuse,
    ),
    "exchanges": Shape(
        "tiles that roles hand over on one mbarrier, arrivals and Awaits in any order",
        3,
        roles.exchanges,
    ),
    "persistent": Shape(
        "a ring that runs on from task to task, by its slots",
        3,
        persistent,
    ),
    "clusters": Shape(
        "shared memory of which the CTAs of a cluster access each other's parts",
        8,
        clusters.clusters,
        ({"M": 2, "K": 2}, *NONE, {"M": 1, "K": 1}, {"M": 1, "K": 3}),
    ),
}
"""A feature's entry."""

HEAD: Final = (
    programs.HEAD.replace("@proc", "").rstrip()
    + """
from exogpu.isa.mn_major import *
from exogpu.isa.rows import *


@proc
"""
)

TRIES: Final = 8
"""Tries of mistakes, until a program is well-formed; the last try has none."""


def generated(shape: str, seed: int) -> programs.Program:
    """The program of a shape and a seed: about half of them have mistakes."""
    return next(found for found, procedure in _tried(shape, seed) if procedure is not None)


def procedure(shape: str, seed: int) -> Procedure:
    """The same, read."""
    return next(p for _, p in _tried(shape, seed) if p is not None)


def amir(shape: str, seed: int) -> nodes.Program:
    """Lowers the program, under one of the policies."""
    policy = Random(f"policy {shape} {seed}").choice((Policy.PTX, Policy.PAPER))
    return procedure(shape, seed).amir(policy)


def _tried(shape: str, seed: int) -> Iterator[tuple[programs.Program, Procedure | None]]:
    random = Random(f"{shape} {seed}")
    m = Making(random)
    m.size("M")
    sound = SHAPES[shape].make(m)
    mistakes = random.choice((0, 0, 0, 0, 1, 1, 1, 1, 2))
    for number in range(TRIES):
        body = sound
        for _ in range(mistakes if number < TRIES - 1 else 0):
            body = mistaken(random, body)
        program = _program(f"{shape}_{seed}", m, body)
        yield program, read(program.source)


def _program(name: str, m: Making, body: list[Node]) -> programs.Program:
    head = f"def {name}({', '.join([*(f'{s}: size' for s in m.sizes), *m.parameters])}):"
    text = HEAD + "\n".join([head, *lines([*m.maps, *body], 1)]) + "\n"
    mine = tuple({n: at[n] for n in m.sizes} for at in LARGER)
    return programs.Program(name, text, frozenset(m.features), mine)


def read(source: str) -> Procedure | None:
    """The procedure of a text, as a user's file; None where it is ill-formed, or an Arrive has no
    home, so that no machine can run it."""
    with tempfile.TemporaryDirectory() as folder:
        file = Path(folder) / "generated.py"
        file.write_text(source)
        (made,) = load(str(file))
        found = made.procedure
    if found is None or found.diagnostics:
        return None
    try:
        found.amir(Policy.PTX)
    except ExoGpuError:
        return None
    return found
