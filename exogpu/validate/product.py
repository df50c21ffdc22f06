"""The product of PTX and program for one thread: each event of PTX is one that the program allows
there, at the same address, for every thread, CTA and size.

PTX drives.  Between loop heads its paths are executed on bit vectors, and meet again where two
stand at one place of the program.  Accesses between two synchronisations are compared as a set:
one may come before another if both read, or their addresses differ.
"""

from __future__ import annotations

from collections.abc import Iterator, Mapping
from dataclasses import dataclass, replace
from typing import Final

from exogpu.amir import nodes as amir
from exogpu.ir.types import QualTL
from exogpu.solvers import bitvectors as bv
from exogpu.validate import ptx_events
from exogpu.validate.cursor import Cursor, Test
from exogpu.validate.events import Access, Expected, ExpectedSync, Kind, Sync
from exogpu.validate.execute import Executor
from exogpu.validate.expected_sync import expected_of
from exogpu.validate.memory import window
from exogpu.validate.program_terms import number_of
from exogpu.validate.ptx_arithmetic import bits_of
from exogpu.validate.ptx_reader import Instruction
from exogpu.validate.refusals import NotValidatedError, Refusal, refusal_of
from exogpu.validate.thread_state import State, merged

_KINDS: Final[Mapping[QualTL, Kind]] = {
    QualTL.CUDA1: "ordinary",
    QualTL.CUDA2: "ordinary",
    QualTL.SM80: "cp.async",
}

AHEAD: Final = 64
"""Operations that are looked at for a read that PTX makes before a synchronisation."""


@dataclass(slots=True)
class Product(Executor):
    """The execution of one kernel beside its program."""

    events: int = 0

    def settled(self, state: State) -> State:
        """The state with its cursor before what comes next."""
        cursor = self.kernel.walker.settled(state.cursor, self.decide(state))
        return replace(state, cursor=cursor)

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

    # --- blocks -----------------------------------------------------------------------------

    def run_block(self, block: int, state: State) -> Iterator[tuple[int, State]]:
        """The states behind a block, each with the block that comes next."""
        states = [state]
        code = self.kernel.flow.code[block]
        for one in code:
            if one.opcode[0] in ("bra", "ret", "exit"):
                break
            states = [after for before in states for after in self._step(one, before)]
        following = self.kernel.flow.next[block]
        for after in states:
            if not following:
                self._end(after, code[-1])
            elif len(following) == 1:
                yield following[0], after
            else:
                guard = code[-1].guard
                assert guard is not None
                taken = self.truth(after, guard.register)
                if guard.negated:
                    taken = bv.negation(taken)
                for target, way in zip(following, self._ways(after, taken), strict=True):
                    if way is not None:
                        yield target, way

    def _ways(self, state: State, taken: bv.Formula) -> tuple[State | None, State | None]:
        """The states where a condition holds and where it does not; None where that cannot be."""
        found = self.prover.decide(state.known, taken)
        if found is None:
            return state.assuming(taken), state.assuming(bv.negation(taken))
        return (state, None) if found else (None, state)

    def _end(self, state: State, one: Instruction) -> None:
        if one.opcode[0] == "trap":
            raise refusal_of("a trap is not validated yet", one.text, one.line)
        state = self._without_reads(state, one)
        while state.cursor.frames:
            state = self.settled(state)
            if not state.cursor.frames:
                return
            if isinstance(state.cursor.frames[-1], Test):
                state = self._pass_test(state, one)
                continue
            op = self.kernel.walker.operation(state.cursor)
            if isinstance(op, amir.Record) and not op.mutate:
                state = replace(state, cursor=self.kernel.walker.move_behind(state.cursor))
                continue
            origin = None if op is None else op.origin
            raise self.failure("the kernel ends where the program goes on", one, origin)

    # --- instructions -----------------------------------------------------------------------

    def _step(self, one: Instruction, state: State) -> list[State]:
        if one.guard is None:
            return [self._perform(one, state)]
        condition = self.truth(state, one.guard.register)
        if one.guard.negated:
            condition = bv.negation(condition)
        if not ptx_events.is_event(one) and one.opcode[0] not in ("ld", "shfl"):
            return [self.compute_if(one, condition, state)]
        does, does_not = self._ways(state, condition)
        found = [] if does is None else [self._perform(one, does)]
        found += [] if does_not is None else [does_not]
        if len(found) == 2:
            names = set(found[0].registers) | set(found[1].registers)
            found = merged([self.settled(after) for after in found], names)
        return found

    def _perform(self, one: Instruction, state: State) -> State:
        if one.opcode[:2] == ("ld", "param"):
            given = self.kernel.parameters.get(one.operands[1].strip("[]"))
            if given is None or bv.width(given) != bits_of(one.opcode[-1]):
                raise refusal_of("a parameter that is not known", one.text, one.line)
            return self.with_registers(state, {one.operands[0]: given})
        if one.opcode[0] == "shfl":
            return self.shuffled(one, state)
        if not ptx_events.is_event(one):
            return self.with_registers(state, self.computed(one, state))

        def value(text: str, bits: int) -> bv.Term:
            return self.value(state, text, bits)

        accesses = ptx_events.accesses_of(one, value)
        if not accesses:
            sync = ptx_events.synchronisation_of(one, value)
            return self._match_sync(one, sync, state)
        for access in accesses:
            state = self._match_access(one, access, state)
        loaded = {name: bv.fresh("loaded", bits) for name, bits in ptx_events.loaded_registers(one)}
        return self.with_registers(state, loaded)

    # --- accesses ---------------------------------------------------------------------------

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
        nearest: Expected | None = None
        at = 0
        while True:
            while at < len(state.pending):
                wanted = state.pending[at]
                if _have_one_kind(access, wanted.access):
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
        if one.variable != other.variable or not (one.access.write or other.access.write):
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
        if not isinstance(op, amir.Record):
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

    # --- synchronisation --------------------------------------------------------------------

    def _match_sync(self, one: Instruction, sync: Sync, state: State) -> State:
        """The state behind a synchronisation of PTX, which is the program's next."""
        self.events += 1
        while not state.syncs:
            state = self._next_sync(one, sync, state)
        first, *rest = state.syncs
        if first.sync != sync and not (
            sync == Sync("barrier", (0, self.kernel.block)) and first.sync == Sync("barrier", (0,))
        ):
            raise self.failure(
                f"{sync} stands where the program asks for {first.sync}", one, first.origin
            )
        return replace(state, syncs=tuple(rest))

    def _next_sync(self, one: Instruction, sync: Sync, state: State) -> State:
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
        if isinstance(op, amir.Record):
            raise self.failure(f"{sync} stands where the program accesses memory", one, op.origin)
        assert isinstance(op, amir.Fence | amir.Arrive | amir.Await)
        mechanism = self.kernel.mechanisms.get
        asked = [
            ExpectedSync(each, op.origin) for each in expected_of(op, self.kernel.block, mechanism)
        ]
        cursor = self.kernel.walker.move_behind(state.cursor)
        return replace(state, cursor=cursor, syncs=tuple(asked))

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
