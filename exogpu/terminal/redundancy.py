"""`exogpu check --redundant`: the synchronisation that a procedure does not need."""

from __future__ import annotations

from contextlib import ExitStack
from dataclasses import replace
from time import perf_counter

from rich.progress import BarColumn, Progress, TextColumn

from exogpu.api import Procedure
from exogpu.machine import fast
from exogpu.proof import Proof
from exogpu.symbolic.certify.prove import prove
from exogpu.symbolic.redundant import NothingFound, Proved, redundant
from exogpu.terminal.progress import TimedOut
from exogpu.terminal.render import console
from exogpu.verdict import Verdict


def with_redundant(
    verdict: Verdict, procedure: Procedure, seconds: float | None, bar: bool
) -> Verdict:
    """The verdict with what can be left out or weakened, at its sizes or for all.

    Unchanged where the procedure itself is not found to be right, or `seconds` have passed.
    """
    program = procedure.amir(verdict.policy)
    start = perf_counter()
    with ExitStack() as stack:
        shown = None
        if bar:
            columns = (
                TextColumn("{task.description}"),
                BarColumn(),
                TextColumn("{task.completed}"),
            )
            shown = stack.enter_context(
                Progress(*columns, console=console(stderr=True), transient=True)
            )
            task = shown.add_task("redundant synchronisation", total=None)

        def tried(count: int, of: int) -> None:
            if seconds is not None and perf_counter() - start > seconds:
                raise TimedOut
            if shown is not None:
                shown.update(task, completed=count, total=of)

        proved = _question(verdict)
        try:
            found = redundant(program, proved, tried) if proved(program) else None
        except TimedOut:
            found = None
    return replace(verdict, redundant=found)


def _question(verdict: Verdict) -> Proved:
    """What has to hold of a program with less synchronisation: as much as the verdict says."""
    sizes = verdict.sizes
    if sizes is not None:
        return lambda program: not fast.run(program, sizes, locate=False).violations
    if verdict.word == "proved":
        return NothingFound(lambda findings: isinstance(prove(findings), Proof))
    return NothingFound()
