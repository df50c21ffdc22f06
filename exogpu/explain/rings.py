"""Repairs that keep a ring's stages in flight: a group drained after its loop, a slot released a
step later, the slots of a ring counted from task to task."""

from __future__ import annotations

from collections.abc import Iterator
from dataclasses import replace

from exogpu.explain.pasting import reindexed
from exogpu.explain.places import (
    Gap,
    Path,
    Rewritten,
    in_words,
    joined,
    pasted,
    paths,
    paths_to,
    put,
    rebuilt,
    source,
    with_new,
)
from exogpu.hw.timelines import ORDINARY, SYNC_TIMELINES
from exogpu.ir import print_expressions
from exogpu.ir.names import Sym
from exogpu.ir.nodes import (
    Access,
    Alloc,
    Apply,
    Arrive,
    Assign,
    Await,
    BarrierAlloc,
    BinOp,
    CallInstr,
    Compare,
    Coord,
    CudaTasks,
    CudaThreads,
    CVar,
    DExpr,
    For,
    If,
    Int,
    Mod,
    Negate,
    Point,
    Proc,
    Read,
    Reduce,
    Seq,
    Slot,
    Stmt,
    Warps,
)
from exogpu.ir.types import BarrierMechanism, Space
from exogpu.ir.walk import accesses, declarations
from exogpu.result.errors import Span
from exogpu.result.hazards import Replacement


def _loop_around(path: Path) -> int | None:
    """The place in a path of the outermost loop in order around its statement."""
    return next(
        (at for at, s in enumerate(path[:-1]) if isinstance(s, For) and isinstance(s.mode, Seq)),
        None,
    )


def _scopes(around: Path) -> list[Stmt]:
    """Selects the statements around another that choose the threads that execute it."""
    return [
        stmt
        for stmt in around
        if isinstance(stmt, Warps) or (isinstance(stmt, For) and isinstance(stmt.mode, CudaThreads))
    ]


def _within(scopes: list[Stmt], stmt: Stmt) -> Stmt:
    """The statement in scopes like others, the outermost first."""
    for scope in reversed(scopes):
        match scope:
            case For() | Warps():
                stmt = replace(scope, body=(stmt,))
            case _:
                raise AssertionError(scope)
    return stmt


# --- a group drained after its loop -------------------------------------------------------------


def drained(proc: Proc, arrive: Span) -> Iterator[Rewritten]:
    """After the loop, each thread waits for all that it has committed in it."""
    gaps: list[Gap] = []
    scopes: list[list[Stmt]] = []
    found: list[Arrive] = []
    for path in paths_to(proc, arrive):
        at = _loop_around(path)
        if at is None or not isinstance(path[-1], Arrive):
            return
        gaps.append(Gap(path[at], True, path[:at]))
        scopes.append(_scopes(path[at + 1 : -1]))
        found.append(path[-1])
    by_gap = {gap: (of, some) for gap, of, some in zip(gaps, found, scopes, strict=True)}

    def make(gap: Gap) -> tuple[Stmt, ...]:
        of, some = by_gap[gap]
        wait = Await(of.targets[0], SYNC_TIMELINES[ORDINARY], 0, span=gap.anchor.span)
        return (_within(some, wait),)

    made = with_new(proc, gaps, make)
    yield from () if made is None else (made,)


# --- a slot released a step later ---------------------------------------------------------------


def delayed(proc: Proc, arrive: Span, wait: Span) -> Iterator[Rewritten]:
    """In each step but the first the Arrive is for the step before, whose accesses the Await of
    this step has waited for; after the loop it is for the last."""
    several, waits = paths_to(proc, arrive), paths_to(proc, wait)
    if len(several) != 1 or len(waits) != 1:
        return
    path, (waiting,) = several[0], waits
    release, of = path[-1], waiting[-1]
    common = [s for s, other in zip(path, waiting, strict=False) if s is other]
    steps = [s for s in common if isinstance(s, For) and isinstance(s.mode, Seq)]
    if not (isinstance(release, Arrive) and isinstance(of, Await) and steps):
        return
    loop = steps[-1]
    at = next(n for n, stmt in enumerate(path) if stmt is loop)
    later = Compare(">", CVar(loop.iterator), loop.lo)
    guarded = If(later, (replace(release),), span=release.span)
    block = path[at - 1].body if at else proc.body  # type: ignore[union-attr]
    behind = block[next(n for n, stmt in enumerate(block) if stmt is loop) + 1 :]
    scopes = _scopes(path[at + 1 : -1])
    # First where the last group is waited for.
    order = sorted(behind, key=lambda stmt: not _waits_for(stmt, of.barrier.name))
    for stmt in order:
        gap = Gap(stmt, True, path[:at])
        last = _within(scopes, replace(release, span=stmt.span))
        made = rebuilt(proc, {id(release): (guarded,), id(stmt): put(gap, last)})
        header, *_ = source(guarded)
        lines = source(last)
        line = release.span.line
        text = (
            f"release in each step the slot of the step before: put `{header}` before the Arrive "
            f"of line {line}, which is indented by 4 more, and add `{joined(lines)}` "
            f"{in_words(gap)}"
        )
        change = pasted(gap, *lines)
        indent = " " * (release.span.column + 3)
        deeper = Replacement(release.span, f"{header}\n{indent}{source(release)[0]}")
        yield Rewritten(made, text, () if change is None else ((deeper, change),))


def _waits_for(stmt: Stmt, group: Sym) -> bool:
    return any(
        isinstance(path[-1], Await) and path[-1].barrier.name == group and path[-1].n == 0
        for path in paths((stmt,))
    )


# --- slots counted from task to task ------------------------------------------------------------


def counted(proc: Proc, name: Sym) -> Iterator[Rewritten]:
    """The rings that reside, indexed by what was loaded and used so far: a step's number starts
    with 0 in each task, and a ring does not."""
    dims = _rings(proc, name)
    anew: dict[int, tuple[Stmt, ...]] = {}
    lines: dict[Sym, dict[int, Span]] = {}
    old = ""
    for path in paths(proc.body):
        stmt = path[-1]
        used = [a for a in accesses(stmt) if a.name in dims]
        if not used:
            continue
        barrier = _counting(proc, path)
        if barrier is None:
            return
        ring = _ring_of(used[0].coords[dims[used[0].name]])
        assert ring is not None
        old = old or print_expressions.control(ring[0], lambda one: one.name)
        iterator = Sym(f"slot_{barrier.name}")
        inner = _indexed(stmt, dims, iterator)
        loop = For(iterator, Int(0), Int(ring[1]), Slot(barrier), (inner,), span=stmt.span)
        anew[id(stmt)] = (loop,)
        lines.setdefault(barrier, {})[stmt.span.line] = stmt.span
    if not anew:
        return
    each = [f"by slot({of.name}) at {_at_lines(list(at))}" for of, at in lines.items()]
    rings = " and ".join(dict.fromkeys(one.name for one in dims))
    text = (
        f"index {rings} {' and '.join(each)}, in the place of {old}: it begins anew in each task, "
        "and the barriers go on"
    )
    numbers = {one.name: at for one, at in dims.items()}
    try:
        change = tuple(
            one
            for of, at in lines.items()
            for span in at.values()
            for one in reindexed(span, numbers, f"slot({of.name})")
        )
    except (ValueError, IndexError, SyntaxError):
        change = ()
    yield Rewritten(rebuilt(proc, anew), text, (change,) if change else ())


def _at_lines(lines: list[int]) -> str:
    if len(lines) == 1:
        return f"line {lines[0]}"
    return f"lines {', '.join(map(str, lines[:-1]))} and {lines[-1]}"


def _rings(proc: Proc, name: Sym) -> dict[Sym, int]:
    """The variables that reside, and which dimension of each is indexed modulo its constant extent
    wherever it is accessed; with as many slots as that of the name."""
    resident = {
        path[-1].name
        for path in paths(proc.body)
        if isinstance(path[-1], Alloc)
        and path[-1].memory.space is Space.SHARED
        and not any(isinstance(s, For) and isinstance(s.mode, CudaTasks) for s in path)
    }
    found: dict[Sym, dict[int, int]] = {}
    for path in paths(proc.body):
        for access in accesses(path[-1]):
            if access.name in resident:
                here = {at: ring[1] for at, c in enumerate(access.coords) if (ring := _ring_of(c))}
                known = found.get(access.name)
                same = here if known is None else dict(known.items() & here.items())
                found[access.name] = same
    wanted = set(found.get(name, {}).values())
    dims = {
        of: next((at for at, n in some.items() if n in wanted), -1) for of, some in found.items()
    }
    return {of: at for of, at in dims.items() if at >= 0} if name in found else {}


def _ring_of(coord: Coord) -> tuple[Mod, int] | None:
    match coord:
        case Point(at=Mod() as at):
            return at, at.divisor
        case _:
            return None


def _counting(proc: Proc, path: Path) -> Sym | None:
    """The mbarrier on which the threads of a statement arrive in its step: as often, when the
    statement begins, as there were steps before."""
    declared = declarations(proc)

    def counts(name: Sym) -> bool:
        alloc = declared.get(name)
        return isinstance(alloc, BarrierAlloc) and alloc.mechanism is BarrierMechanism.MBARRIER

    stmt = path[-1]
    if isinstance(stmt, CallInstr) and stmt.trailing is not None and counts(stmt.trailing.name):
        return stmt.trailing.name
    steps = [s for s in path if isinstance(s, For) and isinstance(s.mode, Seq)]
    role = next((s for s in path if isinstance(s, Warps)), None)
    for other in paths(proc.body):
        last = other[-1]
        if isinstance(last, Arrive) and counts(last.targets[0].name) and steps[:1]:
            same = next((s for s in other if isinstance(s, Warps)), None)
            if any(s is steps[0] for s in other) and _same_role(role, same):
                return last.targets[0].name
    return None


def _same_role(first: Warps | None, second: Warps | None) -> bool:
    if first is None or second is None:
        return first is second
    return (first.lo, first.hi, first.group) == (second.lo, second.hi, second.group)


def _indexed(stmt: Stmt, dims: dict[Sym, int], slot: Sym) -> Stmt:
    """The statement with another index of these variables."""

    def access(old: Access) -> Access:
        if old.name not in dims:
            return old
        at = dims[old.name]
        return replace(old, coords=(*old.coords[:at], Point(CVar(slot)), *old.coords[at + 1 :]))

    def data(expr: DExpr) -> DExpr:
        match expr:
            case Read():
                return replace(expr, access=access(expr.access))
            case BinOp():
                return replace(expr, left=data(expr.left), right=data(expr.right))
            case Negate():
                return replace(expr, term=data(expr.term))
            case Apply():
                return replace(expr, arguments=tuple(map(data, expr.arguments)))
            case _:
                return expr

    match stmt:
        case CallInstr():
            given = tuple(access(a) if isinstance(a, Access) else a for a in stmt.arguments)
            return replace(stmt, arguments=given)
        case Assign() | Reduce():
            return replace(stmt, target=access(stmt.target), value=data(stmt.value))
        case _:
            return stmt
