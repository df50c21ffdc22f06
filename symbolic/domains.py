"""AMIR operations as families of instances: iterators, domain, schedule, accesses, threads.

A `Site` is an operation with what encloses it.  A `Frame` is a common prefix of loops whose
iterators are taken as parameters: all that happens between two points of one iteration of these
loops happens in that iteration.  In a frame, an instance of site 7 is the tuple `S7[k, m]` of
the iterators that remain; its schedule is the sequential order of the machine.

Size-only divisions such as `(K + 31) / 32` become parameters of their own (`Definitions`), which
`exact_context` defines again: no relation carries their quotients.
"""

from __future__ import annotations

from collections.abc import Iterator, Mapping
from dataclasses import dataclass, field, replace
from typing import assert_never

from exogpu.errors import Span
from exogpu.frontend.instances import conjuncts
from exogpu.ir.isltext import bexpr, cexpr, conjunction, identifier, in_range
from exogpu.ir.names import Sym
from exogpu.ir.nodes import (
    Access,
    Add,
    And,
    BExpr,
    CExpr,
    Compare,
    CVar,
    FloorDiv,
    Int,
    Interval,
    Mod,
    Mul,
    Not,
    Or,
    Point,
    Sub,
    Truth,
)
from exogpu.ir.walk import control_variables, holds
from exogpu.machine.amir import Block, Guard, IncTaskID, Loop, Op, Program, Variable
from exogpu.solvers import isl


class UndecidedError(Exception):
    """A statement lies outside what the prover can express; it carries reason and place."""

    def __init__(self, reason: str, span: Span) -> None:
        super().__init__(reason)
        self.reason = reason
        self.span = span


@dataclass(frozen=True, slots=True, eq=False)
class Site:
    """An operation and what encloses it."""

    number: int
    """Place in the program text; its instances are tuples `S<number>`."""
    op: Op
    loops: tuple[Loop, ...]
    guards: tuple[tuple[int, BExpr], ...]
    """Enclosing conditions, each with the number of loops around it."""
    path: tuple[int, ...]
    """Position within the program, within each enclosing loop's body: one more than loops."""
    task: int | None
    """How many of the loops identify the task; None outside every task."""

    @property
    def tuple_name(self) -> str:
        return f"S{self.number}"

    @property
    def iterators(self) -> tuple[Sym, ...]:
        return tuple(loop.iterator for loop in self.loops)


def sites(program: Program) -> tuple[Site, ...]:
    """Every operation of the program but loops and guards, in program order.

    Raises UndecidedError where tasks begin elsewhere than at the start of a loop's body.
    """
    found: list[Site] = []
    _flatten(program.body, (), (), (), None, [0], found)
    return tuple(found)


def _flatten(
    block: Block,
    loops: tuple[Loop, ...],
    guards: tuple[tuple[int, BExpr], ...],
    prefix: tuple[int, ...],
    task: int | None,
    counter: list[int],
    found: list[Site],
) -> None:
    for op in block:
        counter[0] += 1
        match op:
            case Loop():
                begins = [i for i, inner in enumerate(op.body) if isinstance(inner, IncTaskID)]
                if begins and (begins != [0] or task is not None):
                    raise UndecidedError("a task begins inside another", op.origin.span)
                inner = len(loops) + 1 if begins else task
                around = (*prefix, counter[0])
                _flatten(op.body, (*loops, op), guards, around, inner, [0], found)
            case Guard():
                inside = (*guards, (len(loops), op.condition))
                _flatten(op.body, loops, inside, prefix, task, counter, found)
            case IncTaskID() if task != len(loops):
                raise UndecidedError("a task begins outside a loop", op.origin.span)
            case _:
                path = (*prefix, counter[0])
                found.append(Site(len(found), op, loops, guards, path, task))


# --- definitions --------------------------------------------------------------------------------


@dataclass(slots=True)
class Definitions:
    """Parameters that stand for divisions of sizes by constants."""

    sizes: frozenset[Sym]
    names: dict[CExpr, Sym] = field(default_factory=dict)

    def expr(self, expr: CExpr) -> CExpr:
        """The expression with its size-only divisions named."""
        match expr:
            case Int() | CVar():
                return expr
            case Add() | Sub():
                return replace(expr, left=self.expr(expr.left), right=self.expr(expr.right))
            case Mul():
                return replace(expr, term=self.expr(expr.term))
            case FloorDiv() | Mod():
                read = control_variables(expr)
                if read and read <= self.sizes:
                    if expr not in self.names:
                        self.names[expr] = Sym("quotient")
                    return CVar(self.names[expr])
                return replace(expr, term=self.expr(expr.term))
            case _:
                assert_never(expr)

    def condition(self, condition: BExpr) -> BExpr:
        """The condition with its size-only divisions named."""
        match condition:
            case Truth():
                return condition
            case Compare():
                left, right = self.expr(condition.left), self.expr(condition.right)
                return replace(condition, left=left, right=right)
            case And() | Or():
                left_too, right_too = self.condition(condition.left), self.condition(
                    condition.right
                )
                return replace(condition, left=left_too, right=right_too)
            case Not():
                return replace(condition, term=self.condition(condition.term))
            case _:
                assert_never(condition)


# --- frames -------------------------------------------------------------------------------------


class Model:
    """The program as families of instances; frames are made and kept here."""

    def __init__(self, program: Program) -> None:
        self.program = program
        self.sites = sites(program)
        self.variables: Mapping[Sym, Variable] = {v.name: v for v in program.variables}
        self.sizes = tuple(p.name for p in program.params)
        self.definitions = Definitions(frozenset(self.sizes))
        self.texts: dict[int, str] = {}
        self._name_everything()
        self.depth = max((len(site.loops) for site in self.sites), default=0)
        self.names = (
            *map(identifier, self.sizes),
            *map(identifier, self.definitions.names.values()),
        )
        self.exact_context = isl.context(self.names, self._exact())
        """Sizes that satisfy the preconditions, with the named divisions they define."""
        self.context = self._relaxed()
        """What it says of the parameters that relations mention."""

    def _name_everything(self) -> None:
        for site in self.sites:
            for loop in site.loops:
                self.definitions.expr(loop.lo)
                self.definitions.expr(loop.hi)
            for _, condition in site.guards:
                self.definitions.condition(condition)
        for variable in self.variables.values():
            for extent in variable.shape:
                self.definitions.expr(extent)

    def _exact(self) -> str:
        least = [
            f"({identifier(p.name)} >= {0 if self._admits_zero(p.name) else 1})"
            for p in self.program.params
            if p.kind == "size"
        ]
        named = [
            f"({identifier(name)} = {cexpr(expr)})"
            for expr, name in self.definitions.names.items()
        ]
        return conjunction([*least, *map(bexpr, self.program.preconditions), *named])

    def _admits_zero(self, size: Sym) -> bool:
        """Whether a precondition admits 0 for a size (decision 6)."""
        for precondition in self.program.preconditions:
            for condition in conjuncts(precondition):
                if control_variables(condition) == {size} and holds(condition, {size: 0}):
                    name = identifier(size)
                    if isl.bounded_below(isl.set_of((), (name,), bexpr(condition))):
                        return True
        return False

    def _relaxed(self) -> isl.Set:
        used: set[Sym] = set()
        for site in self.sites:
            for loop in site.loops:
                used |= control_variables(self.definitions.expr(loop.lo))
                used |= control_variables(self.definitions.expr(loop.hi))
            for _, condition in site.guards:
                used |= control_variables(self.definitions.condition(condition))
        for variable in self.variables.values():
            for extent in variable.shape:
                used |= control_variables(self.definitions.expr(extent))
        for site in self.sites:
            for access in accesses_of(site.op):
                used |= read_by(access)
        unused = [identifier(size) for size in self.sizes if size not in used]
        return isl.project_params(self.exact_context, unused)

    def expr(self, expr: CExpr) -> str:
        """ISL text of an expression."""
        return cexpr(self.definitions.expr(expr))

    def condition(self, condition: BExpr) -> str:
        """ISL text of a condition."""
        return bexpr(self.definitions.condition(condition))

    def in_range(self, loop: Loop) -> str:
        """ISL text of the bounds of a loop's iterator."""
        lo, hi = self.definitions.expr(loop.lo), self.definitions.expr(loop.hi)
        return in_range(loop.iterator, lo, hi)


def read_by(access: Access) -> frozenset[Sym]:
    """The control variables of an access."""
    return frozenset[Sym]().union(
        *(
            control_variables(coord.at)
            if isinstance(coord, Point)
            else control_variables(coord.lo) | control_variables(coord.hi)
            for coord in access.coords
        )
    )


def accesses_of(op: Op) -> Iterator[Access]:
    """The accesses of an operation."""
    from exogpu.machine.amir import Arrive, Await, Check, Clear, Record

    match op:
        case Record():
            yield op.access
            if op.trailing is not None:
                yield op.trailing.home
                yield from op.trailing.targets
        case Check() | Clear():
            yield op.access
        case Arrive():
            yield op.home
            yield from op.targets
        case Await():
            yield op.barrier
        case _:
            return


class Frame:
    """The instances within one iteration of the loops of a prefix, whose iterators are
    parameters."""

    def __init__(self, model: Model, loops: tuple[Loop, ...], sites: tuple[Site, ...]) -> None:
        self.model = model
        self.loops = loops
        self.sites = sites
        self.depth = len(loops)
        self.params = (*model.names, *(identifier(loop.iterator) for loop in loops))
        self._head = f"[{', '.join(self.params)}] -> "
        self._domains: dict[int, isl.Set] = {}
        self._schedules: dict[int, isl.Map] = {}
        self._threads: dict[int, isl.Map] = {}
        self._before: dict[tuple[int, int], isl.Map] = {}
        self._shared: dict[tuple[int, int], isl.Map] = {}
        self._covered: dict[tuple[int, int], isl.Map] = {}
        self._cells: dict[tuple[int, Access], isl.Map] = {}

    def context(self) -> isl.Set:
        """The parameters that occur: the exact context and the bounds of the frame's loops."""
        first = self.sites[0]
        bounds = [self.model.in_range(loop) for loop in self.loops]
        bounds += [self.model.condition(b) for at, b in first.guards if at < self.depth]
        own = isl.context(self.params, conjunction(bounds))
        return own.intersect(self.model.exact_context)

    def inner(self, site: Site) -> tuple[str, ...]:
        """The dimensions of a site's tuple."""
        return tuple(identifier(name) for name in site.iterators[self.depth :])

    def tuple_text(self, site: Site) -> str:
        """`S7[k_3, m_5]`"""
        return f"{site.tuple_name}[{', '.join(self.inner(site))}]"

    def domain(self, site: Site) -> isl.Set:
        """The instances of a site."""
        if site.number not in self._domains:
            bounds = [self.model.in_range(loop) for loop in site.loops[self.depth :]]
            bounds += [self.model.condition(b) for at, b in site.guards if at >= self.depth]
            text = f"{self._head}{{ {self.tuple_text(site)} : {conjunction(bounds)} }}"
            whole = isl.parse_set(text)
            self._domains[site.number] = isl.set_under(whole, self.model.context).coalesce()
        return self._domains[site.number]

    def schedule(self, site: Site) -> isl.Map:
        """When an instance happens: `S7[k] -> [position, k, position, 0, ...]`."""
        if site.number not in self._schedules:
            times = [str(site.path[self.depth])]
            inner = zip(self.inner(site), site.path[self.depth + 1 :], strict=True)
            for name, position in inner:
                times += [name, str(position)]
            times += ["0"] * (2 * (self.model.depth - len(site.loops)))
            text = f"{self._head}{{ {self.tuple_text(site)} -> [{', '.join(times)}] }}"
            self._schedules[site.number] = isl.restrict_domain(
                isl.parse_map(text), self.domain(site)
            )
        return self._schedules[site.number]

    def cells(self, site: Site, access: Access) -> isl.Map:
        """The elements of an access that lie inside its variable: `S7[k] -> V2[i, j]`."""
        if (site.number, access) not in self._cells:
            variable = self.model.variables[access.name]
            dims = [f"e{at}" for at in range(len(access.coords))]
            inside: list[str] = []
            for dim, coord, extent in zip(dims, access.coords, variable.shape, strict=True):
                inside.append(f"0 <= {dim} < {self.model.expr(extent)}")
                match coord:
                    case Point():
                        inside.append(f"{dim} = {self.model.expr(coord.at)}")
                    case Interval():
                        lo, hi = self.model.expr(coord.lo), self.model.expr(coord.hi)
                        inside.append(f"{lo} <= {dim} < {hi}")
                    case _:
                        assert_never(coord)
            text = (
                f"{self._head}{{ {self.tuple_text(site)} -> V{access.name.number}"
                f"[{', '.join(dims)}] : {conjunction(inside)} }}"
            )
            self._cells[site.number, access] = isl.restrict_domain(
                isl.parse_map(text), self.domain(site)
            ).coalesce()
        return self._cells[site.number, access]

    def everyone(self, site: Site) -> bool:
        """Whether the site stands at CPU scope: every thread of every task."""
        return site.op.origin.threads is None

    def threads(self, site: Site) -> isl.Map:
        """The executing threads of an instance: `S7[k] -> T[t]`.

        Raises UndecidedError at CPU scope, which has no such set, and outside of tasks, where
        the machine's task is the last one that ran.
        """
        if site.number not in self._threads:
            mapping = site.op.origin.threads
            assert mapping is not None
            offsets, inside = [], []
            for at, axis in enumerate(mapping.axes):
                offsets.append(f"{axis.pitch} * ({self.model.expr(axis.offset)} + j{at})")
                inside.append(f"0 <= j{at} < {axis.extent}")
            inside.append(f"t = {' + '.join(offsets) or '0'}")
            exists = ", ".join(f"j{at}" for at in range(len(mapping.axes)))
            condition = conjunction(inside)
            if exists:
                condition = f"exists {exists} : {condition}"
            text = f"{self._head}{{ {self.tuple_text(site)} -> T[t] : {condition} }}"
            self._threads[site.number] = isl.restrict_domain(
                isl.parse_map(text), self.domain(site)
            ).coalesce()
        return self._threads[site.number]

    # --- pairs of sites -------------------------------------------------------------------

    def before(self, first: Site, second: Site) -> isl.Map:
        """The pairs of instances of which the first comes earlier."""
        key = (first.number, second.number)
        if key not in self._before:
            self._before[key] = isl.before(self.schedule(first), self.schedule(second))
        return self._before[key]

    def shared(self, first: Site, second: Site) -> isl.Map:
        """The pairs, the first earlier, that some thread executes both of."""
        key = (first.number, second.number)
        if key not in self._shared:
            found = self.same_task(self.before(first, second), first, second)
            if not self.everyone(first) and not self.everyone(second) and not found.is_empty():
                pairs = isl.pairs(self.threads(first), self.threads(second))
                found = found.intersect(pairs).coalesce()
            self._shared[key] = found
        return self._shared[key]

    def covered(self, first: Site, second: Site) -> isl.Map:
        """The pairs, the first earlier, such that all threads of the second execute the first."""
        key = (first.number, second.number)
        if key not in self._covered:
            found = self.same_task(self.before(first, second), first, second)
            if not self.everyone(first):
                if self.everyone(second):
                    found = isl.empty_like(found)
                elif not found.is_empty():
                    found = found.intersect(
                        self.contained(second, first).reverse()
                    ).coalesce()
            self._covered[key] = found
        return self._covered[key]

    def covers(self, first: Site, second: Site) -> isl.Map:
        """The pairs, the first earlier, such that all threads of the first execute the second."""
        found = self.same_task(self.before(first, second), first, second)
        if self.everyone(second):
            return found
        if self.everyone(first):
            return isl.empty_like(found)
        if found.is_empty():
            return found
        return found.intersect(self.contained(first, second)).coalesce()

    def contained(self, inner: Site, outer: Site) -> isl.Map:
        """The pairs, in any order, such that all threads of the first execute the second."""
        return isl.contained(self.threads(inner), self.threads(outer))

    def same_task(self, relation: isl.Map, first: Site, second: Site) -> isl.Map:
        """The pairs of one task; a site at CPU scope shares every task (decision 2)."""
        if self.everyone(first) or self.everyone(second):
            return relation
        depth = first.task
        if depth is None and second.task is None:
            return relation
        if depth is None or second.task != depth or first.loops[:depth] != second.loops[:depth]:
            return isl.empty_like(relation)
        return isl.equal_dims(relation, [(at, at) for at in range(max(0, depth - self.depth))])
