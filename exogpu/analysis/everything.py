"""The facts about a procedure, from all analyses."""

from __future__ import annotations

from exogpu.analysis import (
    atomics,
    collective,
    dependent,
    distribution,
    flags,
    loaded,
    private_slots,
    slots,
    whole_maps,
)
from exogpu.analysis.facts import Facts, gathered
from exogpu.ir.nodes import Proc
from exogpu.result.errors import Diagnostic


def facts_of(proc: Proc) -> tuple[Facts | None, tuple[Diagnostic, ...]]:
    """The facts of a procedure without windows and calls of procedures, with frees; or all that
    collective and distributed memory analysis refuse."""
    executors, found = collective.analyse(proc)
    found = (*found, *dependent.check(proc))
    if found:
        return None, found
    facts = gathered(proc, executors)
    found = (
        *distribution.check(facts),
        *slots.check(proc),
        *private_slots.check(proc),
        *loaded.check(proc),
        *flags.check(proc),
        *atomics.check(proc),
        *whole_maps.check(proc),
    )
    return (None if found else facts), found
