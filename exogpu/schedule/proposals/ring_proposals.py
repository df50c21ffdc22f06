"""A ring of mbarriers for loads that signal one: who signals what, who waits where."""

from __future__ import annotations

from collections.abc import Iterable, Iterator, Sequence
from dataclasses import dataclass, replace
from fractions import Fraction
from typing import Final

from exogpu.amir.nodes import Check, Record
from exogpu.hw.timelines import SYNC_TIMELINES
from exogpu.hw.units import cuda_cta_in_cluster, cuda_warp_in_cluster
from exogpu.ir import nodes as ir
from exogpu.ir.types import BarrierMechanism, CollUnit, QualTL, Sym
from exogpu.ir.walk import accesses, control_variables, window_arguments
from exogpu.machine.observer import Violation
from exogpu.schedule.index_text import plus
from exogpu.schedule.proposals import drafts
from exogpu.schedule.proposals.fences_and_groups import PROXY, Move, fence
from exogpu.schedule.rewrite import Path

_PLAIN: Final = frozenset({QualTL.CUDA1, QualTL.CUDA2})


@dataclass(frozen=True, slots=True)
class _Side:
    """Statements in one block that load, or that use what is loaded."""

    block: Path
    """The path of what holds the block."""
    first: int
    last: int
    ctas: tuple[ir.For, ...] = ()
    """The loops over CTAs around the block, of those that use."""

    @property
    def start(self) -> Path:
        return (*self.block, ("body", self.first))

    @property
    def end(self) -> Path:
        return (*self.block, ("body", self.last + 1))


@dataclass(frozen=True, slots=True)
class _Ring:
    """The parts of a ring."""

    loads: tuple[Path, ...]
    loop: Path
    producer: _Side
    consumer: _Side
    dims: tuple[int, ...]
    """Extents of the barriers, over CTAs."""
    index: tuple[ir.Coord, ...]
    """The element of a consumer."""
    depth: int
    plain: bool
    """Ordinary accesses use the loaded values."""


def rings(draft: drafts.Draft, load: int, violations: Sequence[Violation]) -> Iterator[Move]:
    """Barriers for a load that signals none, and those in the same loop: with a second barrier
    on which the consumers give the slots back, and without."""
    ring = _ring(draft, load, violations)
    if ring is None:
        return
    apart = ring.producer.block != ring.consumer.block
    if drafts.is_sequential(draft.statement_at(ring.loop)):
        for fenced in (True, False) if ring.plain else (False,):
            made = _make_ring(draft, ring, released=True, fenced=fenced)
            if made is not None:
                yield Move("ring", 6 + fenced + len(ring.loads), made)
    made = _make_ring(draft, ring, released=False, fenced=False)
    if made is not None:
        # A Fence of all would keep a deep ring from ever being filled.
        more = 5 if apart and ring.depth > 1 else 0
        yield Move("barrier", 3 + more + len(ring.loads), made)


def _make_ring(
    draft: drafts.Draft, ring: _Ring, *, released: bool, fenced: bool
) -> drafts.Draft | None:
    home = drafts.allocations(draft, ring.loop)
    over = _producers(draft, ring)
    if home is None or over is None:
        return None
    full, empty = draft.name("full"), draft.name("empty")
    trailing: dict[Path, ir.CallInstr] = {}
    for path in ring.loads:
        call = draft.statement_at(path)
        assert isinstance(call, ir.CallInstr)
        coords = target_of(draft, call).coords[: len(ring.dims)]
        if sum(isinstance(c, ir.Interval) for c in coords) != len(call.instr.trailing_units):
            return None
        trailing[path] = replace(call, trailing=ir.Access(full, coords))
    shape = tuple(map(ir.Int, ring.dims))
    new: list[tuple[Path, ir.Stmt]] = [(home, _barrier(full, shape))]
    temporal = SYNC_TIMELINES["cuda_temporal"]
    if released:
        new.append((home, _barrier(empty, shape, full)))
        wait = ir.Await(_points(empty, over), temporal, -ring.depth - 1)
        new.append((ring.producer.start, _wrap_in_loops(over, wait)))
    signal = ir.Arrive(temporal, (_points(full, over),))
    new.append((ring.producer.end, _wrap_in_loops(over, signal)))
    seen = "cuda_in_order" if ring.plain else "cuda_generic_and_async"
    new.append(
        (ring.consumer.start, ir.Await(ir.Access(full, ring.index), SYNC_TIMELINES[seen], ~0))
    )
    if released:
        targets = given_back(empty, ring.index, trailing.values())
        new += [(ring.consumer.end, fence(PROXY))] if fenced else []
        new.append((ring.consumer.end, ir.Arrive(SYNC_TIMELINES["cuda_in_order"], targets)))
    for path, call in trailing.items():
        draft = draft.replace_statement(path, call, same=True)
    return draft.inserted(new)


def _barrier(name: Sym, shape: tuple[ir.Int, ...], guard: Sym | None = None) -> ir.BarrierAlloc:
    return ir.BarrierAlloc(name, shape, BarrierMechanism.MBARRIER, guard)


# --- who ------------------------------------------------------------------------------------


def _ring(draft: drafts.Draft, load: int, violations: Sequence[Violation]) -> _Ring | None:
    path = draft.places[load]
    loop = next(
        (
            p
            for p in drafts.upwards(path[:-1])
            if drafts.is_sequential(draft.statement_at(p)) or drafts.is_tasks(draft.statement_at(p))
        ),
        None,
    )
    if loop is None:
        return None
    loads = tuple(
        p
        for n, p in draft.places.items()
        if drafts.is_unsignalled(draft.statements[n]) and p[: len(loop)] == loop
        if next(
            q
            for q in drafts.upwards(p[:-1])
            if drafts.is_sequential(draft.statement_at(q)) or drafts.is_tasks(draft.statement_at(q))
        )
        == loop
    )
    numbers = {n for n, p in draft.places.items() if p in loads}
    uses = [
        v
        for v in violations
        if isinstance(v.record, Record)
        and isinstance(v.check, Check)
        and not v.check.free
        and v.record.origin.span.line in numbers
        and v.check.origin.span.line not in numbers
    ]
    places = [draft.places[v.check.origin.span.line] for v in uses]
    places = [p for p in places if p[: len(loop)] == loop]
    producer = _side(draft, loop, loads, False)
    consumer = _side(draft, loop, places, True) if places else None
    if producer is None or consumer is None:
        return None
    call = draft.statement_at(loads[0])
    assert isinstance(call, ir.CallInstr)
    shape = _shape(draft, target_of(draft, call).name)
    users = (whole_variable(draft, a) for p in places for a in accesses(draft.statement_at(p)))
    access = next((a for a in users if a.name == target_of(draft, call).name), None)
    if access is None or shape is None:
        return None
    iterators = {loop.iterator for loop in consumer.ctas}
    many = 0
    for coord in access.coords:
        if not isinstance(coord, ir.Point):
            break
        variables = control_variables(coord.at)
        if not variables or not variables <= iterators:
            break
        many += 1
    plain = all(v.check.timelines <= _PLAIN for v in uses if isinstance(v.check, Check))
    depth = depth_of(target_of(draft, call))
    dims, index = shape[:many], access.coords[:many]
    return _Ring(loads, loop, producer, consumer, dims, index, depth, plain)


def target_of(draft: drafts.Draft, call: ir.CallInstr) -> ir.Access:
    """The window of a variable that a load writes."""
    return whole_variable(draft, next(p.access for p in window_arguments(call) if p.is_written))


def whole_variable(draft: drafts.Draft, access: ir.Access) -> ir.Access:
    """The access of a window as one of the variable that it is of."""
    windows = {s.name: s.source for s in draft.statements.values() if isinstance(s, ir.WindowStmt)}
    while access.name in windows:
        source, inner = windows[access.name], iter(access.coords)
        access = ir.Access(source.name, tuple(_within_window(c, inner) for c in source.coords))
    return access


def _within_window(coord: ir.Coord, inner: Iterator[ir.Coord]) -> ir.Coord:
    if isinstance(coord, ir.Point):
        return coord
    match next(inner):
        case ir.Point() as point:
            return ir.Point(plus(coord.lo, point.at))
        case ir.Interval() as part:
            return ir.Interval(plus(coord.lo, part.lo), plus(coord.lo, part.hi))


def _shape(draft: drafts.Draft, name: Sym) -> tuple[int, ...] | None:
    for stmt in draft.statements.values():
        if isinstance(stmt, ir.Alloc) and stmt.name == name:
            return tuple(e.value if isinstance(e, ir.Int) else 0 for e in stmt.shape)
    return None


def depth_of(access: ir.Access) -> int:
    """Returns the number of slots of the ring that an access goes round."""
    rounds = (
        c.at.divisor for c in access.coords if isinstance(c, ir.Point) and isinstance(c.at, ir.Mod)
    )
    return next(rounds, 1)


def _side(draft: drafts.Draft, loop: Path, places: Sequence[Path], ctas: bool) -> _Side | None:
    """The block inside the loop that holds all the places: as deep as warps and, with `ctas`,
    loops over CTAs go."""
    block = loop
    around: list[ir.For] = []
    while True:
        steps = {p[len(block)] for p in places}
        if len(steps) != 1:
            break
        (step,) = steps
        inner = (*block, step)
        parent = draft.statement_at(inner)
        cta = (
            ctas
            and isinstance(parent, ir.For)
            and drafts.is_threads(parent)
            and _spans_ctas(parent)
        )
        if not isinstance(parent, ir.Warps | ir.If) and not cta:
            break
        if isinstance(parent, ir.If) and any(p[len(inner)][0] != "body" for p in places):
            break
        if cta:
            assert isinstance(parent, ir.For)
            around.append(parent)
        block = inner
    if any(p[len(block)][0] != "body" for p in places):
        return None
    indices = [p[len(block)][1] for p in places]
    return _Side(block, min(indices), max(indices), tuple(around))


def _spans_ctas(loop: ir.For) -> bool:
    return isinstance(loop.mode, ir.CudaThreads) and any(e.cluster for e in loop.mode.unit.domain)


# --- loops over CTAs ------------------------------------------------------------------------


def _producers(draft: drafts.Draft, ring: _Ring) -> tuple[ir.For, ...] | None:
    """The loops in which each CTA of the producers signals by itself."""
    if not ring.dims:
        return ()
    around = draft.enclosing((*ring.producer.block, ("body", 0)))
    launch = next(s for s in around if isinstance(s, ir.DeviceFunction))
    warps = next((s.hi - s.lo for s in reversed(around) if isinstance(s, ir.Warps)), None)
    if warps is None or warps == launch.block_dim // 32:
        base = cuda_cta_in_cluster
    elif warps == 1:
        base = cuda_warp_in_cluster
    else:
        return None
    loops = []
    for loop in ring.consumer.ctas[: len(ring.dims)]:
        assert isinstance(loop.mode, ir.CudaThreads)
        many = _count(loop.mode.unit)
        if many is None:
            return None
        mode = ir.CudaThreads(base if many == 1 else many * base)
        loops.append(ir.For(Sym(loop.iterator.name), loop.lo, loop.hi, mode, ()))
    return tuple(loops)


def _count(unit: CollUnit) -> int | None:
    """Returns the number of CTAs side by side that a unit is."""
    if unit.domain != cuda_cta_in_cluster.domain or unit.box[0] is None:
        return None
    factor: Fraction = unit.box[0].factor
    return int(factor) if factor.denominator == 1 else None


def _points(name: Sym, loops: tuple[ir.For, ...]) -> ir.Access:
    return ir.Access(name, tuple(ir.Point(ir.CVar(loop.iterator)) for loop in loops))


def _wrap_in_loops(loops: tuple[ir.For, ...], stmt: ir.Stmt) -> ir.Stmt:
    """The statement in copies of loops."""
    for loop in reversed(loops):
        stmt = replace(loop, body=(stmt,))
    return stmt


def given_back(
    empty: Sym, index: tuple[ir.Coord, ...], loads: Iterable[ir.CallInstr]
) -> tuple[ir.Access, ...]:
    """The barriers of all producers that fill a consumer's slot: those on which its loads land,
    seen from the consumer, whose own element has that index."""
    targets: dict[ir.Access, None] = {}
    for call in loads:
        assert call.trailing is not None
        coords = tuple(
            mine if isinstance(coord, ir.Point) else coord
            for coord, mine in zip(call.trailing.coords, index, strict=True)
        )
        targets[ir.Access(empty, coords)] = None
    for d in range(len(index)):
        if not any(isinstance(target.coords[d], ir.Point) for target in targets):
            targets[ir.Access(empty, index)] = None  # the home
    return tuple(targets)
