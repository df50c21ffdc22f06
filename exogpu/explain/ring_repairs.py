"""Repairs that keep a ring's stages in flight: a group drained after its loop, a slot released a
step later, the slots of a ring counted from task to task."""

from __future__ import annotations

from collections.abc import Callable, Iterator
from dataclasses import replace

from exogpu.diagnostics.errors import Span
from exogpu.diagnostics.hazards import Replacement
from exogpu.explain import insertion_points as points
from exogpu.explain.patch import reindexed
from exogpu.hw.timelines import ORDINARY, SYNC_TIMELINES
from exogpu.ir import nodes as ir
from exogpu.ir import render
from exogpu.ir.types import BarrierMechanism, Space, Sym
from exogpu.ir.walk import accesses, control_variables, declarations


def _loop_around(path: points.Path) -> int | None:
    """The place in a path of the outermost loop in order around its statement."""
    return next(
        (
            at
            for at, s in enumerate(path[:-1])
            if isinstance(s, ir.For) and isinstance(s.mode, ir.Seq)
        ),
        None,
    )


def _scopes(around: points.Path) -> list[ir.Stmt]:
    """Selects the statements around another that choose the threads that execute it."""
    return [
        stmt
        for stmt in around
        if isinstance(stmt, ir.Warps)
        or (isinstance(stmt, ir.For) and isinstance(stmt.mode, ir.CudaThreads))
    ]


def _wrap_in_scopes(scopes: list[ir.Stmt], stmt: ir.Stmt) -> ir.Stmt:
    """The statement in scopes like others, the outermost first."""
    for scope in reversed(scopes):
        match scope:
            case ir.For() | ir.Warps():
                stmt = replace(scope, body=(stmt,))
            case _:
                raise AssertionError(scope)
    return stmt


# --- once before or after a loop ----------------------------------------------------------------


def drained(proc: ir.Proc, arrive: Span) -> Iterator[points.Rewritten]:
    """After the loop, each thread waits for all that it has committed in it."""

    def wait(of: ir.Stmt, span: Span) -> ir.Stmt | None:
        if not isinstance(of, ir.Arrive):
            return None
        return ir.Await(of.targets[0], SYNC_TIMELINES[ORDINARY], 0, span=span)

    yield from _beside_loop(proc, arrive, True, wait)


def beside_loop(proc: ir.Proc, sync: Span, after: bool) -> Iterator[points.Rewritten]:
    """A statement once more before or after its loop, by the same threads."""

    def copy(of: ir.Stmt, span: Span) -> ir.Stmt | None:
        match of:
            case ir.Arrive() | ir.Await():
                return replace(of, span=span)
            case _:
                return None

    yield from _beside_loop(proc, sync, after, copy)


def _beside_loop(
    proc: ir.Proc, sync: Span, after: bool, new: Callable[[ir.Stmt, Span], ir.Stmt | None]
) -> Iterator[points.Rewritten]:
    """Puts what is made of a statement before or after its outermost loop, in the same scopes."""
    by_gap: dict[points.Gap, ir.Stmt] = {}
    for path in points.paths_to(proc, sync):
        at = _loop_around(path)
        made = None if at is None else new(path[-1], path[at].span)
        if at is None or made is None or _reads_steps(path[at:]):
            return
        gap = points.Gap(path[at], after, path[:at])
        by_gap[gap] = _wrap_in_scopes(_scopes(path[at + 1 : -1]), made)
    found = points.with_new(proc, list(by_gap), lambda gap: (by_gap[gap],))
    yield from () if found is None else (found,)


def _reads_steps(path: points.Path) -> bool:
    """Returns whether a statement reads the iterator of a loop in order around it."""
    steps = {s.iterator for s in path if isinstance(s, ir.For) and isinstance(s.mode, ir.Seq)}
    coords = [coord for access in accesses(path[-1]) for coord in access.coords]
    return any(isinstance(c, ir.Point) and control_variables(c.at) & steps for c in coords)


# --- a slot released a step later ---------------------------------------------------------------


def delayed(proc: ir.Proc, arrive: Span, wait: Span) -> Iterator[points.Rewritten]:
    """In each step but the first the Arrive is for the step before, whose accesses the Await of
    this step has waited for; after the loop it is for the last."""
    several, waits = points.paths_to(proc, arrive), points.paths_to(proc, wait)
    if len(several) != 1 or len(waits) != 1:
        return
    path, (waiting,) = several[0], waits
    release, of = path[-1], waiting[-1]
    common = [s for s, other in zip(path, waiting, strict=False) if s is other]
    steps = [s for s in common if isinstance(s, ir.For) and isinstance(s.mode, ir.Seq)]
    if not (isinstance(release, ir.Arrive) and isinstance(of, ir.Await) and steps):
        return
    loop = steps[-1]
    at = next(n for n, stmt in enumerate(path) if stmt is loop)
    later = ir.Compare(">", ir.CVar(loop.iterator), loop.lo)
    guarded = ir.If(later, (replace(release),), span=release.span)
    block = path[at - 1].body if at else proc.body  # type: ignore[union-attr]
    behind = block[next(n for n, stmt in enumerate(block) if stmt is loop) + 1 :]
    scopes = _scopes(path[at + 1 : -1])
    # First where the last group is waited for.
    order = sorted(behind, key=lambda stmt: not _waits_for(stmt, of.barrier.name))
    for stmt in order:
        gap = points.Gap(stmt, True, path[:at])
        last = _wrap_in_scopes(scopes, replace(release, span=stmt.span))
        made = points.rebuilt(
            proc, {id(release): (guarded,), id(stmt): points.insert_at(gap, last)}
        )
        header, *_ = points.source(guarded)
        lines = points.source(last)
        line = release.span.line
        text = (
            f"release in each step the slot of the step before: put `{header}` before the Arrive "
            f"of line {line}, which is indented by 4 more, and add `{points.joined(lines)}` "
            f"{points.in_words(gap)}"
        )
        change = points.pasted(gap, *lines)
        indent = " " * (release.span.column + 3)
        deeper = Replacement(release.span, f"{header}\n{indent}{points.source(release)[0]}")
        yield points.Rewritten(made, text, () if change is None else ((deeper, change),))


def _waits_for(stmt: ir.Stmt, group: Sym) -> bool:
    return any(
        isinstance(path[-1], ir.Await) and path[-1].barrier.name == group and path[-1].n == 0
        for path in points.paths((stmt,))
    )


# --- slots counted from task to task ------------------------------------------------------------


def count_ring_steps(proc: ir.Proc, name: Sym) -> Iterator[points.Rewritten]:
    """The rings that reside, indexed by what was loaded and used so far: a step's number starts
    with 0 in each task, and a ring does not."""
    dims = _rings(proc, name)
    anew: dict[int, tuple[ir.Stmt, ...]] = {}
    lines: dict[Sym, dict[int, Span]] = {}
    old = ""
    for path in points.paths(proc.body):
        stmt = path[-1]
        used = [a for a in accesses(stmt) if a.name in dims]
        if not used:
            continue
        barrier = _counting_barrier(proc, path)
        if barrier is None:
            return
        ring = _ring_of(used[0].coords[dims[used[0].name]])
        assert ring is not None
        old = old or render.control(ring[0], lambda one: one.name)
        iterator = Sym(f"slot_{barrier.name}")
        inner = _indexed(stmt, dims, iterator)
        loop = ir.For(
            iterator, ir.Int(0), ir.Int(ring[1]), ir.Slot(barrier), (inner,), span=stmt.span
        )
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
    yield points.Rewritten(points.rebuilt(proc, anew), text, (change,) if change else ())


def _at_lines(lines: list[int]) -> str:
    if len(lines) == 1:
        return f"line {lines[0]}"
    return f"lines {', '.join(map(str, lines[:-1]))} and {lines[-1]}"


def _rings(proc: ir.Proc, name: Sym) -> dict[Sym, int]:
    """The variables that reside, and which dimension of each is indexed modulo its constant extent
    wherever it is accessed; with as many slots as that of the name."""
    resident = {
        path[-1].name
        for path in points.paths(proc.body)
        if isinstance(path[-1], ir.Alloc)
        and path[-1].memory.space is Space.SHARED
        and not any(isinstance(s, ir.For) and isinstance(s.mode, ir.CudaTasks) for s in path)
    }
    found: dict[Sym, dict[int, int]] = {}
    for path in points.paths(proc.body):
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


def _ring_of(coord: ir.Coord) -> tuple[ir.Mod, int] | None:
    match coord:
        case ir.Point(at=ir.Mod() as at):
            return at, at.divisor
        case _:
            return None


def _counting_barrier(proc: ir.Proc, path: points.Path) -> Sym | None:
    """The mbarrier on which the threads of a statement arrive in its step: as often, when the
    statement begins, as there were steps before."""
    declared = declarations(proc)

    def counts(name: Sym) -> bool:
        alloc = declared.get(name)
        return isinstance(alloc, ir.BarrierAlloc) and alloc.mechanism is BarrierMechanism.MBARRIER

    stmt = path[-1]
    if isinstance(stmt, ir.CallInstr) and stmt.trailing is not None and counts(stmt.trailing.name):
        return stmt.trailing.name
    steps = [s for s in path if isinstance(s, ir.For) and isinstance(s.mode, ir.Seq)]
    role = next((s for s in path if isinstance(s, ir.Warps)), None)
    for other in points.paths(proc.body):
        last = other[-1]
        if isinstance(last, ir.Arrive) and counts(last.targets[0].name) and steps[:1]:
            same = next((s for s in other if isinstance(s, ir.Warps)), None)
            if any(s is steps[0] for s in other) and _same_role(role, same):
                return last.targets[0].name
    return None


def _same_role(first: ir.Warps | None, second: ir.Warps | None) -> bool:
    if first is None or second is None:
        return first is second
    return (first.lo, first.hi, first.group) == (second.lo, second.hi, second.group)


def _indexed(stmt: ir.Stmt, dims: dict[Sym, int], slot: Sym) -> ir.Stmt:
    """The statement with another index of these variables."""

    def access(old: ir.Access) -> ir.Access:
        at = dims.get(old.name)
        return old if at is None else with_index(old, at, ir.CVar(slot))

    return with_accesses(stmt, access)


def with_index(access: ir.Access, at: int, index: ir.CExpr) -> ir.Access:
    """The access with another point in one dimension."""
    return replace(access, coords=(*access.coords[:at], ir.Point(index), *access.coords[at + 1 :]))


def with_accesses(stmt: ir.Stmt, access: Callable[[ir.Access], ir.Access]) -> ir.Stmt:
    """The statement with other accesses of data."""

    def data(expr: ir.DExpr) -> ir.DExpr:
        match expr:
            case ir.Read():
                return replace(expr, access=access(expr.access))
            case ir.BinOp():
                return replace(expr, left=data(expr.left), right=data(expr.right))
            case ir.Negate():
                return replace(expr, term=data(expr.term))
            case ir.Apply():
                return replace(expr, arguments=tuple(map(data, expr.arguments)))
            case _:
                return expr

    match stmt:
        case ir.CallInstr():
            given = tuple(access(a) if isinstance(a, ir.Access) else a for a in stmt.arguments)
            return replace(stmt, arguments=given)
        case ir.Assign() | ir.Reduce():
            return replace(stmt, target=access(stmt.target), value=data(stmt.value))
        case _:
            return stmt
