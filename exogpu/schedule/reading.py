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

from exogpu.frontend.procedures import read_proc
from exogpu.frontend.source import Source
from exogpu.hw.language import LANGUAGE
from exogpu.ir.nodes import Block, CallInstr, CallProc, Instr, Proc, Stmt
from exogpu.ir.printer import print_proc
from exogpu.ir.walk import map_blocks, walk
from exogpu.result.errors import Diagnostic
from exogpu.schedule.scopes import declared


@dataclass(frozen=True, slots=True)
class _Known:
    """An instruction that the procedure calls already, as a template."""

    instrs: tuple[Instr, ...]

    @property
    def constant_names(self) -> tuple[str, ...]:
        return tuple(name for name, _ in self.instrs[0].constants)

    @property
    def parameter_names(self) -> tuple[str, ...]:
        return tuple(p.name.name for p in self.instrs[0].params)

    def instantiate(self, constants: Mapping[str, object]) -> Instr:
        for instr in self.instrs:
            if dict(instr.constants) == dict(constants):
                return instr
        return self.instrs[0]


@dataclass(frozen=True, slots=True)
class _Called:
    """A procedure that is called already."""

    ir: Proc | None


def refusals(proc: Proc) -> tuple[Diagnostic, ...]:
    """Returns the diagnostics of reading the procedure's text."""
    proc = _told_apart(proc)
    text = print_proc(proc)
    (function,) = ast.parse(text).body
    assert isinstance(function, ast.FunctionDef)
    names = ChainMap(dict(_callees(proc)), dict(LANGUAGE))
    lines = tuple(f"{line}\n" for line in text.splitlines())
    _, found = read_proc(Source(function, f"<derived {proc.name}>", lines, names))
    return found


def _told_apart(proc: Proc) -> Proc:
    """The procedure with a name of its own for each that it calls: a text has no other."""
    taken = {name.name for name in (*(p.name for p in proc.params), *declared(proc.body))}
    taken |= {stmt.instr.name for stmt in walk(proc.body) if isinstance(stmt, CallInstr)}
    known: dict[Proc, Proc] = {}

    def called(callee: Proc) -> Proc:
        if callee not in known:
            spelled, number = callee.name, 0
            while spelled in taken:
                number += 1
                spelled = f"{callee.name}_{number}"
            taken.add(spelled)
            known[callee] = callee if number == 0 else replace(callee, name=spelled)
        return known[callee]

    def block(stmts: Block) -> Block:
        found = tuple(map(one, stmts))
        return stmts if all(map(is_, found, stmts)) else found

    def one(stmt: Stmt) -> Stmt:
        if isinstance(stmt, CallProc):
            made = called(stmt.proc)
            return stmt if made is stmt.proc else replace(stmt, proc=made)
        return map_blocks(stmt, block)

    body = block(proc.body)
    return proc if body is proc.body else replace(proc, body=body)


def _callees(proc: Proc) -> Iterator[tuple[str, object]]:
    instrs: dict[str, dict[Instr, None]] = {}
    for stmt in walk(proc.body):
        match stmt:
            case CallInstr():
                instrs.setdefault(stmt.instr.name, {})[stmt.instr] = None
            case CallProc():
                yield stmt.proc.name, _Called(stmt.proc)
            case _:
                pass
    for name, made in instrs.items():
        yield name, _Known(tuple(made))
