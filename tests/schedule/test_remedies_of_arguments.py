"""A step that is given a wrong argument tells what to give, not to choose another statement."""

from __future__ import annotations

from collections.abc import Callable

import pytest

from exogpu import ExoGpuError, cuda_in_order, proc
from exogpu.api import Procedure
from exogpu.schedule import (
    divide_loop,
    find,
    insert_fence,
    rename,
    set_loop_mode,
    wrap_kernel,
)


@proc
def ones(x: f32[64] @ DRAM):
    for i in seq(0, 64):
        x[i] = 1.0


WRONG: list[tuple[Callable[[], Procedure], str]] = [
    (lambda: divide_loop(ones, "i", 0, ["io", "ii"]), "give 1 or more"),
    (lambda: divide_loop(ones, "i", 8, ["io"]), 'give two, such as ["io", "ii"]'),
    (lambda: divide_loop(ones, "i", 8, ["io", "ii"], tail="none"), "give one of these"),
    (lambda: set_loop_mode(ones, "i", "task"), "give one of these"),
    (lambda: wrap_kernel(ones, "i", 33), "give a positive multiple of 32"),
    (lambda: rename(ones, "two words"), "give letters, digits and underlines"),
    (
        lambda: insert_fence(ones, find(ones, "i"), cuda_in_order, cuda_in_order),
        "give the place before() or after() a statement",
    ),
]


@pytest.mark.parametrize(("step", "remedy"), WRONG)
def test_the_remedy_is_of_the_argument(step: Callable[[], Procedure], remedy: str) -> None:
    with pytest.raises(ExoGpuError) as refused:
        step()
    assert [found.help for found in refused.value.diagnostics] == [remedy]
