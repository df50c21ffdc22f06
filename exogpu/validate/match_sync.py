"""Synchronisation of PTX against that of the program, in its order."""

from __future__ import annotations

from collections.abc import Callable
from dataclasses import dataclass, replace
from math import prod

from exogpu.amir import nodes as amir
from exogpu.ir import nodes as ir
from exogpu.ir.types import QualTL
from exogpu.solvers import bitvectors as bv
from exogpu.validate import mbarriers
from exogpu.validate.cursor import Test
from exogpu.validate.events import ExpectedSync, Sync
from exogpu.validate.expected_sync import expected_of
from exogpu.validate.match_accesses import AccessMatcher
from exogpu.validate.memory import window
from exogpu.validate.program_terms import number_of
from exogpu.validate.ptx_reader import Instruction
from exogpu.validate.thread_state import State


@dataclass(slots=True)
class SyncMatcher(AccessMatcher):
    """Matches synchronisation of PTX with that of the program."""

    def _match_sync(self, one: Instruction, sync: Sync, state: State) -> State:
        """The state behind a synchronisation of PTX, which is the program's next."""
        self.events += 1
        is_fence = sync.word == "proxy fence"
        state = replace(state, fenced=is_fence or (state.fenced and sync.word != "barrier"))
        state = self._with_syncs(one, sync, state)
        if is_fence and (not state.syncs or state.syncs[0].sync.word != "proxy fence"):
            return state  # more than the program asks for
        first, *rest = state.syncs
        if self.decide(state)(first.condition) is not True:
            problem = f"whether the thread comes to {first.sync.word} is not decided at {sync.word}"
            raise self.failure(problem, one, first.origin, model=True)
        self._compare(one, sync, first, state)
        return replace(state, syncs=tuple(rest))

    def _compare(self, one: Instruction, sync: Sync, wanted: ExpectedSync, state: State) -> None:
        """Refuses a synchronisation that is not the wanted one, with the same addresses."""
        all_threads = Sync("barrier", (0, self.kernel.block))
        numbers = (0,) if sync == all_threads else sync.numbers
        asked = wanted.sync
        if sync.word != asked.word or numbers != asked.numbers:
            problem = f"{sync} stands where the program asks for {asked}"
            raise self.failure(problem, one, wanted.origin)
        if len(sync.terms) != len(asked.terms):
            raise self.failure(f"{sync.word} of another shape", one, wanted.origin)
        for given, term in zip(sync.terms, asked.terms, strict=True):
            same = bv.width(given) == bv.width(term)
            if not same or not self.follows(state, bv.equal(given, term)):
                problem = f"{sync.word} of another address, parity or coordinate"
                raise self.failure(problem, one, wanted.origin, model=True)

    def _with_syncs(self, one: Instruction, sync: Sync, state: State) -> State:
        """The state with the program's next synchronisation; for a proxy fence that the program
        does not ask for, as it is."""
        while True:
            state = self.settled(state)
            if state.syncs:
                return state
            if not state.started and self.kernel.walker.rings:
                state = self._start(one, state)
            elif sync.word == "proxy fence" and not self._is_wait_next(state):
                return state
            else:
                state = self._next_sync(one, sync, state)

    def _is_wait_next(self, state: State) -> bool:
        """Tests whether the program's next operation is one that may ask for a proxy fence."""
        while state.cursor.frames and isinstance(state.cursor.frames[-1], Test):
            found = self.kernel.walker.tested(state.cursor, self.decide(state))
            if found is None:
                return False
            state = self.settled(replace(state, cursor=found[0]).assuming(*found[1]))
        op = self.kernel.walker.operation(state.cursor) if state.cursor.frames else None
        return isinstance(op, amir.Await | amir.Fence) and not any(
            one.access.write for one in state.pending
        )

    def _start(self, one: Instruction, state: State) -> State:
        """The state before the initialisation of mbarriers, which is the first thread's, and before
        the barrier behind it."""
        first = self.decide(state)(bv.equal(self.kernel.walker.tid, bv.constant(0, 64)))
        if first is None:
            problem = "whether the thread initialises the mbarriers is not decided"
            raise self.failure(problem, one, None)
        made = mbarriers.initialisation([*self.kernel.walker.rings.values()]) if first else ()
        asked = (*made, Sync("barrier", (0,)))
        syncs = tuple(ExpectedSync(each, None) for each in asked)
        return replace(state, started=True, syncs=syncs)

    def _next_sync(self, one: Instruction, sync: Sync, state: State) -> State:
        """The state behind the program's next operation, whose synchronisation is to come."""
        if sync.word != "tensor copy":
            state = self._without_reads(self._fetch_all(state), one)
        state = self.settled(state)
        if not state.cursor.frames:
            raise self.failure(f"{sync} stands where the program has ended", one, None)
        if isinstance(state.cursor.frames[-1], Test):
            return self._pass_test(state, one)
        op = self.kernel.walker.operation(state.cursor)
        assert op is not None
        if not self._is_executed(op, state):
            raise self.failure(
                "whether the thread comes to this statement is not decided where PTX goes on",
                one,
                op.origin,
            )
        walker, ghosts = self.kernel.walker, state.cursor.ghosts
        if isinstance(op, amir.Record) and op in walker.copies:
            first = bv.equal(walker.lane, bv.constant(0, 64))  # one lane of the warp starts it
            asked = (ExpectedSync(self._copy(op, state), op.origin, first),)
            return replace(state, cursor=walker.behind_copy(state.cursor, op), syncs=asked)
        if isinstance(op, amir.Record):
            raise self.failure(f"{sync} stands where the program accesses memory", one, op.origin)
        assert isinstance(op, amir.Fence | amir.Arrive | amir.Await)
        cursor = walker.move_behind(state.cursor)
        wanted: tuple[mbarriers.Asked, ...]
        if isinstance(op, amir.Arrive) and op.home.name in walker.rings:
            ring = walker.rings[op.home.name]
            wanted = mbarriers.arrive(op, ring, ghosts, walker.lane)
            more = bv.simplified(ghosts[ring.arrived] + bv.constant(1, 32))
            counted = {ring.arrived: more, ring.bytes: bv.constant(0, 32)}
            cursor = replace(cursor, ghosts={**ghosts, **counted})
        elif isinstance(op, amir.Await) and op.barrier.name in walker.rings:
            wanted = mbarriers.wait(op, walker.rings[op.barrier.name], ghosts)
            cursor = self.behind_wait(op, state.cursor)
        else:
            found = expected_of(op, self.kernel.block, self.kernel.mechanisms.get)
            wanted = tuple(map(mbarriers.Asked, found))
        syncs = tuple(ExpectedSync(each.sync, op.origin, each.condition) for each in wanted)
        return replace(state, cursor=cursor, syncs=syncs)

    def _copy(self, op: amir.Record, state: State) -> Sync:
        """The copy by TMA of a record of its target: target, mbarrier, map and coordinates."""
        block = state.cursor.frames[-1].block  # type: ignore[union-attr]
        behind = block[block.index(op) + 1 :]
        sources = [
            each
            for each in behind
            if isinstance(each, amir.Record)
            and not each.mutate
            and each.timeline is QualTL.TMA_S
            and each.origin.span == op.origin.span
        ]
        target, trailing = self.kernel.places.get(op.access.name), op.trailing
        assert trailing is not None
        ring = self.kernel.walker.rings[trailing.home.name]
        if not sources or target is None:
            raise self.failure("this copy is not validated yet", None, op.origin)
        source = sources[0].access

        def value(expr: ir.CExpr) -> bv.Term:
            return bv.simplified(number_of(expr, state.cursor.env))

        found = window(target, op.access, value)
        lows = [one.at if isinstance(one, ir.Point) else one.lo for one in source.coords]
        box = tuple(box_extent(one, value) for one in source.coords)
        map_ = self.kernel.maps.get((source.name, box))
        if map_ is None or prod(box) * target.element != found.bytes:
            raise self.failure("there is no tensor map of this box", None, op.origin)
        at = [bv.simplified(bv.part(value(one), 0, 32)) for one in reversed(lows)]
        mbarrier = ring.address(state.cursor.ghosts[ring.arrived])
        return Sync("tensor copy", (len(at),), (found.address, map_, mbarrier, *at))


def box_extent(coord: ir.Coord, value: Callable[[ir.CExpr], bv.Term]) -> int:
    """The elements of a window along a dimension; 0 where they depend on sizes."""
    if isinstance(coord, ir.Point):
        return 1
    return bv.signed_value(bv.simplified(value(coord.hi) - value(coord.lo))) or 0
