"""Operands of one call are disjoint where one is written, and lie where the instruction asks.

Decisions `operand-overlap` and `operand-alignment`.
"""

from __future__ import annotations

import pytest

from exogpu import proc
from exogpu.analysis.operand_windows import violations
from exogpu.analysis.ownership import Declared
from exogpu.api import Procedure
from exogpu.diagnostics.hazards import HazardKind
from exogpu.frontend.instructions import InstructionTemplate, instr
from exogpu.hw.operands import HOST, aligned
from exogpu.ir.nodes import DataParam, Proc
from exogpu.ir.types import Space
from exogpu.isa import cuda, sm80, sm90
from exogpu.isa.cuda import cuda_load, cuda_shfl_xor, cuda_store
from exogpu.isa.sm80 import Sm80_cp_async_copy
from exogpu.isa.sm90 import (
    Sm90_stage_D,
    Sm90_tma_load,
    Sm90_tma_multicast,
    Sm90_tma_store,
    Sm90_wgmma_tf32,
)

Expected = tuple[HazardKind, str, dict[str, int]] | None
"""Kind, variable and sizes of the only hazard; None where the procedure is proved."""

OVERLAP, ALIGN = HazardKind.OVERLAP, HazardKind.ALIGN


def judged(procedure: Procedure) -> Expected:
    verdict = procedure.check()
    if verdict.word == "proved":
        return None
    (hazard,) = verdict.hazards
    assert verdict.word == "refuted" and hazard.code in ("B605", "B606")
    return hazard.kind, hazard.variable, dict(hazard.sizes)


def analysed_of(procedure: Procedure) -> tuple[Proc, tuple[Declared, ...]]:
    return procedure.facts.proc, procedure.facts.variables


def expect(expected: Expected, procedure: Procedure, **sizes: int) -> None:
    """The verdict for all sizes; and, at the sizes of the hazard or those given, `check_at`'s."""
    assert judged(procedure) == expected
    at = procedure.check_at(**(expected[2] if expected else sizes))
    assert (at.word == "refuted") == (expected is not None)
    if expected:
        assert [(h.kind, h.variable) for h in at.hazards] == [expected[:2]]


@instr(cuda=False, dst=HOST, src=HOST)
def copy(dst: f32[4] @ DRAM, src: f32[4] @ DRAM):
    """Four elements."""
    for i in seq(0, 4):
        dst[i] = src[i]


@instr(cuda=False, dst=HOST, src=HOST, in_place=("dst", "src"))
def double(dst: f32[4] @ DRAM, src: f32[4] @ DRAM):
    """Four elements, each for itself."""
    for i in seq(0, 4):
        dst[i] = 2.0 * src[i]


@instr(cuda=False, d=HOST, a=HOST, b=HOST)
def multiply(d: f32[4] @ DRAM, a: f32[4] @ DRAM, b: f32[4] @ DRAM):
    """Adds to d."""
    for i in seq(0, 4):
        d[i] += a[i] * b[i]


# --- overlap ------------------------------------------------------------------------------------


def test_a_shuffle_onto_its_own_registers_overlaps() -> None:
    @proc
    def kernel(M: size, y: f32[M] @ CudaGmemLinear):
        with CudaDeviceFunction(blockDim=32):
            for task in cuda_tasks(0, M):
                a: f32[32]
                for t in cuda_threads(0, 32, unit=cuda_thread):
                    a[t] = 1.0
                cuda_shfl_xor(a[:], a[:], mask=1)

    expect((OVERLAP, "a", {"M": 1}), kernel)
    hazard = kernel.check().hazards[0]
    assert hazard.message == (
        "cuda_shfl_xor writes a[0:32] and reads a[0:32], which overlap: at M = 1 both have a[0]"
    )
    assert hazard.second.span.text.strip() == "cuda_shfl_xor(a[:], a[:], mask=1)"


def test_rows_of_one_register_array_do_not_overlap() -> None:
    @proc
    def kernel(M: size, y: f32[M] @ CudaGmemLinear):
        with CudaDeviceFunction(blockDim=32):
            for task in cuda_tasks(0, M):
                a: f32[2, 32]
                for t in cuda_threads(0, 32, unit=cuda_thread):
                    a[0, t] = 1.0
                cuda_shfl_xor(a[1, :], a[0, :], mask=1)

    expect(None, kernel, M=2)


def test_disjoint_windows_of_one_variable_are_fine() -> None:
    @proc
    def halves(x: f32[8]):
        copy(x[0:4], x[4:8])

    expect(None, halves)


def test_windows_at_iterators_are_disjoint_for_all_of_them_or_refused() -> None:
    @proc
    def anywhere(M: size, x: f32[M + 4]):
        for i in seq(0, M):
            for j in seq(0, M):
                copy(x[i : i + 4], x[j : j + 4])

    @proc
    def apart(M: size, x: f32[M + 4]):
        for i in seq(0, M):
            for j in seq(0, M):
                if j >= i + 4:
                    copy(x[i : i + 4], x[j : j + 4])
                else:
                    if i >= j + 4:
                        copy(x[i : i + 4], x[j : j + 4])

    @proc
    def nearly(M: size, x: f32[M + 4]):
        for i in seq(0, M):
            for j in seq(0, M):
                if j >= i + 3:
                    copy(x[i : i + 4], x[j : j + 4])

    expect((OVERLAP, "x", {"M": 1}), anywhere)
    expect(None, apart, M=6)
    expect((OVERLAP, "x", {"M": 4}), nearly)


def test_sizes_decide() -> None:
    @proc
    def shifted(K: size, x: f32[K + 8]):
        copy(x[0:4], x[K : K + 4])

    expect((OVERLAP, "x", {"K": 1}), shifted)
    assert shifted.check().condition == "K >= 4"
    assert shifted.check_at(K=3).word == "refuted"
    assert shifted.check_at(K=4).word == "proved"


def test_windows_of_windows_overlap_as_their_variable_does() -> None:
    @proc
    def windows(x: f32[8]):
        w = x[0:4]
        copy(w[:], x[2:6])

    @proc
    def twice(x: f32[12]):
        w = x[1:11]
        v = w[1:5]
        copy(v[:], x[5:9])

    @proc
    def twice_apart(x: f32[12]):
        w = x[1:11]
        v = w[1:5]
        copy(v[:], x[6:10])

    expect((OVERLAP, "x", {}), windows)
    expect((OVERLAP, "x", {}), twice)
    expect(None, twice_apart)


def test_arguments_of_a_procedure_overlap_where_it_copies_them() -> None:
    @proc
    def moved(a: f32[4], b: f32[4]):
        copy(a[:], b[:])

    @proc
    def through(a: f32[4], b: f32[4]):
        moved(a[:], b[:])

    @proc
    def shares(x: f32[8]):
        through(x[0:4], x[2:6])

    @proc
    def apart(x: f32[8]):
        through(x[0:4], x[4:8])

    expect(None, moved)
    expect((OVERLAP, "x", {}), shares)
    expect(None, apart)


def test_two_operands_that_are_read_may_be_one() -> None:
    @proc
    def square(x: f32[4], d: f32[4]):
        multiply(d[:], x[:], x[:])

    @proc
    def into_itself(x: f32[4], d: f32[4]):
        multiply(d[:], d[:], x[:])

    expect(None, square)
    expect((OVERLAP, "d", {}), into_itself)


def test_an_accumulator_is_one_operand() -> None:
    """`D += A * B` reads and writes D, which is no overlap."""

    @proc
    def twice(a: f32[4], b: f32[4], d: f32[4]):
        multiply(d[:], a[:], b[:])
        multiply(d[:], a[:], b[:])

    expect(None, twice)


def test_in_place_means_the_same_window() -> None:
    @proc
    def same(M: size, x: f32[M + 4]):
        for i in seq(0, M):
            double(x[i : i + 4], x[i : i + 4])

    @proc
    def shifted(M: size, x: f32[M + 4]):
        for i in seq(0, M):
            double(x[i : i + 4], x[0:4])

    @proc
    def other_row(x: f32[2, 8]):
        double(x[0, 0:4], x[1, 1:5])

    expect(None, same, M=3)
    expect((OVERLAP, "x", {"M": 2}), shifted)
    expect(None, other_row)


def wrong_index(dst: f32[4] @ DRAM, src: f32[4] @ DRAM):
    for i in seq(0, 4):
        dst[i] = src[3 - i]


def wrong_twice(dst: f32[4] @ DRAM, src: f32[4] @ DRAM):
    for i in seq(0, 4):
        for j in seq(0, 2):
            dst[i] = 2.0 * src[i]


def wrong_order(dst: f32[4] @ DRAM, src: f32[4] @ DRAM):
    for i in seq(0, 4):
        dst[i] = 2.0 * src[i]
        dst[i] += src[i]


def wrong_type(dst: f32[4] @ DRAM, src: f32[8] @ DRAM):
    for i in seq(0, 4):
        dst[i] = src[i]


@pytest.mark.parametrize("body", [wrong_index, wrong_twice, wrong_order, wrong_type])
def test_an_instruction_that_says_so_works_element_by_element(body) -> None:
    made = instr(cuda=False, dst=HOST, src=HOST, in_place=("dst", "src"))(body)

    @proc
    def unused(x: f32[4]):
        x[0] = 1.0

    with pytest.raises(Exception, match="T245"):
        made.instantiate({})


def test_in_place_names_parameters() -> None:
    made = instr(cuda=False, dst=HOST, src=HOST, in_place=("dst", "source"))(wrong_index)
    with pytest.raises(Exception, match="source is none of its data parameters"):
        made.instantiate({})


# --- alignment ----------------------------------------------------------------------------------


def rows_of(condition: int) -> Procedure:
    """Vectors of 16 bytes from rows of K elements."""

    @proc
    def rows(M: size, K: size, A: f32[M, K] @ CudaGmemLinear):
        assert K % condition == 0
        with CudaDeviceFunction(blockDim=32):
            for task in cuda_tasks(0, M):
                for t in cuda_threads(0, 1, unit=cuda_thread):
                    a: f32[4]
                    for k in seq(0, K / 4):
                        cuda_load(a[:], A[task, 4 * k : 4 * k + 4])

    return rows


def test_rows_of_a_symbolic_length_need_a_precondition() -> None:
    expect((ALIGN, "A", {"M": 2, "K": 5}), rows_of(1))
    expect((ALIGN, "A", {"M": 2, "K": 6}), rows_of(2))
    expect(None, rows_of(4), M=3, K=8)
    verdict = rows_of(1).check()
    assert verdict.hazards[0].help == "add the precondition `assert K % 4 == 0`"
    assert set(str(verdict.condition).split(" or ")) == {"K mod 4 = 0", "K <= 3", "M = 1"}
    assert rows_of(1).check_at(M=2, K=8).word == "proved"
    assert "begins at byte 20" in verdict.hazards[0].message


def test_a_product_of_sizes_is_judged_by_its_remainder() -> None:
    """A row has 2 * 2 elements of two bytes; a plane 2 * M rows."""

    @proc
    def planes(L: size, M: size, A: f16[L, 2 * M, 2] @ CudaGmemLinear):
        with CudaDeviceFunction(blockDim=32):
            for task in cuda_tasks(0, L):
                for t in cuda_threads(0, 1, unit=cuda_thread):
                    a: f16[2]
                    cuda_load(a[:], A[task, 0, :], n=2, dtype=f16)

    @proc
    def odd(L: size, M: size, N: size, A: f16[L, M, N + 1] @ CudaGmemLinear):
        with CudaDeviceFunction(blockDim=32):
            for task in cuda_tasks(0, L):
                for t in cuda_threads(0, 1, unit=cuda_thread):
                    a: f16[2]
                    cuda_load(a[:], A[task, 0, 0:2], n=2, dtype=f16)

    expect(None, planes, L=2, M=3)
    expect((ALIGN, "A", {"L": 2, "M": 1, "N": 2}), odd)


def test_guards_count() -> None:
    @proc
    def guarded(M: size, A: f32[M] @ CudaGmemLinear):
        with CudaDeviceFunction(blockDim=32):
            for task in cuda_tasks(0, M):
                for t in cuda_threads(0, 1, unit=cuda_thread):
                    a: f32[4]
                    if task % 4 == 0 and task + 4 <= M:
                        cuda_load(a[:], A[task : task + 4])

    expect(None, guarded, M=9)


def test_a_column_is_no_vector() -> None:
    """Its elements are a row apart, which no vector access spans."""

    @proc
    def column(M: size, K: size, A: f32[M, K] @ CudaGmemLinear):
        with CudaDeviceFunction(blockDim=32):
            for task in cuda_tasks(0, M / 4):
                for t in cuda_threads(0, 1, unit=cuda_thread):
                    a: f32[4]
                    for i in seq(0, 4):
                        a[i] = 0.0
                    cuda_store(A[4 * task : 4 * task + 4, 0], a[:])

    expect((ALIGN, "A", {"M": 4, "K": 2}), column)
    assert set(str(column.check().condition).split(" or ")) == {"M <= 3", "K = 1"}


def test_a_window_of_a_procedure_s_argument_is_judged_where_it_lies() -> None:
    @proc
    def first(n: size, a: f32[n] @ CudaGmemLinear):
        assert n >= 4
        with CudaDeviceFunction(blockDim=32):
            for task in cuda_tasks(0, 1):
                for t in cuda_threads(0, 1, unit=cuda_thread):
                    r: f32[4]
                    cuda_load(r[:], a[0:4])

    @proc
    def beyond(n: size, a: f32[n] @ CudaGmemLinear):
        assert n >= 5
        first(n - 1, a[1:n])

    expect(None, first, n=4)
    expect((ALIGN, "a", {"n": 5}), beyond)


def test_both_sides_of_cp_async_are_aligned() -> None:
    def padded(columns: int) -> Procedure:
        @proc
        def kernel(M: size, x: f32[M, 4] @ CudaGmemLinear):
            with CudaDeviceFunction(blockDim=32):
                for task in cuda_tasks(0, M):
                    s: f32[32, columns] @ CudaSmemLinear
                    for t in cuda_threads(0, 32, unit=cuda_thread):
                        Sm80_cp_async_copy(s[t, 0:4], x[task, :])
                    Fence(Sm80_generic, cuda_in_order)

        return kernel

    expect((ALIGN, "s", {"M": 1}), padded(5))
    expect(None, padded(8), M=2)


def test_a_tensor_map_is_made_at_the_launch_whatever_guards_the_load() -> None:
    def loads(K_divides: int, guard: int) -> Procedure:
        @proc
        def kernel(M: size, K: size, x: f32[M, K] @ CudaGmemLinear):
            assert K % K_divides == 0
            x_map = x[:, :] @ Sm90_tensorMap(128, 64, 32)
            with CudaDeviceFunction(blockDim=128):
                for task in cuda_tasks(0, 1):
                    s: f32[64, 32] @ Sm90_SmemSwizzled(128)
                    z: barrier @ CudaMbarrier
                    if K % guard == 0:
                        with CudaWarps(0, 1):
                            (
                                Sm90_tma_load(
                                    s[:, :], x_map[0:64, 0:32], rows=64, cols=32, box=(64, 32)
                                )
                                >> z
                            )
                            Arrive(cuda_temporal) >> z
                        Await(z, cuda_in_order, ~0)

        return kernel

    assert judged(loads(1, 1)) == (ALIGN, "x", {"M": 1, "K": 1})
    assert judged(loads(1, 4)) == (ALIGN, "x", {"M": 1, "K": 1})
    assert not violations(*analysed_of(loads(4, 1)))
    assert loads(1, 1).check().hazards[0].help == "add the precondition `assert K % 4 == 0`"


def test_the_windows_of_a_tensor_map_may_read_iterators_that_its_strides_do_not() -> None:
    """The map is made before there is an iterator: what is said of it names sizes alone."""

    @proc
    def kernel(M: size, K: size, x: f32[M, K] @ CudaGmemLinear):
        x_map = x[:, :] @ Sm90_tensorMap(0, 8, 32)
        with CudaDeviceFunction(blockDim=32):
            for task in cuda_tasks(0, (M + 7) / 8):
                s: f32[8, 32] @ CudaSmemLinear
                z: barrier @ CudaMbarrier
                for k in seq(0, (K + 31) / 32):
                    (
                        Sm90_tma_load(
                            s[:, :],
                            x_map[8 * task : 8 * task + 8, 32 * k : 32 * k + 32],
                            rows=8,
                            cols=32,
                            box=(8, 32),
                            swizzle=0,
                        )
                        >> z
                    )
                    Arrive(cuda_temporal) >> z
                    Await(z, cuda_generic_and_async, ~0)

    first = kernel.check().hazards[0]
    assert (first.kind, dict(first.sizes)) == (ALIGN, {"M": 1, "K": 1})
    assert first.help == "add the precondition `assert K % 4 == 0`"
    assert (
        "at M = 1, K = 1 elements along the first dimension of x are 4 bytes apart" in first.message
    )


def wgmma_from(row: int, column: int, swizzle: int = 128) -> Procedure:
    @proc
    def kernel(M: size):
        with CudaDeviceFunction(blockDim=128):
            for task in cuda_tasks(0, M):
                a: f32[128, swizzle // 4] @ Sm90_SmemSwizzled(swizzle)
                b: f32[64, swizzle // 4] @ Sm90_SmemSwizzled(swizzle)
                D: f32[64, 64] @ Sm90_RmemMatrixD(64, 64)
                Sm90_wgmma_tf32(
                    D[:, :],
                    a[row : row + 64, column : column + 8],
                    b[:, 0:8],
                    N=64,
                    swizzle=swizzle,
                )

    return kernel


@pytest.mark.parametrize("swizzle", [64, 128])
@pytest.mark.parametrize("row", [0, 4, 8, 9, 64])
@pytest.mark.parametrize("column", [0, 2, 4, 8])
def test_wgmma_starts_at_a_repeat_of_the_swizzle(row: int, column: int, swizzle: int) -> None:
    found = wgmma_from(row, column, swizzle).check_at(M=1).hazards
    wrong = [h.variable for h in found if h.kind is ALIGN]
    assert wrong == (["a"] if row % 8 or column % 4 else [])


def test_rows_of_a_staged_tile_are_16_bytes_apart() -> None:
    def stage(columns: int) -> Procedure:
        @proc
        def kernel(M: size):
            with CudaDeviceFunction(blockDim=128):
                for task in cuda_tasks(0, M):
                    c: f32[64, columns] @ CudaSmemLinear
                    D: f32[64, 64] @ Sm90_RmemMatrixD(64, 64)
                    Sm90_stage_D(c[:, 0:64], D[:, :], N=64)

        return kernel

    def found(columns: int) -> list[HazardKind]:
        return [h.kind for h in stage(columns).check_at(M=1).hazards if h.kind is ALIGN]

    assert found(65) == [ALIGN]
    assert found(68) == []


def test_distributed_dimensions_take_no_room() -> None:
    """Each CTA has its own tile: the window of CTA 1 begins where that of CTA 0 does."""

    @proc
    def kernel(M: size, x: f32[M, 4] @ CudaGmemLinear):
        with CudaDeviceFunction(clusterDim=2, blockDim=32):
            for task in cuda_tasks(0, M):
                s: f32[2, 5] @ CudaSmemLinear
                for c in cuda_threads(0, 2, unit=cuda_cta_in_cluster):
                    for t in cuda_threads(0, 1, unit=cuda_thread):
                        Sm80_cp_async_copy(s[c, 0:4], x[task, :])
                Fence(Sm80_generic, cuda_in_order)

    found = kernel.check_at(M=1).hazards
    assert not [h for h in found if h.kind is ALIGN]


def test_no_vector_is_longer_than_its_variable_is_aligned() -> None:
    wide = instr(cuda=False, dst=HOST, src=aligned(HOST, 32))

    @wide
    def read(dst: f32[8] @ DRAM, src: f32[8] @ CudaDeviceVisibleLinear):
        """Thirty-two bytes at once."""
        for i in seq(0, 8):
            dst[i] = src[i]

    @proc
    def kernel(x: f32[8] @ CudaGmemLinear, y: f32[8]):
        read(y[:], x[:])

    assert judged(kernel) == (ALIGN, "x", {})


@pytest.mark.parametrize("n", [3, 8])
def test_a_vector_has_16_bytes_at_most(n: int) -> None:
    with pytest.raises(Exception, match="does not exist with these compile-time parameters"):
        cuda_load.instantiate({"n": n})


@pytest.mark.parametrize(("swizzle", "fits"), [(0, False), (128, True)])
def test_a_store_takes_the_layout_that_its_map_copies_from(swizzle: int, fits: bool) -> None:
    def store() -> Procedure:
        @proc
        def kernel(M: size, x: f32[M, 32] @ CudaGmemLinear):
            x_map = x[:, :] @ Sm90_tensorMap(swizzle, 8, 32)
            with CudaDeviceFunction(blockDim=32):
                for task in cuda_tasks(0, 1):
                    s: f32[8, 32] @ Sm90_SmemSwizzled(128)
                    Sm90_tma_store(
                        x_map[0:8, :], s[:, :], rows=8, cols=32, box=(8, 32), swizzle=swizzle
                    )

        return kernel

    if fits:
        assert not violations(*analysed_of(store()))
    else:
        assert "T227" in {found.code for found in store().diagnostics}


def test_every_slice_of_a_multicast_begins_where_tma_writes() -> None:
    sizes = {"n": 2, "cols": 8, "swizzle": 32}
    refused = "does not exist with these compile-time parameters"
    with pytest.raises(Exception, match=refused):  # slices of 64 bytes
        Sm90_tma_multicast.instantiate({**sizes, "rows": 4, "box": (2, 8)})
    with pytest.raises(Exception, match=refused):  # columns of a tile are no slice of it
        Sm90_tma_multicast.instantiate({**sizes, "rows": 8, "box": (8, 4)})
    assert Sm90_tma_multicast.instantiate({**sizes, "rows": 8, "box": (4, 8)})


# --- the catalogues -----------------------------------------------------------------------------

CONSTANTS: dict[str, object] = {
    "mask": 16,
    "delta": 3,
    "lane": 31,
    "rows": 64,
    "cols": 32,
    "box": (64, 32),
}

TEMPLATES = {
    template.name: template
    for catalogue in (cuda, sm80, sm90)
    for template in vars(catalogue).values()
    if isinstance(template, InstructionTemplate)
}


def made(name: str):
    template = TEMPLATES[name]
    known = {n: v for n, v in CONSTANTS.items() if n in template.constant_names}
    return template.instantiate({"n": 2, **known} if "n" in template.constant_names else known)


@pytest.mark.parametrize("name", sorted(TEMPLATES))
def test_an_instruction_says_how_its_windows_lie(name: str) -> None:
    """What a kernel addresses in memory: its text takes a pointer, and adjacent elements."""
    found = made(name)
    for param in found.params:
        if isinstance(param, DataParam) and found.cuda and param.window is None and param.shape:
            assert param.operand is not None
            in_memory = param.memory.space in (Space.GLOBAL, Space.SHARED)
            assert in_memory == (param.operand.placement is not None), param.name


def test_none_of_the_catalogues_works_in_place() -> None:
    """Only shuffles and reductions have two operands that one variable could be, and lanes read
    other lanes."""
    assert not [name for name in TEMPLATES if made(name).in_place]
    for name in TEMPLATES:
        data = [p for p in made(name).params if isinstance(p, DataParam)]
        could = {
            (a.name.name, b.name.name)
            for a in data
            for b in data
            if a.name.number < b.name.number and a.memory.space is b.memory.space
        }
        others = "shfl" in name or "reduce" in name
        assert others or not [pair for pair in could if pair == ("dst", "src")]
