"""Repairs tried on the program: what helps is said, and nothing else."""

from __future__ import annotations

from collections.abc import Hashable, Iterable, Iterator, Mapping
from contextlib import contextmanager
from dataclasses import replace
from itertools import chain, count, islice
from math import inf
from time import process_time
from typing import Final, Protocol, TypeAlias

from exogpu.amir import nodes as amir
from exogpu.amir.walk import select_operations
from exogpu.diagnostics.errors import Span
from exogpu.diagnostics.hazards import HazardKind
from exogpu.explain import edits
from exogpu.explain.apply_edits import apply_edit
from exogpu.ir.walk import holds
from exogpu.machine import fast
from exogpu.machine.literal_state import OutsideError
from exogpu.machine.observer import Violation
from exogpu.solvers.processes import cut_short

Pair: TypeAlias = tuple[HazardKind, str, Span | None, Span]
"""Kind, variable and the two statements."""

FEW: Final = 128
"""Sizes up to here are small: a repair is tried at larger ones too, with some turns of a ring."""

FACTOR: Final = 40
"""The factor by which those are larger, at most;"""

LARGE: Final = 160
"""and how large, at most."""

UNIT: Final = 16
"""Where sizes are large, a repair is tried at smaller ones, of as many times this."""

PATIENCE: Final = 5.0
"""Seconds of one run of the machine; a repair that takes longer is not proposed."""

ALL_PATIENCE: Final = 7.0
"""Seconds of all trials of one program."""


Key: TypeAlias = tuple[int, ...]
"""The values of sizes."""

Runs: TypeAlias = dict[Key, tuple[Violation, ...]]
"""The first violation of each pair of operations, by the sizes of a run."""


class _TooLongError(Exception):
    """A trial has been running for too long."""


def pair_of(violation: Violation) -> Pair:
    """Returns the key that distinguishes one hazard from another."""
    record = None if violation.record is None else violation.record.origin.span
    return violation.kind, violation.variable, record, violation.check.origin.span


class Judge(Protocol):
    """Judges repairs without running the program."""

    def mends(self, violation: Violation, key: Hashable, changed: amir.Program) -> bool | None:
        """Returns whether a change mends a violation and brings no other; None if it cannot tell.

        The key differs for different changes.
        """


class Writer(Protocol):
    """Makes repairs in the procedure that a program was lowered from."""

    def write_repair(self, repair: edits.Repair) -> Iterable[tuple[edits.Repair, amir.Program]]:
        """The ways to make a repair that are well-formed, and the program of each."""


class Budget:
    """Seconds of the processor that several trials, or runs, share."""

    def __init__(self, seconds: float = ALL_PATIENCE) -> None:
        self.left = seconds
        self.used_up = False
        """True once something was left out for want of time."""

    def allows(self, most: float = inf) -> bool:
        """Returns whether time is left, `most` seconds at most; if not, something is left out."""
        if min(self.left, most) > 0:
            return True
        cut_short()
        self.used_up = True
        return False

    @contextmanager
    def spent(self) -> Iterator[None]:
        """The time within it counts."""
        start = process_time()
        try:
            yield
        finally:
            self.left -= process_time() - start

    def run(
        self, program: amir.Program, sizes: Mapping[str, int], most: float = inf
    ) -> tuple[Violation, ...] | None:
        """The first violation of each pair of operations; None where that takes too long."""
        if not self.allows(most):
            return None
        limit = process_time() + min(most, self.left)

        def watch(_: fast.Progress) -> None:
            if process_time() > limit:
                raise _TooLongError

        keep = fast.Keep.PAIRS
        with self.spent():
            try:
                return fast.run(program, sizes, keep=keep, progress=watch, locate=False).violations
            except _TooLongError:
                cut_short()
                self.used_up = True
                return None


class Trials:
    """Repairs of the violations of one program at some sizes."""

    def __init__(
        self,
        program: amir.Program,
        sizes: Mapping[str, int],
        found: Iterable[Violation] | None = None,
        *,
        known: Runs | None = None,
        judge: Judge | None = None,
        writer: Writer | None = None,
        budget: Budget | None = None,
    ) -> None:
        """`found` has each pair of statements at fault, where the machine has told already; `known`
        the runs of the program at other sizes, to which those of trials are added.  What the
        `judge` cannot tell the machine does.  With a `writer` a repair is tried as it is
        written."""
        self._program = program
        self._sizes = dict(sizes)
        self._judge = judge
        self._writer = writer
        self._budget = Budget() if budget is None else budget
        self._known: Runs = {} if known is None else known
        self._before: dict[Key, frozenset[Pair] | None] = {}
        if found is not None:
            self._before[tuple(sizes.values())] = frozenset(map(pair_of, found))
        self._after: dict[tuple[Hashable, Key], frozenset[Pair] | None] = {}
        self._changed: dict[edits.Edit, amir.Program | None] = {}

    def helpful(
        self, violation: Violation, repairs: Iterable[edits.Repair]
    ) -> Iterator[edits.Repair]:
        """The repairs without which the hazard is there, and with which it is gone."""
        return (
            found for repair in repairs if (found := self._helpful(violation, repair)) is not None
        )

    def _helpful(self, violation: Violation, repair: edits.Repair) -> edits.Repair | None:
        """The repair as it is written, if it helps."""
        if not self._budget.allows():
            return None
        if self._writer is None or not self._is_only_written(repair.edit):
            changed = self._program_with(repair.edit)
            if changed is None or not self._helps(violation, repair.edit, repair.edit, changed):
                return None
        if self._writer is None:
            return repair
        with self._budget.spent():
            ways = iter(self._writer.write_repair(repair))
        for number in count():
            with self._budget.spent():
                made, program = next(ways, (None, self._program))
            if made is None or not self._budget.allows():
                return None
            if self._helps(violation, repair.edit, (repair.edit, number), program):
                return made
        return None

    def _is_only_written(self, edit: edits.Edit) -> bool:
        """Returns whether an edit is tried only as a change of the procedure.

        If a statement is read several times, the procedure tells which readings belong together.
        """
        match edit:
            case edits.Drained() | edits.Delayed() | edits.Counted():
                return True
            case edits.Hoisted() | edits.Reindexed() | edits.Filled():
                return True
            case edits.Deletion() | edits.MulticastTo() | edits.BesideLoop() | edits.Exchange():
                return True
            case edits.Between(violation=violation):
                ops = (violation.check, violation.record)
                return any(
                    op is not None and len(edits.copies_of_statement(self._program, op)) > 1
                    for op in ops
                )
            case _:
                return False

    def _helps(
        self, violation: Violation, edit: edits.Edit, key: Hashable, changed: amir.Program
    ) -> bool:
        """Returns whether the hazard is gone, and no other one has come."""
        if self._judge is not None:
            with self._budget.spent():
                answer = self._judge.mends(violation, key, changed)
            if answer is not None:
                return answer and self._run(_barriers_alone(changed), self._sizes) is not None
        return self._helps_at_sizes(pair_of(violation), edit, key, changed)

    def _helps_at_sizes(
        self, pair: Pair, edit: edits.Edit, key: Hashable, changed: amir.Program
    ) -> bool:
        """Returns whether an edit removes the hazard at the sizes that are tried.

        An Await that skips more puts off the step that fails: it has to help twice as far, too.
        """
        sizes = list(self._trial_sizes(pair))
        if isinstance(edit, edits.Skip) and sizes == [self._sizes]:
            sizes += _doubled(self._program, self._sizes)
        return all(self._better(pair, key, changed, each) for each in sizes)

    def _trial_sizes(self, pair: Pair) -> Iterator[dict[str, int]]:
        """The sizes at which a repair is tried: neither too small nor too large, if possible."""
        if max(self._sizes.values(), default=0) <= FEW:
            yield self._sizes
            larger = list(_larger_sizes(self._program, self._sizes))
            known = (each for each in larger if self._pairs_before(each) is not None)
            yield from islice(chain(known, larger), 1)
            return
        for smaller in _smaller(self._program, self._sizes):
            if pair in (self._pairs_before(smaller) or ()):
                yield smaller
                return
        yield self._sizes

    def _pairs_before(self, sizes: Mapping[str, int]) -> frozenset[Pair] | None:
        key = tuple(sizes.values())
        if key not in self._before:
            if key not in self._known:
                found = self._violations(self._program, sizes)
                if found is not None:
                    self._known[key] = found
            known = self._known.get(key)
            self._before[key] = None if known is None else frozenset(map(pair_of, known))
        return self._before[key]

    def _better(
        self, pair: Pair, key: Hashable, changed: amir.Program, sizes: Mapping[str, int]
    ) -> bool:
        at = key, tuple(sizes.values())
        if at not in self._after:
            self._after[at] = self._run(changed, sizes)
        after = self._after[at]
        before = self._pairs_before(sizes) if after is not None else None
        return before is not None and after is not None and after <= before - {pair}

    def _program_with(self, edit: edits.Edit) -> amir.Program | None:
        if edit not in self._changed:
            self._changed[edit] = apply_edit(self._program, edit)
        return self._changed[edit]

    def _run(self, program: amir.Program, sizes: Mapping[str, int]) -> frozenset[Pair] | None:
        """The pairs of statements at fault; None where that takes too long, or an edit has moved a
        statement to where its barrier has no element."""
        found = self._violations(program, sizes)
        return None if found is None else frozenset(map(pair_of, found))

    def _violations(
        self, program: amir.Program, sizes: Mapping[str, int]
    ) -> tuple[Violation, ...] | None:
        try:
            return self._budget.run(program, sizes, PATIENCE)
        except OutsideError:
            return None


def _barriers_alone(program: amir.Program) -> amir.Program:
    """The program without accesses to data: what is left shows whether each barrier that is named
    has the element."""
    barriers = {v.name for v in program.variables if v.mechanism is not None}

    def uses_barrier(op: amir.Op) -> bool:
        match op:
            case amir.Alloc() | amir.Release():
                return op.name in barriers
            case (
                amir.Record()
                | amir.Check()
                | amir.Clear()
                | amir.Initialise()
                | amir.CheckInitialised()
            ):
                return False
            case amir.CheckBarrier() | amir.Require():
                return False
            case _:
                return True

    return replace(program, body=select_operations(program.body, uses_barrier))


def _larger_sizes(program: amir.Program, sizes: Mapping[str, int]) -> Iterator[dict[str, int]]:
    """Larger sizes that the preconditions admit, the largest first: the others are for where that
    takes too long."""
    for most in (FACTOR, 9, 3, 2):
        larger = {
            name: value * max(1, min(most, LARGE // max(value, 1))) for name, value in sizes.items()
        }
        if larger != sizes and _admitted(program, larger):
            yield larger


def _doubled(program: amir.Program, sizes: Mapping[str, int]) -> Iterator[dict[str, int]]:
    """Twice the sizes that are large, if the preconditions admit them."""
    doubled = {name: 2 * value if value > FEW else value for name, value in sizes.items()}
    if doubled != sizes and _admitted(program, doubled):
        yield doubled


def _smaller(program: amir.Program, sizes: Mapping[str, int]) -> Iterator[dict[str, int]]:
    """Smaller sizes that the preconditions admit, the smallest first."""
    for factor in (16, 4):
        smaller = {
            name: -(-value // (factor * UNIT)) * UNIT if value > FEW // factor else value
            for name, value in sizes.items()
        }
        if _admitted(program, smaller):
            yield smaller


def _admitted(program: amir.Program, sizes: Mapping[str, int]) -> bool:
    sigma = {p.name: sizes[p.name.name] for p in program.params}
    return all(holds(condition, sigma) for condition in program.preconditions)
