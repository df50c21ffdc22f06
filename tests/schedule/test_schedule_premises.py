"""What a step rests on: arrays apart, divisors that are not zero, statements that are all seen."""

from __future__ import annotations

import json
from collections.abc import Callable

import numpy as np
import pytest

from exogpu import ExoGpuError, proc, schedule
from exogpu.api import Procedure
from exogpu.ir.nodes import Add, CExpr, CVar, FloorDiv, Mod, Mul
from exogpu.ir.types import Sym
from exogpu.ir.walk import evaluate
from exogpu.schedule.certificates.chain import uncertified
from exogpu.schedule.index_text import tidy


def message(step: Callable[[], object], code: str = "X992") -> str:
    with pytest.raises(ExoGpuError) as caught:
        step()
    (found,) = caught.value.diagnostics
    assert found.code == code, found
    return found.message


# --- operands of a call that share elements -------------------------------------------------------


@proc
def moved(n: size, x: f32[n] @ DRAM, y: f32[n] @ DRAM):
    for i in seq(0, n):
        y[i] = x[i]
    for i in seq(0, n):
        y[i] += 1


@proc
def overlapping(n: size, a: f32[n + 1] @ DRAM):
    moved(n, a[0:n], a[1 : n + 1])


@proc
def by_windows(n: size, a: f32[2 * n, 2] @ DRAM):
    lower = a[0 : n + 1, 0]
    upper = a[n : 2 * n, 0]
    moved(n, lower[0:n], upper)
    moved(n, lower[1 : n + 1], upper)
    moved(n, a[0:n, 0], a[0:n, 1])


@proc
def summed(n: size, x: f32[n] @ DRAM, y: f32[n] @ DRAM, z: f32[1] @ DRAM):
    z[0] = 0
    for i in seq(0, n):
        z[0] += x[i] * y[i]


@proc
def squared(n: size, a: f32[n] @ DRAM, z: f32[1] @ DRAM):
    summed(n, a[0:n], a[0:n], z[0:1])


def test_operands_that_overlap_take_no_other_procedure() -> None:
    fused = schedule.rename(schedule.fuse(moved, "i"), "fused")
    a = np.arange(6, dtype=np.float32)
    overlapping.run(n=5, a=a)
    assert a.tolist() == [0, 1, 1, 1, 1, 1]  # and from the loop that is fused 0, 1, 2, 3, 4, 5
    said = message(lambda: schedule.call_eqv(overlapping, "moved", fused))
    assert "x and y have elements of a in common" in said


def test_operands_apart_do() -> None:
    fused = schedule.rename(schedule.fuse(moved, "i"), "fused")
    one = schedule.call_eqv(by_windows, "moved", fused)
    assert "a in common" in message(lambda: schedule.call_eqv(one, "moved", fused))
    schedule.call_eqv(one, "moved #1", fused)


def test_operands_that_are_only_read_do() -> None:
    schedule.call_eqv(squared, "summed", schedule.rename(schedule.cut_loop(summed, "i", 1), "cut"))


# --- slots of a procedure that is called ----------------------------------------------------------


@proc
def into_a_slot(y: f32[3, 32] @ CudaGmemLinear):
    with CudaDeviceFunction(blockDim=32):
        for m in cuda_tasks(0, 1):
            full: barrier @ CudaMbarrier
            for slot_ in slot(full, 3):
                for t in cuda_threads(0, 32, unit=cuda_thread):
                    y[slot_, t] = 1


@proc
def cleared(y: f32[3, 32] @ CudaGmemLinear):
    with CudaDeviceFunction(blockDim=32):
        for m in cuda_tasks(0, 3):
            for t in cuda_threads(0, 32, unit=cuda_thread):
                y[m, t] = 0


@proc
def both(y: f32[3, 32] @ CudaGmemLinear):
    cleared(y)
    into_a_slot(y)


def test_a_caller_of_slots_is_not_rewritten() -> None:
    y = np.full((3, 32), 7, np.float32)
    both.run(y=y)
    assert y[:, 0].tolist() == [1, 0, 0]  # not all of y is written by the second
    said = message(lambda: schedule.eliminate_dead_code(both, "cleared"), "X994")
    assert said == "into_a_slot has slot(full), which counts Arrives: it is not rewritten"
    assert both.equivalent_to(both).word == "undecided"


def test_a_call_of_slots_is_not_put_in() -> None:
    @proc
    def one(y: f32[3, 32] @ CudaGmemLinear):
        cleared(y)

    at = schedule.find(one, "cleared").before()
    message(lambda: schedule.insert_noop_call(one, at, into_a_slot, "y[0:3, 0:32]"), "X994")


# --- integers that are divided --------------------------------------------------------------------


@proc
def quotients(n: size, x: i32[n] @ DRAM, y: i32[n] @ DRAM):
    for i in seq(0, n):
        t: i32 @ DRAM
        t = 0
        if i > 0:
            t = 100 / x[i]
        if i > 0:
            y[i] = t


@proc
def thirds(n: size, x: i32[n] @ DRAM, y: i32[n] @ DRAM):
    for i in seq(0, n):
        t: i32 @ DRAM
        t = 0
        if i > 0:
            t = x[i] / 3
        if i > 0:
            y[i] = t


def test_nothing_is_divided_that_was_not() -> None:
    quotients.run(n=3, x=np.arange(3, dtype=np.int32), y=np.zeros(3, np.int32))  # x[0] is 0
    said = message(lambda: schedule.remove_if(quotients, "if _: _"))
    assert said.startswith(
        "remove_if: an integer would be divided, maybe by zero, where it was not"
    )
    schedule.remove_if(thirds, "if _: _")


def test_certificates_say_so_too() -> None:
    """The checker is not asked."""

    def removed(p: Procedure) -> str:
        (edit,) = schedule.remove_if.__wrapped__(p.ir, schedule.find(p, "if _: _").path)
        return uncertified(edit)

    assert removed(quotients).startswith("sat: Each instance of `t = 100 / x[i]`")
    assert removed(thirds) == ""
    found = schedule.certificate(schedule.divide_loop(quotients, "i", 4, ["io", "ii"]))
    assert found.complete
    claims = [json.loads(step.files["certificate.json"])["obligations"] for step in found.steps]
    assert "DIVIDED" in {one["kind"] for some in claims for one in some}


def test_quotients_may_move() -> None:
    p = schedule.divide_loop(quotients, "i", 4, ["io", "ii"])
    p = schedule.bind_expr(
        p, "t = 100 / _", schedule.find(p, "t = 100 / _").expression("_ / _"), "u"
    )
    p = schedule.inline_assign(p, "u = _")
    schedule.cut_loop(p, "ii", 2)


@proc
def copied(n: size, x: i32[n] @ DRAM, y: i32[n] @ DRAM):
    for i in seq(0, n):
        y[i] = x[i]


def test_no_expression_divides_that_did_not() -> None:
    def more(what: str) -> Procedure:
        return schedule.rewrite_expr(copied, "y[_] = _", "x[i]", f"x[i] + 0 * ({what})")

    assert "its value may be another" in message(lambda: more("10 / x[i]"))
    more("x[i] / 10")


# --- types that are narrower than what is computed ------------------------------------------------


@proc
def narrow(n: size, x: i8[n] @ DRAM, y: i32[n] @ DRAM):
    for i in seq(0, n):
        t: i8 @ DRAM
        t = x[i]
        y[i] = t + 1


@proc
def narrowed(n: size, x: ui8[n] @ DRAM, y: i32[n] @ DRAM):
    for i in seq(0, n):
        t: i8 @ DRAM
        t = x[i]
        y[i] = t + 1


@proc
def half(n: size, x: bf16[n] @ CudaGmemLinear, y: f32[n] @ CudaGmemLinear):
    with CudaDeviceFunction(blockDim=32):
        for i in cuda_tasks(0, n):
            for k in cuda_threads(0, 1, unit=cuda_thread):
                t: bf16
                t = x[i]
                y[i] = t * 2


@pytest.mark.parametrize("of", [narrow, half], ids=lambda p: p.name)
def test_a_copy_of_a_narrow_type_is_no_other_number(of: Procedure) -> None:
    inlined = schedule.inline_assign(of, "t = _")
    assert schedule.assumptions(inlined) == ()
    assert schedule.certificate(inlined).complete


def test_a_copy_to_another_narrow_type_is() -> None:
    assert "its value may be another" in message(lambda: schedule.inline_assign(narrowed, "t = _"))


# --- indices --------------------------------------------------------------------------------------


def test_remainders_of_remainders_are_counted_once() -> None:
    i, j = Sym("i"), Sym("j")
    term = Add(Mod(CVar(i), 2), CVar(j))
    first = Add(Mul(3, FloorDiv(term, 3)), Mod(term, 3))  # it is the term: i % 2 and j
    second = Add(Mul(2, FloorDiv(CVar(i), 2)), Mod(CVar(i), 2))  # it is i

    def same(one: CExpr) -> bool:
        values = [{i: a, j: b} for a in range(-3, 4) for b in range(-3, 4)]
        return all(evaluate(one, at) == evaluate(tidy(one), at) for at in values)

    assert same(Add(first, second)) and same(Add(second, first))


# --- names and arguments --------------------------------------------------------------------------


def test_procedures_of_one_name_are_told_apart() -> None:
    def of(value: int) -> Procedure:
        if value:

            @proc
            def filled(n: size, x: f32[n] @ DRAM):
                for i in seq(0, n):
                    x[i] = value

        else:

            @proc
            def filled(n: size, x: f32[n] @ DRAM, y: f32[n] @ DRAM):
                for i in seq(0, n):
                    x[i] = y[i]

        return filled

    one, other = of(1), of(0)

    @proc
    def caller(n: size, x: f32[n] @ DRAM, y: f32[n] @ DRAM):
        one(n, x)
        other(n, y, x)

    assert schedule.rename(caller, "called").diagnostics == ()


@pytest.mark.parametrize("name", ["copied", "x", "i", "f32"])
def test_a_procedure_takes_no_name_that_is_in_use(name: str) -> None:
    said = message(lambda: schedule.extract_subproc(copied, "i", name), "X991")
    assert said == f"extract_subproc: {name} is the name of something else"


def test_truth_is_no_number() -> None:
    said = message(lambda: schedule.divide_loop(copied, "i", True, ["a", "b"]), "X991")
    assert said == "divide_loop: factor is of type bool, and must be an integer"


@pytest.mark.parametrize("pattern", ["i #-1", "i #x"])
def test_a_number_that_is_none_finds_nothing(pattern: str) -> None:
    assert message(lambda: schedule.find(copied, pattern), "X990") == (
        f"no statement matches `{pattern}` in copied"
    )


def test_a_loop_is_not_unrolled_beyond_the_limit() -> None:
    @proc
    def long(x: f32[1000000] @ DRAM):
        for i in seq(0, 1000000):
            x[i] = 0

    said = message(lambda: schedule.unroll_loop(long, "i"), "X991")
    assert said == "unroll_loop: it would be 1,000,000 statements, more than 20,000"


def test_a_ring_has_a_slot_at_least() -> None:
    @proc
    def kept(x: f32[8] @ DRAM):
        t: f32[8] @ DRAM
        for i in seq(0, 8):
            t[i] = x[i]

    said = message(lambda: schedule.resize_dim(kept, "t", 0, 0, fold=True), "X991")
    assert said == "resize_dim: the extent to fold to is no constant of at least 1"


def test_a_text_that_means_nothing_is_shown_at_its_statement() -> None:
    @proc
    def windowed(n: size, x: f32[n] @ DRAM, y: f32[n] @ DRAM):
        w = x[0:n]
        for i in seq(0, n):
            y[i] = w[i]

    def found(step: Callable[[], object]) -> tuple[str, str]:
        with pytest.raises(ExoGpuError) as caught:
            step()
        (found,) = caught.value.diagnostics
        return found.span.text.strip(), found.help

    line, remedy = found(lambda: schedule.bind_expr(windowed, "y[_] = _", "w[i]", "t"))
    assert line == "y[i] = w[i]" and "inline a window first" in remedy
    line, remedy = found(lambda: schedule.cut_loop(windowed, "i", "k"))
    assert line == "for i in seq(0, n):" and remedy.startswith("name a size")
    at = schedule.find(windowed, "i").before()
    assert found(lambda: schedule.insert_noop_call(windowed, at, copied, "k", "y", "y"))[0] == line
