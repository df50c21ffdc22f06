"""Uses of CUDA-scoped variables: who accesses which coordinates, under which loops and guards."""

from __future__ import annotations

from collections.abc import Iterator, Mapping
from dataclasses import dataclass, replace

from exogpu.analysis.executors import CollectiveFacts, Desugared
from exogpu.analysis.load_facts import told
from exogpu.analysis.tiling import Tiling
from exogpu.ir.isltext import bexpr, identifier, in_range
from exogpu.ir.names import Sym
from exogpu.ir.nodes import (
    Access,
    Add,
    Alloc,
    Arrive,
    Assign,
    Await,
    BarrierAlloc,
    BExpr,
    Block,
    CallInstr,
    Contract,
    ControlParam,
    Coord,
    CVar,
    DeviceFunction,
    For,
    If,
    Int,
    Interval,
    Loaded,
    Not,
    Point,
    Proc,
    Reduce,
    Stmt,
    Warps,
)
from exogpu.ir.walk import control_variables, reads, walk
from exogpu.result.errors import Span


@dataclass(frozen=True, slots=True)
class Where:
    """The place of a statement: its tiling, its iterators, and what holds of them."""

    tiling: Tiling
    iterators: tuple[Sym, ...]
    """All enclosing iterators, outermost first, those of instruction calls included."""
    conditions: tuple[tuple[frozenset[Sym], str], ...]
    """ISL constraints of loops and guards, with the variables that each one reads."""


@dataclass(frozen=True, slots=True, eq=False)
class Use:
    """One access of a variable: distributed dimensions of calls are points already."""

    stmt: Stmt
    access: Access
    where: Where
    span: Span
    argument: int | None = None
    """Of a call, which of its arguments; None for its trailing barrier."""


@dataclass(frozen=True, slots=True, eq=False)
class Declared:
    """A CUDA-scoped variable, where it is allocated, and its uses in program order."""

    declaration: Alloc | BarrierAlloc
    where: Where
    block: Block
    """The block that the declaration stands in."""
    uses: tuple[Use, ...]


def cuda_variables(proc: Proc, facts: CollectiveFacts) -> tuple[Declared, ...]:
    """Every data and barrier variable allocated at CUDA scope, in program order."""
    collect = _Collect(facts, proc.contracts, {}, {})
    sizes = [p.name for p in proc.params if isinstance(p, ControlParam) and p.kind == "size"]
    premise = [(frozenset({n}), f"{identifier(n)} >= 0") for n in sizes]
    premise += [_guard(p) for p in proc.preconditions]
    collect.block(proc.body, (), tuple(premise))
    return tuple(
        Declared(declaration, where, block, tuple(collect.uses.get(name, ())))
        for name, (declaration, where, block) in collect.declared.items()
    )


def distributed(access: Access, loops: Desugared | None) -> Access:
    """The access with its leading interval coordinates replaced by the loops of its call."""
    iterators = list(loops.iterators) if loops is not None else []
    coords: list[Coord] = []
    for coord in access.coords:
        if isinstance(coord, Interval) and iterators:
            iterator = CVar(iterators.pop(0))
            coords.append(Point(iterator if coord.lo == Int(0) else Add(coord.lo, iterator)))
        else:
            coords.append(coord)
    return replace(access, coords=tuple(coords))


_Conditions = tuple[tuple[frozenset[Sym], str], ...]


@dataclass(slots=True)
class _Collect:
    facts: CollectiveFacts
    contracts: tuple[Contract, ...]
    declared: dict[Sym, tuple[Alloc | BarrierAlloc, Where, Block]]
    uses: dict[Sym, list[Use]]
    loads: tuple[For, ...] = ()
    """The values from memory around the present statement."""

    def block(self, block: Block, iterators: tuple[Sym, ...], known: _Conditions) -> None:
        for stmt in block:
            tiling = self.facts.scope.get(stmt)
            if tiling is not None:
                where = Where(tiling, iterators, known)
                if isinstance(stmt, Alloc | BarrierAlloc):
                    self.declared[stmt.name] = (stmt, where, block)
                for access, place, at in _accesses(stmt, where, self.facts):
                    span = access.span if access.span.line else stmt.span
                    found = self.uses.setdefault(access.name, [])
                    found.append(Use(stmt, access, place, span, at))
            self.inside(stmt, iterators, known)

    def inside(self, stmt: Stmt, iterators: tuple[Sym, ...], known: _Conditions) -> None:
        match stmt:
            case For():
                read = control_variables(stmt.lo) | control_variables(stmt.hi) | {stmt.iterator}
                found = [(read, in_range(stmt.iterator, stmt.lo, stmt.hi))]
                outer = self.loads
                if isinstance(stmt.mode, Loaded):
                    found += map(_guard, told(stmt, outer, self.contracts))
                    self.loads = (*outer, stmt)
                self.block(stmt.body, (*iterators, stmt.iterator), (*known, *found))
                self.loads = outer
            case If():
                self.block(stmt.body, iterators, (*known, _guard(stmt.condition)))
                self.block(stmt.orelse, iterators, (*known, _guard(Not(stmt.condition))))
            case DeviceFunction() | Warps():
                self.block(stmt.body, iterators, known)
            case _:
                pass


def _guard(condition: BExpr) -> tuple[frozenset[Sym], str]:
    return control_variables(condition), bexpr(condition)


def _accesses(
    stmt: Stmt, where: Where, facts: CollectiveFacts
) -> Iterator[tuple[Access, Where, int | None]]:
    match stmt:
        case Assign() | Reduce():
            for access in reads(stmt.value):
                yield access, where, None
            yield stmt.target, where, None
        case CallInstr():
            for at, argument in enumerate(stmt.arguments):
                if isinstance(argument, Access):
                    loops = facts.operands.get((stmt, at))
                    yield distributed(argument, loops), _within(where, loops), at
            if stmt.trailing is not None:
                loops = facts.trailing.get(stmt)
                yield distributed(stmt.trailing, loops), _within(where, loops), None
        case Arrive():
            for target in stmt.targets:
                yield target, where, None
        case Await():
            yield stmt.barrier, where, None
        case _:
            return


def _within(where: Where, loops: Desugared | None) -> Where:
    if loops is None:
        return where
    return replace(where, tiling=loops.tiling, iterators=(*where.iterators, *loops.iterators))


def position_of(block: Block, uses: tuple[Use, ...]) -> Mapping[Stmt, int]:
    """For each use's statement, the position in `block` of the statement that contains it."""
    wanted = {use.stmt for use in uses}
    return {
        inner: at for at, stmt in enumerate(block) for inner in walk((stmt,)) if inner in wanted
    }
