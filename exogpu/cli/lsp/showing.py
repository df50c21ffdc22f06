"""Shows a document's results in the words of the protocol."""

from __future__ import annotations

from collections.abc import Iterator, Sequence
from dataclasses import dataclass
from typing import Final

from lsprotocol import types as lsp
from pygls import uris

from exogpu.cli.lsp.documents import Document
from exogpu.cli.lsp.fixing import ALL
from exogpu.cli.lsp.positions import contains, overlap, to_range
from exogpu.cli.lsp.records import Finding, Fix, Related

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
        return to_range(place, self.lines, self.encoding)


def diagnostics(document: Document, text: Text) -> list[lsp.Diagnostic]:
    """The findings; one that several procedures share, as those of one family do, is there once."""
    found: dict[object, tuple[Finding, int]] = {}
    for finding in (one for judged in document.judged for one in judged.findings):
        key = (finding.place, finding.code, tuple(one.place for one in finding.related))
        first, count = found.get(key, (finding, 0))
        found[key] = (first, count + 1)
    shown = [_diagnostic(finding, count, document, text) for finding, count in found.values()]
    if document.failure is not None:
        shown.append(_diagnostic(document.failure, 1, document, text))
    return shown


def _diagnostic(finding: Finding, count: int, document: Document, text: Text) -> lsp.Diagnostic:
    others = f"\n(the same in {count - 1} other procedures)" if count > 1 else ""
    return lsp.Diagnostic(
        range=text.range(finding.place),
        severity=_SEVERITY[finding.severity],
        code=finding.code,
        source=SOURCE,
        message=finding.message + others,
        related_information=[_related(one, document, text) for one in finding.related],
    )


def _related(related: Related, document: Document, text: Text) -> lsp.DiagnosticRelatedInformation:
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
    found: dict[object, tuple[Fix, list[Finding]]] = {}
    for fix, finding in _offered(document):
        if overlap(text.range(finding.place), asked):
            # What mends several findings is offered once.
            found.setdefault((fix.title, fix.edits), (fix, []))[1].append(finding)
    offered = sorted(found.values(), key=lambda one: not one[0].proved)
    return [_action(fix, mended, document, text, version) for fix, mended in offered]


def _offered(document: Document) -> Iterator[tuple[Fix, Finding]]:
    for judged in document.judged:
        here = [fix for fix in document.fixes if fix.procedure == judged.name]
        for finding in judged.findings:
            if finding.source >= 0:
                yield from ((f, finding) for f in here if f.source in (finding.source, ALL))


def _action(
    fix: Fix, mended: list[Finding], document: Document, text: Text, version: int | None
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
    here = [(one, found) for one, found in here if contains(found, at)]
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
