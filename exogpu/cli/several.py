"""Checking the procedures of one or several targets of the command line."""

from __future__ import annotations

from collections.abc import Iterator, Sequence

from exogpu.cli.checker import check_all, parse_sizes
from exogpu.cli.files import Unit
from exogpu.cli.guarded import guarded
from exogpu.cli.imports import Launch, units_of
from exogpu.cli.outcome import Outcome
from exogpu.cli.progress import deriving
from exogpu.cli.render import console
from exogpu.ir.types import Policy
from exogpu.result.errors import NOWHERE, ExoGpuError
from exogpu.result.verdict import Verdict
from exogpu.solvers.workers import Limits


def checked(
    targets: list[str],
    at: list[str] | None,
    policy: Policy,
    limits: Limits,
    redundant: bool,
    cached: bool,
) -> Iterator[Outcome]:
    """The outcomes, as soon as each is known; steps of schedules are shown meanwhile."""
    try:
        sizes = None if at is None else parse_sizes(at)
    except ExoGpuError as error:
        wrong = Verdict("", "error", None, policy, 0.0, diagnostics=error.diagnostics)
        yield Outcome(NOWHERE, wrong)
        return
    bar = console(stderr=True).is_terminal

    def work(units: tuple[Unit, ...]) -> Iterator[Outcome]:
        steps.stop()
        return check_all(
            units, sizes, policy, limits=limits, bar=bar, redundant=redundant, cached=cached
        )

    with deriving(bar, cached) as steps:
        yield from guarded(targets, limits, work, lambda outcome: outcome, policy)


def checked_imports(
    targets: Sequence[str], launch: Launch, policy: Policy, limits: Limits, cached: bool
) -> Iterator[Outcome]:
    """The outcomes, as soon as each is known."""
    bar = console(stderr=True).is_terminal
    for target in targets:
        for unit in units_of(target, launch):
            yield from check_all((unit,), None, policy, limits=limits, bar=bar, cached=cached)
