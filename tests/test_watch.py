"""`exogpu check --watch`: checked again on a change of a file, or of one that it imports."""

from __future__ import annotations

import os
import signal
import subprocess
import sys
from pathlib import Path
from threading import Timer

from exogpu.cli.progress_display import SETTLE, file_states, settled

ROOT = Path(__file__).parent.parent
HEAD = "from exogpu import *\n"
KERNEL = "from shared import OFFSET\n@proc\ndef fill(n: size, z: f32[n] @ DRAM):\n"
KERNEL += "    for i in seq(0, n):\n        z[i + OFFSET] = 1.0\n"


def interruptible() -> None:
    """As from a terminal: what a shell starts in the background ignores interrupts."""
    signal.signal(signal.SIGINT, signal.SIG_DFL)


def save(path: Path, text: str) -> None:
    """At once: a test that is held up between the emptying and the writing is not meant."""
    new = path.with_suffix(".new")
    new.write_text(text)
    os.replace(new, path)


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
            save(shared, "OFFSET = 1  # is outside\n")
            assert "fill: refuted" in told()
            save(shared, "OFFSET = 0  # is outside\n")  # as long, and perhaps in the same second
            assert "fill: proved" in told()
            save(kernel, HEAD + KERNEL.replace("= 1.0", "= = 1.0"))
            assert "X942" in told()
            save(kernel, HEAD + KERNEL.replace("z[i + OFFSET]", "z[i]"))
            assert "fill: proved" in told()
        finally:
            watching.send_signal(signal.SIGINT)
            try:
                assert watching.wait(60) == 130
            finally:
                watching.kill()


def test_of_a_folder_new_files_count_and_hidden_ones_do_not(tmp_path: Path) -> None:
    before = file_states([str(tmp_path)], ())
    (tmp_path / "inner").mkdir()
    (tmp_path / "inner" / "new.py").write_text("")
    (tmp_path / ".venv").mkdir()
    (tmp_path / ".venv" / "other.py").write_text("")
    after = file_states([f"{tmp_path}::p"], ["/nowhere.py"])
    assert not before and list(after) == [str(tmp_path / "inner" / "new.py")]


def test_a_file_that_is_being_written_is_waited_for(tmp_path: Path) -> None:
    kernel = tmp_path / "kernel.py"
    kernel.write_text("")  # as an editor empties it
    writing = Timer(SETTLE / 3, kernel.write_text, [HEAD + KERNEL])
    writing.start()
    try:
        ((_, size),) = settled([str(kernel)], ()).values()
    finally:
        writing.join()
    assert size == len(HEAD + KERNEL)
