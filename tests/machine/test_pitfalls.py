"""The pitfalls, by each interpreter."""

from tests.machine.pitfalls import *  # noqa: F403
