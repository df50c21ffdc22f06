"""Reading calls of instructions and procedures: arguments, precisions, memories, mechanisms."""

from __future__ import annotations

import ast
from collections.abc import Mapping
from dataclasses import replace
from typing import Protocol, runtime_checkable

from exogpu.diagnostics.errors import Diagnostic, ExoGpuError, Note
from exogpu.frontend.control import control
from exogpu.frontend.data import access
from exogpu.frontend.scope import Barrier, Context, Data, Reject
from exogpu.frontend.suggestions import closest_name
from exogpu.ir import nodes
from exogpu.ir.types import DataType, Space

# Callees of a procedure: procedures, and instructions with compile-time parameters.


@runtime_checkable
class HasProc(Protocol):
    """A procedure object; `ir` is None if its definition was refused."""

    @property
    def ir(self) -> nodes.Proc | None: ...


@runtime_checkable
class Refused(Protocol):
    """A procedure object that says why its definition was refused."""

    @property
    def refusals(self) -> tuple[Diagnostic, ...]:
        """All that reading the definition found."""
        ...


@runtime_checkable
class InstrTemplate(Protocol):
    """An instruction before its compile-time parameters are known."""

    @property
    def constant_names(self) -> tuple[str, ...]: ...

    @property
    def parameter_names(self) -> tuple[str, ...]:
        """The others: data and control."""
        ...

    def instantiate(self, constants: Mapping[str, object]) -> nodes.Instr:
        """The instruction for these compile-time parameters; raises ExoGpuError."""
        ...


def call(
    target: object, node: ast.Call, trailing: list[ast.expr], stmt: ast.stmt, ctx: Context
) -> nodes.CallInstr | nodes.CallProc:
    """`p(...)` or `g(...) >> z[...]`, of the Python value that is called."""
    span = ctx.source.span(stmt)
    if isinstance(target, InstrTemplate):
        instr, keywords = _instantiate(target, node, ctx)
        arguments = _arguments(instr.name, instr.params, node, keywords, ctx)
        _right_scope(instr, node, ctx)
        return nodes.CallInstr(instr, arguments, _trailing(instr, node, trailing, ctx), span=span)
    if isinstance(target, HasProc):
        if target.ir is None:
            raise _ill_formed(target, node, ctx)
        if trailing:
            raise ctx.reject("T220", "a procedure signals no barrier", trailing[0], "remove the >>")
        if ctx.cuda:
            raise ctx.reject(
                "S304",
                f"procedure {target.ir.name} is called at CUDA scope",
                node,
                "call procedures at CPU scope; at CUDA scope call instructions",
            )
        proc: nodes.Proc = target.ir
        return nodes.CallProc(
            proc, _arguments(proc.name, proc.params, node, node.keywords, ctx), span=span
        )
    raise ctx.reject(
        "P111",
        f"{ast.unparse(node.func)} is neither an instruction nor a procedure",
        node,
        "import the instruction, or decorate the function with @proc",
    )


def _ill_formed(target: HasProc, node: ast.Call, ctx: Context) -> Reject:
    wrong = target.refusals[:1] if isinstance(target, Refused) else ()
    return ctx.reject(
        "P129",
        f"{ast.unparse(node.func)} is ill-formed, so nothing is known of this call",
        node,
        "mend the procedure that is called",
        *(Note(f"{d.code}: {d.message}", d.span) for d in wrong),
    )


def _instantiate(
    template: InstrTemplate, node: ast.Call, ctx: Context
) -> tuple[nodes.Instr, list[ast.keyword]]:
    constants: dict[str, object] = {}
    rest: list[ast.keyword] = []
    for keyword in node.keywords:
        if keyword.arg in template.constant_names:
            assert keyword.arg is not None
            constants[keyword.arg] = ctx.evaluate(keyword.value)
        else:
            rest.append(keyword)
    if unknown := [k for k in rest if k.arg not in template.parameter_names]:
        takes = (*template.parameter_names, *template.constant_names)
        raise _no_parameter(ast.unparse(node.func), unknown[0], takes, ctx)
    try:
        return template.instantiate(constants), rest
    except ExoGpuError as error:
        # What does not fit makes others fail.
        found = [d for d in error.diagnostics if d.code == "T221"][:1] or error.diagnostics
        if not constants and found[0].code != "T221":
            # Without parameters it is the definition that is wrong, whoever calls it.
            ctx.diagnostics += found[1:]
            note = Note("it is called here", ctx.source.span(node))
            raise Reject(replace(found[0], notes=(*found[0].notes, note))) from None
        notes = tuple(Note(d.message, d.span) for d in found)
        given = ", ".join(
            f"{name}={value.value if isinstance(value, DataType) else repr(value)}"
            for name, value in constants.items()
        )
        raise ctx.reject(
            "T221",
            f"{ast.unparse(node.func)} cannot be made with these compile-time parameters: "
            f"{given or 'none is given'}",
            node,
            found[0].help,
            *notes,
        ) from None


def _no_parameter(name: str, keyword: ast.keyword, takes: tuple[str, ...], ctx: Context) -> Reject:
    remedy = f"its parameters are {', '.join(takes)}"
    if keyword.arg is None:
        problem, close = f"{name} is given parameters without their names", None
        remedy = f"write each by its name in place of **; {remedy}"
    else:
        problem, close = f"{name} has no parameter {keyword.arg}", closest_name(keyword.arg, takes)
    help = f"did you mean {close}? {remedy}" if close else remedy
    return ctx.reject("T222", problem, keyword.value, help)


def _right_scope(instr: nodes.Instr, node: ast.Call, ctx: Context) -> None:
    if ctx.instruction:
        raise ctx.reject(
            "S305", "an instruction's body calls an instruction", node, "write out its meaning"
        )
    if instr.cuda != ctx.cuda:
        here, there = ("CUDA", "CPU") if ctx.cuda else ("CPU", "CUDA")
        raise ctx.reject(
            "S306",
            f"{instr.name} is an instruction of {there} scope, called at {here} scope",
            node,
            "move the call out of the kernel"
            if ctx.cuda
            else "call it inside a CudaDeviceFunction",
        )


def _arguments(
    name: str,
    params: tuple[nodes.Param, ...],
    node: ast.Call,
    keywords: list[ast.keyword],
    ctx: Context,
) -> tuple[nodes.Argument, ...]:
    given: dict[str, ast.expr] = {}
    for param, value in zip(params, node.args, strict=False):
        given[param.name.name] = value
    names = [p.name.name for p in params]
    for keyword in keywords:
        if keyword.arg not in names:
            raise _no_parameter(name, keyword, tuple(names), ctx)
        if keyword.arg in given:
            raise ctx.reject("T222", f"{keyword.arg} is given twice", keyword.value, "give it once")
        given[keyword.arg] = keyword.value
    if len(given) != len(params) or len(node.args) > len(params):
        raise ctx.reject(
            "T222",
            f"{name} takes {len(params)} arguments, {len(node.args) + len(keywords)} are given",
            node,
            f"its parameters are {', '.join(names)}",
        )
    return tuple(_argument(p, given[p.name.name], ctx) for p in params)


def _argument(param: nodes.Param, node: ast.expr, ctx: Context) -> nodes.Argument:
    match param:
        case nodes.ControlParam():
            return control(node, ctx)
        case nodes.DataParam():
            return _data_argument(param, node, ctx)


def _data_argument(
    param: nodes.DataParam, node: ast.expr, ctx: Context
) -> nodes.Access | nodes.Const:
    if ctx.is_python(node):
        raise ctx.reject(
            "T223",
            f"parameter {param.name} takes a window of a variable",
            node,
            "pass a variable or a window of one",
        )
    window, meaning = access(node, ctx)
    declared = Note(f"parameter {param.name}", param.span)
    if not isinstance(meaning, Data):
        raise ctx.reject(
            "T206", f"{meaning.name} is a barrier, not data", node, "pass a data variable", declared
        )
    rank = sum(isinstance(c, nodes.Interval) for c in window.coords)
    if rank != len(param.shape):
        raise ctx.reject(
            "T224",
            f"a window of {rank} dimensions is passed where {param.name} has {len(param.shape)}",
            node,
            "write lo:hi for each dimension of the parameter, and a point for the others",
            declared,
        )
    if meaning.dtype is not param.dtype:
        raise ctx.reject(
            "T225",
            f"{meaning.name} is {meaning.dtype.value}, {param.name} must be {param.dtype.value}",
            node,
            f"pass dtype={meaning.dtype.value} where the instruction takes it, use another one for "
            "this precision, or convert the data",
            declared,
        )
    if param.window is not None:
        if meaning.window is None or meaning.window.name != param.window.name:
            has = meaning.window.name if meaning.window else meaning.memory.name
            remedy = f"make a window: w = {meaning.name}[...] @ {param.window.name}"
            if meaning.window is not None:
                remedy = f"let {meaning.name} be made so, or give the call its swizzle and box"
            raise ctx.reject(
                "T226",
                f"{meaning.name} is {has}, {param.name} must be a {param.window.name}",
                node,
                remedy,
                declared,
            )
    elif meaning.window is not None or not meaning.memory.is_a(param.memory):
        has = meaning.window.name if meaning.window else meaning.memory.name
        raise ctx.reject(
            "T227",
            f"{meaning.name} is in {has}, {param.name} must be in {param.memory.name}",
            node,
            _suggest_copy(meaning, param),
            declared,
        )
    return window


def _suggest_copy(given: Data, param: nodes.DataParam) -> str:
    """Suggests how a variable gets into the memory that a parameter asks for."""
    remedy = f"declare {given.name} @ {param.memory.name}, or use another instruction"
    if param.memory.swizzle and given.memory.space is Space.SHARED:
        return f"{remedy}, or swizzle={given.memory.swizzle or 0} where it takes a swizzle"
    return remedy


def _trailing(
    instr: nodes.Instr, node: ast.Call, trailing: list[ast.expr], ctx: Context
) -> nodes.Access | None:
    if not trailing:
        if instr.trailing_required and instr.trailing is not None:
            raise ctx.reject(
                "T228",
                f"{instr.name} must signal a barrier",
                node,
                f"write {instr.name}(...) >> z[...] with z a barrier @ {instr.trailing.value}",
            )
        return None
    if instr.trailing is None or len(trailing) > 1:
        wrong = "signals no barrier" if instr.trailing is None else "signals one barrier only"
        raise ctx.reject("T229", f"{instr.name} {wrong}", trailing[-1], "remove the >>")
    window, meaning = access(trailing[0], ctx)
    if not isinstance(meaning, Barrier) or meaning.mechanism is not instr.trailing:
        raise ctx.reject(
            "T230",
            f"{instr.name} signals a barrier @ {instr.trailing.value}, {meaning.name} is not one",
            trailing[0],
            f"declare a barrier @ {instr.trailing.value}",
        )
    intervals = sum(isinstance(c, nodes.Interval) for c in window.coords)
    if intervals < len(instr.trailing_units):  # Others are of roles.
        raise ctx.reject(
            "T231",
            f"{instr.name} signals {len(instr.trailing_units)} dimensions of its barrier at once, "
            f"{intervals} are given",
            trailing[0],
            "write `:` for each dimension that a multicast signals, and a point for the others",
        )
    return window
