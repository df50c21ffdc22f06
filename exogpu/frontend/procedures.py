"""Reading a whole procedure: parameters, preconditions, body."""

from __future__ import annotations

import ast
from collections import Counter
from collections.abc import Callable
from types import FrameType

from exogpu.diagnostics.errors import Diagnostic, InternalError
from exogpu.frontend import limits, scope
from exogpu.frontend.control import condition
from exogpu.frontend.declarations import BarrierAnnotation, annotation
from exogpu.frontend.load_index import contract
from exogpu.frontend.source import Source, source_of
from exogpu.frontend.statements import statements
from exogpu.hw.memories import DRAM, CudaDeviceVisibleLinear
from exogpu.ir import nodes as ir
from exogpu.ir.types import Space, SpecialWindow, Sym
from exogpu.ir.walk import walk


def parse_proc(
    function: Callable[..., object], frame: FrameType | None
) -> tuple[ir.Proc | None, tuple[Diagnostic, ...]]:
    """The IR of a decorated function, or None and all that is wrong with it.

    Raises ExoGpuError where the function has no source text.
    """
    return read_proc(source_of(function, frame))


def read_proc(source: Source) -> tuple[ir.Proc | None, tuple[Diagnostic, ...]]:
    """The IR of a function definition, or None and all that is wrong with it."""
    if wrong := tuple(limits.refusals(source)):
        return None, wrong
    ctx = scope.Context(source)
    node = source.function
    params = parameters(node, ctx)
    doc, body = split_docstring(node.body)
    assumed, body = split_preconditions(body, ctx)
    preconditions = tuple(one for one in assumed if not isinstance(one, ir.Contract))
    contracts = tuple(one for one in assumed if isinstance(one, ir.Contract))
    inside = read_body(body, ctx)
    if ctx.diagnostics:
        return None, tuple(ctx.diagnostics)
    span = ctx.source.span(node)
    made = ir.Proc(node.name, params, preconditions, inside, span, doc, contracts)
    large = limits.too_large(made)
    return (made, ()) if large is None else (None, (large,))


def read_body(nodes: list[ast.stmt], ctx: scope.Context) -> ir.Block:
    """The statements of a procedure or instruction.

    Raises InternalError where one is lost and no diagnostic says so.
    """
    ctx.extremes = {}
    inside = statements(nodes, ctx)
    if ctx.diagnostics:
        return inside
    made = Counter(stmt.span for stmt in walk(inside))
    for source, read in ((ctx.source, nodes), *scope.bodies(ctx.reading)):
        if missing := scope.lost(read, made, ctx.reading, source):
            place = f"{source.file}:{source.span(missing).line}"
            raise InternalError(f"{place}: a statement was lost while it was read")
    return inside


def parameters(node: ast.FunctionDef, ctx: scope.Context) -> tuple[ir.Param, ...]:
    """The parameters, sizes first declared so that shapes may use them in any order."""
    found: dict[str, ir.Param] = {}
    arguments = node.args.posonlyargs + node.args.args
    constants = node.args.kwonlyargs and not ctx.instruction
    if node.args.vararg or node.args.kwarg or node.args.defaults or constants:
        ctx.report(
            "P126",
            "parameters have no defaults and no stars",
            node,
            "list every parameter with its type",
        )
    if constants:
        arguments += node.args.kwonlyargs  # what uses them is not to be told, too
    for argument in arguments:
        match argument.annotation:
            case ast.Name(id="size" | "index" as kind):
                name = Sym(argument.arg)
                is_size = kind == "size"
                found[argument.arg] = ir.ControlParam(
                    name, "size" if is_size else "index", ctx.source.span(argument)
                )
                ctx.declare(argument.arg, scope.Control(name))
            case _:
                pass
    for argument in arguments:
        if argument.arg in found:
            continue
        try:
            found[argument.arg] = _data_parameter(argument, ctx)
        except scope.Reject as refusal:
            ctx.give_up(refusal)
            ctx.declare(argument.arg, scope.Broken())
    return tuple(found[a.arg] for a in arguments if a.arg in found)


def _data_parameter(argument: ast.arg, ctx: scope.Context) -> ir.DataParam:
    span = ctx.source.span(argument)
    if argument.annotation is None:
        raise ctx.reject(
            "P127",
            f"parameter {argument.arg} has no type",
            argument,
            "write n: size, i: index, or x: f32[M, N] @ CudaGmemLinear",
        )
    found = annotation(argument.annotation, ctx)
    if isinstance(found, BarrierAnnotation):
        raise ctx.reject(
            "P128",
            "a barrier is no parameter",
            argument.annotation,
            "declare the barrier inside the kernel, or before the launch if it is a flag",
        )
    name = Sym(argument.arg)
    if isinstance(found.memory, SpecialWindow):
        window, memory = found.memory, CudaDeviceVisibleLinear
    else:
        window, memory = None, found.memory or DRAM
    if not ctx.instruction:
        if memory.space in (Space.SHARED, Space.REGISTER) or (memory.abstract and not window):
            raise ctx.reject(
                "S317",
                f"a procedure's parameter cannot be in {memory.name}",
                argument.annotation,
                "use DRAM, CudaGmemLinear or CudaGridConstant",
            )
        if window is not None:
            raise ctx.reject(
                "T217",
                f"a procedure's parameter cannot be a {window.name}",
                argument.annotation,
                "pass the global variable and make the window inside",
            )
    ctx.declare(argument.arg, scope.Data(name, found.dtype, found.shape, memory, window, span))
    return ir.DataParam(name, found.dtype, found.shape, memory, None, window, span)


def split_docstring(body: list[ast.stmt]) -> tuple[str, list[ast.stmt]]:
    """The docstring, and the rest."""
    match body:
        case [ast.Expr(value=ast.Constant(value=str() as text)), *rest]:
            return text, rest
        case _:
            return "", body


def split_preconditions(
    body: list[ast.stmt], ctx: scope.Context
) -> tuple[tuple[ir.BExpr | ir.Contract, ...], list[ast.stmt]]:
    """The leading asserts on sizes and arrays, and the rest."""
    found: list[ir.BExpr | ir.Contract] = []
    while body and isinstance(head := body[0], ast.Assert):
        body = body[1:]
        try:
            one = contract(head.test, ctx, found)
            found.append(condition(head.test, ctx) if one is None else one)
        except scope.Reject as refusal:
            ctx.give_up(refusal)
    return tuple(found), body
