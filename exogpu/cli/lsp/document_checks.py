"""One check of a document, as the worker's child makes it: load it, judge each procedure, try the
repairs, gather what is said of its places."""

from __future__ import annotations

import os
import sys
from collections.abc import Collection, Iterator, Mapping
from dataclasses import dataclass, replace
from pathlib import Path
from time import sleep
from typing import Final

from exogpu.cli.check_command import check_all
from exogpu.cli.files import LOADING, Unit
from exogpu.cli.loader import load_file
from exogpu.cli.lsp import fixes as lsp_fixes
from exogpu.cli.lsp.documents import editor_view
from exogpu.cli.lsp.fixes import fixes
from exogpu.cli.lsp.hover import hovers
from exogpu.cli.lsp.protocol import Failed, Loaded, Stage, Told
from exogpu.diagnostics.verdict import Policy, Verdict
from exogpu.pipeline import verdict_cache
from exogpu.solvers.processes import Limits, Stopped, stage, streamed

PAUSE: Final = 0.2
"""Seconds before repairs are tried: with the next change all this is given up."""

IDLE: Final = 1.0
"""Seconds before what is proved is proved anew, for what is said of it alone."""


@dataclass(frozen=True, slots=True)
class Job:
    """A request of the server."""

    path: str
    buffers: Mapping[str, str]
    """The text of all open documents, by absolute path."""
    policy: str = "ptx"
    loading: float = 10.0
    """Seconds that executing the file may take."""
    checking: float = 60.0
    """Seconds that the check of one procedure may take."""


def answers(job: Job) -> Iterator[Told]:
    """All that the server is told of a document, in time; a file that comes to no end, or ends the
    process, is told of as well."""
    limits = Limits(job.loading, each_stage=True)
    older = frozenset(sys.modules)
    loading = f"{LOADING}{job.path}"
    for told in streamed(lambda: _answers(job, older), limits, doing=loading):
        if isinstance(told, Stopped):
            yield _failure(told, job)
        else:
            yield told


def _failure(stopped: Stopped, job: Job) -> Failed:
    loading = stopped.stage.startswith(LOADING)
    match stopped.cause:
        case "time" if loading:
            took = f"executing this file came to no end within {job.loading:g} s"
            return Failed(f"{took}: put what runs under if __name__ == '__main__'", True)
        case "crash" if loading:
            return Failed(f"executing this file ended its process ({stopped.detail})", True)
        case _:
            return Failed(str(stopped), loading)


def _answers(job: Job, older: Collection[str]) -> Iterator[Told]:
    lsp_fixes.use(job.buffers)
    units = load_file(Path(job.path))
    stage("", endless=True)
    procedures = [unit for unit in units if unit.procedure is not None]
    yield Loaded(len(procedures), _files(older), len(procedures) < len(units))
    policy, limits = Policy.from_name(job.policy), Limits(job.checking)
    verdicts: list[tuple[Unit, Verdict]] = []
    later: list[Unit] = []
    for unit in units:
        verdict = (
            verdict_cache.proved(unit.procedure, policy) if unit.procedure is not None else None
        )
        if verdict is not None:
            later.append(unit)
        else:
            verdict = _verdict(unit, policy, limits)
            verdicts.append((unit, verdict))
        yield editor_view(verdict, unit.span, job.path)
    yield Stage("checked")
    for unit, verdict in verdicts:
        yield from _places(unit, verdict, job.path)
    sleep(PAUSE if any(verdict.hazards for _, verdict in verdicts) else 0.0)
    for unit, verdict in verdicts:
        if verdict.hazards and unit.procedure is not None:
            yield from fixes(verdict, job.path, job.buffers[job.path], policy, limits)
    yield Stage("repaired")
    sleep(IDLE if later else 0.0)
    for unit in later:
        # What says why is made anew: it names lines.
        verdict = _verdict(unit, policy, limits)
        yield editor_view(verdict, unit.span, job.path)
        yield from _places(unit, verdict, job.path)
    yield Stage("all")


def _verdict(unit: Unit, policy: Policy, limits: Limits) -> Verdict:
    (outcome,) = check_all((unit,), None, policy, limits=limits, cached=True)
    verdict = outcome.verdict
    if unit.procedure is not None:
        verdict_cache.keep(unit.procedure, verdict)
    return replace(verdict, proc=verdict.proc or unit.name)


def _places(unit: Unit, verdict: Verdict, path: str) -> Iterator[Told]:
    if unit.procedure is not None and not unit.procedure.diagnostics:
        yield from hovers(unit.procedure, verdict, path)


def _files(older: Collection[str]) -> tuple[str, ...]:
    """The files of the modules that were imported."""
    found = (getattr(sys.modules[name], "__file__", None) for name in {*sys.modules} - {*older})
    return tuple(sorted({os.path.abspath(file) for file in found if isinstance(file, str)}))
