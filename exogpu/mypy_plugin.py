"""A plugin of mypy: the bodies and signatures of kernels are the language's, not Python's.

In pyproject.toml:

    [tool.mypy]
    plugins = ["exogpu.mypy_plugin"]

What `@proc`, `@macro` and `@instr` decorate is left out before mypy looks at it; what they make has
its type: `kernel.chek()` is an error still.
"""

from __future__ import annotations

from collections.abc import Iterator
from typing import Final

from mypy.nodes import (
    MISSING_FALLBACK,
    Block,
    CallExpr,
    ClassDef,
    Decorator,
    Expression,
    ForStmt,
    FuncDef,
    IfStmt,
    MemberExpr,
    MypyFile,
    NameExpr,
    PassStmt,
    Statement,
    TryStmt,
    WhileStmt,
    WithStmt,
)
from mypy.plugin import Plugin
from mypy.types import AnyType, CallableType, Instance, TypeOfAny

DECORATORS: Final = frozenset({"proc", "macro", "instr"})
"""By the last part of their names: where they come from is not known before analysis."""


class KernelPlugin(Plugin):
    """Leaves out what is decorated, file by file."""

    def get_additional_deps(self, file: MypyFile) -> list[tuple[int, str, int]]:
        """No more dependencies; it is called when a file has been parsed, and not analysed."""
        for function in _decorated(file.defs):
            _leave_out(function)
        return []


def plugin(_: str) -> type[Plugin]:
    """Returns the plugin's class to mypy."""
    return KernelPlugin


def _decorated(statements: list[Statement]) -> Iterator[FuncDef]:
    for statement in statements:
        if isinstance(statement, Decorator) and any(
            _name(one) in DECORATORS for one in statement.original_decorators
        ):
            # For pyright; to mypy it says that what is made has no type.
            for decorators in (statement.decorators, statement.original_decorators):
                decorators[:] = [one for one in decorators if _name(one) != "no_type_check"]
            yield statement.func
            continue
        for block in _blocks(statement):
            yield from _decorated(block.body)


def _name(decorator: Expression) -> str:
    match decorator:
        case CallExpr():
            return _name(decorator.callee)
        case NameExpr() | MemberExpr():
            return decorator.name
        case _:
            return ""


def _blocks(statement: Statement) -> list[Block]:
    match statement:
        case Decorator():
            return [statement.func.body]
        case FuncDef() | WithStmt():
            return [statement.body]
        case ClassDef():
            return [statement.defs]
        case IfStmt():
            return [*statement.body, *([statement.else_body] if statement.else_body else [])]
        case ForStmt() | WhileStmt():
            return [statement.body, *([statement.else_body] if statement.else_body else [])]
        case TryStmt():
            last = [block for block in (statement.else_body, statement.finally_body) if block]
            return [statement.body, *statement.handlers, *last]
        case _:
            return []


def _leave_out(function: FuncDef) -> None:
    """Its body and its types go; it takes and gives anything."""
    anything = AnyType(TypeOfAny.special_form)
    function.body.body = [PassStmt()]
    for argument in function.arguments:
        argument.type_annotation = None
        argument.initializer = None
    kinds = [argument.kind for argument in function.arguments]
    names = [argument.variable.name for argument in function.arguments]
    types = [anything] * len(kinds)
    later = Instance(MISSING_FALLBACK, [])  # as mypy's parser leaves it
    function.type = CallableType(types, kinds, names, anything, later, function.name)
    function.unanalyzed_type = function.type
