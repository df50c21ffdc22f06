"""Every function of data on every type: kernels of them, inputs, and what they have to give.

Each kernel has one row of output for each of its expressions.  What a row has to be is the typed
expression's meaning on numpy, without the frontend or the interpreter's loops.
"""

from __future__ import annotations

import importlib.util
import sys
import types
from collections.abc import Iterable, Iterator, Mapping
from dataclasses import dataclass
from functools import cache
from pathlib import Path
from typing import Any, Final

import numpy as np

ROOT: Final = Path(__file__).resolve().parent.parent


def without_solvers() -> None:
    """Lets `exogpu.interpreter.functions` be imported where there is no solver: the package's
    entrance, which needs one, is left out."""
    package = types.ModuleType("exogpu.interpreter")
    package.__path__ = [str(ROOT / "exogpu" / "interpreter")]
    sys.modules.setdefault("exogpu.interpreter", package)


if importlib.util.find_spec("islpy") is None:
    without_solvers()

from exogpu.interpreter import functions as meanings  # noqa: E402
from exogpu.interpreter.values import NUMPY, stored  # noqa: E402
from exogpu.ir import nodes as ir  # noqa: E402
from exogpu.ir import scalars  # noqa: E402
from exogpu.ir.scalar_functions import (  # noqa: E402
    EXACT,
    FUNCTIONS,
    MODES,
    UNSIGNED,
    WRITTEN,
    Error,
    called_as,
    error_of,
)
from exogpu.ir.types import FLOATS, DataType, Sym  # noqa: E402

Array = np.ndarray[Any, Any]
INTEGERS: Final = tuple(dtype for dtype in DataType if dtype not in FLOATS)
WORDS: Final = (DataType.I32, DataType.UI32)
TABLES: Final = (0x00, 0x96, 0xE8, 0xCA, 0x2A, 0xFE)
"""Tables of lop3."""


@dataclass(frozen=True, slots=True)
class Case:
    """`function(arguments)`: elements of the inputs `a`, `b`, ..., or constants."""

    function: str
    arguments: tuple[str | int, ...]
    gives: DataType

    @property
    def text(self) -> str:
        """The expression of an element."""
        row, (name, word) = FUNCTIONS[self.function], called_as(self.function)
        given = [f"{a}[i, t]" if isinstance(a, str) else str(a) for a in self.arguments]
        if row.symbol and len(given) == 2:
            return f"{given[0]} {row.symbol} {given[1]}"
        if row.symbol:
            return f"{row.symbol}{given[0]}"
        return f"{name}({', '.join([*given, *filter(None, [word])])})"


@dataclass(frozen=True, slots=True)
class Group:
    """A kernel of cases with the same inputs, which have the types of `inputs`."""

    name: str
    inputs: Mapping[str, DataType]
    cases: tuple[Case, ...]

    def rows(self) -> dict[DataType, list[Case]]:
        """The cases by the types of their results."""
        found: dict[DataType, list[Case]] = {}
        for case in self.cases:
            found.setdefault(case.gives, []).append(case)
        return found


def _unary(dtype: DataType) -> Iterator[Case]:
    for to in DataType:
        yield Case(to.value, ("a",), to)
        if dtype in FLOATS and to not in FLOATS:
            yield from (Case(f"{to.value}.{mode}", ("a",), to) for mode in MODES)
        if dtype not in FLOATS and to in FLOATS:
            yield Case(f"from_bits.{to.value}", ("a",), to)
    if dtype in FLOATS:
        yield Case("bits", ("a",), UNSIGNED[dtype])
    computed = scalars.COMPUTES[dtype]
    for name in WRITTEN:
        row = FUNCTIONS[name]
        if len(row.takes) != 1 or "." in name:
            continue
        wanted = {"float": dtype in FLOATS, "f32": dtype in FLOATS and computed is DataType.F32}
        if wanted.get(row.takes[0], row.takes[0] == "integer" and dtype not in FLOATS):
            gives = computed if row.gives == "same" else row.gives
            yield Case(name, ("a",), gives)


def _binary(dtype: DataType) -> Iterator[Case]:
    computed = scalars.COMPUTES[dtype]
    for name in ("&", "|", "^"):
        yield Case(name, ("a", "b"), computed)
    for name in ("//", "%"):
        yield Case(name, ("a", "d"), computed)
        yield Case(name, ("a", 16), computed)
        yield Case(name, ("a", 7), computed)
    for name in ("<<", ">>"):
        yield Case(name, ("a", "n"), computed)
        yield from (Case(name, ("a", count), computed) for count in (0, 5, 31, 32, 64))
    if dtype in WORDS:
        yield Case("mul_hi", ("a", "b"), computed)
        yield Case("byte_perm", ("a", "b", "d"), computed)
        yield from (Case("lop3", ("a", "b", "d", table), computed) for table in TABLES)


def groups() -> tuple[Group, ...]:
    """All kernels."""
    found = [Group(f"of_{d.value}", {"a": d}, tuple(_unary(d))) for d in DataType]
    for dtype in INTEGERS:
        inputs = {"a": dtype, "b": dtype, "d": dtype, "n": DataType.I32}
        found.append(Group(f"of_two_{dtype.value}", inputs, tuple(_binary(dtype))))
    mixed = {"a": DataType.I8, "b": DataType.UI32, "d": DataType.I64, "n": DataType.UI64}
    pairs = (("a", "b"), ("b", "d"), ("a", "d"), ("d", "n"), ("a", "n"), ("b", "a"))
    cases = []
    for left, right in pairs:
        wider = max(
            (scalars.COMPUTES[mixed[one]] for one in (left, right)), key=scalars.WIDTH.index
        )
        cases += [Case(name, (left, right), wider) for name in ("&", "^", "//", "%")]
        cases += [Case(n, (left, right), scalars.COMPUTES[mixed[left]]) for n in ("<<", ">>")]
    return (*found, Group("of_mixed", mixed, tuple(cases)))


def source(group: Group) -> str:
    """The kernel: 256 elements a task."""
    given = [
        f"{name}: {dtype.value}[n_, 256] @ CudaGmemLinear" for name, dtype in group.inputs.items()
    ]
    lines = []
    for gives, cases in group.rows().items():
        given.append(f"o_{gives.value}: {gives.value}[{len(cases)}, n_, 256] @ CudaGmemLinear")
        lines += [f"o_{gives.value}[{row}, i, t] = {c.text}" for row, c in enumerate(cases)]
    body = "".join(f"                {line}\n" for line in lines)
    return (
        f"\n\n@proc\ndef {group.name}(n_: size, {', '.join(given)}):\n"
        "    with CudaDeviceFunction(blockDim=256):\n"
        "        for i in cuda_tasks(0, n_):\n"
        f"            for t in cuda_threads(0, 256, unit=cuda_thread):\n{body}"
    )


def sources(of: Iterable[Group]) -> str:
    """The file of kernels."""
    return "from __future__ import annotations\n\nfrom exogpu import *\n" + "".join(map(source, of))


# --- inputs -------------------------------------------------------------------------------


def _edges(dtype: DataType) -> Array:
    width = 8 * dtype.bytes
    near = np.arange(-64, 64)
    found = [near, *((1 << bit) + near for bit in range(6, width - 1, 3))]
    if dtype in FLOATS:
        numbers = np.array([n / 2 for n in range(-40, 41)] + [2.0**k for k in range(5, 66, 5)])
        whole = stored(np.concatenate([numbers, -numbers]), dtype)
        found.append(meanings.bits_of(whole, dtype).astype(np.int64))
    bits = np.concatenate([one.astype(np.int64) for one in found])
    return bits.astype(np.dtype(f"u{dtype.bytes}"))


def patterns(dtype: DataType, count: int, seed: int) -> Array:
    """Bits of numbers: all of 8 and 16 bits, or random ones after those at which types differ."""
    unsigned = np.dtype(f"u{dtype.bytes}")
    if dtype.bytes <= 2:
        return np.resize(np.arange(1 << 8 * dtype.bytes).astype(unsigned), count)
    edges = _edges(dtype)
    random = np.random.default_rng(seed).integers(0, 1 << 8 * dtype.bytes, count, unsigned)
    if dtype in FLOATS:  # half of them of moderate size, where functions are not 0 or infinite
        moderate = np.random.default_rng(seed + 1).normal(0, 4, count).astype(NUMPY[dtype])
        random[::2] = moderate.view(unsigned)[::2]
    random[: len(edges)] = edges[:count]
    return random


def bits_of_inputs(group: Group, count: int) -> dict[str, Array]:
    """The bits of each input: all pairs of 8 bits, where there are two."""
    found = {name: patterns(d, count, ord(name)) for name, d in group.inputs.items()}
    if "b" in found and group.inputs["b"].bytes == 1:
        found["b"] = np.resize(np.repeat(np.arange(256), 256), count).astype(np.uint8)
    for name in {"b", "d"} & found.keys():
        if group.inputs[name].bytes == 2:  # not the same as a
            found[name] = np.random.default_rng(ord(name)).permutation(found[name])
    if "d" in found:
        found["d"] = np.where(found["d"] == 0, 3, found["d"]).astype(found["d"].dtype)
        if group.inputs["d"].bytes == 1:
            found["d"] = np.where(found["b"] == 0, 3, found["b"]).astype(np.uint8)
    if group.inputs.get("n") is DataType.I32:
        counts = np.random.default_rng(0).integers(-3, 70, count)
        found["n"] = counts.astype(np.int32).view(np.uint32)
    if group.inputs.get("n") is DataType.UI64:
        found["n"] = np.where(found["n"] == 0, 3, found["n"]).astype(np.uint64)
        found["n"][1::2] = found["n"][1::2] % 70 + 1
    if group.name == "of_mixed":
        found["a"] = np.where(found["a"] == 0, 3, found["a"]).astype(np.uint8)
        found["b"] = np.where(found["b"] == 0, 3, found["b"]).astype(np.uint32)
    return found


# --- meaning ------------------------------------------------------------------------------


def numbers_of(bits: Array, dtype: DataType) -> Array:
    """The values that bits are, as `run` takes them."""
    if dtype in FLOATS:
        return np.asarray(meanings.with_bits(bits, dtype))
    return bits.view(NUMPY[dtype])


def bits_of(values: Array, dtype: DataType) -> Array:
    """The bits of values."""
    if dtype in FLOATS:
        return np.asarray(meanings.bits_of(values, dtype))
    return values.view(np.dtype(f"u{dtype.bytes}"))


@cache
def _symbol(name: str) -> Sym:
    return Sym(name)


def wanted(case: Case, group: Group, values: Mapping[str, Array]) -> Array:
    """The result that the case has to give, of the numbers of the inputs."""
    terms: tuple[ir.DExpr, ...] = tuple(
        ir.Read(ir.Access(_symbol(a), ())) if isinstance(a, str) else ir.Const(a)
        for a in case.arguments
    )
    types_of = {_symbol(name): dtype for name, dtype in group.inputs.items()}
    of = types_of.__getitem__
    typed = scalars.assigned_scalar(ir.Apply(case.function, terms), case.gives, of)
    with np.errstate(all="ignore"):
        found = _value(typed, values)
        copies = scalars.is_of_type(typed, case.gives, of)
        return found.astype(NUMPY[case.gives]) if copies else np.asarray(stored(found, case.gives))


def _value(scalar: scalars.Scalar, values: Mapping[str, Array]) -> Array:
    match scalar:
        case scalars.Constant():
            found: Array = np.asarray(scalar.value)
        case scalars.Element():
            found = values[scalar.access.name.name]
        case scalars.Convert():
            found = _value(scalar.term, values)
        case scalars.Operation():
            terms = [_value(argument, values) for argument in scalar.arguments]
            found = np.asarray(meanings.apply(scalar.function, terms))
    return found.astype(NUMPY[scalar.dtype], copy=False)


def wrong(case: Case, group: Group, inputs: Mapping[str, Array], got: Array) -> tuple[Array, float]:
    """Returns the places of results that the case may not give, by the bits of inputs and results;
    and the greatest error in units of the last place."""
    values = {name: numbers_of(bits, group.inputs[name]) for name, bits in inputs.items()}
    right = wanted(case, group, values)
    same = bits_of(right, case.gives) == got
    if case.gives not in FLOATS:
        return ~same, 0.0
    found = numbers_of(got, case.gives)
    same |= np.isnan(right) & np.isnan(found)
    computed = scalars.COMPUTES[case.gives]
    error = error_of(case.function, computed)
    if error == EXACT:
        return ~same, 0.0
    return _far(error, values["a"], right, found, same)


def _far(
    error: Error, given: Array, right: Array, found: Array, same: Array
) -> tuple[Array, float]:
    with np.errstate(all="ignore"):
        away = np.abs(found.astype(np.float64) - right.astype(np.float64))
        unit = np.abs(np.spacing(right)).astype(np.float64)
        near = same | (away <= np.maximum(error.ulp * unit, error.absolute))
        outside = ~(np.abs(given) <= error.within)
        if error.flushes:
            least = np.finfo(right.dtype).tiny
            small = np.abs(given) < least
            near |= small | ((np.abs(right) <= least) & (np.abs(found) <= least))
            near |= (np.abs(given) >= 1 / least / 4) & (np.abs(found) <= 2 * least)
        counted = (
            ~same & ~outside & np.isfinite(away) & (np.abs(right) >= np.finfo(right.dtype).tiny)
        )
        most = float(np.max(away[counted] / unit[counted], initial=0.0))
    return ~near & ~outside, most
