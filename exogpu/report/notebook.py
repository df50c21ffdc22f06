"""A kernel in a notebook: who executes it, and its timeline, step by step; no server is needed.

A page of its own stands in a frame, so that neither its style nor its script meets the notebook's.
"""

from __future__ import annotations

from collections.abc import Iterable, Iterator, Mapping
from dataclasses import dataclass
from html import escape
from typing import Final

from exogpu.diagnostics.hazards import Hazard
from exogpu.diagnostics.verdict import Verdict
from exogpu.pipeline.stages import Stages
from exogpu.report import thread_table
from exogpu.report import timeline as report_timeline
from exogpu.report.memory_use import main_loop, sizes_for_trips
from exogpu.report.page import widget_html
from exogpu.report.report_data import Cluster, Timeline
from exogpu.report.theorem import sizes_text
from exogpu.report.timeline import drawn_sizes

TRIPS: Final = 6
"""The largest trip count of the main loop that can be chosen."""
RINGS: Final = 12
"""Barrier elements that are drawn."""
LEAST: Final = 260
MOST: Final = 720
"""Pixels of the frame."""


@dataclass(frozen=True, slots=True)
class Ring:
    """A barrier element as its timeline goes on: of each slot, which arrival it holds."""

    element: str
    depth: int


@dataclass(frozen=True, slots=True)
class Run:
    """The timeline of one size, with the barrier elements that it has."""

    label: str
    timeline: Timeline
    rings: tuple[Ring, ...]


@dataclass(frozen=True, slots=True)
class Widget:
    """The contents of the frame."""

    name: str
    runs: tuple[Run, ...]
    first: int
    """The run that is shown first."""
    clusters: tuple[Cluster, ...]


@dataclass(frozen=True, slots=True)
class Animated:
    """A run for a notebook to show."""

    name: str
    sizes: Mapping[str, int]
    html: str
    """Empty of a procedure that launches no kernel."""

    def __repr__(self) -> str:
        at = f" at {sizes_text(self.sizes)}" if self.sizes else ""
        return f"<run of {self.name}{at}: a notebook shows it>"

    def _repr_html_(self) -> str:
        """The frame."""
        return self.html or f"<div>{escape(self.name)} launches no kernel</div>"


def widget(
    procedure: Stages,
    sizes: Mapping[str, int] | None = None,
    hazard: Hazard | None = None,
    *,
    choice: bool = False,
) -> str:
    """HTML of a frame with the threads of a kernel and its timeline at the sizes, else where it is
    refuted, or at small sizes; with a choice, at several numbers of trips through its main loop.
    Empty for a procedure without a kernel.
    """
    if procedure.diagnostics:
        return ""
    facts = procedure.facts
    runs = tuple(_choose_runs(procedure) if choice else _runs_at(procedure, sizes, hazard))
    found = thread_table.clusters(facts.proc, facts.collective)
    if not runs:
        return ""
    # As many trips as make a ring go round, of those that can be chosen.
    deepest = max((depth or 1 for depth in facts.ring_depths.values()), default=1)
    shown = Widget(procedure.name, runs, min(deepest, len(runs) - 1), found)
    tall = max(run.timeline.height for run in runs) + 26 * max(len(run.rings) for run in runs)
    height = round(min(max(tall + 190, LEAST), MOST))
    page = escape(widget_html(shown), quote=True)
    style = f"width:100%;height:{height}px;border:1px solid #d5dbe1;border-radius:6px"
    title = escape(f"{procedure.name}: threads and timeline", quote=True)
    shown_as = f'sandbox="allow-scripts" style="{style}" title="{title}"'
    return f'<iframe {shown_as} srcdoc="{page}"></iframe>'


def _runs_at(
    procedure: Stages, sizes: Mapping[str, int] | None, hazard: Hazard | None
) -> Iterator[Run]:
    facts, program = procedure.facts, procedure.amir()
    shown = drawn_sizes(facts, program, hazard) if sizes is None else sizes
    found = None if shown is None else report_timeline.timeline(facts, program, hazard, shown)
    if shown is not None and found is not None:
        yield _run(procedure, sizes_text(shown), found)


def _choose_runs(procedure: Stages) -> Iterator[Run]:
    """At the smallest sizes for each number of trips."""
    facts, program = procedure.facts, procedure.amir()
    main = main_loop(facts.proc)
    for trips in range(1, (TRIPS if main is not None else 1) + 1):
        small = sizes_for_trips(facts.proc, main, trips)
        found = None if small is None else report_timeline.timeline(facts, program, None, small)
        if small is not None and found is not None:
            yield _run(procedure, sizes_text(small), found)


def _run(procedure: Stages, label: str, found: Timeline) -> Run:
    depths = {name.name: depth or 1 for name, depth in procedure.facts.ring_depths.items()}
    elements = dict.fromkeys(signal.element for signal in found.signals if signal.arrives)
    rings = tuple(Ring(one, depths.get(one.partition("[")[0], 1)) for one in elements)
    return Run(label or "no sizes", found, rings[:RINGS])


# Cards for notebooks: small pieces of HTML with everything escaped.

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
