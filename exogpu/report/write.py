"""Reports as folders: the page and the Markdown file."""

from __future__ import annotations

import re
from pathlib import Path

from exogpu.report.html import html
from exogpu.report.markdown import markdown
from exogpu.report.model import Report


def write_report(folder: Path, report: Report) -> None:
    """Makes `report.html` and `report.md` in a folder, which is made where there is none.

    Raises OSError.
    """
    folder.mkdir(parents=True, exist_ok=True)
    (folder / "report.html").write_text(html(report), encoding="utf-8")
    (folder / "report.md").write_text(markdown(report), encoding="utf-8")


def folder_name(name: str) -> str:
    """The folder of a procedure: its name, without what no file system takes."""
    return re.sub(r"[^\w.-]", "_", name).strip(".") or "procedure"
