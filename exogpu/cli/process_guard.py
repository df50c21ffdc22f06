"""Work on the procedures of a target whose files are loaded within limits."""

from __future__ import annotations

from collections.abc import Callable, Collection, Iterator, Sequence
from dataclasses import replace
from typing import Final, TypeVar

from exogpu.cli import loader
from exogpu.cli.exit_handler import Outcome
from exogpu.cli.files import LOADING, Unit
from exogpu.diagnostics.errors import Span
from exogpu.diagnostics.verdict import Policy, Verdict
from exogpu.report.render_verdict import shown_path
from exogpu.solvers.processes import Limits, Stopped, stage, streamed

Made = TypeVar("Made")

NO_LIMITS: Final = Limits()


def guard(
    targets: str | Sequence[str],
    limits: Limits,
    work: Callable[[tuple[Unit, ...]], Iterator[Made]],
    unloaded: Callable[[Outcome], Made],
    policy: Policy,
) -> Iterator[Made]:
    """Yields the work's results for the procedures of one or several targets, after those for each
    file that could not be loaded within the limits.

    Where limits are given, files are loaded in a process of its own, and the work is done there
    too: it has to keep to the limits itself.
    """
    several = (targets,) if isinstance(targets, str) else tuple(dict.fromkeys(targets))
    if limits == NO_LIMITS:
        yield from work(_load(several))
        return
    skip: set[str] = set()
    while True:

        def produce(left_out: frozenset[str] = frozenset(skip)) -> Iterator[Made]:
            units = _load(several, left_out)
            stage("", endless=True)
            yield from work(units)

        stopped = None
        path = several[0].partition("::")[0]
        each = replace(limits, each_stage=True)
        for made in streamed(produce, each, doing=f"{LOADING}{path}"):
            if isinstance(made, Stopped):
                stopped = made
            else:
                yield made
        if stopped is None:
            return
        file = stopped.stage.removeprefix(LOADING)
        if file in skip:
            return  # told before: the others are not reached either
        yield unloaded(_undecided(file or several[0], stopped, policy))
        if not stopped.stage.startswith(LOADING):
            return
        skip.add(file)


def _load(targets: tuple[str, ...], skip: Collection[str] = ()) -> tuple[Unit, ...]:
    """The units of all targets; what one shares with an earlier one is there once."""
    found: list[Unit] = []
    for target in targets:
        known = {(unit.name, unit.span, unit.diagnostics) for unit in found}
        new = loader.load(target, skip)
        found += (one for one in new if (one.name, one.span, one.diagnostics) not in known)
    return tuple(found)


def _undecided(file: str, stopped: Stopped, policy: Policy) -> Outcome:
    verdict = Verdict(shown_path(file), "undecided", None, policy, 0.0, reason=str(stopped))
    return Outcome(Span(file, 0, 0, 0, 0), verdict)
