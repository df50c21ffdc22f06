"""Watching a long check: a bar on a terminal."""

from __future__ import annotations

from collections.abc import Iterator
from contextlib import contextmanager
from time import perf_counter
from types import TracebackType
from typing import TYPE_CHECKING, Final

from rich.progress import BarColumn, Progress, TaskID, TextColumn
from rich.status import Status
from rich.text import Text

from exogpu.cli.render import console
from exogpu.machine import fast
from exogpu.result.deriving import keeping, watched

if TYPE_CHECKING:
    from exogpu.schedule.procedures import Derivation, Schedulable

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
def deriving(bar: bool, kept: bool) -> Iterator[Steps]:
    """Within it, steps of schedules are shown where `bar` is set, and kept on disk where `kept`
    is."""
    with Steps(bar) as steps, watched(steps), keeping(kept):
        yield steps
