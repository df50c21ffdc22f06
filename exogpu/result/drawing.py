"""A hook that draws verdicts and errors: the drawings are of a layer above the data.

`exogpu` installs the drawings of `exogpu.report` when it is imported.
"""

from __future__ import annotations

from collections.abc import Callable
from dataclasses import dataclass
from typing import Any, Final


@dataclass(frozen=True, slots=True)
class Drawings:
    """Functions that draw a verdict as text, a verdict as HTML, and diagnostics as lines."""

    text: Callable[[Any], str]
    html: Callable[[Any], str]
    lines: Callable[[Any], list[str]]


_INSTALLED: Final[list[Drawings]] = []


def install(drawings: Drawings) -> None:
    """Sets the drawings that `installed` gives from now on."""
    _INSTALLED[:] = [drawings]


def installed() -> Drawings:
    """Gives the drawings that were installed last."""
    return _INSTALLED[-1]
