"""In which way a program fails, in a word that stays the same while it is made smaller."""

from __future__ import annotations

import re
from pathlib import Path
from tempfile import TemporaryDirectory

from campaigns.gpu.emitting import emit_dirty, emit_program
from campaigns.gpu.page import FAILURES
from campaigns.gpu.programs import Program
from exogpu.gpu_trial.pool import on_this_machine, run_one


def failure(program: Program, *, on_gpu: bool, seconds: float) -> str:
    """`crash KeyError`, `no cubin`, `no lowering G803`, `wrong`, `hang`; empty if it does not fail.

    On the GPU it runs in a process of its own, which is killed after so many seconds.
    """
    with TemporaryDirectory() as scratch:
        folder = Path(scratch)
        result = emit_program(program, folder)
        state = str(result["state"])
        if state == "no lowering":
            return f"{state} {result['code']}"
        if state in FAILURES:
            kind = re.search(r"\w+Error|\w+Exception", str(result["what"]))
            return f"{state} {kind[0]}" if state == "crash" and kind else state
        if state != "packed" or not on_gpu:
            return ""
        emit_dirty(folder)
        file = str(folder / f"{program.name}.zip")
        ((_, ran),) = on_this_machine(1, [file], run_one, seconds)
        if "hang" in ran or "died" in ran:
            return "hang"
        return "wrong" if ran["wrong"] else ""
