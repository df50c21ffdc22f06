"""Judges for the tests of campaigns: functions of a module, as worker processes need them."""

from __future__ import annotations

import os
import signal
import time
from pathlib import Path


def square(case: str) -> dict[str, int]:
    return {"square": int(case) ** 2, "pid": os.getpid()}


def slow(case: str) -> dict[str, int]:
    time.sleep(0.02)
    return square(case)


def once_deadly(case: str) -> dict[str, int]:
    """`FOLDER:NUMBER`; the worker that gets number 7 first is killed."""
    folder, _, number = case.rpartition(":")
    mark = Path(folder) / "killed"
    if number == "7" and not mark.exists():
        mark.touch()
        os.kill(os.getpid(), signal.SIGKILL)
    return square(number)


def deadly(case: str) -> dict[str, int]:
    if case == "3":
        os._exit(9)
    return square(case)
