"""Products of groups of rows, and rows at places that memory tells, in one call."""

from __future__ import annotations

from functools import cache
from typing import Any, Final

from exogpu.codegen.runtime import Kernel
from exogpu.codegen.runtime.arrays import ITEM_SIZE
from exogpu.codegen.runtime.manifest import LaunchError
from exogpu.kernels.array_arguments import (
    AT_ONCE,
    as_integer,
    by_rows,
    check,
    empty_array,
    launch,
    rank_of,
    scratch,
    type_of,
    whole_vectors,
)
from exogpu.kernels.repeated_calls import remember_calls

_TYPES: Final = ("bf16", "f16", "f32")
TILE: Final = 128
"""Rows of a tile."""
WIDE: Final = 256
"""Columns of a tile."""
NARROW: Final = 128
"""The columns of a tile where wide tiles would not fill the multiprocessors."""
MOST_ROWS: Final = 1 << 30
"""Rows that tables of 32 bits number."""


@remember_calls
def grouped_gemm(A: Any, B: Any, offsets: Any, out: Any = None, *, stream: object = None) -> Any:
    """C[m] = B[g] A[m], g being the group of row m: A is (M, K), sorted by group, and B (G, N, K).

    Rows `offsets[g]` to `offsets[g + 1]` are group g: offsets is int32, begins with 0, never
    decreases and ends with M, which is not looked at; rows outside of all groups are left as they
    are.  All of A and B are bf16, or f16, or f32, which is multiplied as TF32.  Nothing is copied
    to the CPU.  Arrays, streams and errors are those of `gemm`.
    """
    rank_of("A", A, (2,))
    rank_of("B", B, (3,))
    rank_of("offsets", offsets, (1,))
    (M, K), (G, N, columns) = (tuple(map(int, x.shape)) for x in (A, B))
    if columns != K:
        raise LaunchError(f"A is {tuple(A.shape)} and B is {tuple(B.shape)}", "both have K columns")
    if int(offsets.shape[0]) != G + 1:
        what = f"B has {G} groups, and offsets {offsets.shape[0]} elements"
        raise LaunchError(what, "give where each group begins, and where the last one ends")
    dtype = type_of("A", A, _TYPES)
    if type_of("B", B, _TYPES) != dtype:
        raise LaunchError(f"A is {A.dtype} and B is {B.dtype}", "convert one of them")
    type_of("offsets", offsets, ("i32",))
    whole_vectors(K, dtype)
    if M >= MOST_ROWS:
        raise LaunchError(f"A has {M} rows", f"give fewer than {MOST_ROWS} rows at a time")
    for name, array in (("A", A), ("B", B), ("offsets", offsets)):
        by_rows(name, array)
    result = empty_array(A, (M, N)) if out is None else out
    check("out", result, (M, N), dtype)
    for width, cuts, group in _launches(A, offsets, N, stream):
        of = {"A": A, "B": B, "cuts": cuts, "group": group, "C": result}
        launch(kernel(dtype, width), {"C": "out"}, stream=stream, **of)
    return result


def _launches(A: Any, offsets: Any, N: int, stream: object) -> list[tuple[int, Any, Any]]:
    """Returns for each launch the columns of its tiles, the begin of their rows, and their
    groups."""
    M, G = int(A.shape[0]), int(offsets.shape[0]) - 1

    def tables(count: int) -> tuple[Any, Any]:
        return scratch(A, (count + 1,), "int32", stream), scratch(A, (count,), "int32", stream)

    cuts, group = tables(M // TILE + G)
    columns = -(-N // WIDE)  # tiles of a row
    wide = -(-M // TILE) * columns >= AT_ONCE
    last = AT_ONCE * NARROW // WIDE // columns  # rows of narrow tiles in a round
    if not wide or not last:
        tile_divider(TILE)(stream=stream, G=G, offsets=offsets, cuts=cuts, group=group)
        return [(WIDE if wide else NARROW, cuts, group)]
    of_last = tables(last)
    rounds(TILE)(
        stream=stream,
        G=G,
        columns=columns,
        offsets=offsets,
        cuts=cuts,
        group=group,
        last_cuts=of_last[0],
        last_group=of_last[1],
    )
    return [(WIDE, cuts, group), (NARROW, *of_last)]


@cache
def tile_divider(rows: int) -> Kernel:
    """The kernel that divides groups into tiles of so many rows."""
    from exogpu.kernels.grouped_tiles import KERNELS

    return KERNELS[f"grouped_tiles_{rows}"].compile()


@cache
def rounds(rows: int) -> Kernel:
    """The kernel that divides groups into tiles of so many rows, and these into whole rounds of
    wide ones and a last one of narrow ones."""
    from exogpu.kernels import grouped_rounds

    return grouped_rounds.KERNELS[f"grouped_rounds_{rows}"].compile()


@cache
def kernel(dtype: str, columns: int) -> Kernel:
    """The kernel with tiles of so many columns, proved and compiled."""
    from exogpu.kernels import gemm_grouped_sm90

    return gemm_grouped_sm90.KERNELS[name_of(dtype, columns)].compile()


def name_of(dtype: str, columns: int) -> str:
    """Returns the name of the kernel.

    >>> name_of("f32", 256)
    'gemm_grouped_f32_sm90_128x256'
    """
    return f"gemm_grouped_{dtype}_sm90_{TILE}x{columns}"


@remember_calls
def gather_rows(x: Any, index: Any, out: Any = None, *, stream: object = None) -> Any:
    """Row i of the result is row `index[i]` of x: `x[index]`, of f32, bf16 or f16.

    index is int32; an element that is no row of x stops the kernel.  Arrays, streams and errors
    are those of `gemm`.
    """
    kind, columns = _rows(x, index)
    shape = (int(index.shape[0]), columns)
    result = empty_array(x, shape) if out is None else out
    check("out", result, shape, kind)
    launch(rows("gather", kind, columns), {"y": "out"}, stream=stream, x=x, index=index, y=result)
    return result


@remember_calls
def scatter_rows(x: Any, index: Any, out: Any, *, stream: object = None) -> Any:
    """Row `index[i]` of out becomes row i of x: `out[index] = x`, of f32, bf16 or f16.

    No two elements of index are equal, which is not looked at: else each element of such a row is
    of one of the two.  Other rows stay as they are.  As for `gather_rows`.
    """
    kind, columns = _rows(x, index)
    rank_of("out", out, (2,))
    if tuple(index.shape) != tuple(x.shape[:1]) or int(out.shape[1]) != columns:
        what = f"x is {tuple(x.shape)}, index {tuple(index.shape)} and out {tuple(out.shape)}"
        raise LaunchError(what, "give an index for each row of x, and out as many columns")
    check("out", out, tuple(out.shape), kind)
    launch(rows("scatter", kind, columns), {"y": "out"}, stream=stream, x=x, index=index, y=out)
    return out


def _rows(x: Any, index: Any) -> tuple[str, int]:
    """The type of x, and its columns."""
    rank_of("x", x, (2,))
    rank_of("index", index, (1,))
    type_of("index", index, ("i32",))
    kind = type_of("x", x, _TYPES)
    for name, array in (("x", x), ("index", index)):
        by_rows(name, array)
    return kind, int(x.shape[1])


@remember_calls
def histogram(x: Any, bins: int, out: Any = None, *, stream: object = None) -> Any:
    """Counts the elements of x, int32 of one dimension, that are 0, 1, ... bins - 1:
    `torch.bincount`.

    An element that is none of them stops the kernel.  At most 4096 bins; arrays, streams and errors
    are those of `gemm`.
    """
    rank_of("x", x, (1,))
    type_of("x", x, ("i32",))
    by_rows("x", x)
    count = as_integer(bins)
    most = next((n for n in (256, 4096) if 1 <= count <= n), None)
    if most is None:
        plain = isinstance(bins, int | float | str | None)
        said = repr(bins) if plain else f"a {type(bins).__name__}"
        raise LaunchError(f"bins is {said}", "give a number from 1 to 4096")
    result = empty_array(x, (count,)) if out is None else out
    check("out", result, (count,), "i32")
    launch(counting_kernel(most), {"counts": "out"}, stream=stream, x=x, counts=result)
    return result


@cache
def rows(name: str, kind: str, columns: int) -> Kernel:
    """The kernel that gathers or scatters rows of so many columns."""
    from exogpu.kernels import rows_by_index
    from exogpu.kernels.rows_by_index import make_gather, make_scatter

    found = rows_by_index.KERNELS.get(name_of_rows(name, kind, columns))
    if found is None:
        make = make_gather if name == "gather" else make_scatter
        found = make(kind, in_vectors(kind, columns))
    return found.compile()


def in_vectors(kind: str, columns: int) -> bool:
    """Tests whether rows are whole vectors of 16 bytes."""
    return columns * ITEM_SIZE[kind] % 16 == 0


def name_of_rows(name: str, kind: str, columns: int) -> str:
    """Returns the name of the kernel.

    >>> name_of_rows("gather", "bf16", 7)
    'gather_rows_bf16_any'
    """
    return f"{name}_rows_{kind}{'' if in_vectors(kind, columns) else '_any'}"


@cache
def counting_kernel(most: int) -> Kernel:
    """The kernel for so many bins."""
    from exogpu.kernels import histogram_bins

    return histogram_bins.KERNELS[f"histogram_{most}"].compile()
