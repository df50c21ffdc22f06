"""A report as one HTML file: no script, style, font or picture comes from elsewhere."""

from __future__ import annotations

import json
from functools import cache
from importlib.resources import files
from typing import TYPE_CHECKING, Final

from jinja2 import Environment, FunctionLoader, StrictUndefined, Template
from markupsafe import Markup

from exogpu.report.model import Place, Report, Row

if TYPE_CHECKING:  # they need ISL, and pages of reports do not
    from exogpu.report.comparison import Comparison
    from exogpu.report.steps import History
    from exogpu.report.widget import Widget

_SAFE: Final = {"<": "\\u003c", ">": "\\u003e", "&": "\\u0026", "\u2028": "\\u2028"}


def html(report: Report) -> str:
    """The page.  Whatever the program says appears as text: everything is escaped."""
    formula = Markup(report.formula.html) if report.formula is not None else None
    return _template("report.html.j2").render(
        r=report,
        formula=formula,
        uses={use.mark: use for use in report.uses},
        kinds=list(dict.fromkeys(row.kind for row in report.rows)),
        variables=list(dict.fromkeys(row.variable for row in report.rows if row.variable)),
        answers=list(dict.fromkeys(row.answer for row in report.rows)),
        style=_style(),
        script=Markup(_resource("report.js")),
        data=script_json(_data(report)),
    )


def history_html(history: History) -> str:
    """The page of a derivation; it has no script."""
    return _template("history.html.j2").render(h=history, style=_style())


def comparison_html(comparison: Comparison) -> str:
    """The page of a comparison; it has no script."""
    from exogpu.report.comparison_text import counts, headline, standing, unproved, where

    return _template("comparison.html.j2").render(
        c=comparison,
        headline=headline(comparison),
        counts=counts,
        where=where,
        standing=standing,
        unproved=unproved,
        signs={"new": "plus", "gone": "minus", "changed": ""},
        style=_style(),
    )


def widget_html(widget: Widget) -> str:
    """The page inside of a notebook's frame."""
    data = [
        {
            "rows": sorted({box.y for box in run.timeline.boxes}),
            "signals": [[s.y, s.arrives, s.element, s.rank] for s in run.timeline.signals],
            "rings": [[ring.element, ring.depth] for ring in run.rings],
        }
        for run in widget.runs
    ]
    return _template("widget.html.j2").render(
        w=widget,
        style=Markup(_resource("report.css") + _resource("widget.css")),
        script=Markup(_resource("widget.js")),
        data=script_json(data),
    )


def _style() -> Markup:
    return Markup(_resource("steps.css") + _resource("report.css"))


def _template(name: str) -> Template:
    environment = Environment(
        autoescape=True,
        undefined=StrictUndefined,
        trim_blocks=True,
        lstrip_blocks=True,
        loader=FunctionLoader(_resource),
    )
    return environment.get_template(name)


def script_json(value: object) -> Markup:
    """JSON that cannot end a script element."""
    text = json.dumps(value, ensure_ascii=True, separators=(",", ":"))
    return Markup("".join(_SAFE.get(c, c) for c in text))


@cache
def _resource(name: str) -> str:
    return (files("exogpu.report") / "templates" / name).read_text(encoding="utf-8")


def _data(report: Report) -> dict[str, object]:
    """Returns the data that the page's script draws: the begin, steps and end of each
    obligation."""
    return {
        "proof": report.proof,
        "marks": [
            {"line": m.line, "kind": m.kind, "variable": m.variable, "text": m.text}
            for m in report.marks
        ],
        "rows": [_row(row) for row in report.rows],
        "uses": {str(use.mark): {"rows": use.rows, "why": use.why} for use in report.uses},
    }


def _row(row: Row) -> dict[str, object]:
    return {
        "name": row.name,
        "kind": row.kind,
        "variable": row.variable,
        "claim": row.claim,
        "plain": row.plain,
        "answer": row.answer,
        "first": _place(row.first),
        "second": _place(row.second),
        "chains": [[[*_place(step.place), step.role] for step in chain] for chain in row.chains],
    }


def _place(place: Place | None) -> list[object]:
    """Mark (or -1), line (or 0), text, detail, threads."""
    if place is None:
        return [-1, 0, "", "", ""]
    mark = -1 if place.mark is None else place.mark
    return [mark, place.line, place.text, place.detail, place.threads]
