"""How a procedure was derived: a line a step, and what it changed."""

from __future__ import annotations

from collections.abc import Iterator
from difflib import unified_diff
from typing import Final

from rich.text import Text

from exogpu.api import Procedure
from exogpu.schedule.procedures import Derivation, Schedulable, chain, text

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
    for number, (made, step) in enumerate(steps, 1):
        found.append(f"{number:4} ", "dim")
        found.append(f"{step.primitive}({', '.join(step.arguments)})")
        found.append(f"  {step.seconds:.2f} s\n", "dim")
        for said in step.assumed:
            found.append(f"       assuming that {said}\n", "yellow")
        if diff:
            for line in _changed(made, step):
                found.append(f"       {line}\n", STYLES[line[0]])
    return found


def _changed(made: Schedulable, step: Derivation) -> Iterator[str]:
    before, after = text(step.parent).splitlines(), text(made).splitlines()
    lines = [*unified_diff(before, after, lineterm="", n=0)][2:]
    return (line for line in lines if line[0] in STYLES)
