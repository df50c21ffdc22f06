"""Kernels that are derived on first use."""

from __future__ import annotations

from collections.abc import Callable
from functools import cache
from typing import TypeVar

from exogpu.schedule.procedures import Schedulable

P = TypeVar("P", bound=Schedulable)


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


def shown(value: object) -> Callable[[], object] | None:
    """Returns the function that makes the kernel shown of a decorated function; None for anything
    else."""
    found = getattr(value, "__dict__", {}).get("shown") if callable(value) else None
    return found if callable(found) else None
