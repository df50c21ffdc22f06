"""Where a decorated function's text is, and which Python values its names mean."""

from __future__ import annotations
import __future__

import ast
import inspect
import linecache
from collections import ChainMap
from collections.abc import Callable, Mapping
from dataclasses import dataclass
from functools import lru_cache
from types import CodeType, FrameType

from exogpu.hw.language import LANGUAGE
from exogpu.result.errors import NOWHERE, Diagnostic, ExoGpuError, Span


@dataclass(frozen=True, slots=True)
class Source:
    """A function's syntax tree, the lines of its file, and its Python names."""

    function: ast.FunctionDef
    file: str
    lines: tuple[str, ...]
    names: Mapping[str, object]

    def span(self, node: ast.AST) -> Span:
        """The range of a node of the tree."""
        return span_of(node, self.file, self.lines)


def span_of(node: ast.AST, file: str, lines: tuple[str, ...]) -> Span:
    """The range of a node; columns count characters from 1, as editors do."""
    assert isinstance(node, ast.expr | ast.stmt | ast.arg | ast.keyword)
    line, end_line = node.lineno, node.end_lineno or node.lineno
    first = lines[line - 1] if line <= len(lines) else ""
    last = lines[end_line - 1] if end_line <= len(lines) else ""
    column = _characters(first, node.col_offset) + 1
    end = _characters(last, node.end_col_offset or node.col_offset) + 1
    return Span(file, line, column, end_line, end, first.rstrip("\n"))


def _characters(line: str, utf8_offset: int) -> int:
    return len(line.encode()[:utf8_offset].decode(errors="replace"))


@lru_cache(maxsize=64)
def _tree(text: str) -> ast.Module:
    return ast.parse(text)


def source_of(function: Callable[..., object], frame: FrameType | None) -> Source:
    """The source of a function, its names looked up as Python would where it is defined.

    `frame` is the frame that runs the decorator.  Raises ExoGpuError where the text cannot be
    found, as for functions typed into a plain interpreter.
    """
    code = getattr(function, "__code__", None)
    if not isinstance(code, CodeType):
        message = f"{type(function).__name__} is no function with a source text"
        raise ExoGpuError([Diagnostic("P101", message, NOWHERE, "decorate a function of a file")])
    file, first = code.co_filename, code.co_firstlineno
    lines = tuple(linecache.getlines(file))
    for node in ast.walk(_tree("".join(lines))) if lines else ():
        if isinstance(node, ast.FunctionDef) and node.name == function.__name__:
            starts = {node.lineno, *(d.lineno for d in node.decorator_list)}
            if first in starts:
                return Source(node, file, lines, _names(function, frame))
    place = Span(file, first, 1, first, 2)
    raise ExoGpuError(
        [
            Diagnostic(
                "P101",
                f"the source text of {function.__name__} cannot be found",
                place,
                "put the procedure into a file",
            )
        ]
    )


def _names(function: Callable[..., object], frame: FrameType | None) -> Mapping[str, object]:
    closure = inspect.getclosurevars(function)
    local = dict(frame.f_locals) if frame is not None else {}
    scope = function.__globals__
    return ChainMap(dict(closure.nonlocals), local, scope, dict(LANGUAGE), dict(closure.builtins))


def python_value(node: ast.expr, names: Mapping[str, object]) -> object:
    """The value of a metaprogramming expression; whatever it raises is the caller's to report."""
    expression = ast.Expression(node)
    ast.fix_missing_locations(expression)
    flags = __future__.annotations.compiler_flag
    code = compile(expression, "<metaprogramming>", "eval", flags=flags)
    return eval(code, {}, names)  # evaluating the user's own Python is the point
