"""Verdicts as JSON: a list with one object a procedure."""

from __future__ import annotations

import hashlib
import json
import os
import re
from collections import Counter
from collections.abc import Iterable, Iterator, Mapping, Sequence
from pathlib import Path
from typing import Final, Literal, TypeAlias, assert_never
from xml.etree import ElementTree

from exogpu.cli.exit_handler import Outcome
from exogpu.diagnostics.codes import CODES
from exogpu.diagnostics.errors import Diagnostic, Note, Span
from exogpu.diagnostics.hazards import Hazard, Occurrence
from exogpu.diagnostics.verdict import Lemma, Proof, Redundancy, Verdict
from exogpu.report.render_verdict import draw_verdict, roles_of, shown_path, sizes_text

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


# Verdicts as JUnit XML, one test case a procedure, for continuous integration services.

_NOT_XML = re.compile("[^\t\n\r\u0020-\ud7ff\ue000-\ufffd\U00010000-\U0010ffff]")


def junit_text(outcomes: Sequence[Outcome]) -> str:
    """A suite: refuted is a failure, an ill-formed program an error, undecided is skipped."""
    words = Counter(outcome.verdict.word for outcome in outcomes)
    suites = ElementTree.Element("testsuites")
    suite = ElementTree.SubElement(
        suites,
        "testsuite",
        name="exogpu",
        tests=str(len(outcomes)),
        failures=str(words["refuted"]),
        errors=str(words["error"]),
        skipped=str(words["undecided"]),
        time=f"{sum(outcome.verdict.seconds for outcome in outcomes):.6f}",
    )
    for outcome in outcomes:
        _case(suite, outcome)
    ElementTree.indent(suites)
    return ElementTree.tostring(suites, encoding="unicode", xml_declaration=True) + "\n"


def _case(suite: ElementTree.Element, outcome: Outcome) -> None:
    verdict = outcome.verdict
    case = ElementTree.SubElement(
        suite,
        "testcase",
        classname=_clean(shown_path(outcome.span.file)),
        name=_clean(_name(verdict)),
        file=_clean(outcome.span.file),
        time=f"{verdict.seconds:.6f}",
    )
    match verdict.word:
        case "proved":
            return
        case "refuted":
            child, message = "failure", "; ".join(h.message for h in verdict.hazards)
        case "error":
            child, message = "error", "; ".join(d.message for d in verdict.diagnostics)
        case "undecided":
            child, message = "skipped", verdict.reason
        case _:
            assert_never(verdict.word)
    element = ElementTree.SubElement(case, child, message=_clean(message))
    element.text = _clean(draw_verdict(verdict).plain)


def _name(verdict: Verdict) -> str:
    sizes = sizes_text(verdict.sizes) if verdict.sizes else ""
    name = verdict.proc or "(file)"
    return f"{name}[{sizes}]" if sizes else name


def _clean(text: str) -> str:
    return _NOT_XML.sub("\ufffd", text)


# Verdicts as SARIF 2.1.0, for code-scanning services and editors.

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
            who = " ".join(filter(None, (site.access_text, by)))
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
