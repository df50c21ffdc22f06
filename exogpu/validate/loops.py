"""Loops of PTX, for any number of turns, and the exploration of the paths between their heads.

A loop is entered once, with its registers unknown.  What is known of them is an invariant: those
that a turn changes by a constant follow from a count of turns, and so does the counter of a loop
of the program; of bounds and remainders those are known that hold at first and after each turn.
A turn of PTX may be several of the program.
"""

from __future__ import annotations

from collections.abc import Iterator, Sequence
from dataclasses import dataclass, field, replace
from typing import Final

from exogpu.amir import nodes as amir
from exogpu.ir.types import Sym
from exogpu.solvers import bitvectors as bv
from exogpu.validate.control_flow import Loop
from exogpu.validate.cursor import Test
from exogpu.validate.loop_invariants import Entered, claims_of, wide_as
from exogpu.validate.mbarriers import Ring
from exogpu.validate.product import Product
from exogpu.validate.ptx_events import is_event
from exogpu.validate.refusals import NotValidatedError, refusal_of
from exogpu.validate.thread_state import State, merged
from exogpu.validate.turn_steps import Steps, steps_of

ENOUGH: Final = 2
"""Events after which an attempt has not failed at once."""

TURNS: Final = (1, 2, 4, 8, 3, 5, 6, 7, 16)
"""Numbers of turns of the program that one of PTX may be."""


@dataclass(slots=True)
class Exploration:
    """The execution of all paths of a kernel."""

    product: Product
    paths: int = 0
    _entered: list[amir.Loop] = field(default_factory=list)
    """The loops of the program that loops of PTX around here are."""

    def run(self, state: State) -> None:
        """Executes the kernel.  Raises NotValidatedError where it is not the program."""
        flow = self.product.kernel.flow
        leaving = self._explore(frozenset(flow.order), [(0, state)], None)
        if leaving[0]:
            raise refusal_of("a way out of the kernel")

    def _explore(
        self, region: frozenset[int], start: Sequence[tuple[int, State]], head: int | None
    ) -> tuple[list[tuple[int, State]], list[State]]:
        """The states that leave the region, and those that come back to its head."""
        flow = self.product.kernel.flow
        waiting: dict[int, list[State]] = {}
        for block, state in start:
            waiting.setdefault(block, []).append(state)
        exits: list[tuple[int, State]] = []
        back: list[State] = []
        begins = head
        while waiting:
            block = min(waiting, key=lambda one: flow.order[one])
            states = waiting.pop(block)
            if len(states) > 1:
                states = merged([self.product.settled(one) for one in states], flow.live[block])
            for state in states:
                if block in flow.loops and block != begins:
                    spins = flow.loops[block].blocks == {block} and self._is_spin(block)
                    reached = [self._spin(flow.loops[block], state)] if spins else []
                    reached = reached or self._loop(flow.loops[block], state)
                else:
                    reached = list(self.product.run_block(block, state))
                for target, after in reached:
                    if target == head:
                        back.append(after)
                    elif target in region:
                        waiting.setdefault(target, []).append(after)
                    else:
                        exits.append((target, after))
                self.paths += not reached
            begins = None
        return exits, back

    # --- a wait -----------------------------------------------------------------------------

    def _is_spin(self, block: int) -> bool:
        """Tests whether a block that branches to itself tries a wait of an mbarrier."""
        code = self.product.kernel.flow.code[block]
        return any(one.opcode[:2] == ("mbarrier", "try_wait") for one in code)

    def _spin(self, loop: Loop, state: State) -> tuple[int, State]:
        """The state behind a loop that tries until it has waited, which is one event."""
        flow = self.product.kernel.flow
        *code, last = flow.code[loop.head]
        state = replace(state, registers=self._forgotten(loop, state))
        waited: bv.Formula | None = None
        for one in code:
            if one.opcode[:2] == ("mbarrier", "try_wait") and waited is None:
                waited = bv.fresh_truth("waited")
                state = self.product.match_instruction(one, state)
                state = self.product.with_registers(state, {one.operands[0]: waited})
            elif is_event(one) or one.guard is not None:
                raise refusal_of("a wait that does more", one.text, one.line)
            else:
                state = self.product.with_registers(state, self.product.computed(one, state))
        if last.guard is None or waited is None:
            raise refusal_of("a wait without an end", last.text, last.line)
        again = self.product.truth(state, last.guard.register)
        done = again if last.guard.negated else bv.negation(again)
        if not self.product.follows(state.assuming(done), waited):
            raise refusal_of("a wait that may end too soon", last.text, last.line)
        (behind,) = (block for block in flow.next[loop.head] if block != loop.head)
        return behind, state.assuming(done)

    def _forgotten(self, loop: Loop, state: State) -> dict[str, bv.Term]:
        """The registers, those unknown that a turn writes and a turn needs."""
        registers = dict(state.registers)
        for name in loop.written & registers.keys():
            old = registers.pop(name)
            if name in self.product.kernel.flow.live[loop.head]:
                is_truth = bv.is_formula(old)
                made = bv.fresh_truth("truth") if is_truth else bv.fresh("any", bv.width(old))
                registers[name] = made
        return registers

    # --- one loop ---------------------------------------------------------------------------

    def _loop(self, loop: Loop, state: State) -> list[tuple[int, State]]:
        """The states behind a loop.

        Raises NotValidatedError, with the reason of the attempt that came furthest.
        """
        failed: NotValidatedError | None = None
        furthest = -1
        for entered in self._attempts(loop, state):
            before = self.product.events
            try:
                return self._run_turns(loop, entered)
            except NotValidatedError as error:
                events = self.product.events - before
                if events > furthest:
                    failed, furthest = error, events
                if entered.turns and events >= ENOUGH and self._counts(entered):
                    break
        first = self.product.kernel.flow.code[loop.head][0]
        raise failed or refusal_of(
            "a loop of PTX without one of the program", first.text, first.line
        )

    def _attempts(self, loop: Loop, state: State) -> Iterator[Entered]:
        """The loops of the program that a loop of PTX may be, with the turns that it may be."""
        for aligned in self._alignments(state):
            if any(one.access.write for one in aligned.pending) or aligned.syncs:
                continue
            aligned = replace(aligned, pending=())
            steps = steps_of(self.product, loop, aligned)
            if not aligned.cursor.loops:
                continue
            program_loop, counter = aligned.cursor.loops[-1]
            if program_loop in self._entered:
                continue
            if program_loop in self.product.kernel.walker.nests:
                yield self._enter(loop, aligned, steps, program_loop, counter, 0)
            else:
                for turns in self._likely(aligned, steps, counter):
                    yield self._enter(loop, aligned, steps, program_loop, counter, turns)

    def _alignments(self, state: State) -> Iterator[State]:
        """The places of the program at which a loop of PTX may begin: before tests that are
        decided, and behind them."""
        state = self.product.settled(state)
        while True:
            yield state
            if not state.cursor.frames or not isinstance(state.cursor.frames[-1], Test):
                return
            found = self.product.kernel.walker.tested(state.cursor, self.product.decide(state))
            if found is None:
                return
            state = self.product.settled(replace(state, cursor=found[0]).assuming(*found[1]))

    def _counts(self, entered: Entered) -> bool:
        """Tests whether a register counts the turns as the program's loop does: then it is that
        loop, and no other need be tried."""
        value = bv.part(entered.state.cursor.env[entered.counter], 0, 32)
        return any(
            step == entered.turns
            and bv.width(entered.state.registers[name]) == 32
            and self.product.follows(entered.state, bv.equal(entered.state.registers[name], value))
            for name, step in entered.steps.constant.items()
        )

    def _likely(self, state: State, steps: Steps, counter: Sym) -> list[int]:
        """The turns: those by which a register counts that has the value of the program's counter;
        where there is none, those of any register, and others."""
        value = bv.part(state.cursor.env[counter], 0, 32)
        equal = [
            step
            for name, step in steps.constant.items()
            if 0 < step <= TURNS[-1]
            and bv.width(state.registers[name]) == 32
            and self.product.follows(state, bv.equal(state.registers[name], value))
        ]
        if equal:
            return list(dict.fromkeys(equal))
        others = [abs(step) for step in steps.constant.values() if 0 < abs(step) <= TURNS[-1]]
        return list(dict.fromkeys((*others, *TURNS)))

    def _enter(
        self,
        loop: Loop,
        state: State,
        steps: Steps,
        program_loop: amir.Loop,
        counter: Sym,
        turns: int,
    ) -> Entered:
        """A loop at the begin of any of its turns."""
        first = state.cursor.env[counter]
        if turns:
            count = bv.fresh("turns", 32)
            counted = first + bv.extend(count, 64, signed=True) * bv.constant(turns, 64)
            passed = count
        else:
            count = bv.fresh("task", 32)
            counted, passed = bv.extend(count, 64, signed=True), bv.fresh("turns", 32)
        registers = dict(state.registers)
        for name in loop.written:
            old = registers.pop(name, None)
            if old is None or name not in self.product.kernel.flow.live[loop.head]:
                continue
            if bv.is_formula(old):
                registers[name] = bv.fresh_truth("truth")
            elif name in steps.constant:
                by = bv.constant(steps.constant[name], bv.width(old))
                registers[name] = bv.simplified(old + wide_as(passed, old) * by)
            elif name in steps.with_tasks and not turns:
                by = bv.constant(steps.with_tasks[name], bv.width(old))
                ahead = count - bv.part(first, 0, 32)
                registers[name] = bv.simplified(old + wide_as(ahead, old) * by)
            else:
                registers[name] = bv.fresh("any", bv.width(old))
        env = {**state.cursor.env, counter: bv.simplified(counted)}
        nest = self.product.kernel.walker.nests.get(program_loop)
        facts: tuple[bv.Formula, ...] = ()
        if nest is not None:
            iterators, facts = nest.iterators(env)
            env |= iterators
        ghosts = self._ghosts_of_turn(loop, state, program_loop, passed if turns else None, turns)
        cursor = replace(state.cursor, env=env, ghosts=ghosts)
        inside = replace(state, registers=registers, cursor=cursor).assuming(*facts)
        return Entered(state, steps, program_loop, counter, turns, count, inside)

    def _ghosts_of_turn(
        self,
        loop: Loop,
        state: State,
        program_loop: amir.Loop,
        passed: bv.Term | None,
        turns: int,
    ) -> dict[Sym, bv.Term]:
        """The thread's numbers of arrivals and waits at the begin of any turn: unknown from task to
        task, and else so many more as the body of the program's loop has, of this thread."""
        found = dict(state.cursor.ghosts)
        for ring in self.product.kernel.walker.rings.values():
            for name, kind in (
                (ring.arrived, amir.Arrive),
                (ring.awaited, amir.Await),
                (ring.in_task, amir.Await),
            ):
                if passed is None:
                    found[name] = bv.fresh(name.name, 32)
                    continue
                more = turns * self._executed(ring, kind, program_loop, state)
                found[name] = bv.simplified(found[name] + passed * bv.constant(more, 32))
        return found

    def _executed(
        self, ring: Ring, kind: type[amir.Arrive | amir.Await], loop: amir.Loop, state: State
    ) -> int:
        """The Arrives or Awaits of a ring right in a loop that the thread executes: a guess."""
        walker, decide = self.product.kernel.walker, self.product.decide(state)
        return sum(
            isinstance(op, kind)
            and (op.home if isinstance(op, amir.Arrive) else op.barrier).name == ring.variable.name
            and walker.is_executed(state.cursor, op, decide) is True
            for op in loop.body
            if isinstance(op, amir.Arrive | amir.Await)
        )

    def _run_turns(self, loop: Loop, entered: Entered) -> list[tuple[int, State]]:
        """The states behind the loop, once an invariant has been found."""
        held = [
            name
            for name, claim in claims_of(
                self.product.kernel.walker, loop, entered, entered.state
            ).items()
            if self.product.follows(entered.state, claim)
        ]
        while True:
            claims = claims_of(self.product.kernel.walker, loop, entered, entered.inside)
            inside = entered.inside.assuming(*(claims[name] for name in held))
            self._entered.append(entered.loop)
            try:
                exits, back = self._explore(loop.blocks, [(loop.head, inside)], loop.head)
            finally:
                self._entered.pop()
            ends = [self._come_back(entered, one) for one in back]
            lost = {
                name
                for one in ends
                for name, claim in claims_of(self.product.kernel.walker, loop, entered, one).items()
                if name in held and not self.product.follows(one, claim)
            }
            if not lost:
                for one in ends:
                    self._check_turn(loop, entered, one)
                return exits
            held = [name for name in held if name not in lost]

    def _come_back(self, entered: Entered, state: State) -> State:
        """The state behind a turn, with its cursor where the turn began."""
        if state.syncs:
            raise self.product.failure("a turn ends within a statement", None, entered.loop.origin)
        state = self.product.settled(state)
        for _ in range(TURNS[-1]):
            if state.cursor.place == entered.inside.cursor.place:
                break
            if not state.cursor.frames or not isinstance(state.cursor.frames[-1], Test):
                break
            found = self.product.kernel.walker.tested(state.cursor, self.product.decide(state))
            if found is None:
                break
            state = self.product.settled(replace(state, cursor=found[0]).assuming(*found[1]))
        if state.cursor.place != entered.inside.cursor.place:
            op = self.product.kernel.walker.operation(state.cursor) if state.cursor.frames else None
            raise self.product.failure(
                "a turn of the loop of PTX ends at another place of the program",
                None,
                entered.loop.origin if op is None else op.origin,
            )
        for wanted in state.pending:
            if wanted.access.write:
                raise self.product.failure("a write of the program is missing", None, wanted.origin)
        return replace(state, pending=())

    def _check_turn(self, loop: Loop, entered: Entered, state: State) -> None:
        """Refuses a turn behind which the state is not that of a later turn."""
        one = bv.constant(1, 32)
        counted = state.cursor.env[entered.counter]
        if entered.turns:
            after = entered.count + one
            first = entered.state.cursor.env[entered.counter]
            wide = bv.extend(after, 64, signed=True)
            wanted = first + wide * bv.constant(entered.turns, 64)
        else:
            after = bv.part(counted, 0, 32)
            wanted = bv.extend(after, 64, signed=True)
        if not self.product.follows(state, bv.equal(counted, wanted)):
            raise self.product.failure(
                "a turn of PTX is not as many of the program", None, entered.loop.origin
            )
        more = self._ghosts_of_turn(loop, entered.state, entered.loop, after, entered.turns)
        for ghost, now in state.cursor.ghosts.items():
            wanted = more[ghost] if entered.turns else now
            if ghost.name.startswith("bytes"):
                wanted = entered.inside.cursor.ghosts[ghost]
            if not self.product.follows(state, bv.equal(now, wanted)):
                raise self.product.failure(
                    f"a turn has another number of {ghost.name}", None, entered.loop.origin
                )
        for name in entered.inside.cursor.counters:
            same = bv.equal(state.cursor.env[name], entered.inside.cursor.env[name])
            if name != entered.counter and not self.product.follows(state, same):
                raise self.product.failure(
                    f"a turn goes on with another {name.name}", None, entered.loop.origin
                )
        for register, before in entered.inside.registers.items():
            if register not in loop.written or register not in state.registers:
                continue
            now = state.registers[register]
            old = entered.state.registers[register]
            if register in entered.steps.constant:
                by = bv.constant(entered.steps.constant[register], bv.width(old))
            elif register in entered.steps.with_tasks and not entered.turns:
                ahead = after - entered.count
                by = bv.constant(entered.steps.with_tasks[register], bv.width(old)) * wide_as(
                    ahead, old
                )
            else:
                continue
            if not self.product.follows(state, bv.equal(now, before + by)):
                raise refusal_of(f"{register} does not follow the loop's counter")
