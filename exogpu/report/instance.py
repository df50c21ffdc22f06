"""Small sizes for the drawings: the smallest at which a kernel's main loop runs so often."""

from __future__ import annotations

from collections.abc import Iterator
from dataclasses import dataclass

from exogpu.analysis.instances import Domain, entry, smallest, within_loop
from exogpu.ir.isltext import cexpr
from exogpu.ir.nodes import Block, CudaThreads, DeviceFunction, For, Int, Proc, Seq
from exogpu.ir.walk import blocks, walk


@dataclass(frozen=True, slots=True)
class MainLoop:
    """The sequential loop of a kernel that has most statements and runs as often as sizes say."""

    loop: For
    domain: Domain
    """The instances of the place it stands at."""


def main_loop(proc: Proc) -> MainLoop | None:
    """The main loop of the first kernel that has one."""
    found = [
        candidate
        for launch in walk(proc.body)
        if isinstance(launch, DeviceFunction)
        for candidate in _loops(launch.body, entry(proc))
    ]
    return max(found, key=lambda f: sum(1 for _ in walk(f.loop.body)), default=None)


def _loops(block: Block, domain: Domain) -> Iterator[MainLoop]:
    for stmt in block:
        inner = domain
        if isinstance(stmt, For):
            constant = isinstance(stmt.lo, Int) and isinstance(stmt.hi, Int)
            if isinstance(stmt.mode, Seq) and not constant:
                yield MainLoop(stmt, domain)
                continue
            if not isinstance(stmt.mode, CudaThreads) or not constant:
                inner = within_loop(domain, stmt.iterator, stmt.lo, stmt.hi)
        for inside in blocks(stmt):
            yield from _loops(inside, inner)


def sizes_for_trips(proc: Proc, main: MainLoop | None, trips: int) -> dict[str, int] | None:
    """The smallest sizes at which the main loop runs exactly `trips` times, if there are any;
    without a main loop, the smallest sizes."""
    if main is None:
        domain, condition = entry(proc), "true"
    else:
        domain = main.domain
        condition = f"({cexpr(main.loop.hi)}) - ({cexpr(main.loop.lo)}) = {trips}"
    found = smallest(domain, condition)
    if found is None:
        return None
    return {p.name.name: found[p.name] for p in domain.params}
