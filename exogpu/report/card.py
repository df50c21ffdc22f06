"""Cards for notebooks: small pieces of HTML with everything escaped."""

from __future__ import annotations

from collections.abc import Iterable
from html import escape
from typing import Final

from exogpu.result.verdict import Verdict

_COLOURS: Final = {
    "proved": ("#1a6b34", "#e6f4ea"),
    "safe": ("#1a6b34", "#e6f4ea"),
    "refuted": ("#b3261e", "#fdecea"),
    "error": ("#b3261e", "#fdecea"),
    "undecided": ("#7a4f01", "#fdf3dc"),
}
_CODE: Final = "font-family:ui-monospace,monospace;font-size:0.9em;white-space:pre-wrap"


def card(title: str, word: str, facts: Iterable[tuple[str, str]], code: str = "") -> str:
    """A title with a verdict's word (or none), labelled facts, and a program text."""
    badge = ""
    if word:
        ink, ground = _COLOURS.get(word, ("#1b1f24", "#e7f0fa"))
        style = f"color:{ink};background:{ground};padding:1px 8px;border-radius:9px"
        badge = f' <span style="{style}">{escape(word)}</span>'
    rows = "".join(
        f'<div><span style="opacity:0.75">{escape(label)}</span> {escape(value)}</div>'
        for label, value in facts
    )
    shown = f'<pre style="{_CODE};margin:6px 0 0">{escape(code)}</pre>' if code else ""
    return f"<div><b>{escape(title)}</b>{badge}{rows}{shown}</div>"


def verdict_card(verdict: Verdict) -> str:
    """The verdict as a notebook shows it."""
    word = "safe" if verdict.word == "proved" and verdict.sizes is not None else verdict.word
    sizes = ", ".join(f"{name}={value}" for name, value in (verdict.sizes or {}).items())
    facts = [("sizes", "all" if verdict.sizes is None else sizes), ("policy", verdict.policy.value)]
    for hazard in verdict.hazards:
        lines = [site.place.line for site in (hazard.first, hazard.second) if site is not None]
        where = " and ".join(f"line {line}" for line in lines)
        said = "; ".join(part for part in (hazard.message, hazard.help) if part)
        facts.append((f"{hazard.kind.value} {where}", said))
    found = (*verdict.diagnostics, *verdict.warnings)
    facts += [(f"{d.code} line {d.span.line}", d.message) for d in found]
    facts += [("reason", verdict.reason)] if verdict.reason else []
    facts += [("note", verdict.note)] if verdict.note else []
    return card(verdict.proc, word, facts)
