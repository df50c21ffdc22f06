"""How a procedure was derived: a line a step, and what it changed."""

from __future__ import annotations

from collections.abc import Callable, Iterator
from pathlib import Path
from typing import Final

from rich.text import Text

from exogpu.api import Procedure
from exogpu.cli.places import Places
from exogpu.cli.progress import deriving
from exogpu.cli.render import console, shown_path
from exogpu.report.html import history_html
from exogpu.report.steps import changed, history
from exogpu.schedule.procedures import chain

STYLES: Final = {"+": "green", "-": "red"}


def draw_history(procedure: Procedure, *, diff: bool = False) -> Text:
    """The steps from what was written to the procedure; with `diff` the lines that each changed."""
    steps = [*chain(procedure)][::-1]
    if not steps:
        return Text.assemble((procedure.name, "bold"), ": written, not derived\n")
    seconds = sum(step.seconds for _, step in steps)
    count = f"{len(steps)} step{'s' if len(steps) > 1 else ''}"
    found = Text.assemble(
        (procedure.name, "bold"), f": {count} from {steps[0][1].parent.name}, {seconds:.1f} s\n"
    )
    within: tuple[str, ...] = ()
    for number, (made, step) in enumerate(steps, 1):
        for depth, part in enumerate(step.within):
            if within[: depth + 1] != step.within[: depth + 1]:
                found.append(f"     {'  ' * depth}{part}\n", "bold")
        within = step.within
        found.append(f"{number:4} ", "dim")
        found.append(f"{'  ' * len(within)}{step.primitive}({', '.join(step.arguments)})")
        found.append(f"  {step.seconds:.2f} s\n", "dim")
        for said in step.assumed:
            found.append(f"       assuming that {said}\n", "yellow")
        if diff:
            for line in changed(made, step):
                found.append(f"       {line}\n", STYLES[line[0]])
    return found


def told(
    parsed: Callable[[], list[Procedure]], diff: bool, html: Path | None, kept: bool
) -> Iterator[Text]:
    """What is said of the procedures of a target, and of the page of each derived one where a
    folder is given for them.  Raises ExoGpuError, OSError."""
    with deriving(console(stderr=True).is_terminal, kept):
        procedures = parsed()
    for procedure in procedures:
        yield draw_history(procedure, diff=diff)
    if html is None:
        return
    places = Places()
    html.mkdir(parents=True, exist_ok=True)
    for procedure in procedures:
        if [*chain(procedure)]:
            page = html / f"{places.name(procedure.name)}.html"
            found = history(procedure, procedure, procedure.check())
            page.write_text(history_html(found), encoding="utf-8")
            where = shown_path(str(page))
            yield Text.assemble((procedure.name, "bold"), f": {found.report.badge}, {where}\n")
