"""Conditions of the certificates, each dropped: what a case is, and what programs are made of."""

from __future__ import annotations

from collections.abc import Callable
from dataclasses import dataclass, replace
from types import ModuleType

import pytest

from exogpu.ir.nodes import CVar
from exogpu.symbolic.encode.encoder import Draft
from exogpu.symbolic.encode.formulas import TRUE
from tests.machine.build import (
    COMMIT,
    MBARRIER,
    Q1,
    Builder,
    Name,
    at_least,
    t,
)

Patch = pytest.MonkeyPatch
Change = Callable[[Patch], None]


@dataclass(frozen=True)
class Case:
    """A condition dropped, and the program that it would let through."""

    name: str
    change: Change
    program: Callable[[Builder, CVar], None]
    careless: str | None = None


CASES: list[Case] = []
COUNTS: dict[str, Change] = {}
"""Careless ways to count."""


def killed(name: str, change: Change, careless: str | None = None):
    """The mutant is killed by the program that follows."""

    def register(program: Callable[[Builder, CVar], None]):
        CASES.append(Case(name, change, program, careless))
        return program

    return register


# --- changes ------------------------------------------------------------------------------------


def holds(module: ModuleType, name: str, *kinds: type, at: int = 0) -> Change:
    """A condition holds always; or where an instance, its argument `at`, is of these kinds."""
    kept = getattr(module, name)

    def condition(*given):
        if not kinds or isinstance(given[at].site.op, kinds):
            return TRUE
        return kept(*given)

    return lambda patch: patch.setattr(module, name, condition)


def method(cls: type, name: str, found: Callable[..., object]) -> Change:
    return lambda patch: patch.setattr(cls, name, found)


def unasked(owner: object, name: str, where: Callable[..., bool] = lambda *_: True) -> Change:
    """An obligation is taken to hold by the rules alone."""
    kept = getattr(owner, name)

    def draft(*given) -> Draft:
        made = kept(*given)
        return replace(made, script="") if where(*given) else made

    return lambda patch: patch.setattr(owner, name, draft)


# --- programs -------------------------------------------------------------------------------------


def write(b: Builder, x: Name, *index, by=None, q=Q1, **more) -> None:
    b.record(x[index], by or t(0), q, mutate=True, **more)


def reads(b: Builder, x: Name, *index, by=None, q=Q1, **more) -> None:
    b.check(x[index], t(1) if by is None else by, q, mutates=True, reads=True, **more)


def is_value(b: Builder, k, value: int):
    """A guard, for one iteration."""
    return b.when(equals(k, value))


def equals(k, value):
    return replace(at_least(k, value), op="==")


def barrier(b: Builder, *shape, depth: int | None = None) -> Name:
    z = b.barrier("z", *shape, depth=depth, mechanism=MBARRIER if depth else COMMIT)
    b.alloc(z)
    return z
