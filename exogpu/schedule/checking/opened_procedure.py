"""A procedure as the checker sees it: windows and calls opened, to the assignments in them.

    mma(D[w, :, :], a, b)         for m in seq(0, 16):
                            ->        for n in seq(0, 8):
                                          for k in seq(0, 8):
                                              D[w, m, n] += a[m, k] * b[n, k]

The iterators of a body keep their names: a statement is told apart by its whole site.
"""

from __future__ import annotations

from collections.abc import Iterator, Mapping
from dataclasses import dataclass, replace
from itertools import count
from typing import Final, TypeAlias

from exogpu.analysis.domain import Domain, entry, restrict_domain, within_loop
from exogpu.analysis.inline import compose
from exogpu.ir import nodes as ir
from exogpu.ir.render import identifier, isl_cond
from exogpu.ir.scalars import Constant
from exogpu.ir.types import Sym
from exogpu.ir.walk import map_reads, reads, substitute, substitute_access, substitute_bool
from exogpu.schedule.checking import statement_model
from exogpu.schedule.rewrite import Reading, Site


def program(
    proc: ir.Proc,
    tag: str,
    called: Mapping[ir.CallProc, ir.Proc] | None = None,
    readings: Mapping[ir.Stmt, Reading] | None = None,
) -> statement_model.Program:
    """The events of a procedure; `tag` begins their names.

    `called` are procedures to be read in the place of those that are called; `readings` are
    statements to be read in the place of others.
    """
    domain = entry(proc)
    reader = _Reader(tag, called or {}, readings or {}, [], {}, [], [])
    for param in proc.params:
        if isinstance(param, ir.DataParam):
            variable = statement_model.Variable(param.name, param.dtype, param.shape, (), True)
            reader.variables[param.name] = variable
    reader.block(proc.body, _Scope((), domain, (), (), {}, {}, {}))
    params = tuple(identifier(p.name) for p in domain.params)
    depth = max((len(p.time) for p in reader.places), default=0) + 1
    said, calls = tuple(reader.said), tuple(reader.calls)
    return statement_model.Program(
        proc, params, tuple(reader.places), reader.variables, depth, said, calls
    )


def _in_order(block: ir.Block) -> Iterator[ir.Stmt]:
    """The statements of a block that mean something sequentially; launches are their bodies."""
    for stmt in block:
        match stmt:
            case ir.DeviceFunction() | ir.Warps():
                yield from _in_order(stmt.body)
            case (
                ir.BarrierAlloc()
                | ir.Free()
                | ir.Fence()
                | ir.Arrive()
                | ir.Await()
                | ir.Uninit()
                | ir.Pass()
            ):
                pass
            case _:
                yield stmt


@dataclass(frozen=True, slots=True)
class _View:
    """Meaning of the name of a data variable."""

    access: ir.Access
    """A window of a variable of the procedure."""
    limits: tuple[ir.Access, ...] = ()
    """The windows that it was taken of: where a clipped operand ends."""
    clipped: bool = False


@dataclass(frozen=True, slots=True)
class _Scope:
    """The place of statements, and the meanings of the names of the procedure at hand."""

    calls: Site
    domain: Domain
    holds: tuple[ir.BExpr, ...]
    time: statement_model.Time
    control: dict[Sym, ir.CExpr]
    views: dict[Sym, _View]
    constants: dict[Sym, Constant]

    def form(self, expr: ir.CExpr) -> ir.CExpr:
        return substitute(expr, self.control)


@dataclass(slots=True)
class _Reader:
    tag: str
    called: Mapping[ir.CallProc, ir.Proc]
    readings: Mapping[ir.Stmt, Reading]
    places: list[statement_model.Place]
    variables: dict[Sym, statement_model.Variable]
    said: list[statement_model.Said]
    calls: list[statement_model.Called]

    def block(self, block: ir.Block, scope: _Scope) -> None:
        stmts = tuple(_in_order(block))
        end = 0
        for at, stmt in enumerate(stmts):
            if at < end:
                continue
            here = replace(scope, time=(*scope.time, str(at)))
            reading = self.readings.get(stmt)
            if reading is not None and stmts[at : at + len(reading.whole)] == reading.whole:
                end = at + len(reading.whole)
                self.read_as(reading, here)
                continue
            match stmt:
                case ir.For():
                    lo, hi = scope.form(stmt.lo), scope.form(stmt.hi)
                    iterator = stmt.iterator
                    if iterator in scope.domain.iterators:  # of a body that is around itself
                        iterator = Sym(iterator.name)
                        scope.control[stmt.iterator] = ir.CVar(iterator)
                    inner = within_loop(scope.domain, iterator, lo, hi)
                    time = (*here.time, identifier(iterator))
                    holds = (*scope.holds, *_in_interval(ir.CVar(iterator), lo, hi))
                    self.block(stmt.body, replace(scope, domain=inner, holds=holds, time=time))
                case ir.If():
                    met = substitute_bool(stmt.condition, scope.control)
                    for way, test, part in (("0", met, stmt.body), ("1", ir.Not(met), stmt.orelse)):
                        inner = restrict_domain(scope.domain, isl_cond(test))
                        holds, time = (*scope.holds, test), (*here.time, way)
                        self.block(part, replace(scope, domain=inner, holds=holds, time=time))
                case ir.Alloc():
                    self.declare(stmt, scope)
                case ir.WindowStmt():
                    view = self.view(stmt.source, scope)
                    limits = (*view.limits, view.access)
                    scope.views[stmt.name] = replace(view, limits=limits)
                case ir.Assign() | ir.Reduce():
                    self.leaf(stmt, here)
                case ir.CallProc() | ir.CallInstr():
                    self.call(stmt, here)
                case _:
                    raise AssertionError(stmt)

    def read_as(self, reading: Reading, scope: _Scope) -> None:
        """The parts in the place of the whole; of that, only what it is."""
        whole = _Reader(f"{self.tag}w", self.called, {}, [], dict(self.variables), [], [])
        whole.block(reading.whole, scope)
        start = len(self.places)
        for variable in reading.made:
            self.declare(variable, scope)
        self.block(reading.parts, scope)
        made = frozenset(variable.name for variable in reading.made)
        self.said.append(
            statement_model.Said(tuple(whole.places), tuple(self.places[start:]), made)
        )

    def declare(self, stmt: ir.Alloc, scope: _Scope) -> None:
        """A variable; of a called procedure, a new one at every call."""
        name = Sym(stmt.name.name) if scope.calls else stmt.name
        shape = tuple(map(scope.form, stmt.shape))
        if scope.calls:
            whole = tuple(ir.Interval(ir.Int(0), extent) for extent in shape)
            scope.views[stmt.name] = _View(ir.Access(name, whole))
        self.variables[name] = statement_model.Variable(
            name, stmt.dtype, shape, scope.domain.iterators, False
        )

    def call(self, stmt: ir.CallProc | ir.CallInstr, scope: _Scope) -> None:
        """The body of what is called, its parameters replaced by the arguments."""
        callee = stmt.instr if isinstance(stmt, ir.CallInstr) else self.called.get(stmt, stmt.proc)
        inner = replace(scope, calls=(*scope.calls, stmt), control={}, views={}, constants={})
        for param, argument in zip(callee.params, stmt.arguments, strict=True):
            if isinstance(argument, ir.Const):
                assert isinstance(param, ir.DataParam)
                inner.constants[param.name] = Constant(argument.value, param.dtype)
            elif not isinstance(argument, ir.Access):
                inner.control[param.name] = scope.form(argument)
            elif argument.name in scope.constants:
                inner.constants[param.name] = scope.constants[argument.name]
            else:
                assert isinstance(param, ir.DataParam)
                clips = param.operand is not None and param.operand.clipped
                view = self.view(argument, scope)
                inner.views[param.name] = replace(view, clipped=view.clipped or clips)
        operands = {name: view.access for name, view in inner.views.items()}
        self.calls.append(statement_model.Called(stmt, scope.domain, operands))
        self.block(callee.body, inner)

    def view(self, access: ir.Access, scope: _Scope) -> _View:
        """The same elements of a variable of the procedure."""
        here = substitute_access(access, scope.control)
        known = scope.views.get(access.name)
        if known is None:
            return _View(here)
        coords = compose(known.access.coords, here.coords)
        return replace(known, access=replace(here, name=known.access.name, coords=coords))

    def leaf(self, stmt: ir.Assign | ir.Reduce, scope: _Scope) -> None:
        name = f"{self.tag}{len(self.places)}"
        views: list[_View] = []

        def view_access(access: ir.Access) -> ir.Access:
            views.append(self.view(access, scope))
            return views[-1].access

        value = map_reads(
            stmt.value,
            lambda read: (
                read
                if read.access.name in scope.constants
                else replace(read, access=view_access(read.access))
            ),
        )
        plain = replace(stmt, value=value, target=view_access(stmt.target))
        known = {a.name for a in reads(stmt.value)} & scope.constants.keys()
        constants = {s: scope.constants[s] for s in known}
        events = tuple(self.events(plain, name, views))
        site = (*scope.calls, stmt)
        place = statement_model.Place(
            site, plain, name, scope.domain, scope.holds, scope.time, events, constants
        )
        self.places.append(place)

    def events(
        self, plain: ir.Assign | ir.Reduce, name: str, views: list[_View]
    ) -> Iterator[statement_model.Event]:
        """The accesses of a statement, reads before writes."""
        number = count()
        *given, target = views
        summed = isinstance(plain, ir.Reduce)
        for view in given:
            yield statement_model.Event(
                f"{name}_{next(number)}", view.access, False, False, self.clip_conditions(view)
            )
        within = self.clip_conditions(target)
        if summed:
            yield statement_model.Event(f"{name}_{next(number)}", plain.target, False, True, within)
        yield statement_model.Event(f"{name}_{next(number)}", plain.target, True, summed, within)

    def clip_conditions(self, view: _View) -> tuple[ir.BExpr, ...]:
        """Returns the conditions that the element lies inside a clipped operand: in the variable,
        and in its windows."""
        if not view.clipped:
            return ()
        index = [c.at for c in view.access.coords if isinstance(c, ir.Point)]
        shape = self.variables[view.access.name].shape
        found = [
            b for at, n in zip(index, shape, strict=True) for b in _in_interval(at, ir.Int(0), n)
        ]
        for limit in view.limits:
            for at, coord in zip(index, limit.coords, strict=True):
                if isinstance(coord, ir.Interval):
                    found += _in_interval(at, coord.lo, coord.hi)
        return tuple(found)


def _in_interval(at: ir.CExpr, lo: ir.CExpr, hi: ir.CExpr) -> tuple[ir.BExpr, ir.BExpr]:
    """`lo <= at < hi`"""
    return ir.Compare("<=", lo, at), ir.Compare("<", at, hi)


# Compares procedures apart from synchronisation and threads, which the sequential meaning does
# not know.

SYNCHRONISATION: Final = (ir.Fence, ir.Arrive, ir.Await, ir.BarrierAlloc)
"""Statements that compute nothing."""

Synchronisation: TypeAlias = ir.Fence | ir.Arrive | ir.Await | ir.BarrierAlloc


@dataclass(frozen=True, slots=True)
class _Heard:
    """A statement that computes, or a loop or `if` with some in it."""

    stmt: ir.Stmt
    inside: tuple[tuple[_Heard, ...], ...] = ()


def same_but_for_silence(old: ir.Proc, new: ir.Proc) -> bool:
    """Tests whether two procedures differ in synchronisation, warps and launches alone.

    Every other statement is the same object in both, in the same order, in loops and conditions
    that are equal; so both have one sequential meaning.
    """
    if old.params != new.params or old.preconditions != new.preconditions:
        return False
    return _same_statements(
        tuple(_computing_statements(old.body)), tuple(_computing_statements(new.body))
    )


def is_silent(stmt: ir.Stmt) -> bool:
    """Tests whether a statement, with all statements in it, computes nothing."""
    return not any(_computing_statements((stmt,)))


def _computing_statements(block: ir.Block) -> Iterator[_Heard]:
    for stmt in block:
        match stmt:
            case (
                ir.Fence() | ir.Arrive() | ir.Await() | ir.BarrierAlloc() | ir.Uninit() | ir.Pass()
            ):
                pass
            case ir.DeviceFunction() | ir.Warps():
                yield from _computing_statements(stmt.body)
            case ir.For() | ir.If():
                bodies = (stmt.body,) if isinstance(stmt, ir.For) else (stmt.body, stmt.orelse)
                inside = tuple(tuple(_computing_statements(body)) for body in bodies)
                if any(inside):
                    yield _Heard(stmt, inside)
            case _:
                yield _Heard(stmt)


def _same_statements(old: tuple[_Heard, ...], new: tuple[_Heard, ...]) -> bool:
    return len(old) == len(new) and all(map(_same_statement, old, new))


def _same_statement(old: _Heard, new: _Heard) -> bool:
    if len(old.inside) != len(new.inside) or not all(map(_same_statements, old.inside, new.inside)):
        return False
    match old.stmt, new.stmt:
        case ir.For(), ir.For():
            a, b = old.stmt, new.stmt
            return a.iterator is b.iterator and (a.lo, a.hi) == (b.lo, b.hi)
        case ir.If(), ir.If():
            return old.stmt.condition == new.stmt.condition
        case ir.CallInstr(), ir.CallInstr():
            same = old.stmt.instr is new.stmt.instr
            return same and old.stmt.arguments == new.stmt.arguments
        case a, b:
            return a is b
