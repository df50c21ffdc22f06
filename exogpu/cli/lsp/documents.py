"""The server's knowledge of an open document."""

from __future__ import annotations

import asyncio
from collections.abc import Iterator, Sequence
from dataclasses import dataclass, field
from time import monotonic
from typing import Final

from lsprotocol import types as lsp
from pygls import uris

from exogpu.cli.lsp import protocol
from exogpu.cli.lsp.fixes import ALL
from exogpu.diagnostics.errors import Diagnostic, Span
from exogpu.diagnostics.hazards import Hazard
from exogpu.diagnostics.verdict import Verdict
from exogpu.report.render_verdict import roles_of, sizes_text

# Verdicts as findings of a document: what is underlined where, and what is said of it.

FIRST: protocol.Place = (1, 1, 1, 2)
"""Where what has no place of its own is shown."""


def editor_view(verdict: Verdict, span: Span, path: str) -> protocol.Judged:
    """Returns an editor's view of a verdict on a procedure of a file, or on a file without one."""
    at = _head(span) if span.file == path and span.line else FIRST
    findings = tuple(dict.fromkeys(_findings(verdict, path, at)))
    return protocol.Judged(verdict.proc, at, verdict.word, summary(verdict), findings)


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


def _head(span: Span) -> protocol.Place:
    """The first line of a definition."""
    end = span.end_column if span.end_line == span.line else len(span.text) + 1
    return span.line, span.column, span.line, max(end, span.column + 1)


def _findings(verdict: Verdict, path: str, at: protocol.Place) -> Iterator[protocol.Finding]:
    for diagnostic in verdict.diagnostics:
        yield _of_diagnostic(diagnostic, path, at, warning=False)
    for warning in verdict.warnings:
        yield _of_diagnostic(warning, path, at, warning=True)
    for number, hazard in enumerate(verdict.hazards):
        yield _of_hazard(hazard, number, verdict, path, at)
    if verdict.word == "undecided":
        yield protocol.Finding(
            at, "information", "undecided", f"{verdict.proc}: {summary(verdict)}"
        )


def _of_diagnostic(
    diagnostic: Diagnostic, path: str, at: protocol.Place, *, warning: bool
) -> protocol.Finding:
    span = diagnostic.span
    here = span.file == path and span.line > 0
    notes = [(note.span, note.message) for note in diagnostic.notes]
    if not here:
        notes.insert(0, (span, diagnostic.message))
    return protocol.Finding(
        protocol.place_of(span) if here else at,
        "warning" if warning else "error",
        diagnostic.code,
        f"{diagnostic.message}\nremedy: {diagnostic.help}",
        tuple(_related(span, said) for span, said in notes if span.line),
    )


def _related(span: Span, message: str) -> protocol.Related:
    return protocol.Related(span.file, protocol.place_of(span), message)


def _of_hazard(
    hazard: Hazard, number: int, verdict: Verdict, path: str, at: protocol.Place
) -> protocol.Finding:
    """At its second statement; where that is in another file, at the first, or the procedure."""
    roles = roles_of(hazard)
    both = [
        (site.place, f"{role}: {site.text}")
        for site, role in zip((hazard.first, hazard.second), roles, strict=True)
        if site is not None and site.place.line
    ]
    here = [protocol.place_of(span) for span, _ in reversed(both) if span.file == path]
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
    return protocol.Finding(place, "error", hazard.code, "\n".join(said), related, number)


SHOWN_AFTER: Final = 1.0
"""Seconds after which the findings so far are shown, while others are looked for."""


@dataclass
class Document:
    """One open document, by its last check."""

    uri: str
    path: str
    version: int = 0
    """Counts the changes of its text, and of others that it rests on."""
    checked: int = -1
    """The version that findings, hovers and fixes are of."""
    judged: list[protocol.Judged] = field(default_factory=list)
    failure: protocol.Finding | None = None
    """Why there are no more."""
    hovers: list[protocol.Hover] = field(default_factory=list)
    fixes: list[protocol.Fix] = field(default_factory=list)
    files: frozenset[str] = frozenset()
    """The files that it imports."""
    failed: bool = False
    """The file could not be loaded."""
    repaired: bool = False
    """No more fixes come."""
    dirty: bool = True
    """The file has to be checked."""
    complete: asyncio.Event = field(default_factory=asyncio.Event)
    """Set where nothing more is told of it."""
    _fresh: list[protocol.Judged] = field(default_factory=list)
    _began: float = 0.0
    _loaded: bool = False

    @property
    def current(self) -> bool:
        """Tests whether the knowledge is of the present text."""
        return self.checked == self.version

    @property
    def loading(self) -> bool:
        """Tests whether its file is being executed."""
        return not self._loaded

    def rests_on(self, path: str) -> bool:
        """Tests whether a change of another file may change the results for this one."""
        return path != self.path and (self.failed or path in self.files)

    def change(self) -> None:
        """Its text, or one that it rests on, is another."""
        self.version += 1
        self.dirty = True
        self.complete.clear()

    def begin(self) -> None:
        """A check of the present text begins."""
        self.dirty, self._loaded, self.repaired = False, False, False
        self._fresh, self._began = [], monotonic()

    def leave(self) -> None:
        """It has no kernels, and is not checked."""
        self.begin()
        self._show(self.version)
        self.failed, self.repaired = False, True
        self.complete.set()

    def tell(self, told: protocol.Told, version: int) -> bool:
        """Takes what is told of the check of a version; whether there is something new to show."""
        match told:
            case protocol.Loaded():
                self._loaded = True
                self.files, self.failed = frozenset(told.files), told.failed
                return False
            case protocol.Judged():
                return self._judge(told, version)
            case protocol.Hover():
                self.hovers.append(told)
                return False
            case protocol.Fix():
                self.fixes.append(told)
                return False
            case protocol.Failed():
                self.failure = protocol.Finding(FIRST, "error", "exogpu", told.reason)
                self.failed, self.repaired = told.loading, True
                self.complete.set()
                return self._show(version, self.failure)
            case protocol.Stage(done="checked"):
                return self._show(version)
            case protocol.Stage():
                self.repaired = True
                if told.done == "all":
                    self.complete.set()
                return False

    def _judge(self, told: protocol.Judged, version: int) -> bool:
        """Takes a verdict, in place of an earlier one on the same procedure."""
        names = [(one.name, one.place) for one in self._fresh]
        if (told.name, told.place) in names:
            self._fresh[names.index((told.name, told.place))] = told
        else:
            self._fresh.append(told)
        if self.current:
            return True
        return monotonic() - self._began > SHOWN_AFTER and self._show(version)

    def _show(self, version: int, failure: protocol.Finding | None = None) -> bool:
        self.judged, self.failure = self._fresh, failure
        if self.checked != version:
            self.checked, self.hovers, self.fixes = version, [], []
        return True


# Shows a document's results in the words of the protocol.

_SEVERITY: Final = {
    "error": lsp.DiagnosticSeverity.Error,
    "warning": lsp.DiagnosticSeverity.Warning,
    "information": lsp.DiagnosticSeverity.Information,
}

SOURCE: Final = "exogpu"


@dataclass(frozen=True, slots=True)
class Text:
    """The lines of a document, and how places in them are counted."""

    lines: Sequence[str]
    encoding: lsp.PositionEncodingKind | str

    def range(self, place: tuple[int, int, int, int]) -> lsp.Range:
        """A place as a range."""
        return protocol.to_range(place, self.lines, self.encoding)


def diagnostics(document: Document, text: Text) -> list[lsp.Diagnostic]:
    """The findings; one that several procedures share, as those of one family do, is there once."""
    found: dict[object, tuple[protocol.Finding, int]] = {}
    for finding in (one for judged in document.judged for one in judged.findings):
        key = (finding.place, finding.code, tuple(one.place for one in finding.related))
        first, count = found.get(key, (finding, 0))
        found[key] = (first, count + 1)
    shown = [_diagnostic(finding, count, document, text) for finding, count in found.values()]
    if document.failure is not None:
        shown.append(_diagnostic(document.failure, 1, document, text))
    return shown


def _diagnostic(
    finding: protocol.Finding, count: int, document: Document, text: Text
) -> lsp.Diagnostic:
    others = f"\n(the same in {count - 1} other procedures)" if count > 1 else ""
    return lsp.Diagnostic(
        range=text.range(finding.place),
        severity=_SEVERITY[finding.severity],
        code=finding.code,
        source=SOURCE,
        message=finding.message + others,
        related_information=[_related_information(one, document, text) for one in finding.related],
    )


def _related_information(
    related: protocol.Related, document: Document, text: Text
) -> lsp.DiagnosticRelatedInformation:
    uri = document.uri
    if related.path != document.path:
        uri = uris.from_fs_path(related.path) or ""
        text = Text([], text.encoding)
    return lsp.DiagnosticRelatedInformation(
        lsp.Location(uri, text.range(related.place)), related.message
    )


def actions(
    document: Document, text: Text, asked: lsp.Range, version: int | None
) -> list[lsp.CodeAction]:
    """The changes that were tried, of what is found in a range."""
    found: dict[object, tuple[protocol.Fix, list[protocol.Finding]]] = {}
    for fix, finding in _offered(document):
        if protocol.overlap(text.range(finding.place), asked):
            # What mends several findings is offered once.
            found.setdefault((fix.title, fix.edits), (fix, []))[1].append(finding)
    offered = sorted(found.values(), key=lambda one: not one[0].proved)
    return [_action(fix, mended, document, text, version) for fix, mended in offered]


def _offered(document: Document) -> Iterator[tuple[protocol.Fix, protocol.Finding]]:
    for judged in document.judged:
        here = [fix for fix in document.fixes if fix.procedure == judged.name]
        for finding in judged.findings:
            if finding.source >= 0:
                yield from ((f, finding) for f in here if f.source in (finding.source, ALL))


def _action(
    fix: protocol.Fix,
    mended: list[protocol.Finding],
    document: Document,
    text: Text,
    version: int | None,
) -> lsp.CodeAction:
    edits = [lsp.TextEdit(text.range(one.place), one.text) for one in fix.edits]
    target = lsp.OptionalVersionedTextDocumentIdentifier(document.uri, version)
    return lsp.CodeAction(
        title=fix.title,
        kind=lsp.CodeActionKind.QuickFix,
        diagnostics=[_diagnostic(one, 1, document, text) for one in mended],
        is_preferred=fix.proved,
        edit=lsp.WorkspaceEdit(document_changes=[lsp.TextDocumentEdit(target, edits)]),
    )


def hover(document: Document, text: Text, at: lsp.Position) -> lsp.Hover | None:
    """Returns the text about a place: of several that hold it, the shortest."""
    here = [(one, text.range(one.place)) for one in document.hovers]
    here = [(one, found) for one, found in here if protocol.contains(found, at)]
    if not here:
        return None
    _, found = min(here, key=lambda pair: (_size(pair[1]), here.index(pair)))
    same = dict.fromkeys(other.text for other, place in here if place == found)
    said = "\n\n---\n\n".join(list(same)[:3])
    return lsp.Hover(lsp.MarkupContent(lsp.MarkupKind.Markdown, said), found)


def _size(found: lsp.Range) -> tuple[int, int]:
    return (
        found.end.line - found.start.line,
        found.end.character - found.start.character,
    )


def lenses(document: Document, text: Text) -> list[lsp.CodeLens]:
    """The verdict above each procedure; of a family, the verdicts that it has."""
    words: dict[tuple[int, int, int, int], list[str]] = {}
    for judged in document.judged:
        if judged.name:
            words.setdefault(judged.place, []).append(judged.summary)
    return [
        lsp.CodeLens(text.range(place), lsp.Command("; ".join(dict.fromkeys(said)), ""))
        for place, said in words.items()
    ]
