"""Finds a decorated function's text, and the Python values that its names mean."""

from __future__ import annotations
import __future__

import ast
import builtins
import inspect
import linecache
import os
from collections import ChainMap
from collections.abc import Callable, Mapping
from contextlib import suppress
from dataclasses import dataclass, field
from functools import lru_cache
from types import CodeType, FrameType, FunctionType

from exogpu.diagnostics.errors import NOWHERE, Diagnostic, ExoGpuError, Span
from exogpu.hw.language import LANGUAGE


@dataclass(frozen=True, slots=True)
class Source:
    """A function's syntax tree, the lines of its file, and its Python names."""

    function: ast.FunctionDef
    file: str
    lines: tuple[str, ...] = field(repr=False)
    names: Mapping[str, object] = field(repr=False)

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
    if line.isascii():
        return min(utf8_offset, len(line))
    return len(line.encode()[:utf8_offset].decode(errors="replace"))


@lru_cache(maxsize=64)
def _definitions(text: str) -> Mapping[tuple[str, int], ast.FunctionDef]:
    """Returns the functions of a file by name and first line, which may be that of a decorator."""
    found: dict[tuple[str, int], ast.FunctionDef] = {}
    for node in ast.walk(ast.parse(text)):
        if isinstance(node, ast.FunctionDef):
            for line in (node.lineno, *(d.lineno for d in node.decorator_list)):
                found.setdefault((node.name, line), node)
    return found


def source_of(function: Callable[..., object], frame: FrameType | None) -> Source:
    """The source of a function, its names looked up as Python would where it is defined.

    `frame` is the frame that runs the decorator.  Raises ExoGpuError where the text cannot be
    found, as for functions typed into a plain interpreter.
    """
    code = getattr(function, "__code__", None)
    if not isinstance(code, CodeType):
        named = isinstance(function, type)
        what = f"class {function.__name__}" if named else f"a {type(function).__name__}"
        message = f"{what} is no function with a source text"
        place = NOWHERE
        if frame is not None:
            file, line = frame.f_code.co_filename, frame.f_lineno
            place = Span(file, line, 1, line, 2, linecache.getline(file, line).rstrip("\n"))
        raise ExoGpuError([Diagnostic("P101", message, place, "decorate a def of a file")])
    file, first = code.co_filename, code.co_firstlineno
    lines = tuple(linecache.getlines(file))
    node = _definitions("".join(lines)).get((function.__name__, first)) if lines else None
    if node is not None:
        plain = getattr(function, "__func__", function)  # of a method
        assert isinstance(plain, FunctionType)
        return Source(node, file, lines, _names(plain, frame))
    message, remedy = _unread(function, code, bool(lines))
    text = lines[first - 1].rstrip("\n") if first <= len(lines) else ""
    start = len(text) - len(text.lstrip()) + 1
    place = Span(file, first, start, first, max(len(text), start) + 1, text)
    raise ExoGpuError([Diagnostic("P101", message, place, remedy)])


def _unread(function: Callable[..., object], code: CodeType, found: bool) -> tuple[str, str]:
    """Explains why a function has no definition that can be read, with a remedy."""
    name, asks = function.__name__, "write def"
    if code.co_flags & (inspect.CO_COROUTINE | inspect.CO_ASYNC_GENERATOR):
        return f"{name} is an async function: procedures are parsed, never awaited", asks
    if name == "<lambda>":
        return "a lambda has no statements that could be read", asks
    lost = f"the source text of {name} cannot be found"
    if found:
        return f"{lost} at its line: the file has changed since it was loaded", "load it again"
    if os.path.isfile(code.co_filename):
        remedy = "save it as UTF-8, or declare its encoding in the first line"
        return f"{lost}: {code.co_filename} cannot be decoded", remedy
    return lost, "put the procedure into a file"


def _names(function: FunctionType, frame: FrameType | None) -> Mapping[str, object]:
    """Returns the values of names when the function is decorated; a name without a value yet is
    left out."""
    code, scope = function.__code__, function.__globals__
    enclosing: dict[str, object] = {}
    for name, cell in zip(code.co_freevars, function.__closure__ or (), strict=True):
        with suppress(ValueError):
            enclosing[name] = cell.cell_contents
    local = dict(frame.f_locals) if frame is not None else {}
    built_in = {name: getattr(builtins, name) for name in code.co_names if hasattr(builtins, name)}
    return ChainMap(enclosing, local, scope, dict(LANGUAGE), built_in)


def python_value(node: ast.expr, names: Mapping[str, object]) -> object:
    """The value of a metaprogramming expression; whatever it raises is the caller's to report."""
    return eval(_compiled(node), {}, names)  # evaluating the user's own Python is the point


@lru_cache(maxsize=4096)
def _compiled(node: ast.expr) -> CodeType:
    """Returns the code of an expression; cached, since a macro is expanded often."""
    expression = ast.Expression(node)
    ast.fix_missing_locations(expression)
    flags = __future__.annotations.compiler_flag
    code: CodeType = compile(expression, "<metaprogramming>", "eval", flags=flags)
    return code
