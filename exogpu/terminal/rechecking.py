"""Answering certificates again on the command line: a bar, the sentences, the exit status."""

from __future__ import annotations

import json
from collections.abc import Iterable, Iterator
from contextlib import contextmanager
from dataclasses import dataclass
from pathlib import Path
from typing import Final

from rich.progress import BarColumn, Progress, TextColumn
from rich.text import Text

from exogpu.errors import Diagnostic, ExoGpuError, one_line
from exogpu.recheck import Ask, Flaw, Rechecked, Word, certificates_in, recheck
from exogpu.terminal.outcome import STATUS
from exogpu.terminal.render import console, draw_diagnostics, shown_path

STATUSES: Final[dict[Word, int]] = {"confirmed": 0, "rejected": 1, "unknown": 3}
STYLES: Final[dict[Word, str]] = {
    "confirmed": "bold green",
    "rejected": "bold red",
    "unknown": "bold yellow",
}


@dataclass(frozen=True, slots=True)
class Line:
    """What came of one folder: an answer, or why it could not be read."""

    folder: Path
    found: Rechecked | tuple[Diagnostic, ...]

    @property
    def status(self) -> int:
        """The exit status of this folder alone."""
        return STATUSES[self.found.word] if isinstance(self.found, Rechecked) else STATUS["error"]


def recheck_all(folder: Path, ask: tuple[Ask, ...], *, bar: bool = False) -> Iterator[Line]:
    """One line a certificate, as soon as it is known.

    Raises ExoGpuError where the folder has none.
    """
    for one in certificates_in(folder):
        try:
            with _shown(bar) as progress:
                line = Line(one, recheck(one, ask, progress))
        except ExoGpuError as error:
            line = Line(one, error.diagnostics)
        yield line


class _Bar:
    """How many obligations are answered."""

    def __init__(self, shown: Progress | None) -> None:
        self._shown = shown
        self._task = None if shown is None else shown.add_task("", total=None)

    def __call__(self, procedure: str, done: int, total: int) -> None:
        if self._shown is not None and self._task is not None:
            self._shown.update(self._task, description=procedure, completed=done, total=total)


@contextmanager
def _shown(bar: bool) -> Iterator[_Bar]:
    """A bar on the terminal, which goes when it is full."""
    if not bar:
        yield _Bar(None)
        return
    with Progress(
        TextColumn("{task.description}"),
        BarColumn(),
        TextColumn("{task.completed}/{task.total} obligations"),
        console=console(stderr=True),
        transient=True,
    ) as shown:
        yield _Bar(shown)


# --- words --------------------------------------------------------------------------------------


def draw(line: Line) -> Text:
    """The answer in a line, and a sentence for each flaw."""
    found = line.found
    if not isinstance(found, Rechecked):
        return draw_diagnostics(found)
    asked = found.obligations - found.by_rules
    by = " and ".join(found.solvers) or "no solver"
    rules = f", {found.by_rules} by the rules alone" if found.by_rules else ""
    text = Text.assemble(
        (found.procedure, "bold"),
        ": ",
        (found.word, STYLES[found.word]),
        f" ({found.obligations} obligations: {asked} asked of {by}{rules}; {found.seconds:.1f} s; ",
        f"{shown_path(str(line.folder))})\n",
    )
    for flaw in found.flaws:
        text.append(f"  {flaw.where}", "bold")
        text.append(f": {flaw.problem}\n")
        if flaw.claim:
            text.append(f"    the claim: {flaw.claim}\n")
    return text


def json_lines(lines: Iterable[Line]) -> str:
    """All of it as a JSON list; `diagnostics` of what could not be read."""
    return json.dumps([_line(line) for line in lines], indent=2)


def _line(line: Line) -> dict[str, object]:
    found = line.found
    if not isinstance(found, Rechecked):
        return {
            "folder": str(line.folder),
            "word": "error",
            "diagnostics": [one_line(diagnostic) for diagnostic in found],
        }
    return {
        "folder": str(line.folder),
        "word": found.word,
        "procedure": found.procedure,
        "obligations": found.obligations,
        "by_rules": found.by_rules,
        "solvers": list(found.solvers),
        "seconds": round(found.seconds, 6),
        "flaws": [_flaw(flaw) for flaw in found.flaws],
    }


def _flaw(flaw: Flaw) -> dict[str, object]:
    return {
        "where": flaw.where,
        "problem": flaw.problem,
        "claim": flaw.claim,
        "word": "unknown" if flaw.open else "rejected",
    }
