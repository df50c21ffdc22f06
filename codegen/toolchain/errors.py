"""Errors between CUDA C++ and a cubin."""

from __future__ import annotations

from typing import Final

INSTALL: Final = "pip install 'exogpu[cuda]'"
"""The command that installs every tool of this package."""

REINSTALL: Final = "pip install --force-reinstall 'exogpu[cuda]'"
"""For a tool that is there and does not work."""


class CompileError(Exception):
    """A tool is missing, or refused emitted code; the message has the tool's own text."""

    def __init__(self, problem: str, remedy: str) -> None:
        self.problem = problem
        self.remedy = remedy
        super().__init__(f"{problem} ({remedy})")
