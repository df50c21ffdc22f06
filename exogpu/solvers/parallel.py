"""Processes that work beside this one, on other parts of one piece of work.

Each is forked, so that it knows all that this process knows, and ends with it.  One that cannot be
relied on any more, since it crashed or sent what it raised, is lost; what it was to do is then done
by its caller, who meets the same and says so.
"""

from __future__ import annotations

import gc
import os
import signal
import warnings
from collections.abc import Callable, Iterator, Sequence
from contextlib import contextmanager, suppress
from dataclasses import dataclass, field
from multiprocessing.connection import Connection, Pipe
from pathlib import Path
from typing import Final, NoReturn, Self

from exogpu.solvers.processes import FORKS, YOUNG, Tell, end_with, unwatched, watch_too

VARIABLE: Final = "EXOGPU_JOBS"
"""The number of processes that a check may use."""


class LostError(Exception):
    """A helper ended without having done its work."""


def jobs() -> int:
    """Returns the number of processes that may work at once: EXOGPU_JOBS, or else the CPUs that
    this one may use."""
    if not FORKS:
        return 1
    with suppress(KeyError, ValueError):
        return max(int(os.environ[VARIABLE]), 1)
    return max(min(len(os.sched_getaffinity(0)), _quota()), 1)


def _quota() -> int:
    """The CPUs that a container may use, at least one."""
    with suppress(OSError, ValueError):
        quota, period = Path("/sys/fs/cgroup/cpu.max").read_text().split()
        return max(round(int(quota) / int(period)), 1)  # `max` where there is no quota
    return os.cpu_count() or 1


@dataclass(slots=True)
class Helper:
    """One process, and what it has told."""

    pid: int
    _receiver: Connection
    _told: list[object] = field(default_factory=list)

    def receive(self) -> object:
        """Returns the helper's next message. Raises LostError where it tells nothing more."""
        if self.take_messages():
            return self._told.pop(0)
        with suppress(EOFError, OSError):
            return self._receiver.recv()
        raise LostError

    def take_messages(self) -> Sequence[object]:
        """Returns the messages not received yet: taken now, so that the helper need not wait."""
        with suppress(EOFError, OSError):
            while self._receiver.poll():
                self._told.append(self._receiver.recv())
        return self._told

    def end(self) -> None:
        with suppress(ProcessLookupError):
            os.kill(self.pid, signal.SIGKILL)
        with suppress(ChildProcessError):
            os.waitpid(self.pid, 0)
        self._receiver.close()


class Turns:
    """The numbers below a count, of which each is one process's: this one's or a helper's that is
    forked later, whoever asks first."""

    def __init__(self, count: int) -> None:
        assert count <= MOST_TURNS
        self._left, numbers = os.pipe()
        os.write(numbers, bytes(range(count)))
        os.close(numbers)

    def __iter__(self) -> Iterator[int]:
        while number := os.read(self._left, 1):
            yield number[0]

    def __enter__(self) -> Self:
        return self

    def __exit__(self, *_: object) -> None:
        os.close(self._left)


MOST_TURNS: Final = 256
"""The number of turns that a byte can number; a pipe has room for them."""


@contextmanager
def helping(works: Sequence[Callable[[Tell], None]]) -> Iterator[list[Helper]]:
    """A process for each piece of work, which tells what it finds; they end with the context."""
    helpers: list[Helper] = []
    try:
        for work in works:
            helpers.append(_forked(work))
        watch_too([helper.pid for helper in helpers])
        yield helpers
    finally:
        watch_too([])
        for helper in helpers:
            helper.end()


def _forked(work: Callable[[Tell], None]) -> Helper:
    receiver, sender = Pipe(duplex=False)
    caller = os.getpid()
    with warnings.catch_warnings():
        # The process runs in this thread alone, and takes no lock of another.
        warnings.simplefilter("ignore", DeprecationWarning)
        pid = os.fork()
    if pid == 0:
        receiver.close()
        _help(work, sender, caller)
    sender.close()
    return Helper(pid, receiver)


def _help(work: Callable[[Tell], None], sender: Connection, caller: int) -> NoReturn:
    try:
        gc.freeze()
        gc.set_threshold(YOUNG)
        end_with(caller)
        unwatched()
        work(sender.send)
    except BaseException:
        pass  # the caller misses what was to be told
    finally:
        os._exit(0)
