"""Faults of a program, as data: the place, the fault, and the remedy.

Analyses return or collect `Diagnostic` values; `ExoGpuError` carries them across the Python
boundary when a user's decorator or call cannot go on.  `exogpu.report.render_verdict` draws them.
"""

from __future__ import annotations

from collections.abc import Callable, Iterable
from dataclasses import dataclass, field
from typing import Any, Final

# A hook that draws verdicts and errors: the drawings are of a layer above the data.
#
# `exogpu` installs the drawings of `exogpu.report` when it is imported.


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


@dataclass(frozen=True, slots=True, order=True)
class Span:
    """A range of source text; lines and columns count from 1, `end_column` is exclusive."""

    file: str
    line: int
    column: int
    end_line: int
    end_column: int
    text: str = field(default="", compare=False)
    """The whole first source line, so that a diagnostic can be drawn without the file."""


NOWHERE: Final = Span("<none>", 0, 0, 0, 0)


@dataclass(frozen=True, slots=True)
class Note:
    """A second place that a diagnostic speaks of."""

    message: str
    span: Span


@dataclass(frozen=True, slots=True)
class Diagnostic:
    """One finding: `code` is a key of `exogpu.diagnostics.codes.CODES`, `help` is the remedy."""

    code: str
    message: str
    span: Span
    help: str
    notes: tuple[Note, ...] = ()


class ExoGpuError(Exception):
    """An ill-formed program or call; the message lists every diagnostic, one a line."""

    def __init__(self, diagnostics: Iterable[Diagnostic]) -> None:
        self.diagnostics: tuple[Diagnostic, ...] = tuple(diagnostics)
        super().__init__("\n".join(one_line(d) for d in self.diagnostics))

    def __reduce__(self) -> tuple[type[ExoGpuError], tuple[tuple[Diagnostic, ...]]]:
        return type(self), (self.diagnostics,)

    def _render_traceback_(self) -> list[str]:
        """Returns the text that a notebook shows in place of a traceback."""
        return installed().lines(self.diagnostics)


class UnfitError(ValueError):
    """A value that a name of the language does not take: why, and what it takes."""

    def __init__(self, message: str, help: str) -> None:
        super().__init__(message)
        self.help = help


class InternalError(Exception):
    """A mistake of exogpu itself: no answer about any kernel follows from it."""


def one_line(diagnostic: Diagnostic) -> str:
    """The diagnostic without its drawing: `file:line:column: CODE: message (remedy)`."""
    at = diagnostic.span
    place = f"{at.file}:{at.line}:{at.column}: " if at.line else ""
    return f"{place}{diagnostic.code}: {diagnostic.message} ({diagnostic.help})"
