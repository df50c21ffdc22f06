"""Smaller programs that fail in the same way: statements go, guards are unwrapped."""

from __future__ import annotations

import ast
from collections.abc import Callable, Iterator, Sequence

Keeps = Callable[[str], bool]


def smaller(source: str, keeps: Keeps, tries: int = 400) -> str:
    """A program from which no single statement can go without losing what it `keeps`.

    At most so many candidates are looked at.
    """
    found = True
    while found and tries > 0:
        found = False
        for candidate in _cuts(source):
            tries -= 1
            if tries < 0:
                break
            if keeps(candidate):
                source, found = candidate, True
                break
    return source


def _cuts(source: str) -> Iterator[str]:
    """The program without one statement, or with the body in place of a block; then without one
    parameter.  Larger cuts come first."""
    tree = ast.parse(source)
    sites = sorted(_sites(tree), key=lambda site: -_weight(site[0][site[1]]))
    for body, at in sites:
        stmt = body[at]
        kept = list(body)
        for inside in ([], _unwrapped(stmt)):
            if inside is None:
                continue
            body[:] = [*kept[:at], *inside, *kept[at + 1 :]] or [ast.Pass()]
            yield _text(tree)
            body[:] = kept
    (function,) = [node for node in tree.body if isinstance(node, ast.FunctionDef)]
    arguments = list(function.args.args)
    for at in range(len(arguments)):
        function.args.args = arguments[:at] + arguments[at + 1 :]
        yield _text(tree)
    function.args.args = arguments


def _sites(tree: ast.Module) -> Iterator[tuple[list[ast.stmt], int]]:
    (function,) = [node for node in tree.body if isinstance(node, ast.FunctionDef)]
    for node in ast.walk(function):
        for name in ("body", "orelse"):
            block = getattr(node, name, None)
            if isinstance(block, list):
                yield from ((block, at) for at in range(len(block)))


def _unwrapped(stmt: ast.stmt) -> Sequence[ast.stmt] | None:
    """The body of a guard; of a loop, which binds a name, it would mean nothing."""
    if isinstance(stmt, ast.If):
        return stmt.body
    if isinstance(stmt, ast.With) and "CudaWarps" in ast.unparse(stmt.items[0]):
        return stmt.body
    return None


def _weight(stmt: ast.stmt) -> int:
    return sum(isinstance(node, ast.stmt) for node in ast.walk(stmt))


def _text(tree: ast.Module) -> str:
    return ast.unparse(ast.fix_missing_locations(tree)) + "\n"
