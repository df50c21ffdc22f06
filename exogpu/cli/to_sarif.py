"""Verdicts as SARIF 2.1.0, for code-scanning services and editors."""

from __future__ import annotations

import json
import os
from collections.abc import Iterable, Iterator
from pathlib import Path
from typing import Literal

from exogpu.cli.outcome import Outcome
from exogpu.cli.render import sizes_text
from exogpu.cli.to_json import Json
from exogpu.report.roles import roles_of
from exogpu.result.codes import CODES
from exogpu.result.errors import Diagnostic, Note, Span
from exogpu.result.verdict import Hazard

UNDECIDED = "undecided"
"""Rule of results that say a check could not be decided."""


def sarif_text(outcomes: Iterable[Outcome], version: str) -> str:
    """A SARIF log with one run: each diagnostic and hazard a failure, each undecided check open.

    `version` is that of exogpu.  Locations are relative to the working directory where they lie
    below it.
    """
    results = [result for outcome in outcomes for result in _results(outcome)]
    used = sorted({str(result["ruleId"]) for result in results})
    log: Json = {
        "$schema": "https://json.schemastore.org/sarif-2.1.0.json",
        "version": "2.1.0",
        "runs": [
            {
                "tool": {
                    "driver": {
                        "name": "exogpu",
                        "version": version,
                        "rules": [_rule(code) for code in used],
                    }
                },
                "columnKind": "unicodeCodePoints",
                "results": results,
            }
        ],
    }
    return json.dumps(log, indent=2)


def _rule(code: str) -> Json:
    if code not in CODES:
        return {"id": code, "shortDescription": {"text": "the check could not be decided"}}
    entry = CODES[code]
    return {
        "id": code,
        "shortDescription": {"text": entry.title},
        "fullDescription": {"text": entry.explanation},
        "help": {"text": f"{entry.explanation}\n\n{entry.example}"},
    }


def _results(outcome: Outcome) -> Iterator[dict[str, Json]]:
    verdict = outcome.verdict
    for diagnostic in verdict.diagnostics:
        yield _of_diagnostic(diagnostic, "error")
    for warning in verdict.warnings:
        yield _of_diagnostic(warning, "warning")
    for hazard in verdict.hazards:
        yield _of_hazard(hazard)
    if verdict.word == "undecided":
        yield {
            "ruleId": UNDECIDED,
            "kind": "open",
            "level": "none",
            "message": {"text": f"{verdict.proc}: undecided: {verdict.reason}"},
            "locations": _locations(outcome.span),
        }


def _of_diagnostic(diagnostic: Diagnostic, level: Literal["error", "warning"]) -> dict[str, Json]:
    return {
        "ruleId": diagnostic.code,
        "kind": "fail",
        "level": level,
        "message": {"text": f"{diagnostic.message}. Remedy: {diagnostic.help}"},
        "locations": _locations(diagnostic.span),
        "relatedLocations": [
            _related(number, note) for number, note in enumerate(diagnostic.notes) if note.span.line
        ],
    }


def _of_hazard(hazard: Hazard) -> dict[str, Json]:
    sizes = f" at {sizes_text(hazard.sizes)}" if hazard.sizes else ""
    related: list[Json] = []
    if hazard.first is not None and hazard.first.span.line:
        related.append(_related(0, Note(roles_of(hazard)[0], hazard.first.span)))
    said = ". ".join(part for part in (hazard.message, hazard.link, hazard.help) if part)
    variable = f" on {hazard.variable}" if hazard.variable else ""
    text = f"{hazard.kind.value}{variable}{sizes}: {said}"
    return {
        "ruleId": hazard.code,
        "kind": "fail",
        "level": "error",
        "message": {"text": text},
        "locations": _locations(hazard.second.span),
        "relatedLocations": related,
    }


def _related(number: int, note: Note) -> Json:
    return {"id": number, "message": {"text": note.message}, **_location(note.span)}


def _locations(span: Span) -> list[Json]:
    return [_location(span)] if span.line else []


def _location(span: Span) -> dict[str, Json]:
    return {
        "physicalLocation": {
            "artifactLocation": {"uri": _uri(span.file)},
            "region": {
                "startLine": span.line,
                "startColumn": span.column,
                "endLine": span.end_line,
                "endColumn": span.end_column,
            },
        }
    }


def _uri(file: str) -> str:
    path = Path(os.path.abspath(file))
    if path.is_relative_to(Path.cwd()):
        # as_uri percent-encodes; what follows the directory's own URI is the relative reference.
        return path.as_uri().removeprefix(Path.cwd().as_uri()).lstrip("/")
    return path.as_uri()
