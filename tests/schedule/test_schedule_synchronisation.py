"""Primitives of synchronisation and of roles: what they make, and what they refuse."""

from __future__ import annotations

import re
from collections.abc import Callable
from pathlib import Path

import pytest
from gpu_steps import ROLES, copied, fenced, loaded, plain, reversal

from exogpu import (
    CudaCommitGroup,
    CudaMbarrier,
    ExoGpuError,
    Sm80_cp_async,
    cpu_in_order,
    cuda_in_order,
    cuda_temporal,
    cuda_thread,
    cuda_warp,
    schedule,
)
from exogpu.api import Procedure
from exogpu.ir.printer import print_proc
from exogpu.kernels.gemm_sm80 import gemm_sm80
from exogpu.kernels.gemm_sm90 import KERNELS
from exogpu.schedule.checking.opened_procedure import (
    SYNCHRONISATION,
    is_silent,
    same_but_for_silence,
)
from exogpu.schedule.primitives import barriers, contexts

GOLDEN = Path(__file__).parent / "golden"
FIRST = "for t in _: _"


def with_group(p: Procedure) -> Procedure:
    p = schedule.insert_barrier_alloc(
        p, schedule.find(p, "tile").after(), "cg", [32], CudaCommitGroup
    )
    return schedule.insert_arrive(
        p, schedule.find(p, "Sm80_cp_async_copy").after(), Sm80_cp_async, "cg[t]"
    )


def with_empty(p: Procedure) -> Procedure:
    gap = schedule.find(p, "full").after()
    return schedule.insert_barrier_alloc(p, gap, "empty", [], CudaMbarrier, guard="full")


GROUPED = with_group(copied)


def after(p: Procedure, pattern: str) -> object:
    return schedule.find(p, pattern).after()


def before(p: Procedure, pattern: str) -> object:
    return schedule.find(p, pattern).before()


ACCEPTED: dict[str, tuple[Procedure, Callable[[Procedure], Procedure], str]] = {
    "insert_fence": (
        reversal,
        lambda p: schedule.insert_fence(p, after(p, FIRST), cuda_in_order, cuda_in_order),
        "proved",
    ),
    "insert_uninit": (
        reversal,
        lambda p: schedule.insert_uninit(p, before(p, FIRST), "tile[0:128]", ("M", "<=", "m")),
        "refuted",
    ),
    "insert_fence over warps": (
        reversal,
        lambda p: schedule.insert_fence(
            p, after(p, FIRST), cuda_in_order, cuda_in_order, over=[("w", 4, cuda_warp)]
        ),
        "refuted",
    ),
    "insert_barrier_alloc": (loaded, with_empty, "refuted"),
    "insert_arrive": (copied, with_group, "refuted"),
    "insert_await": (
        GROUPED,
        lambda p: schedule.insert_await(
            p, before(p, "for t in _: _ #1"), "cg[t]", cuda_in_order, over=[("t", 32, cuda_thread)]
        ),
        "refuted",
    ),
    "insert_await mbarrier": (
        loaded,
        lambda p: schedule.insert_await(p, before(p, FIRST), "full", cuda_in_order),
        "refuted",
    ),
    "set_trailing_barrier_expr": (
        schedule.set_trailing_barrier_expr(loaded, "Sm90_tma_load"),
        lambda p: schedule.set_trailing_barrier_expr(p, "Sm90_tma_load", "full"),
        "refuted",
    ),
    "delete_sync": (fenced, lambda p: schedule.delete_sync(p, "Fence(_) #1"), "proved"),
    "wrap_with_context": (
        reversal,
        lambda p: schedule.wrap_with_context(p, "for t in _: _ #1", schedule.CudaWarps(0, 4)),
        "refuted",
    ),
    "wrap_with_context group": (
        schedule.insert_arrive(with_empty(loaded), after(loaded, FIRST), cuda_in_order, "empty"),
        lambda p: schedule.wrap_with_context(
            p, "Arrive(cuda_in_order)_", schedule.CudaWarps(0, 1, name="consumer")
        ),
        "refuted",
    ),
    "update_loop_mode": (
        schedule.insert_fence(
            reversal,
            after(reversal, FIRST),
            cuda_in_order,
            cuda_in_order,
            over=[("w", 1, cuda_warp)],
        ),
        lambda p: schedule.update_loop_mode(p, "for w in _: _", 4 * cuda_warp),
        "proved",
    ),
    "add_if around a sync": (
        fenced,
        lambda p: schedule.add_if(p, "Fence(_) #1", "w", "<", "2"),
        "proved",
    ),
}


@pytest.mark.parametrize("name", ACCEPTED)
def test_steps_of_synchronisation_are_certified(name: str) -> None:
    """Most leave the statements as they are, which two equal digests say."""
    old, step, _ = ACCEPTED[name]
    last = schedule.certificate(step(old)).steps[-1]
    assert last.decided in ("certificate", "same"), last.why
    assert (last.decided == "same") == (last.old == last.new)


@pytest.mark.parametrize("name", ACCEPTED)
def test_accepted_synchronisation(name: str, golden: Callable[[Path, str], None]) -> None:
    old, step, word = ACCEPTED[name]
    new = step(old)
    assert old.ir is not None and new.ir is not None
    text = f"{print_proc(old.ir)}\n# {name}: {word}\n\n{print_proc(new.ir)}"
    golden(GOLDEN / f"{name.replace(' ', '_')}.txt", text)
    assert not new.diagnostics
    assert new.check().word == word


REFUSED: dict[str, tuple[Callable[[], Procedure], str]] = {
    "insert_fence at CPU scope": (
        lambda: schedule.insert_fence(
            reversal, before(reversal, "with _: _"), cuda_in_order, cuda_in_order
        ),
        "X991.*insert_fence: cuda_in_order is used at CPU scope",
    ),
    "insert_uninit of no name": (
        lambda: schedule.insert_uninit(reversal, before(reversal, FIRST), "tiles[0:128]"),
        "X99.*insert_uninit",
    ),
    "insert_fence place": (
        lambda: schedule.insert_fence(reversal, FIRST, cuda_in_order, cuda_in_order),
        "X991.*insert_fence: it takes a place",
    ),
    "insert_fence timeline": (
        lambda: schedule.insert_fence(reversal, after(reversal, FIRST), "in_order", cuda_in_order),
        "X991.*insert_fence: pre is of type str, and must be SyncTL",
    ),
    "insert_fence over": (
        lambda: schedule.insert_fence(
            reversal, after(reversal, FIRST), cuda_in_order, cuda_in_order, [("w", 4, "warp")]
        ),
        "X991.*over is of type list, and must be Sequence of tuple of text, an integer, CollUnit",
    ),
    "insert_fence cpu timeline": (
        lambda: schedule.insert_fence(
            reversal, after(reversal, FIRST), cpu_in_order, cuda_in_order
        ),
        "X991.*cpu_in_order is used at CUDA scope",
    ),
    "insert_barrier_alloc guard": (
        lambda: schedule.insert_barrier_alloc(
            loaded, after(loaded, "full"), "empty", [], CudaMbarrier, guard="filled"
        ),
        "X991.*insert_barrier_alloc: there is no barrier filled here",
    ),
    "insert_barrier_alloc guard of a group": (
        lambda: schedule.insert_barrier_alloc(
            loaded, after(loaded, "full"), "cg", [], CudaCommitGroup, guard="full"
        ),
        "X991.*insert_barrier_alloc: the guard full of cg is no mbarrier.*D513",
    ),
    "insert_barrier_alloc shape": (
        lambda: schedule.insert_barrier_alloc(
            reversal, after(reversal, "tile"), "z", [0], CudaMbarrier
        ),
        "X991.*an extent of a barrier is 1 or more",
    ),
    "insert_barrier_alloc outside": (
        lambda: schedule.insert_barrier_alloc(
            reversal, before(reversal, "with _: _"), "z", [], CudaMbarrier
        ),
        "X991.*insert_barrier_alloc: ",
    ),
    "insert_arrive timeline": (
        lambda: schedule.insert_arrive(
            GROUPED, after(GROUPED, "Arrive(_)_"), cuda_temporal, "cg[t]"
        ),
        "X991.*insert_arrive: an Arrive on cuda_temporal does not end the .* groups.*D511",
    ),
    "insert_arrive barrier": (
        lambda: schedule.insert_arrive(reversal, after(reversal, FIRST), cuda_in_order, "full"),
        "X991.*`full` names no barrier",
    ),
    "insert_arrive iterator": (
        lambda: schedule.insert_arrive(GROUPED, after(GROUPED, FIRST), Sm80_cp_async, "cg[t]"),
        "X991.*insert_arrive: there is no control variable t here",
    ),
    "insert_arrive ranks": (
        lambda: schedule.insert_arrive(loaded, after(loaded, FIRST), cuda_in_order, "full[0]"),
        "X991.*full has 0 dimensions, 1 are indexed",
    ),
    "insert_await skip": (
        lambda: schedule.insert_await(loaded, before(loaded, FIRST), "full", cuda_in_order, 1),
        "X991.*insert_await: n is 1 on a barrier @ CudaMbarrier.*T241",
    ),
    "insert_await outside": (
        lambda: schedule.insert_await(
            GROUPED,
            before(GROUPED, "for t in _: _ #1"),
            "cg[t + 1]",
            cuda_in_order,
            over=[("t", 32, cuda_thread)],
        ),
        "X99.*insert_await: .*cg",
    ),
    "insert_await scope": (
        lambda: schedule.insert_await(
            GROUPED,
            before(GROUPED, "for t in _: _ #1"),
            "cg[0]",
            cuda_in_order,
        ),
        "X991.*insert_await: .*D5",
    ),
    "set_trailing_barrier_expr of another": (
        lambda: schedule.set_trailing_barrier_expr(GROUPED, "Sm80_cp_async_copy", "cg[t]"),
        "X991.*set_trailing_barrier_expr: Sm80_cp_async_copy signals no barrier",
    ),
    "set_trailing_barrier_expr no call": (
        lambda: schedule.set_trailing_barrier_expr(loaded, FIRST, "full"),
        "X991.*no call of an instruction",
    ),
    "delete_sync of a used barrier": (
        lambda: schedule.delete_sync(loaded, "full"),
        "X991.*delete_sync: full is used by `Sm90_tma_load",
    ),
    "delete_sync of a group's last Arrive": (
        lambda: schedule.delete_sync(gemm_sm80, "Arrive(_)_"),
        r"X991.*delete_sync: what kind of group cg is its Arrives tell, and `Await\(cg\[t\]",
    ),
    "delete_sync of a statement": (
        lambda: schedule.delete_sync(loaded, "y[_] = _"),
        "X991.*delete_sync: the cursor is at no synchronisation",
    ),
    "wrap_with_context group": (
        lambda: schedule.wrap_with_context(reversal, FIRST, schedule.CudaWarps(name="consumer")),
        "X991.*wrap_with_context: no warp group is named 'consumer'",
    ),
    "wrap_with_context too many warps": (
        lambda: schedule.wrap_with_context(reversal, "for t in _: _ #1", schedule.CudaWarps(0, 8)),
        "X991.*wrap_with_context: ",
    ),
    "wrap_with_context launch": (
        lambda: schedule.wrap_with_context(
            reversal, FIRST, schedule.CudaDeviceFunction(blockDim=32)
        ),
        "X991.*wrap_with_context: it is part of a kernel already",
    ),
    "wrap_with_context which": (
        lambda: schedule.wrap_with_context(loaded, "for m in _: _", schedule.CudaWarps(0, 1)),
        "X991.*CudaWarps does not say which warp group",
    ),
    "wrap_with_context twice": (
        lambda: schedule.wrap_with_context(
            plain, "m", schedule.CudaDeviceFunction(blockDim=32, warp_config=ROLES)
        ),
        "X991.*by blockDim, or by warp_config",
    ),
    "wrap_with_context none": (
        lambda: schedule.wrap_with_context(reversal, FIRST, "consumer"),
        "X991.*context is of type str, and must be CudaWarps",
    ),
    "update_loop_mode": (
        lambda: schedule.update_loop_mode(loaded, "for m in _: _", cuda_warp),
        "X991.*update_loop_mode: the loop runs over no threads",
    ),
    "update_loop_mode unit": (
        lambda: schedule.update_loop_mode(fenced, "for w in _: _", 2 * cuda_warp),
        "X991.*update_loop_mode: .*not enough threads",
    ),
}


@pytest.mark.parametrize("name", REFUSED)
def test_refused_synchronisation(name: str) -> None:
    step, words = REFUSED[name]
    with pytest.raises(ExoGpuError) as refusal:
        step()
    (found,) = refusal.value.diagnostics
    assert re.search(words, f"{found.code}: {found.message}"), found.message
    assert found.help


def test_a_launch_may_have_roles() -> None:
    launch = schedule.CudaDeviceFunction(warp_config=ROLES)
    tasks = schedule.set_loop_mode(plain, "m", "tasks")
    launched = schedule.wrap_with_context(tasks, "for m in _: _", launch)
    assert "clusterDim=1, warp_config=[CudaWarpConfig('producer', 1, 40, 0)" in schedule.text(
        launched
    )
    inside = schedule.wrap_with_context(launched, "t", schedule.CudaWarps(0, 1, name="consumer"))
    assert "with CudaWarps(0, 1, name='consumer'):" in schedule.text(inside)
    narrower = schedule.wrap_with_context(inside, "t", schedule.CudaWarps(0, 1))
    assert schedule.text(narrower).count("with CudaWarps(") == 2


@pytest.mark.parametrize(
    "kernel", [gemm_sm80, KERNELS["gemm_sm90_2x2_128x256"]], ids=lambda k: k.name
)
def test_all_synchronisation_can_be_removed(kernel: Procedure) -> None:
    bare = schedule.without_synchronisation(kernel)
    assert not any(f"{kind.__name__}(" in schedule.text(bare) for kind in SYNCHRONISATION)
    assert "barrier" not in schedule.text(bare) and ">>" not in schedule.text(bare)
    # What is left is what the instructions themselves ask for.
    assert {d.code for d in bare.diagnostics} <= {"T228"}
    assert same_but_for_silence(kernel.ir, bare.ir)


def test_silence_is_not_the_absence_of_results() -> None:
    """Statements that compute, their order and their loops are not silent."""
    ir = reversal.ir
    assert not is_silent(ir.body[0])
    other = schedule.divide_loop(reversal, FIRST, 4, ["a", "b"])
    assert not same_but_for_silence(ir, other.ir)
    guarded = schedule.add_if(reversal, "tile[_] = _", "t", "<", "128")
    assert not same_but_for_silence(ir, guarded.ir)
    fence = schedule.insert_fence(reversal, after(reversal, FIRST), cuda_in_order, cuda_in_order)
    assert same_but_for_silence(ir, fence.ir)


def test_every_primitive_of_synchronisation_is_accepted_and_refused_here() -> None:
    rooms = (vars(barriers), vars(contexts))
    made = {
        n
        for room in rooms
        for n in room
        if n in schedule.__all__ and hasattr(room[n], "__wrapped__")
    }
    made = made - {"wrap_kernel"} | {"update_loop_mode"}
    assert {name.split()[0] for name in ACCEPTED} - {"add_if"} == made
    assert {name.split()[0] for name in REFUSED} == made
