"""Atomic operands are changed by one operation, of an instruction and of a variable."""

from __future__ import annotations

import pytest

from exogpu.api import Procedure, collecting, proc
from exogpu.diagnostics.errors import ExoGpuError
from exogpu.frontend.instructions import instr
from exogpu.hw.language import f32
from exogpu.hw.operands import CUDA_ATOMIC, CUDA_REGISTER
from exogpu.hw.units import cuda_thread
from exogpu.isa.cuda import cuda_atomic_add, cuda_atomic_max, cuda_store
from tests.texts import run_text

OPERANDS = {"unit": cuda_thread, "dst": CUDA_ATOMIC, "src": CUDA_REGISTER}


@instr(**OPERANDS)
def vector_add(dst: f32[4] @ CudaDeviceVisibleLinear, src: f32[4] @ CudaRmem):
    for i in seq(0, 4):
        if i > 0:
            dst[i] += src[i] * src[0]


@instr(**OPERANDS)
def minimum(dst: f32 @ CudaDeviceVisibleLinear, src: f32 @ CudaRmem):
    dst = min(dst, src)


@instr(**OPERANDS)
def exchange(dst: f32 @ CudaDeviceVisibleLinear, src: f32 @ CudaRmem):
    dst = src


@instr(**OPERANDS)
def doubled(dst: f32 @ CudaDeviceVisibleLinear, src: f32 @ CudaRmem):
    dst += dst


@instr(**OPERANDS)
def other_element(dst: f32[2] @ CudaDeviceVisibleLinear, src: f32 @ CudaRmem):
    dst[0] = max(dst[1], src)


@instr(**OPERANDS)
def subtracted_from(dst: f32 @ CudaDeviceVisibleLinear, src: f32 @ CudaRmem):
    dst = src - dst


@instr(**OPERANDS)
def greatest_of_itself(dst: f32 @ CudaDeviceVisibleLinear, src: f32 @ CudaRmem):
    dst = max(dst, src - dst)


@instr(**OPERANDS)
def both(dst: f32[2] @ CudaDeviceVisibleLinear, src: f32 @ CudaRmem):
    dst[0] += src
    dst[1] = max(dst[1], src)


@instr(**OPERANDS)
def fetched(dst: f32 @ CudaDeviceVisibleLinear, src: f32 @ CudaRmem):
    src = dst
    dst += 1.0


@instr(**OPERANDS)
def only_read(dst: f32 @ CudaDeviceVisibleLinear, src: f32 @ CudaRmem):
    src = dst


@pytest.mark.parametrize("right", [vector_add, minimum, cuda_atomic_add, cuda_atomic_max])
def test_one_operation(right):
    assert right.instantiate(dict(right.defaults)).modes


WRONG = (
    *(exchange, doubled, other_element, subtracted_from, greatest_of_itself, both, fetched),
    only_read,
)


@pytest.mark.parametrize("wrong", WRONG, ids=lambda w: w.name)
def test_what_another_order_would_change_is_refused(wrong):
    with pytest.raises(ExoGpuError) as error:
        wrong.instantiate({})
    assert [d.code for d in error.value.diagnostics] == ["T255"]


def mixed(where: str):
    """An add and a maximum: of one variable, or of what `where` says."""

    @proc(name="mixed")
    def kernel(x: f32[2] @ CudaGmemLinear, y: f32[2] @ CudaGmemLinear):
        with CudaDeviceFunction(blockDim=32):
            for task in cuda_tasks(0, 1):
                for t in cuda_threads(0, 32, unit=cuda_thread):
                    r: f32
                    r = 1.0
                    cuda_atomic_add(x[0], r)
                    if where == "one variable":
                        cuda_atomic_max(x[1], r)
                    if where == "through a window":
                        w = x[1:2]
                        cuda_atomic_max(w[0], r)
                    if where == "two variables":
                        cuda_atomic_max(y[0], r)
        if where == "two kernels":
            with CudaDeviceFunction(blockDim=32):
                for task in cuda_tasks(0, 1):
                    for t in cuda_threads(0, 32, unit=cuda_thread):
                        q: f32
                        q = 1.0
                        cuda_atomic_max(x[0], q)

    return kernel


@pytest.mark.parametrize("where", ["one variable", "through a window"])
def test_two_operations_on_a_variable_are_refused(where):
    verdict = mixed(where).check()
    assert verdict.word == "error"
    assert [d.code for d in verdict.diagnostics] == ["S331"]


@pytest.mark.parametrize("where", ["two variables", "two kernels"])
def test_two_operations_are_of_two_variables_or_kernels(where):
    assert mixed(where).check().word == "proved"


def across(kind: str):
    """Tasks add to one element of global memory."""

    @proc(name="across")
    def kernel(M: size, x: f32[M] @ CudaGmemLinear, y: f32[1] @ CudaGmemLinear):
        with CudaDeviceFunction(blockDim=32):
            for m in cuda_tasks(0, M):
                for t in cuda_threads(0, 1, unit=cuda_thread):
                    r: f32[1]
                    r[0] = 1.0
                    if kind == "stores":
                        cuda_store(y[:], r[:], n=1)
                    if kind == "plain":
                        y[0] += 1.0
                    if kind == "read":
                        x[m] = y[0]
                    cuda_atomic_add(y[0], r[0])

    return kernel


@pytest.mark.parametrize("kind", ["", "stores", "plain", "read"])
def test_tasks_share_nothing_but_atomics(kind):
    assert across(kind).check().word == ("refuted" if kind else "proved")


def launches(name: str, second: bool, third: bool, wait: str) -> Procedure:
    """An add, something else, and a maximum of the same variable, in three launches."""

    @proc(name=name)
    def kernel(n: size, y: f32[1] @ CudaGmemLinear, z: f32[1] @ CudaGmemLinear):
        with CudaDeviceFunction(blockDim=32):
            for m in cuda_tasks(0, n):
                for t in cuda_threads(0, 32, unit=cuda_thread):
                    r: f32
                    r = 1.0
                    cuda_atomic_add(y[0], r)
        with CudaDeviceFunction(blockDim=32, dependent=second):
            for m in cuda_tasks(0, 1):
                if wait == "never":  # noqa: SIM102
                    if m > 0:
                        Fence(cuda_stream_sync, cuda_in_order)
                for t in cuda_threads(0, 1, unit=cuda_thread):
                    z[0] = 0.0
        with CudaDeviceFunction(blockDim=32, dependent=third):
            for m in cuda_tasks(0, 1):
                if wait == "before":
                    Fence(cuda_stream_sync, cuda_in_order)
                for t in cuda_threads(0, 1, unit=cuda_thread):
                    r: f32
                    r = 1.0
                    cuda_atomic_max(y[0], r)
                if wait == "after" and third:
                    Fence(cuda_stream_sync, cuda_in_order)

    return kernel


@pytest.mark.parametrize(
    ("second", "third", "wait", "refused"),
    [
        (False, False, "none", False),
        (True, True, "after", True),  # the maximum may come before the adds of the first
        (False, True, "after", False),  # which has ended
        (True, True, "before", False),  # the second has waited, in every task
        (True, True, "none", False),  # so have both, where nothing else is said
        (True, True, "never", True),  # the second need not have waited
    ],
)
def test_launches_that_overlap(second: bool, third: bool, wait: str, refused: bool) -> None:
    found = launches("overlapping", second, third, wait).check()
    assert [d.code for d in found.diagnostics] == (["S331"] if refused else [])


@pytest.mark.parametrize(
    ("dst", "src", "body", "refused"),
    [
        ("i32", "i32", "max(dst, src)", False),
        ("i32", "i64", "max(dst, src)", True),  # 2^32 then 5 is 5, 5 then 2^32 is 0
        ("i32", "i64", "min(dst, src)", True),
        ("i64", "i32", "max(dst, src)", False),
        ("ui64", "i64", "max(dst, src)", False),  # -1 is the greatest, in any order
        ("i64", "ui64", "max(dst, src)", True),
        ("i8", "i8", "max(dst, src)", False),
        ("i8", "i8", "max(dst, src * 2)", True),
        ("f16", "f32", "max(dst, src)", False),  # rounding keeps the order
        ("i32", "i64", "dst + src", False),
    ],
)
def test_a_maximum_is_taken_in_the_type_it_is_kept_in(
    dst: str, src: str, body: str, refused: bool
) -> None:
    change = f"dst = {body}" if body.startswith("m") else "dst += src"
    text = INSTRUCTION.format(dst=dst, src=src, change=change)
    with collecting() as found:
        run_text(text)
    (kernel,) = found
    assert [d.code for d in kernel.check().diagnostics] == (["T255"] if refused else [])


INSTRUCTION = """
from exogpu.frontend.instructions import instr
from exogpu.hw.operands import CUDA_ATOMIC, CUDA_REGISTER

@instr(unit=cuda_thread, dst=CUDA_ATOMIC, src=CUDA_REGISTER)
def change(dst: {dst} @ CudaDeviceVisibleLinear, src: {src} @ CudaRmem):
    {change}

@proc
def changed(y: {dst}[1] @ CudaGmemLinear, z: {src}[64] @ CudaGmemLinear):
    with CudaDeviceFunction(blockDim=64):
        for m in cuda_tasks(0, 1):
            for t in cuda_threads(0, 64, unit=cuda_thread):
                r: {src}
                r = z[t]
                change(y[0], r)
"""
