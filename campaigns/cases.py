"""Many independent cases, judged on all cores or on a cluster: none lost, none counted twice.

A case is a text that names it; a judge is a function of a module that makes of it a result that
JSON can hold.  Every result goes into a journal at once, from which a stopped campaign goes on.
"""

from __future__ import annotations

import argparse
import json
import os
import re
import sys
from collections.abc import Callable, Iterator, Sequence
from contextlib import contextmanager
from dataclasses import dataclass, field
from pathlib import Path
from time import monotonic
from typing import ClassVar

from exogpu.gpu_trial.pool import Judge, Result, on_this_machine

ROOT = Path(__file__).parent.parent
CAMPAIGNS = ROOT / "docs" / "campaigns.md"
"""The page that has a part of each campaign."""


@dataclass(frozen=True, slots=True)
class Options:
    """Options that say where and how a campaign runs."""

    jobs: int
    scheduler: str | None
    resume: bool
    seconds: float | None = None
    """For one case on this machine; a worker that takes longer is killed."""
    folder: Path | None = None
    """The folder of the journal, where it is not `Journal.folder`."""


def add_arguments(parser: argparse.ArgumentParser) -> None:
    """The options that all campaigns have."""
    cores = len(os.sched_getaffinity(0)) if hasattr(os, "sched_getaffinity") else os.cpu_count()
    parser.add_argument("--jobs", type=int, default=cores, metavar="N", help="worker processes")
    parser.add_argument(
        "--scheduler",
        metavar="ADDRESS",
        help="a dask.distributed scheduler, whose workers see this folder (extra: cluster)",
    )
    parser.add_argument("--resume", action="store_true", help="go on where the last run stopped")


def options(given: argparse.Namespace) -> Options:
    """The options as given; exits with a message if they make no sense."""
    if given.jobs < 1:
        sys.exit("--jobs needs at least 1")
    return Options(given.jobs, given.scheduler, given.resume)


def judge_all(name: str, cases: Sequence[str], judge: Judge, given: Options) -> dict[str, Result]:
    """The result of every case, in the order of the cases.

    A case whose workers died has the result `{"died": why}`, one that took too long
    `{"hang": seconds}`.
    """
    journal = Journal(name, cases, resume=given.resume, folder=given.folder)
    left = [case for case in cases if case not in journal.results]
    with _bar(name, len(cases), len(cases) - len(left)) as completed:
        source = on_cluster(given.scheduler, left, judge) if given.scheduler else None
        for case, result in source or on_this_machine(given.jobs, left, judge, given.seconds):
            journal.note(case, result)
            completed(len(journal.results))
    return {case: journal.results[case] for case in cases}


@contextmanager
def _bar(name: str, total: int, done: int) -> Iterator[Callable[[int], None]]:
    """Shows how many cases are done: a bar on a terminal, else a line now and then; nothing where
    rich is not installed, as beside a bare GPU."""
    if not sys.stderr.isatty():
        yield _Lines(name, total, done).print
        return
    try:
        from rich.console import Console
        from rich.progress import (
            BarColumn,
            MofNCompleteColumn,
            Progress,
            TextColumn,
            TimeRemainingColumn,
        )
    except ImportError:
        yield lambda completed: None
        return
    columns = (TextColumn("{task.description}"), BarColumn(), MofNCompleteColumn())
    with Progress(*columns, TimeRemainingColumn(), console=Console(stderr=True)) as progress:
        bar = progress.add_task(name, total=total, completed=done)
        yield lambda completed: progress.update(bar, completed=completed)


@dataclass(slots=True)
class _Lines:
    """Lines that say how many cases are done: one each `EVERY` seconds and one at the end."""

    EVERY: ClassVar[float] = 20.0

    name: str
    total: int
    before: int
    start: float = field(default_factory=monotonic)
    last: float = 0.0

    def print(self, completed: int) -> None:
        """Prints a line if it is time for one."""
        now = monotonic()
        if now - max(self.last, self.start) < self.EVERY and completed < self.total:
            return
        self.last = now
        seconds = now - self.start
        left = seconds * (self.total - completed) / max(1, completed - self.before)
        text = (
            f"{self.name}: {completed} of {self.total} in {seconds:.0f} s, about {left:.0f} s left"
        )
        print(text, file=sys.stderr, flush=True)


class Journal:
    """Results on disk, a line each; the first line says of which cases."""

    folder = ROOT / "build" / "campaigns"

    def __init__(
        self, name: str, cases: Sequence[str], *, resume: bool, folder: Path | None = None
    ) -> None:
        self.path = path = (folder or self.folder) / f"{name}.jsonl"
        self.results: dict[str, Result] = {}
        head = json.dumps({"cases": len(cases), "first": cases[:1], "last": cases[-1:]})
        if resume and path.exists():
            first, *lines = path.read_text().splitlines() or [""]
            if first != head:
                sys.exit(f"{path} is of another campaign: run without --resume")
            wanted = set(cases)
            for line in lines:
                # A run that was killed may have left half a line.
                if line.endswith("}"):
                    noted = json.loads(line)
                    if noted["case"] in wanted:
                        self.results[noted["case"]] = noted["result"]
        path.parent.mkdir(parents=True, exist_ok=True)
        kept = [json.dumps({"case": c, "result": r}) for c, r in self.results.items()]
        path.write_text("".join(f"{line}\n" for line in (head, *kept)))

    def note(self, case: str, result: Result) -> None:
        """Adds a result; of a case that is judged twice the first counts."""
        if case in self.results:
            return
        self.results[case] = result
        with self.path.open("a") as journal:
            journal.write(json.dumps({"case": case, "result": result}) + "\n")


# --- a cluster ----------------------------------------------------------------------------------


def on_cluster(address: str, cases: Sequence[str], judge: Judge) -> Iterator[tuple[str, Result]]:
    """Results as they come, from the workers of a dask.distributed cluster.

    The scheduler gives the cases of a worker that dies to others, some times over.
    """
    try:
        from distributed import Client, KilledWorker, WorkerPlugin, as_completed
    except ImportError:
        sys.exit("--scheduler needs dask.distributed: pip install 'exogpu[cluster]'")

    class Sources(WorkerPlugin):
        """Lets workers, also those that start later, import what a judge is made of."""

        name = "exogpu-sources"

        def __init__(self, root: str) -> None:
            self.root = root

        def setup(self, worker: object) -> None:
            if self.root not in sys.path:
                sys.path.insert(0, self.root)

    with Client(address) as client:
        client.register_plugin(Sources(str(ROOT)))
        futures = client.map(judge, cases, pure=False)
        named = {future.key: case for future, case in zip(futures, cases, strict=True)}
        for future in as_completed(futures):
            error = future.exception()
            if error is None:
                yield named[future.key], future.result()
            elif isinstance(error, KilledWorker):
                yield named[future.key], {"died": str(error)}
            else:
                raise error
            future.release()


def write_section(name: str, text: str, page: Path = CAMPAIGNS) -> None:
    """Writes a campaign's part of a page, between its two comments, at once or not at all.

    Headings go one level down.  Raises ValueError where the page has no such part.
    """
    begin, end = f"<!-- begin {name} -->\n", f"<!-- end {name} -->\n"
    before, opened, rest = page.read_text().partition(begin)
    _, closed, after = rest.partition(end)
    if not (opened and closed):
        raise ValueError(f"{page.name} has no part {name}: add `{begin[:-1]}` and `{end[:-1]}`")
    lower = re.sub(r"^(#+ )", r"#\1", text.strip(), flags=re.MULTILINE)
    write_whole(page, f"{before}{begin}\n{lower}\n\n{end}{after}")


def write_whole(path: Path, text: str) -> None:
    """Writes a page at once or not at all."""
    part = path.with_name(f".{path.name}.part")
    part.write_text(text)
    part.replace(path)
