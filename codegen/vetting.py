"""Decides whether a procedure may be compiled, and records in its manifest how it was checked."""

from __future__ import annotations

from collections.abc import Callable, Mapping
from dataclasses import dataclass, field
from typing import Final, Literal, assert_never

from exogpu.codegen.runtime.expressions import Json
from exogpu.result.errors import NOWHERE, Diagnostic, ExoGpuError, Note
from exogpu.result.verdict import Hazard, Policy, Verdict

How = Literal["all sizes", "at sizes", "unchecked"]


@dataclass(frozen=True, slots=True)
class Checked:
    """A record of how a compiled procedure was checked."""

    how: How
    sizes: Mapping[str, int] | None
    """Those of `at sizes`."""
    policy: Policy | None
    """None where it was not checked."""
    certificate: str | None
    """Digest of the certificate; None where there is none."""
    depths: Mapping[str, int] = field(default_factory=dict)
    """Ring depths that the proof found, by mbarrier."""
    waits: tuple[str, ...] = ()
    """How many arrivals Awaits of flags wait for (`Proof.waits`)."""

    def to_json(self) -> Json:
        """The manifest's `checked`."""
        return {
            "how": self.how,
            "sizes": None if self.sizes is None else dict(self.sizes),
            "policy": self.policy.value if self.policy else None,
            "certificate": self.certificate,
        }


UNCHECKED: Final = Checked("unchecked", None, None, None)


class RefusedError(ExoGpuError):
    """A procedure that is not compiled because of its verdict."""

    def __init__(self, verdict: Verdict) -> None:
        self.verdict = verdict
        super().__init__(_diagnostics(verdict))


def vet(
    check: Callable[[], Verdict],
    check_at: Callable[[], Verdict] | None,
    digest: Callable[[Verdict], str],
) -> Checked:
    """Checks the procedure for all sizes, or else at the sizes given.

    Raises RefusedError for what either check refutes, and for what neither proves.
    """
    at_sizes = check_at() if check_at is not None else None
    if at_sizes is not None and at_sizes.word != "proved":
        raise RefusedError(at_sizes)
    verdict = check()
    match verdict.word:
        case "proved":
            proof = verdict.proof
            depths, waits = ({}, ()) if proof is None else (dict(proof.depths), proof.waits)
            return Checked("all sizes", None, verdict.policy, digest(verdict), depths, waits)
        case "undecided" if at_sizes is not None:
            return Checked("at sizes", at_sizes.sizes, at_sizes.policy, None)
        case "undecided" | "refuted" | "error":
            raise RefusedError(verdict)
        case _:
            assert_never(verdict.word)


def _diagnostics(verdict: Verdict) -> tuple[Diagnostic, ...]:
    match verdict.word:
        case "error":
            return verdict.diagnostics
        case "refuted":
            return tuple(_of_hazard(hazard) for hazard in verdict.hazards)
        case _:
            what = f"{verdict.proc} is not proved for all sizes: {verdict.reason}"
            remedy = "pass at={...}, sizes to check it at, or unchecked=True"
            return (Diagnostic("X960", what, NOWHERE, remedy),)


def _of_hazard(hazard: Hazard) -> Diagnostic:
    sizes = ", ".join(f"{name}={value}" for name, value in hazard.sizes.items())
    at = f" at {sizes}" if sizes else ""
    what = f"{hazard.kind.value} on {hazard.variable}{at}: {hazard.message}"
    first = hazard.first
    notes = (Note("the other statement", first.span),) if first is not None else ()
    return Diagnostic(hazard.code, what, hazard.second.span, hazard.help, notes)
