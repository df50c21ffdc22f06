"""Steps of steps: one after the other, one or else another, as often as possible."""

from __future__ import annotations

from collections.abc import Callable
from typing import TypeAlias

from exogpu.ir.printer import print_proc
from exogpu.result.errors import ExoGpuError
from exogpu.schedule.procedures import P, ir_of

Step: TypeAlias = Callable[[P], P]

REFUSALS = frozenset({"X990", "X991", "X992", "X993"})
"""What a step raises that does not apply; other errors are not caught here."""


def seq(*steps: Step[P]) -> Step[P]:
    """The steps one after the other.

    >>> from exogpu.schedule import reorder_loops, seq, unroll_loop
    >>> inside_out = seq(lambda p: reorder_loops(p, "i"), lambda p: unroll_loop(p, "i"))
    """

    def made(procedure: P) -> P:
        for step in steps:
            procedure = step(procedure)
        return procedure

    return made


def try_else(step: Step[P], other: Step[P] | None = None) -> Step[P]:
    """The step, or where it is refused the other one; without another one nothing is done then."""

    def made(procedure: P) -> P:
        try:
            return step(procedure)
        except ExoGpuError as refusal:
            if not {d.code for d in refusal.diagnostics} <= REFUSALS:
                raise
            return procedure if other is None else other(procedure)

    return made


def repeat(step: Step[P], limit: int = 100) -> Step[P]:
    """The step again and again, until it is refused or changes nothing, `limit` times at most."""

    def made(procedure: P) -> P:
        once = try_else(step)
        for _ in range(limit):
            after = once(procedure)
            if print_proc(ir_of(after)) == print_proc(ir_of(procedure)):
                break
            procedure = after
        return procedure

    return made
