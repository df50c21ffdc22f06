"""Diagnostics of code generation: G8, raised where they are met."""

from __future__ import annotations

from exogpu.result.errors import Diagnostic, ExoGpuError, Span


def unsupported(what: str, span: Span, help: str, code: str = "G801") -> ExoGpuError:
    """The error that refuses a statement which has no lowering yet."""
    return ExoGpuError([Diagnostic(code, what, span, help)])


class InternalError(AssertionError):
    """A witness of this package was refused by its checker: a bug here, not in the kernel."""
