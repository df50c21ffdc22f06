"""The product of PTX and program for one thread: each event of PTX is one that the program allows
there, at the same address, for every thread, CTA and size.

PTX drives.  Between loop heads its paths are executed on bit vectors, and meet again where two
stand at one place of the program.  Accesses between two synchronisations are compared as a set:
one may come before another if both read, or their addresses differ.
"""

from __future__ import annotations

from collections.abc import Iterator
from dataclasses import dataclass, replace

from exogpu.amir import nodes as amir
from exogpu.solvers import bitvectors as bv
from exogpu.validate import ptx_events
from exogpu.validate.cursor import Test
from exogpu.validate.match_sync import SyncMatcher
from exogpu.validate.ptx_arithmetic import bits_of
from exogpu.validate.ptx_reader import Instruction
from exogpu.validate.refusals import refusal_of
from exogpu.validate.thread_state import State, merged


@dataclass(slots=True)
class Product(SyncMatcher):
    """The execution of one kernel beside its program."""

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
        state = self._without_reads(self.settled(state), one)
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

    def match_instruction(self, one: Instruction, state: State) -> State:
        """The state behind a synchronisation, whatever registers it writes."""

        def value(text: str, bits: int) -> bv.Term:
            return self.value(state, text, bits)

        return self._match_sync(one, ptx_events.synchronisation_of(one, value), state)

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
