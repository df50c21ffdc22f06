"""Split barriers as text: rings of mbarriers, and commit groups."""

from __future__ import annotations

from collections.abc import Mapping
from dataclasses import dataclass, field

from exogpu.analysis.barriers import first_home
from exogpu.analysis.divergence import Mechanisms
from exogpu.codegen import proxies, sync
from exogpu.codegen.control_text import Control, c_atom, c_control, plus, simplify
from exogpu.codegen.hardware_barriers import Split, Turns
from exogpu.codegen.index_registers import Counters as SlotCounters
from exogpu.codegen.mbarriers import Ring
from exogpu.codegen.names import CTA, Names, braces, unsupported
from exogpu.codegen.proxies import Where
from exogpu.ir import nodes as ir
from exogpu.ir.types import BarrierMechanism, Sym

Lines = list[str]


@dataclass(frozen=True, slots=True)
class Counters:
    """A thread's running totals for one variable; see `exogpu.codegen.mbarriers`."""

    arrived: Sym
    awaited: Sym
    left: Sym
    """The Awaits that skip and are still to come, since the variable's allocation."""
    bytes: Sym
    """The bytes that trail on the next arrival."""


@dataclass(frozen=True, slots=True)
class Barriers:
    """Context for lowering the barrier statements of a kernel."""

    mechanisms: Mechanisms
    rings: Mapping[Sym, Ring]
    offsets: Mapping[Sym, int]
    """The offsets of rings in shared memory."""
    unwritten: frozenset[ir.Arrive]
    """Arrives with nothing to publish to other CTAs."""
    completing: frozenset[ir.Arrive]
    """Arrives whose phase waits for all TMA loads that their threads have started."""
    turns: Turns
    """The turns of the cluster's barrier."""
    slots: SlotCounters
    named: Mapping[Sym, Split]
    names: Names
    control: Control
    counters: dict[Sym, Counters] = field(default_factory=dict)


def declare_counters(barriers: Barriers, name: Sym) -> Mapping[Sym, str]:
    """Declarations of an mbarrier variable's running totals, outside of the loop over tasks."""
    ring = barriers.rings[name]
    base = name.name
    found = Counters(
        Sym(f"{base}_arrived"), Sym(f"{base}_awaited"), Sym(f"{base}_left"), Sym(f"{base}_bytes")
    )
    barriers.counters[name] = found
    lines = {}
    for counter in (found.arrived, found.awaited, found.bytes):
        spelled = barriers.names.declare(counter)
        awaits = counter is found.awaited
        if ring.awaits_one if awaits else ring.arrives_on_one:
            lines[counter] = f"unsigned {spelled} = 0;"
        else:
            others = ring.roles.arriving if awaits else ring.roles.waiting
            lines[counter] = f"unsigned {spelled}[{ring.along(others)}] = {{}};"
    return lines


def allocation(barriers: Barriers, stmt: ir.BarrierAlloc) -> Lines:
    """Only rings need storage; theirs has its place since the kernel's start."""
    if stmt.name not in barriers.rings:
        return []
    ring, counters = barriers.rings[stmt.name], barriers.counters[stmt.name]
    name = barriers.names.declare(stmt.name)
    lines = [f"const unsigned {name} = smem_address(smem + {barriers.offsets[stmt.name]});"]
    for slot in barriers.slots.get(stmt.name, {}).values():
        lines.append(slot.declared(barriers.names.declare(slot.name)))
    if ring.skip:
        left, awaited = barriers.names.declare(counters.left), barriers.names(counters.awaited)
        if ring.awaits_one:
            lines.append(f"unsigned {left} = {ring.skip};")
        else:
            elements = ring.along(ring.roles.arriving)
            lines.append(f"unsigned {left}[{elements}];")
            lines.append(f"for (int ring_at = 0; ring_at < {elements}; ++ring_at)")
            lines.append(f"    {left}[ring_at] = {ring.skip};")
        if ring.every:
            lines += _await_rest(ring, name, awaited)
    return lines


def _await_rest(ring: Ring, name: str, awaited: str) -> Lines:
    """Awaits the last phases of the variable's life before, which its Awaits skipped.

    They are complete or will be, and nothing follows from that; but a checker of barriers wants
    somebody to wait for a phase before the next arrival on its mbarrier.
    """
    at = "" if ring.awaits_one else "[ring_at]"
    where = name if ring.elements == 1 else f"{name} + {8 * ring.depth} * ring_at"
    wait_for = sync.emit(
        _await_row(ring), depth=ring.depth, ring=where, number=f"{awaited}{at} - phases_back"
    )
    roles = ring.along(ring.roles.arriving) // ring.elements
    if roles > 1:  # Each that awaits has waited for some phase of the one mbarrier, or will.
        return []
    skipped = min(ring.skip, ring.depth)
    return [
        f"for (int ring_at = 0; ring_at < {ring.elements}; ++ring_at)",
        f"    for (unsigned phases_back = {skipped}; phases_back > 0; --phases_back)",
        f"        if ({awaited}{at} >= phases_back) {{",
        *(f"            {line}" for line in wait_for),
        "        }",
    ]


def _await_row(ring: Ring) -> str:
    return "await mbarrier of CTAs" if ring.remote else "await mbarrier"


def arrive(barriers: Barriers, stmt: ir.Arrive, where: Where) -> Lines:
    """An Arrive: on a commit group it ends the group."""
    name = stmt.targets[0].name
    ring = barriers.rings.get(name)
    if barriers.mechanisms.barriers[name] is BarrierMechanism.COMMIT_GROUP:
        return proxies.emit(_group(barriers, name)[0], where)
    reason = sync.unkept(stmt.timeline, None)
    if reason is not None and stmt not in barriers.completing:
        raise unsupported(f"an Arrive whose {reason.what}", stmt.span, reason.help, "G803")
    lines = []
    if ring is None or not ring.copies:
        rows = sync.drain_rows(stmt.timeline)
        lines = [line for row in rows for line in proxies.emit(row, where)]
    if name in barriers.named:
        return [*lines, *_emit_named(barriers, "arrive named", stmt, stmt.targets[0])]
    if ring is None:
        return [*lines, *sync.emit("arrive cluster")]
    return [*lines, *_arrive_on(barriers, stmt, ring)]


def _arrive_on(barriers: Barriers, stmt: ir.Arrive, ring: Ring) -> Lines:
    """An Arrive on the mbarriers of a ring, which is counted.  Raises ExoGpuError (G807)."""
    masks = ring.targets[stmt]
    alone = all(mask == 1 << cta for cta, mask in enumerate(masks))
    _check_arrive(stmt, ring, alone)
    home, counters = first_home(stmt.targets), barriers.counters[ring.name]
    number = _of_arrivals(barriers, ring, counters.arrived, home)
    fields: dict[str, int | str] = {
        "depth": ring.depth,
        "ring": _ring_at(barriers, ring, home),
        "number": number,
    }
    if ring.trailing:
        fields["bytes"] = _of_arrivals(barriers, ring, counters.bytes, home)
    if not alone:
        fields |= {"ctas": len(masks), "mask": _mask(barriers, masks)}
        if ring.trailing:
            fields["cta"] = barriers.names(CTA)
    lines = sync.emit(_arrive_row(ring, alone, stmt in barriers.unwritten), **fields)
    slots = barriers.slots.get(ring.name, {}).values()
    counted = [slot.advanced(barriers.names(slot.name)) for slot in slots]
    return [*lines, advanced(ring, number), *counted]


def _check_arrive(stmt: ir.Arrive, ring: Ring, alone: bool) -> None:
    """Raises ExoGpuError (G807) for what no row of the lowering table says."""
    if ring.trailing and not ring.warps:
        raise unsupported(
            f"an Arrive on {ring.name}, on which instructions trail, by other than whole warps, or "
            "for cp.async",
            stmt.span,
            "arrive by the warp that executes the instructions",
            "G807",
        )
    if ring.copies and not alone:
        raise unsupported(
            f"a multicast Arrive that completes with cp.async ({stmt.timeline.name})",
            stmt.span,
            "wait for the copies first, with a commit group, and arrive on cuda_in_order",
            "G807",
        )


def _arrive_row(ring: Ring, alone: bool, reads: bool) -> str:
    """The row of the lowering table: of an Arrive that signals its own CTA `alone`, or others too,
    and that has only `reads` to publish."""
    if ring.trailing:
        row = "arrive mbarrier with bytes" if alone else "arrive mbarrier of CTAs with bytes"
        return f"{row}, by all" if ring.every else row
    if alone:
        if ring.copies:
            return "arrive mbarrier of cp.async"
        return "arrive mbarrier of warps" if ring.warps and not ring.every else "arrive mbarrier"
    if ring.every or not ring.warps:
        return "arrive mbarrier of CTAs, each thread"
    return "arrive mbarrier of CTAs, reads" if reads else "arrive mbarrier of CTAs"


def _emit_named(
    barriers: Barriers, row: str, stmt: ir.Arrive | ir.Await, access: ir.Access
) -> Lines:
    split = barriers.named[access.name]
    number = simplify(split.number(access), barriers.control.constants)
    return sync.emit(row, id=c_control(number, barriers.control), threads=split.threads[stmt])


def advanced(ring: Ring, number: str) -> str:
    """Counts one.  Where a ring is of a power of two, 2**32 arrivals are as good as none."""
    if ring.is_power_of_two:
        return f"++{number};"
    return f"{number} = {number} + 1 == {2 * ring.depth} ? 0 : {number} + 1;"


def count_arrivals(barriers: Barriers, name: Sym, more: str) -> Lines:
    """Counts so many Arrives by others, for numbers and for slots."""
    slots = barriers.slots.get(name, {}).values()
    return [
        _advanced_by(barriers.rings[name], barriers.names(barriers.counters[name].arrived), more),
        *(slot.advanced_by(barriers.names(slot.name), more) for slot in slots),
    ]


def count_awaits(barriers: Barriers, name: Sym, more: str) -> Lines:
    """Counts so many Awaits by others."""
    ring, counters = barriers.rings[name], barriers.counters[name]
    lines = [_advanced_by(ring, barriers.names(counters.awaited), more)]
    if ring.skip:
        left = barriers.names(counters.left)
        lines.insert(0, f"{left} = {left} > {more} ? {left} - {more} : 0;")
    return lines


def _advanced_by(ring: Ring, number: str, more: str) -> str:
    if more == "1":
        return advanced(ring, number)
    if ring.is_power_of_two:
        return f"{number} += {more};"
    return f"{number} = ({number} + {more}) % {2 * ring.depth};"


def wait(barriers: Barriers, stmt: ir.Await, where: Where) -> Lines:
    """An Await: on a commit group it waits for all but its newest n."""
    name = stmt.barrier.name
    ring = barriers.rings.get(name)
    before = barriers.mechanisms.before[name] if ring is None else ring.before
    after = [
        line for row in sync.after_await(before, stmt.timeline) for line in proxies.emit(row, where)
    ]
    if barriers.mechanisms.barriers[name] is BarrierMechanism.COMMIT_GROUP:
        waited = proxies.emit(_group(barriers, name)[1], where, n=stmt.n)
        told = sync.told_rows(barriers.mechanisms.kinds[name], sync.scope_of(where.tiling))
        return [*waited, *(line for row in told for line in sync.emit(row)), *after]
    if name in barriers.named:
        return [*_emit_named(barriers, "await named", stmt, stmt.barrier), *after]
    if ring is None:
        waits = [] if stmt in barriers.turns.over else proxies.emit("await cluster", where)
        return [*waits, *after]
    counters = barriers.counters[name]
    awaited = _of_awaits(barriers, ring, counters.awaited, stmt.barrier)
    lines = sync.emit(
        _await_row(ring),
        depth=ring.depth,
        ring=_ring_at(barriers, ring, stmt.barrier),
        number=_skipping(ring, awaited),
    )
    if ring.skip:
        left = _of_awaits(barriers, ring, counters.left, stmt.barrier)
        lines = [f"if ({left} > 0)", f"    --{left};", *braces("else", lines)]
    others = proxies.after_others(where) if ring.remote else []
    return [*lines, advanced(ring, awaited), *others, *after]


def _skipping(ring: Ring, awaited: str) -> str:
    """The number of the arrival that the Await of this number waits for."""
    if not ring.skip:
        return awaited
    if ring.is_power_of_two:
        return f"{awaited} - {ring.skip}"
    return f"({awaited} + {2 * ring.depth - ring.skip}) % {2 * ring.depth}"


def trailing(barriers: Barriers, stmt: ir.CallInstr, count: int) -> tuple[str, Lines]:
    """The mbarrier that a call signals, and what accounts for the `count` bytes that it brings."""
    assert stmt.trailing is not None
    ring = barriers.rings[stmt.trailing.name]
    counters = barriers.counters[stmt.trailing.name]
    number = _of_arrivals(barriers, ring, counters.arrived, stmt.trailing)
    where = f"mbarrier_at<{ring.depth}>({_ring_at(barriers, ring, stmt.trailing)}, {number})"
    expected = _of_arrivals(barriers, ring, counters.bytes, stmt.trailing)
    return where, [f"{expected} += {count};"]


def initialisation(barriers: Barriers) -> Lines:
    """Every ring's mbarriers, by one thread of each CTA; a barrier must follow."""
    lines: Lines = []
    for name, offset in barriers.offsets.items():
        ring = barriers.rings[name]
        lines += sync.emit(
            "init mbarrier",
            ring=f"smem_address(smem + {offset})",
            barriers=ring.depth * ring.elements,
            count=ring.count,
        )
        lines[-1] += f"  // {name.name}"
    return [*lines, *sync.emit("publish mbarriers")] if lines else []


def _group(barriers: Barriers, name: Sym) -> tuple[str, str]:
    """The rows of an Arrive and of an Await."""
    kind = barriers.mechanisms.kinds.get(name)
    if kind is None:
        raise AssertionError(f"{name} is no commit group")
    return sync.group_rows(kind, barriers.mechanisms.before[name])


def _mask(barriers: Barriers, masks: tuple[int, ...]) -> str:
    """The mask of this CTA, out of those of all CTAs in one constant."""
    if len(set(masks)) == 1:
        return hex(masks[0])
    packed = sum(mask << len(masks) * cta for cta, mask in enumerate(masks))
    return f"{packed:#x}ull >> {len(masks)} * {barriers.names(CTA)}"


def _element(ring: Ring, access: ir.Access, without: frozenset[int]) -> ir.CExpr:
    """The number of an element among those of its CTA, without some dimensions."""
    index: ir.CExpr = ir.Int(0)
    for d, extent in zip(ring.kept, ring.extents, strict=True):
        if d in without:
            continue
        coord = access.coords[d]
        at = coord.at if isinstance(coord, ir.Point) else coord.lo
        index = plus(ir.Mul(extent, index) if index != ir.Int(0) else index, at)
    return index


def _ring_at(barriers: Barriers, ring: Ring, access: ir.Access) -> str:
    name = barriers.names(ring.name)
    index = simplify(_element(ring, access, ring.roles.dims), barriers.control.constants)
    if ring.elements == 1 or index == ir.Int(0):
        return name
    return f"{name} + {8 * ring.depth} * {c_atom(index, barriers.control)}"


def _of_arrivals(barriers: Barriers, ring: Ring, counter: Sym, access: ir.Access) -> str:
    """A total of arrivals on an element: by role that arrives."""
    return _counter(barriers, ring, counter, access, ring.arrives_on_one, ring.roles.waiting)


def _of_awaits(barriers: Barriers, ring: Ring, counter: Sym, access: ir.Access) -> str:
    """A total of Awaits: by role that awaits."""
    return _counter(barriers, ring, counter, access, ring.awaits_one, ring.roles.arriving)


def _counter(
    barriers: Barriers,
    ring: Ring,
    counter: Sym,
    access: ir.Access,
    one: bool,
    without: frozenset[int],
) -> str:
    """A total: of all elements, or, where a thread uses only one, that one's."""
    name = barriers.names(counter)
    if one:
        return name
    return f"{name}[{c_control(_element(ring, access, without), barriers.control)}]"
