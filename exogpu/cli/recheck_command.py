"""Answering certificates again on the command line: a bar, the sentences, the exit status."""

from __future__ import annotations

import json
from collections.abc import Iterable, Iterator, Sequence
from contextlib import ExitStack, contextmanager
from dataclasses import dataclass
from pathlib import Path
from time import monotonic
from typing import Final, TypeAlias

from rich.progress import BarColumn, Progress, TextColumn
from rich.text import Text

from exogpu.cli.exit_handler import STATUS
from exogpu.cli.output_folders import Places
from exogpu.cli.rebuild_program import Sources
from exogpu.diagnostics.errors import NOWHERE, Diagnostic, ExoGpuError, one_line
from exogpu.report.render_verdict import console, draw_diagnostics, shown_path
from exogpu.solvers.processes import Limits, Stopped, streamed
from exogpu.solvers.solver_process import Apart
from exogpu.symbolic.certificate import recheck
from exogpu.symbolic.certificate.strict_json import CERTIFICATE, printable
from exogpu.symbolic.certificate.write import write_scripts
from exogpu.symbolic.steps.recheck_steps import derivation, derivations_in, prepare

STATUSES: Final[dict[recheck.Word, int]] = {"confirmed": 0, "rejected": 1, "unknown": 3}
STYLES: Final[dict[recheck.Word, str]] = {
    "confirmed": "bold green",
    "rejected": "bold red",
    "unknown": "bold yellow",
}


MOST: Final = 20
"""Flaws of a certificate that are drawn."""


Unread: TypeAlias = tuple[Diagnostic, ...]
"""Why a folder cannot be read."""


@dataclass(frozen=True, slots=True)
class Line:
    """The result for one folder: an answer, or why it could not be read."""

    folder: Path
    found: recheck.Rechecked | Unread

    @property
    def is_readable(self) -> bool:
        """Tests whether it could be read as a certificate."""
        return isinstance(self.found, recheck.Rechecked)

    @property
    def status(self) -> int:
        """The exit status of this folder alone."""
        return (
            STATUSES[self.found.word]
            if isinstance(self.found, recheck.Rechecked)
            else STATUS["error"]
        )


def recheck_all(
    folder: Path,
    which: recheck.Which,
    seconds: float | None = None,
    *,
    bar: bool = False,
    sources: Sequence[str] = (),
    scripts: Path | None = None,
) -> Iterator[Line]:
    """One line a certificate, as soon as it is known; all of them within the seconds.

    Programs are compared with those of the `sources`; what solvers are asked is written to a
    folder a procedure in `scripts`.  Raises ExoGpuError where the folder has none, or a solver is
    not installed.
    """
    deadline = None if seconds is None else monotonic() + min(seconds, LONGEST)
    names, places = recheck.solver_names(which), Places()

    def write(procedure: str, obligations: Sequence[recheck.Asked]) -> None:
        if scripts is not None:
            asked = ((one.name, one.smt) for one in obligations if one.smt)
            try:
                write_scripts(scripts / places.name(procedure), asked)
            except OSError as error:
                message = f"{error.filename} cannot be written: {error.strerror}"
                remedy = "choose another folder"
                raise ExoGpuError([Diagnostic("X948", message, NOWHERE, remedy)]) from None

    remade = Sources(sources)
    listed, folders = _found_in(folder, remade)
    yield from listed
    with ExitStack() as stack:
        ask = [stack.enter_context(Apart(name, deadline)) for name in names]
        for one, found in _prepared(folders, remade, deadline):
            match found:
                case recheck.Prepared():
                    if found.obligations:
                        write(found.found.procedure, found.obligations)
                    with _progress_bar(bar) as progress:
                        yield Line(one, recheck.answered(found, ask, progress, deadline))
                case Stopped():
                    yield Line(one, _not_read(one, found))
                case _:
                    yield Line(one, found)


def _found_in(folder: Path, sources: Sources) -> tuple[list[Line], tuple[Path, ...]]:
    """Reads the lists of derivations in the folder or those in it, and finds the certificates: its
    own, or those in it and in derivations. Raises ExoGpuError where there is none."""
    if (listed := _derivation(folder, sources)) is not None:
        return [listed], recheck.certificates_in(folder, derived=True)
    lists = [] if recheck.is_certificate(folder) else derivations_in(folder)
    several = [_derivation(one, sources) for one in lists]
    steps = [step for one in lists for step in recheck.certificates_in(one, derived=True)]
    found = dict.fromkeys((*recheck.certificates_in(folder, derived=bool(lists)), *steps))
    return [one for one in several if one is not None], tuple(sorted(found))


def _derivation(folder: Path, sources: Sources) -> Line | None:
    """Reads the list of a derivation, if the folder has one."""
    try:
        found = derivation(folder, sources.compare_derivation)
    except ExoGpuError as error:
        return Line(folder, error.diagnostics)
    return None if found is None else Line(folder, found)


LONGEST: Final = 1e9
"""Seconds, and for ever."""

GRACE: Final = 0.3
"""Seconds for what does ask a clock to say more."""

LATE: Final = Stopped("time", "", "")


def _prepared(
    folders: Sequence[Path], sources: Sources, deadline: float | None
) -> Iterator[tuple[Path, recheck.Prepared | Unread | Stopped]]:
    """The certificates, read in a process of its own: files are hostile, and ask no clock."""
    rest = [*folders]
    while rest:
        left = None if deadline is None else deadline - monotonic()
        if left is not None and left <= 0:
            yield from ((one, LATE) for one in rest)
            return

        def prepare_rest(rest: Sequence[Path] = tuple(rest)) -> Iterator[recheck.Prepared | Unread]:
            for one in rest:
                try:
                    yield prepare(one, sources.compare)
                except ExoGpuError as error:
                    yield error.diagnostics

        limits = Limits(None if left is None else left + GRACE)
        for found in streamed(prepare_rest, limits, doing="reading"):
            yield rest.pop(0), found


def _not_read(folder: Path, why: Stopped) -> recheck.Rechecked:
    said = "the time is up" if why.cause == "time" else str(why)
    flaw = recheck.Flaw(CERTIFICATE, f"{said}: it is not read to its end", open=True)
    return recheck.Rechecked(folder, printable(folder.name), "", 0, 0, (), (flaw,), 0.0)


class _Bar:
    """A bar that shows the number of answered obligations."""

    def __init__(self, shown: Progress | None) -> None:
        self._shown = shown
        self._task = None if shown is None else shown.add_task("", total=None)

    def __call__(self, procedure: str, done: int, total: int) -> None:
        if self._shown is not None and self._task is not None:
            self._shown.update(self._task, description=procedure, completed=done, total=total)


@contextmanager
def _progress_bar(bar: bool) -> Iterator[_Bar]:
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
    if not isinstance(found, recheck.Rechecked):
        return draw_diagnostics(found)
    text = Text.assemble(
        (found.procedure, "bold"),
        ": ",
        (found.word, STYLES[found.word]),
        f" ({_counts(found)}; {found.seconds:.1f} s; {_path(found)})\n",
    )
    for flaw in found.flaws[:MOST]:
        text.append(f"  {flaw.where}", "bold")
        text.append(f": {flaw.problem}\n")
        if flaw.claim:
            text.append(f"    the claim: {flaw.claim}\n")
    if (more := len(found.flaws) - MOST) > 0:
        text.append(f"  and {more} more\n")
    if found.compared and not found.flaws:
        what = "steps were" if found.of == "derivation" else "program was"
        same = "are" if found.of == "derivation" else "is"
        text.append(f"  its {what} made again from the source, and {same} the same\n", "dim")
    if found.others:
        text.append(f"  no part of it, not read: {_abbreviate(found.others)}\n", "dim")
    return text


def _abbreviate(names: tuple[str, ...]) -> str:
    more = len(names) - MOST
    return ", ".join(names[:MOST]) + (f" and {more} more" if more > 0 else "")


def _path(found: recheck.Rechecked) -> str:
    return printable(shown_path(str(found.folder)))


def _counts(found: recheck.Rechecked) -> str:
    asked = found.obligations - found.by_rules
    under = f" under policy {found.policy}" if found.policy else ""
    if found.of == "derivation":
        return f"{found.obligations} steps in a chain, {asked} of which change statements"
    if not found.solvers:
        return f"{found.obligations} obligations{under}, of which no solver was asked"
    rules = f", {found.by_rules} by the rules alone" if found.by_rules else ""
    by = " and ".join(found.solvers)
    return f"{found.obligations} obligations{under}: {asked} asked of {by}{rules}"


def draw_scope(lines: Iterable[Line]) -> Text:
    """Draws the scope of the answers, and its limits."""
    text = Text()
    said = {_scope(line.found.of) for line in lines if isinstance(line.found, recheck.Rechecked)}
    for checked, not_checked in sorted(said):
        _draw_scope(text, checked, not_checked)
    return text


def _scope(of: recheck.Of) -> tuple[tuple[str, ...], tuple[str, ...]]:
    return (
        (recheck.CHECKED, recheck.NOT_CHECKED)
        if of == "proof"
        else (recheck.STEPS_CHECKED, recheck.STEPS_NOT_CHECKED)
    )


def _draw_scope(text: Text, checked: Iterable[str], not_checked: Iterable[str]) -> None:
    for head, lines in (("checked", checked), ("not checked here", not_checked)):
        text.append(f"{head}:\n", "bold")
        for line in lines:
            text.append(f"  {line}\n")


def json_lines(lines: Iterable[Line]) -> str:
    """All of it as a JSON list; `diagnostics` of what could not be read."""
    return json.dumps([_line(line) for line in lines], indent=2)


def _line(line: Line) -> dict[str, object]:
    found = line.found
    if not isinstance(found, recheck.Rechecked):
        return {
            "folder": printable(line.folder),
            "word": "error",
            "diagnostics": [one_line(diagnostic) for diagnostic in found],
        }
    return {
        "folder": printable(line.folder),
        "word": found.word,
        "procedure": found.procedure,
        "policy": found.policy,
        "digest": found.digest,
        "obligations": found.obligations,
        "by_rules": found.by_rules,
        "solvers": list(found.solvers),
        "seconds": round(found.seconds, 6),
        "flaws": [_flaw(flaw) for flaw in found.flaws],
        "others": list(found.others),
        "compared": found.compared,
        "checked": list(_scope(found.of)[0]),
        "not_checked": list(_scope(found.of)[1]),
    }


def _flaw(flaw: recheck.Flaw) -> dict[str, object]:
    return {
        "where": flaw.where,
        "problem": flaw.problem,
        "claim": flaw.claim,
        "word": "unknown" if flaw.open else "rejected",
    }
