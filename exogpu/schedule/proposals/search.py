"""The search: from what is at fault to changes, the most promising first, then fewer of them."""

from __future__ import annotations

from collections.abc import Callable, Iterable, Iterator
from dataclasses import dataclass, field
from heapq import heappop, heappush
from itertools import chain, count
from typing import Final

from exogpu.amir.nodes import Check, Record
from exogpu.analysis.barriers import home_of
from exogpu.hw.timelines import SYNC_TIMELINES
from exogpu.ir import nodes as ir
from exogpu.ir.printer import print_proc
from exogpu.ir.types import BarrierMechanism, QualTL, Sym
from exogpu.ir.walk import substitute_access
from exogpu.machine.observer import Violation
from exogpu.schedule.checking.opened_procedure import is_silent
from exogpu.schedule.proposals.bench import Bench, Judged, Sizes, trouble_of
from exogpu.schedule.proposals.drafts import Draft, is_sequential, is_threads
from exogpu.schedule.proposals.fences_and_groups import (
    COMPLETED_BY,
    ORDINARY,
    Move,
    fence,
    fences,
    groups,
)
from exogpu.schedule.proposals.ring_proposals import depth_of, given_back, rings, target_of
from exogpu.schedule.proposals.sync_edits import edits, later_awaits, removals, repairs
from exogpu.schedule.rewrite import Path, paths

# The side of a ring that is missing: an mbarrier on which nobody arrives, or nobody waits.

SEEN: Final = ("cuda_temporal", "cuda_generic_and_async")
"""Second timelines of the new Await: of those that overwrite, and of those that read."""


def sides(draft: Draft) -> Iterator[Move]:
    """An Arrive or an Await for each mbarrier that has none, where its partner is used: who waits
    for one of the two arrives on the other."""
    declared = [s for _, s in paths(draft.proc) if isinstance(s, ir.BarrierAlloc)]
    for barrier in declared:
        partner = _partner(barrier, declared)
        if partner is None:
            continue
        arrives, awaits = _users(draft, barrier.name)
        signals, waits = _users(draft, partner)
        if arrives and not awaits:
            yield from _awaiting(draft, barrier.name, signals)
        elif awaits and not arrives:
            yield from _arriving(draft, barrier.name, partner, waits)


def _partner(barrier: ir.BarrierAlloc, declared: list[ir.BarrierAlloc]) -> Sym | None:
    if barrier.mechanism is not BarrierMechanism.MBARRIER:
        return None
    return barrier.guard or next((b.name for b in declared if b.guard == barrier.name), None)


def _users(draft: Draft, name: Sym) -> tuple[list[Path], list[Path]]:
    """Returns the statements that arrive on a barrier, and those that wait for it; instructions
    that signal it arrive."""
    arrives: list[Path] = []
    awaits: list[Path] = []
    for path, stmt in paths(draft.proc):
        match stmt:
            case ir.Arrive() if stmt.targets[0].name == name:
                arrives.append(path)
            case ir.CallInstr() if stmt.trailing is not None and stmt.trailing.name == name:
                arrives.append(path)
            case ir.Await() if stmt.barrier.name == name:
                awaits.append(path)
            case _:
                pass
    return arrives, awaits


def _awaiting(draft: Draft, name: Sym, signals: list[Path]) -> Iterator[Move]:
    depths = {depth_of(target_of(draft, s)) for s in _loads(draft)}
    for path in signals:
        stmt = draft.statement_at(path)
        home = home_of(stmt.targets) if isinstance(stmt, ir.Arrive) else None
        if home is None:
            continue
        for n in sorted({0, *depths}):
            for seen in SEEN:
                element = ir.Access(name, home.coords)
                yield from _placements(draft, path, ir.Await(element, SYNC_TIMELINES[seen], ~n))


def _arriving(draft: Draft, name: Sym, partner: Sym, waits: list[Path]) -> Iterator[Move]:
    loads = [s for s in _loads(draft) if s.trailing is not None and s.trailing.name == partner]
    for path in waits:
        stmt = draft.statement_at(path)
        assert isinstance(stmt, ir.Await)
        index = stmt.barrier.coords
        targets = given_back(name, index, loads) if loads else (ir.Access(name, index),)
        for first in ("cuda_in_order", "cuda_temporal"):
            yield from _placements(draft, path, ir.Arrive(SYNC_TIMELINES[first], targets))


def _loads(draft: Draft) -> list[ir.CallInstr]:
    calls = (s for s in draft.statements.values() if isinstance(s, ir.CallInstr))
    return [call for call in calls if call.trailing is not None]


def _placements(draft: Draft, beside: Path, stmt: ir.Stmt) -> Iterator[Move]:
    """The statement at each place of the block that another one is in, in loops of the same
    threads if those around the other have no work in them."""
    loops: list[ir.For] = []
    while len(beside) > 1:
        parent = draft.statement_at(beside[:-1])
        if not isinstance(parent, ir.For) or not is_threads(parent) or not is_silent(parent):
            break
        loops.append(parent)
        beside = beside[:-1]
    for loop in loops:
        fresh = Sym(loop.iterator.name)
        body = _renamed(stmt, loop.iterator, fresh)
        stmt = ir.For(fresh, loop.lo, loop.hi, loop.mode, (body,))
    name = beside[-1][0]
    for at in range(len(draft.block(beside)) + 1):
        yield Move("side", 1, draft.inserted([((*beside[:-1], (name, at)), stmt)]))


def _renamed(stmt: ir.Stmt, old: Sym, new: Sym) -> ir.Stmt:
    values = {old: ir.CVar(new)}
    match stmt:
        case ir.Arrive():
            targets = tuple(substitute_access(a, values) for a in stmt.targets)
            return ir.Arrive(stmt.timeline, targets)
        case ir.Await():
            return ir.Await(substitute_access(stmt.barrier, values), stmt.timeline, stmt.n)
        case ir.For():
            body = tuple(_renamed(s, old, new) for s in stmt.body)
            return ir.For(stmt.iterator, stmt.lo, stmt.hi, stmt.mode, body)
        case _:
            return stmt


class OutOfTimeError(Exception):
    """The budget has ended."""


@dataclass(order=True, slots=True)
class Node:
    """A draft on the way, and what it has cost."""

    key: float
    number: int
    judged: Judged = field(compare=False)
    cost: float = field(compare=False)


@dataclass(slots=True)
class Search:
    """Best first, by the troubles that are left and the statements that were changed."""

    bench: Bench
    root: Judged
    heard: Callable[[str], None]
    one: bool = True
    """One proposal will do."""
    best: Judged = field(init=False)
    doubts: list[str] = field(default_factory=list)
    """Why drafts without a trouble at the samples were not taken."""
    _seen: set[str] = field(default_factory=set)
    _heap: list[Node] = field(default_factory=list)
    _number: Iterator[int] = field(default_factory=count)

    def __post_init__(self) -> None:
        self.best = self.root

    def proved_drafts(self) -> Iterator[Judged]:
        """Drafts in which nothing is found for any sizes, with no more changes than they need.

        Raises OutOfTimeError.
        """
        self._push(self.root, 0.0)
        while self._heap:
            node = heappop(self._heap)
            judged = node.judged
            if judged.program is not None and len(judged.found) < len(self.bench.samples):
                again = self.bench.judge_draft(judged.draft)
                if again is not None:
                    self._push(again, node.cost)
                continue
            if judged.score < self.best.score or len(self.best.found) < len(judged.found):
                self.best = judged
            if judged.score:
                for after, cost in self._successors(judged):
                    self._push(after, node.cost + cost)
            elif self._holds(judged):
                self.best = judged
                yield self._late(self._minimal(judged))
            elif len(judged.found) < len(self.bench.samples):
                heappush(self._heap, node)

    def _push(self, judged: Judged, cost: float) -> None:
        heappush(self._heap, Node(judged.score + cost / 2, next(self._number), judged, cost))

    # --- one draft ------------------------------------------------------------------------

    def _holds(self, judged: Judged) -> bool:
        """Tests whether the prover finds nothing for any sizes; sizes of a refutation become a
        sample."""
        assert judged.program is not None
        self._tell("asking for all sizes")
        answer = self.bench.answer(judged.program)
        if answer.word == "refuted":
            if not self.bench.samples:
                self.bench.gathers(judged.program, answer.sizes)
            elif answer.sizes not in self.bench.samples:
                self.bench.samples.append(answer.sizes)
            else:
                self.doubts.append("the machine finds nothing where the analysis does")
        elif answer.word == "undecided":
            self.doubts.append(answer.reason)
        self._in_time()
        return answer.word == "clean"

    def _successors(self, judged: Judged) -> list[tuple[Judged, float]]:
        """The drafts that mend something of this one: what the first trouble is that any do."""
        for stages in self._moves(judged):
            better: list[tuple[Judged, float]] = []
            for moves in stages:
                better += self._better(judged, moves)
                if self.one and any(after.score == 0 for after, _ in better):
                    break
            if better:
                return better
        return []

    def _better(self, judged: Judged, moves: Iterator[Move]) -> Iterator[tuple[Judged, float]]:
        for move in moves:
            self._in_time()
            text = print_proc(move.draft.proc)
            if text in self._seen:
                continue
            self._seen.add(text)
            after = self.bench.judge_draft(move.draft, judged)
            self._tell(f"{judged.count} hazards left")
            if after is not None and (after.score < judged.score or judged.program is None):
                often = self._often(after.draft)
                yield after, move.cost + often / 10
                if self.one and after.score == 0 and move.cost <= 1 and not often:
                    return

    def _often(self, draft: Draft) -> int:
        """Sums up the loops around each added statement: a statement that runs less often is
        better."""
        added = (draft.places[n] for n in self._added_statements(draft))
        return sum(is_sequential(s) for path in added for s in draft.enclosing(path))

    def _moves(self, judged: Judged) -> Iterator[Iterable[Iterator[Move]]]:
        """Yields the changes that may repair each trouble, in stages: a later one if no earlier one
        is enough."""
        draft = judged.draft
        everywhere = [v for found in judged.found for v in found]
        for kind, _, _, at in sorted(judged.standing, key=lambda t: t[3]):
            if kind == "TRAILING":
                yield (rings(draft, at, everywhere),)
            else:
                yield (removals(draft, at),)
        if judged.program is None:
            return
        yield (sides(draft),)
        sample, violations = judged.first_violations()
        told = {trouble_of(v): v for v in violations}
        for violation in sorted(told.values(), key=_rank):
            sizes = self.bench.samples[sample]
            yield self._moves_for(judged, violation, sizes)
        yield (edits(draft),)

    def _moves_for(
        self, judged: Judged, violation: Violation, sizes: Sizes
    ) -> tuple[Iterator[Move], ...]:
        assert judged.program is not None
        draft = judged.draft
        return (
            repairs(draft, judged.program, sizes, violation),
            chain(groups(draft, violation), fences(draft, violation)),
        )

    # --- less of it -----------------------------------------------------------------------

    def _minimal(self, judged: Judged) -> Judged:
        """Without what was added and is not needed."""
        self._tell("leaving out what is not needed")
        least = judged
        order = sorted(
            self._added_statements(judged.draft), key=lambda n: self._burden(judged.draft, n)
        )
        steps = (self._removed_statements, self._removed_barriers, self._plainer)
        for draft_of in steps:
            for number in order:
                if number not in least.draft.places or self.bench.seconds_left < 1:
                    continue
                draft = draft_of(least.draft, number)
                tried = None if draft is None else self.bench.judge_draft(draft)
                if tried is not None and not tried.score and tried.program is not None:
                    answer = self.bench.answer(tried.program)
                    least = tried if answer.word == "clean" else least
        return least

    def _late(self, judged: Judged) -> Judged:
        """With what was added waiting for commit groups as late as it can."""
        self._tell("waiting later")
        waits = [
            n
            for n in self._added_statements(judged.draft)
            if isinstance(s := judged.draft.statements[n], ir.Await) and s.n >= 0
        ]
        for number in waits:
            for draft in later_awaits(judged.draft, number):
                if self.bench.seconds_left < 1:
                    return judged
                tried = self.bench.judge_draft(draft)
                if tried is None or tried.score or tried.program is None:
                    continue
                if self.bench.answer(tried.program).word == "clean":
                    judged = tried
                    break
        return judged

    def _added_statements(self, draft: Draft) -> list[int]:
        return [n for n in draft.statements if n not in self.root.draft.statements]

    def _burden(self, draft: Draft, number: int) -> tuple[bool, int]:
        """Orders the statements to remove: Fences first, and of those the ones that run most
        often."""
        loops = sum(map(is_sequential, draft.enclosing(draft.places[number])))
        return not isinstance(draft.statements[number], ir.Fence), -loops

    def _removed_statements(self, draft: Draft, number: int) -> Draft | None:
        stmt = draft.statements[number]
        if not isinstance(stmt, ir.Fence | ir.Arrive | ir.Await):
            return None
        return draft.remove_statement(draft.places[number])

    def _removed_barriers(self, draft: Draft, number: int) -> Draft | None:
        """Without a barrier, and all that arrives on it or waits for it."""
        stmt = draft.statements[number]
        if not isinstance(stmt, ir.BarrierAlloc):
            return None
        users = [
            n
            for n, s in draft.statements.items()
            if (isinstance(s, ir.Arrive) and s.targets[0].name == stmt.name)
            or (isinstance(s, ir.Await) and s.barrier.name == stmt.name)
        ]
        made = draft
        for n in (*users, number):
            made = made.remove_statement(made.places[n])
        return made

    def _plainer(self, draft: Draft, number: int) -> Draft | None:
        """With an ordinary Fence in the place of another one."""
        stmt = draft.statements[number]
        if not isinstance(stmt, ir.Fence) or (stmt.pre.name, stmt.post.name) == ORDINARY:
            return None
        return draft.replace_statement(draft.places[number], fence(ORDINARY), same=True)

    # --- budget ---------------------------------------------------------------------------

    def _in_time(self) -> None:
        if self.bench.seconds_left <= 0:
            raise OutOfTimeError

    def _tell(self, doing: str) -> None:
        self.heard(f"{self.bench.tried} tried, {self.best.count} hazards at best; {doing}")


def _rank(violation: Violation) -> tuple[int, int, int]:
    """Completions first, then what is ordered within a task, then its end."""
    check, record = violation.check, violation.record
    lines = (check.origin.span.line, 0 if record is None else record.origin.span.line)
    if not isinstance(check, Check) or not isinstance(record, Record):
        return (2, *lines)
    if check.free:
        return (5, *lines)
    if record.timeline is QualTL.TMA_S:
        return (0, *lines)
    return (1 if record.timeline in COMPLETED_BY else 3, *lines)
