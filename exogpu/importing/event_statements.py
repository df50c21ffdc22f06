"""Makes statements of the language from an event, with the user's place."""

from __future__ import annotations

from collections.abc import Callable, Mapping, Sequence
from dataclasses import dataclass, field
from typing import Final, assert_never

from exogpu.diagnostics.errors import Span
from exogpu.hw.memories import CudaGmemLinear
from exogpu.hw.timelines import SYNC_TIMELINES
from exogpu.hw.units import cuda_thread, cuda_warp, cuda_warpgroup
from exogpu.importing import cell_instructions, role_events
from exogpu.importing.cell_instructions import Parts
from exogpu.importing.data_conditions import Flags
from exogpu.importing.mbarrier_rings import Usage
from exogpu.importing.memory import Memory, Window
from exogpu.importing.persistent_rings import ARRIVALS, WAITS
from exogpu.importing.polynomial_values import Condition, Value, Variable, compare
from exogpu.importing.refusals import unsupported
from exogpu.importing.trip_counts import Size
from exogpu.importing.value_rendering import condition, expression
from exogpu.ir import nodes as ir
from exogpu.ir.types import DataType, Sym, SyncTL
from exogpu.ir.walk import control_variables

IN_ORDER: Final = SYNC_TIMELINES["cuda_in_order"]
BOTH_PROXIES: Final = SYNC_TIMELINES["cuda_generic_and_async"]
TEMPORAL: Final = SYNC_TIMELINES["cuda_temporal"]
NOTHING: Final = SYNC_TIMELINES["empty_sync_tl"]
SOURCE: Final = SYNC_TIMELINES["tma_to_gmem_source"]
CP_ASYNC: Final = SYNC_TIMELINES["Sm80_cp_async"]
WGMMA: Final = SYNC_TIMELINES["wgmma_async"]


@dataclass(frozen=True, slots=True)
class Plan:
    """All that a procedure is built from."""

    name: str
    span: Span
    items: tuple[role_events.Item, ...]
    roles: tuple[role_events.Role, ...]
    memory: Memory
    parts: Mapping[str, Parts]
    usage: Usage
    accumulators: Mapping[str, tuple[str, Span]]
    sizes: tuple[Size, ...]
    axes: tuple[int, ...]
    """The axes of the grid."""
    by_warps: bool = False
    """True if warps execute proxy fences together, which is faster on the abstract machine.

    This is more order than there is.  What is refuted so is wrong; what is proved so need not be
    right.
    """


@dataclass(slots=True)
class Statements:
    """Makes statements of events, with the names that were given so far."""

    plan: Plan
    names: dict[Variable, Sym] = field(default_factory=dict)
    symbols: dict[str, Sym] = field(default_factory=dict)
    sinks: list[ir.DataParam] = field(default_factory=list)
    flags: Flags = field(default_factory=Flags)
    around: list[tuple[Sym, ir.CExpr]] = field(default_factory=list)
    """Tasks and loops around, with their extents."""

    def symbol(self, name: str) -> Sym:
        """A variable by its name."""
        return self.symbols.setdefault(name, Sym(name))

    def _group(self, role: str) -> str:
        return role if len(self.plan.roles) > 1 else ""

    def _threads(self, role: str) -> int:
        return next(one.threads for one in self.plan.roles if one.name == role)

    def _warpgroups(self, role: str) -> int:
        return self._threads(role) // 128

    # --- control ----------------------------------------------------------------------------

    def _warps(self, role: str) -> int:
        return next(one.warps for one in self.plan.roles if one.name == role)

    # --- events -----------------------------------------------------------------------------

    def _event(
        self, step: role_events.Step, facts: tuple[Condition, ...], *, commits: bool = True
    ) -> ir.Block:
        """Returns an event's statements; the `_commit` of a group is among them, or it is not."""
        span, event = step.span, step.event
        match event:
            case role_events.Meet() | role_events.MeetAll():
                return (ir.Fence(IN_ORDER, IN_ORDER, span=span),)
            case role_events.ProxyFence():
                fence = ir.Fence(IN_ORDER, BOTH_PROXIES, span=span)
                if self.plan.by_warps:
                    return self._each_warp(step, (fence,))
                return self._thread_loop(step, lambda t: (fence,))
            case role_events.Load():
                return self._load(step, event, facts)
            case role_events.Store():
                return self._store(step, event, facts)
            case role_events.StoreByOne():
                return self._store_by_one(step, event, facts)
            case role_events.TmaLoad():
                return self._tma_load(step, event, facts)
            case role_events.Expect():
                arrive = ir.Arrive(
                    TEMPORAL, (self._arrived(step, event.barrier, facts),), span=span
                )
                return self._elected(step, (arrive,))
            case role_events.Signal():
                return (
                    ir.Arrive(IN_ORDER, (self._arrived(step, event.barrier, facts),), span=span),
                )
            case role_events.Wait():
                return self._wait(step, event, facts)
            case role_events.TmaStore():
                return self._tma_store(step, event, facts, commits=commits)
            case role_events.TmaStoreWait():
                group = ir.Access(self.symbol(f"st_{step.role}"), (), span)
                timeline = NOTHING if event.ghost else IN_ORDER
                wait = ir.Await(group, timeline, event.pending, span=span)
                return self._elected(step, (wait,))
            case role_events.AsyncCopy():
                return self._thread_loop(step, lambda t: self._cp_async(step, event, facts, t))
            case role_events.AsyncCommit():
                return self._commit(step) if commits else ()
            case role_events.AsyncWait():
                return self._thread_loop(
                    step, lambda t: (self._await("cp", step, t, event.pending),)
                )
            case role_events.Dot():
                return self._dot(step, event, facts, commits=commits)
            case role_events.DotWait():
                after = NOTHING if event.ghost else IN_ORDER
                return self._thread_loop(
                    step,
                    lambda w: (self._await("wg", step, w, event.pending, after),),
                    warpgroups=True,
                )
            case role_events.Registers():
                return self._registers(step, event)
            case role_events.Tick():
                return self._tick(step, event)
            case _:
                assert_never(event)

    def _commit(self, step: role_events.Step) -> ir.Block:
        """Returns the commit of an event's group by each that commits one."""
        span = step.span
        match step.event:
            case role_events.TmaStore():
                group = ir.Access(self.symbol(f"st_{step.role}"), (), span)
                return self._elected(step, (ir.Arrive(SOURCE, (group,), span=span),))
            case role_events.Dot():
                return self._thread_loop(
                    step,
                    lambda w: (ir.Arrive(WGMMA, (self._own("wg", step, w),), span=span),),
                    warpgroups=True,
                )
            case _:
                return self._thread_loop(
                    step, lambda t: (ir.Arrive(CP_ASYNC, (self._own("cp", step, t),), span=span),)
                )

    def _thread_loop(
        self, step: role_events.Step, body: Callable[[Sym], ir.Block], *, warpgroups: bool = False
    ) -> ir.Block:
        """Returns a loop of the role's threads, or its warpgroups, around a body."""
        count = self._warpgroups(step.role) if warpgroups else self._threads(step.role)
        unit = cuda_warpgroup if warpgroups else cuda_thread
        name = Sym("w" if warpgroups else "t")
        mode = ir.CudaThreads(unit)
        return (ir.For(name, ir.Int(0), ir.Int(count), mode, body(name), span=step.span),)

    def _each_warp(self, step: role_events.Step, body: ir.Block) -> ir.Block:
        warps, mode = ir.Int(self._warps(step.role)), ir.CudaThreads(cuda_warp)
        return (ir.For(Sym("w"), ir.Int(0), warps, mode, body, span=step.span),)

    def _elected(self, step: role_events.Step, body: ir.Block) -> ir.Block:
        """Returns the body, executed by one warp of the role."""
        if self._warps(step.role) == 1:
            return body
        return (ir.Warps(0, 1, self._group(step.role), body, span=step.span),)

    def _own(self, kind: str, step: role_events.Step, at: Sym) -> ir.Access:
        point = ir.Point(ir.CVar(at))
        return ir.Access(self.symbol(f"{kind}_{step.role}"), (point,), step.span)

    def _await(
        self, kind: str, step: role_events.Step, at: Sym, pending: int, after: SyncTL = IN_ORDER
    ) -> ir.Stmt:
        return ir.Await(self._own(kind, step, at), after, pending, span=step.span)

    # --- windows ----------------------------------------------------------------------------

    def _window(
        self,
        window: Window,
        facts: tuple[Condition, ...],
        span: Span,
        parts: tuple[ir.Coord, ...] | None = None,
    ) -> tuple[ir.Access, tuple[int, ...]]:
        """An access of cells, and the extents of its intervals."""
        threads = self.plan.parts.get(window.array, Parts()).threads
        whole = (ir.Interval(ir.Int(0), ir.Int(threads)),)
        within = whole if parts is None else parts
        first = self._index(window.first, facts, span)
        extents: tuple[int, ...] = (threads,) if parts is None else (1,)
        if window.count == 1:
            coords: tuple[ir.Coord, ...] = (ir.Point(first), *within)
        else:
            end = self._index(window.first + window.count, facts, span)
            coords = (ir.Interval(first, end), *within)
            extents = (window.count, *extents)
        return ir.Access(self.symbol(window.array), coords, span), extents

    def _index(self, value: Value, facts: tuple[Condition, ...], span: Span) -> ir.CExpr:
        names = dict(self.names)
        for variable in value.variables():
            if variable.name.startswith((ARRIVALS, WAITS)):
                array = variable.name.removeprefix(ARRIVALS).removeprefix(WAITS)
                label = f"slot_{self.plan.usage.barriers[array].label}"
                names[variable] = self.symbols.setdefault(variable.name, Sym(label))
        return expression(value, names, facts, span, "the slot of a buffer")

    def _slotted(
        self, step: role_events.Step, windows: Sequence[Window], body: ir.Block
    ) -> ir.Block:
        """The statements in the loops that stand for counted slots."""
        counts = {one.name for w in windows for one in w.first.variables()}
        for name in sorted(counts):
            if not name.startswith((ARRIVALS, WAITS)):
                continue
            array = name.removeprefix(ARRIVALS).removeprefix(WAITS)
            use = self.plan.usage.barriers[array]
            barrier = use.label if name.startswith(ARRIVALS) else f"{use.label}_waits"
            slot = ir.Slot(self.symbol(barrier))
            iterator = self.symbols.pop(name)
            depth = ir.Int(use.depth)
            body = (ir.For(iterator, ir.Int(0), depth, slot, body, span=step.span),)
        return body

    def _load(
        self, step: role_events.Step, load: role_events.Load, facts: tuple[Condition, ...]
    ) -> ir.Block:
        parts = self.plan.parts.get(load.window.array, Parts())
        if not parts.exact(load.parts):
            return self._slotted(step, (load.window,), self._load_all(step, load, facts))
        registers = self.symbol(f"regs_{step.role}")

        def body(t: Sym) -> ir.Block:
            first, cell = self._index(load.window.first, facts, step.span), Sym("q")
            index = first if load.window.count == 1 else ir.Add(first, ir.CVar(cell))
            coords = (ir.Point(index), ir.Point(ir.CVar(t)))
            source = ir.Access(self.symbol(load.window.array), coords, step.span)
            target = ir.Access(registers, (ir.Point(ir.CVar(t)),), step.span)
            block: ir.Block = (ir.Assign(target, ir.Read(source, step.span), span=step.span),)
            if load.window.count > 1:
                block = self._counted_loop(cell, load.window.count, block, step.span)
            return block

        return self._slotted(step, (load.window,), self._thread_loop(step, body))

    def _load_all(
        self, step: role_events.Step, load: role_events.Load, facts: tuple[Condition, ...]
    ) -> ir.Block:
        """Each warp reads all of a window, since it is not known who reads what."""
        source, extents = self._window(load.window, facts, step.span)
        warp = Sym("w")
        tile = (ir.Interval(ir.Int(0), ir.Int(n)) for n in cell_instructions.FRAGMENT_EXTENTS)
        coords: tuple[ir.Coord, ...] = (ir.Point(ir.CVar(warp)), *tile)
        target = ir.Access(self.symbol(f"loaded_{step.role}"), coords, step.span)
        call = ir.CallInstr(cell_instructions.load_all(extents), (target, source), span=step.span)
        mode, warps = ir.CudaThreads(cuda_warp), ir.Int(self._warps(step.role))
        return (ir.For(warp, ir.Int(0), warps, mode, (call,), span=step.span),)

    def _counted_loop(self, name: Sym, count: int, body: ir.Block, span: Span) -> ir.Block:
        return (ir.For(name, ir.Int(0), ir.Int(count), ir.Seq(), body, span=span),)

    def _store(
        self, step: role_events.Step, store: role_events.Store, facts: tuple[Condition, ...]
    ) -> ir.Block:
        parts = self.plan.parts.get(store.window.array, Parts())
        if not parts.exact(store.parts):
            access, extents = self._window(store.window, facts, step.span)
            call = ir.CallInstr(
                cell_instructions.store_all(extents, self._warps(step.role)),
                (access,),
                span=step.span,
            )
            return self._slotted(step, (store.window,), (call,))

        def body(t: Sym) -> ir.Block:
            first, cell = self._index(store.window.first, facts, step.span), Sym("q")
            index = first if store.window.count == 1 else ir.Add(first, ir.CVar(cell))
            coords = (ir.Point(index), ir.Point(ir.CVar(t)))
            target = ir.Access(self.symbol(store.window.array), coords, step.span)
            block: ir.Block = (ir.Assign(target, ir.Const(0.0), span=step.span),)
            if store.window.count > 1:
                block = self._counted_loop(cell, store.window.count, block, step.span)
            return block

        return self._slotted(step, (store.window,), self._thread_loop(step, body))

    def _store_by_one(
        self, step: role_events.Step, store: role_events.StoreByOne, facts: tuple[Condition, ...]
    ) -> ir.Block:
        """One thread writes every part of the cells."""
        span, part = step.span, Sym("part")
        threads = self.plan.parts.get(store.window.array, Parts()).threads
        block: ir.Block = ()
        for cell in range(store.window.count):
            index = self._index(store.window.first + cell, facts, span)
            coords = (ir.Point(index), ir.Point(ir.CVar(part)))
            target = ir.Access(self.symbol(store.window.array), coords, span)
            block = (*block, ir.Assign(target, ir.Const(0.0), span=span))
        return self._one_thread(step, self._counted_loop(part, threads, block, span))

    def _one_thread(self, step: role_events.Step, body: ir.Block) -> ir.Block:
        mode = ir.CudaThreads(cuda_thread)
        one = ir.For(Sym("t"), ir.Int(0), ir.Int(1), mode, body, span=step.span)
        return self._elected(step, (one,))

    def _cp_async(
        self,
        step: role_events.Step,
        copy: role_events.AsyncCopy,
        facts: tuple[Condition, ...],
        t: Sym,
    ) -> ir.Block:
        own = (ir.Interval(ir.CVar(t), ir.Add(ir.CVar(t), ir.Int(1))),)
        access, extents = self._window(copy.window, facts, step.span, own)
        call = ir.CallInstr(cell_instructions.cp_async(extents), (access,), span=step.span)
        return self._slotted(step, (copy.window,), (call,))

    def _tma_load(
        self, step: role_events.Step, load: role_events.TmaLoad, facts: tuple[Condition, ...]
    ) -> ir.Block:
        access, extents = self._window(load.window, facts, step.span)
        trailing = self._arrived(step, load.barrier, facts)
        call = ir.CallInstr(
            cell_instructions.tma_load(extents), (access,), trailing, span=step.span
        )
        return self._elected(step, self._slotted(step, (load.window,), (call,)))

    def _tma_store(
        self,
        step: role_events.Step,
        store: role_events.TmaStore,
        facts: tuple[Condition, ...],
        *,
        commits: bool,
    ) -> ir.Block:
        source, extents = self._window(store.window, facts, step.span)
        sink = Sym(f"tile{len(self.sinks)}_{store.tensor.strip('%').replace('.', '_')}")
        for _, extent in self.around:
            if control_variables(extent) & {name for name, _ in self.around}:
                raise unsupported(
                    "a TMA store in a loop whose trip count differs from program to program",
                    "exogpu stores in loops of one trip count for all programs",
                    step.span,
                )
        shape = (*(extent for _, extent in self.around), ir.Int(1))
        param = ir.DataParam(sink, DataType.F32, shape, CudaGmemLinear, span=step.span)
        self.sinks.append(param)
        points: tuple[ir.Coord, ...] = tuple(ir.Point(ir.CVar(name)) for name, _ in self.around)
        whole = ir.Interval(ir.Int(0), ir.Int(1))
        target = ir.Access(sink, (*points, whole), step.span)
        call = ir.CallInstr(cell_instructions.tma_store(extents), (target, source), span=step.span)
        group = ir.Access(self.symbol(f"st_{step.role}"), (), step.span)
        body = self._slotted(step, (store.window,), (call,))
        if commits:
            body = (*body, ir.Arrive(SOURCE, (group,), span=step.span))
        return self._elected(step, body)

    def _dot(
        self,
        step: role_events.Step,
        dot: role_events.Dot,
        facts: tuple[Condition, ...],
        *,
        commits: bool,
    ) -> ir.Block:
        span = step.span

        def body(w: Sym) -> ir.Block:
            sources = [self._window(one, facts, span) for one in dot.operands]
            instr = cell_instructions.wgmma(tuple(extents for _, extents in sources))
            arguments = (self._accumulator(dot.accumulator, w, span), *(one for one, _ in sources))
            call = ir.CallInstr(instr, arguments, span=span)
            first, second = SYNC_TIMELINES["wgmma_fence_1"], SYNC_TIMELINES["wgmma_fence_2"]
            commit = ir.Arrive(WGMMA, (self._own("wg", step, w),), span=span)
            return (
                ir.Fence(first, second, span=span),
                *self._slotted(step, dot.operands, (call,)),
                *((commit,) if commits else ()),
            )

        return self._thread_loop(step, body, warpgroups=True)

    def _accumulator(self, name: str, w: Sym, span: Span) -> ir.Access:
        tile = (
            ir.Interval(ir.Int(0), ir.Int(n))
            for n in (cell_instructions.ROWS, cell_instructions.COLUMNS)
        )
        return ir.Access(self.symbol(name), (ir.Point(ir.CVar(w)), *tile), span)

    def _registers(self, step: role_events.Step, event: role_events.Registers) -> ir.Block:
        span = step.span

        def body(w: Sym) -> ir.Block:
            if event.uses:
                to = self._accumulator(f"read_{step.role}", w, span)
                source = self._accumulator(event.uses, w, span)
                return (ir.CallInstr(cell_instructions.read_registers(), (to, source), span=span),)
            to = self._accumulator(event.writes, w, span)
            return (ir.CallInstr(cell_instructions.write_registers(), (to,), span=span),)

        return self._thread_loop(step, body, warpgroups=True)

    # --- mbarriers --------------------------------------------------------------------------

    def _arrived(
        self, step: role_events.Step, slot: role_events.Slot, facts: tuple[Condition, ...]
    ) -> ir.Access:
        use = self.plan.usage.barriers[slot.array]
        return self._slot(step, slot, facts, use.arriving(step.role))

    def _slot(
        self,
        step: role_events.Step,
        slot: role_events.Slot,
        facts: tuple[Condition, ...],
        role: int | range | None,
    ) -> ir.Access:
        use = self.plan.usage.barriers[slot.array]
        coords: list[ir.Coord] = []
        if not use.runs:
            index = expression(slot.index, self.names, facts, step.span, "the slot of an mbarrier")
            coords.append(ir.Point(index))
        match role:
            case int():
                coords.append(ir.Point(ir.Int(role)))
            case range():
                coords.append(ir.Interval(ir.Int(role.start), ir.Int(role.stop)))
            case None:
                pass
        return ir.Access(self.symbol(use.label), tuple(coords), step.span)

    def _wait(
        self, step: role_events.Step, wait: role_events.Wait, facts: tuple[Condition, ...]
    ) -> ir.Block:
        use = self.plan.usage.barriers[wait.barrier.array]
        barrier = self._slot(step, wait.barrier, facts, use.waiting(step.role))
        timeline = IN_ORDER if use.signalled else BOTH_PROXIES
        timeline = NOTHING if wait.ghost else timeline
        skip = use.depth if use.runs else 1
        assert wait.lag is not None

        def waits(lag: int) -> ir.Stmt:
            return ir.Await(barrier, timeline, -1 - skip * lag, span=step.span)

        if wait.lag.constant is not None:
            return (waits(wait.lag.constant),)
        same = condition(compare("==", wait.lag), self.names, facts, step.span)
        return (ir.If(same, (waits(0),), (waits(1),), span=step.span),)

    def _tick(self, step: role_events.Step, tick: role_events.Tick) -> ir.Block:
        """A count that no other thread hears of: one thread arrives, and awaits itself."""
        use = self.plan.usage.barriers[tick.array]
        barrier = ir.Access(self.symbol(f"{use.label}_waits"), (), step.span)
        count = (
            ir.Arrive(NOTHING, (barrier,), span=step.span),
            ir.Await(barrier, NOTHING, -1, span=step.span),
        )
        return self._one_thread(step, count)
