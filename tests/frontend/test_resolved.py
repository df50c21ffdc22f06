"""Conditions that Python values decide, in part or whole, are resolved while they are read."""

from __future__ import annotations

import numpy as np
import pytest

from exogpu import Procedure, proc
from exogpu.ir.nodes import And, Assign, Compare, For, If, Or, Stmt


def choice(yes: bool, array: object) -> Procedure:
    @proc
    def chosen(M: size, x: f32[M] @ DRAM):
        for m in seq(0, M):
            if yes and array is not None and m > 0:
                x[m] = array.first
            if m > 0 and yes and m < 5:
                x[m] = 2.0
            if not yes or m > 0:
                x[m] = 3.0
            if not (yes and m > 0):
                x[m] = 4.0

    return chosen


class Numbers:
    first = 1.0


def body(p: Procedure) -> tuple[Stmt, ...]:
    (loop,) = p.ir.body
    assert isinstance(loop, For)
    return loop.body


def test_what_holds_is_left_out() -> None:
    kinds = []
    for stmt in body(choice(True, Numbers())):
        assert isinstance(stmt, If)
        kinds.append(type(stmt.condition).__name__)
    assert kinds == ["Compare", "And", "Compare", "Not"]


def test_after_what_does_not_hold_nothing_is_read() -> None:
    """`array.first` would be an error."""
    found = body(choice(False, None))
    assert [type(stmt) for stmt in found] == [Assign, Assign]
    (first, *rest) = body(choice(True, None))
    assert isinstance(first, If) and isinstance(first.condition, And)
    assert len(rest) == 2


@pytest.mark.parametrize(("a", "b"), [(False, False), (False, True), (True, False), (True, True)])
def test_it_is_what_python_says(a: bool, b: bool) -> None:
    @proc
    def both(x: i32[4] @ DRAM):
        for m in seq(0, 2):
            if (a and m > 0) or (b and m < 1):
                x[m] = 1
            if (a or m > 0) and (b or m < 1):
                x[2 + m] = 1

    x = np.zeros(4, np.int32)
    both.run(x=x)
    wanted = [int((a and m > 0) or (b and m < 1)) for m in range(2)]
    wanted += [int((a or m > 0) and (b or m < 1)) for m in range(2)]
    assert x.tolist() == wanted
    conditions = [stmt.condition for stmt in body(both) if isinstance(stmt, If)]
    assert all(isinstance(one, Compare | And | Or) for one in conditions)
