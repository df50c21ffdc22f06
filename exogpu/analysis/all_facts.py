"""The facts about a procedure, from all analyses."""

from __future__ import annotations

from exogpu.analysis import (
    atomics,
    barriers,
    collective,
    distribution,
    launch,
    load_facts,
    private_slots,
    slots,
    tensor_maps,
)
from exogpu.analysis.facts import Facts, gathered
from exogpu.diagnostics.errors import Diagnostic
from exogpu.ir.nodes import Proc


def facts_of(proc: Proc) -> tuple[Facts | None, tuple[Diagnostic, ...]]:
    """The facts of a procedure without windows and calls of procedures, with frees; or all that
    collective and distributed memory analysis refuse."""
    executors, found = collective.analyse(proc)
    found = (*found, *launch.check(proc))
    if found:
        return None, found
    facts = gathered(proc, executors)
    found = (
        *distribution.check(facts),
        *slots.check(proc),
        *private_slots.check(proc),
        *load_facts.check(proc),
        *barriers.check(proc),
        *atomics.check(proc),
        *tensor_maps.check(proc),
    )
    return (None if found else facts), found
