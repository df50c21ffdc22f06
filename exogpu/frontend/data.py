"""Reading data expressions and windows, with their ranks and precisions."""

from __future__ import annotations

import ast
from typing import Final, Literal

from exogpu.diagnostics.errors import Diagnostic, Note, Span
from exogpu.frontend import scope as frontend_scope
from exogpu.frontend.control import control
from exogpu.frontend.scalar_calls import Misused, Named, named_function
from exogpu.frontend.slot_index import is_slot, slot_index
from exogpu.frontend.suggestions import no_data, no_name
from exogpu.ir import nodes as ir
from exogpu.ir import scalars
from exogpu.ir.scalar_functions import (
    FUNCTIONS,
    JOINED,
    OF_FLOATS,
    OF_INTEGERS,
    Operand,
    called_as,
)
from exogpu.ir.types import FLOATS, DataType, Space

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
    function = named_function(node)
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
        case _ if isinstance(function, Misused):
            raise ctx.reject("T209", function.message, node, function.remedy)
        case _ if function is not None:
            return _apply(function, node, ctx)
        case _:
            raise ctx.reject(
                "P109",
                f"{ast.unparse(node)} is not a data expression",
                node,
                no_data(node),
            )


def _is_operation(node: ast.expr) -> bool:
    """Tests whether the language's operators and functions make an expression, not Python's: `7 /
    3` means what its type says.  The operators of integers mean the same in both."""
    match node:
        case ast.BinOp() if type(node.op) in _OPERATORS:
            return True
        case ast.BinOp():
            return _is_operation(node.left) or _is_operation(node.right)
        case ast.UnaryOp(op=ast.Invert()):
            return _is_operation(node.operand)
        case ast.UnaryOp():
            return isinstance(node.op, ast.USub)
        case _:
            calls = (part for part in ast.walk(node) if isinstance(part, ast.Call))
            return any(named_function(call) is not None for call in calls)


def _count_text(dimensions: int) -> str:
    return f"{dimensions} dimension{'' if dimensions == 1 else 's'}"


def _apply(
    named: Named, node: ast.expr, ctx: frontend_scope.Context
) -> tuple[ir.DExpr, DataType | None]:
    """A function of operands that it takes."""
    row = FUNCTIONS[named.function]
    terms, dtypes = zip(*(data(a, ctx) for a in named.arguments), strict=True)
    joined: DataType | None = None
    compared: DataType | None = None
    for operand, at, term, dtype in zip(row.takes, named.arguments, terms, dtypes, strict=True):
        if operand == "literal":
            _literal(term, at, ctx)
            continue
        if dtype is not None and (fault := _unfit(named.function, operand, dtype)) is not None:
            raise ctx.reject("T210", fault, at, _converted(at, dtype, operand))
        if operand == "compared":
            compared = join(compared, dtype, node, ctx)
        elif operand in JOINED:
            joined = join(joined, dtype, node, ctx)
    gives: DataType | None = joined if row.gives == "same" else row.gives
    applied = ir.Apply(named.function, tuple(terms), ctx.source.span(node))
    return applied, gives


def _literal(term: ir.DExpr, node: ast.expr, ctx: frontend_scope.Context) -> None:
    if isinstance(term, ir.Const) and isinstance(term.value, int) and 0 <= term.value < 256:
        return
    message = f"{ast.unparse(node)} is no constant of 0 to 255"
    raise ctx.reject("T208", message, node, "write the table as a number, such as 0xE8")


def _unfit(function: str, operand: Operand, dtype: DataType) -> str | None:
    """Returns the fault of an operand of a type; None if it fits."""
    name = called_as(function)[0]
    computed = scalars.COMPUTES[dtype]
    if operand in OF_FLOATS and dtype not in FLOATS:
        asked = "an f32" if operand == "f32" else "floating point"
    elif operand == "f32" and computed is not DataType.F32:
        asked = "an f32"
    elif operand in OF_INTEGERS and dtype in FLOATS:
        asked = "integers"
    elif operand == "word" and computed not in (DataType.I32, DataType.UI32):
        asked = "integers of 32 bits"
    else:
        return None
    return f"{name} takes {asked}, not {dtype.value}"


def _converted(node: ast.expr, dtype: DataType, operand: Operand = "number") -> str:
    """The remedy of an operand of another kind: a conversion, which nothing does silently."""
    text = ast.unparse(node)
    if dtype in FLOATS and operand not in OF_FLOATS:
        return f"convert it: i32({text}), towards zero as a cast of CUDA C++; or bits({text})"
    return f"convert it, as CUDA C++ does silently: f32({text})"


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
            "convert one, which CUDA C++ does silently: f32(n) of an integer n, or i32(x)",
        )
    order = list(DataType)
    return max(left, right, key=order.index)


# Constants of data expressions: each must fit the type that it takes.

_APART: Final = "write an integer, or convert what it meets: f32(n)"


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
        case scalars.Operation() if (operand := scalars.unfit_operand(part)) is not None:
            asked = "floating point" if operand in OF_FLOATS else "integers"
            plain, computed = called_as(part.function)[0], part.arguments[0].dtype.value
            return "T210", f"{plain} takes {asked}, where {computed} is computed", _APART
        case scalars.Operation(function=function, arguments=(_, scalars.Constant(value=0))) if (
            function in scalars.DIVISIONS and dtype not in FLOATS
        ):
            return "T247", "an integer is divided by 0", "divide by another constant"
        case _:
            return None


def _number_text(value: float | int) -> str:
    if isinstance(value, int) and abs(value) >= 1 << 200:
        return f"an integer of {value.bit_length()} bits"
    return repr(value)
