"""A report as one HTML file: no script, style, font or picture comes from elsewhere."""

from __future__ import annotations

import json
import re
from functools import cache
from importlib.resources import files
from pathlib import Path
from typing import TYPE_CHECKING, Final

from jinja2 import Environment, FunctionLoader, StrictUndefined, Template
from markupsafe import Markup

from exogpu.report.markdown import markdown
from exogpu.report.report_data import Place, Report, Row
from exogpu.report.snapshot import FILE, Snapshot, snapshot_json, snapshot_of

if TYPE_CHECKING:
    from exogpu.report.comparison import Comparison
    from exogpu.report.derivation_page import History
    from exogpu.report.notebook import Widget


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
    from exogpu.report.comparison_text import (
        counts,
        headline,
        line_change,
        statement_text,
        unproved,
    )

    return _template("comparison.html.j2").render(
        c=comparison,
        headline=headline(comparison),
        counts=counts,
        where=line_change,
        standing=statement_text,
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


# Reports as folders: the page, the Markdown file, and what a later report is compared with.


def write_report(folder: Path, report: Report) -> Snapshot:
    """Makes `report.page`, `report.md` and `report.json` in a folder, which is made where there is
    none; what is in the last.

    Raises OSError.
    """
    folder.mkdir(parents=True, exist_ok=True)
    snapshot = snapshot_of(report)
    texts = {
        "report.html": html(report),
        "report.md": markdown(report),
        FILE: snapshot_json(snapshot),
    }
    for name, text in texts.items():
        write_text(folder / name, text)
    return snapshot


def write_text(file: Path, text: str) -> None:
    """Writes a text in UTF-8; of the name of a file that is none, each byte as `\\udcff`, which
    JSON reads as it was.  Raises OSError."""
    file.write_text(text, encoding="utf-8", errors="backslashreplace")


def folder_name(name: str) -> str:
    """The folder of a procedure: its name, without what no file system takes."""
    return re.sub(r"[^\w.-]", "_", name).strip(".") or "procedure"
