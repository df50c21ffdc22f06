"""Slots of barriers that outlive a task: numbers of one cluster alone (decision `private-slot`).

with CudaDeviceFunction(blockDim=64):
    tile: f32[3, 32] @ CudaSmemLinear
    full: barrier @ CudaMbarrier          # counts the Arrives of all tasks of this cluster
    for m in cuda_tasks(0, M):
        ... tile[slot(full), t] ...       # an element of the cluster's own
        ... y[slot(full), t] ...          # which element it is depends on the cluster

Such a number indexes memory that lives as long as the barrier, whose accesses all go through slots
of barriers that count alike; it is no value, condition, bound or index of anything else.
"""

from __future__ import annotations

from collections.abc import Iterator, Mapping, Sequence
from dataclasses import dataclass, field
from itertools import islice, product
from typing import Final

from exogpu.analysis.barriers import first_home
from exogpu.diagnostics.errors import Diagnostic, Note, Span
from exogpu.frontend.quote import quote_access, source_text
from exogpu.ir import nodes as ir
from exogpu.ir import walk
from exogpu.ir.types import Space, Sym

COUNT_STEPS: Final = (
    "count the steps of the task, or declare the barrier inside the innermost cuda_tasks loop, "
    "where it counts from 0 in each task"
)

_TRIED: Final = 40
"""Sizes at which the Arrives of a task are counted."""


@dataclass(frozen=True, slots=True)
class _Bound:
    """A slot of a barrier that outlives a task."""

    barrier: ir.BarrierAlloc
    ring: int
    span: Span
    name: str
    """As it is written where it is bound: `slot(full)`."""


@dataclass(frozen=True, slots=True)
class _Index:
    """The index of an access into one dimension of memory that outlives a task."""

    bound: _Bound | None
    guards: tuple[ir.BExpr, ...]
    access: ir.Access


@dataclass(slots=True)
class _Task:
    """The accesses of one task to memory that outlives it."""

    loops: tuple[ir.For, ...]
    body: ir.Block
    indexed: dict[tuple[Sym, int], list[_Index]] = field(default_factory=dict)


def check(proc: ir.Proc) -> Iterator[Diagnostic]:
    """The slots that are more than an index of a cluster's own memory, in a procedure without
    windows and calls of procedures."""
    for launch in walk.walk(proc.body):
        if isinstance(launch, ir.DeviceFunction):
            lasting = {s.name: s for s in launch.body if isinstance(s, ir.Alloc | ir.BarrierAlloc)}
            if any(isinstance(one, ir.BarrierAlloc) for one in lasting.values()):
                yield from _Launch(proc, lasting).check(launch)


class _Launch:
    """A launch in which barriers outlive tasks."""

    def __init__(self, proc: ir.Proc, lasting: Mapping[Sym, ir.Alloc | ir.BarrierAlloc]) -> None:
        self.proc = proc
        self.lasting = lasting
        self.sizes = {p.name for p in proc.params if isinstance(p, ir.ControlParam)}
        self.memories = {p.name: p.memory for p in proc.params if isinstance(p, ir.DataParam)}
        self.memories |= {s.name: s.memory for s in walk.walk(proc.body) if isinstance(s, ir.Alloc)}
        self.single = frozenset(
            s.iterator
            for s in walk.walk(proc.body)
            if isinstance(s, ir.For)
            and (s.lo, s.hi) == (ir.Int(0), ir.Int(1))
            and not isinstance(s.mode, ir.Slot | ir.Loaded)
        )
        """Iterators that are 0."""
        self.found: list[Diagnostic] = []
        self.tasks: list[_Task] = []

    def check(self, launch: ir.DeviceFunction) -> Iterator[Diagnostic]:
        """Yields the misuses of slots; after them, indices of one dimension that disagree."""
        for stmt in launch.body:
            self._find_tasks(stmt, ())
        yield from dict.fromkeys(self.found)
        if not self.found:
            for task in self.tasks:
                for (name, _), indices in task.indexed.items():
                    yield from self._mixed_indices(task, name, indices)

    def _find_tasks(self, stmt: ir.Stmt, loops: tuple[ir.For, ...]) -> None:
        if not isinstance(stmt, ir.For) or stmt.mode != ir.CudaTasks():
            return
        loops = (*loops, stmt)
        if any(isinstance(inner, ir.For) and inner.mode == ir.CudaTasks() for inner in stmt.body):
            for inner in stmt.body:
                self._find_tasks(inner, loops)
            return
        task = _Task(loops, stmt.body)
        self.tasks.append(task)
        self._block(task, stmt.body, {}, ())

    # --- uses -----------------------------------------------------------------------------

    def _block(
        self,
        task: _Task,
        block: ir.Block,
        bound: Mapping[Sym, _Bound],
        guards: tuple[ir.BExpr, ...],
    ) -> None:
        for stmt in block:
            self._statement(task, stmt, bound, guards)
            inside = bound
            if (
                isinstance(stmt, ir.For)
                and isinstance(stmt.mode, ir.Slot)
                and isinstance(stmt.hi, ir.Int)
            ):
                barrier = self.lasting.get(stmt.mode.barrier)
                if isinstance(barrier, ir.BarrierAlloc):
                    name = f"slot({barrier.name})"
                    one = _Bound(barrier, stmt.hi.value, stmt.span, name)
                    inside = {**bound, stmt.iterator: one}
            if isinstance(stmt, ir.If):
                of_sizes = walk.control_variables(stmt.condition) <= self.sizes
                for inner, condition in (
                    (stmt.body, stmt.condition),
                    (stmt.orelse, ir.Not(stmt.condition)),
                ):
                    self._block(task, inner, inside, (*guards, condition) if of_sizes else guards)
                continue
            for inner in walk.blocks(stmt):
                self._block(task, inner, inside, guards)

    def _statement(
        self,
        task: _Task,
        stmt: ir.Stmt,
        bound: Mapping[Sym, _Bound],
        guards: tuple[ir.BExpr, ...],
    ) -> None:
        for what, expr, span in _numbers(stmt):
            for name in walk.control_variables(expr) & bound.keys():
                self._refuse(bound[name], what, span)
        for access in walk.accesses(stmt):
            for dim, coord in enumerate(access.coords):
                read = sorted(_variables_read(coord) & bound.keys(), key=lambda name: name.number)
                one = None
                if read:
                    one = bound[read[0]]
                    self._check_index(access, coord, read, one)
                if access.name in self.lasting:
                    indexed = task.indexed.setdefault((access.name, dim), [])
                    indexed.append(_Index(one, guards, access))

    def _check_index(
        self, access: ir.Access, coord: ir.Coord, read: Sequence[Sym], bound: _Bound
    ) -> None:
        name, memory = access.name, self.memories.get(access.name)
        if memory is None:
            self._refuse(bound, f"an index of the barrier {name}", access.span)
        elif name not in self.lasting:
            shared = memory.space is Space.SHARED
            where = "belongs to one task" if shared else f"is in {memory.name}"
            beside = f"declare {name} beside {bound.barrier.name}, outside of cuda_tasks; or "
            what = f"an index of {name}, which {where}"
            self._refuse(bound, what, access.span, beside if shared else "")
        elif len(read) > 1 or not walk.is_whole(coord, read[0], self.single):
            what = f"a part of an index of {name}"
            remedy = (
                f"index by the slot alone, {name}[{bound.name}, ...], or a window of one element, "
                "s : s + 1; another element is another barrier's slot"
            )
            self._refuse(bound, what, access.span, instead=remedy)

    def _refuse(
        self, bound: _Bound, what: str, span: Span, before: str = "", instead: str = ""
    ) -> None:
        barrier = bound.barrier.name
        remedy = instead or (
            f"{before}count the steps of the task, as k % {bound.ring} does, or declare {barrier} "
            "inside the innermost cuda_tasks loop, where it counts from 0 in each task"
        )
        called = source_text(bound.span) if bound.span == span else ""
        message = (
            f"{called or bound.name} counts what its own cluster has done, and another cluster "
            f"that executes this task has another number: here it is {what}"
        )
        notes = [
            Note(f"{barrier} outlives the task: it is declared outside of it", bound.barrier.span)
        ]
        if (bound.span.line, bound.span.file) != (span.line, span.file):
            notes.append(Note("the slot", bound.span))
        self.found.append(Diagnostic("D528", message, span, remedy, tuple(notes)))

    # --- several ways to one memory ---------------------------------------------------------

    def _mixed_indices(
        self, task: _Task, name: Sym, indices: Sequence[_Index]
    ) -> Iterator[Diagnostic]:
        """Memory that is indexed by a slot, and by what is another number to it in another task."""
        by_slot = [one for one in indices if one.bound is not None]
        if not by_slot:
            return
        first = by_slot[0]
        for other in indices:
            found = self._differ(task, name, first, other)
            if found is not None:
                yield found
                return

    def _differ(self, task: _Task, name: Sym, first: _Index, other: _Index) -> Diagnostic | None:
        one, another = first.bound, other.bound
        assert one is not None
        if another is not None and (one.barrier, one.ring) == (another.barrier, another.ring):
            return None
        like = another is not None and one.ring == another.ring
        for sizes in self._small_sizes():
            if not all(walk.holds(guard, sizes) for guard in other.guards):
                continue
            counted = self._in_a_task(task, one.barrier, sizes)
            against = 0 if another is None else self._in_a_task(task, another.barrier, sizes)
            if counted is None or against is None or self._tasks(task, sizes) < 2:
                continue
            if like and (counted - against) % one.ring:
                assert another is not None
                if not all(self._is_awaited(task, b.barrier, sizes) for b in (one, another)):
                    continue  # Something is forgotten, which a check says better.
                return _unlike(name, first, other, counted, against, _sizes_text(sizes))
            if not like and (counted % one.ring or against % (another.ring if another else 1)):
                return _mixed_diagnostic(name, first, other, counted, _sizes_text(sizes))
        return None

    def _small_sizes(self) -> Iterator[dict[Sym, int]]:
        """Small sizes that the preconditions admit."""
        params = [p for p in self.proc.params if isinstance(p, ir.ControlParam)]
        moduli = {d for condition in self.proc.preconditions for d in _moduli(condition)}
        values = sorted({1, 2, 3, 4} | {d * n for d in moduli for n in (1, 2, 3)})
        every = sorted(product(values, repeat=min(len(params), 4)), key=sum)
        for some in every[:4000]:
            sizes = {p.name: 2 for p in params}
            sizes.update(zip((p.name for p in params), some, strict=False))
            if all(walk.holds(condition, sizes) for condition in self.proc.preconditions):
                yield sizes

    def _tasks(self, task: _Task, sizes: Mapping[Sym, int]) -> int:
        """Counts the tasks, with at most three iterations of each loop."""

        def count(loops: Sequence[ir.For], values: Mapping[Sym, int]) -> int:
            if not loops:
                return 1
            loop, *inner = loops
            found = range(walk.evaluate(loop.lo, values), walk.evaluate(loop.hi, values))
            return sum(count(inner, {**values, loop.iterator: at}) for at in islice(found, 3))

        return count(task.loops, sizes)

    def _in_a_task(
        self, task: _Task, barrier: ir.BarrierAlloc, sizes: Mapping[Sym, int]
    ) -> int | None:
        """Counts the Arrives of a task on the first element; None where a value is not known."""
        try:
            return _count_first_element(task.body, barrier.name, ir.Arrive, dict(sizes))
        except KeyError:
            return None

    def _is_awaited(self, task: _Task, barrier: ir.BarrierAlloc, sizes: Mapping[Sym, int]) -> bool:
        """Returns whether a task awaits as many arrivals of the first element as it makes."""
        arrived, awaited = (
            _count_first_element(task.body, barrier.name, kind, dict(sizes))
            for kind in (ir.Arrive, ir.Await)
        )
        return arrived == awaited


def _sizes_text(sizes: Mapping[Sym, int]) -> str:
    return ", ".join(f"{name} = {value}" for name, value in sizes.items())


def _unlike(
    name: Sym, first: _Index, other: _Index, counted: int, against: int, at: str
) -> Diagnostic:
    one, another = first.bound, other.bound
    assert one is not None and another is not None
    return Diagnostic(
        "D529",
        f"{name} is indexed by {one.name} and by {another.name}, and a task arrives "
        f"{_times(counted)} on {one.barrier.name} and {_times(against)} on {another.barrier.name}"
        f"{_place_text(at)}: in the next task of the cluster the two slots differ in another way",
        other.access.span,
        f"index {name} by slots of barriers on which each task arrives equally often, or of one "
        "barrier alone",
        (Note(f"indexed by {one.name}", first.access.span),),
    )


def _mixed_diagnostic(name: Sym, first: _Index, other: _Index, counted: int, at: str) -> Diagnostic:
    one, another = first.bound, other.bound
    assert one is not None
    barrier, ring = one.barrier.name, one.ring
    by = f"by {quote_access(other.access)}"
    if another is not None:
        by = f"by {another.name} of a ring of {another.ring}"
    return Diagnostic(
        "D529",
        f"{name} is indexed by {one.name}, which is another number in another task of the cluster "
        f"(a task arrives {_times(counted)} on {barrier}{_place_text(at)}), and here {by}",
        other.access.span,
        f"index {name} by a slot here too, {name}[slot(b), ...] of the barrier b that counts these "
        f"accesses; or let each task arrive on {barrier} a multiple of {ring} times",
        (Note(f"indexed by {one.name}", first.access.span),),
    )


def _times(count: int) -> str:
    return "once" if count == 1 else f"{count} times"


def _place_text(at: str) -> str:
    return f" at {at}" if at else ""


# --- expressions --------------------------------------------------------------------------------


def _variables_read(coord: ir.Coord) -> frozenset[Sym]:
    if isinstance(coord, ir.Point):
        return walk.control_variables(coord.at)
    return walk.control_variables(coord.lo) | walk.control_variables(coord.hi)


def _numbers(stmt: ir.Stmt) -> Iterator[tuple[str, ir.CExpr | ir.BExpr, Span]]:
    """Yields the expressions that a statement reads as numbers, without the indices of accesses."""
    match stmt:
        case ir.For():
            for end in (stmt.lo, stmt.hi):
                yield f"a bound of the loop over {stmt.iterator}", end, stmt.span
            if isinstance(stmt.mode, ir.Loaded):
                # Its index is an access's.
                return
        case ir.If():
            yield "a condition", stmt.condition, stmt.span
        case ir.CallInstr():
            for argument in stmt.arguments:
                if not isinstance(argument, ir.Access | ir.Const):
                    what = f"an argument of {stmt.instr.name}, a value"
                    yield what, argument, argument.span if argument.span.line else stmt.span
        case ir.Alloc() | ir.BarrierAlloc():
            for extent in stmt.shape:
                yield f"an extent of {stmt.name}", extent, stmt.span
        case _:
            return


def _moduli(expr: ir.CExpr | ir.BExpr) -> Iterator[int]:
    """Yields the divisors in an expression."""
    match expr:
        case ir.FloorDiv() | ir.Mod():
            yield expr.divisor
            yield from _moduli(expr.term)
        case ir.Mul() | ir.Not():
            yield from _moduli(expr.term)
        case ir.Add() | ir.Sub() | ir.Compare() | ir.And() | ir.Or():
            yield from _moduli(expr.left)
            yield from _moduli(expr.right)
        case ir.Int() | ir.CVar() | ir.Truth():
            return


def _count_first_element(
    block: ir.Block, name: Sym, kind: type[ir.Arrive] | type[ir.Await], values: dict[Sym, int]
) -> int:
    """Counts the Arrives or Awaits of a block on the first element of a barrier.

    Raises KeyError where a value is not known.
    """
    total = 0
    for stmt in block:
        element = _element(stmt, kind)
        if element is not None:
            at = (c.at if isinstance(c, ir.Point) else c.lo for c in element.coords)
            total += element.name == name and all(walk.evaluate(one, values) == 0 for one in at)
            continue
        inside = walk.walk(tuple(inner for body in walk.blocks(stmt) for inner in body))
        if not any((e := _element(s, kind)) is not None and e.name == name for s in inside):
            continue
        match stmt:
            case ir.For(mode=ir.Loaded()):
                # Of a value from memory nothing is known.
                total += _count_first_element(stmt.body, name, kind, values)
            case ir.For():
                for at_ in range(walk.evaluate(stmt.lo, values), walk.evaluate(stmt.hi, values)):
                    inner = {**values, stmt.iterator: at_}
                    total += _count_first_element(stmt.body, name, kind, inner)
            case ir.If():
                body = stmt.body if walk.holds(stmt.condition, values) else stmt.orelse
                total += _count_first_element(body, name, kind, values)
            case _:
                total += sum(
                    _count_first_element(body, name, kind, values) for body in walk.blocks(stmt)
                )
    return total


def _element(stmt: ir.Stmt, kind: type[ir.Arrive] | type[ir.Await]) -> ir.Access | None:
    """Returns the barrier element of an Arrive or Await of this kind; None for other statements."""
    if not isinstance(stmt, kind):
        return None
    return first_home(stmt.targets) if isinstance(stmt, ir.Arrive) else stmt.barrier
