"""Scalar arithmetic has one meaning: emitted statements compute what `run` computes, bit for bit.

The emitted kernel is compiled by g++ and run by one thread; the types are written out in the text,
so that C++ has no say, and g++ follows the same rules of rounding as the GPU.

Decision `arithmetic`.
"""

from __future__ import annotations

import re
from itertools import product

import numpy as np
import pytest
from hypothesis import HealthCheck, Phase, given, settings
from hypothesis import strategies as st
from on_the_host import GXX, emitted, procedures, run_emitted

from exogpu import proc
from exogpu.codegen.toolchain import compile_cubin, find_toolchain
from exogpu.codegen.toolchain.compilers import LIBRARY_FLAGS

needs_gxx = pytest.mark.skipif(GXX is None, reason="no g++ on this machine")

NUMPY = {
    "i8": np.int8,
    "i32": np.int32,
    "i64": np.int64,
    "ui8": np.uint8,
    "ui16": np.uint16,
    "ui32": np.uint32,
    "ui64": np.uint64,
    "f32": np.float32,
    "f64": np.float64,
}
INTEGERS = [name for name in NUMPY if "f" not in name]
FLOATS = ["f32", "f64"]
SIDE = 12
"""Values of each type: all pairs of them are tried."""


def edges(name):
    """Values at which types differ: their ends, zeros, and what rounds in the narrower one."""
    dtype = np.dtype(NUMPY[name])
    if name in INTEGERS:
        ends = np.iinfo(dtype)
        values = [0, 1, 2, 3, 7, ends.max, ends.max - 1, ends.min, ends.max // 2 + 1]
        values += [ends.min + 1, -1, -7] if ends.min else [5, 100, 255]
        return np.array(values, dtype)
    ends = np.finfo(dtype)
    values = [0.0, -0.0, 1.0, -3.0, 0.1, 1 / 3, np.nan, np.inf, -np.inf]
    return np.array([*values, ends.max, ends.smallest_subnormal, -ends.tiny], dtype)


def inputs():
    """a and b of every type, and d, which is b without zeros."""
    found = {}
    for name in NUMPY:
        values = edges(name)
        assert len(values) == SIDE
        found[f"a_{name}"] = np.repeat(values, SIDE)
        found[f"b_{name}"] = np.tile(values, SIDE)
        found[f"d_{name}"] = np.tile(np.where(values == 0, values[1] + values[3], values), SIDE)
    return found


def kernel(statements):
    """A procedure of statements `(target type, expression, sign)`, each with a row of its own."""
    parameters = [f"{n}: {n.split('_')[1]}[n] @ CudaGmemLinear" for n in inputs()]
    parameters += [f"o_{t}: {t}[{len(statements)}, n] @ CudaGmemLinear" for t in NUMPY]
    lines = [
        f"                o_{target}[{row}, i] {sign} " + re.sub(r"\b[abd]_\w+", r"\g<0>[i]", text)
        for row, (target, text, sign) in enumerate(statements)
    ]
    return "\n".join(
        [
            "inf = float('inf')",
            "@proc",
            f"def kernel(n: size, {', '.join(parameters)}):",
            "    with CudaDeviceFunction(blockDim=32):",
            "        for i in cuda_tasks(0, n):",
            "            for t in cuda_threads(0, 1, unit=cuda_thread):",
            *lines,
        ]
    )


def compare(statements, folder):
    """Both meanings on all pairs of edges; where bits differ, both are NaN."""
    procedure = procedures(kernel(statements), folder).kernel
    results = []
    for run in (
        lambda arguments: procedure.run(**arguments),
        lambda arguments: run_emitted(procedure, {"n": SIDE * SIDE, **arguments}, folder),
    ):
        outputs = {
            f"o_{t}": np.full((len(statements), SIDE * SIDE), 3, d) for t, d in NUMPY.items()
        }
        run({**inputs(), **outputs})
        results.append(outputs)
    values = inputs()
    for row, (target, text, sign) in enumerate(statements):
        ours, theirs = (r[f"o_{target}"][row] for r in results)
        same = ours.view(np.uint8).reshape(len(ours), -1) == theirs.view(np.uint8).reshape(
            len(ours), -1
        )
        wrong = ~same.all(axis=1) & ~((ours != ours) & (theirs != theirs))
        if wrong.any():
            at = int(np.argmax(wrong))
            here = {n: v[at] for n, v in values.items() if n in text}
            raise AssertionError(f"o_{target} {sign} {text} at {here}: {ours[at]}, {theirs[at]}")


BINARY = ("{a} + {b}", "{a} - {b}", "{a} * {b}", "{a} / {d}", "min({a}, {b})", "max({a}, {b})")
SELECT = "select({a}, {b}, {b} - {a}, {a})"
UNARY = ("-{a}", "relu({a})", "{a}")


def every(types):
    """Every operator on every pair of types, into every type in turn, assigned and added."""
    found = []
    for number, (left, right) in enumerate(product(types, types)):
        named = {"a": f"a_{left}", "b": f"b_{right}", "d": f"d_{right}"}
        for at, form in enumerate((*BINARY, SELECT, *UNARY)):
            target = types[(number + at) % len(types)]
            found.append((target, form.format(**named), "=" if (number + at) % 5 else "+="))
    return found


@needs_gxx
@pytest.mark.parametrize("types", [INTEGERS, FLOATS], ids=["integers", "floats"])
def test_every_operator_on_every_pair_of_types(types, tmp_path):
    roots = [(t, f"sqrt(a_{f})", "=") for t, f in product(FLOATS, FLOATS)]
    compare(every(types) + roots * (types is FLOATS), tmp_path)


# What the text of constants, or C++'s own types for them, once got wrong.  1.0000000596046448 is
# nearer to 1 + 2**-23 than its double is, which lies halfway and rounds to 1.
CONSTANTS = [
    ("f64", "a_f32 * 0.1", "="),
    ("f64", "a_f64 * 0.1", "="),
    ("f32", "a_f64 * 0.1", "="),
    ("f32", "1.0000000596046448", "="),
    ("f64", "1.0000000596046448 * a_f32", "="),
    ("f32", "a_f32 * 16777217", "="),
    ("f32", "a_f32 + 1e-45", "="),
    ("f64", "min(0.1, a_f64)", "="),
    ("f32", "max(1, 2) * a_f32", "="),
    ("f32", "7 / 3", "="),
    ("f32", "a_f32 * (7 / 3)", "="),
    ("f64", "-0 * a_f64", "="),
    ("f64", "-0.0", "="),
    ("f32", "select(a_f64, b_f32, 1, a_f32)", "="),
    ("f32", "inf", "="),
    ("f64", "max(a_f64, -inf)", "="),
    ("i32", "7 / 3", "="),
    ("i32", "-7 / 3", "="),
    ("i32", "7 / 3 * a_i32", "="),
    ("i32", "-2147483648", "="),
    ("i64", "-9223372036854775808", "="),
    ("ui64", "18446744073709551615 - a_ui64", "="),
    ("i64", "a_i32 + 2147483647", "="),
    ("i64", "a_i64 + 5000000000", "="),
    ("i8", "a_i8 + 200", "="),
    ("ui8", "-1", "+="),
    ("i32", "a_i32 / -1", "="),
    ("i64", "a_i64 / -1 / 3", "="),
    ("i32", "min(a_ui8, 3 - 5)", "="),
    ("ui64", "max(a_i32, b_ui64)", "="),
    ("i32", "select(a_i64, 5000000000, a_i32, b_i8)", "="),
    ("i32", "3000000000 - 2999999999", "="),
]


@needs_gxx
def test_constants_take_the_type_of_what_they_meet(tmp_path):
    compare(CONSTANTS, tmp_path)


@st.composite
def values(draw, types, depth=3):
    """An expression of variables of some types and of constants that all of them have."""
    kind = draw(st.integers(0, 9)) if depth else draw(st.integers(0, 2))
    inner = values(types, depth - 1)
    if kind == 0:
        return draw(st.sampled_from(["1", "2", "3", "100"] + ["0.5", "0.1"] * (types is FLOATS)))
    if kind <= 2:
        return f"{draw(st.sampled_from('ab'))}_{draw(st.sampled_from(types))}"
    if kind <= 6:
        sign = draw(st.sampled_from("+-*"))
        return f"({draw(inner)} {sign} {draw(inner)})"
    if kind == 7:
        return f"({draw(inner)} / d_{draw(st.sampled_from(types))})"
    if kind == 8:
        return f"{draw(st.sampled_from(['min', 'max']))}({draw(inner)}, {draw(inner)})"
    return draw(
        st.sampled_from(
            [
                f"(-{draw(inner)})",
                f"relu({draw(inner)})",
                f"select({draw(inner)}, {draw(inner)}, {draw(inner)}, {draw(inner)})",
            ]
        )
    )


def statements(types):
    one = st.tuples(st.sampled_from(types), values(types), st.sampled_from(["=", "=", "+="]))
    return st.lists(one, min_size=20, max_size=40)


@needs_gxx
@settings(
    max_examples=3,
    deadline=None,
    derandomize=True,
    phases=[Phase.generate],  # each example takes a compiler
    suppress_health_check=list(HealthCheck),
)
@given(st.one_of(statements(INTEGERS), statements(FLOATS)))
def test_random_expressions(tmp_path_factory, found):
    compare(found, tmp_path_factory.mktemp("scalars"))


@proc
def fused(x: f32[32] @ CudaGmemLinear, y: f32[32] @ CudaGmemLinear, z: f64[32] @ CudaGmemLinear):
    with CudaDeviceFunction(blockDim=32):
        for task in cuda_tasks(0, 1):
            for t in cuda_threads(0, 32, unit=cuda_thread):
                y[t] += x[t] * x[31 - t]
                z[t] = z[t] * z[31 - t] - z[t]


@pytest.mark.skipif(find_toolchain() is None, reason="no nvcc on this machine")
def test_products_are_rounded_before_they_are_added_to():
    """Neither is a product contracted, nor a subnormal number flushed."""
    ptx = compile_cubin(emitted(fused).source, "sm_90a").ptx
    assert "mul" in ptx and "fma" not in ptx and "ftz" not in ptx
    assert "-fmad=false" in LIBRARY_FLAGS


@proc
def halves(x: f16[32] @ CudaGmemLinear, y: f16[32] @ CudaGmemLinear, z: f32[32] @ CudaGmemLinear):
    with CudaDeviceFunction(blockDim=32):
        for task in cuda_tasks(0, 1):
            for t in cuda_threads(0, 32, unit=cuda_thread):
                y[t] = x[t]


@proc
def widened(x: f16[32] @ CudaGmemLinear, z: f32[32] @ CudaGmemLinear):
    with CudaDeviceFunction(blockDim=32):
        for task in cuda_tasks(0, 1):
            for t in cuda_threads(0, 32, unit=cuda_thread):
                z[t] = x[t]


def test_sixteen_bits_of_one_type_are_copied():
    assert "y[t] = x[t];" in emitted(halves).source
    assert "z[t] = from_f16(x[t]);" in emitted(widened).source


NUMBERS = 1 << 16


@proc
def converted(
    h: f16[NUMBERS] @ CudaGmemLinear,
    b: bf16[NUMBERS] @ CudaGmemLinear,
    s: f32[NUMBERS] @ CudaGmemLinear,
    d: f64[NUMBERS] @ CudaGmemLinear,
    from_h: f32[NUMBERS] @ CudaGmemLinear,
    from_b: f32[NUMBERS] @ CudaGmemLinear,
    h_from_s: f16[NUMBERS] @ CudaGmemLinear,
    h_from_d: f16[NUMBERS] @ CudaGmemLinear,
    b_from_s: bf16[NUMBERS] @ CudaGmemLinear,
    b_from_d: bf16[NUMBERS] @ CudaGmemLinear,
    sums: f16[NUMBERS] @ CudaGmemLinear,
    constants: bf16[4] @ CudaGmemLinear,
):
    with CudaDeviceFunction(blockDim=32):
        for task in cuda_tasks(0, 1):
            for t in cuda_threads(0, 1, unit=cuda_thread):
                constants[0] = 0.1
                constants[1] = -1e38
                constants[2] = 3
                for i in seq(0, NUMBERS):
                    from_h[i] = h[i]
                    from_b[i] = b[i]
                    h_from_s[i] = s[i]
                    h_from_d[i] = d[i]
                    b_from_s[i] = s[i]
                    b_from_d[i] = d[i]
                    sums[i] += h[i] * b[NUMBERS - 1 - i]


@needs_gxx
def test_conversions_of_sixteen_bits_are_those_of_the_meaning(tmp_path):
    """Every f16 and every bf16; and numbers halfway between two of them, and beside."""
    bits = np.arange(NUMBERS, dtype=np.uint16)
    halfway = (bits.astype(np.uint32) << 16) + np.uint32(0x8000)
    near = np.concatenate(
        [halfway[::4] - np.uint32(1), halfway[1::4], halfway[2::4] + 1, halfway[3::4]]
    )
    halves_ = bits.view(np.float16).astype(np.float64)
    with np.errstate(all="ignore"):
        between = (halves_ + np.roll(halves_, 1)) / 2
        beside = np.where(bits % 3 == 0, between * (1 + 2.0**-40), between)
        exact = {
            "h": bits.view(np.float16),
            "b": (bits.astype(np.uint32) << 16).view(np.float32),
            "s": np.where(bits % 2 == 0, near.view(np.float32), beside.astype(np.float32)),
            "d": beside,
        }
    found = {"from_h": "f", "from_b": "f", "h_from_s": "e", "h_from_d": "e", "sums": "e"}
    wanted = {n: np.zeros(NUMBERS, kind) for n, kind in found.items()}
    wanted |= {n: np.zeros(NUMBERS, np.float32) for n in ("b_from_s", "b_from_d")}
    wanted["constants"] = np.zeros(4, np.float32)
    mine = {name: array.copy() for name, array in (exact | wanted).items()}
    for name in ("b", "b_from_s", "b_from_d", "constants"):
        mine[name] = (mine[name].view(np.uint32) >> 16).astype(np.uint16)
    with np.errstate(all="ignore"):
        converted.run(**exact, **wanted)
    run_emitted(converted, mine, tmp_path)
    for name, want in wanted.items():
        have = mine[name]
        if have.dtype == np.uint16:
            have = (have.astype(np.uint32) << 16).view(np.float32)
        same = (have == want) | (np.isnan(have) & np.isnan(want))
        assert same.all(), (name, int(np.argmin(same)), have[~same][:3], want[~same][:3])


@needs_gxx
def test_functions_are_those_of_the_meaning(tmp_path):
    """To the last places: the compiler's library is not numpy's."""
    rng = np.random.default_rng(0)
    x = np.concatenate([rng.standard_normal(60) * 3, [0.0, -0.0, np.inf, -np.inf]])
    for kind in ("f32", "f64"):
        module = procedures(FUNCTIONS.format(kind=kind), tmp_path, f"functions_{kind}")
        there = {"x": x.astype(NUMPY[kind]), "y": np.zeros((7, 64), NUMPY[kind])}
        mine = {name: array.copy() for name, array in there.items()}
        with np.errstate(all="ignore"):
            module.functions.run(**there)
        folder = tmp_path / kind  # a library that is loaded keeps its name
        folder.mkdir()
        run_emitted(module.functions, mine, folder)
        close = 1e-6 if kind == "f32" else 1e-14
        np.testing.assert_allclose(mine["y"][1:], there["y"][1:], rtol=close, atol=close)
        np.testing.assert_array_equal(mine["y"][0], there["y"][0])


FUNCTIONS = """
@proc
def functions(x: {kind}[64] @ CudaGmemLinear, y: {kind}[7, 64] @ CudaGmemLinear):
    with CudaDeviceFunction(blockDim=32):
        for task in cuda_tasks(0, 1):
            for t in cuda_threads(0, 1, unit=cuda_thread):
                for i in seq(0, 64):
                    y[0, i] = fma(x[i], x[63 - i], -x[i])
                    y[1, i] = exp2(x[i])
                    y[2, i] = log(x[i] * x[i])
                    y[3, i] = rsqrt(x[i] * x[i])
                    y[4, i] = tanh(x[i])
                    y[5, i] = sigmoid(x[i])
                    y[6, i] = erf(x[i])
"""


ORDINALS = """
@proc
def ordinals(n: size, x: f32[n] @ CudaGmemLinear, y: i32[n] @ CudaGmemLinear):
    with CudaDeviceFunction(blockDim=32):
        for task in cuda_tasks(0, 1):
            for t in cuda_threads(0, 1, unit=cuda_thread):
                for i in seq(0, n):
                    y[i] = ordinal(x[i])
"""


@needs_gxx
def test_ordinals_are_those_of_the_meaning(tmp_path):
    bits = np.random.default_rng(0).integers(0, 2**32, 1000, np.uint32).view(np.float32)
    x = np.concatenate([edges("f32"), -edges("f32"), bits])
    there = {"x": x, "y": np.zeros(len(x), np.int32)}
    mine = {name: array.copy() for name, array in there.items()}
    kernel = procedures(ORDINALS, tmp_path, "ordinals").ordinals
    kernel.run(**there)
    run_emitted(kernel, {**mine, "n": len(x)}, tmp_path)
    np.testing.assert_array_equal(mine["y"], there["y"])


ROUNDED = """
@proc
def rounded(n: size, x: f32[n] @ CudaGmemLinear, y: f32[n] @ CudaGmemLinear):
    with CudaDeviceFunction(blockDim=32):
        for task in cuda_tasks(0, 1):
            for t in cuda_threads(0, 1, unit=cuda_thread):
                for i in seq(0, n):
                    y[i] = tf32(x[i])
"""


@needs_gxx
def test_tf32_is_that_of_the_meaning(tmp_path):
    """And ties: the lower 13 bits are just half of what is cut."""
    bits = np.random.default_rng(0).integers(0, 2**32, 1000, np.uint32)
    ties = bits & 0xFFFFE000 | 0x1000
    x = np.concatenate([edges("f32"), -edges("f32"), bits.view(np.float32), ties.view(np.float32)])
    there = {"x": x, "y": np.zeros(len(x), np.float32)}
    mine = {name: array.copy() for name, array in there.items()}
    kernel = procedures(ROUNDED, tmp_path, "rounded").rounded
    kernel.run(**there)
    run_emitted(kernel, {**mine, "n": len(x)}, tmp_path)
    np.testing.assert_array_equal(mine["y"], there["y"])
    numbers = ~np.isnan(there["y"])
    np.testing.assert_array_equal(*(np.signbit(a["y"][numbers]) for a in (mine, there)))


FUSED_EDGES = """
@proc
def fused_edges(n: size, x: f64[n, 3] @ CudaGmemLinear, y: f64[n] @ CudaGmemLinear):
    with CudaDeviceFunction(blockDim=32):
        for task in cuda_tasks(0, 1):
            for t in cuda_threads(0, 1, unit=cuda_thread):
                for i in seq(0, n):
                    y[i] = fma(x[i, 0], x[i, 1], x[i, 2])
"""


@needs_gxx
def test_fma_of_f64_has_the_sign_of_a_zero_and_goes_to_infinity(tmp_path):
    edges = [0.0, -0.0, 1.0, -1.0, 1e200, -1e200, 5e-324, -5e-324, np.inf, np.nan]
    x = np.array([(a, b, c) for a in edges for b in edges for c in edges])
    there = {"x": x, "y": np.zeros(len(x))}
    mine = {name: array.copy() for name, array in there.items()}
    kernel = procedures(FUSED_EDGES, tmp_path, "fused_edges").fused_edges
    kernel.run(**there)
    run_emitted(kernel, {**mine, "n": len(x)}, tmp_path)
    np.testing.assert_array_equal(mine["y"], there["y"])
    numbers = ~np.isnan(there["y"])
    np.testing.assert_array_equal(*(np.signbit(a["y"][numbers]) for a in (mine, there)))


@proc
def on_the_host(n: size, a: i32[n], b: f64[n], c: f32[n]):
    for i in seq(0, n):
        a[i] = a[i] * 3 / -1
        b[i] += max(b[i], c[i]) * 0.1


def test_the_host_computes_alike():
    text = emitted(on_the_host).host.source
    assert "a[i] = wrapping_div(wrapping_mul(a[i], 3), -1);" in text
    assert "b[i] += maximum(b[i], (double)c[i]) * 0.1;" in text
    for helper in ("wrapping_div(T a", "wrapping_mul(T a", "maximum(T a"):
        assert text.count(helper) == 1
