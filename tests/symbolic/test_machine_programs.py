"""Every program of the machine's own tests: the prover finds the same violations at its sizes."""

from __future__ import annotations

from collections.abc import Callable

import pytest

from exogpu.machine import literal
from exogpu.machine.observer import Violation
from tests.machine.decisions import *  # noqa: F403
from tests.machine.pitfalls import *  # noqa: F403
from tests.symbolic.agreement import admitting_zero, check


@pytest.fixture
def run() -> Callable[..., tuple[Violation, ...]]:
    """The literal machine; the prover is asked about each program that a test runs."""

    def asked(program, sizes, *, collect=False):
        if collect:
            check(admitting_zero(program), [sizes])
        return literal.run(program, sizes, collect=collect)

    return asked
