"""The search: from what is at fault to changes, the most promising first, then fewer of them."""

from __future__ import annotations

from collections.abc import Callable, Iterable, Iterator
from dataclasses import dataclass, field
from heapq import heappop, heappush
from itertools import chain, count

from exogpu.amir.nodes import Check, Record
from exogpu.ir.nodes import Arrive, Await, BarrierAlloc, Fence
from exogpu.ir.printer import print_proc
from exogpu.ir.types import QualTL
from exogpu.machine.violation import Violation
from exogpu.schedule.proposing.drafts import Draft, is_sequential
from exogpu.schedule.proposing.edits import edits, removals
from exogpu.schedule.proposing.fences import ORDINARY, fence, fences
from exogpu.schedule.proposing.groups import COMPLETED_BY, groups
from exogpu.schedule.proposing.later import later
from exogpu.schedule.proposing.moves import Move
from exogpu.schedule.proposing.repairs import repairs
from exogpu.schedule.proposing.rings import rings
from exogpu.schedule.proposing.sides import sides
from exogpu.schedule.proposing.trial import Bench, Judged, Sizes, trouble_of


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
    """Whether one proposal will do."""
    best: Judged = field(init=False)
    doubts: list[str] = field(default_factory=list)
    """Why drafts without a trouble at the samples were not taken."""
    _seen: set[str] = field(default_factory=set)
    _heap: list[Node] = field(default_factory=list)
    _number: Iterator[int] = field(default_factory=count)

    def __post_init__(self) -> None:
        self.best = self.root

    def found(self) -> Iterator[Judged]:
        """Drafts in which nothing is found for any sizes, with no more changes than they need.

        Raises OutOfTimeError.
        """
        self._push(self.root, 0.0)
        while self._heap:
            node = heappop(self._heap)
            judged = node.judged
            if judged.program is not None and len(judged.found) < len(self.bench.samples):
                again = self.bench.judged(judged.draft)
                if again is not None:
                    self._push(again, node.cost)
                continue
            if judged.score < self.best.score or len(self.best.found) < len(judged.found):
                self.best = judged
            if judged.score:
                for after, cost in self._after(judged):
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

    def _after(self, judged: Judged) -> list[tuple[Judged, float]]:
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
            after = self.bench.judged(move.draft, judged)
            self._tell(f"{judged.count} hazards left")
            if after is not None and (after.score < judged.score or judged.program is None):
                often = self._often(after.draft)
                yield after, move.cost + often / 10
                if self.one and after.score == 0 and move.cost <= 1 and not often:
                    return

    def _often(self, draft: Draft) -> int:
        """Sums up the loops around each added statement: a statement that runs less often is
        better."""
        added = (draft.places[n] for n in self._added(draft))
        return sum(is_sequential(s) for path in added for s in draft.around(path))

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
        sample, violations = judged.first()
        told = {trouble_of(v): v for v in violations}
        for violation in sorted(told.values(), key=_rank):
            sizes = self.bench.samples[sample]
            yield self._for(judged, violation, sizes)
        yield (edits(draft),)

    def _for(
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
        order = sorted(self._added(judged.draft), key=lambda n: self._burden(judged.draft, n))
        steps = (self._removed_statements, self._removed_barriers, self._plainer)
        for draft_of in steps:
            for number in order:
                if number not in least.draft.places or self.bench.left < 1:
                    continue
                draft = draft_of(least.draft, number)
                tried = None if draft is None else self.bench.judged(draft)
                if tried is not None and not tried.score and tried.program is not None:
                    answer = self.bench.answer(tried.program)
                    least = tried if answer.word == "clean" else least
        return least

    def _late(self, judged: Judged) -> Judged:
        """With what was added waiting for commit groups as late as it can."""
        self._tell("waiting later")
        waits = [
            n
            for n in self._added(judged.draft)
            if isinstance(s := judged.draft.statements[n], Await) and s.n >= 0
        ]
        for number in waits:
            for draft in later(judged.draft, number):
                if self.bench.left < 1:
                    return judged
                tried = self.bench.judged(draft)
                if tried is None or tried.score or tried.program is None:
                    continue
                if self.bench.answer(tried.program).word == "clean":
                    judged = tried
                    break
        return judged

    def _added(self, draft: Draft) -> list[int]:
        return [n for n in draft.statements if n not in self.root.draft.statements]

    def _burden(self, draft: Draft, number: int) -> tuple[bool, int]:
        """Orders the statements to remove: Fences first, and of those the ones that run most
        often."""
        loops = sum(map(is_sequential, draft.around(draft.places[number])))
        return not isinstance(draft.statements[number], Fence), -loops

    def _removed_statements(self, draft: Draft, number: int) -> Draft | None:
        stmt = draft.statements[number]
        if not isinstance(stmt, Fence | Arrive | Await):
            return None
        return draft.without(draft.places[number])

    def _removed_barriers(self, draft: Draft, number: int) -> Draft | None:
        """Without a barrier, and all that arrives on it or waits for it."""
        stmt = draft.statements[number]
        if not isinstance(stmt, BarrierAlloc):
            return None
        users = [
            n
            for n, s in draft.statements.items()
            if (isinstance(s, Arrive) and s.targets[0].name == stmt.name)
            or (isinstance(s, Await) and s.barrier.name == stmt.name)
        ]
        made = draft
        for n in (*users, number):
            made = made.without(made.places[n])
        return made

    def _plainer(self, draft: Draft, number: int) -> Draft | None:
        """With an ordinary Fence in the place of another one."""
        stmt = draft.statements[number]
        if not isinstance(stmt, Fence) or (stmt.pre.name, stmt.post.name) == ORDINARY:
            return None
        return draft.replaced(draft.places[number], fence(ORDINARY), same=True)

    # --- budget ---------------------------------------------------------------------------

    def _in_time(self) -> None:
        if self.bench.left <= 0:
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
