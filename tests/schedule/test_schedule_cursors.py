"""Cursors: found by pattern, moved, and followed through rewritings."""

from __future__ import annotations

import pytest
from steps import apart, even, gemm, guarded, order, two

from exogpu import ExoGpuError, proc, schedule
from exogpu.ir.nodes import For


@proc
def named(n: size, x: f32[8, n] @ DRAM):
    t: f32[8] @ DRAM
    w = x[:, 0]
    for i in seq(0, 8):
        t[i] = w[i]
    for i in seq(0, 8):
        if i < n:
            t[i] += 2 * x[i, 0]


def lines(pattern: str, of: object = gemm) -> list[str]:
    return [str(c) for c in schedule.find_all(of, pattern)]  # type: ignore[type-var]


def test_patterns() -> None:
    assert lines("for k in _: _") == ["for k in seq(0, K):"]
    assert lines("C[_] += _") == ["C[i, j] += A[i, k] * B[k, j]"]
    assert lines("C[_] = _") == ["C[i, j] = 0"]
    assert lines("C[i, j] = 0") == ["C[i, j] = 0"]
    assert lines("_ = _") == ["C[i, j] = 0"]
    assert lines("for _ in _: _") == [
        f"for {i} in seq(0, {n}):" for i, n in zip("ijk", "MNK", strict=True)
    ]
    assert lines("j") == ["for j in seq(0, N):"]
    assert lines("if _: _", guarded) == ["if m > 3:"]
    assert lines("t", named) == ["t: f32[8] @ DRAM"]
    assert lines("w", named) == ["w = x[0:8, 0]"]
    assert lines("t: _", named) == ["t: f32[8] @ DRAM"]
    assert lines("i", named) == ["for i in seq(0, 8):"] * 2
    assert lines("C[_]+=_") == lines("C[_] += _")


def test_the_nth() -> None:
    assert schedule.find(apart, "for _ in _: _ #1").path == (("body", 1),)
    assert schedule.find(order, "y[_] = _ #1").path == (("body", 2),)
    assert schedule.find(order, "y[_] = _").path == (("body", 1),)


def test_what_is_not_found_names_the_nearest_with_their_lines() -> None:
    with pytest.raises(ExoGpuError) as refusal:
        schedule.find(gemm, "for kk in _: _")
    (found,) = refusal.value.diagnostics
    assert found.code == "X990"
    assert found.message == "no statement matches `for kk in _: _` in gemm"
    (k,) = (c.stmt for c in schedule.find_all(gemm, "k"))
    assert found.help.startswith(f"the nearest are line {k.span.line}: for k in seq(0, K):")
    with pytest.raises(ExoGpuError, match="only 2 statements match `y"):
        schedule.find(order, "y[_] = _ #2")


def test_navigation() -> None:
    j = schedule.find(gemm, "j")
    first, second = j.body()
    assert str(first) == "C[i, j] = 0" and str(second) == "for k in seq(0, K):"
    assert first.next() == second and second.prev() == first
    assert second.parent() == j and j.parent().path == (("body", 0),)
    assert first.orelse() == () and first.body() == ()
    assert first.before() == schedule.Gap(first, 0) and first.after() == schedule.Gap(first, 1)
    for nowhere in (second.next, first.prev, j.parent().parent):
        with pytest.raises(ExoGpuError, match="X990"):
            nowhere()


def test_cursors_follow_their_statements() -> None:
    total, k = schedule.find(gemm, "C[_] += _"), schedule.find(gemm, "k")
    p = schedule.divide_loop(gemm, "i", 4, ["io", "ii"])
    p = schedule.fission(p, schedule.find(gemm, "C[_] = _").after())
    followed = schedule.followed(p, total)
    assert str(followed) == "C[4 * io + ii, j] += A[4 * io + ii, k] * B[k, j]"
    assert schedule.followed(p, k) == followed.parent()
    q = schedule.divide_loop(p, k, 4, ["ko", "ki"])
    assert (
        isinstance(q.ir, type(p.ir))
        and str(schedule.find(q, "ko")) == "for ko in seq(0, (K + 3) / 4):"
    )


def test_an_exchanged_loop_is_followed() -> None:
    p = schedule.fission(gemm, schedule.find(gemm, "C[_] = _").after())
    j, k = schedule.find(p, "j #1"), schedule.find(p, "k")
    q = schedule.reorder_loops(p, j)
    assert schedule.followed(q, j).parent() == schedule.followed(q, k)
    assert isinstance(schedule.followed(q, j).stmt, For)


def test_a_cursor_of_what_is_gone_or_of_another_procedure_is_refused() -> None:
    x = schedule.find(two, "x[_] = _")
    with pytest.raises(ExoGpuError, match=r"X990.*of another procedure"):
        schedule.reorder_stmts(even, x)
    p = schedule.eliminate_dead_code(
        schedule.add_if(dead_at_once, "x[0] = 1", "n", ">", "2"), "if _: _"
    )
    with pytest.raises(ExoGpuError, match=r"X990.*is gone since eliminate_dead_code"):
        schedule.followed(p, schedule.find(dead_at_once, "x[0] = 1"))


def test_a_cursor_made_by_hand_may_be_at_nothing() -> None:
    for path in (
        (("body", 7),),
        (("body", 0), ("orelse", 0)),
        (("body", 0), ("body", 0), ("body", 9)),
    ):
        with pytest.raises(ExoGpuError, match=r"X990: the cursor is at no statement of gemm"):
            schedule.unroll_loop(gemm, schedule.Cursor(gemm, path))


@proc
def dead_at_once(n: size, x: f32[n] @ DRAM):
    x[0] = 1
    x[0] = 2
