"""Staging: statements work on a copy of a window."""

from __future__ import annotations

from collections.abc import Callable, Iterator

from exogpu.ir import nodes as ir
from exogpu.ir.types import DataMemory, Sym
from exogpu.ir.walk import walk
from exogpu.schedule.checking.opened_procedure import program
from exogpu.schedule.index_text import control_scope, minus, plus, read_window
from exogpu.schedule.primitive import Unfit, new_variable, primitive, several_of
from exogpu.schedule.primitives.storage import data_scope, default_memory
from exogpu.schedule.rewrite import Copy, Rewrite, copied, splice, unchanged_rewrite


@primitive
def stage_mem(
    proc: ir.Proc,
    block: object,
    window: str,
    name: str,
    memory: DataMemory | None = None,
    count: int = 1,
) -> Iterator[Rewrite]:
    """Let statements work on a copy of a window: copied in before, where they read it or write
    only a part, and copied back after, where they write it.

        y[i] = x[i] * x[i]          t: f32[4] @ DRAM
                                    for i0 in seq(0, 4):
                              ->        t[i0] = x[4 * io + i0]
                                    y[i] = t[i - 4 * io] * t[i - 4 * io]

    `count` statements, from the one given on, or those of a cursor.  The copies have guards where
    the window could leave its variable.
    """
    path, stmts = several_of(proc, block, count)
    known = data_scope(proc, path)
    whole = read_window(window, control_scope(proc, path), {s.name: s for s in known})
    declared = known[whole.name]
    if len(declared.shape) != len(whole.coords):
        raise Unfit(f"{whole.name.name} has {len(declared.shape)} dimensions", stmts[0])
    accessed, writes_it = _uses(proc, stmts, whole.name)
    if not accessed:
        raise Unfit(f"the statements do not access {whole.name.name}", stmts[0])
    if memory is None:
        memory = default_memory(proc, path)
    for copies_in in (False, True):
        for guarded in (False, True):
            stage = _Stage(
                unchanged_rewrite(proc), whole, declared, new_variable(name), memory, guarded
            )
            new = stage.with_copies(stmts, copies_in, writes_it)
            splice(stage.edit, path, len(stmts), new)
            yield stage.edit


@primitive
def stage_sum(
    proc: ir.Proc,
    block: object,
    window: str,
    name: str,
    memory: DataMemory | None = None,
    count: int = 1,
) -> Iterator[Rewrite]:
    """Let statements that add to a window add to a sum of their own, which begins at zero and is
    added to the window after them.

        for k in seq(0, n):          t: f32
            y[i] += x[k]       ->    t = 0
                                     for k in seq(0, n):
                                         t += x[k]
                                     y[i] += t

    `count` statements, from the one given on, or those of a cursor.  What both procedures leave is
    compared, sums as sets of terms.  Terms that are wider than the window would be rounded before
    they are added to it, and not after.
    """
    path, stmts = several_of(proc, block, count)
    known = data_scope(proc, path)
    whole = read_window(window, control_scope(proc, path), {s.name: s for s in known})
    declared = known[whole.name]
    if len(declared.shape) != len(whole.coords):
        raise Unfit(f"{whole.name.name} has {len(declared.shape)} dimensions", stmts[0])
    accessed, writes_it = _uses(proc, stmts, whole.name)
    if not (accessed and writes_it):
        raise Unfit(f"the statements do not add to {whole.name.name}", stmts[0])
    if memory is None:
        memory = default_memory(proc, path)
    for guarded in (False, True):
        stage = _Stage(
            unchanged_rewrite(proc), whole, declared, new_variable(name), memory, guarded
        )
        stage.edit.by_results = True
        splice(stage.edit, path, len(stmts), stage.summed(stmts))
        yield stage.edit


class _Stage:
    def __init__(
        self,
        edit: Rewrite,
        window: ir.Access,
        declared: ir.DataParam | ir.Alloc,
        name: Sym,
        memory: DataMemory,
        guarded: bool,
    ) -> None:
        self.edit, self.window, self.declared = edit, window, declared
        self.name, self.memory, self.guarded = name, memory, guarded
        self.lows = [c.lo for c in window.coords if isinstance(c, ir.Interval)]
        self.extents = [minus(c.hi, c.lo) for c in window.coords if isinstance(c, ir.Interval)]

    def with_copies(self, stmts: ir.Block, copies_in: bool, copies_out: bool) -> ir.Block:
        """The statements with the copies around them."""
        span = stmts[0].span
        tile = ir.Alloc(self.name, self.declared.dtype, tuple(self.extents), self.memory, span=span)
        body = copied(self.edit, stmts, {}, fresh=False, access=self.tile_access)
        before = self.copy(stmts[0], True) if copies_in else ()
        after = self.copy(stmts[-1], False) if copies_out else ()
        return (tile, *before, *body, *after)

    def summed(self, stmts: ir.Block) -> ir.Block:
        """The statements with a sum of their own, from zero."""
        span = stmts[0].span
        tile = ir.Alloc(self.name, self.declared.dtype, tuple(self.extents), self.memory, span=span)
        body = copied(self.edit, stmts, {}, fresh=False, access=self.tile_access)

        def cleared(cell: ir.Access, _: ir.Access) -> ir.Stmt:
            return ir.Assign(cell, ir.Const(0), span=span)

        def add_element(cell: ir.Access, element: ir.Access) -> ir.Stmt:
            return ir.Reduce(element, ir.Read(cell, span), span=span)

        zero = self.loop_over_window(stmts[0], cleared, guarded=False)
        return (
            tile,
            *zero,
            *body,
            *self.loop_over_window(stmts[-1], add_element, guarded=self.guarded),
        )

    def tile_access(self, access: ir.Access) -> ir.Access:
        """An access of the variable as one of the tile."""
        if access.name != self.window.name:
            return access
        coords: list[ir.Coord] = []
        for whole, coord in zip(self.window.coords, access.coords, strict=True):
            match whole, coord:
                case ir.Interval(), ir.Point():
                    coords.append(ir.Point(minus(coord.at, whole.lo)))
                case ir.Interval(), ir.Interval():
                    coords.append(ir.Interval(minus(coord.lo, whole.lo), minus(coord.hi, whole.lo)))
                case ir.Point(), ir.Point():
                    pass
                case _:
                    text = "a window of a call is wider than the window that is staged"
                    raise Unfit(text)
        return ir.Access(self.name, tuple(coords), access.span)

    def copy(self, beside: ir.Stmt, inwards: bool) -> ir.Block:
        """The loops that copy the window to the tile, or back."""

        def copy_element(cell: ir.Access, element: ir.Access) -> ir.Stmt:
            to, of = (cell, element) if inwards else (element, cell)
            stmt = ir.Assign(to, ir.Read(of, beside.span), span=beside.span)
            self.edit.origins[stmt] = Copy(element)
            return stmt

        return self.loop_over_window(beside, copy_element, guarded=self.guarded)

    def loop_over_window(
        self, beside: ir.Stmt, make: Callable[[ir.Access, ir.Access], ir.Stmt], *, guarded: bool
    ) -> ir.Block:
        """Loops over the window, with a statement of each of its elements and the tile's."""
        iterators = [Sym(f"i{n}") for n in range(len(self.extents))]
        left = iter(iterators)
        coords: list[ir.Coord] = []
        guards: list[ir.BExpr] = []
        for coord, extent in zip(self.window.coords, self.declared.shape, strict=True):
            if isinstance(coord, ir.Interval):
                at = plus(coord.lo, ir.CVar(next(left)))
                guards.append(ir.Compare("<", at, extent))
                coords.append(ir.Point(at))
            else:
                coords.append(coord)
        element = ir.Access(self.window.name, tuple(coords), beside.span)
        cell = ir.Access(self.name, tuple(ir.Point(ir.CVar(s)) for s in iterators), beside.span)
        stmt = make(cell, element)
        if guarded:
            for guard in reversed(guards):
                stmt = ir.If(guard, (stmt,), span=beside.span)
        for iterator, extent in zip(reversed(iterators), reversed(self.extents), strict=True):
            stmt = ir.For(iterator, ir.Int(0), extent, ir.Seq(), (stmt,), span=beside.span)
        return (stmt,)


def _uses(proc: ir.Proc, stmts: ir.Block, name: Sym) -> tuple[bool, bool]:
    """Tests whether statements, with the procedures they call, access a variable, and whether they
    write it."""
    inside = set(walk(stmts))
    for stmt in inside:
        if isinstance(stmt, ir.WindowStmt) and stmt.source.name == name:
            raise Unfit(f"a window of {name.name} is made inside: inline it first", stmt)
    made = [p for p in program(proc, "U").places if p.stmt in inside]
    events = [e for place in made for e in place.events if e.access.name == name]
    return bool(events), any(event.writes for event in events)
