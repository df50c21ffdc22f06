"""Cursors of expressions and of several statements, and what steps take for granted."""

from __future__ import annotations

import pytest

from exogpu import ExoGpuError, proc, schedule
from exogpu.api import Procedure
from exogpu.cli.history import draw_history
from tests.schedule.steps import gemm, order, two
from tests.schedule.write_steps import added, blurred, folded, integers, three, twice


@proc
def mixed(n: size, x: f32[n] @ DRAM, y: f32[n] @ DRAM):
    for i in seq(0, n):
        y[i] = 3 * max(x[i], y[i] + 2 * x[i]) + x[n - i - 1]


def shown(p: Procedure, statement: str, pattern: str) -> list[str]:
    return [str(e) for e in schedule.find(p, statement).expressions(pattern)]


def test_patterns() -> None:
    assert shown(gemm, "C[_] += _", "A[_]") == ["A[i, k]"]
    assert shown(gemm, "C[_] += _", "_ * _") == ["A[i, k] * B[k, j]"]
    assert shown(gemm, "C[_] += _", "_") == ["A[i, k] * B[k, j]", "A[i, k]", "B[k, j]"]
    assert shown(mixed, "y[_] = _", "x[_]") == ["x[i]", "x[i]", "x[n - i - 1]"]
    assert shown(mixed, "y[_] = _", "2*x[ i ]") == ["2 * x[i]"]
    assert shown(mixed, "y[_] = _", "max(_)") == ["max(x[i], y[i] + 2 * x[i])"]
    assert shown(gemm, "k", "_") == []


def test_the_nth_and_what_is_not_found() -> None:
    statement = schedule.find(mixed, "y[_] = _")
    assert statement.expression("x[_] #2").where == (1,)
    with pytest.raises(ExoGpuError, match=r"X990: only 3 expressions match `x\[_\] #3`"):
        statement.expression("x[_] #3")
    with pytest.raises(ExoGpuError, match=r"X990: no expression.*the nearest are x\[i\]"):
        statement.expression("x[j]")
    with pytest.raises(ExoGpuError, match=r"X990: .*is no assignment"):
        schedule.find(gemm, "k").expression("A[_]")


def test_navigation() -> None:
    statement = schedule.find(mixed, "y[_] = _")
    whole = statement.expressions()[0]
    product, last = whole.children()
    assert str(product).startswith("3 * max(") and str(last) == "x[n - i - 1]"
    assert product.parent() == whole and whole.parent() == statement
    assert last.children() == ()


def test_expressions_are_followed_by_what_they_read() -> None:
    a = schedule.find(gemm, "C[_] += _").expression("A[_]")
    p = schedule.commute_expr(gemm, "C[_] += _", "_")
    assert schedule.followed(p, a).where == (1,) and str(schedule.followed(p, a)) == "A[i, k]"
    p = schedule.divide_loop(p, "k", 4, ["ko", "ki"])
    assert str(schedule.followed(p, a)) == "A[i, 4 * ko + ki]"
    p = schedule.bind_expr(p, a, a, "t")
    assert str(schedule.followed(p, a)) == "t"
    assert str(schedule.find(p, "t = _")) == "t = A[i, 4 * ko + ki]"


def test_expressions_are_followed_into_what_has_become_one() -> None:
    b = schedule.find(added, "x[_] += _").expression("2 * b[i]")
    p = schedule.merge_writes(added, "x[_] = _")
    assert schedule.followed(p, b).where == (1,) and str(schedule.followed(p, b)) == "2 * b[i]"
    assert schedule.followed(p, schedule.find(added, "x[_] += _")) == schedule.find(p, "x[_] = _")
    t = schedule.find(twice, "y[_] += _").expression("t")
    inlined = schedule.inline_assign(twice, "t = _")
    with pytest.raises(ExoGpuError, match=r"X990: `t` is gone since inline_assign"):
        schedule.followed(inlined, t)
    a = schedule.find(folded, "x[_] = _").expression("2 * a[i]")
    assert str(schedule.followed(schedule.fold_into_reduce(folded, "x[_] = _"), a)) == "2 * a[i]"
    x = schedule.find(folded, "x[_] = _").expression("x[i]")
    with pytest.raises(ExoGpuError, match=r"X990: `x\[i\]` is gone since fold_into_reduce"):
        schedule.followed(schedule.fold_into_reduce(folded, "x[_] = _"), x)


def test_a_step_takes_a_cursor_for_its_expression() -> None:
    second = schedule.find(mixed, "y[_] = _").expression("_ + _ #1")
    p = schedule.bind_expr(mixed, second, second, "t")
    assert str(schedule.find(p, "y[_] = _")) == "y[i] = 3 * max(x[i], t) + x[n - i - 1]"
    assert (
        str(schedule.followed(p, second)) == str(schedule.followed(p, second.children()[1])) == "t"
    )
    assert str(schedule.followed(p, second.parent())) == "max(x[i], t)"
    p = schedule.rewrite_expr(mixed, second, second, "2 * x[i] + y[i]")
    assert "max(x[i], 2 * x[i] + y[i])" in schedule.text(p)
    with pytest.raises(ExoGpuError, match=r"X991.*by a cursor"):
        schedule.commute_expr(mixed, second, 3)


def test_several_statements() -> None:
    first = schedule.find(order, "x[0] = _")
    both = first.expand(0, 1)
    assert [str(c) for c in both] == ["x[0] = 1", "y[0] = 2"] and len(both) == 2
    assert len(first.expand()) == 3 and len(both.expand(5, 0)) == 2
    assert both.before() == first.before() and str(both.after().beside) == "y[0] = 2"
    assert str(both) == "x[0] = 1 ... y[0] = 2"
    p = schedule.stage_mem(order, both, "y[0:1]", "t")
    assert "t[0] = 2" in schedule.text(p)
    assert schedule.text(schedule.reorder_stmts(order, both)) == schedule.text(
        schedule.reorder_stmts(order, first)
    )
    with pytest.raises(ExoGpuError, match=r"X991.*by one cursor"):
        schedule.reorder_stmts(order, first.expand())


def test_several_statements_are_followed() -> None:
    body = schedule.find(two, "x[_] = _").expand()
    p = schedule.divide_loop(two, "i", 4, ["io", "ii"])
    assert [str(c) for c in schedule.followed(p, body)] == [
        "x[4 * io + ii] = 1",
        "y[4 * io + ii] = x[4 * io + ii]",
    ]
    q = schedule.fission(p, schedule.find(two, "x[_] = _").after(), 3)
    with pytest.raises(ExoGpuError, match=r"X990.*no longer in one block"):
        schedule.followed(q, body)


def test_what_a_step_takes_for_granted_is_said() -> None:
    p = schedule.left_reassociate_expr(three, "x[_] = _", "_")
    assumed = ("floating-point numbers are taken as real ones: other roundings",)
    step = schedule.derivation(p)
    assert step is not None and step.assumed == assumed == schedule.assumptions(p)
    assert schedule.history(p).splitlines()[-1].strip() == f"assuming that {assumed[0]}"
    assert assumed[0] in draw_history(p).plain
    later = schedule.rename(p, "later")
    assert schedule.derivation(later).assumed == () and schedule.assumptions(later) == assumed  # type: ignore[union-attr]
    whole = schedule.left_reassociate_expr(integers, "x[_] += b[_] + _", "_ + _")
    assert schedule.assumptions(whole) == ()


@proc
def calls_three(n: size, x: f32[n] @ DRAM, a: f32[n] @ DRAM):
    three(n, x[:], a[:])


def test_a_call_assumes_what_the_procedure_called_does() -> None:
    regrouped = schedule.rename(schedule.left_reassociate_expr(three, "x[_] = _", "_"), "regrouped")
    p = schedule.call_eqv(calls_three, "three", regrouped)
    assert schedule.assumptions(p) == schedule.assumptions(regrouped) != ()
    assert (
        schedule.assumptions(
            schedule.call_eqv(calls_three, "three", schedule.rename(three, "other"))
        )
        == ()
    )


def test_exact_rewritings_assume_nothing() -> None:
    """Sides are exchanged, and a sum in its own order is put in: no rounding changes."""
    p = schedule.rewrite_expr(blurred, "y[_] = _", "_", "x[i + 2] + (x[i + 1] + x[i])")
    assert schedule.assumptions(p) == ()
    p = schedule.rewrite_expr(blurred, "y[_] = _", "_", "x[i] + (x[i + 1] + x[i + 2])")
    assert schedule.assumptions(p) != ()
