"""The answers of `exogpu check`: on the terminal as soon as each is known, and in files."""

from __future__ import annotations

from collections.abc import Iterable
from pathlib import Path

import typer

from exogpu.cli.doctor import exogpu_version
from exogpu.cli.outcome import Outcome, exit_status
from exogpu.cli.render import console, draw_summary, draw_verdict
from exogpu.cli.stopping import write_text
from exogpu.cli.to_json import json_text
from exogpu.cli.to_junit import junit_text
from exogpu.cli.to_sarif import sarif_text


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
