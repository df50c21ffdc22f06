"""`@macro`: statements with a name, read anew at each call, as if they stood there.

What a macro may say depends on where it is called: the rules of scopes, threads and lifetimes hold
for its statements there.  Its names are its own: it sees its arguments, what it declares, and the
Python names around its definition.
"""

from __future__ import annotations

import ast
import sys
from collections.abc import Callable, Iterator, Mapping
from dataclasses import dataclass, field, replace
from types import FrameType
from typing import Final

from exogpu.diagnostics.errors import Diagnostic, ExoGpuError, Note
from exogpu.frontend import limits, scope
from exogpu.frontend.control import control
from exogpu.frontend.source import Source, source_of
from exogpu.ir.nodes import Block, CVar, WindowStmt

ReadStatements = Callable[[list[ast.stmt], scope.Context], Block]
ReadWindow = Callable[[str, ast.expr, scope.Context], tuple[WindowStmt | None, scope.Meaning]]


@dataclass(frozen=True, slots=True)
class Macro:
    """Statements that a procedure calls by name; made by `@macro`."""

    source: Source
    params: tuple[str, ...] = field(init=False)

    def __post_init__(self) -> None:
        arguments = self.source.function.args
        names = (a.arg for a in (*arguments.posonlyargs, *arguments.args))
        object.__setattr__(self, "params", tuple(names))

    @property
    def name(self) -> str:
        """The name of the function."""
        return self.source.function.name

    def __call__(self, *_: object, **__: object) -> None:
        """Refuses: there is nothing to execute.  Raises ExoGpuError."""
        function = self.source.function
        message = f"{self.name} is a macro: it is read where a procedure calls it, never executed"
        remedy = "call it as a statement of a @proc"
        raise ExoGpuError([Diagnostic("P133", message, self.source.span(function), remedy)])


def macro(function: Callable[..., None]) -> Macro:
    """Read a function's statements at each of its calls in procedures; it is never executed.

    Parameters have no types: an argument is a variable, a window, a control expression, or a
    Python value, which may be another macro.  Raises ExoGpuError where it cannot be read anywhere.

    >>> from exogpu.kernels.gemm_sm90 import make_gemm  # its main loop is a macro
    >>> make_gemm(1, 1, 128, 64).name
    'gemm_sm90_1x1_128x64'
    """
    frame: FrameType | None = sys._getframe(1)
    source = source_of(function, frame)
    wrong = [*limits.refusals(source)]
    arguments = source.function.args
    others = (*arguments.kwonlyargs, arguments.vararg, arguments.kwarg, *arguments.defaults)
    if any(others):
        message, remedy = "parameters have no defaults and no stars", "list every parameter"
        wrong.append(Diagnostic("P126", message, source.span(source.function), remedy))
    if wrong:
        raise ExoGpuError(wrong)
    return Macro(source)


def expanded(
    called: Macro, node: ast.Call, ctx: scope.Context, read: ReadStatements, window: ReadWindow
) -> Block:
    """The statements of a call: windows that are its arguments, then those of the macro."""
    around = ctx.depth + limits.levels(ctx.source.function, node)
    if around + limits.levels(called.source.function) > limits.DEPTH:
        what = f"with its macros this is nested deeper than {limits.DEPTH} levels"
        raise ctx.reject("P130", what, node, "nest less, or end a recursion by a Python value")
    if ctx.reading.seen.total() > limits.STATEMENTS:
        what = f"with its macros the procedure has more than {limits.STATEMENTS:,} statements"
        raise ctx.reject("P132", what, node, "write loops of the language instead")
    given = _arguments_by_parameter(called, node, ctx)
    windows: list[WindowStmt] = []
    known: dict[str, scope.Meaning] = {}
    for name, value in given.items():
        if isinstance(value, ast.Subscript) and not ctx.is_python(value):
            made, known[name] = window(name, value, ctx)
            windows += () if made is None else (made,)
        else:
            known[name] = _meaning(value, ctx)
    inside = replace(ctx, source=called.source, scopes=[known], depth=around, slots=None)
    before = len(ctx.diagnostics)
    body = called.source.function.body
    ctx.reading.expanded.append((called.source, body))
    found = read(body, inside)
    note = Note(f"{called.name} is called here", ctx.source.span(node))
    ctx.diagnostics[before:] = [
        replace(one, notes=(*one.notes, note)) for one in ctx.diagnostics[before:]
    ]
    return (*windows, *found)


_ARGUMENTS: Final = "give each parameter once, by place or by name"


def _arguments_by_parameter(
    called: Macro, node: ast.Call, ctx: scope.Context
) -> Mapping[str, ast.expr]:
    """The arguments by parameter."""
    takes = f"{called.name} takes {len(called.params)} arguments: {', '.join(called.params)}"
    given = dict(zip(called.params, node.args, strict=False))
    for keyword in node.keywords:
        if keyword.arg not in called.params or keyword.arg in given:
            raise ctx.reject("T222", takes, keyword.value, _ARGUMENTS)
        given[keyword.arg] = keyword.value
    if len(node.args) > len(called.params) or len(given) < len(called.params):
        raise ctx.reject("T222", takes, node, _ARGUMENTS)
    return given


def _meaning(node: ast.expr, ctx: scope.Context) -> scope.Meaning:
    """Returns the meaning of a parameter."""
    if ctx.is_python(node):
        return scope.Constant(ctx.evaluate(node))
    if isinstance(node, ast.Name):
        found = ctx.lookup(node.id)
        if isinstance(found, scope.Broken):
            raise scope.Reject(None)
        if found is not None:
            return found
    if any(isinstance(found, scope.Data) for found in map(ctx.lookup, _names(node))):
        what = f"{ast.unparse(node)} is no argument of a macro"
        remedy = "pass a variable, a window, a control expression or a Python value"
        raise ctx.reject("T223", what, node, remedy)
    value = control(node, ctx)
    if limits.is_too_large_named(value):
        what = f"an expression of more than {limits.NAMED:,} parts is passed to a macro"
        raise ctx.reject("P130", what, node, "pass simpler expressions")
    return scope.Control(value.name) if isinstance(value, CVar) else scope.Formula(value)


def _names(node: ast.expr) -> Iterator[str]:
    return (one.id for one in ast.walk(node) if isinstance(one, ast.Name))
