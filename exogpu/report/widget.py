"""A kernel in a notebook: who executes it, and its timeline, step by step; no server is needed.

A page of its own stands in a frame, so that neither its style nor its script meets the notebook's.
"""

from __future__ import annotations

from collections.abc import Iterator, Mapping
from dataclasses import dataclass
from html import escape
from typing import Final

from exogpu.pipeline.stages import Stages
from exogpu.report.html import widget_html
from exogpu.report.instance import main_loop, sizes_for_trips
from exogpu.report.model import Cluster, Timeline
from exogpu.report.theorem import sizes_text
from exogpu.report.threads import clusters
from exogpu.report.timeline import drawn_sizes, timeline
from exogpu.result.verdict import Hazard

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
    runs = tuple(_chosen(procedure) if choice else _runs_at(procedure, sizes, hazard))
    found = clusters(facts.proc, facts.collective)
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
    found = None if shown is None else timeline(facts, program, hazard, shown)
    if shown is not None and found is not None:
        yield _run(procedure, sizes_text(shown), found)


def _chosen(procedure: Stages) -> Iterator[Run]:
    """At the smallest sizes for each number of trips."""
    facts, program = procedure.facts, procedure.amir()
    main = main_loop(facts.proc)
    for trips in range(1, (TRIPS if main is not None else 1) + 1):
        small = sizes_for_trips(facts.proc, main, trips)
        found = None if small is None else timeline(facts, program, None, small)
        if small is not None and found is not None:
            yield _run(procedure, sizes_text(small), found)


def _run(procedure: Stages, label: str, found: Timeline) -> Run:
    depths = {name.name: depth or 1 for name, depth in procedure.facts.ring_depths.items()}
    elements = dict.fromkeys(signal.element for signal in found.signals if signal.arrives)
    rings = tuple(Ring(one, depths.get(one.partition("[")[0], 1)) for one in elements)
    return Run(label or "no sizes", found, rings[:RINGS])
