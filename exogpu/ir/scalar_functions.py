"""The functions of data, a row each: operands, result, meaning on numpy, CUDA text, error.

A row is all that a new function needs, unless its meaning or text takes more than an expression:
then a function of `exogpu.interpreter.values`, or a file of `codegen/prelude`, has it.
"""

from __future__ import annotations

from collections.abc import Callable, Mapping
from dataclasses import dataclass
from typing import Any, Final, Literal, TypeAlias

from exogpu.ir.types import FLOATS, DataType

Operand: TypeAlias = Literal[
    "number", "float", "integer", "word", "count", "compared", "f32", "any", "stored", "literal"
]
"""The kinds of arguments, and the type in which each is computed:

`number`, `float` (floating point), `integer`, `word` (an integer of 32 bits): the widest of all of
these; `compared`: the widest of its own; `count`: an integer, `any`: a number, each in its own
type; `f32`; `stored`: floating point, as its variable stores it; `literal`: a constant of 0 to 255.
"""

JOINED: Final[frozenset[Operand]] = frozenset({"number", "float", "integer", "word"})
"""Operands that have one type, the widest."""

OF_INTEGERS: Final[frozenset[Operand]] = frozenset({"integer", "word", "count"})
OF_FLOATS: Final[frozenset[Operand]] = frozenset({"float", "f32", "stored"})

MODES: Final[Mapping[str, int]] = {"rn": 0, "rz": 1, "rm": 2, "rp": 3}
"""Roundings to an integer, as PTX calls them: to nearest even, towards zero, down and up."""

UNSIGNED: Final[Mapping[DataType, DataType]] = {
    DataType.F8E4M3: DataType.UI8,
    DataType.F8E5M2: DataType.UI8,
    DataType.F16: DataType.UI16,
    DataType.BF16: DataType.UI16,
    DataType.F32: DataType.UI32,
    DataType.F64: DataType.UI64,
}
"""The types of the bits of floats."""


@dataclass(frozen=True, slots=True)
class Error:
    """The distance that a device may have from the meaning, which is the nearest number of f32, and
    of f64 what numpy computes."""

    ulp: float = 0
    """In units of the last place of the result."""
    absolute: float = 0
    """Or so much, where that is more."""
    within: float = float("inf")
    """For arguments of at most this size."""
    flushes: bool = False
    """Subnormal arguments and results may be 0."""


EXACT: Final = Error()


@dataclass(frozen=True, slots=True)
class ScalarFunction:
    """A function of data."""

    takes: tuple[Operand, ...]
    gives: DataType | Literal["same"]
    """`same`: the type of the joined operands."""
    meaning: Callable[..., Any]
    """A function of `exogpu.interpreter.values` and the arguments, arrays of the types that
    `takes` says."""
    cuda: str | tuple[str, str]
    """CUDA text; a pair is that of f32 and of f64.  `{0}` is an argument, `{0.tight}` one that an
    operator may stand next to, `{one}` and `{zero}` are constants of its type, `{T}` is the C type
    of the result."""
    error: Error | tuple[Error, Error] = EXACT
    """A pair is that of f32 and of f64."""
    fold: Callable[..., int] | None = None
    """The value for integer constants, computed without a limit."""
    symbol: str = ""
    """The operator between its two operands or before its one; empty for a call."""
    binds: Literal["call", "product", "unary"] = "call"
    """The strength by which the CUDA text binds."""
    note: str = ""
    """The part of the meaning that its name leaves open."""


def _of_float(
    meaning: Callable[..., Any],
    name: str,
    error: Error | tuple[Error, Error] = EXACT,
    note: str = "",
) -> ScalarFunction:
    """A function of one float; C's name of that of f32 has an f more."""
    text = (f"{name}f({{0}})", f"{name}({{0}})")
    return ScalarFunction(("float",), "same", meaning, text, error, note=note)


def _ulps(of_f32: float, of_f64: float) -> tuple[Error, Error]:
    return Error(of_f32), Error(of_f64)


def _fast(meaning: Callable[..., Any], name: str, error: Error, note: str) -> ScalarFunction:
    """A function of f32 with an instruction of its own, or a few."""
    return ScalarFunction(("f32",), DataType.F32, meaning, f"{name}({{0}})", error, note=note)


def _operator(
    symbol: str,
    meaning: Callable[..., Any],
    cuda: str,
    fold: Callable[..., int] | None,
    takes: tuple[Operand, ...] = ("integer", "integer"),
    note: str = "",
) -> ScalarFunction:
    return ScalarFunction(takes, "same", meaning, cuda, fold=fold, symbol=symbol, note=note)


_OPERATORS: Final[Mapping[str, ScalarFunction]] = {
    "&": _operator("&", lambda v, a, b: a & b, "({0} & {1})", lambda a, b: a & b),
    "|": _operator("|", lambda v, a, b: a | b, "({0} | {1})", lambda a, b: a | b),
    "^": _operator("^", lambda v, a, b: a ^ b, "({0} ^ {1})", lambda a, b: a ^ b),
    "~": _operator("~", lambda v, a: ~a, "(~{0.tight})", lambda a: ~a, ("integer",)),
    "<<": _operator(
        "<<",
        lambda v, a, n: v.shift_left(a, n),
        "shift_left({0}, {1})",
        None,
        ("integer", "count"),
        "0 by a count that is negative or beyond the width, as PTX's shl",
    ),
    ">>": _operator(
        ">>",
        lambda v, a, n: v.shift_right(a, n),
        "shift_right({0}, {1})",
        None,
        ("integer", "count"),
        "arithmetic of signed ones; by such a count the sign alone is left",
    ),
    "//": _operator(
        "//",
        lambda v, a, b: v.floor_divide(a, b),
        "quotient_down({0}, {1})",
        lambda a, b: a // b,
        note="rounded down",
    ),
    "%": _operator(
        "%",
        lambda v, a, b: v.remainder(a, b),
        "remainder_down({0}, {1})",
        lambda a, b: a % b,
        note="of `//`: it has the sign of b",
    ),
}

_OF_NUMBERS: Final[Mapping[str, ScalarFunction]] = {
    "min": ScalarFunction(
        ("number", "number"), "same", lambda v, a, b: v.minimum(a, b), "minimum({0}, {1})", fold=min
    ),
    "max": ScalarFunction(
        ("number", "number"), "same", lambda v, a, b: v.maximum(a, b), "maximum({0}, {1})", fold=max
    ),
    "relu": ScalarFunction(
        ("number",),
        "same",
        lambda v, a: v.maximum(a, v.np.zeros((), a.dtype)),
        "maximum({0}, {zero})",
        fold=lambda a: max(a, 0),
        note="max(a, 0)",
    ),
    "select": ScalarFunction(
        ("compared", "compared", "number", "number"),
        "same",
        lambda v, a, b, x, y: v.np.where(v.np.less(a, b), x, y),
        "({0} < {1} ? {2} : {3})",
        fold=lambda a, b, x, y: x if a < b else y,
        note="c where a < b, else d",
    ),
}

_OF_FLOATS: Final[Mapping[str, ScalarFunction]] = {
    "fma": ScalarFunction(
        ("float", "float", "float"),
        "same",
        lambda v, a, b, c: v.fused(a, b, c),
        ("fmaf({0}, {1}, {2})", "fma({0}, {1}, {2})"),
        fold=lambda a, b, c: a * b + c,
        note="a * b + c, rounded once",
    ),
    "exp": _of_float(lambda v, a: v.nearest(v.np.exp, a), "exp", _ulps(2, 3)),
    "exp2": ScalarFunction(
        ("float",),
        "same",
        lambda v, a: v.nearest(v.np.exp2, a),
        "power_of_two({0})",
        (Error(3, flushes=True), Error(3)),
        note="of f32 `ex2.approx`",
    ),
    "log": _of_float(lambda v, a: v.nearest(v.np.log, a), "log", _ulps(2, 3)),
    "log2": _of_float(lambda v, a: v.nearest(v.np.log2, a), "log2", _ulps(2, 3)),
    "sqrt": _of_float(lambda v, a: v.np.sqrt(a), "sqrt"),
    "rsqrt": ScalarFunction(
        ("float",),
        "same",
        lambda v, a: v.np.divide(v.np.ones((), a.dtype), v.np.sqrt(a)),
        ("{one} / sqrtf({0})", "{one} / sqrt({0})"),
        binds="product",
        note="1 / sqrt(a)",
    ),
    "rcp": ScalarFunction(
        ("float",),
        "same",
        lambda v, a: v.np.divide(v.np.ones((), a.dtype), a),
        "{one} / {0.tight}",
        binds="product",
        note="1 / a",
    ),
    "sin": _of_float(lambda v, a: v.nearest(v.np.sin, a), "sin", _ulps(2, 3)),
    "cos": _of_float(lambda v, a: v.nearest(v.np.cos, a), "cos", _ulps(2, 3)),
    "tanh": _of_float(lambda v, a: v.nearest(v.np.tanh, a), "tanh", _ulps(3, 5)),
    "sigmoid": ScalarFunction(
        ("float",),
        "same",
        lambda v, a: v.nearest(lambda x: 1 / (1 + v.np.exp(-x)), a),
        ("{one} / ({one} + expf(-{0.tight}))", "{one} / ({one} + exp(-{0.tight}))"),
        (Error(4, flushes=True), Error(4)),
        binds="product",
    ),
    "erf": _of_float(lambda v, a: v.erf(a), "erf", _ulps(3, 3)),
    "floor": _of_float(lambda v, a: v.np.floor(a), "floor"),
    "ceil": _of_float(lambda v, a: v.np.ceil(a), "ceil"),
    "trunc": _of_float(lambda v, a: v.np.trunc(a), "trunc", note="towards zero"),
    "round": _of_float(lambda v, a: v.np.rint(a), "rint", note="to nearest even"),
    "ordinal": ScalarFunction(
        ("f32",),
        DataType.I32,
        lambda v, a: v.ordinal(a),
        "ordinal({0})",
        note="in the order of the floats: -0 gives -1, 0 gives 0, and NaN more than infinity",
    ),
    "tf32": ScalarFunction(
        ("f32",),
        DataType.F32,
        lambda v, a: v.round_tf32(a),
        "nearest_tf32({0})",
        note="the nearest number of TF32",
    ),
}

_FAST: Final[Mapping[str, ScalarFunction]] = {
    "fast_exp": _fast(
        lambda v, a: v.nearest(v.np.exp, a),
        "fast_exp",
        Error(128, within=88.0, flushes=True),
        note="`__expf`",
    ),
    "fast_exp2": _fast(
        lambda v, a: v.nearest(v.np.exp2, a),
        "power_of_two",
        Error(4, flushes=True),
        note="`ex2.approx`",
    ),
    "fast_log": _fast(
        lambda v, a: v.nearest(v.np.log, a),
        "fast_log",
        Error(4, 2.0**-21, flushes=True),
        note="`__logf`",
    ),
    "fast_log2": _fast(
        lambda v, a: v.nearest(v.np.log2, a),
        "fast_log2",
        Error(4, 2.0**-21, flushes=True),
        note="`__log2f`",
    ),
    "fast_sin": _fast(
        lambda v, a: v.nearest(v.np.sin, a),
        "fast_sin",
        Error(0, 2.0**-20, 3.14, flushes=True),
        note="`__sinf`",
    ),
    "fast_cos": _fast(
        lambda v, a: v.nearest(v.np.cos, a),
        "fast_cos",
        Error(0, 2.0**-20, 3.14, flushes=True),
        note="`__cosf`",
    ),
    "fast_tanh": _fast(
        lambda v, a: v.nearest(v.np.tanh, a),
        "fast_tanh",
        Error(2.0**14, flushes=True),
        note="`tanh.approx`",
    ),
    "fast_rcp": _fast(
        lambda v, a: v.np.divide(v.np.float32(1), a),
        "fast_rcp",
        Error(2, flushes=True),
        note="`rcp.approx`",
    ),
    "fast_rsqrt": _fast(
        lambda v, a: v.nearest(lambda x: 1 / v.np.sqrt(x), a),
        "fast_rsqrt",
        Error(4, flushes=True),
        note="`rsqrt.approx`",
    ),
}

_OF_INTEGERS: Final[Mapping[str, ScalarFunction]] = {
    "popcount": ScalarFunction(
        ("integer",),
        DataType.I32,
        lambda v, a: v.popcount(a),
        "popcount({0})",
        note="bits that are 1",
    ),
    "clz": ScalarFunction(
        ("integer",),
        DataType.I32,
        lambda v, a: v.leading_zeros(a),
        "leading_zeros({0})",
        note="zeros before the first 1",
    ),
    "mul_hi": ScalarFunction(
        ("word", "word"),
        "same",
        lambda v, a, b: v.upper_product(a, b),
        "upper_product({0}, {1})",
        note="the upper 32 bits of the product",
    ),
    "byte_perm": ScalarFunction(
        ("word", "word", "word"),
        "same",
        lambda v, a, b, s: v.permuted_bytes(a, b, s),
        "permuted_bytes({0}, {1}, {2})",
        note="PTX's prmt, which replicates signs too",
    ),
    "lop3": ScalarFunction(
        ("word", "word", "word", "literal"),
        "same",
        lambda v, a, b, c, table: v.three_operands(a, b, c, table),
        "three_operands<{3}>({0}, {1}, {2})",
        note="PTX's lop3, whose table d is a constant, such as 0xE8",
    ),
}


def _conversions(to: DataType) -> Mapping[str, ScalarFunction]:
    """The conversion to a type, by its names."""
    if to in FLOATS:
        plain = to in (DataType.F32, DataType.F64)
        text = "({T}){0.tight}" if plain else f"to_{to.value}({{0}})"
        return {
            to.value: ScalarFunction(
                ("any",), to, lambda v, a: v.stored(a, to), text, binds="unary" if plain else "call"
            ),
            f"from_bits.{to.value}": ScalarFunction(
                ("integer",),
                to,
                lambda v, a: v.with_bits(a, to),
                "number_of<{T}>({0})" if plain else "({T}){0.tight}",
                binds="call" if plain else "unary",
            ),
            f"bits.{to.value}": ScalarFunction(
                ("stored",),
                UNSIGNED[to],
                lambda v, a: v.bits_of(a, to),
                "bits_of({0})" if plain else "{0.tight}",
                binds="call" if plain else "unary",
            ),
        }
    found = {
        to.value: ScalarFunction(
            ("any",), to, lambda v, a: v.stored(a, to), "({T}){0.tight}", binds="unary"
        )
    }
    for mode, number in MODES.items():
        found[f"{to.value}.{mode}"] = ScalarFunction(
            ("float",),
            to,
            lambda v, a, mode=mode: v.to_integer(a, to, mode),
            f"to_integer<{{T}}, {number}>({{0}})",
        )
    return found


FUNCTIONS: Final[Mapping[str, ScalarFunction]] = {
    **_OPERATORS,
    **_OF_NUMBERS,
    **_OF_FLOATS,
    **_FAST,
    **_OF_INTEGERS,
    "bits": ScalarFunction(("stored",), DataType.UI32, lambda v, a: v.bits_of(a), ""),
    **{name: row for to in DataType for name, row in _conversions(to).items()},
}
"""By name; after a point follows what is written as a last argument: `i32.rz` is `i32(x, rz)`, and
`from_bits.f32` is `from_bits(i, f32)`.  What `bits` means and is emitted as depends on the type:
`bits.f32`, which is never written.  So it is with `i32` of floating point, which is `i32.rz`."""

WRITTEN: Final = tuple(name for name in FUNCTIONS if not name.startswith("bits."))
"""The functions that an expression may have."""

ARITY: Final[Mapping[str, int]] = {name: len(FUNCTIONS[name].takes) for name in WRITTEN}
"""The number of arguments of each."""

SYMBOLS: Final = frozenset(_OPERATORS)
"""The functions that are operators."""

CALLED: Final = tuple(
    dict.fromkeys(name.partition(".")[0] for name in WRITTEN if name not in SYMBOLS)
)
"""The names that calls have."""


def error_of(name: str, dtype: DataType) -> Error:
    """The error of a function whose result is computed in a type."""
    error = FUNCTIONS[name].error
    return error if isinstance(error, Error) else error[dtype is DataType.F64]


def called_as(name: str) -> tuple[str, str]:
    """The name of a call, and the last argument that is a word; empty if there is none.

    >>> called_as("i32.rz"), called_as("exp")
    (('i32', 'rz'), ('exp', ''))
    """
    plain, _, word = name.partition(".")
    return plain, word
