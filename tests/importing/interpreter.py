"""What TTGIR of `random_roles` does, step by step, in any order that its roles and copies may take.

It shares nothing with the translator: it reads the text by itself, and knows neither timelines nor
sequential readings.  Each role is one agent; a TMA load writes, and a TMA store reads, at any time
before something waits for it.  A kernel is right where all orders store the same tiles, and none is
stuck.
"""

from __future__ import annotations

import random
import re
from collections.abc import Iterator
from dataclasses import dataclass, field


class StuckError(Exception):
    """No agent can go on."""


@dataclass
class Barrier:
    """An mbarrier that one arrival, and the bytes of a load, complete."""

    pending: int = 1
    bytes: int = 0
    phase: int = 0

    def settle(self) -> None:
        if self.pending == 0 and self.bytes == 0:
            self.pending, self.phase = 1, 1 - self.phase


@dataclass
class Machine:
    """Shared memory, mbarriers, and what is under way."""

    rng: random.Random
    cells: dict[tuple[str, int], object] = field(default_factory=dict)
    unfenced: dict[tuple[str, int], tuple[str, object]] = field(default_factory=dict)
    """Cells written by threads without a fence since: the role, and what was there before."""
    barriers: dict[tuple[str, int], Barrier] = field(default_factory=dict)
    loads: list[tuple[tuple[str, int], object, tuple[str, int], int]] = field(default_factory=list)
    stores: dict[str, list[list[tuple[tuple[str, int], int]]]] = field(default_factory=dict)
    stored: dict[int, object] = field(default_factory=dict)

    def land(self) -> bool:
        """Some load ends."""
        if not self.loads:
            return False
        cell, tile, barrier, size = self.loads.pop(self.rng.randrange(len(self.loads)))
        self.cells[cell] = tile
        self.unfenced.pop(cell, None)
        self.barriers[barrier].bytes -= size
        self.barriers[barrier].settle()
        return True

    def take(self, role: str | None = None) -> bool:
        """Some store reads its tile."""
        open_ = [(r, g) for r, groups in self.stores.items() for g in groups if g]
        open_ = [one for one in open_ if role in (None, one[0])]
        if not open_:
            return False
        _, group = self.rng.choice(open_)
        cell, at = group.pop()
        seen = self.cells.get(cell)
        if cell in self.unfenced and self.rng.random() < 0.5:
            seen = self.unfenced[cell][1]
        self.stored[at] = seen
        return True


def run(text: str, n: int, seed: int) -> dict[int, object]:
    """The tiles that one random order stores.  Raises StuckError where it comes to no end."""
    machine = Machine(random.Random(seed))
    head, roles = _roles(text)
    for name, slots in re.findall(r"%(\w+) = ttg\.local_alloc .*?<(\d+)x1xi64", head):
        for slot in range(int(slots)):
            machine.barriers[name, slot] = Barrier()
    agents = {name: _agent(name, body, n, machine) for name, body in roles.items()}
    waiting: dict[str, tuple[Barrier, int]] = {}
    # Some orders keep copies for as long as they can, or hurry one role on.
    eager = {kind: machine.rng.choice((0, 1, 1, 4)) for kind in ("load", "store")}
    hurry = {name: machine.rng.choice((1, 1, 6)) for name in agents}
    while agents or machine.loads:
        names = [
            name
            for name in agents
            if name not in waiting or waiting[name][0].phase != waiting[name][1]
        ]
        moves = [name for name in names for _ in range(hurry[name])]
        moves += ["load"] * (eager["load"] * bool(machine.loads) if names else 1)
        moves += ["store"] * eager["store"]
        if not names and not machine.loads and agents:
            raise StuckError
        move = machine.rng.choice(moves)
        if move == "load":
            machine.land()
        elif move == "store":
            machine.take()
        else:
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


def _roles(text: str) -> tuple[str, dict[str, list[str]]]:
    """The lines of each role's loop, and of what comes after it."""
    head, _, rest = text.partition("ttg.warp_specialize")
    found: dict[str, list[str]] = {}
    name = ""
    for line in rest.splitlines()[1:]:
        if label := re.match(r"\s*(default|partition\d)\b", line):
            name = label[1]
            found[name] = []
        elif name:
            found[name].append(line.strip())
    return head, found


def _agent(
    role: str, body: list[str], n: int, machine: Machine
) -> Iterator[tuple[Barrier, int] | None]:
    """The role's steps; where it waits, the barrier and the phase that it waits for."""
    env: dict[str, object] = {f"c{k}": k for k in range(8)} | {"n": n}
    start = next(at for at, line in enumerate(body) if line.startswith("scf.for"))
    end = body.index("}", start)
    inside = body[start + 1 : end]
    machine.stores.setdefault(role, [])
    for turn in range(n):
        env["i"] = turn
        for line in inside:
            yield from _step(role, line, env, machine)
    for line in body[end + 1 :]:
        yield from _step(role, line, env, machine)


def _step(
    role: str, line: str, env: dict[str, object], machine: Machine
) -> Iterator[tuple[Barrier, int] | None]:
    if found := re.match(r"%(\w+) = arith\.(\w+) %(\w+), %(\w+) : i32", line):
        a, b = env[found[3]], env[found[4]]
        assert isinstance(a, int) and isinstance(b, int)
        env[found[1]] = {
            "addi": a + b,
            "remsi": a % b if b else 0,
            "divsi": a // b if b else 0,
            "andi": a & b,
            "xori": a ^ b,
        }[found[2]]
    elif found := re.match(r"%(\w+) = ttg\.memdesc_index %(\w+)\[%(\w+)\]", line):
        env[found[1]] = (found[2], env[found[3]])
    elif found := re.match(r"ttng\.wait_barrier %(\w+), %(\w+)", line):
        barrier, phase = machine.barriers[env[found[1]]], env[found[2]]
        if barrier.phase == phase:
            yield barrier, phase
        else:
            yield None
    elif found := re.match(r"ttng\.arrive_barrier %(\w+)", line):
        barrier = machine.barriers[env[found[1]]]
        barrier.pending -= 1
        barrier.settle()
        yield None
    elif found := re.match(r"ttng\.barrier_expect %(\w+), (\d+)", line):
        barrier = machine.barriers[env[found[1]]]
        barrier.bytes += int(found[2])
        barrier.pending -= 1
        yield None
    elif found := re.match(r"ttng\.async_tma_copy_global_to_local %src\[.*\] %(\w+), %(\w+)", line):
        machine.loads.append((env[found[1]], ("tile", env["i"]), env[found[2]], 32 * 64 * 4))
        yield None
    elif found := re.match(r"%(\w+) = ttg\.local_load %(\w+)", line):
        env[found[1]] = machine.cells.get(env[found[2]])
        yield None
    elif found := re.match(r"%(\w+) = arith\.addf %(\w+)", line):
        env[found[1]] = ("sum", env[found[2]])
    elif found := re.match(r"ttg\.local_store %(\w+), %(\w+)", line):
        cell = env[found[2]]
        machine.unfenced[cell] = (role, machine.cells.get(cell))
        machine.cells[cell] = env[found[1]]
        yield None
    elif line.startswith("ttng.fence_async_shared"):
        machine.unfenced = {c: w for c, w in machine.unfenced.items() if w[0] != role}
        yield None
    elif found := re.match(r"ttng\.async_tma_copy_local_to_global %dst\[.*\] %(\w+)", line):
        machine.stores[role].append([(env[found[1]], env["i"])])
        yield None
    elif found := re.match(r"ttng\.async_tma_store_wait \{pendings = (\d+)", line):
        groups = machine.stores[role]
        done = groups[: len(groups) - int(found[1])] if int(found[1]) < len(groups) else []
        for group in done:
            while group:
                cell, at = group.pop()
                seen = machine.cells.get(cell)
                if cell in machine.unfenced and machine.rng.random() < 0.5:
                    seen = machine.unfenced[cell][1]
                machine.stored[at] = seen
        yield None
    else:
        assert re.match(r"(ttg\.(barrier|warp_)|%\w+ = arith\.constant|\}|tt\.return|$)", line), (
            line
        )


def right(text: str, sizes: tuple[int, ...] = (1, 2, 3, 5), orders: int = 25) -> str:
    """Empty where all orders that were tried store the same tiles; else what differs.

    A kernel that stores the same wrong tiles in all orders has no race.
    """
    for n in sizes:
        first: dict[int, object] | None = None
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
    return run(text, n, 0) == {at: ("sum", ("tile", at)) for at in range(n)}
