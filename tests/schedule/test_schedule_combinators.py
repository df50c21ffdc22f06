"""Steps of steps."""

from __future__ import annotations

import pytest
from steps import even, order, same_results, square, wide

from exogpu import ExoGpuError, schedule


def test_seq_takes_one_step_after_the_other() -> None:
    p = schedule.seq(
        lambda p: schedule.divide_loop(p, "i", 4, ["io", "ii"], "perfect"),
        lambda p: schedule.unroll_loop(p, "ii"),
    )(even)
    assert len(schedule.find_all(p, "y[_] = _")) == 4
    assert schedule.history(p).count("loop(") == 2
    assert same_results(even, p) > 0


def test_try_else_takes_the_other_step_where_one_is_refused() -> None:
    perfect = schedule.try_else(
        lambda p: schedule.divide_loop(p, "i", 4, ["io", "ii"], "perfect"),
        lambda p: schedule.divide_loop(p, "i", 4, ["io", "ii"], "guard"),
    )
    assert not schedule.find_all(perfect(even), "if _: _")
    assert schedule.find_all(perfect(square), "if _: _")
    assert schedule.try_else(lambda p: schedule.unroll_loop(p, "i"))(square) is square


def test_repeat_ends_where_a_step_is_refused_or_does_nothing() -> None:
    p = schedule.repeat(lambda p: schedule.unroll_loop(p, "for i in _: _"))(wide)
    assert not schedule.find_all(p, "for i in _: _") and len(schedule.find_all(p, "y[_] = _")) == 4
    assert schedule.history(p).count("unroll_loop") == 2
    assert same_results(wide, p) > 0
    assert schedule.repeat(schedule.simplify)(order) is order
    swaps = schedule.repeat(lambda p: schedule.reorder_stmts(p, "x[0] = _"), limit=1)(order)
    assert schedule.history(swaps).count("reorder_stmts") == 1


def test_other_errors_are_not_caught() -> None:
    def broken(_: object) -> object:
        raise ZeroDivisionError

    with pytest.raises(ZeroDivisionError):
        schedule.try_else(broken)(even)  # type: ignore[type-var]
    with pytest.raises(ExoGpuError, match="X990"):
        schedule.seq(lambda p: schedule.unroll_loop(p, "nothing"))(even)
