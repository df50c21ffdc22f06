"""The one handler of what goes wrong on the command line: a line to read, and an exit status.

Whatever a command raises ends here, so that no traceback ends with the status of a verdict.
"""

from __future__ import annotations

import os
import sys
import traceback
from collections.abc import Callable
from contextlib import suppress
from io import TextIOWrapper
from typing import Any, Final, TypeVar

from typer.core import TyperGroup

from exogpu.cli.files import in_words
from exogpu.cli.outcome import STATUS
from exogpu.cli.render import console, draw_diagnostics
from exogpu.result.errors import NOWHERE, Diagnostic, ExoGpuError, one_line

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
