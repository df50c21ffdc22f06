"""The process that executes users' files for the language server: it stays warm, and forks for
each check.

A line of JSON on standard input is a job; with a new one, the check that is under way is killed.
What is told of it are lines of JSON, each with the job's number.  What files print goes nowhere.
"""

from __future__ import annotations

import gc
import json
import os
import select
import signal
import traceback
import warnings
from contextlib import suppress
from typing import Any, BinaryIO

from exogpu.cli.lsp.document_checks import Job, answers
from exogpu.cli.lsp.protocol import Failed, to_json
from exogpu.solvers.processes import FORKS, end_with


def main() -> None:
    """Works until standard input ends."""
    jobs, told = _move_stream(0, os.O_RDONLY), _move_stream(1, os.O_WRONLY)
    _warm()
    gc.freeze()
    writer = os.fdopen(told, "wb", buffering=0)
    check: _Check | None = None
    left = b""
    _send(writer, {"kind": "Ready"})
    while True:
        ready, _, _ = select.select([jobs] if check is None else [jobs, check.ended], [], [])
        if check is not None and check.ended in ready:
            check.end(writer)
            check = None
        if jobs not in ready:
            continue
        read = os.read(jobs, 1 << 20)
        *lines, left = (left + read).split(b"\n")
        if check is not None and (lines or not read):
            check.kill()
            check = None
        if not read:
            return
        message = json.loads(lines[-1]) if lines else {}  # of several, the last alone counts
        if "job" in message:
            check = _start_check(message["id"], Job(**message["job"]), jobs, writer)


def _move_stream(number: int, mode: int) -> int:
    """The stream of the protocol under another number; files that are loaded find none there."""
    kept = os.dup(number)
    os.set_inheritable(kept, False)
    nothing = os.open(os.devnull, mode)
    os.dup2(nothing, number)
    os.close(nothing)
    return kept


def _warm() -> None:
    """Reads what every check needs, so that no child has to."""
    import exogpu.cli.lsp.preload  # noqa: F401
    from exogpu.diagnostics import disk_cache

    disk_cache.own_files()
    disk_cache.tools()


def _send(writer: BinaryIO, message: dict[str, Any]) -> None:
    """One line, after an end of line: what a killed child began is a line of its own."""
    writer.write(b"\n" + json.dumps(message).encode() + b"\n")


class _Check:
    """A child that checks."""

    def __init__(self, number: int, pid: int, ended: int) -> None:
        self.number, self.pid, self.ended = number, pid, ended

    def kill(self) -> None:
        """Its children die with it."""
        with suppress(ProcessLookupError):
            os.kill(self.pid, signal.SIGKILL)
        self._wait()

    def end(self, writer: BinaryIO) -> None:
        """It has ended: where that was a crash, the server is told."""
        if status := self._wait():
            reason = f"the check's process ended with status {status}"
            _send(writer, {"id": self.number, **to_json(Failed(reason, False))})

    def _wait(self) -> int:
        os.close(self.ended)
        with suppress(ChildProcessError):
            return os.waitpid(self.pid, 0)[1]
        return 0


def _start_check(number: int, job: Job, jobs: int, writer: BinaryIO) -> _Check | None:
    if not FORKS:
        _work(number, job, writer)
        return None
    ended, open_end = os.pipe()
    caller = os.getpid()
    with warnings.catch_warnings():
        warnings.simplefilter("ignore", DeprecationWarning)
        pid = os.fork()
    if pid:
        os.close(open_end)
        return _Check(number, pid, ended)
    status = 1
    try:
        os.close(ended)
        os.close(jobs)
        end_with(caller)
        _work(number, job, writer)
        status = 0
    finally:
        os._exit(status)


def _work(number: int, job: Job, writer: BinaryIO) -> None:
    try:
        for told in answers(job):
            _send(writer, {"id": number, **to_json(told)})
    except BrokenPipeError:
        pass
    except Exception as error:  # a mistake of exogpu: the server goes on
        if os.environ.get("EXOGPU_DEBUG"):
            traceback.print_exc()
        reason = f"exogpu failed: {type(error).__name__}: {error}"
        _send(writer, {"id": number, **to_json(Failed(reason, False))})


if __name__ == "__main__":
    main()
