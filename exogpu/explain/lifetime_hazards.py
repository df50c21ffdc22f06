"""Finds who takes the bytes of a shared variable after its end: FREE protects it from that."""

from __future__ import annotations

from collections.abc import Iterator, Mapping, Sequence
from dataclasses import dataclass
from math import prod
from typing import Final

from exogpu.amir.nodes import Check, Loop, Program
from exogpu.amir.walk import loops_of, path_to
from exogpu.ir.nodes import CExpr, Int, Sub
from exogpu.ir.walk import control_variables, evaluate, holds

LARGER: Final = 4096
"""So far above the sizes of a hazard a second task is looked for."""


@dataclass(frozen=True, slots=True)
class Successor:
    """Names the statement or task that takes the memory of a variable."""

    called: str
    """`the next task of this CTA`"""
    loops: tuple[Loop, ...] = ()
    """For a task or an iteration: the loops that must have a second iteration."""


def successor(program: Program, check: Check) -> Successor | None:
    """Finds who may overwrite the memory that ends: `the next task of this CTA`; None on the host.

    A shared variable gives its bytes to the next one of its block, to the next iteration around
    it, or at the end of its task to the next task of the CTA.
    """
    variable = next((v for v in program.variables if v.name is check.access.name), None)
    if variable is None or not variable.shared:
        return None
    if (name := _declared_there(program, check)) is not None:
        return Successor(name)
    around = loops_of(path_to(program.body, check))
    if variable.resident or not around:
        return Successor("the next CTA on this SM")
    inner = around[-1]
    if not inner.tasks:
        return Successor(
            f"the next iteration of the loop at line {inner.origin.span.line}", (inner,)
        )
    tasks = tuple(loop for loop in around if loop.tasks)
    if all(_extent(loop) == Int(1) for loop in tasks):
        return Successor("the next CTA on this SM")
    return Successor("the next task of this CTA", tasks)


def first_successor(program: Program, loops: Sequence[Loop], sizes: Mapping[str, int]) -> str:
    """The smallest size at which the loops have two iterations: `M = 2`.

    Empty where these sizes have them, and where one size alone does not bring them.
    """
    env = {p.name: sizes[p.name.name] for p in program.params if p.name.name in sizes}
    extents = [_extent(loop) for loop in loops]
    known = frozenset(env)
    if not loops or any(control_variables(extent) - known for extent in extents):
        return ""

    def has_two_iterations(name: object, value: int) -> bool:
        at = {**env, **{one: value for one in env if one is name}}
        asked = (c for c in program.preconditions if control_variables(c) <= known)
        return prod(evaluate(e, at) for e in extents) > 1 and all(holds(c, at) for c in asked)

    if has_two_iterations(None, 0):
        return ""
    used = frozenset[object]().union(*map(control_variables, extents))
    sought = [one for one in env if one in used]
    for more in range(1, LARGER):
        for name in sought:
            if has_two_iterations(name, env[name] + more):
                return f"{name} = {env[name] + more}"
    return ""


def _extent(loop: Loop) -> CExpr:
    if loop.lo == Int(0):
        return loop.hi
    return Sub(loop.hi, loop.lo)


def _declared_there(program: Program, check: Check) -> str | None:
    """The shared variable whose declaration ends this one."""
    ends = check.origin.ends
    if ends is None:
        return None
    name = ends.text.partition(":")[0].strip()
    return next((name for one in _shared_names(program) if one == name), None)


def _shared_names(program: Program) -> Iterator[str]:
    return (v.name.name for v in program.variables if v.shared)
