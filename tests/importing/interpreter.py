"""What TTGIR of `random_roles` does, step by step, in any order that warps and copies may take.

It shares nothing with the translator: it reads the text by itself, and knows neither timelines nor
sequential readings.  A role of four warps is two agents, each with its half of every tile, which
meet at barriers; one of one warp is one agent with both halves.  A TMA load writes each half, and a
TMA store reads it, at any time before something waits for it.  A kernel is right where all orders
store the same tiles, and none is stuck.
"""

from __future__ import annotations

import random
import re
from collections.abc import Callable, Iterator
from dataclasses import dataclass, field

Cell = tuple[str, int, int]
"""A buffer, a slot of it, and a half of the slot's tile."""

HALVES = (0, 1)


class StuckError(Exception):
    """No agent can go on."""


@dataclass
class Barrier:
    """An mbarrier that arrivals, and the bytes of loads, complete."""

    count: int = 1
    pending: int = 1
    bytes: int = 0
    phase: int = 0

    def settle(self) -> None:
        if self.pending == 0 and self.bytes == 0:
            self.pending, self.phase = self.count, 1 - self.phase


@dataclass
class Meeting:
    """A barrier of the agents of one role."""

    agents: int
    there: int = 0
    turn: int = 0

    def come(self) -> Callable[[], bool]:
        """An agent comes; returns whether it may go on, to be asked again and again."""
        turn = self.turn
        self.there += 1
        if self.there == self.agents:
            self.there, self.turn = 0, turn + 1
        return lambda: self.turn > turn


@dataclass
class Machine:
    """Shared memory, mbarriers, and what is under way."""

    rng: random.Random
    cells: dict[Cell, object] = field(default_factory=dict)
    unfenced: dict[Cell, tuple[object, object]] = field(default_factory=dict)
    """Cells written by threads without a fence since: the agent, and what was there before."""
    barriers: dict[tuple[str, int], Barrier] = field(default_factory=dict)
    loads: list[tuple[Cell, object, tuple[str, int], int]] = field(default_factory=list)
    stores: dict[str, list[list[tuple[Cell, object]]]] = field(default_factory=dict)
    stored: dict[object, object] = field(default_factory=dict)

    def land(self) -> None:
        """Some half of a load ends."""
        cell, tile, barrier, size = self.loads.pop(self.rng.randrange(len(self.loads)))
        self.cells[cell] = tile
        self.unfenced.pop(cell, None)
        self.barriers[barrier].bytes -= size
        self.barriers[barrier].settle()

    def take(self) -> bool:
        """Some store reads a half of its tile."""
        groups = [group for groups in self.stores.values() for group in groups if group]
        if groups:
            group = self.rng.choice(groups)
            self.read(group, self.rng.randrange(len(group)))
        return bool(groups)

    def read(self, group: list[tuple[Cell, object]], at: int = -1) -> None:
        """A store of a group reads."""
        cell, target = group.pop(at)
        seen = self.cells.get(cell)
        if cell in self.unfenced and self.rng.random() < 0.5:
            seen = self.unfenced[cell][1]
        self.stored[target] = seen


Block = Callable[[], bool]
"""Whether an agent that waits may go on."""


def run(text: str, n: int, seed: int) -> dict[object, object]:
    """The tiles that one random order stores.  Raises StuckError where it comes to no end."""
    machine = Machine(random.Random(seed))
    head, roles = _roles(text)
    for name, slot, count in re.findall(r"init_barrier %(\w+)_(\d+), (\d+)", head):
        machine.barriers[name, int(slot)] = Barrier(int(count), int(count))
    agents: dict[tuple[str, int], Iterator[Block | None]] = {}
    for role, (warps, body) in roles.items():
        meeting = Meeting(2 if warps == 4 else 1)
        for agent in range(meeting.agents):
            own = (agent,) if meeting.agents == 2 else HALVES
            agents[role, agent] = _agent(role, own, body, n, machine, meeting)
    waiting: dict[tuple[str, int], Block] = {}
    # Some orders keep copies for as long as they can, or hurry one agent on.
    eager = {kind: machine.rng.choice((0, 1, 1, 4)) for kind in ("load", "store")}
    hurry = {name: machine.rng.choice((1, 1, 6)) for name in agents}
    while agents or machine.loads:
        names = [name for name in agents if name not in waiting or waiting[name]()]
        moves: list[object] = [name for name in names for _ in range(hurry[name])]
        loads = eager["load"] if names else 1
        moves += ["load"] * (loads * bool(machine.loads))
        moves += ["store"] * (eager["store"] * any(map(any, machine.stores.values())))
        if not moves:
            raise StuckError
        move = machine.rng.choice(moves)
        if move == "load":
            machine.land()
        elif move == "store":
            machine.take()
        else:
            assert isinstance(move, tuple)
            waiting.pop(move, None)
            try:
                blocked = next(agents[move])
            except StopIteration:
                del agents[move]
                continue
            if blocked is not None:
                waiting[move] = blocked
    while machine.take():
        pass
    return machine.stored


def _roles(text: str) -> tuple[str, dict[str, tuple[int, list[str]]]]:
    """By role: its warps, and the lines of its loop and of what comes after it."""
    head, _, rest = text.partition("ttg.warp_specialize")
    found: dict[str, tuple[int, list[str]]] = {}
    name = ""
    for line in rest.splitlines()[1:]:
        if label := re.match(r"\s*(default|partition\d)\b", line):
            name = label[1]
            warps = re.search(r"num_warps\((\d+)\)", line)
            found[name] = (int(warps[1]) if warps else 4, [])
        elif name:
            found[name][1].append(line.strip())
    return head, found


def _agent(
    role: str, own: tuple[int, ...], body: list[str], n: int, machine: Machine, meeting: Meeting
) -> Iterator[Block | None]:
    """An agent's steps; where it waits, what tells whether it may go on."""
    env: dict[str, object] = {f"c{k}": k for k in (*range(8), 32)} | {"n": n, "true": True}
    start = next(at for at, line in enumerate(body) if line.startswith("scf.for"))
    end = body.index("}", start)
    machine.stores.setdefault(role, [])
    for turn in range(n):
        env["i"] = turn
        for line in body[start + 1 : end]:
            yield from _step(role, own, line, env, machine, meeting)
    for line in body[end + 1 :]:
        yield from _step(role, own, line, env, machine, meeting)


def _number(op: str, a: int, b: int) -> int:
    match op:
        case "addi":
            return a + b
        case "subi":
            return a - b
        case "muli":
            return a * b
        case "remsi":
            return a % b
        case "divsi":
            return a // b
        case "andi":
            return a & b
        case "xori":
            return a ^ b
        case _:
            raise AssertionError(op)


def _step(
    role: str,
    own: tuple[int, ...],
    line: str,
    env: dict[str, object],
    machine: Machine,
    meeting: Meeting,
) -> Iterator[Block | None]:
    first = 0 in own  # who does what one thread does
    if found := re.match(r"%(\w+) = arith\.cmpi (\w+), %(\w+), %(\w+) : i32", line):
        a, b = env[found[3]], env[found[4]]
        assert isinstance(a, int) and isinstance(b, int)
        env[found[1]] = a >= b if found[2] == "sge" else a < b
        assert found[2] in ("sge", "slt")
    elif found := re.match(r"%(\w+) = arith\.(\w+) %(\w+), %(\w+) : i32", line):
        a, b = env[found[3]], env[found[4]]
        assert isinstance(a, int) and isinstance(b, int)
        env[found[1]] = _number(found[2], a, b)
    elif found := re.match(r"%(\w+) = ttg\.memdesc_index %(\w+)\[%(\w+)\]", line):
        env[found[1]] = (found[2], env[found[3]])
    elif found := re.match(r"ttng\.wait_barrier %(\w+), %(\w+), %true", line):
        barrier, phase = machine.barriers[_slot(env[found[1]])], env[found[2]]
        yield lambda: barrier.phase != phase
    elif found := re.match(r"ttng\.arrive_barrier %(\w+), 1, %(\w+)", line):
        yield meeting.come()
        if first and env[found[2]]:
            arrived = machine.barriers[_slot(env[found[1]])]
            arrived.pending -= 1
            arrived.settle()
        yield None
    elif found := re.match(r"ttng\.barrier_expect %(\w+), (\d+), %(\w+)", line):
        if first and env[found[3]]:
            expecting = machine.barriers[_slot(env[found[1]])]
            expecting.bytes += int(found[2])
            expecting.pending -= 1
            expecting.settle()
        yield None
    elif found := re.match(
        r"ttng\.async_tma_copy_global_to_local %src\[.*\] %(\w+), %(\w+), %(\w+)", line
    ):
        if first and env[found[3]]:
            to, signals = _slot(env[found[1]]), _slot(env[found[2]])
            for half in HALVES:
                tile = ("tile", env["i"], half)
                machine.loads.append(((*to, half), tile, signals, 32 * 64 * 4 // 2))
        yield None
    elif found := re.match(r"%(\w+) = ttg\.local_load %(\w+)", line):
        cell = _slot(env[found[2]])
        value = {}
        for half in own:
            value[half] = machine.cells.get((*cell, half))
            yield None
        env[found[1]] = value
    elif found := re.match(r"%(\w+) = arith\.addf %(\w+)", line):
        given = env[found[2]]
        assert isinstance(given, dict)
        env[found[1]] = {half: ("sum", one) for half, one in given.items()}
    elif found := re.match(r"ttg\.local_store %(\w+), %(\w+)", line):
        cell, given = _slot(env[found[2]]), env[found[1]]
        assert isinstance(given, dict)
        for half in own:
            place = (*cell, half)
            machine.unfenced[place] = ((role, own), machine.cells.get(place))
            machine.cells[place] = given[half]
            yield None
    elif line.startswith("ttng.fence_async_shared"):
        kept = {c: w for c, w in machine.unfenced.items() if w[0] != (role, own)}
        machine.unfenced = kept
        yield None
    elif line.startswith("ttg.barrier local"):
        yield meeting.come()
    elif found := re.match(r"ttng\.async_tma_copy_local_to_global %(\w+)\[.*\] %(\w+)", line):
        if first:
            source = _slot(env[found[2]])
            group = [((*source, half), (found[1], env["i"], half)) for half in HALVES]
            machine.stores[role].append([(cell, target) for cell, target in group])
        yield None
    elif found := re.match(r"ttng\.async_tma_store_wait \{pendings = (\d+)", line):
        groups = machine.stores[role]
        done = groups[: max(len(groups) - int(found[1]), 0)] if first else []
        for group in done:
            while group:
                machine.read(group)
        yield None
    else:
        assert re.match(r"(ttg\.warp_|%\w+ = arith\.constant|\}|tt\.return|$)", line), line


def _slot(value: object) -> tuple[str, int]:
    assert isinstance(value, tuple)
    return value


def right(text: str, sizes: tuple[int, ...] = (1, 2, 3, 5), orders: int = 25) -> str:
    """Empty where all orders that were tried store the same tiles; else what differs.

    A kernel that stores the same wrong tiles in all orders has no race.
    """
    for n in sizes:
        first: dict[object, object] | None = None
        for seed in range(orders):
            try:
                stored = run(text, n, seed)
            except StuckError:
                return f"stuck at {n}"
            first = stored if first is None else first
            if stored != first:
                return f"stores {stored} at {n}, order {seed}"
    return ""


def intended(text: str, n: int) -> bool:
    """Whether one order stores the tiles that a right kernel stores."""
    stored = run(text, n, 0)
    names = {"dst", "dst2"} if "%out2" in text else {"dst"}
    return stored == {
        (name, at, half): ("sum", ("tile", at, half))
        for name in names
        for at in range(n)
        for half in HALVES
    }
