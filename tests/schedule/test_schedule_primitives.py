"""Each primitive: what it makes of a procedure, that the results stay, and what it refuses."""

from __future__ import annotations

import contextlib
import re
from collections.abc import Callable
from pathlib import Path

import call_steps
import more_steps
import pytest
import sum_steps
import write_steps
from steps import (
    apart,
    both_at_once,
    calling,
    carried,
    dead,
    even,
    four,
    gap,
    gemm,
    guarded,
    guarded_by_i,
    kept_for_the_next,
    last,
    one_after_the_other,
    order,
    outside,
    passed,
    pieces,
    reversed_fuse,
    running,
    same_results,
    scalar,
    shorts,
    skewed,
    square,
    squares,
    tail,
    tail_read,
    tidied,
    tiled,
    two,
    wide,
    windowed,
)

from exogpu import CudaRmem, CudaSmemLinear, ExoGpuError, cuda_thread, schedule
from exogpu.api import Procedure
from exogpu.ir.nodes import Assign, For, If, Reduce
from exogpu.ir.printer import print_proc
from exogpu.schedule.primitives import barriers, contexts
from exogpu.schedule.rewrite import paths

GOLDEN = Path(__file__).parent / "golden"

ACCEPTED: dict[str, tuple[Procedure, Callable[[Procedure], Procedure]]] = {
    "divide_loop perfect": (
        even,
        lambda p: schedule.divide_loop(p, "i", 4, ["io", "ii"], "perfect"),
    ),
    "divide_loop guard": (gemm, lambda p: schedule.divide_loop(p, "k", 4, ["ko", "ki"], "guard")),
    "divide_loop cut": (gemm, lambda p: schedule.divide_loop(p, "j", 4, ["jo", "ji"], "cut")),
    "divide_loop carried": (
        carried,
        lambda p: schedule.divide_loop(p, "i", 3, ["io", "ii"], "cut"),
    ),
    "reorder_loops": (square, lambda p: schedule.reorder_loops(p, "i")),
    "mult_loops": (four, lambda p: schedule.mult_loops(p, "i", "k")),
    "unroll_loop of a call": (calling, lambda p: schedule.unroll_loop(p, "i")),
    "unroll_loop": (shorts, lambda p: schedule.unroll_loop(p, "i")),
    "cut_loop": (pieces, lambda p: schedule.cut_loop(p, "i #1", "n - 0")),
    "shift_loop": (carried, lambda p: schedule.shift_loop(p, "i", 2)),
    "join_loops": (pieces, lambda p: schedule.join_loops(p, "i")),
    "fission": (two, lambda p: schedule.fission(p, schedule.find(p, "x[_] = _").after())),
    "fuse": (apart, lambda p: schedule.fuse(p, "i")),
    "remove_loop": (last, lambda p: schedule.remove_loop(p, "i")),
    "reorder_stmts": (order, lambda p: schedule.reorder_stmts(p, "x[0] = _")),
    "lift_scope": (guarded, lambda p: schedule.lift_scope(p, "if _: _")),
    "specialize": (squares, lambda p: schedule.specialize(p, "y[_] = _", "i", "<", "4")),
    "remove_if": (tail, lambda p: schedule.remove_if(p, "if _: _")),
    "add_if": (wide, lambda p: schedule.add_if(p, "t[_] = _", "i", "<", "4")),
    "eliminate_dead_code": (dead, lambda p: schedule.eliminate_dead_code(p, "x[_] = 5")),
    "delete_pass": (passed, schedule.delete_pass),
    "rename": (passed, lambda p: schedule.rename(p, "renamed")),
    "simplify": (tidied, schedule.simplify),
    "expand_dim": (scalar, lambda p: schedule.expand_dim(p, "t", "n", "i")),
    "lift_alloc": (scalar, lambda p: schedule.lift_alloc(p, "t")),
    "sink_alloc": (outside, lambda p: schedule.sink_alloc(p, "t")),
    "resize_dim": (wide, lambda p: schedule.resize_dim(p, "t", 0, 4, 2)),
    "bind_expr": (squares, lambda p: schedule.bind_expr(p, "y[_] = _", "x[i]", "t")),
    "rearrange_dim": (tiled, lambda p: schedule.rearrange_dim(p, "t", [1, 0])),
    "delete_buffer": (tiled, lambda p: schedule.delete_buffer(p, "unused")),
    "reuse_buffer": (one_after_the_other, lambda p: schedule.reuse_buffer(p, "t", "u")),
    "inline_window": (windowed, lambda p: schedule.inline_window(p, "w")),
    "stage_mem read": (even, lambda p: schedule.stage_mem(p, "for i in _: _", "x[0:n]", "t")),
    "stage_mem written": (even, lambda p: schedule.stage_mem(p, "for i in _: _", "y[0:n]", "t")),
    "stage_mem part": (pieces, lambda p: schedule.stage_mem(p, "for i in _: _", "x[0:n]", "t")),
    "stage_mem guarded": (
        schedule.divide_loop(squares, "i", 4, ["io", "ii"]),
        lambda p: schedule.stage_mem(p, "for ii in _: _", "x[4 * io : 4 * io + 4]", "t"),
    ),
    "stage_mem of sums": (gemm, lambda p: schedule.stage_mem(p, "for k in _: _", "C[i, j]", "t")),
    "stage_sum": (gemm, lambda p: schedule.stage_sum(p, "for k in _: _", "C[i, j]", "t")),
    "stage_mem in a loop": (
        schedule.divide_loop(gemm, "k", 4, ["ko", "ki"]),
        lambda p: schedule.stage_mem(p, "for ki in _: _", "C[i, j]", "t"),
    ),
}


ACCEPTED |= call_steps.ACCEPTED | more_steps.ACCEPTED
ACCEPTED |= sum_steps.ACCEPTED | write_steps.ACCEPTED


@pytest.mark.parametrize("name", ACCEPTED)
def test_accepted(name: str, golden: Callable[[Path, str], None]) -> None:
    before, step = ACCEPTED[name]
    after = step(before)
    assert before.ir is not None and after.ir is not None
    text = f"{print_proc(before.ir)}\n# {name}\n\n{print_proc(after.ir)}"
    golden(GOLDEN / f"{name.replace(' ', '_')}.txt", text)
    assert not after.diagnostics
    assert bool(schedule.derivation(after).assumed) == (name in write_steps.ASSUMING)  # type: ignore[union-attr]
    assert same_results(before, after) > 0


REMOVING = {
    For: {
        "extract_subproc",
        "remove_loop",
        "replace",
        "simplify",
        "sum_by_exchange",
        "unroll_loop",
    },
    Assign: {
        "eliminate_dead_code",
        "extract_subproc",
        "inline_assign",
        "merge_writes",
        "replace",
        "sum_by_exchange",
    },
    If: {"extract_subproc", "merge_ifs", "remove_if", "replace", "simplify"},
}
"""After which steps loops, assignments and guards may be gone."""


@pytest.mark.parametrize("name", ACCEPTED)
def test_cursors_are_followed(name: str) -> None:
    before, step = ACCEPTED[name]
    after = step(before)
    assert before.ir is not None
    for path, stmt in paths(before.ir):
        kind = Assign if isinstance(stmt, Reduce) else type(stmt)
        cursor = schedule.Cursor(before, path)
        try:
            found = schedule.followed(after, cursor)
        except ExoGpuError as error:
            assert "is gone since" in str(error)
            assert name.split()[0] in REMOVING.get(kind, {name.split()[0]}), cursor
            continue
        assert found.procedure is after and found.stmt is not None
        for expression in cursor.expressions():
            with contextlib.suppress(ExoGpuError):
                assert schedule.followed(after, expression).statement == found


@pytest.mark.parametrize("name", ACCEPTED)
def test_certified(name: str) -> None:
    before, step = ACCEPTED[name]
    found = schedule.certificate(step(before))
    assert found.complete, [one.why for one in found.steps]


REFUSED: dict[str, tuple[Callable[[], Procedure], str]] = {
    "divide_loop perfect": (
        lambda: schedule.divide_loop(gemm, "i", 8, ["io", "ii"], "perfect"),
        "X992.*would not run.*`C.*line.*M = 1, N = 1, K = 1",
    ),
    "divide_loop names": (lambda: schedule.divide_loop(gemm, "i", 8, ["io"]), "X991.*two names"),
    "divide_loop keyword": (
        lambda: schedule.divide_loop(gemm, "i", 8, ["if", "ii"]),
        "X991.*no name",
    ),
    "divide_loop place": (
        lambda: schedule.divide_loop(gemm, schedule.find(gemm, "i").after(), 8, ["io", "ii"]),
        "X991.*by a pattern or by one cursor",
    ),
    "stage_mem count": (
        lambda: schedule.stage_mem(gemm, "k", "C[i, j]", "t", count=2),
        "X991.*no 2 statements",
    ),
    "stage_sum assigned": (
        lambda: schedule.stage_sum(gemm, "C[_] = _", "C[i, j]", "t", count=2),
        "X992: stage_sum: the second has a part of a parameter in a result.*M = 1, N = 1, K = 1",
    ),
    "stage_sum of reads": (
        lambda: schedule.stage_sum(gemm, "k", "A[i, 0:K]", "t"),
        "X991.*do not add to A",
    ),
    "divide_loop no loop": (
        lambda: schedule.divide_loop(gemm, "C[_] = _", 8, ["io", "ii"]),
        "X991.*no loop",
    ),
    "reorder_loops dependence": (
        lambda: schedule.reorder_loops(skewed, "i"),
        r"X992: reorder_loops: a dependence \(RAW\) would be reversed: `x\[i \+ 1, j\].*n = 2",
    ),
    "reorder_loops form": (lambda: schedule.reorder_loops(gemm, "j"), "X991.*more than one loop"),
    "mult_loops": (lambda: schedule.mult_loops(square, "i", "k"), "X991.*no constant count"),
    "unroll_loop": (lambda: schedule.unroll_loop(square, "i"), "X991.*not constant"),
    "cut_loop": (lambda: schedule.cut_loop(gemm, "i", 3), "X992.*out of bounds: at M = 1"),
    "shift_loop": (lambda: schedule.shift_loop(gemm, "i", "q"), "X991.*no control variable q"),
    "join_loops": (lambda: schedule.join_loops(gap, "i"), r"X992.*`x\[i\] = 7.*first at n = 4"),
    "join_loops bodies": (lambda: schedule.join_loops(apart, "i"), "X992.*another"),
    "fission": (
        lambda: schedule.fission(running, schedule.find(running, "t += _").after()),
        r"X992: fission: a dependence \(WAR\) would be reversed: `y\[i\] = t.*`t \+= .*n = 2",
    ),
    "fission scope": (
        lambda: schedule.fission(scalar, schedule.find(scalar, "t = _").after()),
        "X991.*t would not be declared",
    ),
    "fuse": (
        lambda: schedule.fuse(reversed_fuse, "i"),
        r"X992: fuse: a dependence \(RAW\) would be reversed: `x\[i\].*y\[.*n = 2",
    ),
    "remove_loop": (lambda: schedule.remove_loop(even, "i"), "X992.*n = 4"),
    "reorder_stmts": (
        lambda: schedule.reorder_stmts(schedule.reorder_stmts(order, "x[0] = _"), "x[0] = _"),
        r"X992: reorder_stmts: a dependence \(RAW\) would be reversed: `x\[0\].*`y\[1\] = x\[0\]",
    ),
    "lift_scope": (lambda: schedule.lift_scope(guarded_by_i, "if _: _"), "X991.*depends on i"),
    "specialize": (lambda: schedule.specialize(squares, "i", "j", "<", "4"), "X991.*j"),
    "remove_if": (
        lambda: schedule.remove_if(tail_read, "if _: _"),
        r"X992.*value would be read that is another's: `C\[i\] = 0.*at every size, in C\[6\]",
    ),
    "add_if": (lambda: schedule.add_if(tail, "C[_] = _", "i", "<", "5"), "X992.*would not run"),
    "eliminate_dead_code": (
        lambda: schedule.eliminate_dead_code(dead, "x[_] = 6"),
        r"X992.*would not run.*`x\[i\] = 6",
    ),
    "rename": (lambda: schedule.rename(passed, "a b"), "X991"),
    "expand_dim": (lambda: schedule.expand_dim(scalar, "t", 4, "i"), "X992.*out of bounds|has 4"),
    "lift_alloc": (lambda: schedule.lift_alloc(scalar, "t", 7), "X991"),
    "sink_alloc": (lambda: schedule.sink_alloc(running, "t"), "X991.*not exactly one"),
    "sink_alloc carried": (
        lambda: schedule.sink_alloc(kept_for_the_next, "t"),
        r"X992: sink_alloc: .*before it is written.*`y\[i\] = t`.*`t = x\[i\]`.*n = 2",
    ),
    "resize_dim": (lambda: schedule.resize_dim(wide, "t", 0, 4, 0), "X992"),
    "bind_expr": (
        lambda: schedule.bind_expr(squares, "y[_] = _", "y[i]", "t"),
        "X991.*does not read",
    ),
    "rearrange_dim": (lambda: schedule.rearrange_dim(tiled, "t", [1, 1]), "X991.*is no order"),
    "delete_buffer": (lambda: schedule.delete_buffer(tiled, "t"), "X991.*t is used"),
    "reuse_buffer": (
        lambda: schedule.reuse_buffer(both_at_once, "t", "u"),
        r"X992.*value would be read that is another's: `y\[1\].*`t = x\[1\]",
    ),
    "inline_window": (lambda: schedule.inline_window(scalar, "t"), "X991.*no plain window"),
    "stage_mem": (
        lambda: schedule.stage_mem(apart, "for j in _: _", "x[0:1]", "t"),
        "X992",
    ),
    "set_memory": (lambda: schedule.set_memory(even, "i", CudaSmemLinear), "X991.*no allocation"),
    "set_loop_mode": (lambda: schedule.set_loop_mode(even, "i", "fast"), "X991"),
    "wrap_kernel": (lambda: schedule.wrap_kernel(even, "i", 33), "X991.*whole warps"),
}


REFUSED |= call_steps.REFUSED | more_steps.REFUSED
REFUSED |= sum_steps.REFUSED | write_steps.REFUSED


@pytest.mark.parametrize("name", REFUSED)
def test_refused(name: str) -> None:
    step, message = REFUSED[name]
    with pytest.raises(ExoGpuError) as refusal:
        step()
    assert re.search(message, str(refusal.value)), refusal.value


def test_annotations_change_no_results() -> None:
    p = schedule.set_loop_mode(even, "i", cuda_thread)
    p = schedule.set_loop_mode(p, "i", "seq")
    assert same_results(even, p) > 0


def test_what_the_language_forbids_is_an_error_of_the_derived_procedure() -> None:
    """A primitive keeps the meaning; the rules of memories are those of any procedure."""
    p = schedule.set_memory(scalar, "t", CudaRmem)
    assert p.check().word == "error"
    assert [d.code for d in p.diagnostics][:1] == ["S317"]


def test_every_primitive_is_accepted_somewhere_and_refused_somewhere() -> None:
    steps = {n: f for n, f in vars(schedule).items() if hasattr(f, "__wrapped__")}
    made = {n for n, f in steps.items() if not hasattr(f, "is_higher")}
    for module in (barriers, contexts):  # their own tests say the same
        own = {
            n for n, f in vars(module).items() if getattr(f, "__module__", "") == module.__name__
        }
        made -= own - {"wrap_kernel"}
    annotations = {
        "parallelize_loop", "set_loop_mode", "set_memory", "update_loop_mode", "wrap_kernel",
    }  # fmt: skip
    never_refused = {"delete_pass", "parallelize_loop", "simplify", "update_loop_mode"}
    assert {name.split()[0] for name in ACCEPTED} | annotations == made
    assert {name.split()[0] for name in REFUSED} | never_refused == made


def test_every_primitive_shows_before_and_after() -> None:
    for name in schedule.__all__:
        if hasattr(vars(schedule)[name], "__wrapped__"):
            assert "->" in (vars(schedule)[name].__doc__ or ""), name


def test_history_names_each_step() -> None:
    p = schedule.divide_loop(even, "for i in _: _", 4, ["io", "ii"], tail="perfect")
    p = schedule.unroll_loop(p, schedule.find(p, "ii"))
    lines = schedule.history(p).splitlines()
    assert lines[0] == "even"
    assert re.fullmatch(
        r"  divide_loop\('for i in _: _', 4, \['io', 'ii'\], tail='perfect'\)  \d\.\d\d s", lines[1]
    )
    assert re.fullmatch(r"  unroll_loop\(`for ii in seq\(0, 4\):`\)  \d\.\d\d s", lines[2])
    derived = schedule.derivation(p)
    assert derived is not None and derived.primitive == "unroll_loop"
    assert schedule.derivation(even) is None
