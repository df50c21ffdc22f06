"""Pages of documentation, and what their consoles show against what the commands print now."""

from __future__ import annotations

import re
import subprocess
from collections.abc import Iterator
from dataclasses import dataclass
from pathlib import Path

from typer.testing import CliRunner

from exogpu.cli.commands import app

ROOT = Path(__file__).parent.parent
DOCS = ROOT / "docs"
BLOCK = re.compile(
    r'^```(?P<language>\w+)(?: title="(?P<title>[^"]*)")?\n(?P<text>.*?)^```', re.DOTALL | re.M
)
COST = re.compile(r"(?: in |, |(?<=\())(?:\d+\.\d+ s|from cache)(?=[,)])")
"""Seconds, which depend on the machine."""


@dataclass(frozen=True, slots=True)
class Block:
    """A fenced block: its language, the file it is, and its text."""

    language: str
    title: str | None
    text: str


def blocks(page: str) -> Iterator[Block]:
    """The fenced blocks of a page's text, in order."""
    for found in BLOCK.finditer(page):
        yield Block(found["language"], found["title"], found["text"])


def without_cost(text: str) -> str:
    """A text without what checking cost: seconds, and operations, which nobody relies on."""
    return re.sub(r"[\d,]+ operations", "operations", COST.sub(" at some cost", text))


def pattern(shown: str) -> re.Pattern[str]:
    """What a console shows; a line `...` stands for any lines, `[...]` for any part of one."""
    lines = re.split(r"^\.\.\.\n", without_cost(shown), flags=re.M)
    parts = [".*?".join(map(re.escape, part.split("[...]"))) for part in lines]
    return re.compile(r"(?:.*\n)*?".join(parts))


class Shell:
    """A reader's terminal: runs commands one after the other in the current directory."""

    def __init__(self) -> None:
        self._status = 0

    def run(self, command: str) -> str:
        """What a command prints; exogpu's own run in this process."""
        if command == "echo $?":
            return f"{self._status}\n"
        if command.startswith("exogpu ") and not set(command) & set("|><&;'\""):
            result = CliRunner().invoke(app, command.split()[1:])
            self._status = result.exit_code
            return result.output
        done = subprocess.run(
            ["bash", "-c", command], stdout=subprocess.PIPE, stderr=subprocess.STDOUT, text=True
        )
        self._status = done.returncode
        return done.stdout


def rerun(text: str, shell: Shell) -> str:
    """A console's text as it would be now: the same where what is printed agrees with it."""
    made = []
    for command, shown in re.findall(r"^\$ (.*)\n((?:(?!\$ ).*\n)*)", text, re.M):
        printed = shell.run(command)
        agrees = pattern(shown).fullmatch(without_cost(printed)) is not None
        made.append(f"$ {command}\n{shown if agrees else printed}")
    return "".join(made)
