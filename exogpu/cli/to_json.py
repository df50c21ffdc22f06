"""Verdicts as JSON: a list with one object a procedure."""

from __future__ import annotations

import json
from collections import Counter
from collections.abc import Iterable, Mapping, Sequence
from typing import TypeAlias

from exogpu.cli.outcome import Outcome
from exogpu.result.errors import Diagnostic, Span
from exogpu.result.proof import Lemma, Proof
from exogpu.result.verdict import Hazard, Occurrence, Redundancy, Verdict

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
        "cached": verdict.cached,
        "operations": verdict.operations,
        # Null says "not asked", never "none found".
        "obligations": {} if verdict.proof is None else _counts(verdict.proof),
        "condition": verdict.condition,
        "condition_necessary": verdict.condition is not None and verdict.necessary,
        "note": verdict.note,
        "remarks": list(verdict.remarks),
        "vacuous": None,
        "redundant": None
        if verdict.redundant is None
        else [_redundancy(found) for found in verdict.redundant],
        "reason": verdict.reason,
        "hazards": [_hazard(hazard) for hazard in verdict.hazards],
        "diagnostics": [_diagnostic(diagnostic) for diagnostic in verdict.diagnostics],
        "warnings": [_diagnostic(warning) for warning in verdict.warnings],
    }


def _counts(proof: Proof) -> Json:
    """Counts the obligations of each kind; a lemma excludes no hazard itself."""
    kinds = (answered.obligation.kind for answered in proof.answered)
    return dict(Counter("lemma" if isinstance(kind, Lemma) else kind.value for kind in kinds))


def _redundancy(found: Redundancy) -> Json:
    return {
        "kind": found.kind,
        "statements": [
            {"file": span.file, "line": span.line, "column": span.column, "text": text}
            for span, text in zip(found.spans, found.texts, strict=True)
        ],
        "replacement": found.replacement,
        "saves": None if found.saves is None else list(found.saves),
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
        "link": hazard.link,
        "help": hazard.help,
        "replayed": hazard.replayed,
        **({"contents": {k: list(v) for k, v in hazard.contents}} if hazard.contents else {}),
    }


def _site(site: Occurrence) -> Json:
    return {
        "file": site.place.file,
        "line": site.place.line,
        "column": site.place.column,
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
