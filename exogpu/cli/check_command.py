"""Checking the procedures of a target, one after the other."""

from __future__ import annotations

import os
import re
from collections.abc import Iterable, Iterator, Mapping, Sequence
from dataclasses import replace
from difflib import get_close_matches
from pathlib import Path
from time import perf_counter

import typer

from exogpu.analysis.sizes import check_sizes
from exogpu.api import Procedure
from exogpu.cli.doctor import exogpu_version
from exogpu.cli.exit_handler import Outcome, exit_status, write_text
from exogpu.cli.files import Unit
from exogpu.cli.import_targets import Launch, units_of
from exogpu.cli.output_formats import json_text, junit_text, sarif_text
from exogpu.cli.process_guard import NO_LIMITS, guard
from exogpu.cli.progress_display import SoFar, Watch, show_steps
from exogpu.cli.redundancy import with_redundant
from exogpu.diagnostics.errors import NOWHERE, Diagnostic, ExoGpuError
from exogpu.diagnostics.verdict import Policy, Verdict
from exogpu.pipeline.verdict_cache import cached_verdict
from exogpu.report.render_verdict import console, draw_summary, draw_verdict
from exogpu.solvers.processes import Limits

_ASSIGNMENT = re.compile(r"\s*([^\W\d]\w*)\s*=\s*([+-]?\d{1,19})\s*")
"""No more digits than 64 bits need: what is larger is no size, and Python refuses thousands."""


def parse_sizes(options: Iterable[str]) -> dict[str, int]:
    """The sizes of `--at M=512,N=512`.  Raises ExoGpuError for what is no `name=integer`."""
    sizes: dict[str, int] = {}
    for item in (item for option in options for item in option.split(",") if item.strip()):
        match = _ASSIGNMENT.fullmatch(item)
        name = match.group(1) if match else ""
        if match is None or sizes.get(name, int(match.group(2))) != int(match.group(2)):
            second = f"gives {name} a second value"
            problem = second if match else "is no name=integer of 64 bits"
            raise ExoGpuError([_wrong_call("X946", f"--at: {item.strip()[:60]} {problem}")])
        sizes[name] = int(match.group(2))
    return sizes


def _wrong_call(code: str, message: str, help: str = "write --at M=512,N=512") -> Diagnostic:
    return Diagnostic(code, message, NOWHERE, help)


def check_all(
    units: tuple[Unit, ...],
    sizes: Mapping[str, int] | None,
    policy: Policy,
    *,
    limits: Limits = NO_LIMITS,
    bar: bool = False,
    redundant: bool = False,
    cached: bool = False,
) -> Iterator[Outcome]:
    """One outcome a unit, as soon as it is known.

    Without `sizes`, for all sizes.  A size that only some of the procedures have is ignored for
    the others; one that none has is an error, and then nothing is checked.  A procedure that they
    leave out, or whose preconditions they break, is undecided, with what it needs; it is an error
    where there is no other.  `limits` are those of each check; `bar` asks for a progress bar,
    `redundant` for the synchronisation that is not needed, `cached` for verdicts that are kept on
    disk.
    """
    procedures = [unit.procedure for unit in units if unit.procedure is not None]
    if unknown := unknown_to_all(procedures, sizes or {}):
        yield Outcome(units[0].span, _error("", sizes, policy, unknown))
        return
    unfit = unfit_for(procedures, sizes) if sizes else {}
    for unit in units:
        if unit.procedure is None:
            verdict = _error(unit.name, sizes, policy, unit.diagnostics)
        elif reason := unfit.get(unit.procedure):
            verdict = Verdict(
                unit.name, "undecided", sizes, policy, 0.0, reason=reason, checked=False
            )
        else:
            known = sizes if sizes is None else sizes_for(unit.procedure, procedures, sizes)
            verdict = _check(unit.procedure, known, policy, limits, bar, cached)
            if redundant and verdict.word in ("proved", "undecided"):
                verdict = with_redundant(
                    verdict, unit.procedure, _remaining_limits(limits, verdict), bar
                )
        yield Outcome(unit.span, verdict)


def _remaining_limits(limits: Limits, verdict: Verdict) -> Limits:
    """Returns the limits that remain after a check."""
    if limits.seconds is None:
        return limits
    return replace(limits, seconds=max(limits.seconds - verdict.seconds, 0.0))


def sizes_for(
    procedure: Procedure, procedures: Sequence[Procedure], sizes: Mapping[str, int]
) -> dict[str, int]:
    """Selects the sizes for one of several procedures; a single one gets them all, so that it names
    those it does not know."""
    known = procedure.size_names if len(procedures) > 1 else sizes
    return {name: value for name, value in sizes.items() if name in known}


def unfit_for(procedures: Sequence[Procedure], sizes: Mapping[str, int]) -> dict[Procedure, str]:
    """Maps the procedures that cannot be checked at the sizes given by name to the reason.

    None where they suit no procedure: then each says so as an error, with its place.
    """
    unfit: dict[Procedure, str] = {}
    for procedure in procedures if len(procedures) > 1 else ():
        if procedure.ir is None:
            continue
        own = sizes_for(procedure, procedures, sizes)
        wrong = check_sizes(procedure.ir, own)
        if wrong and {problem.code for problem in wrong} <= {"X902", "X904"}:
            lacking = [name for name in procedure.size_names if name not in own]
            broken = [problem.message for problem in wrong if problem.code == "X904"]
            missing = [f"--at gives no {_enumerate_names(lacking)}"] if lacking else []
            unfit[procedure] = "; ".join([*missing, *broken])
    return unfit if len(unfit) < len(procedures) else {}


def _enumerate_names(names: list[str]) -> str:
    return names[0] if len(names) == 1 else f"{', '.join(names[:-1])} or {names[-1]}"


def unknown_to_all(
    procedures: Sequence[Procedure], sizes: Mapping[str, int]
) -> tuple[Diagnostic, ...]:
    """Sizes that none of several procedures has; a single one names them itself, with its place."""
    if len(procedures) < 2 or any(procedure.ir is None for procedure in procedures):
        return ()
    known = sorted({name for procedure in procedures for name in procedure.size_names})
    return tuple(
        _wrong_call("X901", f"no procedure of the target has a size {name}", _remedy(name, known))
        for name in sizes
        if name not in known
    )


def _remedy(name: str, known: list[str]) -> str:
    close = get_close_matches(name, known, 1)
    if close:
        return f"did you mean {close[0]}?"
    return f"the sizes are {', '.join(known)}" if known else "leave --at out: they have no sizes"


def _check(
    procedure: Procedure,
    sizes: Mapping[str, int] | None,
    policy: Policy,
    limits: Limits,
    bar: bool,
    cached: bool,
) -> Verdict:
    start = perf_counter()

    def compute_verdict() -> Verdict:
        if procedure.ir is None or sizes is None:
            with SoFar(procedure.name, bar) as so_far:
                return procedure.check(
                    policy=policy,
                    heard=so_far,
                    progress=so_far.proving,
                    timeout=limits.seconds,
                    memory=limits.gigabytes,
                )
        with Watch(procedure.name, bar) as watch:
            return procedure.check_at(
                policy=policy,
                progress=watch,
                timeout=limits.seconds,
                memory=limits.gigabytes,
                **sizes,
            )

    try:
        return (
            cached_verdict(procedure, policy, sizes, compute_verdict)
            if cached
            else compute_verdict()
        )
    except ExoGpuError as error:
        return _error(procedure.name, sizes, policy, error.diagnostics)
    except Exception as error:
        if os.environ.get("EXOGPU_DEBUG"):
            raise
        # Whatever else happens is a mistake of the checker: no answer about the kernel.
        reason = (
            f"the checker failed ({type(error).__name__}: {error}); this is a bug in exogpu, "
            "not in the kernel; with EXOGPU_DEBUG=1 it shows where"
        )
    verdict = _error(procedure.name, sizes, policy, ())
    return replace(verdict, word="undecided", reason=reason, seconds=perf_counter() - start)


def _error(
    proc: str,
    sizes: Mapping[str, int] | None,
    policy: Policy,
    diagnostics: tuple[Diagnostic, ...],
) -> Verdict:
    return Verdict(proc, "error", sizes, policy, 0.0, diagnostics=diagnostics)


# Checking the procedures of one or several targets of the command line.


def check_targets(
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

    with show_steps(bar, cached) as steps:
        yield from guard(targets, limits, work, lambda outcome: outcome, policy)


def checked_imports(
    targets: Sequence[str], launch: Launch, policy: Policy, limits: Limits, cached: bool
) -> Iterator[Outcome]:
    """The outcomes, as soon as each is known."""
    bar = console(stderr=True).is_terminal
    for target in targets:
        for unit in units_of(target, launch):
            yield from check_all((unit,), None, policy, limits=limits, bar=bar, cached=cached)


# The answers of `exogpu check`: on the terminal as soon as each is known, and in files.


def answered(
    outcomes: Iterable[Outcome], as_json: bool, sarif: Path | None, junit: Path | None
) -> int:
    """Prints the outcomes, writes what is asked for, and returns the exit status."""
    found: list[Outcome] = []
    for outcome in outcomes:
        file = outcome.span.file if _is_named_before(outcome, found) else ""
        found.append(outcome)
        if not as_json:
            console().print(draw_verdict(outcome.verdict, file), end="")
    if as_json:
        typer.echo(json_text(found))
    elif len(found) > 1:
        console().print(draw_summary([outcome.verdict for outcome in found]), end="")
    if sarif is not None:
        write_text(sarif, sarif_text(found, exogpu_version()))
    if junit is not None:
        write_text(junit, junit_text(found))
    return exit_status(found)


def _is_named_before(outcome: Outcome, found: Iterable[Outcome]) -> bool:
    """Tests whether a procedure of another file was reported under the same name."""
    name, file = outcome.verdict.proc, outcome.span.file
    return any(one.verdict.proc == name and one.span.file != file for one in found)
