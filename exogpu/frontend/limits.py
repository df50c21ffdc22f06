"""Limits that every later pass relies on: the nesting of a procedure, and its names.

Reading and the passes after it recurse over expressions and blocks, and names go into the
notations of solvers and of CUDA.  What would exhaust Python's stack, or be no name there, is
refused here, with its place.
"""

from __future__ import annotations

import ast
from collections.abc import Hashable, Iterator, Mapping
from dataclasses import dataclass, fields, is_dataclass
from functools import cache, lru_cache
from typing import Final, cast

from exogpu.diagnostics.errors import Diagnostic, Span
from exogpu.frontend.source import Source
from exogpu.ir.nodes import Block, CallProc, CExpr, Proc
from exogpu.ir.walk import walk

DEPTH: Final = 100
"""The depth to which expressions and blocks may be nested in the source, and calls in each
other."""

STATEMENTS: Final = 20_000
"""The number of statements that a procedure may have, its unrolled loops and its calls written
out."""

PARAMETERS: Final = 256
"""The number of parameters that a procedure may have."""

INLINED: Final = 2 * DEPTH
"""The depth to which expressions may be nested where calls and windows are inlined."""


PARTS: Final = 10_000
"""The number of parts that a statement's own expressions may have there."""

NAMED: Final = 1_000
"""The number of parts that an expression may have that is passed to a macro."""

OPTIONS: Final = frozenset({"self", "policy", "progress", "timeout", "memory", "stream"})
"""Further arguments of methods that take the parameters by name."""


def refusals(source: Source) -> Iterator[Diagnostic]:
    """Yields diagnostics for a source that cannot be read on: nested too deep, or with names that
    later notations cannot have.

    >>> from exogpu.frontend.limits import is_name
    >>> is_name("tile_0"), is_name("größe")
    (True, False)
    """
    if (deep := _too_deep(source.function)) is not None:
        yield Diagnostic(
            "P130",
            f"this is nested deeper than {DEPTH} levels",
            source.span(deep),
            "split the expression or the block; each operator and each `and` is a level",
        )
    arguments = (*source.function.args.posonlyargs, *source.function.args.args)
    if len(arguments) > PARAMETERS:
        what = f"{len(arguments):,} parameters are more than {PARAMETERS}"
        place = source.span(arguments[PARAMETERS])
        yield Diagnostic("P132", what, place, "pass arrays instead of single values")
    for argument in arguments:
        if argument.arg in OPTIONS:
            yield Diagnostic(
                "P131",
                f"a parameter cannot be named {argument.arg}",
                source.span(argument),
                "rename it: check_at, run and calls of the kernel have an option of this name",
            )
    for node, name in _bound_names(source.function):
        if not is_name(name):
            yield bad_name(name, source.span(node))


def bad_name(name: object, span: Span) -> Diagnostic:
    """A name that is no identifier in ASCII."""
    remedy = "use the letters a to z and A to Z, digits and underscores"
    return Diagnostic("P131", f"{name!r} is no name of the language", span, remedy)


def is_name(name: object) -> bool:
    """Tests whether solvers and CUDA can have the name too: an identifier in ASCII."""
    return isinstance(name, str) and name.isascii() and name.isidentifier()


@lru_cache(maxsize=64)
def _bound_names(function: ast.FunctionDef) -> tuple[tuple[ast.AST, str], ...]:
    """Returns the names that the procedure itself binds, not those that it takes from Python;
    cached, since the kernels of many configurations are one function."""
    found: list[tuple[ast.AST, str]] = [(function, function.name)]
    for node in ast.walk(function):
        match node:
            case ast.arg(arg=name):
                found.append((node, name))
            case ast.Name(id=name, ctx=ast.Store()):
                found.append((node, name))
            case _:
                pass
    return tuple(found)


@lru_cache(maxsize=64)
def _too_deep(function: ast.FunctionDef) -> ast.stmt | ast.arg | None:
    """The innermost statement or parameter that has a node below the limit."""
    return next((place for _, depth, place in _nested(function) if depth > DEPTH), None)


def levels(function: ast.FunctionDef, node: ast.AST | None = None) -> int:
    """Returns the nesting depth of a node of a function, by default the deepest."""
    depths = _depths(function)
    return max(depths.values()) if node is None else depths[node]


@lru_cache(maxsize=64)
def _depths(function: ast.FunctionDef) -> Mapping[ast.AST, int]:
    """Returns the depth of every node; cached, since a macro is expanded often."""
    return {node: depth for node, depth, _ in _nested(function)}


def _nested(function: ast.FunctionDef) -> Iterator[tuple[ast.AST, int, ast.stmt | ast.arg]]:
    """Every node with its depth, and the innermost statement or parameter around it."""
    waiting: list[tuple[ast.AST, int, ast.stmt | ast.arg]] = [(function, -1, function)]
    while waiting:
        node, depth, place = waiting.pop()
        yield node, depth, place
        inside = depth + _levels(node)
        for child in ast.iter_child_nodes(node):
            at = child if isinstance(child, ast.stmt | ast.arg) else place
            waiting.append((child, inside, at))


def _levels(node: ast.AST) -> int:
    """Returns the number of levels of a node: `a and b and c` is read as two operators."""
    match node:
        case ast.BoolOp():
            return len(node.values) - 1
        case ast.Compare():
            return len(node.ops)
        case ast.expr() | ast.stmt():
            return 1
        case _:
            return 0


@dataclass(frozen=True, slots=True)
class Extent:
    """The size of a procedure with its calls inlined."""

    calls: int
    """Procedures in the longest chain of calls that starts with it."""
    statements: int


def extent(proc: Proc, known: dict[int, Extent] | None = None) -> Extent:
    """The size of a procedure whose callees are within the limits."""
    known = {} if known is None else known
    if id(proc) not in known:
        inside = list(walk(proc.body))
        called = [extent(stmt.proc, known) for stmt in inside if isinstance(stmt, CallProc)]
        calls = 1 + max((one.calls for one in called), default=0)
        known[id(proc)] = Extent(calls, len(inside) + sum(one.statements for one in called))
    return known[id(proc)]


def too_large(proc: Proc) -> Diagnostic | None:
    """Returns the reason why a procedure cannot be inlined as a whole; None if it can."""
    found = extent(proc)
    if found.calls > DEPTH:
        remedy = "call fewer procedures through each other"
        return Diagnostic("P130", f"calls are nested deeper than {DEPTH}", proc.span, remedy)
    if found.statements > STATEMENTS:
        what = f"with its calls it has {found.statements:,} statements, more than {STATEMENTS:,}"
        return Diagnostic("P132", what, proc.span, "write loops of the language instead")
    return None


_OTHERS: Final = frozenset({"body", "orelse", "instr", "proc", "span"})
"""Fields of statements that hold no expression of theirs."""


def is_too_large_inlined(body: Block) -> bool:
    """Tests whether an expression of the statements is too large for later passes: nested too deep,
    or with too many parts, as inlining shares what it writes out twice."""
    return _exceeds([*walk(body)], INLINED, PARTS)


def is_too_large_named(expression: CExpr) -> bool:
    """Tests whether an expression is too large to be passed to a macro, which may use it often."""
    return _exceeds([expression], DEPTH, NAMED)


def _exceeds(waiting: list[object], deepest: int, most: int) -> bool:
    """Tests whether one of these has more levels or more parts."""
    known: dict[int, tuple[int, int]] = {}
    while waiting:
        node = waiting[-1]
        inside = _parts(node)
        unknown = [part for part in inside if id(part) not in known]
        if unknown:
            waiting += unknown
            continue
        waiting.pop()
        measures = [known[id(part)] for part in inside]
        depth = 1 + max((one[0] for one in measures), default=0)
        size = 1 + sum(one[1] for one in measures)
        if depth > deepest or size > most:
            return True
        known[id(node)] = depth, size
    return False


def _parts(node: object) -> tuple[object, ...]:
    if isinstance(node, tuple):
        return node
    return tuple(getattr(node, name) for name in _part_names(cast("Hashable", type(node))))


@cache
def _part_names(kind: type) -> tuple[str, ...]:
    """Returns the fields of a class that hold parts; none of what is no dataclass."""
    return (
        tuple(f.name for f in fields(kind) if f.name not in _OTHERS) if is_dataclass(kind) else ()
    )


def large_when_inlined(proc: Proc) -> Diagnostic:
    """Makes the diagnostic for a procedure that is too large with its calls and windows inlined."""
    return Diagnostic(
        "P130",
        "with calls and windows inlined, an expression is nested deeper than "
        f"{INLINED} levels, or has more than {PARTS:,} parts",
        proc.span,
        "pass and window simpler expressions",
    )
