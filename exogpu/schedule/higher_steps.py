"""Steps of steps: one after the other, one or else another, as often as possible."""

from __future__ import annotations

from collections.abc import Callable
from functools import cache, wraps
from typing import Concatenate, ParamSpec, TypeAlias, TypeVar, cast

from exogpu.diagnostics.errors import ExoGpuError
from exogpu.ir.printer import print_proc
from exogpu.schedule import derivations
from exogpu.schedule.argument_types import Schedulable
from exogpu.schedule.derivations import ir_of, part_of_step
from exogpu.schedule.primitive import arguments_text, refuse_misgiven

Step: TypeAlias = Callable[[derivations.P], derivations.P]

REFUSALS = frozenset({"X990", "X991", "X992", "X993"})
"""The codes of a step that does not apply; other errors are not caught here."""


def seq(*steps: Step[derivations.P]) -> Step[derivations.P]:
    """The steps one after the other.

    >>> from exogpu.schedule import reorder_loops, seq, unroll_loop
    >>> inside_out = seq(lambda p: reorder_loops(p, "i"), lambda p: unroll_loop(p, "i"))
    """

    def apply_steps(procedure: derivations.P) -> derivations.P:
        for step in steps:
            procedure = step(procedure)
        return procedure

    return apply_steps


def try_else(
    step: Step[derivations.P], other: Step[derivations.P] | None = None
) -> Step[derivations.P]:
    """The step, or where it is refused the other one; without another one nothing is done then."""

    def apply_or_fall_back(procedure: derivations.P) -> derivations.P:
        try:
            return step(procedure)
        except ExoGpuError as refusal:
            if not {d.code for d in refusal.diagnostics} <= REFUSALS:
                raise
            return procedure if other is None else other(procedure)

    return apply_or_fall_back


def repeat(step: Step[derivations.P], limit: int = 100) -> Step[derivations.P]:
    """The step again and again, until it is refused or changes nothing, `limit` times at most."""

    def apply_repeatedly(procedure: derivations.P) -> derivations.P:
        once = try_else(step)
        for _ in range(limit):
            after = once(procedure)
            if print_proc(ir_of(after)) == print_proc(ir_of(procedure)):
                break
            procedure = after
        return procedure

    return apply_repeatedly


# Higher steps: functions of primitives alone, which the history of a procedure names.

Args = ParamSpec("Args")


P = TypeVar("P", bound=Schedulable)


def higher(make: Callable[Concatenate[P, Args], P]) -> Callable[Concatenate[P, Args], P]:
    """A step that is made of others, each of which notes that it is part of it.

    >>> from exogpu.schedule import divide_loop, higher, reorder_loops
    >>> @higher
    ... def strips(p, loop, width):
    ...     p = divide_loop(p, loop, width, [f"{loop}o", loop], tail="perfect")
    ...     return reorder_loops(p, f"{loop}o")
    """

    @wraps(make)
    def step(procedure: P, *arguments: Args.args, **options: Args.kwargs) -> P:
        refuse_misgiven(make, [procedure, *arguments], options, ir_of(procedure))
        with part_of_step(f"{make.__name__}({', '.join(arguments_text(arguments, options))})"):
            return make(procedure, *arguments, **options)

    step.__dict__["is_higher"] = True
    return cast("Callable[Concatenate[P, Args], P]", step)


# Kernels that are derived on first use.


def derives(
    *arguments: object, **options: object
) -> Callable[[Callable[..., P]], Callable[..., P]]:
    """A function that makes a kernel when it is first called, for each configuration once.

    `exogpu history` shows the one with these arguments, where the function is in its target.
    """

    def decorated(make: Callable[..., P]) -> Callable[..., P]:
        made = cache(make)
        made.__dict__["shown"] = lambda: made(*arguments, **options)
        return made

    return decorated


def kernel_maker(value: object) -> Callable[[], object] | None:
    """Returns the function that makes the kernel shown of a decorated function; None for anything
    else."""
    found = getattr(value, "__dict__", {}).get("shown") if callable(value) else None
    return found if callable(found) else None
