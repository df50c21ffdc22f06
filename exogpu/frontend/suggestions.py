"""Suggestions in place of constructs of Python or CUDA C++ that the language has not."""

from __future__ import annotations

import ast
from collections.abc import Iterable, Mapping
from difflib import get_close_matches
from typing import Final

from exogpu.hw.language import DATA_TYPES, LANGUAGE
from exogpu.ir.scalar_functions import CALLED

EXECUTED: Final = "procedures are parsed, not executed: use loops, guards, assignments and calls"

_GUARD: Final = "guard by `if` the statements that are not to be executed"
_OUTSIDE: Final = "write it outside of the procedure"

STATEMENTS: Final[Mapping[type[ast.stmt], tuple[str, str]]] = {
    ast.While: (
        "while",
        "write for i in seq(lo, hi), whose bounds are control values: also one from memory, "
        "n = load_index(x[i], lo, hi)",
    ),
    ast.Break: ("break", _GUARD),
    ast.Continue: ("continue", _GUARD),
    ast.Return: ("return", f"write results to parameters, and {_GUARD}"),
    ast.FunctionDef: ("def", f"{_OUTSIDE}, as a @macro or a @proc"),
    ast.ClassDef: ("class", _OUTSIDE),
    ast.Import: ("import", _OUTSIDE),
    ast.ImportFrom: ("import", _OUTSIDE),
    ast.Global: ("global", "leave it out: Python's names are read as values, and keep them"),
    ast.Nonlocal: ("nonlocal", "leave it out: Python's names are read as values, and keep them"),
    ast.Match: ("match", "write if, elif and else"),
    ast.Try: ("try", "leave it out: nothing is raised on a device"),
    ast.Raise: ("raise", "leave it out: nothing is raised on a device"),
}
"""The keyword of a statement that the language has not, and what to write instead."""

_FUNCTIONS: Final[Mapping[str, str]] = {
    **{f"__{name}f": f"fast_{name}(x)" for name in ("exp", "log", "log2", "sin", "cos")},
    **dict.fromkeys(("frcp_rn", "__frcp_rn"), "rcp(x)"),
    **dict.fromkeys(("rint", "nearbyint", "roundeven"), "round(x), to nearest even"),
    **dict.fromkeys(("popc", "popcll", "bitcount"), "popcount(n)"),
    **dict.fromkeys(("clzll", "countl_zero"), "clz(n)"),
    **dict.fromkeys(("umulhi", "mulhi"), "mul_hi(a, b)"),
    **dict.fromkeys(("prmt",), "byte_perm(a, b, s)"),
    **{f"{t}_as_{i}": "bits(x)" for t in ("float", "double") for i in ("int", "uint", "longlong")},
    **{f"{i}_as_float": "from_bits(n, f32)" for i in ("int", "uint")},
    "longlong_as_double": "from_bits(n, f64)",
    **{
        f"{t}2{i}_{mode}": f"{to}(x, {word})"
        for t in ("float", "double")
        for i, to in (("int", "i32"), ("uint", "ui32"), ("ll", "i64"), ("ull", "ui64"))
        for mode, word in (("rn", "rn"), ("rz", "rz"), ("rd", "rm"), ("ru", "rp"))
    },
    "int2float_rn": "f32(n)",
    "float2bfloat16": "bf16(x)",
    "float2half": "f16(x)",
    **dict.fromkeys(("abs", "fabs", "absolute"), "max(x, -x)"),
    **dict.fromkeys(("pow", "square"), "x * x"),
    **dict.fromkeys(("fmax", "maximum", "amax"), "max(a, b)"),
    **dict.fromkeys(("fmin", "minimum", "amin"), "min(a, b)"),
    **dict.fromkeys(("fdivide", "fdiv"), "a / b"),
    **dict.fromkeys(("where",), "select(a, b, x, y): x where a < b, else y"),
}
"""Words that stand for functions which do not exist here, by name, also without its underlines and
last f."""


def no_statement(node: ast.stmt) -> tuple[str, str]:
    """Returns the name of a statement that the language has not, and the remedy."""
    return STATEMENTS.get(type(node), (type(node).__name__, EXECUTED))


def no_data(node: ast.expr) -> str:
    """The remedy of what is no data expression.

    >>> no_data(ast.parse("math.exp(x[i])", mode="eval").body)
    'write exp(...)'
    >>> no_data(ast.parse("fabsf(x[i])", mode="eval").body)
    'write max(x, -x)'
    """
    functions = (name for name in CALLED if name not in DATA_TYPES and "fast_" not in name)
    otherwise = f"use + - * / // % & | ^ << >> ~, a type such as f32(x), {', '.join(functions)}"
    match node:
        case ast.IfExp():
            return (
                "write select(a, b, x, y), which is x where a < b, else y, of data; and of control "
                "variables two assignments in an if and its else"
            )
        case ast.Compare() | ast.BoolOp():
            return "write select(a, b, x, y), which is x where a < b, else y"
        case ast.BinOp(op=ast.Pow()):
            return "multiply it with itself: x * x"
        case ast.Call(func=ast.Name(id=name) | ast.Attribute(attr=name)):
            if name in TYPES or name in ("int", "float"):
                return f"write {TYPES[name]}(x)"
            for plain in (name, name.strip("_"), name.strip("_").removesuffix("f")):
                if plain in CALLED:
                    return f"write {plain}(...)"
                if plain in _FUNCTIONS:
                    return f"write {_FUNCTIONS[plain]}"
    return otherwise


def no_control(node: ast.AST) -> str:
    """The remedy of what is not quasi-affine.

    >>> no_control(ast.parse("t & 31", mode="eval").body)
    'write t % 32'
    >>> no_control(ast.parse("t + 1 << 2", mode="eval").body)
    'write (t + 1) * 4'
    """
    match node:
        case ast.BinOp(left=left, op=ast.BitAnd(), right=ast.Constant(value=int(mask))):
            if mask > 0 and mask & (mask + 1) == 0:
                return f"write {_operand(left)} % {mask + 1}"
        case ast.BinOp(left=left, op=ast.RShift(), right=ast.Constant(value=int(by))):
            if 0 <= by < 63:
                return f"write {_operand(left)} / {1 << by}, which rounds down"
        case ast.BinOp(left=left, op=ast.LShift(), right=ast.Constant(value=int(by))):
            if 0 <= by < 63:
                return f"write {_operand(left)} * {1 << by}"
        case ast.Call(func=ast.Name(id="int"), args=[of]):
            return f"write {ast.unparse(of)}: a division rounds down"
        case ast.Call(func=ast.Name(id="min" | "max" as name), args=[a, b]):
            least, other = (a, b) if name == "min" else (b, a)
            return (
                f"write if {ast.unparse(least)} < {ast.unparse(other)}: with {ast.unparse(a)}, and "
                f"in its else {ast.unparse(b)}"
            )
        case ast.IfExp():
            return "write an if, and in its else the statement with the other value"
    return "add, subtract, multiply by constants, and divide or take remainders by constants"


def no_name(node: ast.expr) -> str:
    """The remedy of what is no name, where a variable is asked for.

    >>> no_name(ast.parse("y[m]", mode="eval").body)  # of y[m][t]
    'write all indices in one pair of brackets: y[m, ...]'
    """
    match node:
        case ast.Subscript(value=ast.Name(id=name), slice=at):
            each = at.elts if isinstance(at, ast.Tuple) else [at]
            indices = ", ".join(map(ast.unparse, each))
            return f"write all indices in one pair of brackets: {name}[{indices}, ...]"
        case ast.Tuple():
            return "assign one value a statement; to swap, copy one first: v: f32 = x[i]"
    return "index a variable by its name"


def bounds_of_loop(kind: str, iterator: str, given: list[ast.expr]) -> str:
    """The remedy of a loop that is not given two bounds: Python's stop, or its step, too.

    >>> bounds_of_loop("seq", "i", [ast.Constant(0), ast.Name("n"), ast.Constant(4)])
    'write seq(0, (n + 3) / 4), and 4 * i where i stands'
    """
    match given:
        case [stop]:
            return f"write {kind}(0, {ast.unparse(stop)})"
        case [lo, hi, ast.Constant(value=int(step))] if step > 0:
            from_0 = isinstance(lo, ast.Constant) and lo.value == 0
            count = ast.unparse(hi) if from_0 else f"{ast.unparse(hi)} - {_operand(lo)}"
            index = f"{step} * {iterator}" if from_0 else f"{_operand(lo)} + {step} * {iterator}"
            steps = f"({count} + {step - 1}) / {step}" if step > 1 else count
            return f"write {kind}(0, {steps}), and {index} where {iterator} stands"
        case [_, _, _]:
            return f"write {kind}(0, count), and lo + step * {iterator} where {iterator} stands"
        case _:
            return f"write {kind}(0, hi)"


def _operand(node: ast.expr) -> str:
    text = ast.unparse(node)
    return text if isinstance(node, ast.Name | ast.Constant | ast.Subscript) else f"({text})"


# Suggests a name for one that is not there: another spelling, or CUDA's word.

WORDS: Final = (
    *("Fence", "Arrive", "Await", "uninit", "seq", "cuda_tasks", "cuda_threads"),
    *("CudaDeviceFunction", "CudaWarps", "size", "index", "barrier"),
    *("load_index", "monotone", "injective", "slot"),
)
"""Words of statements and parameters."""

CUDA: Final[Mapping[str, str]] = {
    "__syncthreads": "write Fence(cuda_in_order, cuda_in_order) where all threads take part",
    "__syncwarp": "write Fence(cuda_in_order, cuda_in_order) where the warp's threads take part",
    "__threadfence": "write the Fence, or Arrive and Await, that orders the accesses",
    "threadIdx": "write a loop, for t in cuda_threads(0, n, unit=cuda_thread), and use t",
    "blockIdx": "write a loop, for b in cuda_tasks(0, n), and use b",
    "blockDim": "use the number that CudaDeviceFunction(blockDim=...) is given",
    "gridDim": "use the bounds of the cuda_tasks loop",
    "cudaGridDependencySynchronize": (
        "write Fence(cuda_stream_sync, cuda_in_order) in a launch with dependent=True"
    ),
    "cudaTriggerProgrammaticLaunchCompletion": (
        "leave it out: a launch lets the dependent one after it begin"
    ),
    "warpSize": "use 32, or a unit such as cuda_warp",
}
"""Words that stand for names of CUDA C++."""

TYPES: Final[Mapping[str, str]] = {
    **dict.fromkeys(("float", "float32", "fp32", "single"), "f32"),
    **dict.fromkeys(("double", "float64", "fp64"), "f64"),
    **dict.fromkeys(("half", "float16", "fp16", "__half"), "f16"),
    **dict.fromkeys(("float8_e4m3fn", "fp8", "__nv_fp8_e4m3", "e4m3"), "f8e4m3"),
    **dict.fromkeys(("float8_e5m2", "__nv_fp8_e5m2", "e5m2"), "f8e5m2"),
    **dict.fromkeys(("bfloat16", "__nv_bfloat16"), "bf16"),
    **dict.fromkeys(("int", "int32", "int32_t"), "i32"),
    **dict.fromkeys(("int8", "int8_t", "char"), "i8"),
    **dict.fromkeys(("int64", "int64_t", "long"), "i64"),
    **dict.fromkeys(("uint8", "uint8_t", "u8"), "ui8"),
    **dict.fromkeys(("uint16", "uint16_t", "u16"), "ui16"),
    **dict.fromkeys(("uint", "uint32", "uint32_t", "u32", "unsigned"), "ui32"),
    **dict.fromkeys(("uint64", "uint64_t", "u64"), "ui64"),
}
"""The language's name of a type that others name so."""


INSTRUCTIONS: Final[Mapping[str, str]] = {"cuda_": "cuda", "Sm80_": "sm80", "Sm90_": "sm90"}
"""The prefixes of names of instructions, and the module of `exogpu.isa` that has these."""


def closest_name(name: str, known: Iterable[str]) -> str | None:
    """The known name that is spelt most like this one, if one is."""
    others = (one for one in known if one != name and not one.startswith("__"))
    plain = {_plain(one): one for one in others}
    close = get_close_matches(_plain(name), plain, n=1, cutoff=0.75)
    return plain[close[0]] if close else None


def _plain(name: str) -> str:
    return name.replace("_", "").lower()


def undefined(name: str, known: Iterable[str]) -> str:
    """The remedy of a name that is not defined."""
    if name in CUDA:
        return CUDA[name]
    if name in TYPES:
        return f"the language's type is {TYPES[name]}"
    close = closest_name(name, (*WORDS, *LANGUAGE, *known))
    declare = f"declare it, as a parameter, such as {name}: size, or a variable"
    otherwise = f"{declare}; or define or import the name"
    for beginning, module in INSTRUCTIONS.items():
        if name.startswith(beginning):
            otherwise = f"from exogpu.isa.{module} import {name}, if it is an instruction"
    return f"did you mean {close}? Else {otherwise}" if close else otherwise
