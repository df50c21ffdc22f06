"""Verdicts as SARIF 2.1.0, for code-scanning services and editors."""

from __future__ import annotations

import hashlib
import json
import os
from collections import Counter
from collections.abc import Iterable, Iterator
from pathlib import Path
from typing import Final, Literal

from exogpu.cli.outcome import Outcome
from exogpu.cli.render import sizes_text
from exogpu.cli.to_json import Json
from exogpu.report.roles import roles_of
from exogpu.result.codes import CODES
from exogpu.result.errors import Diagnostic, Note, Span
from exogpu.result.verdict import Hazard

FINGERPRINT: Final = "exogpu/v1"
"""Name of the fingerprint of a result."""

UNDECIDED: Final = "undecided"
"""Rule of results that say a check could not be decided."""


def sarif_text(outcomes: Iterable[Outcome], version: str) -> str:
    """A SARIF log with one run: each diagnostic and hazard a failure, each undecided check open.

    `version` is that of exogpu.  Locations are relative to the working directory where they lie
    below it.
    """
    results = [result for outcome in outcomes for result in _fingerprinted(outcome)]
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


def _fingerprinted(outcome: Outcome) -> Iterator[dict[str, Json]]:
    """The results, each with what tells it from others when lines move: its rule, the procedure
    and the statements."""
    seen: Counter[str] = Counter()
    for result, parts in _results(outcome):
        told = "\0".join((str(result["ruleId"]), outcome.verdict.proc, *parts))
        digest = hashlib.sha256(told.encode()).hexdigest()[:32]
        seen[digest] += 1
        yield {**result, "partialFingerprints": {FINGERPRINT: f"{digest}:{seen[digest]}"}}


def _results(outcome: Outcome) -> Iterator[tuple[dict[str, Json], tuple[str, ...]]]:
    """Each result, and the texts that it is about."""
    verdict = outcome.verdict
    for diagnostic in verdict.diagnostics:
        text = diagnostic.span.text.strip()
        yield _of_diagnostic(diagnostic, "error"), (diagnostic.message, text)
    for warning in verdict.warnings:
        yield _of_diagnostic(warning, "warning"), (warning.message, warning.span.text.strip())
    for hazard in verdict.hazards:
        sites = [site.text for site in (hazard.first, hazard.second) if site is not None]
        yield _of_hazard(hazard), (hazard.kind.value, hazard.variable, *sites)
    if verdict.word == "undecided":
        result: dict[str, Json] = {
            "ruleId": UNDECIDED,
            "kind": "open",
            "level": "none",
            "message": {"text": f"{verdict.proc}: undecided: {verdict.reason}"},
            "locations": _locations(outcome.span),
        }
        yield result, ()


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
        related.append(_related(0, Note(roles_of(hazard)[0], hazard.first.place)))
    if hazard.second.ends is not None:
        declared = Note(f"{hazard.variable} is declared here", hazard.second.span)
        related.append(_related(len(related), declared))
    said = ". ".join(part for part in (hazard.message, hazard.link, hazard.help) if part)
    variable = f" on {hazard.variable}" if hazard.variable else ""
    text = f"{hazard.kind.value}{variable}{sizes}: {said}"
    return {
        "ruleId": hazard.code,
        "kind": "fail",
        "level": "error",
        "message": {"text": text},
        "locations": _locations(hazard.second.place),
        "relatedLocations": related,
        "codeFlows": _flows(hazard),
    }


def _flows(hazard: Hazard) -> list[Json]:
    """From the first statement to the second, as an editor steps through them."""
    steps: list[Json] = []
    for site, role in zip((hazard.first, hazard.second), roles_of(hazard), strict=True):
        if site is not None and site.span.line:
            by = f"by {site.threads}" if site.threads else ""
            who = " ".join(filter(None, (site.called, by)))
            note = Note(f"{role}: {who}" if who else role, site.place)
            steps.append({"location": {"message": {"text": note.message}, **_location(note.span)}})
    if len(steps) < 2:
        return []
    flow: Json = {"threadFlows": [{"locations": steps}], "message": {"text": hazard.message}}
    return [flow]


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
