"""Reasons why a call did not launch anything."""

from __future__ import annotations


class LaunchError(Exception):
    """A call that was refused before anything was launched, or that the driver refused."""

    def __init__(self, problem: str, remedy: str = "") -> None:
        self.problem = problem
        self.remedy = remedy
        super().__init__(f"{problem} ({remedy})" if remedy else problem)
