"""Explains why statements are not the body of an instruction: the first mismatch, side by side."""

from __future__ import annotations

from exogpu.ir.nodes import Stmt
from exogpu.ir.printer import print_stmt


class Mismatch(Exception):
    """A statement of the program and one of the body that do not fit; None for one that lacks."""

    def __init__(self, program: Stmt | None, body: Stmt | None, why: str) -> None:
        super().__init__(why)
        self.program, self.body, self.why = program, body, why

    def side_by_side(self, callee: str) -> str:
        """Both statements and the reason."""
        return f"{_quoted(self.program)} | {_quoted(self.body)} of {callee}: {self.why}"


def _quoted(stmt: Stmt | None) -> str:
    if stmt is None:
        return "nothing"
    line = f" (line {stmt.span.line})" if stmt.span.line else ""
    return f"`{print_stmt(stmt).splitlines()[0].strip()}`{line}"
