"""Synchronisation that a program does not need: each statement is left out, or weakened, in turn.

Weakening is monotone (more synchronisation never hurts): where a timeline is too weak, so is
every weaker one, and they are not tried.
"""

from __future__ import annotations

import ast
from collections.abc import Callable, Iterator, Mapping, Sequence
from dataclasses import dataclass, replace
from itertools import product
from typing import Literal

from exogpu.amir import nodes as amir
from exogpu.amir.walk import is_launch, operations
from exogpu.diagnostics.errors import Span
from exogpu.diagnostics.verdict import Redundancy
from exogpu.frontend.quote import one_line
from exogpu.hw.timelines import SYNC_TIMELINES
from exogpu.ir.types import Sym, SyncSets, SyncTL
from exogpu.machine import fast
from exogpu.symbolic.search.analysis import Findings, analyse
from exogpu.symbolic.search.refute import smallest_sizes
from exogpu.symbolic.sites import variables_of

Sync = amir.Fence | amir.Arrive | amir.Await
Proved = Callable[[amir.Program], bool]
"""A test that a program is right for all sizes."""
Progress = Callable[[int, int], None]
"""Told how many candidates were tried, and of how many at most."""


class NothingFound:
    """A test for a program: no violation, nothing undecided, and `certified` accepts the findings.

    Sizes at which other programs were refuted are tried on the concrete machine first.
    """

    def __init__(self, certified: Callable[[Findings], bool] = lambda _: True) -> None:
        self._certified = certified
        self._failing: list[Mapping[str, int]] = []

    def __call__(self, program: amir.Program) -> bool:
        if any(fast.run(program, at, locate=False).violations for at in self._failing):
            return False
        findings = analyse(program)
        if findings.violations:
            at = smallest_sizes(program, findings)
            if at is not None:
                self._failing.append(at)
        if findings.violations or findings.undecided:
            return False
        return self._certified(findings)


@dataclass(frozen=True, slots=True)
class Statement:
    """A synchronisation statement of the source, with the operations that it became."""

    span: Span
    text: str
    ops: tuple[Sync, ...]

    @property
    def barrier(self) -> Sym | None:
        """The barrier variable of an Arrive or Await."""
        match self.ops[0]:
            case amir.Arrive(home=home):
                return home.name
            case amir.Await(barrier=barrier):
                return barrier.name
            case _:
                return None


def redundant(
    program: amir.Program, proved: Proved | None = None, progress: Progress | None = None
) -> tuple[Redundancy, ...]:
    """Finds the statements that can be left out of a program or weakened, one at a time, so that it
    is still proved.

    The program itself is taken to be proved.  A barrier is left out whole where it can be, an
    Arrive and an Await together; statements that can be left out are not weakened.  `proved` is
    by default that the analysis finds nothing.
    """
    return tuple(_Search(program, proved or NothingFound(), progress).run())


class _Search:
    def __init__(self, program: amir.Program, proved: Proved, progress: Progress | None) -> None:
        self.program = program
        self.proved = proved
        self.progress = progress
        self.statements = statements(program)
        self.deleted: list[frozenset[Span]] = []
        self.tried = 0
        self.total = 0

    def run(self) -> Iterator[Redundancy]:
        candidates = list(self._deletions())
        sides = [(s, side) for s in self.statements for side in _sides(s)]
        self.total = len(candidates) + len(sides)
        for group, without in candidates:
            spans = frozenset(s.span for s in group)
            if not any(spans <= larger for larger in self.deleted) and self.proved(without):
                self.deleted.append(spans)
                texts = tuple(s.text for s in group)
                yield Redundancy("delete", tuple(s.span for s in group), texts)
            self._advance()
        gone = {span for spans in self.deleted for span in spans}
        for statement, side in sides:
            if statement.span not in gone:
                yield from self._weakened(statement, side)
            self._advance()

    def _advance(self) -> None:
        self.tried += 1
        if self.progress is not None:
            self.progress(self.tried, self.total)

    # --- leaving out ----------------------------------------------------------------------

    def _deletions(self) -> Iterator[tuple[tuple[Statement, ...], amir.Program]]:
        """Each whole barrier, each Arrive with each Await of a barrier, each statement alone.

        No Arrive that slots count: without it the program would access other elements.
        """
        counted = _counted_barriers(self.program)
        for name in dict.fromkeys(s.barrier for s in self.statements if s.barrier is not None):
            if name in counted:
                continue
            uses = tuple(s for s in self.statements if s.barrier == name)
            if not _signalled(self.program, name):
                yield uses, without_barrier(self.program, name)
            arrives = [s for s in uses if isinstance(s.ops[0], amir.Arrive)]
            awaits = [s for s in uses if isinstance(s.ops[0], amir.Await)]
            if len(uses) > 2:
                for pair in product(arrives, awaits):
                    yield pair, without_statements(self.program, pair)
        for statement in self.statements:
            if statement.barrier in counted and isinstance(statement.ops[0], amir.Arrive):
                continue
            yield (statement,), without_statements(self.program, [statement])

    # --- weakening ------------------------------------------------------------------------

    def _weakened(self, statement: Statement, side: Side) -> Iterator[Redundancy]:
        """The weakest timelines of the table that would do on one side, strongest first."""
        rows = _weaker(self.program, statement, side)
        failed: list[SyncTL] = []
        enough: list[SyncTL] = []
        for row in rows:
            if any(self._at_most(row, other, side) for other in failed):
                continue
            if self.proved(_replace_row(self.program, statement, side, row)):
                enough.append(row)
            else:
                failed.append(row)
        least = [
            row
            for row in enough
            if not any(other is not row and self._at_most(other, row, side) for other in enough)
        ]
        for row in least:
            text = _with_timeline(statement.text, side, row.name)
            if text is not None:
                texts = (statement.text,)
                yield Redundancy("weaken", (statement.span,), texts, text, side, row.name)

    def _at_most(self, row: SyncTL, other: SyncTL, side: Side) -> bool:
        """Tests whether one row orders no more than another on this side."""
        one, two = row.sets_under(self.program.policy), other.sets_under(self.program.policy)
        if side == "pre":
            return one.full <= two.full and row.transitive <= other.transitive
        return one.full <= two.full and one.temporal <= two.temporal


# --- statements -----------------------------------------------------------------------------------


def statements(program: amir.Program) -> tuple[Statement, ...]:
    """The synchronisation statements of the source, in program order; a launch's own fences are
    none."""
    found: dict[Span, list[Sync]] = {}
    for op in operations(program.body):
        if isinstance(op, amir.Fence | amir.Arrive | amir.Await) and not is_launch(op):
            found.setdefault(op.origin.span, []).append(op)
    return tuple(
        Statement(span, one_line(span, ops[0].origin.text), tuple(ops))
        for span, ops in found.items()
    )


def without_statements(program: amir.Program, dropped: Sequence[Statement]) -> amir.Program:
    """The program without some statements, the records that they make on barriers included."""
    spans = {statement.span for statement in dropped}
    return _change_operations(program, lambda op: () if op.origin.span in spans else (op,))


def without_barrier(program: amir.Program, name: Sym) -> amir.Program:
    """The program without a barrier variable and all that uses it.

    The rings that took turns with it have the depth that is then found for them (decision
    `mbarrier-phase`).
    """
    group = _guard_group(program, name)
    variables = tuple(
        replace(v, guard=None if v.guard == name else v.guard, depth=None) if v.name in group else v
        for v in program.variables
        if v.name != name
    )
    changed = _change_operations(program, lambda op: () if _is_about(op, name) else (op,))
    return replace(changed, variables=variables)


def _is_about(op: amir.Op, name: Sym) -> bool:
    """Tests whether an operation uses a variable, or requires something of it."""
    return name in variables_of(op) or (isinstance(op, amir.Require) and op.variable == name)


def _guard_group(program: amir.Program, name: Sym) -> frozenset[Sym]:
    """The barriers that take turns with one, transitively."""
    group = {name}
    while True:
        more = {
            other
            for v in program.variables
            if v.guard is not None and (v.name in group or v.guard in group)
            for other in (v.name, v.guard)
        }
        if more <= group:
            return frozenset(group)
        group |= more


def _counted_barriers(program: amir.Program) -> frozenset[Sym]:
    """The barriers whose Arrives slots count."""
    loops = (op for op in operations(program.body) if isinstance(op, amir.Loop))
    return frozenset(loop.slot.name for loop in loops if loop.slot is not None)


def _signalled(program: amir.Program, name: Sym) -> bool:
    """Tests whether an instruction trails on a barrier, which cannot be left out then."""
    return any(
        isinstance(op, amir.Record) and op.trailing is not None and op.trailing.home.name == name
        for op in operations(program.body)
    )


def _change_operations(
    program: amir.Program, change: Callable[[amir.Op], amir.Block]
) -> amir.Program:
    def body(block: amir.Block) -> amir.Block:
        made: list[amir.Op] = []
        for op in block:
            if isinstance(op, amir.Loop | amir.Guard):
                made.append(replace(op, body=body(op.body)))
            else:
                made += change(op)
        return tuple(made)

    return replace(program, body=body(program.body))


def _with_ops(
    program: amir.Program, statement: Statement, change: Callable[[Sync], Sync]
) -> amir.Program:
    return _change_operations(
        program,
        lambda op: (
            (change(op),)
            if isinstance(op, amir.Fence | amir.Arrive | amir.Await)
            and op.origin.span == statement.span
            else (op,)
        ),
    )


# --- timelines of statements --------------------------------------------------------------------

Side = Literal["pre", "post"]
"""The timelines of a statement: those that it takes, or those that it orders these before."""


def _sides(statement: Statement) -> tuple[Side, ...]:
    match statement.ops[0]:
        case amir.Fence():
            return ("pre", "post")
        case amir.Arrive():
            return ("pre",)
        case amir.Await():
            return ("post",)


def _post(op: Sync) -> SyncSets:
    assert isinstance(op, amir.Fence | amir.Await)
    return SyncSets(op.full, op.temporal)


def _ordering(program: amir.Program, statement: Statement, sets: SyncSets) -> amir.Program:
    """The program with other timelines on the second side of a Fence or Await."""

    def change(op: Sync) -> Sync:
        assert isinstance(op, amir.Fence | amir.Await)
        return replace(op, full=sets.full, temporal=sets.temporal)

    return _with_ops(program, statement, change)


def _weaker(program: amir.Program, statement: Statement, side: Side) -> list[SyncTL]:
    """The rows of the table that are weaker than the statement's, strongest first; of equal ones
    the first.  An empty one is left out: it is as good as no statement."""
    op = statement.ops[0]
    found: dict[object, SyncTL] = {}
    for row in SYNC_TIMELINES.values():
        sets = row.sets_under(program.policy)
        if side == "pre":
            assert isinstance(op, amir.Fence | amir.Arrive)
            mine: object = (op.transitive, op.pre)
            key: object = (row.transitive, sets.full)
            weaker = sets.full <= op.pre and row.transitive <= op.transitive
        else:
            mine, key = _post(op), sets
            weaker = sets.full <= _post(op).full and sets.temporal <= _post(op).temporal
        entries = sets.full if side == "pre" else sets.temporal
        if weaker and key != mine and entries:
            found.setdefault(key, row)
    return sorted(found.values(), key=lambda row: -_size(row, program))


def _size(row: SyncTL, program: amir.Program) -> int:
    sets = row.sets_under(program.policy)
    return 2 * len(sets.full) + len(sets.temporal) + row.transitive


def _replace_row(
    program: amir.Program, statement: Statement, side: Side, row: SyncTL
) -> amir.Program:
    sets = row.sets_under(program.policy)
    if side == "post":
        return _ordering(program, statement, sets)

    def change(op: Sync) -> Sync:
        assert isinstance(op, amir.Fence | amir.Arrive)
        return replace(op, pre=sets.full, transitive=row.transitive)

    return _with_ops(program, statement, change)


def _with_timeline(text: str, side: Side, name: str) -> str | None:
    """The statement with another timeline on one side; None where its text is not all there."""
    try:
        parsed = ast.parse(text, mode="eval")
    except SyntaxError:  # the first line of several
        return None
    at = 0 if side == "pre" else 1
    for node in ast.walk(parsed):
        match node:
            case ast.Call(func=ast.Name(id="Fence" | "Arrive" | "Await"), args=args) if at < len(
                args
            ):
                # Offsets count bytes.
                whole, old = text.encode(), args[at]
                before, after = whole[: old.col_offset], whole[old.end_col_offset :]
                return f"{before.decode()}{name}{after.decode()}"
            case _:
                pass
    return None
