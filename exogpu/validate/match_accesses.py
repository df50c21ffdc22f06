"""Accesses of PTX against those of the program.

Those between two synchronisations are compared as a set: one may come before another if both read,
or their addresses differ.  Reads of the program need not be made; writes must be.
"""

from __future__ import annotations

from collections.abc import Mapping
from dataclasses import dataclass, replace
from typing import Final

from exogpu.amir import nodes as amir
from exogpu.ir.types import QualTL
from exogpu.solvers import bitvectors as bv
from exogpu.validate import mbarriers
from exogpu.validate.cursor import Cursor, Test
from exogpu.validate.events import Access, Expected, Kind
from exogpu.validate.execute import Executor
from exogpu.validate.memory import window
from exogpu.validate.program_terms import number_of
from exogpu.validate.ptx_reader import Instruction
from exogpu.validate.refusals import NotValidatedError, Refusal
from exogpu.validate.thread_state import State

_KINDS: Final[Mapping[QualTL, Kind]] = {
    QualTL.CUDA1: "ordinary",
    QualTL.CUDA2: "ordinary",
    QualTL.SM80: "cp.async",
}

AHEAD: Final = 64
"""Operations that are looked at for a read that PTX makes before a synchronisation."""


@dataclass(slots=True)
class AccessMatcher(Executor):
    """Matches accesses of PTX with those of the program."""

    events: int = 0

    def settled(self, state: State) -> State:
        """The state with its cursor before what comes next."""
        walker = self.kernel.walker
        while state.syncs and self.decide(state)(state.syncs[0].condition) is False:
            state = replace(state, syncs=state.syncs[1:])
        while not state.syncs:
            cursor = walker.settled(state.cursor, self.decide(state))
            state = replace(state, cursor=cursor)
            op = walker.operation(cursor) if cursor.frames else None
            match op:
                case amir.Release() if state.fenced:
                    state = replace(state, cursor=walker.move_behind(cursor))
                case amir.Release():
                    problem = "memory of both proxies ends without a proxy fence behind the barrier"
                    raise self.failure(problem, None, op.origin)
                case amir.Await() if op.barrier.name in walker.rings:
                    behind = self._behind_idle_wait(op, state)
                    if behind is None:
                        return state
                    state = behind
                case _:
                    return state
        return state

    def _behind_idle_wait(self, op: amir.Await, state: State) -> State | None:
        """The state behind an Await that waits for nothing; None if it does, or fences."""
        ring = self.kernel.walker.rings[op.barrier.name]
        asked = mbarriers.wait(op, ring, state.cursor.ghosts)
        if len(asked) > 1 or self.decide(state)(asked[0].condition) is not False:
            return None
        return replace(state, cursor=self.behind_wait(op, state.cursor))

    def behind_wait(self, op: amir.Await, cursor: Cursor) -> Cursor:
        """The cursor behind an Await of mbarriers, which counts."""
        ring = self.kernel.walker.rings[op.barrier.name]
        one = bv.constant(1, 32)
        counted = {
            name: bv.simplified(cursor.ghosts[name] + one) for name in (ring.awaited, ring.in_task)
        }
        behind = self.kernel.walker.move_behind(cursor)
        return replace(behind, ghosts={**cursor.ghosts, **counted})

    def failure(
        self, problem: str, one: Instruction | None, origin: amir.Origin | None, model: bool = False
    ) -> NotValidatedError:
        """The error of a difference."""
        text, line = ("", 0) if one is None else (one.text, one.line)
        source = ""
        if origin is not None:
            source = f"{origin.span.file}:{origin.span.line}: {origin.text}"
        shown = self.kernel.shown
        found = self.prover.model if model else {}
        values = {shown[name]: value for name, value in found.items() if name in shown}
        return NotValidatedError(Refusal(problem, text, line, source, values))

    def _match_access(self, one: Instruction, access: Access, state: State) -> State:
        """The state behind an access of PTX, which is one that the program makes here."""
        self.events += 1
        rest: Access | None = access
        while rest is not None:
            state, rest = self._match_first(one, rest, state)
        return state

    def _match_first(
        self, one: Instruction, access: Access, state: State
    ) -> tuple[State, Access | None]:
        """The state in which the first bytes of an access are matched, and what is left of it."""
        if access.space == "shared" and access.kind == "ordinary":
            state = replace(state, fenced=False)
        if state.syncs:
            state = self.settled(state)
        nearest: Expected | None = None
        at = 0
        while True:
            while at < len(state.pending):
                wanted = state.pending[at]
                if _have_one_kind(access, wanted.access) and self._is_coherent(access, wanted):
                    nearest = nearest or wanted
                    if self.follows(state, bv.equal(access.address, wanted.access.address)):
                        return self._take_pending(one, at, state), _rest(
                            access, wanted.access.bytes
                        )
                at += 1
            fetched = None if state.syncs else self._fetch(state)
            if fetched is None:
                break
            state = fetched
        if not access.write and (early := self._found_ahead(access, state)) is not None:
            return state, _rest(access, early)
        if nearest is not None:
            self.follows(state, bv.equal(access.address, nearest.access.address))
            difference = "has another address than the program's access"
            raise self.failure(difference, one, nearest.origin, model=True)
        what = "write" if access.write else "read"
        state = self.settled(state)
        op = self.kernel.walker.operation(state.cursor) if state.cursor.frames else None
        raise self.failure(
            f"a {what} of {access.bytes} bytes of {access.space} memory ({access.kind}) that the "
            "program does not make here",
            one,
            None if op is None else op.origin,
        )

    def _is_coherent(self, access: Access, wanted: Expected) -> bool:
        """Tests whether a load through the read-only path is of what the kernel does not write."""
        return not access.read_only or wanted.variable in self.kernel.unwritten

    def _take_pending(self, one: Instruction, at: int, state: State) -> State:
        """The state without the pending access, which PTX has made before those ahead of it."""
        wanted, before = state.pending[at], state.pending[:at]
        blocked = next((b for b in before if not self._commute(state, b, wanted)), None)
        if blocked is not None:
            raise self.failure(
                "an access comes before another of the same place that the program makes first",
                one,
                blocked.origin,
            )
        return replace(state, pending=(*before, *state.pending[at + 1 :]))

    def _commute(self, state: State, one: Expected, other: Expected) -> bool:
        """Tests whether two accesses of a thread may change places."""
        if not (one.access.write or other.access.write):
            return True
        spaces = {one.access.space, other.access.space}
        # Variables of shared memory may have bytes in common, one after the other.
        if one.variable != other.variable and spaces != {"shared"}:
            return True
        distance = one.access.address - other.access.address
        bits = bv.width(distance)
        apart = bv.conjunction(
            [
                bv.compare("ge", distance, bv.constant(other.access.bytes, bits), signed=False),
                bv.compare("ge", -distance, bv.constant(one.access.bytes, bits), signed=False),
            ]
        )
        return self.follows(state, apart)

    def _fetch_all(self, state: State) -> State:
        """The state with all accesses of the program before its next synchronisation pending, as
        far as it is decided what comes next."""
        while not state.syncs:
            after = self._fetch(state)
            if after is None:
                return state
            state = after
        return state

    def _fetch(self, state: State) -> State | None:
        """The state behind the next access of the program; None before anything else."""
        state = self.settled(state)
        while state.cursor.frames and isinstance(state.cursor.frames[-1], Test):
            found = self.kernel.walker.tested(state.cursor, self.decide(state))
            if found is None:
                return None
            state = self.settled(replace(state, cursor=found[0]).assuming(*found[1]))
        op = self.kernel.walker.operation(state.cursor) if state.cursor.frames else None
        if not isinstance(op, amir.Record) or op in self.kernel.walker.copies:
            return None
        executed = self.kernel.walker.is_executed(state.cursor, op, self.decide(state))
        if not executed:
            return None
        cursor = self.kernel.walker.move_behind(state.cursor)
        wanted = self._access_of(op, state.cursor)
        return replace(state, cursor=cursor, pending=(*state.pending, wanted))

    def _access_of(self, op: amir.Record, cursor: Cursor) -> Expected:
        """The access of a record."""
        kind = None if op.timeline is None else _KINDS.get(op.timeline)
        place = self.kernel.places.get(op.access.name)
        if kind is None or op.atomic or op.trailing is not None or place is None:
            raise self.failure("this access is not validated yet", None, op.origin)
        found = window(place, op.access, lambda expr: bv.simplified(number_of(expr, cursor.env)))
        access = Access(op.mutate, found.space, kind, found.address, found.bytes)
        return Expected(access, op.access.name, op.origin)

    def _found_ahead(self, access: Access, state: State) -> int | None:
        """The bytes of a read of the program, of memory that nothing writes, that comes after the
        next synchronisation; None where there is none."""
        for _ in range(AHEAD):
            state = self.settled(state)
            if not state.cursor.frames:
                return None
            if isinstance(state.cursor.frames[-1], Test):
                found = self.kernel.walker.tested(state.cursor, self.decide(state))
                if found is None:
                    return None
                state = replace(state, cursor=found[0]).assuming(*found[1])
                continue
            op = self.kernel.walker.operation(state.cursor)
            executed = op is not None and self._is_executed(op, state)
            if not executed:
                return None
            if isinstance(op, amir.Record) and op.access.name in self.kernel.unwritten:
                wanted = self._access_of(op, state.cursor).access
                if _have_one_kind(access, wanted) and self.follows(
                    state, bv.equal(access.address, wanted.address)
                ):
                    return wanted.bytes
            state = replace(state, cursor=self.kernel.walker.move_behind(state.cursor))
        return None

    def _is_executed(self, op: amir.Op, state: State) -> bool:
        if not isinstance(op, amir.Record | amir.Fence | amir.Arrive | amir.Await):
            return False
        return self.kernel.walker.is_executed(state.cursor, op, self.decide(state)) is True

    def _without_reads(self, state: State, one: Instruction) -> State:
        """The state where no access is pending: reads need not be made, writes must have been."""
        if state.syncs:
            missing = state.syncs[0]
            raise self.failure(f"{missing.sync} is missing", one, missing.origin)
        for wanted in state.pending:
            if wanted.access.write:
                raise self.failure("a write of the program is missing", one, wanted.origin)
        return replace(state, pending=()) if state.pending else state

    def _pass_test(self, state: State, one: Instruction) -> State:
        """The state behind a test of the program's, which PTX has decided."""
        top = state.cursor.frames[-1]
        assert isinstance(top, Test)
        found = self.kernel.walker.tested(state.cursor, self.decide(state))
        if found is None:
            raise self.failure(
                "whether the program's loop goes on is not decided where PTX goes on",
                one,
                top.loop.origin,
                model=True,
            )
        return replace(state, cursor=found[0]).assuming(*found[1])


def _have_one_kind(one: Access, other: Access) -> bool:
    return (
        one.write == other.write
        and one.space == other.space
        and one.kind == other.kind
        and one.bytes >= other.bytes
        and (one.kind == "ordinary" or one.bytes == other.bytes)
    )


def _rest(access: Access, matched: int) -> Access | None:
    if matched == access.bytes:
        return None
    step = bv.constant(matched, bv.width(access.address))
    address = bv.simplified(access.address + step)
    return replace(access, address=address, bytes=access.bytes - matched)
