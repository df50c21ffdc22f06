"""Diagnostics, in a check, of a proved procedure that cannot be compiled."""

from __future__ import annotations

from collections.abc import Mapping, Sequence

from exogpu.analysis.facts import Facts
from exogpu.codegen.host import lowered
from exogpu.codegen.limits import SM90
from exogpu.result.errors import Diagnostic, ExoGpuError


def limitations(
    facts: Facts, depths: Mapping[str, int], waits: Sequence[str] = ()
) -> tuple[Diagnostic, ...]:
    """Returns the reasons why a procedure is not compiled, with the codes of `emit`; empty if it
    is.

    `depths` are the ring depths that the proof found, by mbarrier, `waits`
    for how many arrivals it found that Awaits of flags wait.  The architecture is the one
    that has everything.  Another failure of code generation is a mistake in it, and no reason to
    doubt the proof: it is a warning too.
    """
    try:
        lowered(facts, SM90, depths=depths, waits=waits)
    except ExoGpuError as error:
        return error.diagnostics
    except Exception as error:  # whatever it is, what was proved stays proved
        message = f"code generation fails: {type(error).__name__}: {error}"
        remedy = "this is a mistake of exogpu, not of the kernel: report it"
        return (Diagnostic("G813", message, facts.proc.span, remedy),)
    return ()
