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
