"""Collects the names that statements declare, and those that they use."""

from __future__ import annotations

from collections.abc import Iterator

from exogpu.ir.names import Sym
from exogpu.ir.nodes import (
    Access,
    Alloc,
    BarrierAlloc,
    Block,
    CallInstr,
    CallProc,
    CExpr,
    Const,
    DataParam,
    For,
    If,
    Proc,
    Stmt,
    WindowStmt,
)
from exogpu.ir.types import DataType
from exogpu.ir.walk import accesses, blocks, control_variables, declarations, walk


def out_of_scope(proc: Proc) -> tuple[Sym, Stmt] | None:
    """A variable that a statement names and that is not declared where it stands."""

    def inside(block: Block, known: frozenset[Sym]) -> tuple[Sym, Stmt] | None:
        for stmt in block:
            for name in used(stmt):
                if name not in known:
                    return name, stmt
            inner = known | {stmt.iterator} if isinstance(stmt, For) else known
            for nested in blocks(stmt):
                if found := inside(nested, inner):
                    return found
            if isinstance(stmt, Alloc | BarrierAlloc | WindowStmt):
                known |= {stmt.name}
        return None

    return inside(proc.body, frozenset(p.name for p in proc.params))


def declared(block: Block) -> Iterator[Sym]:
    """The variables that statements declare, iterators included."""
    for stmt in walk(block):
        match stmt:
            case For():
                yield stmt.iterator
            case Alloc() | BarrierAlloc() | WindowStmt():
                yield stmt.name
            case _:
                pass


def used(stmt: Stmt) -> Iterator[Sym]:
    """The variables that a statement itself names, without those that it declares."""

    def control(*exprs: CExpr) -> Iterator[Sym]:
        for expr in exprs:
            yield from sorted(control_variables(expr), key=lambda s: s.number)

    match stmt:
        case For():
            yield from control(stmt.lo, stmt.hi)
        case If():
            yield from sorted(control_variables(stmt.condition), key=lambda s: s.number)
        case Alloc() | BarrierAlloc():
            yield from control(*stmt.shape)
        case CallInstr() | CallProc():
            for argument in stmt.arguments:
                if not isinstance(argument, Access | Const):
                    yield from control(argument)
        case _:
            pass
    for access in accesses(stmt):
        yield access.name
        for coord in access.coords:
            yield from control(*(getattr(coord, f) for f in coord.__slots__))


def names_in(block: Block) -> frozenset[Sym]:
    """Every variable that the statements of a block name."""
    return frozenset(name for stmt in walk(block) for name in used(stmt))


def extents(proc: Proc) -> dict[Sym, tuple[CExpr, ...]]:
    """The shapes of a procedure's variables, but for windows."""
    return {
        name: declaration.shape
        for name, declaration in declarations(proc).items()
        if isinstance(declaration, DataParam | Alloc)
    }


def dtypes(proc: Proc) -> dict[Sym, DataType]:
    """The data types of a procedure's variables, windows included."""
    found: dict[Sym, DataType] = {}
    for name, declaration in declarations(proc).items():
        match declaration:
            case DataParam() | Alloc():
                found[name] = declaration.dtype
            case WindowStmt() if declaration.source.name in found:
                found[name] = found[declaration.source.name]
            case _:
                pass
    return found
