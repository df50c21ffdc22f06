"""What a primitive is given is of the types that it takes, or refused in words."""

from __future__ import annotations

from collections.abc import Callable
from inspect import isclass
from typing import get_type_hints

import pytest

from exogpu import CudaRmem, ExoGpuError, Procedure, cuda_in_order, f32, proc, schedule
from exogpu.isa.cuda import cuda_load


@proc
def copied(n: size, x: f32[n, 64] @ DRAM, y: f32[n, 64] @ DRAM):
    for i in seq(0, n):
        t: f32[64] @ DRAM
        for j in seq(0, 64):
            t[j] = x[i, j]
        for j in seq(0, 64):
            y[i, j] = t[j]


BEFORE = schedule.find(copied, "j").before()


@pytest.mark.parametrize(
    ("step", "said"),
    [
        (
            lambda p: schedule.parallelize_loop(p, "j", "cuda_thread"),
            "unit is of type str, and must be",
        ),
        (lambda p: schedule.set_memory(p, "t", "CudaRmem"), "memory is of type str, and must be"),
        (lambda p: schedule.set_memory(p, "t", f32), "memory is of type DataType, and must be"),
        (
            lambda p: schedule.stage_mem(p, "j", "x[i, 0:64]", "w", memory="DRAM"),
            "DataMemory or None",
        ),
        (lambda p: schedule.stage_mem(p, "j", "x[i, 0:64]", "w", count="2"), "must be an integer"),
        (lambda p: schedule.wrap_kernel(p, "i", "64"), "an integer or Sequence of WarpConfig"),
        (lambda p: schedule.wrap_kernel(p, "i", [64]), "an integer or Sequence of WarpConfig"),
        (
            lambda p: schedule.bind_window(p, "i", "x[0:n, 0:64]", "w", "tensor"),
            "SpecialWindow or None",
        ),
        (
            lambda p: schedule.insert_fence(p, BEFORE, cuda_in_order, None),
            "post is of type NoneType",
        ),
        (lambda p: schedule.insert_arrive(p, BEFORE, cuda_in_order, 3), "must be text"),
        (lambda p: schedule.divide_dim(p, "t", "a", 2), "dimension is of type str"),
        (lambda p: schedule.rearrange_dim(p, "t", [0.0]), "order is of type list"),
        (lambda p: schedule.find(p, 0), "a pattern is text, and not a int"),
        (
            lambda p: schedule.find_all(p, schedule.find(p, "j")),
            "a pattern is text, and not a Cursor",
        ),
        (lambda p: schedule.followed(p, "j"), "'j' is no cursor"),
        (
            lambda p: schedule.accumulate(p, 3, "a", over="i"),
            "loop is of type int, and must be text or Cu",
        ),
        (
            lambda p: schedule.accumulate(p, schedule.find(p, "j").expand(0, 1), "a", over="i"),
            "loop is of type St",
        ),
        (lambda p: schedule.pipeline(p, "j", ["t"], "2"), "pipeline: slots is of type str"),
        (
            lambda p: schedule.tile(p, "i", (2, 2, 2), ("a", "b"), ("c", "d")),
            "factors is of type tuple",
        ),
        (
            lambda p: schedule.insert_fence(p, BEFORE, *2 * [cuda_in_order], over=[("w", 2)]),
            "over is of",
        ),
        (lambda p: schedule.followed(p, cuda_load), "is no cursor"),
        (lambda p: schedule.divide_loop("copied", "i", 2, ["a", "b"]), "a str is no procedure"),
        (lambda p: p.equivalent_to(schedule.find(p, "i")), "a Cursor is no procedure"),
    ],
)
def test_another_type_is_refused(step: Callable[[Procedure], object], said: str) -> None:
    with pytest.raises(ExoGpuError, match=said):
        step(copied)


def test_names_of_loops_are_two() -> None:
    @proc
    def cleared(n: size, x: f32[n, n] @ DRAM):
        for i in seq(0, n):
            for j in seq(0, n):
                x[i, j] = 0

    with pytest.raises(ExoGpuError, match=r"tile: \['a'\] are not two names"):
        schedule.tile(cleared, "i", (2, 2), ["a"], ["b", "c"])


def test_a_step_need_not_say_what_it_takes() -> None:
    @schedule.higher
    def divided(p, loop, factor: Unknown = 2):
        return schedule.divide_loop(p, loop, factor, ["a", "b"])

    assert schedule.find(divided(copied, "i", factor=4), "a")


def test_the_right_ones_are_taken() -> None:
    assert schedule.set_memory(copied, memory=CudaRmem, alloc="t")
    assert schedule.rearrange_dim(copied, "t", (0,))


def test_the_types_of_all_primitives_are_known() -> None:
    made = [getattr(schedule, name) for name in dir(schedule)]
    steps = [of.__wrapped__ for of in made if hasattr(of, "__wrapped__") and not isclass(of)]
    assert len(steps) > 60 and all(get_type_hints(step) for step in steps)
