"""The work of the fast machine is counted: a run ends after as much on a busy computer as on an
idle one, and what is skipped is no work."""

from __future__ import annotations

from collections.abc import Callable
from itertools import count

import pytest

from exogpu.amir.nodes import Program
from exogpu.diagnostics.verdict import Policy
from exogpu.machine import fast
from exogpu.machine.fast import configuration
from exogpu.symbolic.search import smallest_sizes
from tests.machine.build import COMMIT, Q1, Q2, UNORDERED, Builder, mod, t


def ring() -> Program:
    """Copies into four slots, each awaited at once."""
    b = Builder()
    n = b.size("n")
    x, cg = b.data("x", 4), b.barrier("cg", mechanism=COMMIT)
    b.alloc(x)
    b.alloc(cg)
    with b.loop("k", 0, n) as k:
        b.write(x[mod(k, 4)], t(0), Q2, level=UNORDERED)
        b.arrive(t(0), Q2, cg[()])
        b.await_(cg[()], t(0), {Q1, Q2}, n=0)
    return b.program(Policy.PTX)


def ended(sizes: dict[str, int], most: int) -> bool:
    try:
        fast.run(ring(), sizes, most=most)
    except fast.WorkLimitError:
        return True
    return False


def clocks() -> list[Callable[[], float]]:
    """A clock that stands, and one on which every look takes an hour."""
    hours = count(0, 3600)
    return [lambda: 0.0, lambda: float(next(hours))]


def test_a_run_ends_after_the_same_work_whatever_the_clock_says(
    monkeypatch: pytest.MonkeyPatch,
) -> None:
    whole = fast.run(ring(), {"n": 40}, skip=False).work
    assert whole > 40
    least = []
    for clock in clocks():
        monkeypatch.setattr(configuration, "perf_counter", clock)
        assert fast.run(ring(), {"n": 40}).work == fast.run(ring(), {"n": 40}).work
        assert not ended({"n": 40}, fast.run(ring(), {"n": 40}).work)
        least.append(next(most for most in count(0) if not ended({"n": 40}, most)))
    assert least[0] == least[1] > 0


def test_what_is_skipped_is_hardly_work() -> None:
    short, long = fast.run(ring(), {"n": 400}), fast.run(ring(), {"n": 40_000})
    assert long.operations > 90 * short.operations
    step = (long.work - short.work) / 39_600
    executed = fast.run(ring(), {"n": 400}, skip=False)
    assert executed.work > executed.operations
    assert step < executed.work / 400 / 2


def test_smaller_sizes_are_given_up_by_work(monkeypatch: pytest.MonkeyPatch) -> None:
    assert smallest_sizes.run_to_first_violation(ring(), {"n": 40}) == ()
    monkeypatch.setattr(smallest_sizes, "WORK", 10)
    assert smallest_sizes.run_to_first_violation(ring(), {"n": 40}) is None


def test_the_literal_machine_in_its_place_has_the_same_limit(
    monkeypatch: pytest.MonkeyPatch,
) -> None:
    def unsupported(*_: object) -> None:
        raise fast.Unsupported("planted")

    monkeypatch.setattr(fast, "_run", unsupported)
    outcome = fast.run(ring(), {"n": 4})
    assert outcome.violations == () and outcome.work % fast.LITERAL == 0
    assert not ended({"n": 4}, outcome.work)
    assert ended({"n": 4}, outcome.work - 1)
