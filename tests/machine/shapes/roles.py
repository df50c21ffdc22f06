"""Roles that share phases: what each of them does, as a program of the abstract machine, and as
what the hardware counts.

A ring between some producers and some consumers, whose steps are drawn, or a handing over in turns,
mutated in up to two places.  `K` is the number of steps.
"""

from __future__ import annotations

from collections.abc import Iterator
from contextlib import ExitStack
from dataclasses import dataclass, replace
from itertools import product
from random import Random
from typing import Final

from exogpu.amir import nodes as amir
from exogpu.diagnostics.verdict import Policy
from exogpu.ir.nodes import Access
from tests.machine.build import Q1, Builder, Name, at_least, mod, t


@dataclass(frozen=True)
class Act:
    """What a role does in a step, from step `first` on: it arrives on, or awaits, the elements of
    a barrier in its row or column; or it accesses the slot."""

    role: int
    kind: str
    """`arrive`, `await`, `write` or `read`."""
    barrier: str = ""
    index: tuple[int | None, int | None] = (None, None)
    """None: all of the dimension."""
    skip: int = 0
    first: int = 0


@dataclass(frozen=True)
class Drawn:
    """Barrier variables by name, with extents and depth, and the acts of one step in order."""

    barriers: dict[str, tuple[tuple[int, int], int]]
    acts: tuple[Act, ...]
    slots: int

    def elements(self, act: Act) -> Iterator[tuple[int, int]]:
        """The elements of an act."""
        (rows, columns), _ = self.barriers[act.barrier]
        row, column = act.index
        yield from product(
            range(rows) if row is None else (row,), range(columns) if column is None else (column,)
        )


def draw(random: Random) -> Drawn:
    """A ring of one or two producers and one to three consumers, mutated at times."""
    producers, consumers = random.choice(((1, 2), (1, 2), (1, 3), (2, 1), (2, 2)))
    slots = random.choice((1, 2, 3))
    acts: list[Act] = []
    for p in range(producers):
        acts.append(Act(p, "await", "empty", (None, p), slots))
        acts.append(Act(p, "write"))
        acts.append(Act(p, "arrive", "full", (p, None)))
    for w in range(consumers):
        role = producers + w
        acts.append(Act(role, "await", "full", (None, w)))
        acts.append(Act(role, "read"))
        acts.append(Act(role, "arrive", "empty", (w, None)))
    for _ in range(random.choice((0, 0, 1, 1, 2))):
        acts = _mutated(random, acts)
    depth = slots + random.choice((0, 0, 0, 1, 1, -1))
    barriers = {
        "full": ((producers, consumers), max(1, depth)),
        "empty": ((consumers, producers), max(1, depth)),
    }
    return Drawn(barriers, tuple(acts), slots)


def _mutated(random: Random, acts: list[Act]) -> list[Act]:
    at = random.randrange(len(acts))
    act, others = acts[at], acts[:at] + acts[at + 1 :]
    match random.choice(("drop", "late", "skip", "move", "twice")):
        case "drop":
            return others
        case "late":
            return [*acts[:at], replace(act, first=1), *acts[at + 1 :]]
        case "skip":
            more = max(0, act.skip + random.choice((-1, 1)))
            same = [replace(a, skip=more) if a.barrier == act.barrier else a for a in acts]
            return same if act.kind == "await" else acts
        case "move":
            to = random.randrange(len(acts))
            return [*others[:to], act, *others[to:]]
        case _:
            return [*acts[: at + 1], act, *acts[at + 1 :]]


def roles(random: Random, b: Builder) -> None:
    """A program of the abstract machine, that of `draw` with the same chance."""
    built(b, draw(random))


def program(drawn: Drawn, policy: Policy = Policy.PTX) -> amir.Program:
    """The same, of what is drawn."""
    b = Builder()
    built(b, drawn)
    return b.program(policy)


def built(b: Builder, drawn: Drawn) -> None:
    """What the conversion makes of it: an Arrive or Await for each element."""
    steps = b.size("K")
    data = b.data("ring", drawn.slots, shared=True)
    names: dict[str, Name] = {}
    for name, (shape, depth) in drawn.barriers.items():
        guard = names.get("full")
        names[name] = b.barrier(name, *shape, depth=depth, guard=guard)
    for one in (data, *names.values()):
        b.alloc(one)
    with b.loop("k", 0, steps) as k:
        for act in drawn.acts:
            with ExitStack() as around:
                if act.first:
                    around.enter_context(b.when(at_least(k, act.first)))
                slot = data[mod(k, drawn.slots)]
                if act.kind == "write":
                    b.write(slot, t(act.role), Q1)
                elif act.kind == "read":
                    b.read(slot, t(act.role), Q1)
                else:
                    _sync(b, names[act.barrier], drawn, act)
    b.fence(t(0, 8), Q1, Q1, transitive=True)
    for name in names.values():
        b.free_barrier(name)
    b.release(data)


def _sync(b: Builder, name: Name, drawn: Drawn, act: Act) -> None:
    for element in drawn.elements(act):
        barrier: Access = name[element]
        if act.kind == "arrive":
            b.arrive(t(act.role), Q1, barrier, transitive=True)
        else:
            b.await_(barrier, t(act.role), Q1, n=-act.skip - 1)


# --- what the hardware counts ---------------------------------------------------------------------


FEWER: Final = 0
"""Arrivals fewer than there are roles that an mbarrier is made for; a mutant changes it."""


@dataclass
class Phases:
    """One hardware mbarrier."""

    count: int
    pending: int
    phase: int = 0

    def arrive(self) -> None:
        self.pending -= 1
        if self.pending == 0:
            self.phase, self.pending = self.phase + 1, self.count


def executed(drawn: Drawn, steps: int, random: Random) -> str:
    """What goes wrong in one order of the roles' steps on one mbarrier for all elements of a
    variable; empty: nothing.

    A role counts its arrivals and its Awaits, as emitted code does: arrival r is on mbarrier r mod
    depth, and an Await of number r waits until the mbarrier's parity is that of phase r / depth.
    """
    mbarriers: dict[tuple[str, int], Phases] = {}
    for name, ((rows, _), depth) in drawn.barriers.items():
        count = max(1, rows - FEWER)
        mbarriers.update({(name, i): Phases(count, count) for i in range(depth)})
    roles = sorted({act.role for act in drawn.acts})
    todo = {
        role: [
            act
            for k in range(steps)
            for act in drawn.acts
            if act.role == role and act.barrier and k >= act.first
        ]
        for role in roles
    }
    done: dict[tuple[str, str, int], int] = {}
    while any(todo.values()):
        ready = [
            role for role in roles if todo[role] and _passes(drawn, mbarriers, done, todo, role)
        ]
        if not ready:
            return "deadlock"
        role = random.choice(ready)
        act = todo[role].pop(0)
        (rows, _), depth = drawn.barriers[act.barrier]
        key = (act.kind, act.barrier, role)
        number = done[key] = done.get(key, -1) + 1
        if act.kind == "arrive":
            one = mbarriers[act.barrier, number % depth]
            if one.phase != number // depth:
                return f"arrival {number} is counted in phase {one.phase} of {act.barrier}"
            one.arrive()
        elif number >= act.skip:
            wanted = number - act.skip
            sent = [done.get(("arrive", act.barrier, other), -1) for other in roles]
            if sum(last >= wanted for last in sent) < rows:
                return f"the Await of {wanted} on {act.barrier} passes before its arrivals"
    return ""


def _passes(
    drawn: Drawn,
    mbarriers: dict[tuple[str, int], Phases],
    done: dict[tuple[str, str, int], int],
    todo: dict[int, list[Act]],
    role: int,
) -> bool:
    act = todo[role][0]
    if act.kind == "arrive":
        return True
    number = done.get((act.kind, act.barrier, role), -1) + 1 - act.skip
    depth = drawn.barriers[act.barrier][1]
    return number < 0 or mbarriers[act.barrier, number % depth].phase % 2 != number // depth % 2
