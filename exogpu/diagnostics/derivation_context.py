"""Settings for steps of schedules while a target is loaded: a callback for progress, and the cache.

It stands apart from `exogpu.schedule`, which a command need not load that meets no schedule.
"""

from __future__ import annotations

from collections.abc import Callable, Iterator
from contextlib import contextmanager
from contextvars import ContextVar
from typing import Any, TypeAlias

Tell: TypeAlias = Callable[[Any, Any], None]
"""A listener that is told each derived procedure and how it was made."""

_told: ContextVar[Tell | None] = ContextVar("told of each step", default=None)
_kept: ContextVar[bool] = ContextVar("steps are kept", default=False)


def step_callback() -> Tell | None:
    """Returns the callback for each step taken; None if there is none."""
    return _told.get()


def is_cached() -> bool:
    """Tests whether decisions on steps are cached on disk."""
    return _kept.get()


@contextmanager
def watched(tell: Tell) -> Iterator[None]:
    """Within it, each step is told of when it is taken."""
    token = _told.set(tell)
    try:
        yield
    finally:
        _told.reset(token)


@contextmanager
def keeping(on: bool) -> Iterator[None]:
    """Within it, steps are kept on disk, or not."""
    token = _kept.set(on)
    try:
        yield
    finally:
        _kept.reset(token)
