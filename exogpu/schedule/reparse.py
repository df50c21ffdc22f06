"""Checks a derived procedure against the language's rules of scopes and memories.

A primitive keeps the sequential meaning; that a memory can be accessed where it is, and that a
statement may stand where it stands, are rules which reading the source checks.  So a derived
procedure is printed and read.
"""

from __future__ import annotations

import ast
from collections import ChainMap
from collections.abc import Iterator, Mapping
from dataclasses import dataclass, replace
from operator import is_

from exogpu.diagnostics.errors import Diagnostic
from exogpu.frontend.procedures import read_proc
from exogpu.frontend.source import Source
from exogpu.hw.language import LANGUAGE
from exogpu.ir import nodes
from exogpu.ir.printer import print_proc
from exogpu.ir.types import DataType, Sym
from exogpu.ir.walk import accesses, blocks, control_variables, declarations, map_blocks, walk

# Collects the names that statements declare, and those that they use.


def out_of_scope(proc: nodes.Proc) -> tuple[Sym, nodes.Stmt] | None:
    """A variable that a statement names and that is not declared where it stands."""

    def search_block(block: nodes.Block, known: frozenset[Sym]) -> tuple[Sym, nodes.Stmt] | None:
        for stmt in block:
            for name in named_variables(stmt):
                if name not in known:
                    return name, stmt
            inner = known | {stmt.iterator} if isinstance(stmt, nodes.For) else known
            for nested in blocks(stmt):
                if found := search_block(nested, inner):
                    return found
            if isinstance(stmt, nodes.Alloc | nodes.BarrierAlloc | nodes.WindowStmt):
                known |= {stmt.name}
        return None

    return search_block(proc.body, frozenset(p.name for p in proc.params))


def declared(block: nodes.Block) -> Iterator[Sym]:
    """The variables that statements declare, iterators included."""
    for stmt in walk(block):
        match stmt:
            case nodes.For():
                yield stmt.iterator
            case nodes.Alloc() | nodes.BarrierAlloc() | nodes.WindowStmt():
                yield stmt.name
            case _:
                pass


def named_variables(stmt: nodes.Stmt) -> Iterator[Sym]:
    """The variables that a statement itself names, without those that it declares."""

    def control(*exprs: nodes.CExpr) -> Iterator[Sym]:
        for expr in exprs:
            yield from sorted(control_variables(expr), key=lambda s: s.number)

    match stmt:
        case nodes.For():
            yield from control(stmt.lo, stmt.hi)
        case nodes.If():
            yield from sorted(control_variables(stmt.condition), key=lambda s: s.number)
        case nodes.Alloc() | nodes.BarrierAlloc():
            yield from control(*stmt.shape)
        case nodes.CallInstr() | nodes.CallProc():
            for argument in stmt.arguments:
                if not isinstance(argument, nodes.Access | nodes.Const):
                    yield from control(argument)
        case _:
            pass
    for access in accesses(stmt):
        yield access.name
        for coord in access.coords:
            yield from control(*(getattr(coord, f) for f in coord.__slots__))


def names_in(block: nodes.Block) -> frozenset[Sym]:
    """Every variable that the statements of a block name."""
    return frozenset(name for stmt in walk(block) for name in named_variables(stmt))


def extents(proc: nodes.Proc) -> dict[Sym, tuple[nodes.CExpr, ...]]:
    """The shapes of a procedure's variables, but for windows."""
    return {
        name: declaration.shape
        for name, declaration in declarations(proc).items()
        if isinstance(declaration, nodes.DataParam | nodes.Alloc)
    }


def dtypes(proc: nodes.Proc) -> dict[Sym, DataType]:
    """The data types of a procedure's variables, windows included."""
    found: dict[Sym, DataType] = {}
    for name, declaration in declarations(proc).items():
        match declaration:
            case nodes.DataParam() | nodes.Alloc():
                found[name] = declaration.dtype
            case nodes.WindowStmt() if declaration.source.name in found:
                found[name] = found[declaration.source.name]
            case _:
                pass
    return found


@dataclass(frozen=True, slots=True)
class _Known:
    """An instruction that the procedure calls already, as a template."""

    instrs: tuple[nodes.Instr, ...]

    @property
    def constant_names(self) -> tuple[str, ...]:
        return tuple(name for name, _ in self.instrs[0].constants)

    @property
    def parameter_names(self) -> tuple[str, ...]:
        return tuple(p.name.name for p in self.instrs[0].params)

    def instantiate(self, constants: Mapping[str, object]) -> nodes.Instr:
        for instr in self.instrs:
            if dict(instr.constants) == dict(constants):
                return instr
        return self.instrs[0]


@dataclass(frozen=True, slots=True)
class _Called:
    """A procedure that is called already."""

    ir: nodes.Proc | None


def refusals(proc: nodes.Proc) -> tuple[Diagnostic, ...]:
    """Returns the diagnostics of reading the procedure's text."""
    proc = _told_apart(proc)
    text = print_proc(proc)
    (function,) = ast.parse(text).body
    assert isinstance(function, ast.FunctionDef)
    names = ChainMap(dict(_callees(proc)), dict(LANGUAGE))
    lines = tuple(f"{line}\n" for line in text.splitlines())
    _, found = read_proc(Source(function, f"<derived {proc.name}>", lines, names))
    return found


def _told_apart(proc: nodes.Proc) -> nodes.Proc:
    """The procedure with a name of its own for each that it calls: a text has no other."""
    taken = {name.name for name in (*(p.name for p in proc.params), *declared(proc.body))}
    taken |= {stmt.instr.name for stmt in walk(proc.body) if isinstance(stmt, nodes.CallInstr)}
    known: dict[nodes.Proc, nodes.Proc] = {}

    def rename_callee(callee: nodes.Proc) -> nodes.Proc:
        if callee not in known:
            spelled, number = callee.name, 0
            while spelled in taken:
                number += 1
                spelled = f"{callee.name}_{number}"
            taken.add(spelled)
            known[callee] = callee if number == 0 else replace(callee, name=spelled)
        return known[callee]

    def block(stmts: nodes.Block) -> nodes.Block:
        found = tuple(map(rename_in, stmts))
        return stmts if all(map(is_, found, stmts)) else found

    def rename_in(stmt: nodes.Stmt) -> nodes.Stmt:
        if isinstance(stmt, nodes.CallProc):
            made = rename_callee(stmt.proc)
            return stmt if made is stmt.proc else replace(stmt, proc=made)
        return map_blocks(stmt, block)

    body = block(proc.body)
    return proc if body is proc.body else replace(proc, body=body)


def _callees(proc: nodes.Proc) -> Iterator[tuple[str, object]]:
    instrs: dict[str, dict[nodes.Instr, None]] = {}
    for stmt in walk(proc.body):
        match stmt:
            case nodes.CallInstr():
                instrs.setdefault(stmt.instr.name, {})[stmt.instr] = None
            case nodes.CallProc():
                yield stmt.proc.name, _Called(stmt.proc)
            case _:
                pass
    for name, made in instrs.items():
        yield name, _Known(tuple(made))
