"""Careless readings of the rules of atomic operations, bulk stores and dependent launches, each as
a change to the prover, or to the program that it is given."""

from __future__ import annotations

from collections.abc import Callable
from dataclasses import replace

import pytest

from exogpu.amir import nodes as amir
from exogpu.amir.walk import operations, rewritten
from exogpu.diagnostics.verdict import Policy
from exogpu.hw.timelines import SYNC_TIMELINES
from exogpu.ir.types import Level, QualTL
from exogpu.symbolic import model
from exogpu.symbolic.search import dependences, visibility

Patch = pytest.MonkeyPatch
Change = Callable[[amir.Op], amir.Block]

STREAM = SYNC_TIMELINES["cuda_stream_sync"].sets_under(Policy.PTX)


def changed(program: amir.Program, change: Change) -> amir.Program:
    """The program with each operation changed."""
    found = {op: change(op) for op in operations(program.body)}
    kept = {op: new for op, new in found.items() if new != (op,)}
    return replace(program, body=rewritten(program.body, kept))


# --- atomic operations (decision `atomic-operations`) ---------------------------------------------


def atomics_ask_little_of_others(patch: Patch) -> None:
    """The figure's order of levels: after an ordinary write, temporal order is enough."""
    patch.setattr(visibility, "asked_of_others", lambda check: check.level)


def atomics_see_whatever_was_written(patch: Patch) -> None:
    """Every record counts as an atomic one."""

    def visible(records: amir.Record, check: amir.Check) -> bool:
        return check.level in (Level.INVISIBLE, Level.ATOMIC_ONLY)

    _replace(patch, visible)


def atomics_are_ordinary(patch: Patch) -> None:
    """Atomic operations do not see each other."""

    def visible(records: amir.Record, check: amir.Check) -> bool:
        return check.level is Level.INVISIBLE

    _replace(patch, visible)


def _replace(patch: Patch, visible: Callable[[amir.Record, amir.Check], bool]) -> None:
    for module in (model, dependences):
        if hasattr(module, "always_visible"):
            patch.setattr(module, "always_visible", visible)


PROVERS: dict[str, tuple[str, Callable[[Patch], None]]] = {
    change.__name__: ("atomics", change)
    for change in (
        atomics_ask_little_of_others,
        atomics_see_whatever_was_written,
        atomics_are_ordinary,
    )
}
"""Changes to the prover, with the shape of the programs that tell."""

# --- bulk stores (decision `bulk-store-source`) ---------------------------------------------------

R, G = QualTL.TMA_R, QualTL.TMA_G


def who_awaits_the_reads_knows_of_the_writes(op: amir.Op) -> amir.Block:
    """`tma_to_gmem_source` is full in tmaG, too."""
    if isinstance(op, amir.Arrive | amir.Fence) and R in op.pre:
        return (replace(op, pre=op.pre | {G}),)
    return (op,)


def a_wait_for_writes_leaves_the_source(op: amir.Op) -> amir.Block:
    """`tma_to_gmem_async` is full in tmaG alone."""
    if isinstance(op, amir.Arrive | amir.Fence) and {R, G} <= op.pre:
        return (replace(op, pre=op.pre - {R}),)
    return (op,)


# --- dependent launches (decision `dependent-launch`) ---------------------------------------------


def a_dependent_launch_begins_late(op: amir.Op) -> amir.Block:
    """As any other, after the end of the one before it."""
    if isinstance(op, amir.Fence) and op.launch and not op.full:
        return (replace(op, pre=STREAM.full, full=STREAM.full, temporal=STREAM.temporal),)
    return (op,)


def one_tasks_wait_is_everybodys(op: amir.Op) -> amir.Block:
    """All threads have waited once one of them has."""
    if isinstance(op, amir.Await) and op.launch:
        origin = replace(op.origin, threads=None)
        return (amir.Fence(True, STREAM.full, op.full, op.temporal, origin, launch=True),)
    return (op,)


def a_launch_has_no_end(op: amir.Op) -> amir.Block:
    """What it has done is ordered before nothing."""
    return (replace(op, pre=frozenset()),) if isinstance(op, amir.Arrive) and op.launch else (op,)


PROGRAMS: dict[str, tuple[str, Change]] = {
    **{
        change.__name__: ("stores", change)
        for change in (
            who_awaits_the_reads_knows_of_the_writes,
            a_wait_for_writes_leaves_the_source,
        )
    },
    **{
        change.__name__: ("launches", change)
        for change in (
            a_dependent_launch_begins_late,
            one_tasks_wait_is_everybodys,
            a_launch_has_no_end,
        )
    },
}
"""Changes to the program that the prover is given, with the shape of those that tell."""
