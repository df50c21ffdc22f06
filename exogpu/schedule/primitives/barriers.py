"""Primitives that add, change and remove synchronisation: annotations, to the sequential meaning.

The result must be well-formed; whether it synchronises enough is what `p.check()` proves.
"""

from __future__ import annotations

import ast
from collections.abc import Iterator, Sequence
from dataclasses import replace

from exogpu.diagnostics.errors import Span
from exogpu.ir import nodes as ir
from exogpu.ir.types import BarrierMechanism, CollUnit, Sym, SyncTL
from exogpu.ir.walk import accesses, blocks, walk
from exogpu.schedule import rewrite
from exogpu.schedule.checking.opened_procedure import SYNCHRONISATION
from exogpu.schedule.cursors import Cursor, header
from exogpu.schedule.derivations import P, ir_of
from exogpu.schedule.index_text import control_scope, read_condition, read_control, read_window
from exogpu.schedule.primitive import Unfit, annotation, gap_of, new_variable, path_of
from exogpu.schedule.primitives.storage import data_scope

Over = Sequence[tuple[str, int, CollUnit]]
"""Loops of threads around a statement, outermost first: iterator, count and unit."""


@annotation
def insert_fence(
    proc: ir.Proc, gap: object, pre: SyncTL, post: SyncTL, over: Over = ()
) -> Iterator[rewrite.Rewrite]:
    """Put a Fence at a place.

    t[i] = x[i]              t[i] = x[i]
    y[i] = t[3 - i]    ->    Fence(cuda_in_order, cuda_in_order)
                             y[i] = t[3 - i]

    `over` are loops of threads to put around it, as `[("w", 4, cuda_warp)]`.
    """
    place = _Place(proc, gap, over)
    yield place.filled(ir.Fence(_timeline(pre), _timeline(post), span=place.span))


@annotation
def insert_uninit(
    proc: ir.Proc, gap: object, window: str, where: tuple[str, str, str] | None = None
) -> Iterator[rewrite.Rewrite]:
    """Say at a place that the values of a window do not matter, where a condition holds, such as
    `("M", "<=", "m")`.

    if m < M:                ->    if M <= m:
        tile[m, 0] = x[m]              uninit(tile[m, :])
                                   if m < M:
                                       tile[m, 0] = x[m]
    """
    inside, offset = gap_of(gap)
    path = (*inside[:-1], (inside[-1][0], inside[-1][1] + offset))
    known = control_scope(proc, inside)
    data = {s.name: s for s in data_scope(proc, path)}
    span = rewrite.stmt_at(proc, inside).span
    stmt: ir.Stmt = ir.Uninit(read_window(window, known, data), span=span)
    if where is not None:
        stmt = ir.If(read_condition(*where, known), (stmt,), (), span=span)
    edit = rewrite.unchanged_rewrite(proc)
    rewrite.splice(edit, path, 0, (stmt,))
    yield edit


@annotation
def insert_barrier_alloc(
    proc: ir.Proc,
    gap: object,
    name: str,
    shape: Sequence[int],
    mechanism: BarrierMechanism,
    guard: str | None = None,
) -> Iterator[rewrite.Rewrite]:
    """Declare a barrier at a place; `guard` names the mbarrier that it takes turns with.

    y[i] = 0    ->    empty: barrier(full)[2] @ CudaMbarrier
                      y[i] = 0
    """
    if not isinstance(mechanism, BarrierMechanism):
        raise Unfit(f"{mechanism} is no mechanism of barriers")
    refuse_flag(mechanism)
    place = _Place(proc, gap, ())
    extents = [int(n) for n in shape]
    if any(n < 1 for n in extents):
        raise Unfit("an extent of a barrier is 1 or more")
    guarding: Sym | None = None
    if guard is not None:
        if guard not in place.barriers:
            raise Unfit(f"there is no barrier {guard} here")
        guarding = place.barriers[guard].name
    dims = tuple(map(ir.Int, extents))
    yield place.filled(
        ir.BarrierAlloc(new_variable(name), dims, mechanism, guarding, span=place.span)
    )


@annotation
def insert_arrive(
    proc: ir.Proc, gap: object, timeline: SyncTL, *targets: str, over: Over = ()
) -> Iterator[rewrite.Rewrite]:
    """Put an Arrive on a barrier at a place; several targets are a multicast.

    y[i] = tile[i]    ->    y[i] = tile[i]
                            Arrive(cuda_in_order) >> empty[m, :] >> empty[:, n]

    `over` are loops of threads to put around it, as `[("t", 128, cuda_thread)]`.
    """
    if not targets:
        raise Unfit("an Arrive has one target at least")
    place = _Place(proc, gap, over)
    windows = tuple(place.barrier(target) for target in targets)
    yield place.filled(ir.Arrive(_timeline(timeline), windows, span=place.span))


@annotation
def insert_await(
    proc: ir.Proc,
    gap: object,
    barrier: str,
    timeline: SyncTL,
    n: int | None = None,
    over: Over = (),
) -> Iterator[rewrite.Rewrite]:
    """Put an Await of a barrier at a place; `n` is by default ~0 where there are phases, else 0.

    y[i] = tile[i]    ->    Await(full[m], cuda_in_order, ~0)
                            y[i] = tile[i]

    `over` are loops of threads to put around it, as `[("t", 128, cuda_thread)]`.
    """
    place = _Place(proc, gap, over)
    window = place.barrier(barrier)
    count = (~0 if place.mechanism(window.name).phased else 0) if n is None else n
    yield place.filled(ir.Await(window, _timeline(timeline), count, span=place.span))


@annotation
def set_trailing_barrier_expr(
    proc: ir.Proc, call: object, barrier: str | None = None
) -> Iterator[rewrite.Rewrite]:
    """Let an instruction signal a barrier when it has finished, or no barrier.

    Sm90_tma_load(...)    ->    Sm90_tma_load(...) >> full[m]
    """
    path = path_of(proc, call)
    old = rewrite.stmt_at(proc, path)
    if not isinstance(old, ir.CallInstr):
        raise Unfit("the cursor is at no call of an instruction", old)
    if barrier is not None and old.instr.trailing is None:
        raise Unfit(f"{old.instr.name} signals no barrier", old)
    window = None if barrier is None else _Place(proc, (path, 0), ()).barrier(barrier)
    new = replace(old, trailing=window)
    edit = rewrite.unchanged_rewrite(proc)
    edit.becomes(old, new)
    rewrite.splice(edit, path, 1, (new,))
    yield edit


@annotation
def delete_sync(proc: ir.Proc, stmt: object) -> Iterator[rewrite.Rewrite]:
    """Remove a Fence, an Arrive, an Await or a barrier that nothing uses.

    t[i] = x[i]                                  t[i] = x[i]
    Fence(cuda_in_order, cuda_in_order)    ->    y[i] = t[3 - i]
    y[i] = t[3 - i]

    Loops, conditions and warps that held it alone go too.
    """
    path = path_of(proc, stmt)
    old = rewrite.stmt_at(proc, path)
    if not isinstance(old, SYNCHRONISATION):
        raise Unfit("the cursor is at no synchronisation", old)
    if isinstance(old, ir.BarrierAlloc):
        user = next((s for s in walk(proc.body) if _uses(s, old.name)), None)
        if user is not None:
            raise Unfit(f"{old.name.name} is used by `{header(user)}`", old, "delete that first")
    if isinstance(old, ir.Arrive) and (wait := _left_waiting(proc, old)) is not None:
        group = old.targets[0].name.name
        why = f"what kind of group {group} is its Arrives tell, and `{header(wait)}` waits for it"
        raise Unfit(why, old, "delete that first")
    edit = rewrite.unchanged_rewrite(proc)
    remove_with_enclosing(edit, path)
    yield edit


def remove_with_enclosing(edit: rewrite.Rewrite, path: rewrite.Path) -> None:
    """Take a statement out, with the loops, conditions and warps that hold it alone."""
    proc = edit.new
    while len(path) > 1 and _is_alone(proc, path):
        path = path[:-1]
    last = len(rewrite.block_at(proc, path)) == 1
    rewrite.splice(edit, path, 1, (ir.Pass(span=rewrite.stmt_at(proc, path).span),) if last else ())


def _is_alone(proc: ir.Proc, path: rewrite.Path) -> bool:
    """Tests whether the statement around holds this one alone, and can go; tasks and launches
    stay."""
    parent = rewrite.stmt_at(proc, path[:-1])
    if isinstance(parent, ir.DeviceFunction) or _is_tasks(parent):
        return False
    return sum(not isinstance(s, ir.Pass) for block in blocks(parent) for s in block) == 1


def _is_tasks(stmt: ir.Stmt) -> bool:
    return isinstance(stmt, ir.For) and isinstance(stmt.mode, ir.CudaTasks)


def _left_waiting(proc: ir.Proc, arrive: ir.Arrive) -> ir.Await | None:
    """An Await of a commit group without other Arrives."""
    name, found = arrive.targets[0].name, None
    for stmt in walk(proc.body):
        match stmt:
            case ir.BarrierAlloc() if stmt.name == name:
                if stmt.mechanism is not BarrierMechanism.COMMIT_GROUP:
                    return None
            case ir.Arrive() if stmt is not arrive and stmt.targets[0].name == name:
                return None
            case ir.Await() if stmt.barrier.name == name:
                found = stmt
            case _:
                pass
    return found


def _uses(stmt: ir.Stmt, name: Sym) -> bool:
    guarded = isinstance(stmt, ir.BarrierAlloc) and stmt.guard == name
    return guarded or any(access.name == name for access in accesses(stmt))


def _timeline(timeline: object) -> SyncTL:
    if not isinstance(timeline, SyncTL):
        raise Unfit(f"{timeline} is no sync timeline")
    return timeline


def refuse_flag(mechanism: BarrierMechanism) -> None:
    """Raises Unfit for flags: whom a task waits for is a part of the algorithm."""
    if mechanism is BarrierMechanism.FLAG:
        raise Unfit("flags, their Arrives and Awaits are written in the source, not scheduled")


class _Place:
    """A place between statements, the loops to put there, and what is known inside them."""

    def __init__(self, proc: ir.Proc, gap: object, over: Over) -> None:
        path, offset = gap_of(gap)
        (name, at) = path[-1]
        self.proc = proc
        self.at: rewrite.Path = (*path[:-1], (name, at + offset))
        self.span: Span = rewrite.stmt_at(proc, path).span
        self.loops = [(new_variable(i), int(count), unit) for i, count, unit in over]
        for iterator, count, unit in self.loops:
            if count < 1 or not isinstance(unit, CollUnit):
                raise Unfit(f"{iterator.name} is no loop of threads: give its count and unit")
        known = control_scope(proc, self.at)
        self.control = known | {iterator.name: iterator for iterator, _, _ in self.loops}
        self.barriers = barriers_at(proc, self.at)

    def filled(self, stmt: ir.Stmt) -> rewrite.Rewrite:
        """The procedure with the statement here."""
        for iterator, count, unit in reversed(self.loops):
            mode = ir.CudaThreads(unit)
            stmt = ir.For(iterator, ir.Int(0), ir.Int(count), mode, (stmt,), span=self.span)
        edit = rewrite.unchanged_rewrite(self.proc)
        rewrite.splice(edit, self.at, 0, (stmt,))
        return edit

    def mechanism(self, name: Sym) -> BarrierMechanism:
        """Returns the mechanism by which a barrier completes."""
        return next(b.mechanism for b in self.barriers.values() if b.name == name)

    def barrier(self, text: str) -> ir.Access:
        """The window of a barrier that a text such as `full[m, :]` means.  Raises Unfit."""
        try:
            node = ast.parse(text.strip(), mode="eval").body
        except SyntaxError:
            raise Unfit(f"`{text}` is no expression") from None
        indices: list[ast.expr] = []
        if isinstance(node, ast.Subscript):
            inner = node.slice
            indices = inner.elts if isinstance(inner, ast.Tuple) else [inner]
            node = node.value
        if not isinstance(node, ast.Name) or node.id not in self.barriers:
            raise Unfit(f"`{text}` names no barrier that is declared here")
        declared = self.barriers[node.id]
        refuse_flag(declared.mechanism)
        if len(indices) != len(declared.shape):
            many = f"{len(declared.shape)} dimensions, {len(indices)} are indexed"
            raise Unfit(f"{node.id} has {many}")
        pairs = zip(indices, declared.shape, strict=True)
        return ir.Access(declared.name, tuple(self._coord(i, n) for i, n in pairs))

    def _coord(self, node: ast.expr, extent: ir.CExpr) -> ir.Coord:
        if not isinstance(node, ast.Slice):
            return ir.Point(self._read_index(node))
        lo = ir.Int(0) if node.lower is None else self._read_index(node.lower)
        return ir.Interval(lo, extent if node.upper is None else self._read_index(node.upper))

    def _read_index(self, node: ast.expr) -> ir.CExpr:
        return read_control(ast.unparse(node), self.control)


def barriers_at(proc: ir.Proc, path: rewrite.Path) -> dict[str, ir.BarrierAlloc]:
    """The barriers declared before a place, by name; the last of one name."""
    found: dict[str, ir.BarrierAlloc] = {}
    for depth in range(1, len(path) + 1):
        block: ir.Block = rewrite.block_at(proc, path[:depth])
        earlier = block[: path[depth - 1][1]]
        found |= {s.name.name: s for s in earlier if isinstance(s, ir.BarrierAlloc)}
    return found


def without_synchronisation(procedure: P) -> P:
    """The procedure without any Fence, Arrive, Await and barrier: each removed by a step."""
    for kind in (ir.Await, ir.Fence, ir.Arrive, ir.CallInstr, ir.BarrierAlloc):
        while (path := _last_statement(ir_of(procedure), kind)) is not None:
            step = set_trailing_barrier_expr if kind is ir.CallInstr else delete_sync
            procedure = step(procedure, Cursor(procedure, path))
    return procedure


def _last_statement(proc: ir.Proc, kind: type[ir.Stmt]) -> rewrite.Path | None:
    """The last statement of a kind; of calls, that signals a barrier."""
    found = None
    for path, stmt in rewrite.paths(proc):
        if isinstance(stmt, kind) and not (
            isinstance(stmt, ir.CallInstr) and stmt.trailing is None
        ):
            found = path
    return found
