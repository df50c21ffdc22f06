"""Explains the NameError of a kernel in a file that lacks `from __future__ import annotations`.

Python evaluates the annotations of a definition before it calls `@proc`, so that exogpu cannot
raise an error of its own.  The hook of uncaught exceptions adds a note instead.
"""

from __future__ import annotations
import __future__

import ast
import linecache
import sys
from types import TracebackType
from typing import Final

DECORATORS: Final = frozenset({"proc", "instr", "macro"})
NOTE: Final = (
    "Annotations of a kernel are not Python values. Write `from __future__ import annotations` as "
    "the first line of the file, before `from exogpu import *`."
)


def install() -> None:
    """Lets the hook of uncaught exceptions add the note; the hook in place is called after it."""
    previous = sys.excepthook

    def hook(kind: type[BaseException], error: BaseException, trace: TracebackType | None) -> None:
        if isinstance(error, NameError) and trace is not None and evaluates_annotations(trace):
            error.add_note(NOTE)
        previous(kind, error, trace)

    sys.excepthook = hook


def evaluates_annotations(trace: TracebackType) -> bool:
    """Tells whether a traceback ends in the head of a kernel whose annotations are evaluated."""
    while trace.tb_next is not None:
        trace = trace.tb_next
    code = trace.tb_frame.f_code
    if code.co_flags & __future__.annotations.compiler_flag:
        return False
    try:
        tree = ast.parse("".join(linecache.getlines(code.co_filename)))
    except SyntaxError:
        return False
    return any(
        _decorated(node) and node.lineno <= trace.tb_lineno < node.body[0].lineno
        for node in ast.walk(tree)
        if isinstance(node, ast.FunctionDef)
    )


def _decorated(function: ast.FunctionDef) -> bool:
    for decorator in function.decorator_list:
        named = decorator.func if isinstance(decorator, ast.Call) else decorator
        name = named.attr if isinstance(named, ast.Attribute) else getattr(named, "id", "")
        if name in DECORATORS or name.endswith("_instr"):
            return True
    return False
