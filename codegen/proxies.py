"""Who accesses what through which proxy in a launch (PTX ISA, proxies), and what need not be
waited for or fenced because of it."""

from __future__ import annotations

from collections.abc import Iterator, Mapping, Sequence
from dataclasses import dataclass
from typing import assert_never

from exogpu.analysis.affine import constant
from exogpu.analysis.executors import CollectiveFacts
from exogpu.codegen.rows import Scope
from exogpu.codegen.smem import SharedLayout
from exogpu.codegen.storage import Storage
from exogpu.codegen.sync import full, scope_of
from exogpu.hw.timelines import ASYNC_PROXY
from exogpu.ir.names import Sym
from exogpu.ir.nodes import (
    Block,
    CallInstr,
    CudaTasks,
    CudaThreads,
    DeviceFunction,
    Fence,
    For,
    Loaded,
    Seq,
    Slot,
    Warps,
)
from exogpu.ir.types import QualTL, Space
from exogpu.ir.walk import accesses, blocks, passed


@dataclass(frozen=True, slots=True)
class Proxies:
    """What proxy fences of a launch are about."""

    freed: frozenset[Sym]
    """Shared variables that the generic proxy accesses, some of whose bytes the async proxy
    accesses too, in this task or in the next."""
    space: str
    """The suffix of a proxy fence: the state space, unless both proxies access global memory, in
    this launch or in those that it waits for.  Where no other CTA accesses what both do, it is the
    CTA's: the window of the cluster takes 0.3 us longer."""
    freed_space: str
    """That of a proxy fence at a free: copies of other CTAs may be the next to access the bytes."""
    groups: frozenset[str]
    """The warp groups that access memory through the generic proxy, or are told of such accesses of
    other CTAs: by a flag, or by the end of a launch."""
    sources: bool
    """Whether bulk stores need not be waited for beyond the reads of their sources: nothing else
    in the launch accesses what they store, and no two of a task store one element."""


def proxies(
    launch: DeviceFunction,
    facts: CollectiveFacts,
    storage: Mapping[Sym, Storage],
    shared: SharedLayout,
) -> Proxies:
    """What the proxy fences of a launch are about."""
    everyone = frozenset(group.name for group in launch.warps)
    waits = frozenset(name for name, one in storage.items() if one.flag)
    accessed = [u for u in _accesses(launch.body, facts, everyone, False) if u.name in storage]
    found = [use for use in accessed if use.name not in waits]
    in_order = len(found) < len(accessed)  # flags may order what two tasks store
    generic = {use.name for use in found if not use.asynchronous}
    asynchronous = {use.name for use in found if use.asynchronous}
    freed = frozenset(
        name
        for name in generic & shared.offsets.keys()
        if any(shared.overlap(name, other) for other in asynchronous & shared.offsets.keys())
    )
    told = _told(launch.body, facts, everyone)
    both = asynchronous if told else generic & asynchronous  # the launches before were generic
    everywhere = any(storage[name].space is not Space.SHARED for name in both)
    # Copies to other CTAs of a cluster go through its window on their shared memory.
    abroad = {use.name for use in found if use.abroad or storage[use.name].of_cluster}
    space = "" if everywhere else ".shared::cluster" if both & abroad else ".shared::cta"
    freed_space = space if everywhere or launch.cluster_dim == 1 else ".shared::cluster"
    groups = frozenset(
        group
        for use in accessed
        if not use.asynchronous and storage[use.name].space is not Space.REGISTER
        for group in use.groups
    )
    return Proxies(freed, space, freed_space, groups | told, not in_order and _only_stored(found))


@dataclass(frozen=True, slots=True)
class _Use:
    name: Sym
    groups: frozenset[str]
    """Whose code it is in."""
    repeated: bool
    """Whether a task may come past it twice."""
    asynchronous: bool
    stored: bool
    """By a bulk store."""
    added: bool
    """By a bulk reduction."""
    abroad: bool
    """By threads of several CTAs together, as copies to several are made."""


def _only_stored(found: Sequence[_Use]) -> bool:
    for name in {use.name for use in found if use.stored}:
        uses = [use for use in found if use.name == name]
        once = len(uses) == 1 and not uses[0].repeated
        if not all(use.stored and (use.added or once) for use in uses):
            return False
    return True


def _accesses(
    block: Block, facts: CollectiveFacts, groups: frozenset[str], repeated: bool
) -> Iterator[_Use]:
    for stmt in block:
        here, again = groups, repeated or (isinstance(stmt, For) and _repeats(stmt))
        if isinstance(stmt, Warps):
            group = facts.inner[stmt].group
            here = groups if group is None else frozenset({group})
        if isinstance(stmt, CallInstr):
            yield from _of_call(stmt, here, repeated, _of_several(facts, stmt))
        else:
            for access in accesses(stmt):
                yield _Use(access.name, here, repeated, False, False, False, False)
        for inside in blocks(stmt):
            yield from _accesses(inside, facts, here, again)


def _told(block: Block, facts: CollectiveFacts, groups: frozenset[str]) -> frozenset[str]:
    """The groups that wait for the launch before, and fence no proxies with that."""
    found: frozenset[str] = frozenset()
    for stmt in block:
        here = groups
        if isinstance(stmt, Warps) and (group := facts.inner[stmt].group) is not None:
            here = frozenset({group})
        if isinstance(stmt, Fence) and stmt.launches and not full(stmt.post) & ASYNC_PROXY:
            found |= here
        for inside in blocks(stmt):
            found |= _told(inside, facts, here)
    return found


def _repeats(loop: For) -> bool:
    """Whether a task goes through the loop's body more than once, one thread after the other
    included."""
    match loop.mode:
        case CudaTasks() | Slot() | Loaded():
            return False
        case Seq() | CudaThreads():
            lo, hi = constant(loop.lo), constant(loop.hi)
            return lo is None or hi is None or hi - lo > 1
        case _:
            assert_never(loop.mode)


def _of_several(facts: CollectiveFacts, call: CallInstr) -> bool:
    """Whether threads of several CTAs make a call together."""
    tiling = facts.scope[call]
    return tiling is not None and scope_of(tiling) is Scope.CLUSTER


def _of_call(
    call: CallInstr, groups: frozenset[str], repeated: bool, abroad: bool
) -> Iterator[_Use]:
    for one in passed(call):
        operand = one.param.operand
        stored = one.timeline is QualTL.TMA_G and one.written
        added = stored and operand is not None and bool(operand.atomic)
        through = one.timeline in ASYNC_PROXY
        yield _Use(one.access.name, groups, repeated, through, stored, added, abroad)
