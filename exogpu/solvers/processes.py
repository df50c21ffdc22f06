"""Work in a process of its own: running out of time or memory, or a crash of a solver, ends that
process and not its caller.

The process is forked, so that it starts in milliseconds and knows all that its caller knows; it
sends back what it found.  Where processes cannot be forked the work is done in place, and the
limits do not hold.
"""

from __future__ import annotations

import ctypes
import faulthandler
import gc
import os
import pickle
import signal
import struct
import sys
import traceback
import warnings
from collections.abc import Callable, Generator, Iterator, Sequence
from contextlib import suppress
from dataclasses import dataclass
from math import inf
from mmap import mmap
from multiprocessing.connection import Connection, Pipe
from pathlib import Path
from time import monotonic
from typing import Any, Final, Literal, NoReturn, TypeAlias, TypeVar

Found = TypeVar("Found")

Tell: TypeAlias = Callable[[object], None]
"""Sends something to the caller while the work goes on."""

GIGABYTE: Final = 10**9

TICK: Final = 0.05
"""Seconds between two looks at the memory of the process."""

FORKS: Final = sys.platform not in ("win32", "darwin", "emscripten", "wasi")
"""A forked process can be relied on: system libraries of macOS crash in one."""


@dataclass(frozen=True, slots=True)
class Limits:
    """Limits on time and memory of work."""

    seconds: float | None = None
    """By the clock; None is as long as it takes."""
    gigabytes: float | None = None
    """Memory beside its caller's; None is half of the machine's."""
    share: float = 1.0
    """The share of the seconds for this part of their work."""
    each_stage: bool = False
    """The seconds are for each stage, not for the whole."""


@dataclass(frozen=True, slots=True)
class Stopped:
    """A reason why work has no result."""

    cause: Literal["time", "memory", "crash"]
    stage: str
    """The stage at that time: `refuting`."""
    detail: str

    def __str__(self) -> str:
        doing = f" while {self.stage}" if self.stage else ""
        match self.cause:
            case "time":
                return f"the time limit of {self.detail} ran out{doing}; give more with --timeout"
            case "memory":
                return f"the memory limit of {self.detail} ran out{doing}; give more with --memory"
            case "crash":
                return (
                    f"the checker's process ended ({self.detail}){doing}; "
                    "this is a mistake of exogpu or of a solver, not of the kernel"
                )


class RemoteError(Exception):
    """An exception of the process, with its traceback."""


# --- stages -------------------------------------------------------------------------------------


class _Board:
    """Memory that both processes see: the present stage, and when it began."""

    _HEAD: Final = struct.Struct("dH")
    _ROOM: Final = 15
    _HELPERS: Final = struct.Struct(f"{_ROOM}q")
    _SIZE: Final = 1024

    def __init__(self, doing: str) -> None:
        self._shared = mmap(-1, self._SIZE)
        self.write(doing)

    def write(self, stage: str, endless: bool = False) -> None:
        room = self._SIZE - self._HEAD.size - self._HELPERS.size - 1
        text = stage.encode(errors="replace")[:room]
        self._shared[self._HEAD.size : self._HEAD.size + len(text)] = text
        self._HEAD.pack_into(self._shared, 0, inf if endless else monotonic(), len(text))

    def read_board(self) -> tuple[float, str]:
        began, length = self._HEAD.unpack_from(self._shared, 0)
        text = self._shared[self._HEAD.size : self._HEAD.size + length]
        return began, text.decode(errors="replace")

    def name_helpers(self, pids: Sequence[int]) -> None:
        """The processes that work beside the one that is watched; of more than there is room for,
        the first."""
        listed = [*pids[: self._ROOM], *[0] * self._ROOM][: self._ROOM]
        self._HELPERS.pack_into(self._shared, self._SIZE - 1 - self._HELPERS.size, *listed)

    def helpers(self) -> list[int]:
        listed = self._HELPERS.unpack_from(self._shared, self._SIZE - 1 - self._HELPERS.size)
        return [pid for pid in listed if pid]

    def mark(self) -> None:
        """Something was cut short."""
        self._shared[self._SIZE - 1] = 1

    @property
    def marked(self) -> bool:
        return bool(self._shared[self._SIZE - 1])

    def close(self) -> None:
        self._shared.close()


_board: _Board | None = None
"""The board of this process, if it has a caller."""

_cuts = 0
"""The number of times that something was cut short."""

_confined = False
"""This process has limits of its own already."""


def stage(doing: str, *, endless: bool = False) -> None:
    """Says what is being done from here on, for the message if it comes to no end.

    A stage that is `endless` has limits of its own, where limits are for each stage.
    """
    if _board is not None:
        _board.write(doing, endless)


def cut_short() -> None:
    """Says that something was left out for want of time: on a faster machine more may be found."""
    global _cuts
    _cuts += 1
    if _board is not None:
        _board.mark()


def watch_too(pids: Sequence[int]) -> None:
    """Says which processes work beside this one: their memory counts as its own."""
    if _board is not None:
        _board.name_helpers(pids)


def unwatched() -> None:
    """From here on this process says of no stage that it has begun, and what it confines is
    confined already: it works beside the one that is watched."""
    global _board, _confined
    _board, _confined = None, True


def cuts() -> int:
    """Returns how often work was cut short so far, here or in a process that worked for this
    one."""
    return _cuts


# --- the caller ---------------------------------------------------------------------------------


def isolated(
    work: Callable[[Tell], Found],
    limits: Limits,
    heard: Tell = lambda message: None,
    *,
    doing: str = "starting",
) -> Found | Stopped:
    """Returns the result of the work, or why it was stopped; raises its exceptions here.

    `heard` gets what the work tells meanwhile; `doing` is its first stage.  Isolated work within
    it has no process and no limits of its own: those of the outer work hold.
    """
    if _confined or not FORKS:
        return work(heard)
    messages = _watched(work, limits, doing, confined=True)
    while True:
        try:
            heard(next(messages))
        except StopIteration as end:
            found: Found | Stopped = end.value
            return found


def streamed(
    produce: Callable[[], Iterator[Found]], limits: Limits, *, doing: str = "starting"
) -> Iterator[Found | Stopped]:
    """Yields the results of the work, one after the other; if it was stopped, the reason as the
    last.

    `doing` is its first stage.  Isolated work within it has processes and limits of its own.
    """
    if _confined or not FORKS:
        yield from produce()
        return

    def work(tell: Tell) -> None:
        for one in produce():
            tell(one)

    found = yield from _watched(work, limits, doing, confined=False)  # type: ignore[misc]
    if isinstance(found, Stopped):
        yield found


def _watched(
    work: Callable[[Tell], Found], limits: Limits, doing: str, *, confined: bool
) -> Generator[object, None, Found | Stopped]:
    """Yields what the process tells, and returns what it found or why it was stopped."""
    board = _Board(doing)
    receiver, sender = Pipe(duplex=False)
    for stream in (sys.stdout, sys.stderr):
        with suppress(AttributeError, OSError, ValueError):
            stream.flush()  # or both processes would write what is buffered
    caller = os.getpid()
    with warnings.catch_warnings():
        # The process runs in this thread alone, and takes no lock of another.
        warnings.simplefilter("ignore", DeprecationWarning)
        pid = os.fork()
    if pid == 0:
        receiver.close()
        _serve(work, sender, board, confined, caller)
    sender.close()
    try:
        found: Found | Stopped = yield from _messages(pid, receiver, board, limits)
        return found
    finally:
        with suppress(ProcessLookupError):
            os.kill(pid, signal.SIGKILL)
        with suppress(ChildProcessError):
            os.waitpid(pid, 0)
        receiver.close()
        if board.marked:
            cut_short()
        board.close()


def _messages(
    pid: int, receiver: Connection, board: _Board, limits: Limits
) -> Generator[object, None, Any]:
    start, memory = monotonic(), _Memory(pid, board)
    allowed = limits.gigabytes if limits.gigabytes is not None else default_gigabytes()
    while True:
        began, doing = board.read_board()
        left = TICK
        if limits.seconds is not None:
            since = began if limits.each_stage else start
            left = since + limits.seconds * limits.share - monotonic()
        if receiver.poll(min(max(left, 0), TICK)):
            try:
                kind, value = receiver.recv()
            except (EOFError, OSError):
                return Stopped("crash", board.read_board()[1], _end_of(pid))
            if kind == "told":
                yield value
                continue
            if kind == "found":
                return value
            if isinstance(value[0], MemoryError):
                return Stopped("memory", board.read_board()[1], f"{allowed:g} GB")
            raise value[0] from RemoteError(value[1])
        if left <= 0:
            return Stopped("time", doing, f"{limits.seconds:g} s")
        if memory.gigabytes() > allowed:
            return Stopped("memory", doing, f"{allowed:g} GB")


def _end_of(pid: int) -> str:
    """Describes the end of a process that sent no result."""
    _, status = os.waitpid(pid, 0)
    code = os.waitstatus_to_exitcode(status)
    if code >= 0:
        return f"exit status {code}"
    try:
        return signal.Signals(-code).name
    except ValueError:
        return f"signal {-code}"


def default_gigabytes() -> float:
    """Half of the memory of the machine, or of the container."""
    try:
        total = os.sysconf("SC_PHYS_PAGES") * os.sysconf("SC_PAGE_SIZE")
    except (OSError, ValueError):
        return inf
    for file in ("/sys/fs/cgroup/memory.max", "/sys/fs/cgroup/memory/memory.limit_in_bytes"):
        with suppress(OSError, ValueError):
            total = min(total, int(Path(file).read_text()))
    return round(total / 2 / GIGABYTE, 1)


class _Memory:
    """Measures the memory of a process and its helpers: memory that one had when it was first seen
    is its caller's."""

    def __init__(self, pid: int, board: _Board) -> None:
        self._pid = pid
        self._board = board
        self._before: dict[int, float] = {}
        self.gigabytes()

    def gigabytes(self) -> float:
        """Memory in use; 0 where that cannot be told."""
        has = {pid: _gigabytes_of(pid) for pid in (self._pid, *self._board.helpers())}
        for pid, gigabytes in has.items():
            self._before.setdefault(pid, gigabytes)
        return sum(max(gigabytes - self._before[pid], 0) for pid, gigabytes in has.items())


def _gigabytes_of(pid: int) -> float:
    """Memory in use by a process; 0 where that cannot be told."""
    try:
        pages = int(Path(f"/proc/{pid}/statm").read_text().split()[1])
    except (OSError, IndexError, ValueError):
        return 0.0
    return pages * os.sysconf("SC_PAGE_SIZE") / GIGABYTE


# --- the process --------------------------------------------------------------------------------


def _serve(
    work: Callable[[Tell], object], sender: Connection, board: _Board, confined: bool, caller: int
) -> NoReturn:
    """Does the work, sends what came of it, and ends."""
    global _board, _confined
    _board, _confined = board, confined
    status = 1
    try:
        gc.freeze()  # what the caller made stays shared
        gc.set_threshold(YOUNG)
        _keep_memory()
        end_with(caller)
        try:
            message: tuple[str, object] = ("found", work(lambda told: sender.send(("told", told))))
        except BaseException as error:
            message = ("raised", (_portable(error), traceback.format_exc()))
        _board = None
        sender.send(message)
        status = 0
    except BrokenPipeError:
        pass
    except BaseException as error:  # what was found cannot be sent
        with suppress(OSError):
            sender.send(("raised", (_portable(error), traceback.format_exc())))
            status = 0
    finally:
        for stream in (sys.stdout, sys.stderr):
            with suppress(Exception):
                stream.flush()
        os._exit(status)


YOUNG: Final = 50_000
"""New objects after which cycles among them are looked for: there are few."""

_TRIM_THRESHOLD, _MMAP_THRESHOLD = -1, -3
"""The options of glibc's malloc.h."""


def _keep_memory() -> None:
    """Keeps freed memory in the process, which soon ends: to get it from the system anew takes
    longer than most work done with it. Where the C library is another, nothing happens."""
    with suppress(Exception):
        library = ctypes.CDLL(None)
        library.mallopt(_TRIM_THRESHOLD, 1 << 28)
        library.mallopt(_MMAP_THRESHOLD, 1 << 25)


def end_with(caller: int) -> None:
    """This process ends with its caller, and silently."""
    with suppress(ValueError):  # not in the main thread
        signal.signal(signal.SIGINT, signal.SIG_DFL)
    if not os.environ.get("EXOGPU_DEBUG"):
        faulthandler.disable()
    with suppress(Exception):
        import resource  # not everywhere

        resource.setrlimit(resource.RLIMIT_CORE, (0, 0))
    with suppress(Exception):
        ctypes.CDLL(None).prctl(1, signal.SIGKILL)  # PR_SET_PDEATHSIG
    if os.getppid() != caller:
        os._exit(1)


def _portable(error: BaseException) -> BaseException:
    """The exception, or one that says the same and that the caller can read."""
    name = type(error).__module__
    if name == "builtins" or name.split(".")[0] == "exogpu":
        with suppress(Exception):
            again = pickle.loads(pickle.dumps(error))
            if isinstance(again, type(error)) and str(again) == str(error):
                return error
    return RuntimeError(f"{type(error).__name__}: {error}")
