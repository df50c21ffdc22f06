"""Each function of data has one meaning: numpy's, that of `run`, and that of the emitted text."""

from __future__ import annotations

import shutil

import numpy as np
import pytest

from benchmarks import gpu_scalars, scalar_cases
from exogpu import proc
from exogpu.codegen.toolchain import find_toolchain
from exogpu.ir.printer import print_proc
from exogpu.ir.types import EIGHTS, DataType
from tests.texts import made

GROUPS = scalar_cases.groups()
COUNT = 1 << 13
needs_gxx = pytest.mark.skipif(shutil.which("g++") is None, reason="no g++ on this machine")


@pytest.fixture(scope="module")
def folder(tmp_path_factory):
    return tmp_path_factory.mktemp("scalars")


def count_of(group):
    """All patterns of 8 bits; the script of the benchmarks has those of 16, and a million."""
    return 1 << 16 if {d.bytes for d in group.inputs.values()} == {1} else COUNT


@needs_gxx
@pytest.mark.slow
@pytest.mark.parametrize("group", GROUPS, ids=[group.name for group in GROUPS])
def test_emitted_text_computes_the_meaning(group, folder):
    assert gpu_scalars.compare(group, gpu_scalars.on_the_host(folder), count_of(group)) == []


@pytest.mark.parametrize("group", GROUPS, ids=[group.name for group in GROUPS])
def test_run_computes_the_meaning(group, folder):
    kernel = gpu_scalars.kernels(folder)[group.name]

    def run(group, arrays):
        values = {}
        for name, bits in arrays.items():
            dtype = gpu_scalars.type_of(name, group)
            values[name] = scalar_cases.numbers_of(bits, dtype).copy()
        kernel.run(**values)
        for name, value in values.items():
            arrays[name][...] = scalar_cases.bits_of(value, gpu_scalars.type_of(name, group))

    assert gpu_scalars.compare(group, run, 1 << 10) == []


def test_a_wrong_result_is_found():
    """The comparison sees one wrong bit of what is exact, and what is too far of what is not."""
    group = next(group for group in GROUPS if group.name == "of_f32")
    bits = scalar_cases.bits_of_inputs(group, 4096)
    values = {"a": scalar_cases.numbers_of(bits["a"], DataType.F32)}
    for case in group.cases:
        right = scalar_cases.wanted(case, group, values)
        got = scalar_cases.bits_of(np.ascontiguousarray(right), case.gives).copy()
        assert not scalar_cases.wrong(case, group, bits, got)[0].any()
        got ^= got.dtype.type(1 << 8 * case.gives.bytes - 2)
        if case.gives not in EIGHTS:
            assert scalar_cases.wrong(case, group, bits, got)[0].sum() > 100, case


def test_roundings_and_what_does_not_fit():
    @proc
    def f(n: size, x: f64[n] @ DRAM, y: i8[4, n] @ DRAM, z: ui64[n] @ DRAM):
        for i in seq(0, n):
            y[0, i] = i8(x[i], rn)
            y[1, i] = i8(x[i])
            y[2, i] = i8(x[i], rm)
            y[3, i] = i8(x[i], rp)
            z[i] = ui64(x[i])

    x = np.array([2.5, 3.5, -2.5, -2.1, 127.5, 1e30, -1e30, np.nan, -np.inf])
    y, z = np.zeros((4, len(x)), np.int8), np.zeros(len(x), np.uint64)
    f.run(x=x, y=y, z=z)
    assert y.tolist() == [
        [2, 4, -2, -2, 127, 127, -128, 0, -128],
        [2, 3, -2, -2, 127, 127, -128, 0, -128],
        [2, 3, -3, -3, 127, 127, -128, 0, -128],
        [3, 4, -2, -2, 127, 127, -128, 0, -128],
    ]
    assert z.tolist() == [2, 3, 0, 0, 127, 2**64 - 1, 0, 0, 0]


def test_bits_are_those_of_the_stored_type():
    @proc
    def f(h: bf16[1] @ DRAM, y: ui32[3] @ DRAM):
        y[0] = bits(h[0])
        y[1] = bits(h[0] + 0.0)  # arithmetic is in f32
        y[2] = bits(f16(h[0]))

    y = np.zeros(3, np.uint32)
    f.run(h=np.array([1.5], np.float32), y=y)
    assert [hex(v) for v in y] == ["0x3fc0", "0x3fc00000", "0x3e00"]


def test_operators_bind_as_in_python():
    """So a procedure that is printed reads back."""

    @proc
    def f(a: i32[4] @ DRAM):
        a[0] = (a[1] | a[2]) & a[3] ^ (a[0] + 1 << 2) % 5 + -(~a[2] // 3)

    printed = "(a[1] | a[2]) & a[3] ^ (a[0] + 1 << 2) % 5 + -(~a[2] // 3)"
    assert printed in print_proc(f.ir)


@pytest.mark.parametrize(
    ("statement", "words"),
    [
        ("k[0] = k[1] & x[0]", ("& takes integers, not f32", "i32(x[0])", "bits(x[0])")),
        ("x[0] = sqrt(k[0])", ("sqrt takes floating point, not i32", "f32(k[0])")),
        ("x[0] = x[0] + k[0]", ("f32 and i32 are mixed", "f32(n)")),
        ("k[0] = x[0]", ("k, which is i32", "i32(...)")),
        ("k[0] = i32(x[0], ra)", ("rn, rz, rm, rp",)),
        ("x[0] = from_bits(k[0])", ("takes a type last",)),
        ("x[0] = __expf(x[1])", ("fast_exp(x)",)),
        ("k[0] = __float2int_rd(x[1])", ("i32(x, rm)",)),
        ("k[0] = __float_as_uint(x[1])", ("bits(x)",)),
        ("k[0] = int(x[1])", ("i32(x)",)),
    ],
)
def test_remedies_can_be_written(statement, words):
    text = f"@proc\ndef f(x: f32[4] @ DRAM, k: i32[4] @ DRAM):\n    {statement}\n"
    (found,) = made(text).diagnostics
    assert all(word in f"{found.message} {found.help}" for word in words), found


@pytest.mark.slow
@pytest.mark.skipif(find_toolchain() is None, reason="no compiler of CUDA")
def test_a_kernel_of_them_compiles(folder):
    made_of = gpu_scalars.kernels(folder)["of_bf16"].compile()
    assert made_of.manifest["steps"]
