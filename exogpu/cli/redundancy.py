"""`exogpu check --redundant`: the synchronisation that a procedure does not need."""

from __future__ import annotations

from contextlib import ExitStack
from dataclasses import dataclass, replace

from rich.progress import BarColumn, Progress, TextColumn

from exogpu.api import Procedure
from exogpu.cli.render import console
from exogpu.cli.savings import ranked
from exogpu.machine import fast
from exogpu.result.proof import Proof
from exogpu.result.verdict import Redundancy, Verdict
from exogpu.solvers.workers import Limits, Stopped, Tell, isolated, stage
from exogpu.symbolic.find.redundant import NothingFound, Proved, redundant
from exogpu.symbolic.prove import prove


@dataclass(frozen=True, slots=True)
class Tried:
    """The number of statements looked at."""

    count: int
    of: int


def with_redundant(verdict: Verdict, procedure: Procedure, limits: Limits, bar: bool) -> Verdict:
    """The verdict with what can be left out or weakened, at its sizes or for all.

    Unchanged where the procedure itself is not found to be right, or the limits ran out.
    """
    columns = (TextColumn("{task.description}"), BarColumn(), TextColumn("{task.completed}"))
    with ExitStack() as stack:
        shown = Progress(*columns, console=console(stderr=True), transient=True) if bar else None
        if shown is not None:
            stack.enter_context(shown)
            task = shown.add_task("redundant synchronisation", total=None)

        def heard(tried: object) -> None:
            if shown is not None and isinstance(tried, Tried):
                shown.update(task, completed=tried.count, total=tried.of)

        def work(tell: Tell) -> tuple[Redundancy, ...] | None:
            stage("looking for synchronisation that is not needed")
            program, proved = procedure.amir(verdict.policy), _question(verdict)
            if not proved(program):
                return None
            found = redundant(program, proved, lambda count, of: tell(Tried(count, of)))
            return ranked(procedure, found)

        found = isolated(work, limits, heard)
    return verdict if isinstance(found, Stopped) else replace(verdict, redundant=found)


def _question(verdict: Verdict) -> Proved:
    """Returns the test for a program with less synchronisation: it must satisfy as much as the
    verdict says."""
    sizes = verdict.sizes
    if sizes is not None:
        return lambda program: not fast.run(program, sizes, locate=False).violations
    if verdict.word == "proved":
        return NothingFound(lambda findings: isinstance(prove(findings), Proof))
    return NothingFound()
