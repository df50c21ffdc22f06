"""Higher steps: functions of primitives alone, which the history of a procedure names."""

from __future__ import annotations

from collections.abc import Callable
from functools import wraps
from typing import Concatenate, ParamSpec, TypeVar, cast

from exogpu.schedule.primitive import refuse_misgiven, said
from exogpu.schedule.procedures import Schedulable, ir_of, within

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
        with within(f"{make.__name__}({', '.join(said(arguments, options))})"):
            return make(procedure, *arguments, **options)

    step.__dict__["is_higher"] = True
    return cast("Callable[Concatenate[P, Args], P]", step)
