"""The one handler of what goes wrong on the command line: a line to read, and an exit status.

Whatever a command raises ends here, so that no traceback ends with the status of a verdict.
"""

from __future__ import annotations

import os
import sys
import traceback
from collections.abc import Callable, Collection, Iterable, Iterator
from contextlib import contextmanager, suppress
from dataclasses import dataclass
from io import TextIOWrapper
from pathlib import Path
from typing import TYPE_CHECKING, Any, Final, NoReturn, TypeVar

import typer
from typer.core import TyperGroup

from exogpu.cli.files import in_words
from exogpu.diagnostics.errors import NOWHERE, Diagnostic, ExoGpuError, Span, one_line
from exogpu.diagnostics.verdict import Verdict, Word
from exogpu.report.render_verdict import console, draw_diagnostics

if TYPE_CHECKING:
    from exogpu.api import Procedure


# The ways in which a command ends early, in words.


def wrong(code: str, message: str, help: str) -> Diagnostic:
    """Makes the diagnostic for a faulty call."""
    return Diagnostic(code, message, NOWHERE, help)


def stop(*diagnostics: Diagnostic) -> NoReturn:
    """Ends the command as a wrong call."""
    console(stderr=True).print(draw_diagnostics(diagnostics), end="")
    raise typer.Exit(2)


@contextmanager
def writing() -> Iterator[None]:
    """Ends the command if its work is refused, or a folder cannot be written."""
    try:
        yield
    except ExoGpuError as error:
        stop(*error.diagnostics)
    except BrokenPipeError:
        raise
    except OSError as error:
        message = f"{error.filename or 'the output'} cannot be written: {error.strerror}"
        stop(wrong("X948", message, "choose another folder"))


def write_text(path: Path, text: str) -> None:
    """Writes a result; a file that cannot be written ends the command."""
    try:
        path.write_text(text, encoding="utf-8")
    except OSError as error:
        stop(wrong("X948", f"{path} cannot be written: {error.strerror}", "choose another file"))


# Verdicts with the places of their procedures, and the exit status that they give together.


@dataclass(frozen=True, slots=True)
class Outcome:
    """One answer of the command line: a verdict, and where its procedure (or its file) stands."""

    span: Span
    verdict: Verdict


STATUS: Final[dict[Word, int]] = {"proved": 0, "refuted": 1, "error": 2, "undecided": 3}
"""Exit status of a single verdict."""

PRECEDENCE: Final = (4, 2, 1, 3, 0)
"""4 is a failure of exogpu itself: it says nothing about any kernel."""


def exit_status(outcomes: Iterable[Outcome]) -> int:
    """Returns the first of 4, 2, 1, 3 that occurs among the statuses of the outcomes, else 0."""
    return worst({STATUS[outcome.verdict.word] for outcome in outcomes})


def worst(statuses: Collection[int]) -> int:
    """Returns the first of 4, 2, 1, 3 that occurs among the statuses, else 0."""
    return next((status for status in PRECEDENCE if status in statuses), 0)


INTERNAL: Final = 4
"""Exit status of a mistake of exogpu itself: it says nothing about any kernel."""

INTERRUPTED: Final = 130
CLOSED_PIPE: Final = 141
"""As a shell has it for a program that ends by SIGINT or by SIGPIPE."""

T = TypeVar("T")


class Commands(TyperGroup):
    """The commands, each handled."""

    def make_context(self, *arguments: Any, **options: Any) -> Any:  # noqa: ANN401
        """Reads the options; --help is printed here."""
        return handled(lambda: super(Commands, self).make_context(*arguments, **options))

    def invoke(self, ctx: Any) -> Any:  # noqa: ANN401  typer brings its own copy of click
        """Runs the command that the arguments name."""
        return handled(lambda: super(Commands, self).invoke(ctx))


def handled(work: Callable[[], T]) -> T:
    """Returns the result of `work` once it is written out; other exceptions become SystemExit.

    Exits and wrong options of typer, which carry a status themselves, pass.
    """
    try:
        try:
            return work()
        finally:
            sys.stdout.flush()  # a full disk shows here, and not after the last line of Python
    except SystemExit:
        raise
    except BaseException as error:
        if hasattr(error, "exit_code"):
            raise
        raise SystemExit(_end(error)) from None


def _end(error: BaseException) -> int:
    """Says what went wrong; the exit status."""
    match error:
        case BrokenPipeError():
            _silence()
            return CLOSED_PIPE
        case KeyboardInterrupt():
            _say("interrupted\n")
            return INTERRUPTED
        case ExoGpuError():
            _draw(*error.diagnostics)
            return STATUS["error"]
        case _:
            if os.environ.get("EXOGPU_DEBUG"):
                _say("".join(traceback.format_exception(error)))
    match error:
        case MemoryError():
            _draw(_wrong("X956", "the memory is used up", "give smaller sizes"))
            return STATUS["undecided"]
        case OSError():
            what = f"{error.filename or 'the output'}: {error.strerror or in_words(error)}"
            _draw(_wrong("X957", what, "choose another file or folder, or make room"))
            _silence()
            return STATUS["error"]
        case ModuleNotFoundError(name=str(name)) if name.split(".")[0] != "exogpu":
            remedy = "`exogpu doctor` says what is missing and how to install it"
            _draw(_wrong("X940", f"the package {name} is missing", remedy))
            return STATUS["error"]
        case _:
            _draw(internal(error))
            return INTERNAL


def prepare_streams() -> None:
    """Streams that take every name: what is closed goes nowhere, odd letters are escaped."""
    # Files that are opened later must not get the number of a closed stream.
    sys.stdout = sys.stdout or open(os.devnull, "w")  # noqa: SIM115
    sys.stderr = sys.stderr or open(os.devnull, "w")  # noqa: SIM115
    for stream in (sys.stdout, sys.stderr):
        if isinstance(stream, TextIOWrapper):
            stream.reconfigure(errors="backslashreplace")


def internal(error: BaseException) -> Diagnostic:
    """The line for a mistake of exogpu."""
    return _wrong(
        "X955",
        f"exogpu failed: {in_words(error)}",
        "this is a bug in exogpu, not in the kernel; EXOGPU_DEBUG=1 shows where",
    )


def _wrong(code: str, message: str, help: str) -> Diagnostic:
    return Diagnostic(code, message, NOWHERE, help)


def _draw(*diagnostics: Diagnostic) -> None:
    try:
        console(stderr=True).print(draw_diagnostics(diagnostics), end="")
    except Exception:  # full or closed, or the target broke what draws
        for diagnostic in diagnostics:
            _say(f"error {one_line(diagnostic)}\n")


def _say(text: str) -> None:
    with suppress(OSError, ValueError):
        sys.stderr.write(text)


def _silence() -> None:
    """Discards the text left in the buffers, so that Python does not fail at it in the end."""
    nowhere = os.open(os.devnull, os.O_WRONLY)
    for stream in (sys.stdout, sys.stderr):
        with suppress(OSError, ValueError):
            os.dup2(nowhere, stream.fileno())


# The procedures of a target that commands work on; what is wrong with them ends the command.


def parsed(target: str, *, derive: bool = False) -> list[Procedure]:
    """The procedures of a target.  Raises ExoGpuError where one could not be read."""
    from exogpu.cli.loader import load

    units = load(target, derive=derive)
    wrong = [
        diagnostic
        for unit in units
        if unit.procedure is None or unit.procedure.ir is None
        for diagnostic in (unit.procedure.diagnostics if unit.procedure else unit.diagnostics)
    ]
    if wrong:
        raise ExoGpuError(wrong)
    return [unit.procedure for unit in units if unit.procedure is not None]


def procedures_of(target: str) -> list[Procedure]:
    """The procedures of a target.  Raises ExoGpuError with all that is wrong with them."""
    procedures = parsed(target)
    if wrong := [found for procedure in procedures for found in procedure.diagnostics]:
        raise ExoGpuError(wrong)
    return procedures
