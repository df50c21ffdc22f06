"""Index and task arithmetic is exact for all sizes, or the launch refuses the sizes.

Decision `exact-indices`.
"""

from __future__ import annotations

import ctypes

import pytest
from fake_runtime import HostFunction
from hypothesis import HealthCheck, Phase, assume, given, settings
from hypothesis import strategies as st
from on_the_host import GXX, compiled, emitted

from exogpu import proc
from exogpu.codegen.control_text import Control, c_control, simplify
from exogpu.codegen.fits_int32 import INT, expression_range, limits, number
from exogpu.codegen.instruction_text import helper_text
from exogpu.codegen.runtime import LaunchError
from exogpu.codegen.runtime.binding import check_fits
from exogpu.codegen.runtime.manifest import evaluate as evaluate_json
from exogpu.diagnostics.errors import NOWHERE, ExoGpuError
from exogpu.ir.nodes import Add, CVar, FloorDiv, Int, Mod, Mul, Sub
from exogpu.ir.types import Sym
from exogpu.ir.walk import evaluate
from exogpu.kernels.gemm_sm80 import gemm_sm80
from tests.texts import made

needs_gxx = pytest.mark.skipif(GXX is None, reason="no g++ on this machine")

TOO_MANY, TOO_LARGE, WRONG_SIZE = -3, -4, -1
MOST = 2**31 - 1

# --- emitted text against Python's integers ---------------------------------------------------

# An int that remembers whether a value ever left 32 bits.
CHECKED = """
static bool left_int = false;
struct Checked {
    __int128 value;
    Checked(__int128 value) : value(value)
    {
        left_int |= value < -2147483647 - 1 || value > 2147483647;
    }
};
static Checked operator+(Checked a, Checked b) { return a.value + b.value; }
static Checked operator-(Checked a, Checked b) { return a.value - b.value; }
static Checked operator-(Checked a) { return -a.value; }
static Checked operator*(Checked a, Checked b) { return a.value * b.value; }
static Checked operator/(Checked a, Checked b) { return a.value / b.value; }
static Checked operator%(Checked a, Checked b) { return a.value % b.value; }
static bool operator<(Checked a, Checked b) { return a.value < b.value; }
extern "C" bool has_left_int() { bool found = left_int; left_int = false; return found; }
#define int Checked
"""

M, N, i, j = (Sym(name) for name in ("M", "N", "i", "j"))
SIZES = {M: (1, MOST), N: (1, MOST)}
VALUES = (1, 3, 128, 46341, 70000, 2**24, 2**30, MOST - 127, MOST)
FACTORS = st.sampled_from((1, 2, 3, 16, 128, 70000, 2**30))


def expressions(variables):
    leaves = st.one_of(
        st.sampled_from([CVar(name) for name in variables]),
        st.sampled_from([Int(n) for n in (0, 1, 7, 127, -1, 2**30)]),
    )

    def wider(inner):
        return st.one_of(
            st.builds(Add, inner, inner),
            st.builds(Sub, inner, inner),
            st.builds(Mul, st.one_of(FACTORS, FACTORS.map(lambda n: -n)), inner),
            st.builds(FloorDiv, inner, FACTORS),
            st.builds(Mod, inner, FACTORS),
        )

    return st.recursive(leaves, wider, max_leaves=6)


def ranges(variables):
    """First and last value of a loop."""
    names = st.sampled_from([CVar(name) for name in variables])
    ends = st.one_of(
        names,
        st.builds(Mul, st.sampled_from([-1, 2, -3, 70000]), names),
        st.builds(lambda term: FloorDiv(Add(term, Int(127)), 128), names),
        st.builds(lambda term: Mod(term, 4), names),
    )
    starts = st.one_of(st.just(Int(0)), st.just(Int(-5)), ends)
    return st.tuples(starts, ends)


@st.composite
def cases(draw):
    """The bounds of i and of j, and expressions of them: i over sizes, j over sizes and i."""
    bounds = {i: draw(ranges([M, N])), j: draw(ranges([M, N, i]))}
    return bounds, draw(st.lists(expressions([M, N, i, j]), min_size=30, max_size=30))


def instances(bounds, values=VALUES):
    """Sizes at the edges, with iterators at the ends of their ranges."""
    for m in values:
        for n in values:
            outer = {M: m, N: n}
            for at in {evaluate(end, outer) for end in bounds[i]}:
                if evaluate(bounds[i][0], outer) <= at <= evaluate(bounds[i][1], outer):
                    inner = {**outer, i: at}
                    lo, hi = (evaluate(end, inner) for end in bounds[j])
                    if lo <= hi:
                        yield from ({**inner, j: value} for value in {lo, (lo + hi) // 2, hi})


@needs_gxx
@settings(
    max_examples=6,
    deadline=None,
    derandomize=True,
    phases=[Phase.generate],  # each example takes a compiler
    suppress_health_check=list(HealthCheck),
)
@given(cases())
@pytest.mark.slow
def test_where_the_limits_hold_the_text_is_exact(tmp_path_factory, case):
    bounds, found = case
    assume(any(instances(bounds)))  # no loop is always empty
    texts, kept = [], []
    for number_, expr in enumerate(found):
        control = Control(lambda name: name.name, {M, N}, bounds=dict(bounds))
        text = c_control(expr, control)
        for end in (*bounds[i], *bounds[j]):
            control.note(end)
        try:
            kept.append((number_, expr, limits(control, SIZES, NOWHERE)))
        except ExoGpuError:
            continue
        arguments = ", ".join(f"long long {v}_" for v in "MNij")
        declared = "".join(f"int {v}({v}_); " for v in "MNij")
        texts.append(
            f'extern "C" long long e{number_}({arguments})\n'
            f"{{ {declared}return (long long)int({text}).value; }}"
        )
    helpers = helper_text("floor_div") + helper_text("floor_mod")
    folder = tmp_path_factory.mktemp("fits")
    library = compiled(CHECKED + helpers + "\n".join(texts), folder)
    for at in instances(bounds):
        for number_, expr, conditions in kept:
            if all(INT[0] <= evaluate(c, at) <= INT[1] for c in conditions):
                function = library[f"e{number_}"]
                function.restype = ctypes.c_longlong
                library.has_left_int()
                value = function(*(ctypes.c_longlong(at[v]) for v in (M, N, i, j)))
                assert value == evaluate(expr, at), (expr, at)
                assert not library.has_left_int(), (expr, at, conditions)


@settings(max_examples=200, deadline=None)
@given(expressions([M, N]))
def test_intervals_hold_the_value(expr):
    for m in VALUES:
        least, greatest = number(expr, {M: (m, m), N: (1, MOST)})
        for n in VALUES:
            assert least <= evaluate(expr, {M: m, N: n}) <= greatest


@settings(max_examples=40, deadline=None, phases=[Phase.generate])
@given(cases())
def test_expressions_of_sizes_hold_the_value(case):
    """Where loops are empty they hold nothing."""
    bounds, found = case
    control = Control(lambda name: name.name, bounds=dict(bounds))
    for at in instances(bounds, (1, 3, 128, MOST)):
        for expr in found[:10]:
            low, high = expression_range(simplify(expr, {}), control)
            assert evaluate(low, at) <= evaluate(expr, at) <= evaluate(high, at)


def limits_of(*found, free=SIZES, bounds=()):
    control = Control(lambda name: name.name, {M, N}, bounds=dict(bounds))
    for expr in found:
        control.note(expr)
    return limits(control, free, NOWHERE)


def test_what_always_fits_is_not_asked_for():
    """The tile and its last row are below M + 127; so is M + 63."""
    tile = FloorDiv(Add(CVar(M), Int(127)), 128)
    row = Add(Mul(128, CVar(i)), Int(127))
    asked = limits_of(tile, row, Add(CVar(M), Int(63)), bounds={i: (Int(0), Sub(tile, Int(1)))})
    assert asked == (simplify(Add(CVar(M), Int(127)), {}),)
    within = Sub(CVar(M), Mul(64, FloorDiv(Add(CVar(M), Int(63)), 64)))
    assert number(within, SIZES) == (-63, 0)
    assert limits_of(CVar(M), FloorDiv(CVar(M), 2), Mod(CVar(N), 7), Sub(CVar(M), CVar(N))) == ()


@pytest.mark.parametrize(
    "expr",
    [
        Int(2**31),
        Mul(10**15, Mul(10**15, CVar(M))),
        Mod(CVar(M), 2**127),
        FloorDiv(CVar(M), 2**31),
        Add(CVar(M), Int(2**31 - 1)),
        Mul(-(2**31), Mul(2, CVar(M))),
    ],
    ids=str,
)
def test_what_never_fits_is_refused(expr):
    with pytest.raises(ExoGpuError) as refused:
        limits_of(expr)
    assert [d.code for d in refused.value.diagnostics] == ["G811"]


# --- launches ---------------------------------------------------------------------------------


@proc
def many(M: size, x: f32[1] @ CudaGmemLinear):
    with CudaDeviceFunction(blockDim=32):
        for m in cuda_tasks(0, 70000 * M):
            for t in cuda_threads(0, 1, unit=cuda_thread):
                x[0] += 1.0


@proc
def tiles(M: size, x: f32[M] @ CudaGmemLinear):
    with CudaDeviceFunction(blockDim=128):
        for tile in cuda_tasks(0, (M + 127) / 128):
            for t in cuda_threads(0, 128, unit=cuda_thread):
                if 128 * tile + t < M:
                    x[128 * tile + t] = 0.0


@proc
def cube(K: size, M: size, N: size, x: f32[1] @ CudaGmemLinear):
    with CudaDeviceFunction(clusterDim=2, blockDim=32):
        for k in cuda_tasks(0, K - 5):
            for m in cuda_tasks(0, M - 5):
                for n in cuda_tasks(0, N - 5):
                    for c in cuda_threads(0, 1, unit=cuda_cta_in_cluster):
                        for t in cuda_threads(0, 1, unit=cuda_thread):
                            x[0] += 1.0


@proc
def loops(M: size, k: index, d: f32[1] @ CudaGmemLinear):
    assert 3 * M + k <= 6000000000
    for i in seq(0, 70000 * M):
        if i == 70000 * M - 1:
            with CudaDeviceFunction(blockDim=32):
                for m in cuda_tasks(0, 1):
                    for t in cuda_threads(0, 1, unit=cuda_thread):
                        if 2 * i + k < 100:
                            d[0] = 1.0


def make_columns(name, extents):
    """Rows of a tile lie apart by the product of two extents, which a helper takes as an int."""
    return made(
        f"""
@proc
def {name}(H: size, N: size, x: f32[16, {extents}] @ CudaGmemLinear):
    assert N >= 8
    with CudaDeviceFunction(blockDim=32):
        for task in cuda_tasks(0, 1):
            for w in cuda_threads(0, 1, unit=cuda_warp):
                D: f32[16, 8] @ Sm80_RmemMatrixD(16, 8)
                Sm80_zero_D(D[:, :])
                Sm80_store_D(16, 8, x[:, 0, 0:8], D[:, :])
"""
    )


columns = make_columns("columns", "H, N")

LAUNCHES = [
    (columns, {"H": 46341, "N": 46340}, 0, 1),
    (columns, {"H": 46341, "N": 46341}, TOO_LARGE, 0),
    (columns, {"H": MOST, "N": MOST}, TOO_LARGE, 0),
    (many, {"M": 1}, 0, 264),
    (many, {"M": 30000}, 0, 264),
    (many, {"M": 30678}, 0, 264),
    (many, {"M": 30679}, TOO_LARGE, 0),
    (many, {"M": 70000}, TOO_LARGE, 0),
    (many, {"M": 61356676}, TOO_LARGE, 0),
    (many, {"M": 0}, WRONG_SIZE, 0),
    (tiles, {"M": 1}, 0, 1),
    (tiles, {"M": MOST - 127}, 0, 264),
    (tiles, {"M": MOST - 126}, TOO_LARGE, 0),
    (tiles, {"M": MOST}, TOO_LARGE, 0),
    (tiles, {"M": MOST + 1}, TOO_LARGE, 0),
    (tiles, {"M": 2**32 + 1}, TOO_LARGE, 0),
    (tiles, {"M": -1}, WRONG_SIZE, 0),
    (cube, {"K": 6, "M": 7, "N": 8}, 0, 12),
    (cube, {"K": 1, "M": 1, "N": 8}, 0, 0),  # two negative counts are no positive one
    (cube, {"K": MOST, "M": MOST, "N": MOST}, TOO_MANY, 0),
    (cube, {"K": MOST, "M": MOST, "N": 5}, 0, 0),
    (cube, {"K": MOST - 61, "M": 6, "N": 6}, 0, 132),
    (cube, {"K": MOST - 60, "M": 6, "N": 6}, TOO_MANY, 0),  # the next task has a number too
    (cube, {"K": MOST, "M": 6, "N": 7}, TOO_MANY, 0),
    (loops, {"M": 1, "k": 0}, 0, 1),
    (loops, {"M": 1, "k": MOST}, TOO_LARGE, 0),
    (loops, {"M": MOST, "k": MOST}, WRONG_SIZE, 0),
    (loops, {"M": 1, "k": -(2**31) - 1}, TOO_LARGE, 0),
]


@pytest.fixture(scope="module")
def functions(tmp_path_factory):
    return {
        p: HostFunction(p, tmp_path_factory.mktemp(p.name))
        for p in (many, tiles, cube, loops, columns)
    }


@needs_gxx
@pytest.mark.parametrize(("procedure", "sizes", "status", "grid"), LAUNCHES)
def test_the_c_function_launches_what_is_asked_for_or_says_so(
    functions, procedure, sizes, status, grid
):
    function = functions[procedure]
    assert (function(**sizes), function.grid) == (status, grid)


@pytest.mark.parametrize(
    ("procedure", "sizes", "status", "grid"), [c for c in LAUNCHES if c[0] is not loops]
)
def test_the_manifest_says_the_same(procedure, sizes, status, grid):
    """Sizes beyond 32 bits are refused before: by `bind`."""
    (launch,) = emitted(procedure).manifest["steps"]
    if status == WRONG_SIZE or max(sizes.values()) > MOST:
        return
    if status == TOO_LARGE:
        with pytest.raises(LaunchError, match=r"more than 32 bits"):
            check_fits(launch["fits"], sizes)
        return
    check_fits(launch["fits"], sizes)
    tasks = 1
    for count in launch["tasks"][0]:
        tasks *= max(0, evaluate_json(count, sizes))
    assert (tasks + 66 > MOST) == (status == TOO_MANY) or procedure is not cube


def test_a_distance_of_constants_is_refused_where_it_stands():
    """A row of 2^32 elements; 2^31 - 1 of them are still taken."""
    for extents, refused in (
        ("65536, 65536", True),
        ("2, 1073741824", True),
        ("1, 2147483647", False),
    ):
        kernel = make_columns("fixed", extents)
        if not refused:
            assert emitted(kernel).manifest["steps"][0]["fits"] == []
            continue
        with pytest.raises(ExoGpuError) as error:
            emitted(kernel)
        (found,) = error.value.diagnostics
        assert found.code == "G811" and "Sm80_store_D" in found.span.text


def test_a_distance_within_shared_memory_is_no_limit():
    """Of one extent it is that extent, which is noted anyway."""
    assert emitted(gemm_sm80).manifest["steps"][0]["fits"] == [
        ["+", "M", 63],
        ["+", "N", 63],
        ["+", "K", 15],
        ["+", ["*", 16, ["//", ["+", "K", 15], 16]], 12],
    ]


def test_constants_without_a_type_are_refused_where_they_stand():
    @proc
    def huge(x: f32[1] @ CudaGmemLinear):
        with CudaDeviceFunction(blockDim=32):
            for m in cuda_tasks(0, 3000000000):
                for t in cuda_threads(0, 1, unit=cuda_thread):
                    x[0] += 1.0

    @proc
    def inside(M: size, x: f32[M] @ CudaGmemLinear):
        with CudaDeviceFunction(blockDim=32):
            for m in cuda_tasks(0, M):
                for t in cuda_threads(0, 1, unit=cuda_thread):
                    x[(1000000000000000 * (1000000000000000 * m)) % M_] += 1.0

    for procedure, text in ((huge, "3000000000"), (inside, "1000000000000000")):
        with pytest.raises(ExoGpuError) as refused:
            emitted(procedure)
        (found,) = refused.value.diagnostics
        assert found.code == "G811"
        assert text in found.span.text


M_ = 7


@needs_gxx
def test_tiles_of_wide_rectangles(tmp_path):
    """Bands of 8 rows have more tiles than an int counts; there is one row."""
    names = ("grouped_tile", "hilbert_tile")
    text = "\n".join(map(helper_text, names)).replace("min(", "::min<int>(")
    text += """
    extern "C" long long grouped(int number, int rows, int columns) {
        int2 found = grouped_tile(number, rows, columns, 8);
        return (long long)found.x << 32 | found.y;
    }
    """
    library = compiled("#include <stdlib.h>\n" + text, tmp_path)
    library.grouped.restype = ctypes.c_longlong
    for rows, columns in ((1, MOST), (2, MOST // 2), (MOST, 1), (9, MOST // 9)):
        last = library.grouped(rows * columns - 1, rows, columns)
        assert (last >> 32, last & 0xFFFFFFFF) == (rows - 1, columns - 1)
