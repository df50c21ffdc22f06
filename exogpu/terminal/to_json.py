"""Verdicts as JSON: a list with one object a procedure."""

from __future__ import annotations

import json
from collections.abc import Iterable, Mapping, Sequence
from typing import TypeAlias

from exogpu.errors import Diagnostic, Span
from exogpu.terminal.outcome import Outcome
from exogpu.verdict import Hazard, Site, Verdict

Json: TypeAlias = bool | int | float | str | Sequence["Json"] | Mapping[str, "Json"] | None


def json_text(outcomes: Iterable[Outcome]) -> str:
    """The whole list, indented; fields that do not apply are null or empty."""
    return json.dumps([_outcome(outcome) for outcome in outcomes], indent=2)


def _outcome(outcome: Outcome) -> Json:
    verdict: Verdict = outcome.verdict
    return {
        "proc": verdict.proc,
        "file": outcome.span.file,
        "verdict": verdict.word,
        "sizes": "all" if verdict.sizes is None else dict(verdict.sizes),
        "assumptions": list(verdict.assumptions),
        "policy": verdict.policy.value,
        "seconds": round(verdict.seconds, 6),
        "operations": verdict.operations,
        # These four are of the proof for all sizes; null says "not asked", never "none found".
        "obligations": {},
        "condition": None,
        "vacuous": None,
        "redundant": None,
        "reason": verdict.reason,
        "hazards": [_hazard(hazard) for hazard in verdict.hazards],
        "diagnostics": [_diagnostic(diagnostic) for diagnostic in verdict.diagnostics],
    }


def _hazard(hazard: Hazard) -> Json:
    return {
        "code": hazard.code,
        "kind": hazard.kind.value,
        "variable": hazard.variable,
        "index": list(hazard.index),
        "sizes": dict(hazard.sizes),
        "task": hazard.task,
        "first": None if hazard.first is None else _site(hazard.first),
        "second": _site(hazard.second),
        "message": hazard.message,
        "help": hazard.help,
        "replayed": hazard.replayed,
    }


def _site(site: Site) -> Json:
    return {
        "file": site.span.file,
        "line": site.span.line,
        "column": site.span.column,
        "text": site.text,
        "timeline": site.timeline,
        "threads": site.threads,
        "iteration": dict(site.iteration),
    }


def _diagnostic(diagnostic: Diagnostic) -> Json:
    return {
        "code": diagnostic.code,
        "message": diagnostic.message,
        **_place(diagnostic.span),
        "help": diagnostic.help,
        "notes": [{"message": note.message, **_place(note.span)} for note in diagnostic.notes],
    }


def _place(span: Span) -> dict[str, Json]:
    return {"file": span.file, "line": span.line, "column": span.column, "text": span.text}
