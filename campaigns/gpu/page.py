"""Writes the results of a campaign on a GPU as a page: once and whole."""

from __future__ import annotations

import json
from collections import Counter
from collections.abc import Iterable, Mapping
from dataclasses import dataclass, field
from datetime import date
from pathlib import Path
from typing import Any

Results = Mapping[str, Mapping[str, Any]]

PROVED = ("packed", "no lowering", "no cubin", "crash")
"""States of programs that are proved, or at which we failed."""

FAILURES = ("no cubin", "crash", "died")
"""States that are mistakes of ours."""


@dataclass
class Row:
    """Counts of the programs with a feature."""

    programs: int = 0
    proved: int = 0
    run: int = 0
    right: int = 0


@dataclass
class Summary:
    """A campaign."""

    states: Counter[str] = field(default_factory=Counter)
    features: dict[str, Row] = field(default_factory=dict)
    runs: int = 0
    right: int = 0
    wrong: dict[str, str] = field(default_factory=dict)
    """By the program, what went wrong."""
    hangs: list[str] = field(default_factory=list)
    failures: dict[str, str] = field(default_factory=dict)
    """By the program, where we crashed, or what the compiler refused."""
    refusals: Counter[str] = field(default_factory=Counter)
    """Why proved programs have no lowering."""


def journal(path: Path) -> Results:
    """The results of a stage; none where it has not been run."""
    if not path.exists():
        return {}
    _, *lines = path.read_text().splitlines()
    noted = [json.loads(line) for line in lines if line.endswith("}")]
    return {one["case"]: one["result"] for one in noted}


def summary(emitted: Results, ran: Results) -> Summary:
    """Both stages, by program; a program's run is known by its file's name."""
    found = Summary()
    runs = {Path(case).stem: result for case, result in ran.items()}
    for case, result in emitted.items():
        name = name_of(case)
        state = result.get("state", "died")
        found.states[state] += 1
        if state in FAILURES:
            found.failures[name] = f"{state}: {result.get('what', result.get('died'))}"
        if state == "no lowering":
            found.refusals[f"{result['code']} {_plain(result['what'])}"] += 1
        verdict = _judge(found, name, runs[name]) if name in runs else None
        for feature in result.get("features", ()):
            row = found.features.setdefault(feature, Row())
            row.programs += 1
            row.proved += state in PROVED
            row.run += verdict is not None
            row.right += bool(verdict)
    return found


def name_of(case: str) -> str:
    """The program of `FOLDER:SEED`, or of `FOLDER:NAME` where it has another name."""
    program = case.split(":")[1]
    return f"fuzz_{program}" if program.isdecimal() else program


def _judge(found: Summary, name: str, result: Mapping[str, Any]) -> bool:
    if "hang" in result or "died" in result:
        found.hangs.append(name)
        return False
    found.runs += result["runs"]
    if result["wrong"]:
        first = result["wrong"][0]
        found.wrong[name] = (
            f"{first['what']} (at {first['sizes']}, {first['clusters'] or 'all'} clusters)"
        )
        return False
    found.right += 1
    return True


def _plain(message: str) -> str:
    """A message without the program's own names, which end in a number."""
    return " ".join("..." if w[:1].isalpha() and w[-1:].isdigit() else w for w in message.split())


def table(found: Summary) -> str:
    """Features, and how many programs have each."""
    lines = ["| feature | programs | proved | run | right |", "| --- | ---: | ---: | ---: | ---: |"]
    for name, row in sorted(found.features.items()):
        lines.append(f"| {name} | {row.programs} | {row.proved} | {row.run} | {row.right} |")
    return "\n".join(lines)


def _listed(items: Iterable[str], none: str) -> str:
    return "\n".join(f"- {item}" for item in items) or none


def text(
    found: Summary, command: str, device: str, checked: Mapping[str, str], of: str = ""
) -> str:
    """A part of docs/campaigns.md; `checked` says what each tool of compute-sanitizer found, `of`
    what the programs are of, where that is not everything."""
    total = sum(found.states.values())
    states = ", ".join(f"{count} {state}" for state, count in found.states.most_common())
    wrong = _listed((f"`{n}`: {w}" for n, w in found.wrong.items()), "None was wrong.")
    hangs = _listed((f"`{n}`" for n in found.hangs), "None hung.")
    failures = _listed((f"`{n}`: {w}" for n, w in found.failures.items()), "None.")
    refusals = _listed((f"{c}: {w}" for w, c in found.refusals.most_common()), "None.")
    tools = _listed((f"{tool}: {what}" for tool, what in checked.items()), "Not run.")
    return f"""# Random programs on a GPU{of and f": {of}"}

    {command}

Last run: {date.today()}, {device}.  {total:,} random programs in source form: {states}.  Those that
are proved and have a lowering were run at three sizes, with as many clusters as the device holds
and with 1, 2, 3, 7 and 132, outputs poisoned, arrays between guard bands, shared memory dirtied
before; {found.runs:,} runs, and {found.right:,} programs right in all of theirs.

Wrong:

{wrong}

Hanging, or killing their process:

{hangs}

Mistakes of exogpu on the way (crashes, and code that the CUDA compiler refuses):

{failures}

Proved, and refused by code generation:

{refusals}

compute-sanitizer, with an arrival of every thread (`--arrive-all`):

{tools}

## What the programs have in them

{table(found)}
"""
