"""Packed programs under compute-sanitizer, a process for each program and tool.

Race checkers do not follow the arrival of one elected lane for its warp, so the programs are
emitted with arrivals of all threads.
"""

from __future__ import annotations

import re
import shutil
import subprocess
import sys
from collections.abc import Mapping
from pathlib import Path
from typing import Any

ROOT = Path(__file__).parent.parent.parent
TOOLS = ("memcheck", "racecheck", "synccheck")
SILENT = re.compile(
    r"ERROR SUMMARY: 0 errors|RACECHECK SUMMARY: 0 hazards displayed \(0 errors, 0 warnings\)"
)
SECONDS = 300


def sanitize_one(case: str) -> Mapping[str, Any]:
    """Runs a tool on `TOOL:FILE`; returns whether it is silent, and the begin of its output."""
    tool, _, file = case.partition(":")
    program = shutil.which("compute-sanitizer")
    if program is None:
        return {"state": "not run", "what": "there is no compute-sanitizer on this machine"}
    command = [program, "--tool", tool, "--error-exitcode", "9", sys.executable]
    command += ["-m", "campaigns.gpu_fuzz", "one", file]
    try:
        done = subprocess.run(
            command, capture_output=True, text=True, check=False, cwd=ROOT, timeout=SECONDS
        )
    except subprocess.TimeoutExpired:
        return {"state": "too slow", "what": f"no answer in {SECONDS} s"}
    return judged(done.returncode, done.stdout + done.stderr)


def judged(status: int, output: str) -> Mapping[str, Any]:
    """From a tool's exit status and text."""
    if "Device not supported" in output:
        return {"state": "not run", "what": "compute-sanitizer does not support this driver"}
    if status == 0 and SILENT.search(output):
        return {"state": "silent"}
    said = [line.strip("= ") for line in output.splitlines() if line.startswith("=========")]
    said = [line for line in said if line and "COMPUTE-SANITIZER" not in line]
    last = output.strip().splitlines()[-1:] or [""]
    return {"state": "loud", "status": status, "what": " / ".join(said[:3]) or last[0]}
