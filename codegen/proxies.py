"""Which variables of a launch the generic and the async proxy access (PTX ISA, proxies)."""

from __future__ import annotations

from collections.abc import Mapping
from dataclasses import dataclass

from exogpu.codegen.smem import SharedLayout
from exogpu.codegen.storage import Storage
from exogpu.hw.timelines import ASYNC_PROXY
from exogpu.ir.names import Sym
from exogpu.ir.nodes import Access, CallInstr, DataParam, DeviceFunction
from exogpu.ir.types import Space
from exogpu.ir.walk import accesses, walk


@dataclass(frozen=True, slots=True)
class Proxies:
    """What proxy fences of a launch are about."""

    freed: frozenset[Sym]
    """Shared variables that the generic proxy accesses, some of whose bytes the async proxy
    accesses too, in this task or in the next."""
    space: str
    """The suffix of a proxy fence: the state space, unless both proxies access global memory."""


def proxies(
    launch: DeviceFunction, storage: Mapping[Sym, Storage], shared: SharedLayout
) -> Proxies:
    """What the proxy fences of a launch are about."""
    generic, asynchronous = _accessed(launch)
    freed = frozenset(
        name
        for name in generic & shared.offsets.keys()
        if any(shared.overlap(name, other) for other in asynchronous & shared.offsets.keys())
    )
    both = generic & asynchronous
    if any(storage[name].space is not Space.SHARED for name in both):
        return Proxies(freed, "")
    # Copies to other CTAs of a cluster go through its window on their shared memory.
    return Proxies(freed, ".shared::cta" if launch.cluster_dim == 1 else ".shared::cluster")


def _accessed(launch: DeviceFunction) -> tuple[frozenset[Sym], frozenset[Sym]]:
    """What goes through the generic proxy, and what through the async one."""
    generic: set[Sym] = set()
    asynchronous: set[Sym] = set()
    for stmt in walk(launch.body):
        if isinstance(stmt, CallInstr):
            for param, argument in zip(stmt.instr.params, stmt.arguments, strict=True):
                if isinstance(param, DataParam) and isinstance(argument, Access):
                    operand = param.operand
                    through = operand is not None and operand.initial in ASYNC_PROXY
                    (asynchronous if through else generic).add(argument.name)
        else:
            generic |= {access.name for access in accesses(stmt)}
    return frozenset(generic), frozenset(asynchronous)
