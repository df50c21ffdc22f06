"""The place of one thread in the program: a stack of blocks and loops, with their iterators.

A cursor moves on over what no thread does, and over decisions that are implied.  It stops at an
operation that the thread executes, before the test of a loop, and where nothing decides.
"""

from __future__ import annotations

from collections.abc import Callable, Iterable, Mapping
from dataclasses import dataclass, field, replace
from typing import TypeAlias

from exogpu.amir import nodes as amir
from exogpu.ir import nodes as ir
from exogpu.ir.types import Sym
from exogpu.solvers import bitvectors as bv
from exogpu.validate.mbarriers import Ring
from exogpu.validate.program_terms import condition_of, executes, iteration_of, number_of
from exogpu.validate.refusals import refusal_of

Decide: TypeAlias = Callable[[bv.Formula], "bool | None"]
"""The truth of a formula where a thread stands; None where both may be."""


@dataclass(frozen=True, slots=True)
class Inside:
    """The next operation of a block; `loop` is the one whose body the block is, and that goes on
    behind it."""

    block: amir.Block
    at: int
    loop: amir.Loop | None
    counter: Sym | None = None
    """The variable whose value the block is executed for."""


@dataclass(frozen=True, slots=True)
class Test:
    """A loop before its test, and the variable that counts it: its iterator, or a task's number."""

    loop: amir.Loop
    counter: Sym


Frame: TypeAlias = Inside | Test


@dataclass(frozen=True, slots=True)
class Cursor:
    """A place in the program, with the values of iterators."""

    frames: tuple[Frame, ...]
    env: Mapping[Sym, bv.Term]
    ghosts: Mapping[Sym, bv.Term] = field(default_factory=dict)
    """The thread's numbers of arrivals and waits, in 32 bits."""

    @property
    def place(self) -> tuple[object, ...]:
        """The place alone: equal for equal places."""
        return tuple(
            id(one.loop) if isinstance(one, Test) else (id(one.block), one.at)
            for one in self.frames
        )

    @property
    def key(self) -> tuple[object, ...]:
        """The place, and the values of the iterators around it."""
        ghosts = (term.get_id() for term in self.ghosts.values())
        return (*self.place, *(self.env[name].get_id() for name in self.counters), *ghosts)

    @property
    def counters(self) -> tuple[Sym, ...]:
        """The variables whose values the place is executed for."""
        return tuple(one.counter for one in self.frames if one.counter is not None)

    @property
    def loops(self) -> tuple[tuple[amir.Loop, Sym], ...]:
        """The loops around the place with what counts them, outermost first; of the last the test
        may be next."""
        return tuple(
            (one.loop, one.counter)
            for one in self.frames
            if one.loop is not None and one.counter is not None
        )


@dataclass(frozen=True, slots=True)
class Nest:
    """Loops over tasks, which lie in a rectangle: each CTA takes every n-th task, n being the CTAs
    of the launch."""

    loops: tuple[amir.Loop, ...]
    counter: Sym
    """The number of a task."""
    counts: tuple[bv.Term, ...]
    """The iterations of each loop, in 32 bits."""
    digits: dict[int, tuple[bv.Term, bv.Term]]
    """The terms that are digits of a task's number, each with an unknown that stands for it."""

    @property
    def total(self) -> bv.Term:
        """The number of tasks, in 64 bits."""
        found = self.counts[0]
        for count in self.counts[1:]:
            found = found * count
        return bv.extend(found, 64, signed=True)

    def iterators(
        self, env: Mapping[Sym, bv.Term]
    ) -> tuple[dict[Sym, bv.Term], tuple[bv.Formula, ...]]:
        """The iterators of a task, and what is known of them: they are digits of its number, if
        there is such a task."""
        rest, zero = bv.part(env[self.counter], 0, 32), bv.constant(0, 32)
        found: dict[Sym, bv.Term] = {}
        facts: list[bv.Formula] = []
        defined: list[bv.Formula] = []
        for at, loop in reversed(list(enumerate(self.loops))):
            digit, count = rest, self.counts[at]
            if at:
                rest = bv.call("div.s32", [rest, count], 32)
                digit = self._name_digit(bv.simplified(digit - rest * count), defined)
            facts += [bv.compare("ge", digit, zero), bv.compare("lt", digit, count)]
            lo = number_of(loop.lo, env)
            found[loop.iterator] = bv.simplified(lo + bv.extend(digit, 64, signed=True))
        number = env[self.counter]
        none = [bv.compare("lt", number, bv.constant(0, 64)), bv.compare("ge", number, self.total)]
        return found, (*defined, bv.disjunction([*none, bv.conjunction(facts)]))

    def _name_digit(self, digit: bv.Term, defined: list[bv.Formula]) -> bv.Term:
        """The unknown that stands for a digit."""
        if digit.get_id() not in self.digits:
            self.digits[digit.get_id()] = (digit, bv.fresh("digit", 32))
        symbol = self.digits[digit.get_id()][1]
        defined.append(symbol == digit)
        return symbol


@dataclass(frozen=True, slots=True)
class Walker:
    """Moves cursors of one thread of one kernel."""

    tid: bv.Term
    """The thread's index in its CTA, in 64 bits."""
    ctas: bv.Term
    """The CTAs of the launch, in 64 bits."""
    first: bv.Term
    """The number of its CTA."""
    nests: Mapping[amir.Loop, Nest]
    """By the outermost loop."""
    rings: Mapping[Sym, Ring]
    copies: Mapping[amir.Record, int]
    """The bytes of copies by TMA, of which one lane of a warp starts each."""
    mixed: frozenset[Sym]
    """Variables that end only behind a fence of the async proxy."""
    is_silent: Callable[[amir.Record], bool]
    """Tests whether a record is of registers, or of a barrier's own state."""

    def settled(self, cursor: Cursor, decide: Decide) -> Cursor:
        """The cursor before the next operation, test of a loop, or open decision."""
        while cursor.frames:
            top = cursor.frames[-1]
            if isinstance(top, Test):
                return cursor
            if top.at == len(top.block):
                cursor = self._next_iteration(cursor, top)
                continue
            op = top.block[top.at]
            moved = self._move_past(cursor, top, op, decide)
            if moved is None:
                return cursor
            cursor = moved
        return cursor

    def operation(self, cursor: Cursor) -> amir.Op | None:
        """The operation that a settled cursor stands before; None before a test, and at the end."""
        if not cursor.frames or isinstance(cursor.frames[-1], Test):
            return None
        top = cursor.frames[-1]
        return top.block[top.at] if top.at < len(top.block) else None

    def move_behind(self, cursor: Cursor) -> Cursor:
        """The cursor behind the operation."""
        top = cursor.frames[-1]
        assert isinstance(top, Inside)
        return replace(cursor, frames=(*cursor.frames[:-1], replace(top, at=top.at + 1)))

    def tested(
        self, cursor: Cursor, decide: Decide
    ) -> tuple[Cursor, tuple[bv.Formula, ...]] | None:
        """The cursor behind the test of its loop, in the body or behind the loop, and what is known
        there of a task's iterators; None where nothing decides the test."""
        top = cursor.frames[-1]
        assert isinstance(top, Test)
        goes_on = decide(self.condition(cursor))
        if goes_on is None:
            return None
        if not goes_on:
            return replace(cursor, frames=cursor.frames[:-1]), ()
        nest = self.nests.get(top.loop)
        iterators, facts = ({}, ()) if nest is None else nest.iterators(cursor.env)
        body = top.loop.body if nest is None else nest.loops[-1].body
        frames = (*cursor.frames[:-1], Inside(body, 0, top.loop, top.counter))
        return replace(cursor, frames=frames, env={**cursor.env, **iterators}), facts

    def condition(self, cursor: Cursor) -> bv.Formula:
        """The condition under which the loop of a test goes on."""
        top = cursor.frames[-1]
        assert isinstance(top, Test)
        return bv.compare("lt", cursor.env[top.counter], self.end(cursor, top.loop))

    def end(self, cursor: Cursor, loop: amir.Loop) -> bv.Term:
        """The first value of a loop's counter with which it does not go on."""
        nest = self.nests.get(loop)
        return bv.simplified(number_of(loop.hi, cursor.env)) if nest is None else nest.total

    def _next_iteration(self, cursor: Cursor, top: Inside) -> Cursor:
        rest = cursor.frames[:-1]
        if top.loop is None or top.counter is None:
            return replace(cursor, frames=rest)
        step = self.ctas if top.loop in self.nests else bv.constant(1, 64)
        value = bv.simplified(cursor.env[top.counter] + step)
        frames = (*rest, Test(top.loop, top.counter))
        return replace(cursor, frames=frames, env={**cursor.env, top.counter: value})

    def _move_past(self, cursor: Cursor, top: Inside, op: amir.Op, decide: Decide) -> Cursor | None:
        """The cursor past an operation, or in it; None where it stays before it."""
        match op:
            case amir.Loop():
                return self._enter_loop(cursor, op, decide)
            case amir.Guard():
                holds = decide(condition_of(op.condition, cursor.env))
                if holds is None:
                    return None
                behind = self.move_behind(cursor)
                inside = (*behind.frames, Inside(op.body, 0, None))
                return replace(behind, frames=inside) if holds else behind
            case amir.Record() if self.is_silent(op):
                return self.move_behind(cursor)
            case amir.Alloc() if op.name in self.rings:
                ring, zero = self.rings[op.name], bv.constant(0, 32)
                ghosts = {**cursor.ghosts, ring.in_task: zero, ring.bytes: zero}
                return replace(self.move_behind(cursor), ghosts=ghosts)
            case amir.Release() if op.name in self.mixed:
                return None
            case amir.Record() if op in self.copies:
                return self._move_past_copy(cursor, op, decide)
            case amir.Record() | amir.Fence() | amir.Arrive() | amir.Await():
                return (
                    self.move_behind(cursor)
                    if self.is_executed(cursor, op, decide) is False
                    else None
                )
            case _:
                return self.move_behind(cursor)

    def _move_past_copy(self, cursor: Cursor, op: amir.Record, decide: Decide) -> Cursor | None:
        """The cursor past a copy that another lane of the warp starts."""
        by_warp = self.is_executed(cursor, op, decide)
        if by_warp is None:
            return None
        if not by_warp:
            return self.move_behind(cursor)
        starts = decide(bv.equal(self.lane, bv.constant(0, 64)))
        return self.behind_copy(cursor, op) if starts is False else None

    @property
    def lane(self) -> bv.Term:
        """The thread's place in its warp."""
        return bv.simplified(bv.floor_rest(self.tid, 32))

    def behind_copy(self, cursor: Cursor, op: amir.Record) -> Cursor:
        """The cursor behind a copy, whose bytes the next arrival of its barrier tells."""
        assert op.trailing is not None
        name = self.rings[op.trailing.home.name].bytes
        more = cursor.ghosts[name] + bv.constant(self.copies[op], 32)
        ghosts = {**cursor.ghosts, name: bv.simplified(more)}
        return replace(self.move_behind(cursor), ghosts=ghosts)

    def is_executed(self, cursor: Cursor, op: amir.Op, decide: Decide) -> bool | None:
        """Tests whether the thread is one of those that execute an operation."""
        threads = op.origin.threads
        if threads is None:
            raise refusal_of("an operation of the host in a kernel")

        def value(expr: ir.CExpr) -> bv.Term:
            return bv.simplified(number_of(expr, cursor.env))

        def follows(claim: bv.Formula) -> bool:
            return decide(claim) is True

        return decide(executes(threads, self.tid, value, follows))

    def _enter_loop(self, cursor: Cursor, loop: amir.Loop, decide: Decide) -> Cursor | None:
        if loop.slot is not None or loop.source is not None:
            raise refusal_of(f"line {loop.origin.span.line}: a loop over a slot or a loaded index")
        behind = self.move_behind(cursor)
        if loop.threads:
            return self._enter_threads(behind, loop, decide)
        nest = self.nests.get(loop)
        if nest is not None:
            counter, start = nest.counter, self.first
        else:
            counter, start = loop.iterator, bv.simplified(number_of(loop.lo, cursor.env))
        frames = (*behind.frames, Test(loop, counter))
        return replace(cursor, frames=frames, env={**cursor.env, counter: start})

    def _enter_threads(self, behind: Cursor, loop: amir.Loop, decide: Decide) -> Cursor | None:
        def evaluate(expr: ir.CExpr, name: Sym, value: bv.Term) -> bv.Term:
            return bv.simplified(number_of(expr, {**behind.env, name: value}))

        found = iteration_of(loop, self.tid, evaluate, lambda claim: decide(claim) is True)
        has_one = decide(found.condition)
        if has_one is None:
            return None
        if not has_one:
            return behind
        env = {**behind.env, loop.iterator: found.value}
        frames = (*behind.frames, Inside(loop.body, 0, None, loop.iterator))
        return replace(behind, frames=frames, env=env)


def task_nest(loop: amir.Loop) -> tuple[amir.Loop, ...]:
    """The loops of a nest of tasks, outermost first.  Raises NotValidatedError for other nests
    than rectangles."""
    found = [loop]
    while any(isinstance(op, amir.Loop) and op.tasks for op in found[-1].body):
        if len(found[-1].body) != 1:
            raise refusal_of("a nest of tasks with operations between its loops")
        inner = found[-1].body[0]
        assert isinstance(inner, amir.Loop)
        found.append(inner)
    return tuple(found)


def first_frames(body: Iterable[amir.Op]) -> tuple[Frame, ...]:
    """The stack at the begin of a block."""
    return (Inside(tuple(body), 0, None),)
