"""The ways in which a command ends early, in words."""

from __future__ import annotations

from collections.abc import Iterator
from contextlib import contextmanager
from pathlib import Path
from typing import NoReturn

import typer

from exogpu.cli.render import console, draw_diagnostics
from exogpu.result.errors import NOWHERE, Diagnostic, ExoGpuError


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
