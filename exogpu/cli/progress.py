"""Watching a long check: a bar on a terminal."""

from __future__ import annotations

from time import perf_counter
from types import TracebackType
from typing import Final

from rich.progress import BarColumn, Progress, TaskID, TextColumn

from exogpu.cli.render import console
from exogpu.machine import fast

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
        """Whether the bar is on the screen."""
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
