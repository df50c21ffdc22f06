"""Refusals of kernels that cannot be imported, as diagnostics at the user's line."""

from __future__ import annotations

from collections.abc import Mapping

from exogpu.diagnostics.errors import NOWHERE, Diagnostic, ExoGpuError, Span
from exogpu.diagnostics.hazards import Hazard, HazardKind, Occurrence


class RefusedError(ExoGpuError):
    """A kernel that is not imported, since something of it could not be read or proved."""

    def __init__(self, code: str, message: str, help: str, span: Span = NOWHERE) -> None:
        super().__init__([Diagnostic(code, message, span, help)])

    @property
    def diagnostic(self) -> Diagnostic:
        """The diagnostic of the refusal."""
        return self.diagnostics[0]


def unread(message: str, span: Span = NOWHERE) -> RefusedError:
    """The refusal of text that is not TTGIR as this reader knows it."""
    return RefusedError("K101", message, "give TTGIR as Triton 3.8 or 3.9 prints it", span)


def unknown_operation(name: str, span: Span) -> RefusedError:
    """The refusal of an operation that has no row in the table."""
    return RefusedError(
        "K102",
        f"{name} is no operation that exogpu knows the accesses of",
        "exogpu would need a row for it: what it accesses, and what orders it",
        span,
    )


def unknown_value(message: str, span: Span) -> RefusedError:
    """The refusal of a slot, phase, predicate or trip count whose value is not known exactly."""
    return RefusedError(
        "K103",
        message,
        "exogpu needs it as an affine expression of counters, program ids and arguments",
        span,
    )


def unsupported(message: str, help: str, span: Span) -> RefusedError:
    """The refusal of something that is read, and has no translation yet."""
    return RefusedError("K104", message, help, span)


def unordered(message: str, span: Span) -> RefusedError:
    """The refusal of roles for which no sequential reading was found."""
    return RefusedError(
        "K105",
        message,
        "exogpu reads roles side by side whose loops have the same trip counts",
        span,
    )


class FaultyError(RefusedError):
    """A kernel that is wrong, as reading it shows: it is refuted."""

    def __init__(self, hazard: Hazard) -> None:
        super().__init__("K110", hazard.message, hazard.help, hazard.second.span)
        self.hazard = hazard


CODES = {HazardKind.PHASE: "H707", HazardKind.DEADLOCK: "H706", HazardKind.WAW: "H703"}
"""The codes of what reading a kernel shows."""


_PHASES = "expect the bytes of all loads of a phase, and arrive before each wait in its phase"


def faulty(
    kind: HazardKind,
    variable: str,
    message: str,
    first: Span | None,
    second: Span,
    sizes: Mapping[str, int] | None = None,
    help: str = _PHASES,
) -> FaultyError:
    """The refutation of a kernel whose mbarriers complete early, or never, or whose stores
    overlap."""
    return FaultyError(
        Hazard(
            CODES[kind],
            kind,
            variable,
            (),
            {} if sizes is None else sizes,
            None,
            None if first is None else Occurrence(first, first.text.strip()),
            Occurrence(second, second.text.strip()),
            message,
            help,
            replayed=False,
        )
    )
