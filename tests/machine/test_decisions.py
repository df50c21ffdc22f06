"""The decisions, by each interpreter."""

from tests.machine.decisions import *  # noqa: F403
from tests.machine.pitfalls import run

__all__ = ["run"]  # the fixture of the interpreters
