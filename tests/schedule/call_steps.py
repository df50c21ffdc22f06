"""Procedures with calls, and the steps that make and remove them."""

from __future__ import annotations

from collections.abc import Callable

from steps import calling, even, gemm, squares

from exogpu import proc, schedule
from exogpu.api import Procedure
from exogpu.isa.cuda import cuda_load, cuda_store
from exogpu.isa.sm80 import Sm80_load_A, Sm80_mma_tf32, Sm80_store_D, Sm80_zero_D


@proc
def scaled(n: size, c: f32 @ DRAM, x: f32[n] @ DRAM):
    for i in seq(0, n):
        x[i] = c * x[i]


@proc
def edged(n: size, limit: index, x: f32[n] @ DRAM):
    for i in seq(0, n):
        if i < limit:
            x[i] = 0
        else:
            x[i] = 1


@proc
def doubled(n: size, x: f32[n, 3] @ DRAM, y: f32[4] @ DRAM):
    for j in seq(0, n):
        x[j, 1] = y[3] * x[j, 1]


@proc
def edges(n: size, x: f32[n + 4] @ DRAM, y: f32[n + 4] @ DRAM):
    for i in seq(0, n):
        if i + 2 < n:
            y[i + 3] = 0
        else:
            y[i + 3] = 1
    for i in seq(0, 4):
        x[n + i] = 0


@proc
def vectors(M: size, x: f32[M, 8] @ CudaGmemLinear, y: f32[M, 8] @ CudaGmemLinear):
    with CudaDeviceFunction(blockDim=32):
        for m in cuda_tasks(0, M):
            for t in cuda_threads(0, 2, unit=cuda_thread):
                a: f32[4]
                for i in seq(0, 4):
                    a[i] = x[m, 4 * t + i]
                for i in seq(0, 4):
                    y[m, 4 * t + i] = a[i]


@proc
def tensor_cores(M: size, K: size, A: f32[M, K] @ CudaGmemLinear, C: f32[M, 16] @ CudaGmemLinear):
    assert M % 16 == 0
    assert K % 8 == 0
    with CudaDeviceFunction(blockDim=32):
        for tile in cuda_tasks(0, M / 16):
            tile_A: f32[16, 8] @ CudaSmemLinear
            D: f32[1, 2, 16, 8] @ Sm80_RmemMatrixD(16, 8)
            a: f32[1, 16, 8] @ Sm80_RmemMatrixA(16, 8)
            b: f32[1, 8, 8] @ Sm80_RmemMatrixB(8, 8)
            for w in cuda_threads(0, 1, unit=cuda_warp):
                for n in seq(0, 2):
                    for i in seq(0, 16):
                        for j in seq(0, 8):
                            D[w, n, i, j] = 0
                    for i in seq(0, 16):
                        for k in seq(0, 8):
                            a[w, i, k] = tile_A[i, k]
                    for i in seq(0, 16):
                        for j in seq(0, 8):
                            for k in seq(0, 8):
                                D[w, n, i, j] += a[w, i, k] * b[w, j, k]
                    for i in seq(0, 16):
                        for j in seq(0, 8):
                            if 8 * n + j < 15:
                                C[16 * tile + i, 8 * n + j] = D[w, n, i, j]


@proc
def padded(n: size, x: f32[n] @ DRAM, y: f32[1] @ DRAM):
    t: f32[n + 3] @ DRAM
    for i in seq(0, n + 3):
        if i < n:
            t[i] = x[i]
        else:
            t[i] = 0
    y[0] = 0
    for i in seq(0, n + 3):
        if i < n:
            y[0] += t[i] * t[i]


@proc
def pass_by(n: size, x: f32[n] @ DRAM):
    pass


def all_of_the_tensor_cores(p: Procedure) -> Procedure:
    for instruction in (Sm80_zero_D, Sm80_load_A, Sm80_mma_tf32, Sm80_store_D):
        p = schedule.replace_all(p, instruction)
    return p


dotted = schedule.extract_subproc(gemm, "for k in _: _", "dot")
dot = schedule.callee(dotted, "dot")
dot4 = schedule.rename(schedule.divide_loop(dot, "k", 4, ["ko", "ki"]), "dot4")
dot8 = schedule.rename(schedule.divide_loop(dot, "k", 8, ["ko", "ki"]), "dot8")

ACCEPTED: dict[str, tuple[Procedure, Callable[[Procedure], Procedure]]] = {
    "replace a vector load": (vectors, lambda p: schedule.replace(p, "for i in _: _", cuda_load)),
    "replace by a procedure": (
        schedule.inline(calling, "squares"),
        lambda p: schedule.replace(p, "for i in _: _ #1", squares),
    ),
    "replace with sides exchanged": (
        schedule.commute_expr(doubled, "x[_] = _", "_"),
        lambda p: schedule.replace(p, "for j in _: _", scaled),
    ),
    "replace with a scalar": (
        doubled,
        lambda p: schedule.replace(p, "for j in _: _", scaled),
    ),
    "replace with an edge": (edges, lambda p: schedule.replace(p, "for i in _: _", edged)),
    "replace without an edge": (edges, lambda p: schedule.replace(p, "for i in _: _ #1", edged)),
    "inline": (calling, lambda p: schedule.inline(p, "squares")),
    "inline an instruction": (
        schedule.replace(vectors, "for i in _: _ #1", cuda_store),
        lambda p: schedule.inline(p, "cuda_store"),
    ),
    "extract_subproc": (gemm, lambda p: schedule.extract_subproc(p, "for k in _: _", "dot")),
    "extract_subproc of two": (
        gemm,
        lambda p: schedule.extract_subproc(p, "C[_] = _", "element", count=2),
    ),
    "call_eqv": (dotted, lambda p: schedule.call_eqv(p, "dot", dot4)),
    "call_eqv back": (
        schedule.call_eqv(dotted, "dot", dot4),
        lambda p: schedule.call_eqv(p, "dot4", [dot4, dot]),
    ),
    "call_eqv beside": (
        schedule.call_eqv(dotted, "dot", dot4),
        lambda p: schedule.call_eqv(p, "dot4", [dot4, dot8]),
    ),
    "insert_noop_call": (
        squares,
        lambda p: schedule.insert_noop_call(
            p, schedule.find(p, "y[_] = _").before(), pass_by, "n", "x[0:n]"
        ),
    ),
    "stage_mem around a call": (calling, lambda p: schedule.stage_mem(p, "squares", "x[0:n]", "t")),
    "remove_if of padded sums": (padded, lambda p: schedule.remove_if(p, "if _: _ #1")),
}

REFUSED: dict[str, tuple[Callable[[], Procedure], str]] = {
    "replace other statements": (
        lambda: schedule.replace(gemm, "for k in _: _", squares),
        r"X991: replace: `C\[i, j\] \+= A.*line \d+\) \| `y\[i\] = x\[i\] \* x\[i\]`.*\d+\) of "
        "squares: they are statements of different kinds",
    ),
    "replace more loops": (
        lambda: schedule.replace(gemm, "for j in _: _ ", scaled),
        r"X991.*`C\[i, j\] = 0`.*\| `x\[i\] = c \* x\[i\]`.*of scaled: the expressions have",
    ),
    "replace two variables": (
        lambda: schedule.replace(schedule.inline(calling, "squares"), "for i in _: _ #1", scaled),
        r"X991.*`y\[i\] = x\[i\] \* x\[i\]`.*of scaled: no window of x is c",
    ),
    "replace a longer loop": (
        lambda: schedule.replace(edges, "for i in _: _ #1", cuda_load, n=2),
        "X991.*the loops have different counts",
    ),
    "replace a constant": (
        lambda: schedule.replace(even, "i", scaled),
        "X991.*of scaled: 2 is no variable: keep it in one first",
    ),
    "replace a tail": (
        lambda: schedule.replace(
            schedule.divide_loop(squares, "i", 4, ["a", "b"]), "for b in _: _", squares
        ),
        r"X991.*`if 4 \* a \+ b < n:`.*\| .*of squares: the body has no such guard",
    ),
    "replace by a number": (
        lambda: schedule.replace(edges, "i", 3),
        "X991.*neither an instruction nor",
    ),
    "inline": (lambda: schedule.inline(gemm, "k"), "X991.*no call"),
    "extract_subproc": (
        lambda: schedule.extract_subproc(vectors, "for i in _: _", "sub"),
        "X991.*a kernel calls no procedures",
    ),
    "call_eqv": (
        lambda: schedule.call_eqv(dotted, "dot", squares),
        "X991.*squares was not derived from",
    ),
    "call_eqv of a loop": (
        lambda: schedule.call_eqv(gemm, "k", squares),
        "X991.*no call of a procedure",
    ),
    "insert_noop_call": (
        lambda: schedule.insert_noop_call(
            squares, schedule.find(squares, "y[_] = _").before(), edged, "n", "3", "x[0:n]"
        ),
        r"X992: insert_noop_call: a value would be read that is another's: .*edged.*n = 1",
    ),
    "insert_noop_call arguments": (
        lambda: schedule.insert_noop_call(
            squares, schedule.find(squares, "y[_] = _").before(), pass_by, "n"
        ),
        "X991.*takes 2 arguments",
    ),
}
