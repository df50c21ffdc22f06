"""Reports as folders: the page, the Markdown file, and what a later report is compared with."""

from __future__ import annotations

import re
from pathlib import Path

from exogpu.report.html import html
from exogpu.report.markdown import markdown
from exogpu.report.model import Report
from exogpu.report.snapshot import FILE, Snapshot, snapshot_json, snapshot_of


def write_report(folder: Path, report: Report) -> Snapshot:
    """Makes `report.html`, `report.md` and `report.json` in a folder, which is made where there is
    none; what is in the last.

    Raises OSError.
    """
    folder.mkdir(parents=True, exist_ok=True)
    (folder / "report.html").write_text(html(report), encoding="utf-8")
    (folder / "report.md").write_text(markdown(report), encoding="utf-8")
    snapshot = snapshot_of(report)
    (folder / FILE).write_text(snapshot_json(snapshot), encoding="utf-8")
    return snapshot


def folder_name(name: str) -> str:
    """The folder of a procedure: its name, without what no file system takes."""
    return re.sub(r"[^\w.-]", "_", name).strip(".") or "procedure"
