"""Finds the proxies by which a launch accesses its variables (PTX ISA, proxies), and the waits and
fences that this makes needless."""

from __future__ import annotations

from collections.abc import Iterator, Mapping, Sequence
from dataclasses import dataclass, replace
from typing import Final, assert_never

from exogpu.analysis.derive_tiling import is_unit_scope
from exogpu.analysis.thread_names import CollectiveFacts
from exogpu.analysis.tiling import Tiling
from exogpu.codegen import sync
from exogpu.codegen.arrival_rows import Scope
from exogpu.codegen.names import WARP
from exogpu.codegen.storage import SharedLayout, Storage
from exogpu.codegen.sync import full, scope_of
from exogpu.hw.timelines import ASYNC_PROXY
from exogpu.hw.units import cuda_warpgroup
from exogpu.ir import nodes as ir
from exogpu.ir.affine import constant
from exogpu.ir.types import QualTL, Space, Sym
from exogpu.ir.walk import accesses, blocks, window_arguments


@dataclass(frozen=True, slots=True)
class Proxies:
    """The variables and accesses that proxy fences of a launch concern."""

    freed: frozenset[Sym]
    """Shared variables that the generic proxy accesses, some of whose bytes the async proxy
    accesses too, in this task or in the next."""
    space: str
    """The suffix of a proxy fence: the state space, unless both proxies access global memory, or
    those of two CTAs that synchronise, in this launch or in those that it waits for.  Where no
    other CTA accesses what both do, it is the CTA's: the window of the cluster takes 0.3 us
    longer."""
    freed_space: str
    """The state space of a proxy fence at a free: copies of other CTAs may be the next to access
    the bytes."""
    across: bool
    """A CTA accesses global memory through the async proxy that others, with which it synchronises,
    have accessed through either: it has a fence of its own after it has waited."""
    groups: frozenset[str]
    """The warp groups that access memory through the generic proxy, or are told of such accesses of
    other CTAs: by a flag, or by the end of a launch."""
    sources: bool
    """Bulk stores need not be waited for beyond the reads of their sources: nothing else in the
    launch accesses their targets, and no two of a task store one element."""


def proxies(
    launch: ir.DeviceFunction,
    facts: CollectiveFacts,
    storage: Mapping[Sym, Storage],
    shared: SharedLayout,
) -> Proxies:
    """Finds the variables and accesses that proxy fences of a launch concern."""
    everyone = frozenset(group.name for group in launch.warps)
    waits = frozenset(name for name, one in storage.items() if one.flag)
    accessed = [u for u in _accesses(launch.body, facts, everyone, _Often()) if u.name in storage]
    found = [use for use in accessed if use.name not in waits]
    in_order = len(found) < len(accessed)  # flags may order what two tasks store
    generic = {use.name for use in found if not use.asynchronous}
    asynchronous = {use.name for use in found if use.asynchronous}
    freed = frozenset(
        name
        for name in generic & shared.offsets.keys()
        if any(shared.overlap(name, other) for other in asynchronous & shared.offsets.keys())
    )
    told = _groups_that_wait(launch.body, facts, everyone)
    both = asynchronous if told else generic & asynchronous  # the launches before were generic
    # PTX orders accesses of one address through one proxy within a thread block alone: what another
    # CTA stores by TMA has a fence before this one accesses it by TMA, too.
    others = in_order or launch.cluster_dim > 1
    if others:
        both |= {name for name, uses in _stored(found) if in_order or not _only_stored(uses, False)}
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
    sources = not in_order and all(_only_stored(uses, True) for _, uses in _stored(found))
    return Proxies(freed, space, freed_space, everywhere and others, groups | told, sources)


@dataclass(frozen=True, slots=True)
class _Often:
    """The ways in which a task may come past a statement twice."""

    again: bool = False
    """In another iteration of a sequential loop, so that a Fence may stand between."""
    beside: bool = False
    """In another iteration of a loop over threads."""

    def often_in_loop(self, loop: ir.For) -> _Often:
        """Returns the ways inside a loop."""
        match loop.mode:
            case ir.CudaTasks() | ir.Slot() | ir.Loaded():
                return self
            case ir.Seq():
                return replace(self, again=self.again or _repeats(loop))
            case ir.CudaThreads():
                return replace(self, beside=self.beside or _repeats(loop))
            case _:
                assert_never(loop.mode)


@dataclass(frozen=True, slots=True)
class _Use:
    name: Sym
    groups: frozenset[str]
    """Whose code it is in."""
    often: _Often
    asynchronous: bool
    stored: bool
    """By a bulk store."""
    added: bool
    """By a bulk reduction."""
    abroad: bool
    """By threads of several CTAs together, as copies to several are made."""


def _stored(found: Sequence[_Use]) -> Iterator[tuple[Sym, Sequence[_Use]]]:
    """Yields each variable that bulk stores write, with all its accesses."""
    for name in {use.name for use in found if use.stored}:
        yield name, [use for use in found if use.name == name]


def _only_stored(uses: Sequence[_Use], beside: bool) -> bool:
    """Tests whether only bulk stores access it, and no two of a task access an element one after
    the other, or `beside` each other, unless they add to it."""
    first = uses[0].often
    once = len(uses) == 1 and not (first.again or (beside and first.beside))
    return all(use.stored and (use.added or once) for use in uses)


def _accesses(
    block: ir.Block, facts: CollectiveFacts, groups: frozenset[str], often: _Often
) -> Iterator[_Use]:
    for stmt in block:
        here, inner = groups, often.often_in_loop(stmt) if isinstance(stmt, ir.For) else often
        if isinstance(stmt, ir.Warps):
            group = facts.inner[stmt].group
            here = groups if group is None else frozenset({group})
        if isinstance(stmt, ir.CallInstr):
            yield from _of_call(stmt, here, often, _of_several(facts, stmt))
        else:
            for access in accesses(stmt):
                yield _Use(access.name, here, often, False, False, False, False)
        for inside in blocks(stmt):
            yield from _accesses(inside, facts, here, inner)


def _groups_that_wait(
    block: ir.Block, facts: CollectiveFacts, groups: frozenset[str]
) -> frozenset[str]:
    """The groups that wait for the launch before, and fence no proxies with that."""
    found: frozenset[str] = frozenset()
    for stmt in block:
        here = groups
        if isinstance(stmt, ir.Warps) and (group := facts.inner[stmt].group) is not None:
            here = frozenset({group})
        if isinstance(stmt, ir.Fence) and stmt.launches and not full(stmt.post) & ASYNC_PROXY:
            found |= here
        for inside in blocks(stmt):
            found |= _groups_that_wait(inside, facts, here)
    return found


def _repeats(loop: ir.For) -> bool:
    """Tests whether a loop may have more than one iteration."""
    lo, hi = constant(loop.lo), constant(loop.hi)
    return lo is None or hi is None or hi - lo > 1


def _of_several(facts: CollectiveFacts, call: ir.CallInstr) -> bool:
    """Tests whether threads of several CTAs make a call together."""
    tiling = facts.scope[call]
    return tiling is not None and scope_of(tiling) is Scope.CLUSTER


def _of_call(
    call: ir.CallInstr, groups: frozenset[str], often: _Often, abroad: bool
) -> Iterator[_Use]:
    for one in window_arguments(call):
        operand = one.param.operand
        stored = one.timeline is QualTL.TMA_G and one.is_written
        added = stored and operand is not None and bool(operand.atomic)
        through = one.timeline in ASYNC_PROXY
        yield _Use(one.access.name, groups, often, through, stored, added, abroad)


# Places of rows in a kernel, and the text that a place adds.
#
# The wgmma instructions are executed by all four warps of a warpgroup (PTX ISA, wgmma). In a CTA
# whose warps are no multiple of four the last ones are in no warpgroup: they made no product, and
# go past the rows of a scope that has them too.
#
# A proxy fence is of the state space in which both proxies access something: the one of all
# spaces waits for the global accesses of the CTA too.

OF_WARPGROUPS: Final = frozenset({"drain wgmma", "wgmma fence", "arrive wgmma", "await wgmma"})
"""Rows that warpgroups execute."""

OF_PROXIES: Final = frozenset({"proxy fence", "proxy fence at free"})
"""Rows with a state space."""

OF_CTAS: Final = frozenset({"fence cluster", "await cluster"})
"""Rows after which a CTA knows what others have done."""

OF_BULK: Final[Mapping[str, str]] = {
    "drain bulk": "drain bulk, sources",
    "await bulk": "await bulk, sources",
}
"""Rows that wait for bulk stores, and what waits for the reads of their sources alone."""

SOURCES: Final = frozenset(OF_BULK.values())


@dataclass(frozen=True, slots=True)
class Where:
    """The threads that execute a row: a scope, and the warps of the path that is emitted."""

    tiling: Tiling
    warps: tuple[int, int] | None
    """First and end, in the CTA; None: one path for all."""
    proxies: Proxies


def emit(key: str, where: Where, **fields: int | str) -> list[str]:
    """The lines of a row, under a condition where warps of no warpgroup come along."""
    if key in OF_PROXIES:
        at_free = key == "proxy fence at free"
        fields["space"] = where.proxies.freed_space if at_free else where.proxies.space
    if where.proxies.sources:
        key = OF_BULK.get(key, key)
    lines = sync.emit(key, **fields)
    if key in OF_CTAS:
        lines += after_others(where)
    if key not in OF_WARPGROUPS or is_unit_scope(where.tiling, cuda_warpgroup):
        return lines
    count = where.tiling.block_dim // 32
    first, end = where.warps or (0, count)
    last = count // 4 * 4
    if end <= last:
        return lines
    if first >= last:
        return []
    return [f"if ({WARP.name} < {last}) {{", *(f"    {line}" for line in lines), "}"]


def after_others(where: Where) -> list[str]:
    """Returns the lines after a wait for other CTAs."""
    return sync.emit("proxy fence after others") if where.proxies.across else []
