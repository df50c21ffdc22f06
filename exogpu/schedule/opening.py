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

from exogpu.analysis.inline import compose
from exogpu.analysis.instances import Domain, entry, where, within_loop
from exogpu.ir.isltext import bexpr, identifier
from exogpu.ir.names import Sym
from exogpu.ir.nodes import (
    Access,
    Alloc,
    Arrive,
    Assign,
    Await,
    BarrierAlloc,
    BExpr,
    Block,
    CallInstr,
    CallProc,
    CExpr,
    Compare,
    Const,
    CVar,
    DataParam,
    DeviceFunction,
    Fence,
    For,
    Free,
    If,
    Int,
    Interval,
    Not,
    Pass,
    Point,
    Proc,
    Reduce,
    Stmt,
    Uninit,
    Warps,
    WindowStmt,
)
from exogpu.ir.scalars import Constant
from exogpu.ir.walk import reads, substitute, substitute_access, substitute_bool
from exogpu.schedule.events import Called, Event, Place, Program, Said, Time, Variable
from exogpu.schedule.rewrite import Reading, Site, map_reads


def program(
    proc: Proc,
    tag: str,
    called: Mapping[CallProc, Proc] | None = None,
    readings: Mapping[Stmt, Reading] | None = None,
) -> Program:
    """The events of a procedure; `tag` begins their names.

    `called` are procedures to be read in the place of those that are called; `readings` are
    statements to be read in the place of others.
    """
    domain = entry(proc)
    reader = _Reader(tag, called or {}, readings or {}, [], {}, [], [])
    for param in proc.params:
        if isinstance(param, DataParam):
            variable = Variable(param.name, param.dtype, param.shape, (), True)
            reader.variables[param.name] = variable
    reader.block(proc.body, _Scope((), domain, (), (), {}, {}, {}))
    params = tuple(identifier(p.name) for p in domain.params)
    depth = max((len(p.time) for p in reader.places), default=0) + 1
    said, calls = tuple(reader.said), tuple(reader.calls)
    return Program(proc, params, tuple(reader.places), reader.variables, depth, said, calls)


def _in_order(block: Block) -> Iterator[Stmt]:
    """The statements of a block that mean something sequentially; launches are their bodies."""
    for stmt in block:
        match stmt:
            case DeviceFunction() | Warps():
                yield from _in_order(stmt.body)
            case BarrierAlloc() | Free() | Fence() | Arrive() | Await() | Uninit() | Pass():
                pass
            case _:
                yield stmt


@dataclass(frozen=True, slots=True)
class _View:
    """Meaning of the name of a data variable."""

    access: Access
    """A window of a variable of the procedure."""
    limits: tuple[Access, ...] = ()
    """The windows that it was taken of: where a clipped operand ends."""
    clipped: bool = False


@dataclass(frozen=True, slots=True)
class _Scope:
    """The place of statements, and the meanings of the names of the procedure at hand."""

    calls: Site
    domain: Domain
    holds: tuple[BExpr, ...]
    time: Time
    control: dict[Sym, CExpr]
    views: dict[Sym, _View]
    constants: dict[Sym, Constant]

    def form(self, expr: CExpr) -> CExpr:
        return substitute(expr, self.control)


@dataclass(slots=True)
class _Reader:
    tag: str
    called: Mapping[CallProc, Proc]
    readings: Mapping[Stmt, Reading]
    places: list[Place]
    variables: dict[Sym, Variable]
    said: list[Said]
    calls: list[Called]

    def block(self, block: Block, scope: _Scope) -> None:
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
                case For():
                    lo, hi = scope.form(stmt.lo), scope.form(stmt.hi)
                    iterator = stmt.iterator
                    if iterator in scope.domain.iterators:  # of a body that is around itself
                        iterator = Sym(iterator.name)
                        scope.control[stmt.iterator] = CVar(iterator)
                    inner = within_loop(scope.domain, iterator, lo, hi)
                    time = (*here.time, identifier(iterator))
                    holds = (*scope.holds, *_within(CVar(iterator), lo, hi))
                    self.block(stmt.body, replace(scope, domain=inner, holds=holds, time=time))
                case If():
                    met = substitute_bool(stmt.condition, scope.control)
                    for way, test, part in (("0", met, stmt.body), ("1", Not(met), stmt.orelse)):
                        inner = where(scope.domain, bexpr(test))
                        holds, time = (*scope.holds, test), (*here.time, way)
                        self.block(part, replace(scope, domain=inner, holds=holds, time=time))
                case Alloc():
                    self.declare(stmt, scope)
                case WindowStmt():
                    view = self.view(stmt.source, scope)
                    limits = (*view.limits, view.access)
                    scope.views[stmt.name] = replace(view, limits=limits)
                case Assign() | Reduce():
                    self.leaf(stmt, here)
                case CallProc() | CallInstr():
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
        self.said.append(Said(tuple(whole.places), tuple(self.places[start:]), made))

    def declare(self, stmt: Alloc, scope: _Scope) -> None:
        """A variable; of a called procedure, a new one at every call."""
        name = Sym(stmt.name.name) if scope.calls else stmt.name
        shape = tuple(map(scope.form, stmt.shape))
        if scope.calls:
            whole = tuple(Interval(Int(0), extent) for extent in shape)
            scope.views[stmt.name] = _View(Access(name, whole))
        self.variables[name] = Variable(name, stmt.dtype, shape, scope.domain.iterators, False)

    def call(self, stmt: CallProc | CallInstr, scope: _Scope) -> None:
        """The body of what is called, its parameters replaced by the arguments."""
        callee = stmt.instr if isinstance(stmt, CallInstr) else self.called.get(stmt, stmt.proc)
        inner = replace(scope, calls=(*scope.calls, stmt), control={}, views={}, constants={})
        for param, argument in zip(callee.params, stmt.arguments, strict=True):
            if isinstance(argument, Const):
                assert isinstance(param, DataParam)
                inner.constants[param.name] = Constant(argument.value, param.dtype)
            elif not isinstance(argument, Access):
                inner.control[param.name] = scope.form(argument)
            elif argument.name in scope.constants:
                inner.constants[param.name] = scope.constants[argument.name]
            else:
                assert isinstance(param, DataParam)
                clips = param.operand is not None and param.operand.clipped
                view = self.view(argument, scope)
                inner.views[param.name] = replace(view, clipped=view.clipped or clips)
        operands = {name: view.access for name, view in inner.views.items()}
        self.calls.append(Called(stmt, scope.domain, operands))
        self.block(callee.body, inner)

    def view(self, access: Access, scope: _Scope) -> _View:
        """The same elements of a variable of the procedure."""
        here = substitute_access(access, scope.control)
        known = scope.views.get(access.name)
        if known is None:
            return _View(here)
        coords = compose(known.access.coords, here.coords)
        return replace(known, access=replace(here, name=known.access.name, coords=coords))

    def leaf(self, stmt: Assign | Reduce, scope: _Scope) -> None:
        name = f"{self.tag}{len(self.places)}"
        views: list[_View] = []

        def seen(access: Access) -> Access:
            views.append(self.view(access, scope))
            return views[-1].access

        value = map_reads(
            stmt.value,
            lambda read: (
                read
                if read.access.name in scope.constants
                else replace(read, access=seen(read.access))
            ),
        )
        plain = replace(stmt, value=value, target=seen(stmt.target))
        known = {a.name for a in reads(stmt.value)} & scope.constants.keys()
        constants = {s: scope.constants[s] for s in known}
        events = tuple(self.events(plain, name, views))
        site = (*scope.calls, stmt)
        place = Place(site, plain, name, scope.domain, scope.holds, scope.time, events, constants)
        self.places.append(place)

    def events(self, plain: Assign | Reduce, name: str, views: list[_View]) -> Iterator[Event]:
        """The accesses of a statement, reads before writes."""
        number = count()
        *given, target = views
        summed = isinstance(plain, Reduce)
        for view in given:
            yield Event(f"{name}_{next(number)}", view.access, False, False, self.within(view))
        within = self.within(target)
        if summed:
            yield Event(f"{name}_{next(number)}", plain.target, False, True, within)
        yield Event(f"{name}_{next(number)}", plain.target, True, summed, within)

    def within(self, view: _View) -> tuple[BExpr, ...]:
        """Returns the conditions that the element lies inside a clipped operand: in the variable,
        and in its windows."""
        if not view.clipped:
            return ()
        index = [c.at for c in view.access.coords if isinstance(c, Point)]
        shape = self.variables[view.access.name].shape
        found = [b for at, n in zip(index, shape, strict=True) for b in _within(at, Int(0), n)]
        for limit in view.limits:
            for at, coord in zip(index, limit.coords, strict=True):
                if isinstance(coord, Interval):
                    found += _within(at, coord.lo, coord.hi)
        return tuple(found)


def _within(at: CExpr, lo: CExpr, hi: CExpr) -> tuple[BExpr, BExpr]:
    """`lo <= at < hi`"""
    return Compare("<=", lo, at), Compare("<", at, hi)
