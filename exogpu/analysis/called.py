"""Finds the instruction calls of a procedure, with their sizes, iterators and guards."""

from __future__ import annotations

from collections.abc import Iterator
from dataclasses import dataclass, replace

from exogpu.analysis.instances import Domain, entry, where, within
from exogpu.ir.isltext import bexpr
from exogpu.ir.nodes import Block, CallInstr, DeviceFunction, For, If, Not, Proc, Warps


@dataclass(frozen=True, slots=True)
class Called:
    """An instruction call with its instances."""

    call: CallInstr
    domain: Domain
    launch: Domain
    """The instances of the launch that it stands in; its own at CPU scope."""


@dataclass(frozen=True, slots=True)
class _Scope:
    domain: Domain
    launch: Domain | None = None


def calls(proc: Proc) -> Iterator[Called]:
    """The instruction calls of an inlined procedure, in program order."""
    yield from _block(proc.body, _Scope(entry(proc)))


def _block(block: Block, scope: _Scope) -> Iterator[Called]:
    for stmt in block:
        match stmt:
            case CallInstr():
                yield Called(stmt, scope.domain, scope.launch or scope.domain)
            case For():
                inner = within(scope.domain, stmt)
                yield from _block(stmt.body, replace(scope, domain=inner))
            case If():
                holds, fails = bexpr(stmt.condition), bexpr(Not(stmt.condition))
                yield from _block(stmt.body, replace(scope, domain=where(scope.domain, holds)))
                yield from _block(stmt.orelse, replace(scope, domain=where(scope.domain, fails)))
            case DeviceFunction():
                yield from _block(stmt.body, replace(scope, launch=scope.domain))
            case Warps():
                yield from _block(stmt.body, scope)
            case _:
                pass
