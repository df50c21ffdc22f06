"""Mutants of lowered kernels: one mistake in one synchronisation statement, or in one ring index.

A mutant changes every operation that one source statement was lowered to, as the same change in the
source would.
"""

from __future__ import annotations

from collections.abc import Callable, Hashable, Iterable, Iterator, Mapping
from collections.abc import Set as AbstractSet
from dataclasses import dataclass, fields, replace
from typing import Final

from exogpu.amir import nodes as amir
from exogpu.amir.walk import operations, rewritten
from exogpu.diagnostics.errors import Span
from exogpu.hw.timelines import SHORT_NAME
from exogpu.ir.nodes import Access, Add, Int, Mod, Point
from exogpu.ir.types import BarrierMechanism, QualTL

Sync = amir.Fence | amir.Arrive | amir.Await

Edits = Mapping[amir.Op, amir.Block]
"""What takes the place of an operation."""


@dataclass(frozen=True, slots=True)
class Mutant:
    """A program with one mistake."""

    operator: str
    """The kind of mistake."""
    what: str
    span: Span
    text: str
    """The statement, on one line."""
    program: amir.Program

    @property
    def label(self) -> str:
        return f"line {self.span.line}: {self.operator} {self.what}".rstrip()


def mutants(program: amir.Program) -> Iterator[Mutant]:
    """All of them, each program once."""
    seen: set[Hashable] = set()
    for operator, mutate in OPERATORS.items():
        for what, op, edits in mutate(program):
            mutant = replace(program, body=rewritten(program.body, edits))
            if operator == "skip":
                mutant = with_depths(program, mutant)
            changed = frozenset((old, tuple(map(_content, new))) for old, new in edits.items())
            key = (changed, mutant.variables)
            if key in seen:
                continue
            seen.add(key)
            yield Mutant(operator, what, op.origin.span, op.origin.text, mutant)


def _content(op: amir.Op) -> Hashable:
    return (type(op), *(getattr(op, field.name) for field in fields(op)))


# --- statements -------------------------------------------------------------------------------


def syncs(program: amir.Program) -> list[tuple[Sync, ...]]:
    """The synchronisation statements; the operations of one differ in their elements at most."""
    found: dict[Hashable, list[Sync]] = {}
    for op in operations(program.body):
        if isinstance(op, Sync):
            same = op.n if isinstance(op, amir.Await) else op.transitive
            sides = tuple(getattr(op, side, None) for side in SIDES)
            found.setdefault((op.origin.span, type(op), same, sides), []).append(op)
    return [tuple(statement) for statement in found.values()]


def barriers(program: amir.Program) -> set[object]:
    return {v.name for v in program.variables if v.mechanism is not None}


def uses_of_barrier(program: amir.Program, span: Span) -> Iterator[amir.Record]:
    """The Records of a statement's own use of its barriers."""
    names = barriers(program)
    for op in operations(program.body):
        if isinstance(op, amir.Record) and op.origin.span == span and op.access.name in names:
            yield op


def trailing(program: amir.Program) -> list[tuple[amir.Record, ...]]:
    """By statement, the Records with a trailing barrier."""
    found: dict[Span, list[amir.Record]] = {}
    for op in operations(program.body):
        if isinstance(op, amir.Record) and op.trailing is not None:
            found.setdefault(op.origin.span, []).append(op)
    return [tuple(statement) for statement in found.values()]


# --- operators --------------------------------------------------------------------------------

SIDES: Final = ("pre", "full", "temporal")

Change = tuple[str, amir.Op, Edits]
"""In words, at which operation, and the change."""


def without(program: amir.Program) -> Iterator[Change]:
    """Each synchronisation statement deleted, and each trailing barrier."""
    for statement in syncs(program):
        uses = uses_of_barrier(program, statement[0].origin.span)
        yield type(statement[0]).__name__, statement[0], {op: () for op in (*statement, *uses)}
    for records in trailing(program):
        edits: dict[amir.Op, amir.Block] = {}
        for record in records:
            # A record without timeline is the barrier's own.
            bare = (replace(record, trailing=None),) if record.timeline else ()
            edits[record] = bare
        yield "trailing barrier", records[0], edits


def temporal(program: amir.Program) -> Iterator[Change]:
    """All full entries made temporal, and each one alone."""
    for statement in syncs(program):
        first = statement[0]
        if isinstance(first, amir.Arrive):
            continue
        if first.full:
            yield "all", first, each(statement, without_full(first.full))
        for q in ordered(first.full):
            yield SHORT_NAME[q], first, each(statement, without_full({q}))


def removed(program: amir.Program) -> Iterator[Change]:
    """One entry removed: from the pre side, or from the post side."""
    for statement in syncs(program):
        first = statement[0]
        if not isinstance(first, amir.Await):
            for q in ordered(first.pre):
                yield f"{SHORT_NAME[q]} from pre", first, each(statement, narrowed(q, "pre"))
        if not isinstance(first, amir.Arrive):
            for q in ordered(first.temporal):
                sides = ("full", "temporal")
                yield f"{SHORT_NAME[q]} from post", first, each(statement, narrowed(q, *sides))


def intransitive(program: amir.Program) -> Iterator[Change]:
    """A transitive sync made intransitive."""
    for statement in syncs(program):
        first = statement[0]
        if not isinstance(first, amir.Await) and first.transitive:
            yield "", first, each(statement, lambda op: replace(op, transitive=False))


def skip(program: amir.Program) -> Iterator[Change]:
    """Each skip count one more and one less; the ring's depth follows, unless it is the same."""
    for statement in syncs(program):
        first = statement[0]
        if not isinstance(first, amir.Await):
            continue
        for n in (first.n - 1, first.n + 1):
            if (n < 0) == (first.n < 0):
                yield f"{first.n} to {n}", first, each(statement, with_skip(n))


def index(program: amir.Program) -> Iterator[Change]:
    """Each index of a barrier's element, and each remainder in another access, one further.

    An index without remainder wraps at the variable's extent.
    """
    extents = {v.name: v.shape for v in program.variables}
    own = barriers(program)
    statements: dict[Span, list[amir.Op]] = {}
    for op in operations(program.body):
        statements.setdefault(op.origin.span, []).append(op)
    for ops in statements.values():
        for name, dim in dict.fromkeys(at for op in ops for at in points(op)):
            extent = extents[name][dim]
            wrap = extent.value if name in own and isinstance(extent, Int) else 0
            edits: dict[amir.Op, amir.Block] = {}
            for op in ops:
                moved = with_accesses(op, lambda a: shifted(a, name, dim, wrap))  # noqa: B023
                if moved is not op:
                    edits[op] = (moved,)
            if edits:
                yield f"{name}[{dim}]", next(iter(edits)), edits


OPERATORS: Final[Mapping[str, Callable[[amir.Program], Iterable[Change]]]] = {
    "without": without,
    "temporal": temporal,
    "removed": removed,
    "intransitive": intransitive,
    "skip": skip,
    "skip, same depth": skip,
    "index": index,
}


# --- parts ------------------------------------------------------------------------------------


def ordered(timelines: Iterable[QualTL]) -> list[QualTL]:
    return sorted(timelines, key=list(SHORT_NAME).index)


def each(statement: Iterable[Sync], change: Callable[[Sync], Sync]) -> Edits:
    return {op: (change(op),) for op in statement}


def without_full(entries: AbstractSet[QualTL]) -> Callable[[Sync], Sync]:
    return lambda op: replace(op, full=op.full - entries)


def with_skip(n: int) -> Callable[[Sync], Sync]:
    return lambda op: replace(op, n=n)


def narrowed(q: QualTL, *sides: str) -> Callable[[Sync], Sync]:
    return lambda op: replace(op, **{side: getattr(op, side) - {q} for side in sides})


def accesses(op: amir.Op) -> tuple[Access, ...]:
    match op:
        case amir.Record():
            mine = op.trailing
            return (op.access, *((mine.home, *mine.targets) if mine else ()))
        case amir.Check() | amir.Clear():
            return (op.access,)
        case amir.Arrive():
            return (op.home, *op.targets)
        case amir.Await():
            return (op.barrier,)
        case _:
            return ()


def points(op: amir.Op) -> Iterator[tuple[object, int]]:
    for access in accesses(op):
        for dim, coord in enumerate(access.coords):
            if isinstance(coord, Point):
                yield access.name, dim


def with_accesses(op: amir.Op, change: Callable[[Access], Access]) -> amir.Op:
    """The operation with each access changed; the same one if none is."""
    if all(change(access) == access for access in accesses(op)):
        return op
    match op:
        case amir.Record(trailing=amir.Trailing() as mine):
            moved = amir.Trailing(change(mine.home), tuple(map(change, mine.targets)))
            return replace(op, access=change(op.access), trailing=moved)
        case amir.Record() | amir.Check() | amir.Clear():
            return replace(op, access=change(op.access))
        case amir.Arrive():
            return replace(op, home=change(op.home), targets=tuple(map(change, op.targets)))
        case amir.Await():
            return replace(op, barrier=change(op.barrier))
        case _:
            raise AssertionError(op)


def shifted(access: Access, name: object, dim: int, wrap: int) -> Access:
    coord = access.coords[dim] if access.name == name else None
    if not isinstance(coord, Point):
        return access
    if isinstance(coord.at, Mod):
        at = replace(coord.at, term=Add(coord.at.term, Int(1)))
    elif wrap > 1:
        at = Mod(Add(coord.at, Int(1)), wrap)
    else:
        return access
    coords = (*access.coords[:dim], Point(at), *access.coords[dim + 1 :])
    return replace(access, coords=coords)


def with_depths(program: amir.Program, mutant: amir.Program) -> amir.Program:
    """The mutant with ring depths as much deeper as the skips of the guard group are now."""

    def skips(of: amir.Program, guard: object) -> int:
        group = {v.name for v in of.variables if guard in (v.name, v.guard)}
        deepest = dict.fromkeys(group, 0)
        for op in operations(of.body):
            if isinstance(op, amir.Await) and op.barrier.name in group and op.n < 0:
                deepest[op.barrier.name] = max(deepest[op.barrier.name], -op.n - 1)
        return sum(deepest.values())

    def moved(v: amir.Variable) -> amir.Variable:
        if v.mechanism is not BarrierMechanism.MBARRIER or v.depth is None:
            return v
        guard = v.guard or v.name
        return replace(v, depth=v.depth + skips(mutant, guard) - skips(program, guard))

    return replace(mutant, variables=tuple(map(moved, mutant.variables)))
