"""Translation validation on the command line: a line a kernel, and what it rests on."""

from __future__ import annotations

import json
from collections.abc import Iterator, Sequence
from pathlib import Path
from typing import TYPE_CHECKING, Annotated

import typer
from rich.text import Text

from exogpu.cli import exit_handler as handler
from exogpu.cli import options as cli_options
from exogpu.diagnostics.errors import NOWHERE, Diagnostic, ExoGpuError
from exogpu.report.render_verdict import console

if TYPE_CHECKING:
    from exogpu.validate.refusals import Refusal
    from exogpu.validate.validate_folder import Validation


def validate_command(
    folder: Annotated[
        Path, typer.Argument(metavar="DIR", help="Where `compile --ptx` has written kernels.")
    ],
    record: Annotated[
        bool, typer.Option("--record", help="Also write the result into the manifests.")
    ] = False,
    as_json: cli_options.AsJson = False,
) -> None:
    """Compare PTX with the program that was proved: accesses, synchronisation, for all sizes.

    Exit status: 0 validated, 2 nothing to validate, 3 not validated.
    """
    lines = []
    with handler.writing():
        for line in validate_all(folder, record=record):
            lines.append(line)
            if not as_json:
                console().print(draw(line), end="")
        if as_json:
            typer.echo(json_text(lines))
        else:
            console().print(draw_scope(), end="")
    raise typer.Exit(0 if all(line.is_valid for line in lines) else 3)


def validate_all(folder: Path, *, record: bool) -> Iterator[Validation]:
    """A result a kernel; raises ExoGpuError where the folder has none."""
    from exogpu.validate.validate_folder import manifests_in, recorded, validate_manifest

    found = manifests_in(folder)
    if not found:
        message = f"{folder} has no manifest of exogpu"
        remedy = f"compile into it: exogpu compile TARGET -o {folder} --ptx"
        raise ExoGpuError([Diagnostic("X970", message, NOWHERE, remedy)])
    for path, manifest in found.items():
        results = []
        for one in validate_manifest(path, manifest):
            results.append(one)
            yield one
        if record:
            shown = {**manifest, "validated": [recorded(one) for one in results]}
            path.write_text(json.dumps(shown, indent=1) + "\n")


def draw(line: Validation) -> Text:
    """The result in a line, and where it is not validated, why."""
    text = Text.assemble((line.kernel, "bold"), ": ")
    if line.refusal is None:
        text.append("validated", "bold green")
        counts = f"{line.events} events, {line.questions} questions"
        return text.append(f" ({counts}; {line.seconds:.1f} s)\n")
    text.append("not validated", "bold yellow")
    return text.append(f": {line.refusal.problem}\n").append(_draw_place(line.refusal))


def _draw_place(refusal: Refusal) -> Text:
    text = Text()
    if refusal.instruction:
        place = f" (line {refusal.ptx_line})" if refusal.ptx_line else ""
        text.append(f"  PTX{place}: {' '.join(refusal.instruction.split())}\n")
    if refusal.source:
        text.append(f"  program: {refusal.source}\n")
    if refusal.model:
        values = ", ".join(f"{name} = {value}" for name, value in sorted(refusal.model.items()))
        text.append(f"  for example: {values}\n")
    return text


def draw_scope() -> Text:
    """Draws what is trusted, and what is not compared."""
    from exogpu.validate.validate_folder import NOT_COMPARED, TRUSTED

    text = Text()
    for head, lines in (("trusted", TRUSTED), ("not compared", NOT_COMPARED)):
        text.append(f"{head}:\n", "bold")
        for line in lines:
            text.append(f"  {line}\n")
    return text


def json_text(lines: Sequence[Validation]) -> str:
    """All of it as a JSON list."""
    from exogpu.validate.validate_folder import recorded

    return json.dumps([recorded(line) for line in lines], indent=2)
