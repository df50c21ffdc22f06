"""`exogpu check --watch`: checked again on a change of a file, or of one that it imports."""

from __future__ import annotations

import os
import signal
import subprocess
import sys
from pathlib import Path

from exogpu.cli.watching import seen

ROOT = Path(__file__).parent.parent
HEAD = "from exogpu import *\n"
KERNEL = "from shared import OFFSET\n@proc\ndef fill(n: size, z: f32[n] @ DRAM):\n"
KERNEL += "    for i in seq(0, n):\n        z[i + OFFSET] = 1.0\n"


def interruptible() -> None:
    """As from a terminal: what a shell starts in the background ignores interrupts."""
    signal.signal(signal.SIGINT, signal.SIG_DFL)


def test_each_change_is_checked(tmp_path: Path) -> None:
    kernel, shared = tmp_path / "kernel.py", tmp_path / "shared.py"
    kernel.write_text(HEAD + KERNEL)
    shared.write_text("OFFSET = 0\n")
    command = [sys.executable, "-m", "exogpu", "check", "--watch", "kernel.py"]
    paths = {"PYTHONPATH": str(ROOT), "EXOGPU_CACHE": str(tmp_path / ".cache")}
    with subprocess.Popen(
        command,
        cwd=tmp_path,
        env={**os.environ, **paths},
        stdout=subprocess.PIPE,
        text=True,
        preexec_fn=interruptible,
    ) as watching:
        assert watching.stdout is not None

        def told() -> str:
            """What is printed until it waits."""
            lines = []
            for line in watching.stdout:
                lines.append(line)
                if "watching" in line:
                    return "".join(lines)
            raise AssertionError("it has ended")

        try:
            first = told()
            assert "fill: proved" in first and "watching 2 files" in first
            shared.write_text("OFFSET = 1  # is outside\n")
            assert "fill: refuted" in told()
            kernel.write_text(HEAD + KERNEL.replace("= 1.0", "= = 1.0"))
            assert "X942" in told()
            kernel.write_text(HEAD + KERNEL.replace("z[i + OFFSET]", "z[i]"))
            assert "fill: proved" in told()
        finally:
            watching.send_signal(signal.SIGINT)
            try:
                assert watching.wait(60) == 130
            finally:
                watching.kill()


def test_of_a_folder_new_files_count_and_hidden_ones_do_not(tmp_path: Path) -> None:
    before = seen([str(tmp_path)], ())
    (tmp_path / "inner").mkdir()
    (tmp_path / "inner" / "new.py").write_text("")
    (tmp_path / ".venv").mkdir()
    (tmp_path / ".venv" / "other.py").write_text("")
    after = seen([f"{tmp_path}::p"], ["/nowhere.py"])
    assert not before and list(after) == [str(tmp_path / "inner" / "new.py")]
