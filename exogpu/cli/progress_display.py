"""Watching a long check: a bar on a terminal."""

from __future__ import annotations

import os
import sys
import sysconfig
from collections.abc import Callable, Collection, Iterable, Iterator
from contextlib import contextmanager
from dataclasses import dataclass
from pathlib import Path
from time import perf_counter, sleep, strftime
from types import TracebackType
from typing import TYPE_CHECKING, Final, NoReturn, TypeAlias

from rich.progress import BarColumn, Progress, TaskID, TextColumn
from rich.status import Status
from rich.text import Text

from exogpu.diagnostics.derivation_context import keeping, watched
from exogpu.diagnostics.hazards import Hazard
from exogpu.diagnostics.verdict import Proving, Verdict
from exogpu.machine import fast
from exogpu.report.render_verdict import console, sizes_text
from exogpu.solvers.processes import Limits, Stopped, streamed

if TYPE_CHECKING:
    from exogpu.schedule.argument_types import Schedulable
    from exogpu.schedule.derivations import Derivation


PATIENCE: Final = 2.0
"""Seconds after which a check shows a bar."""


class Watch:
    """A progress callback for one check."""

    def __init__(self, name: str, bar: bool) -> None:
        self._name = name
        self._bar = bar
        self._start = perf_counter()
        self._shown: tuple[Progress, TaskID] | None = None

    def __enter__(self) -> Watch:
        return self

    def __exit__(
        self,
        kind: type[BaseException] | None,
        error: BaseException | None,
        trace: TracebackType | None,
    ) -> None:
        if self._shown is not None:
            self._shown[0].stop()

    @property
    def visible(self) -> bool:
        """Tests whether the bar is on the screen."""
        return self._shown is not None

    def __call__(self, progress: fast.Progress) -> None:
        passed = perf_counter() - self._start
        if not self._bar or passed < PATIENCE:
            return
        rate = f"{progress.operations / passed:,.0f} operations/s, {passed:.0f} s"
        if self._shown is None:
            shown = Progress(
                TextColumn("{task.description}"),
                BarColumn(),
                TextColumn("{task.completed:.0f}/{task.total:.0f} tasks"),
                TextColumn("{task.fields[rate]}"),
                console=console(stderr=True),
                transient=True,
            )
            task = shown.add_task(self._name, total=progress.tasks, rate=rate)
            shown.start()
            self._shown = (shown, task)
        bar, task = self._shown
        bar.update(task, completed=progress.tasks_done, total=progress.tasks, rate=rate)


class Steps:
    """Told of each step of a schedule, it shows the last one on the terminal."""

    def __init__(self, bar: bool) -> None:
        self._bar = bar
        self._status: Status | None = None
        self._count = 0

    def __enter__(self) -> Steps:
        return self

    def __exit__(
        self,
        kind: type[BaseException] | None,
        error: BaseException | None,
        trace: TracebackType | None,
    ) -> None:
        self.stop()

    def stop(self) -> None:
        """Take the line from the terminal, until a further step."""
        if self._status is not None:
            self._status.stop()
            self._status = None

    def __call__(self, made: Schedulable, step: Derivation) -> None:
        self._count += 1
        if not self._bar:
            return
        part = f" of {step.within[0]}" if step.within else ""
        said = f"{step.primitive}({', '.join(step.arguments)}){part}, {step.seconds:.2f} s"
        text = Text(f"{made.name}: step {self._count}, {said}", overflow="ellipsis", no_wrap=True)
        if self._status is None:
            self._status = console(stderr=True).status(text)
            self._status.start()
        self._status.update(text)


@contextmanager
def show_steps(bar: bool, kept: bool) -> Iterator[Steps]:
    """Within it, steps of schedules are shown where `bar` is set, and kept on disk where `kept`
    is."""
    with Steps(bar) as steps, watched(steps), keeping(kept):
        yield steps


# Shows the progress of a check: obligations answered, or the first hazard.

MOMENT: Final = 0.5
"""Seconds after which a proof shows how far it is."""


class SoFar:
    """Told of a verdict with each further hazard, it shows the first one on the terminal; of a
    proof, how many obligations are answered."""

    def __init__(self, name: str, bar: bool) -> None:
        self._name = name
        self._bar = bar
        self._start = perf_counter()
        self._status: Status | None = None

    def __enter__(self) -> SoFar:
        return self

    def __exit__(
        self,
        kind: type[BaseException] | None,
        error: BaseException | None,
        trace: TracebackType | None,
    ) -> None:
        if self._status is not None:
            self._status.stop()

    def __call__(self, verdict: Verdict) -> None:
        if not self._bar:
            return
        self._show(so_far(verdict))

    def proving(self, proving: Proving) -> None:
        """Shows the number of obligations, if the proof takes longer than a moment."""
        if self._bar and perf_counter() - self._start > MOMENT:
            self._show(f"{self._name}: proving, {proving.answered:,} obligations answered")

    def _show(self, text: str) -> None:
        if self._status is None:
            self._status = console(stderr=True).status(text)
            self._status.start()
        self._status.update(text)


def so_far(verdict: Verdict) -> str:
    """`gemm: refuted, RAW on A at M=1 (lines 8 and 12); 3 hazards so far, looking for others`"""
    count = len(verdict.hazards)
    several = f"{count} hazard{'s' if count != 1 else ''} so far"
    return (
        f"{verdict.proc}: refuted, {_place_text(verdict.hazards[0])}; {several}, looking for others"
    )


def _place_text(hazard: Hazard) -> str:
    sites = [site for site in (hazard.first, hazard.second) if site is not None]
    lines = " and ".join(str(site.place.line) for site in sites)
    at = f" at {sizes_text(hazard.sizes)}" if hazard.sizes else ""
    where = f"line{'s' if len(sites) != 1 else ''} {lines}"
    return f"{hazard.kind.value} on {hazard.variable}{at} ({where})"


# `exogpu check --watch`: the same check again, each time that a file changes which it rests on.

LOOK: Final = 0.3
"""Seconds between two looks at the files."""

SETTLE: Final = 0.15
"""Seconds for which files have to stay as they are: an editor empties a file before it writes."""

Seen: TypeAlias = dict[str, tuple[int, int]]
"""By path, when a file changed and how many bytes it has."""


@dataclass(frozen=True, slots=True)
class _Round:
    """A check was made, and has read these files."""

    files: tuple[str, ...]


def watch(targets: Collection[str], check: Callable[[], object]) -> NoReturn:
    """Checks, and checks again after each change, in a process of its own; until it is
    interrupted."""
    # A second save of as many bytes within a second is not told from the first by Python's cache.
    sys.dont_write_bytecode = True
    known: tuple[str, ...] = ()
    while True:
        if console().is_terminal:
            console().clear()
        before = settled(targets, known)
        known = (*known, *_imported_by(check))
        # What is first heard of in this check counts from now on.
        before = {**file_states(targets, known), **before}
        told = f"{len(before)} file{'' if len(before) == 1 else 's'}"
        console().print(f"{strftime('%H:%M:%S')} watching {told}; Ctrl-C ends", style="dim")
        sys.stdout.flush()
        while file_states(targets, known) == before:
            sleep(LOOK)


def _imported_by(check: Callable[[], object]) -> tuple[str, ...]:
    """The files of the modules that a check has imported: its process ends, and they with it."""
    older = frozenset(sys.modules)

    def work() -> Iterator[_Round]:
        check()
        yield _Round(_imported(older))

    files: tuple[str, ...] = ()
    for found in streamed(work, Limits()):
        if isinstance(found, Stopped):
            console(stderr=True).print(f"the check has ended: {found}")
        else:
            files = found.files
    for name in frozenset(sys.modules) - older:
        del sys.modules[name]  # where it was made in this process
    return files


def _imported(older: Collection[str]) -> tuple[str, ...]:
    """But for those that are installed, and exogpu's own."""
    installed = {*map(sysconfig.get_path, ("stdlib", "platstdlib", "purelib", "platlib"))}
    own = str(Path(__file__).parent.parent)
    new = (sys.modules[name] for name in tuple(sys.modules) if name not in older)
    files = {getattr(module, "__file__", None) for module in new}
    return tuple(
        sorted(
            file
            for file in files
            if isinstance(file, str) and not any(map(file.startswith, (*installed, own)))
        )
    )


def settled(targets: Collection[str], known: Collection[str]) -> Seen:
    """The state of the files once they are no longer being written."""
    state = file_states(targets, known)
    while True:
        sleep(SETTLE)
        later = file_states(targets, known)
        if later == state:
            return state
        state = later


def file_states(targets: Iterable[str], known: Iterable[str]) -> Seen:
    """The state of the files of targets, and of others."""
    paths = {os.path.abspath(file) for file in known}
    for target in targets:
        path = Path(target.partition("::")[0])
        if path.is_dir():
            below = path.rglob("*.py")
            paths |= {os.path.abspath(f) for f in below if not _is_hidden(f.relative_to(path))}
        elif path.suffix == ".py":
            paths.add(os.path.abspath(path))
    states: Seen = {}
    for file in paths:
        try:
            status = os.stat(file)
        except OSError:
            continue  # it is gone, which is a change too
        states[file] = status.st_mtime_ns, status.st_size
    return states


def _is_hidden(path: Path) -> bool:
    return any(part.startswith((".", "__")) for part in path.parts[:-1])
