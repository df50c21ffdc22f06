"""Shows the derivation of a procedure: a line a step, and its changes."""

from __future__ import annotations

from collections import Counter
from collections.abc import Iterable
from pathlib import Path
from typing import Final

from rich.text import Text

from exogpu.api import Procedure
from exogpu.cli.output_folders import Places
from exogpu.report.derivation import changed_lines
from exogpu.report.derivation_page import history
from exogpu.report.page import history_html
from exogpu.report.render_verdict import console, shown_path
from exogpu.schedule.certificates.chain import Certificate, certificate
from exogpu.schedule.derivations import chain, derivation

STYLES: Final = {"+": "green", "-": "red"}


def tell(
    procedures: Iterable[Procedure], html: Path | None, output: Path | None, *, diff: bool
) -> bool:
    """Prints how procedures were derived; writes pages, and certificates in a folder each, where a
    folder is given for them; whether no step lacks a certificate.  Raises ExoGpuError, OSError."""
    complete, pages, places = True, Places(), Places()
    for procedure in procedures:
        console().print(draw_history(procedure, diff=diff), end="")
        if derivation(procedure) is None:
            continue
        if html is not None:
            page(procedure, html, pages)
        if output is not None:
            complete &= certified(procedure, output / places.name(procedure.name))
    return complete


def draw_history(procedure: Procedure, *, diff: bool = False) -> Text:
    """The steps from what was written to the procedure; with `diff` the lines that each changed."""
    steps = [*chain(procedure)][::-1]
    if not steps:
        return Text.assemble((procedure.name, "bold"), ": written, not derived\n")
    seconds = sum(step.seconds for _, step in steps)
    count = _count(len(steps), "step")
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
            for line in changed_lines(made, step):
                found.append(f"       {line}\n", STYLES[line[0]])
    return found


def page(procedure: Procedure, folder: Path, places: Places) -> None:
    """Writes the page of a derivation, and says where it is.  Raises OSError."""
    folder.mkdir(parents=True, exist_ok=True)
    file = folder / f"{places.name(procedure.name)}.html"
    found = history(procedure, procedure, procedure.check())
    file.write_text(history_html(found), encoding="utf-8")
    where = shown_path(str(file))
    said = Text.assemble((procedure.name, "bold"), f": {found.report.badge}, {where}\n")
    console().print(said, end="")


def certified(procedure: Procedure, folder: Path) -> bool:
    """Makes and writes the certificates of a derivation, and says what came of it; whether no step
    lacks one.  Raises OSError."""
    shown = console(stderr=True)
    with shown.status("") as status:
        made = certificate(
            procedure,
            lambda step: status.update(f"{step.made.number:4} {step.made.primitive}"),
        )
    made.write(folder)
    console().print(draw_certificate(made, folder), end="")
    return made.complete


def _count(number: int, noun: str) -> str:
    return f"{number} {noun}{'' if number == 1 else 's'}"


def draw_certificate(made: Certificate, folder: Path) -> Text:
    """Draws how the steps of a derivation were decided, and the place of their certificates."""
    counts = Counter(step.decided for step in made.steps)
    obligations = sum(step.obligations for step in made.steps)
    seconds = sum(step.seconds for step in made.steps)
    found = Text.assemble(
        (made.procedure, "bold"),
        f": {_count(counts['certificate'], 'step')} certified by "
        f"{_count(obligations, 'obligation')}, "
        f"{counts['same']} without a change of statements, {counts['isl']} decided by ISL alone; "
        f"{seconds:.1f} s; {shown_path(str(folder))}\n",
    )
    for step in made.steps:
        if step.decided == "isl":
            found.append(f"{step.made.number:4} {step.made.primitive}", "yellow")
            found.append(f": no certificate: {step.why}\n")
    return found
