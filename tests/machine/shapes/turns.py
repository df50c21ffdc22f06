"""Named barriers: what each warp does, as a program of the abstract machine, and as what the
hardware counts.

Something is handed over and given back, or warps take turns; mutated in up to two places, so that
of an element always as many threads arrive, always as many await it, and none does both, as
`exogpu.analysis.named_barriers` asks.  `K` is the number of steps.
"""

from __future__ import annotations

from contextlib import ExitStack
from dataclasses import dataclass, replace
from random import Random
from typing import Final

from exogpu.ir.types import BarrierMechanism
from tests.machine.build import Q1, Builder, at_least, sub, t

BEFORE, STEP, AFTER = range(3)


@dataclass(frozen=True)
class Act:
    """What a group of warps does before, in, or after the steps; one `thread` stands for a warp."""

    kind: str
    """`arrive`, `await`, `write` or `read`."""
    warp: int
    warps: int = 1
    element: int = 0
    first: int = 0
    """The step from which on it is done."""
    left: int = 0
    """The steps at the end in which it is not."""
    when: int = STEP

    @property
    def waits_or_arrives(self) -> bool:
        return self.kind in ("arrive", "await")

    def done_in(self, step: int, steps: int) -> bool:
        """Whether it is done in a step of so many."""
        return self.first <= step < steps - self.left


@dataclass(frozen=True)
class Drawn:
    """Acts in the order of the program's text, and how many elements there are."""

    acts: tuple[Act, ...]
    elements: int

    @property
    def legal(self) -> bool:
        """Whether an element's Arrives are of one number of warps, its Awaits of one, and apart."""
        for element in range(self.elements):
            here = [act for act in self.acts if act.waits_or_arrives and act.element == element]
            arrives, awaits = ([a for a in here if a.kind == k] for k in ("arrive", "await"))
            if any(len({act.warps for act in some}) > 1 for some in (arrives, awaits)):
                return False
            if _warps(arrives) & _warps(awaits):
                return False
        return True


def _warps(acts: list[Act]) -> set[int]:
    return {warp for act in acts for warp in range(act.warp, act.warp + act.warps)}


def draw(random: Random) -> Drawn:
    """A handing over or turns, mutated at times."""
    sound = random.choice((_handed_over, _handed_over, _in_turns))(random)
    mutations = random.choice((0, 0, 1, 1, 2))
    for _ in range(20):
        found = sound
        for _ in range(mutations):
            found = _mutated(random, found)
        if found.legal:
            return found
    return sound


def _handed_over(random: Random) -> Drawn:
    """A warp hands over what it has written, to one or two groups of one or two warps."""
    acts: list[Act] = []
    readers = [random.choice((1, 2)) for _ in range(random.choice((1, 1, 2)))]
    for number in range(len(readers)):
        acts.append(Act("await", 0, element=2 * number + 1, first=1))
    acts.append(Act("write", 0))
    for number in range(len(readers)):
        acts.append(Act("arrive", 0, element=2 * number))
    warp = 1
    for number, warps in enumerate(readers):
        acts.append(Act("await", warp, warps, 2 * number))
        acts.append(Act("read", warp, warps))
        acts.append(Act("arrive", warp, warps, 2 * number + 1, left=1))
        warp += warps
    return Drawn(tuple(acts), 2 * len(readers))


def _in_turns(random: Random) -> Drawn:
    """Two or three warps, each of which goes on with what the one before has left."""
    warps = random.choice((2, 2, 3))
    acts = [Act("arrive", warps - 1, when=BEFORE)]
    for warp in range(warps):
        acts.append(Act("await", warp, element=warp))
        acts.append(Act(random.choice(("write", "write", "read")), warp))
        acts.append(Act("arrive", warp, element=(warp + 1) % warps))
    acts.append(Act("await", 0, when=AFTER))
    return Drawn(tuple(acts), warps)


def _mutated(random: Random, drawn: Drawn) -> Drawn:
    acts = list(drawn.acts)
    at = random.randrange(len(acts))
    act = acts.pop(at)
    match random.choice(("drop", "move", "twice", "first", "left", "element")):
        case "drop":
            pass
        case "move":
            acts.insert(random.randrange(len(acts) + 1), act)
        case "twice":
            acts[at:at] = [act, act]
        case "first":
            acts.insert(at, replace(act, first=random.choice((0, 1, 1, 2))))
        case "left":
            acts.insert(at, replace(act, left=random.choice((0, 1, 1, 2))))
        case _:
            acts.insert(at, replace(act, element=random.randrange(drawn.elements)))
    return replace(drawn, acts=tuple(sorted(acts, key=lambda act: act.when)))


def turns(random: Random, b: Builder) -> None:
    """A program of the abstract machine, that of `draw` with the same chance."""
    drawn = draw(random)
    steps = b.size("K")
    tile = b.data("tile", shared=True)
    named = BarrierMechanism.NAMED_BARRIER
    turn = b.barrier("turn", drawn.elements, mechanism=named, depth=1)

    def do(act: Act) -> None:
        by = t(act.warp, act.warps)
        match act.kind:
            case "arrive":
                b.arrive(by, Q1, turn[act.element], transitive=True)
            case "await":
                b.await_(turn[act.element], by, Q1)
            case "write":
                b.write(tile[()], by, Q1)
            case _:
                b.read(tile[()], by, Q1)

    b.alloc(tile)
    b.alloc(turn)
    for act in drawn.acts:
        if act.when == BEFORE:
            do(act)
    with b.loop("k", 0, steps) as k:
        for act in drawn.acts:
            if act.when != STEP:
                continue
            with ExitStack() as around:
                if act.first:
                    around.enter_context(b.when(at_least(k, act.first)))
                if act.left:
                    around.enter_context(b.when(at_least(sub(steps, act.left + 1), k)))
                do(act)
    for act in drawn.acts:
        if act.when == AFTER:
            do(act)
    b.fence(t(0, 8), Q1, Q1, transitive=True)
    b.free_barrier(turn)
    b.release(tile)


# --- what the hardware counts ---------------------------------------------------------------------

MORE: Final = 0
"""Warps that a named barrier counts beyond those that arrive and await; a mutant changes it."""


@dataclass
class Named:
    """One named barrier, of which a phase is over when so many warps have come."""

    count: int
    come: int = 0
    phase: int = 0

    def comes(self, warps: int) -> int:
        """The phase in which these warps are counted."""
        phase = self.phase
        self.come += warps
        if self.come >= self.count:
            self.come, self.phase = self.come - self.count, self.phase + 1
        return phase


def executed(drawn: Drawn, steps: int, random: Random) -> str:
    """What goes wrong in one order of the warps' steps on named barriers; empty: nothing.

    The Arrives and the Awaits of an element have to be counted in the phase of their number, and no
    phase is left half over.
    """
    named = {n: Named(count) for n in range(drawn.elements) if (count := _count(drawn, n))}
    roles = sorted({(act.warp, act.warps) for act in drawn.acts})
    todo = {role: _todo(drawn, steps, role) for role in roles}
    numbers: dict[tuple[str, int], int] = {}
    asleep: dict[tuple[int, int], tuple[int, int]] = {}
    while any(todo.values()) or asleep:
        for role, (element, phase) in list(asleep.items()):
            if named[element].phase > phase:
                del asleep[role]
        ready = [role for role in roles if todo[role] and role not in asleep]
        if not ready:
            return "deadlock" if asleep else ""
        role = random.choice(ready)
        act = todo[role].pop(0)
        if act.element not in named:
            return f"nobody answers on {act.element}"
        number = numbers[act.kind, act.element] = numbers.get((act.kind, act.element), -1) + 1
        phase = named[act.element].comes(act.warps)
        if phase != number:
            return f"{act.kind} {number} is counted in phase {phase} of {act.element}"
        if act.kind == "await":
            asleep[role] = (act.element, phase)
    left = [n for n, one in named.items() if one.come]
    return f"a phase of {left[0]} is left half over" if left else ""


def _count(drawn: Drawn, element: int) -> int:
    """The warps of a phase: those of an Arrive and of an Await; 0 where one side is missing."""
    here = [act for act in drawn.acts if act.waits_or_arrives and act.element == element]
    warps = {act.kind: act.warps for act in here}
    return sum(warps.values()) + MORE if len(warps) == 2 else 0


def _todo(drawn: Drawn, steps: int, role: tuple[int, int]) -> list[Act]:
    """What a group of warps does with barriers, in its order."""
    own = [a for a in drawn.acts if (a.warp, a.warps) == role and a.waits_or_arrives]
    inner = [a for k in range(steps) for a in own if a.when == STEP and a.done_in(k, steps)]
    return [
        *(a for a in own if a.when == BEFORE),
        *inner,
        *(a for a in own if a.when == AFTER),
    ]
