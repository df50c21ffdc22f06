"""Rings of mbarriers: the hardware's state against the abstract machine's counts of arrivals.

Arrival n of the program is on mbarrier `n mod depth` of the ring, in its phase `n / depth`, and an
Await of it waits for the parity of that phase.  The numbers go on from task to task: where a task
ends as many have been awaited as have come, which the certificate has proved (CheckBarrier), so
that all threads have the same number.  A thread's own numbers are ghosts of the product; that PTX
keeps them in registers is an invariant of its loops.  Phases are told apart at the program's depth,
so at any that is larger.
"""

from __future__ import annotations

from collections.abc import Mapping, Sequence
from dataclasses import dataclass
from math import prod
from typing import Any, Final

from exogpu.amir import nodes as amir
from exogpu.amir.walk import operations
from exogpu.analysis.threadmap import ThreadMap
from exogpu.hw.timelines import ASYNC_PROXY
from exogpu.ir.types import BarrierMechanism, QualTL, Sym
from exogpu.solvers import bitvectors as bv
from exogpu.validate.events import Sync
from exogpu.validate.refusals import refusal_of

ORDINARY: Final = frozenset({QualTL.CUDA1, QualTL.CUDA2})


@dataclass(frozen=True, slots=True)
class Ring:
    """The mbarriers of a barrier variable, and the ghosts of one thread's numbers."""

    variable: amir.Variable
    first: bv.Term
    """The address of its first mbarrier."""
    depth: int
    count: int
    """The arrivals that complete a phase."""
    arrived: Sym
    """Arrives that the thread has executed."""
    awaited: Sym
    """Awaits that it has executed."""
    in_task: Sym
    """Awaits of this task."""
    bytes: Sym
    """The bytes that copies bring for the next arrival."""
    skips: tuple[int, ...]
    """The numbers of first Awaits of a task that wait for nothing."""
    fences: bool
    """Arrives on it release accesses of the generic proxy."""

    @property
    def ghosts(self) -> tuple[Sym, ...]:
        """All of them."""
        return (self.arrived, self.awaited, self.in_task, self.bytes)

    def address(self, number: bv.Term) -> bv.Term:
        """The address of the mbarrier of an arrival."""
        slot = number & bv.constant(self.depth - 1, 32)
        return bv.simplified(self.first + slot * bv.constant(8, 32))

    def parity(self, number: bv.Term) -> bv.Term:
        """The parity of the phase of an arrival."""
        phase = bv.shift_right(number, bv.constant(self.depth.bit_length() - 1, 32), signed=False)
        return bv.simplified(phase & bv.constant(1, 32))


Ghosts = Mapping[Sym, bv.Term]


def rings_of(
    program: amir.Program, body: amir.Block, described: Sequence[Mapping[str, Any]], limit: int
) -> dict[Sym, Ring]:
    """The rings of a kernel, from the manifest's layout.  Raises NotValidatedError for others than
    single ones of a depth that is a power of 2."""
    allocated = [op.name for op in operations(body) if isinstance(op, amir.Alloc)]
    variables = {one.name: one for one in program.variables}
    declared = [
        variables[name]
        for name in allocated
        if variables[name].mechanism is BarrierMechanism.MBARRIER
    ]
    if len(declared) != len(described):
        raise refusal_of("the manifest has other mbarriers than the program")
    found: dict[Sym, Ring] = {}
    taken: list[tuple[int, int]] = []
    smem = bv.variable("smem", 32)
    for one, place in zip(declared, described, strict=True):
        depth, count, offset = (int(place[key]) for key in ("depth", "count", "offset"))
        if one.shape:
            raise refusal_of(f"{one.name} is an array of mbarriers, which is not validated yet")
        if depth & (depth - 1) or one.depth is None or depth < one.depth:
            raise refusal_of(f"the depth of the ring {one.name} is not validated yet")
        if offset % 8 or offset < 0 or offset + 8 * depth > limit:
            raise refusal_of(f"{one.name} does not lie within the kernel's shared memory")
        if any(offset < end and begin < offset + 8 * depth for begin, end in taken):
            raise refusal_of("two mbarriers have bytes in common")
        taken.append((offset, offset + 8 * depth))
        arrived, awaited, in_task, brought = (
            Sym(f"{word} {one.name}") for word in ("arrived", "awaited", "in task", "bytes")
        )
        first = bv.simplified(smem + bv.constant(offset, 32))
        ops = list(operations(body))
        arrives = [op for op in ops if isinstance(op, amir.Arrive) and op.home.name == one.name]
        awaits = [op for op in ops if isinstance(op, amir.Await) and op.barrier.name == one.name]
        skips = tuple(dict.fromkeys(-op.n - 1 for op in awaits if op.n < -1))
        fences = any(op.pre & ORDINARY for op in arrives)
        found[one.name] = Ring(
            one, first, depth, count, arrived, awaited, in_task, brought, skips, fences
        )
    return found


def bytes_of_rings(described: Sequence[Mapping[str, Any]]) -> int:
    """The end of all rings in shared memory, which no variable may reach into."""
    return max((int(one["offset"]) + 8 * int(one["depth"]) for one in described), default=0)


def initialisation(rings: Sequence[Ring]) -> tuple[Sync, ...]:
    """The instructions of the thread that initialises the mbarriers, before all threads meet."""
    found = [
        Sync("init", (ring.count,), (bv.simplified(ring.first + bv.constant(8 * at, 32)),))
        for ring in rings
        for at in range(ring.depth)
    ]
    return (*found, Sync("publish mbarriers"), Sync("proxy fence"))


@dataclass(frozen=True, slots=True)
class Asked:
    """A synchronisation, and the condition under which this thread performs it."""

    sync: Sync
    condition: bv.Formula = bv.TRUE


def arrive(op: amir.Arrive, ring: Ring, ghosts: Ghosts, lane: bv.Term) -> tuple[Asked, ...]:
    """The instructions of an Arrive: warps meet, and one lane of each arrives."""
    if op.pre - ORDINARY or op.targets != (op.home,):
        raise refusal_of(f"line {op.origin.span.line}: `{op.origin.text}`, not validated yet")
    threads = op.origin.threads
    count = 0 if threads is None else prod(axis.extent for axis in threads.axes)
    given = bv.signed_value(ghosts[ring.bytes])
    if given is None:
        raise refusal_of("the bytes of an arrival are not constant")
    address = ring.address(ghosts[ring.arrived])
    made = Sync("arrive", (), (address,))
    if given:
        made = Sync("arrive with bytes", (given,), (address,))
    if count == 1 and ring.count == 1:
        return (Asked(made),)
    if count != 32 * ring.count or threads is None or not whole_warps(threads):
        raise refusal_of(f"line {op.origin.span.line}: an Arrive of other threads than whole warps")
    first = bv.equal(lane, bv.constant(0, 64))
    return (Asked(Sync("warp", (0xFFFFFFFF,))), Asked(made, first))


def wait(op: amir.Await, ring: Ring, ghosts: Ghosts) -> tuple[Asked, ...]:
    """The instructions of an Await: none for the first ones that it skips, but for a fence."""
    if op.n >= 0:
        raise refusal_of(f"line {op.origin.span.line}: `{op.origin.text}`, not validated yet")
    ahead = -op.n - 1
    number = bv.simplified(ghosts[ring.awaited] - bv.constant(ahead, 32))
    sync = Sync("wait", (), (ring.address(number), ring.parity(number)))
    found = [Asked(sync, waits(op, ring, ghosts))]
    if op.full & ASYNC_PROXY and ring.fences:
        found.append(Asked(Sync("proxy fence")))
    return tuple(found)


def waits(op: amir.Await, ring: Ring, ghosts: Ghosts) -> bv.Formula:
    """The condition that an Await waits for an arrival at all."""
    ahead = bv.constant(-op.n - 1, 32)
    return bv.compare("ge", ghosts[ring.in_task], ahead)


def whole_warps(threads: ThreadMap) -> bool:
    """Tests whether a thread map is one of whole warps."""
    *above, last = threads.axes
    aligned = all(axis.pitch % 32 == 0 for axis in above)
    return last.pitch == 1 and last.extent % 32 == 0 and aligned


def left_to_skip(skip: int, in_task: bv.Term) -> bv.Term:
    """The Awaits of this task that are still to be skipped."""
    most = bv.constant(skip, 32)
    rest = bv.compare("lt", in_task, most)
    return bv.choose(rest, most - in_task, bv.constant(0, 32))
