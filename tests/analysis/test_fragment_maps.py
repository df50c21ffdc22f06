"""Fragments: the table against the formulas of the PTX manual, element by element."""

from __future__ import annotations

from itertools import product

import pytest

from exogpu.hw import memories
from exogpu.hw.register_tiles import LAYOUTS, fragment, fragment_of
from exogpu.ir.affine import Range, from_cexpr
from exogpu.ir.nodes import CVar, Int
from exogpu.ir.types import DataType, Sym
from exogpu.ir.walk import evaluate

# Row and column of element i of thread t, as the manual has them.


def accumulator_of_wgmma(t, i):
    """PTX ISA, wgmma, D fragment of .m64nNk*: d0, d1, .. of thread t."""
    return 16 * (t // 32) + t % 32 // 4 + 8 * (i // 2 % 2), 8 * (i // 4) + 2 * (t % 4) + i % 2


def factor_of_wgmma_16(t, i):
    """PTX ISA, wgmma, A fragment of .m64nNk16: a0 .. a7, 8 more for each 16 columns."""
    row = 16 * (t // 32) + t % 32 // 4 + (8 if i % 8 in (2, 3, 6, 7) else 0)
    return row, 16 * (i // 8) + 2 * (t % 4) + i % 2 + (8 if i % 8 >= 4 else 0)


def factor_of_wgmma_32(t, i):
    """PTX ISA, wgmma, A fragment of .m64nNk8 (tf32): a0 .. a3, 4 more for each 8 columns."""
    row = 16 * (t // 32) + t % 32 // 4 + (8 if i % 4 in (1, 3) else 0)
    return row, 8 * (i // 4) + t % 4 + (4 if i % 4 >= 2 else 0)


def accumulator_of_mma(t, i):
    """PTX ISA, mma.m16n8k8 and k16, C and D: row = groupID for c0, c1, else groupID + 8."""
    return t // 4 + (0 if i < 2 else 8), 2 * (t % 4) + i % 2


def a_of_mma_16(t, i):
    """PTX ISA, mma.m16n8k16, A: groupID for 0 <= i < 2 and 4 <= i < 6; + 8 columns from a4 on."""
    return t // 4 + (0 if i < 2 or 4 <= i < 6 else 8), 2 * (t % 4) + i % 2 + (8 if i >= 4 else 0)


def a_of_mma_32(t, i):
    """PTX ISA, mma.m16n8k8 (tf32), A: groupID for a0 and a2; columns + 4 for a2 and a3."""
    return t // 4 + (0 if i in (0, 2) else 8), t % 4 + (0 if i < 2 else 4)


def b_of_mma_16(t, i):
    """PTX ISA, mma.m16n8k16, B, here N x K: rows of K + 8 for b2 and b3."""
    return t // 4, 2 * (t % 4) + i % 2 + (0 if i < 2 else 8)


def b_of_mma_32(t, i):
    """PTX ISA, mma.m16n8k8 (tf32), B, here N x K."""
    return t // 4, t % 4 + (0 if i == 0 else 4)


def rows_of_wgmma(t, i):
    """The rows of the accumulator's elements; the lanes of a row number its copies."""
    return accumulator_of_wgmma(t, 2 * i)[0], t % 4


def below(found, count):
    """The same of a tile of more rows than 64: the next 64 are in the registers after."""
    return lambda t, i: (64 * (i // count) + found(t, i % count)[0], found(t, i % count)[1])


def a_of_mma_8(t, i):
    """mma.m16n8k32 and m16n8k16 of .s8, A."""
    row = t // 4 if i < 4 or 8 <= i < 12 else t // 4 + 8
    return row, t % 4 * 4 + (i & 3) + (0 if i < 8 else 16)


def b_of_mma_8(t, i):
    """mma.m16n8k32 and m16n8k16 of .s8, B, whose columns are the rows of the N x K tile."""
    return t // 4, t % 4 * 4 + (i & 3) + (0 if i < 4 else 16)


TILES = {
    "wgmma D 64x8": (memories.Sm90_RmemMatrixD(64, 8), "f32", (64, 8), accumulator_of_wgmma),
    "wgmma D 64x256": (memories.Sm90_RmemMatrixD(64, 256), "f32", (64, 256), accumulator_of_wgmma),
    "wgmma D 128x24": (
        memories.Sm90_RmemMatrixD(128, 24),
        "f32",
        (128, 24),
        below(accumulator_of_wgmma, 12),
    ),
    "wgmma A bf16": (memories.Sm90_RmemMatrixA(64), "bf16", (64, 16), factor_of_wgmma_16),
    "wgmma A f16 deep": (memories.Sm90_RmemMatrixA(64), "f16", (64, 64), factor_of_wgmma_16),
    "wgmma A tf32": (memories.Sm90_RmemMatrixA(64), "f32", (64, 24), factor_of_wgmma_32),
    "rows": (memories.Sm90_RmemRows(64), "f32", (64, 4), rows_of_wgmma),
    "rows 128": (memories.Sm90_RmemRows(128), "f32", (128, 4), below(rows_of_wgmma, 2)),
    "mma D": (memories.Sm80_RmemMatrixD(16, 8), "f32", (16, 8), accumulator_of_mma),
    "mma A bf16": (memories.Sm80_RmemMatrixA(16, 16), "bf16", (16, 16), a_of_mma_16),
    "mma A tf32": (memories.Sm80_RmemMatrixA(16, 8), "f32", (16, 8), a_of_mma_32),
    "mma A tf32 short": (memories.Sm80_RmemMatrixA(16, 4), "f32", (16, 4), a_of_mma_32),
    "mma A i8": (memories.Sm80_RmemMatrixA(16, 32), "i8", (16, 32), a_of_mma_8),
    "mma A ui8 short": (memories.Sm80_RmemMatrixA(16, 16), "ui8", (16, 16), a_of_mma_8),
    "mma B i8": (memories.Sm80_RmemMatrixB(8, 32), "i8", (8, 32), b_of_mma_8),
    "mma B f16": (memories.Sm80_RmemMatrixB(8, 16), "f16", (8, 16), b_of_mma_16),
    "mma B tf32": (memories.Sm80_RmemMatrixB(8, 8), "f32", (8, 8), b_of_mma_32),
}


def digit(number, one):
    return number // one.digit.stride % one.digit.extent


@pytest.mark.parametrize("name", TILES)
def test_the_table_is_the_manual(name):
    memory, dtype, shape, manual = TILES[name]
    found = fragment(memory, DataType(dtype), shape)
    assert found is not None
    assert found.threads == (128 if "wgmma" in name or "rows" in name else 32)
    assert found.threads * found.registers == shape[0] * shape[1]
    seen = set()
    for t, i in product(range(found.threads), range(found.registers)):
        of = {one: t for one in found.holders} | {one: i for one in found.register_digits}
        at = found.index({one: Int(digit(n, one)) for one, n in of.items()})
        index = tuple(evaluate(e, {}) for e in at)
        assert index == manual(t, i)
        assert evaluate(found.thread(at), {}) == t
        assert evaluate(found.register(at), {}) == i
        seen.add(index)
    assert seen == set(product(range(shape[0]), range(shape[1])))


@pytest.mark.parametrize("name", TILES)
def test_which_register_is_told_without_the_thread(name):
    """The indices of a fragment's loop put into the map give its own loops back."""
    memory, dtype, shape, _ = TILES[name]
    found = fragment(memory, DataType(dtype), shape)
    names = {one: Sym(f"d{at}") for at, one in enumerate((*found.holders, *found.register_digits))}
    ranges = {name: Range(0, one.digit.extent - 1) for one, name in names.items()}
    index = found.index({one: CVar(name) for one, name in names.items()})
    for part, digits in ((found.register, found.register_digits), (found.thread, found.holders)):
        form = from_cexpr(part(index), {}, ranges)
        assert dict(form.terms) == {names[one]: one.digit.stride for one in digits}
        assert form.constant == 0


def test_shapes_that_no_instruction_has_have_no_fragment():
    assert fragment_of("wgmma D", 32, (60, 16)) is None
    assert fragment_of("wgmma D", 32, (64, 12)) is None
    assert fragment_of("wgmma D", 16, (64, 16)) is None
    assert fragment_of("mma D", 32, (32, 8)) is None
    assert fragment_of("mma A", 16, (16, 4)) is None


def test_every_row_of_the_table_is_tried():
    tried = {(m.layout, 8 * DataType(d).bytes) for m, d, *_ in TILES.values()}
    assert tried == set(LAYOUTS)
