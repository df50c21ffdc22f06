"""How a procedure was derived: a line a step, and what it changed."""

from __future__ import annotations

from collections import Counter
from collections.abc import Iterable, Iterator
from difflib import unified_diff
from pathlib import Path
from typing import Final

from rich.text import Text

from exogpu.api import Procedure
from exogpu.cli.places import Places
from exogpu.cli.render import console, shown_path
from exogpu.schedule.certifying.chain import Certificate, certificate
from exogpu.schedule.procedures import Derivation, Schedulable, chain, derivation, text

STYLES: Final = {"+": "green", "-": "red"}


def tell(procedures: Iterable[Procedure], output: Path | None, *, diff: bool) -> bool:
    """Prints how procedures were derived, and writes certificates, a folder each, where a folder
    is given; whether no step lacks one.  Raises OSError."""
    complete, places = True, Places()
    for procedure in procedures:
        console().print(draw_history(procedure, diff=diff), end="")
        if output is not None and derivation(procedure) is not None:
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
    for number, (made, step) in enumerate(steps, 1):
        found.append(f"{number:4} ", "dim")
        found.append(f"{step.primitive}({', '.join(step.arguments)})")
        found.append(f"  {step.seconds:.2f} s\n", "dim")
        if diff:
            for line in _changed(made, step):
                found.append(f"       {line}\n", STYLES[line[0]])
    return found


def _changed(made: Schedulable, step: Derivation) -> Iterator[str]:
    before, after = text(step.parent).splitlines(), text(made).splitlines()
    lines = [*unified_diff(before, after, lineterm="", n=0)][2:]
    return (line for line in lines if line[0] in STYLES)


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
    """How the steps of a derivation were decided, and where their certificates are."""
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
