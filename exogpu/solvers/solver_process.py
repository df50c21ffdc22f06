"""A solver in a process of its own, so that its crashes are answers and the clock holds.

The process answers one line of JSON with another, ends with its input, and is started anew when it
was killed or has crashed.
"""

from __future__ import annotations

import contextlib
import json
import math
import os
import queue
import subprocess
import sys
import threading
from collections.abc import Callable, Mapping
from dataclasses import asdict
from pathlib import Path
from time import monotonic, perf_counter
from typing import Final, Literal

from exogpu.solvers import smt

Name = Literal["z3", "cvc5"]

ASKS: Final[Mapping[str, Callable[[str], smt.Reply]]] = {
    "z3": smt.ask_z3,
    "cvc5": smt.ask_cvc5,
}

LIMIT: Final = 60.0
"""Seconds for one script."""

STARTING: Final = 60.0
"""Seconds until a process can be asked."""


class Apart:
    """Answers scripts as a solver does, until `deadline` (of `time.monotonic`).

    A context manager: the process ends with it.
    """

    def __init__(self, name: Name, deadline: float | None = None, limit: float = LIMIT) -> None:
        self._name = name
        self._deadline = deadline
        self._limit = limit
        self._process: subprocess.Popen[bytes] | None = None
        self._lines: queue.SimpleQueue[bytes] = queue.SimpleQueue()

    def __enter__(self) -> Apart:
        return self

    def __exit__(self, *_: object) -> None:
        self._stop()

    def __call__(self, script: str) -> smt.Reply:
        """The solver's answer; unknown, with the reason, where it gives none."""
        start = perf_counter()
        if self._remaining_seconds() <= 0:
            return self._unknown_reply(start, "no time is left")
        try:
            process = self._process or self._start()
            assert process.stdin is not None
            process.stdin.write(json.dumps(script).encode() + b"\n")
            process.stdin.flush()
            allowed = min(self._limit, self._remaining_seconds())
            line = self._lines.get(timeout=max(allowed, 0))
        except queue.Empty:
            self._stop()
            return self._unknown_reply(start, f"no answer within {perf_counter() - start:.0f} s")
        except OSError:  # it has ended, and takes no question
            line = b""
        if not line:
            status = self._stop()
            return self._unknown_reply(start, f"the solver crashed (exit status {status})")
        return smt.Reply(**json.loads(line))

    def _remaining_seconds(self) -> float:
        """Seconds until the deadline."""
        return math.inf if self._deadline is None else self._deadline - monotonic()

    def _unknown_reply(self, start: float, why: str) -> smt.Reply:
        return smt.Reply(smt.versioned_name(self._name), "unknown", perf_counter() - start, why)

    def _start(self) -> subprocess.Popen[bytes]:
        root = str(Path(__file__).resolve().parents[2])
        path = os.pathsep.join(filter(None, [root, os.environ.get("PYTHONPATH")]))
        process = subprocess.Popen(
            [sys.executable, "-c", f"from {__name__} import serve; serve()", self._name],
            stdin=subprocess.PIPE,
            stdout=subprocess.PIPE,
            stderr=subprocess.DEVNULL,
            env={**os.environ, "PYTHONPATH": path},
        )
        self._process, self._lines = process, queue.SimpleQueue()
        threading.Thread(target=_read_lines, args=(process, self._lines), daemon=True).start()
        self._lines.get(
            timeout=min(STARTING, max(self._remaining_seconds(), 0))
        )  # it is ready, or has ended
        return process

    def _stop(self) -> int | None:
        """Ends the process; its exit status."""
        process, self._process = self._process, None
        if process is None:
            return None
        if process.poll() is None:
            # A process that has closed its output is about to tell why.
            with contextlib.suppress(subprocess.TimeoutExpired):
                process.wait(0.05)
        ended = process.poll()
        process.kill()
        process.wait()
        assert process.stdin is not None
        with contextlib.suppress(OSError):
            process.stdin.close()
        return ended


def _read_lines(process: subprocess.Popen[bytes], lines: queue.SimpleQueue[bytes]) -> None:
    """Hands on what a process says, and that it has ended."""
    assert process.stdout is not None
    with process.stdout as output:
        for line in output:
            lines.put(line)
    lines.put(b"")


def serve() -> None:
    """Runs the process's loop of questions and answers. Nothing but the answers reaches its
    output."""
    ask = ASKS[sys.argv[1]]
    with os.fdopen(os.dup(1), "w") as answers:
        os.dup2(2, 1)
        print("ready", file=answers, flush=True)
        for line in sys.stdin:
            answers.write(json.dumps(asdict(ask(json.loads(line)))) + "\n")
            answers.flush()
