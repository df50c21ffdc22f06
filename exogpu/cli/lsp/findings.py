"""Verdicts as findings of a document: what is underlined where, and what is said of it."""

from __future__ import annotations

from collections.abc import Iterator

from exogpu.cli.lsp.records import Finding, Judged, Place, Related, place_of
from exogpu.cli.render import sizes_text
from exogpu.report.roles import roles_of
from exogpu.result.errors import Diagnostic, Span
from exogpu.result.verdict import Hazard, Verdict

FIRST: Place = (1, 1, 1, 2)
"""Where what has no place of its own is shown."""


def judged(verdict: Verdict, span: Span, path: str) -> Judged:
    """Returns an editor's view of a verdict on a procedure of a file, or on a file without one."""
    at = _head(span) if span.file == path and span.line else FIRST
    findings = tuple(dict.fromkeys(_findings(verdict, path, at)))
    return Judged(verdict.proc, at, verdict.word, summary(verdict), findings)


def summary(verdict: Verdict) -> str:
    """The verdict in some words."""
    match verdict.word:
        case "proved":
            count = 0 if verdict.proof is None else len(verdict.proof.answered)
            assumed = f", assuming {', '.join(verdict.assumptions)}" if verdict.assumptions else ""
            return f"proved for all sizes{assumed}" + (f" ({count} obligations)" if count else "")
        case "refuted":
            many = len(verdict.hazards)
            safe = f", safe {'iff' if verdict.necessary else 'if'} {verdict.condition}"
            hazards = f"refuted: {many} hazard{'s' if many > 1 else ''}"
            return hazards + (safe if verdict.condition is not None else "")
        case "undecided":
            return f"undecided: {verdict.reason}"
        case "error":
            return "ill-formed"


def _head(span: Span) -> Place:
    """The first line of a definition."""
    end = span.end_column if span.end_line == span.line else len(span.text) + 1
    return span.line, span.column, span.line, max(end, span.column + 1)


def _findings(verdict: Verdict, path: str, at: Place) -> Iterator[Finding]:
    for diagnostic in verdict.diagnostics:
        yield _of_diagnostic(diagnostic, path, at, warning=False)
    for warning in verdict.warnings:
        yield _of_diagnostic(warning, path, at, warning=True)
    for number, hazard in enumerate(verdict.hazards):
        yield _of_hazard(hazard, number, verdict, path, at)
    if verdict.word == "undecided":
        yield Finding(at, "information", "undecided", f"{verdict.proc}: {summary(verdict)}")


def _of_diagnostic(diagnostic: Diagnostic, path: str, at: Place, *, warning: bool) -> Finding:
    span = diagnostic.span
    here = span.file == path and span.line > 0
    notes = [(note.span, note.message) for note in diagnostic.notes]
    if not here:
        notes.insert(0, (span, diagnostic.message))
    return Finding(
        place_of(span) if here else at,
        "warning" if warning else "error",
        diagnostic.code,
        f"{diagnostic.message}\nremedy: {diagnostic.help}",
        tuple(_related(span, said) for span, said in notes if span.line),
    )


def _related(span: Span, message: str) -> Related:
    return Related(span.file, place_of(span), message)


def _of_hazard(hazard: Hazard, number: int, verdict: Verdict, path: str, at: Place) -> Finding:
    """At its second statement; where that is in another file, at the first, or the procedure."""
    roles = roles_of(hazard)
    both = [
        (site.place, f"{role}: {site.text}")
        for site, role in zip((hazard.first, hazard.second), roles, strict=True)
        if site is not None and site.place.line
    ]
    here = [place_of(span) for span, _ in reversed(both) if span.file == path]
    if hazard.second.ends is not None:
        both.append((hazard.second.span, f"{hazard.variable} is declared here"))
    sizes = f" at {sizes_text(hazard.sizes)}" if hazard.sizes else ""
    element = hazard.variable + (f"[{', '.join(map(str, hazard.index))}]" if hazard.index else "")
    on = f" on {element}" if element else ""
    said = [f"{verdict.proc}: {hazard.kind.value}{on}{sizes}: {hazard.message}"]
    said += [f"chain: {hazard.link}"] if hazard.link else []
    said += [f"repair: {hazard.help}"] if hazard.help else []
    related = tuple(_related(span, text) for span, text in both)
    place = here[0] if here else at
    return Finding(place, "error", hazard.code, "\n".join(said), related, number)
