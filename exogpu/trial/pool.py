"""Cases judged by worker processes under a watchdog: a death or a hang costs one worker.

A case is a text; a judge is a function of a module, which every worker imports for itself.
"""

from __future__ import annotations

import multiprocessing
from collections.abc import Callable, Iterator, Mapping, Sequence
from dataclasses import dataclass
from multiprocessing.connection import Connection, wait
from multiprocessing.process import BaseProcess
from time import monotonic
from typing import Any, Final, TypeAlias

Result: TypeAlias = Mapping[str, Any]
"""Of one case, in a form that JSON can hold."""

Judge: TypeAlias = Callable[[str], Result]

TRIES: Final = 2
"""Workers that may die over one case before it counts as one that kills its worker."""


class Spent(Exception):
    """A judge raises it when its process can do no more: a GPU's context is lost, say."""

    def __init__(self, result: Result) -> None:
        super().__init__(result)
        self.result = result


@dataclass(slots=True, eq=False)
class _Worker:
    """A process, the case that it has, and when that must be done."""

    process: BaseProcess
    pipe: Connection
    case: str | None = None
    until: float | None = None
    ready: bool = False
    """Whether it has imported what it needs: the time for a case begins then."""


def on_this_machine(
    jobs: int, cases: Sequence[str], judge: Judge, seconds: float | None = None
) -> Iterator[tuple[str, Result]]:
    """Results as they come, from worker processes; one that dies is replaced, and one that takes
    more than `seconds` over a case is killed.

    A case whose workers died has the result `{"died": why}`, one that took too long
    `{"hang": seconds}`.
    """
    left, deaths = list(reversed(cases)), dict.fromkeys(cases, 0)
    workers: list[_Worker] = []
    try:
        while busy := _give_out(workers, left, jobs, judge, seconds):
            for worker in _ready(busy):
                case = worker.case
                assert case is not None
                if worker.until is not None and not worker.pipe.poll():
                    worker.process.kill()
                    _dismiss(workers, worker)
                    yield case, {"hang": seconds}
                    continue
                try:
                    answer = worker.pipe.recv()
                except (EOFError, OSError):
                    _dismiss(workers, worker)
                    deaths[case] += 1
                    if deaths[case] < TRIES:
                        left.append(case)
                    else:
                        yield case, {"died": f"exit status {worker.process.exitcode}"}
                    continue
                if answer is None:
                    worker.ready = True
                    _begin(worker, seconds)
                    continue
                worker.case = None
                result, spent = answer
                if spent:
                    _dismiss(workers, worker)
                yield case, result
    finally:
        for worker in workers:
            worker.process.kill()


def _ready(busy: Sequence[_Worker]) -> list[_Worker]:
    """The workers that have something to say, or whose time is up; of these there is one."""
    ends = [worker.until for worker in busy if worker.until is not None]
    timeout = max(0.0, min(ends) - monotonic()) if ends else None
    heard = wait([worker.pipe for worker in busy], timeout)
    now = monotonic()
    return [
        worker
        for worker in busy
        if worker.pipe in heard or (worker.until is not None and worker.until <= now)
    ]


def _give_out(
    workers: list[_Worker], left: list[str], jobs: int, judge: Judge, seconds: float | None
) -> list[_Worker]:
    """Gives cases to idle workers, and to new ones as far as there may be more."""
    idle = [worker for worker in workers if worker.case is None]
    while left and (idle or len(workers) < jobs):
        worker = idle.pop() if idle else _start(judge)
        if worker not in workers:
            workers.append(worker)
        try:
            worker.pipe.send(left[-1])
        except OSError:  # it died while it had nothing to do
            _dismiss(workers, worker)
            continue
        worker.case = left.pop()
        _begin(worker, seconds)
    return [worker for worker in workers if worker.case is not None]


def _begin(worker: _Worker, seconds: float | None) -> None:
    worker.until = None
    if worker.ready and seconds is not None:
        worker.until = monotonic() + seconds


def _dismiss(workers: list[_Worker], worker: _Worker) -> None:
    workers.remove(worker)
    worker.process.join()


def _start(judge: Judge) -> _Worker:
    context = multiprocessing.get_context("spawn")
    mine, theirs = context.Pipe()
    process = context.Process(target=_serve, args=(theirs, judge), daemon=True)
    process.start()
    theirs.close()
    return _Worker(process, mine)


def _serve(pipe: Connection, judge: Judge) -> None:
    pipe.send(None)  # ready
    while True:
        try:
            case = pipe.recv()
        except EOFError:
            return
        try:
            pipe.send((judge(case), False))
        except Spent as spent:
            pipe.send((spent.result, True))
            return
