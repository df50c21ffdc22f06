"""Reading data expressions and windows, with their ranks and precisions."""

from __future__ import annotations

import ast
from typing import Final, Literal, cast

from exogpu.diagnostics.errors import Diagnostic, Note, Span
from exogpu.frontend import scope as frontend_scope
from exogpu.frontend.control import control
from exogpu.frontend.slot_index import is_slot, slot_index
from exogpu.frontend.suggestions import no_data, no_name
from exogpu.ir import nodes as ir
from exogpu.ir import scalars
from exogpu.ir.types import FLOATS, DataType, Space

OF_F32: Final = {
    "ordinal": (DataType.I32, "compare other numbers as they are"),
    "tf32": (DataType.F32, "assign it to an f32 first"),
}
"""The functions of f32 alone: the type of the result, and what to do with other numbers."""

_OPERATORS: Final[dict[type[ast.operator], Literal["+", "-", "*", "/"]]] = {
    ast.Add: "+",
    ast.Sub: "-",
    ast.Mult: "*",
    ast.Div: "/",
}


def variable(
    node: ast.expr, ctx: frontend_scope.Context
) -> frontend_scope.Data | frontend_scope.Barrier:
    """The data or barrier variable that an access names."""
    if not isinstance(node, ast.Name):
        raise ctx.reject("P107", f"{ast.unparse(node)} is not a variable", node, no_name(node))
    match ctx.lookup(node.id):
        case frontend_scope.Data() | frontend_scope.Barrier() as meaning:
            return meaning
        case frontend_scope.Broken():
            raise frontend_scope.Reject(None)
        case frontend_scope.Part(of=whole):
            raise ctx.reject(
                "T205",
                f"{node.id} is a part of {whole.name} that was passed to a macro: it has no parts",
                node,
                f"pass {whole.name}, and index it in the macro",
            )
        case frontend_scope.Control() | frontend_scope.Formula():
            raise ctx.reject(
                "T201",
                f"{node.id} is a control variable, not a data or barrier variable",
                node,
                "control variables are used in indices, bounds and conditions only, and keep their "
                "value: give another one another name, or declare data, such as x: i32 @ CudaRmem, "
                f"in which cuda_number({node.id}, x) writes it; a size as f32 is one more "
                "parameter, @ CudaGridConstant",
            )
        case frontend_scope.Constant(value):
            raise ctx.reject(
                "P102",
                f"{node.id} is the Python value {value!r:.40}, not a variable",
                node,
                f"declare the variable first, such as {node.id}: f32 @ CudaRmem",
            )
        case _:
            raise ctx.reject(
                "P102",
                f"name '{node.id}' is not defined",
                node,
                f"declare the variable first, such as {node.id}: f32 @ CudaRmem",
            )


def access(
    node: ast.expr, ctx: frontend_scope.Context
) -> tuple[ir.Access, frontend_scope.Data | frontend_scope.Barrier]:
    """`x` or `x[w*]`: without brackets, the whole variable."""
    if isinstance(node, ast.Subscript):
        meaning = variable(node.value, ctx)
        inner = node.slice
        parts = list(inner.elts) if isinstance(inner, ast.Tuple) else [inner]
    else:
        if isinstance(node, ast.Name) and isinstance(
            part := ctx.lookup(node.id), frontend_scope.Part
        ):
            return part.access, part.of
        meaning = variable(node, ctx)
        parts = [ast.Slice() for _ in meaning.shape]
    own = _own_copy(meaning, len(parts), ctx)
    if len(parts) + len(own) != len(meaning.shape):
        raise ctx.reject(
            "T205",
            f"{meaning.name} has {_count_text(len(meaning.shape))}, and {len(parts)} "
            f"{'is' if len(parts) == 1 else 'are'} indexed",
            node,
            "give one coordinate a dimension, or declare it with as many",
            Note("declared here", meaning.span),
        )
    shape = meaning.shape[: len(parts)]
    coords = tuple(_coord(p, extent, meaning, ctx) for p, extent in zip(parts, shape, strict=True))
    return ir.Access(meaning.name, (*coords, *own), ctx.source.span(node)), meaning


def _own_copy(
    meaning: frontend_scope.Data | frontend_scope.Barrier, given: int, ctx: frontend_scope.Context
) -> tuple[ir.Point, ...]:
    """Returns the index of the thread's own copy of a row's value: `r[m]` in a loop over a
    fragment."""
    if (
        isinstance(meaning, frontend_scope.Barrier)
        or meaning.memory.layout != "rows"
        or ctx.copy is None
    ):
        return ()
    return (ir.Point(ctx.copy),) if given + 1 == len(meaning.shape) else ()


def _coord(
    node: ast.expr,
    extent: ir.CExpr,
    of: frontend_scope.Data | frontend_scope.Barrier,
    ctx: frontend_scope.Context,
) -> ir.Coord:
    if isinstance(node, ast.Call) and is_slot(node, ctx):
        return ir.Point(slot_index(node, extent, of, ctx))
    if not isinstance(node, ast.Slice):
        return ir.Point(control(node, ctx))
    if node.step is not None:
        raise ctx.reject("P108", "a window has no step", node, "write lo:hi")
    lo = ir.Int(0) if node.lower is None else control(node.lower, ctx)
    hi = extent if node.upper is None else control(node.upper, ctx)
    return ir.Interval(lo, hi)


def element(node: ast.expr, ctx: frontend_scope.Context) -> tuple[ir.Access, frontend_scope.Data]:
    """An access of one element of a data variable."""
    window, meaning = access(node, ctx)
    if not isinstance(meaning, frontend_scope.Data):
        raise ctx.reject(
            "T206",
            f"{meaning.name} is a barrier, not data",
            node,
            "barriers are used in Arrive, Await and after >> only",
        )
    if any(isinstance(c, ir.Interval) for c in window.coords):
        raise ctx.reject(
            "T207",
            f"{ast.unparse(node)} is a window, not one element",
            node,
            "loop over the elements, or call an instruction",
        )
    _allow_space(meaning, node, ctx)
    return window, meaning


def _allow_space(meaning: frontend_scope.Data, node: ast.AST, ctx: frontend_scope.Context) -> None:
    """Scalar code reaches host memory at CPU scope, and device memory at CUDA scope."""
    if ctx.instruction:
        return
    if meaning.window is not None:
        raise ctx.reject(
            "S301",
            f"{meaning.name} is a special window and cannot be read or written directly",
            node,
            "pass it to an instruction that takes it",
        )
    on_host = meaning.memory.space in (Space.HOST, Space.GRID_CONSTANT)
    if not ctx.cuda and not on_host:
        raise ctx.reject(
            "S302",
            f"{meaning.name} is in {meaning.memory.name}, which CPU code cannot access",
            node,
            "copy it with an instruction of the stream, such as cuda_memcpy_to_host",
        )
    if ctx.cuda and meaning.memory.space is Space.HOST:
        raise ctx.reject(
            "S303",
            f"{meaning.name} is in {meaning.memory.name}, which CUDA code cannot access",
            node,
            "declare it @ CudaGmemLinear, or copy it to the device before the launch",
        )


def data(node: ast.expr, ctx: frontend_scope.Context) -> tuple[ir.DExpr, DataType | None]:
    """A data expression and its precision; None where it is made of constants only."""
    span = ctx.source.span(node)
    if ctx.is_python(node) and not _is_operation(node):
        value = ctx.evaluate(node)
        if isinstance(value, bool) or not isinstance(value, int | float):
            message = f"{ast.unparse(node)} is {value!r}, not a number"
            raise ctx.reject("T208", message, node, "use an integer or floating-point constant")
        return ir.Const(float(value) if isinstance(value, float) else int(value), span), None
    match node:
        case ast.Name() | ast.Subscript():
            read, meaning = element(node, ctx)
            return ir.Read(read, span), meaning.dtype
        case ast.UnaryOp(op=ast.USub()):
            term, dtype = data(node.operand, ctx)
            if isinstance(term, ir.Const) and (term.value or isinstance(term.value, float)):
                return ir.Const(-term.value, span), None
            return ir.Negate(term, span), dtype
        case ast.BinOp() if type(node.op) in _OPERATORS:
            left, of_left = data(node.left, ctx)
            right, of_right = data(node.right, ctx)
            dtype = join(of_left, of_right, node, ctx)
            return ir.BinOp(_OPERATORS[type(node.op)], left, right, span), dtype
        case ast.Call(func=ast.Name(id=name)) if name in scalars.ARITY:
            return _apply(name, node, ctx)
        case _:
            raise ctx.reject(
                "P109",
                f"{ast.unparse(node)} is not a data expression",
                node,
                no_data(node),
            )


def _is_operation(node: ast.expr) -> bool:
    """Tests whether the language's operators and functions make an expression, not Python's: `7 /
    3` means what its type says."""
    match node:
        case ast.BinOp():
            return type(node.op) in _OPERATORS
        case ast.UnaryOp():
            return isinstance(node.op, ast.USub)
        case _:
            return any(
                isinstance(n, ast.Call)
                and isinstance(n.func, ast.Name)
                and n.func.id in scalars.ARITY
                for n in ast.walk(node)
            )


def _count_text(dimensions: int) -> str:
    return f"{dimensions} dimension{'' if dimensions == 1 else 's'}"


def _apply(
    name: str, node: ast.Call, ctx: frontend_scope.Context
) -> tuple[ir.DExpr, DataType | None]:
    if len(node.args) != scalars.ARITY[name] or node.keywords:
        remedy = "give it that many"
        if name in ("min", "max") and len(node.args) > 2 and not node.keywords:
            *first, last = map(ast.unparse, node.args)
            remedy = f"nest them: {name}({name}({', '.join(first)}), {last})"
        raise ctx.reject("T209", f"{name} takes {scalars.ARITY[name]} arguments", node, remedy)
    terms, dtypes = zip(*(data(a, ctx) for a in node.args), strict=True)
    results = dtypes
    if name == "select":  # what is compared has a type of its own
        join(dtypes[0], dtypes[1], node, ctx)
        results = dtypes[2:]
    dtype: DataType | None = None
    for other in results:
        dtype = join(dtype, other, node, ctx)
    if name in (*scalars.OF_FLOATS, "fma") and dtype is not None and dtype not in FLOATS:
        raise ctx.reject(
            "T210",
            f"{name} takes floating point, not {dtype.value}",
            node,
            "keep integers and floating point apart",
        )
    if name in OF_F32:
        result, remedy = OF_F32[name]
        if dtype is not None and scalars.COMPUTES[dtype] is not DataType.F32:
            raise ctx.reject("T210", f"{name} takes an f32, not {dtype.value}", node, remedy)
        dtype = result
    return ir.Apply(cast(ir.DataFunction, name), tuple(terms), ctx.source.span(node)), dtype


def join(
    left: DataType | None, right: DataType | None, node: ast.AST, ctx: frontend_scope.Context
) -> DataType | None:
    """The precision of an operation: the wider; floating point and integers do not mix."""
    if left is None or right is None:
        return left or right
    if (left in FLOATS) != (right in FLOATS):
        raise ctx.reject(
            "T210",
            f"{left.value} and {right.value} are mixed",
            node,
            "keep integers and floating point apart",
        )
    order = list(DataType)
    return max(left, right, key=order.index)


# Constants of data expressions: each must fit the type that it takes.

_APART: Final = "keep integers and floating point apart"


_FLOATING: Final = (*scalars.OF_FLOATS, "fma")
"""Functions that integers do not have."""


def check_value(
    value: ir.DExpr,
    target: frontend_scope.Data,
    node: ast.stmt,
    ctx: frontend_scope.Context,
    *,
    adds: bool = False,
) -> None:
    """Refuses what a value of `x = value`, or of `x += value`, cannot be computed with."""
    named = [meaning for scope in ctx.scopes for meaning in scope.values()]
    wholes = (
        meaning.of if isinstance(meaning, frontend_scope.Part) else meaning for meaning in named
    )
    types = {whole.name: whole.dtype for whole in wholes if isinstance(whole, frontend_scope.Data)}
    typed = (scalars.added_scalar if adds else scalars.assigned_scalar)(
        value, target.dtype, types.__getitem__
    )
    for part in scalars.parts(typed):
        dtype = target.dtype if part is typed and not adds else part.dtype
        if (wrong := _wrong(part, dtype)) is not None:
            code, message, remedy = wrong
            place = _place(part, ctx.source.span(node))
            note = Note(f"{target.name} is {target.dtype.value}", target.span)
            raise frontend_scope.Reject(Diagnostic(code, message, place, remedy, (note,)))


def _place(part: scalars.Scalar, otherwise: Span) -> Span:
    span = part.span if isinstance(part, scalars.Constant | scalars.Operation) else otherwise
    return span if span.line else otherwise


def _wrong(part: scalars.Scalar, dtype: DataType) -> tuple[str, str, str] | None:
    """Code, message and remedy."""
    name = dtype.value
    match part:
        case scalars.Constant(value=float() as value) if dtype not in FLOATS:
            return "T210", f"{value!r} is floating point, where {name} is computed", _APART
        case scalars.Constant(value=value) if not scalars.fits_type(value, dtype):
            remedy = "use a constant that the type has, or variables of a wider type"
            return "T246", f"{_number_text(value)} does not fit {name}", remedy
        case scalars.Operation(function=function) if function in _FLOATING and dtype not in FLOATS:
            return "T210", f"{function} takes floating point, where {name} is computed", _APART
        case scalars.Operation(function="/", arguments=(_, scalars.Constant(value=0))) if (
            dtype not in FLOATS
        ):
            return "T247", "an integer is divided by 0", "divide by another constant"
        case _:
            return None


def _number_text(value: float | int) -> str:
    if isinstance(value, int) and abs(value) >= 1 << 200:
        return f"an integer of {value.bit_length()} bits"
    return repr(value)
