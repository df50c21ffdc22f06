"""Instructions that work in place, element by element, on operands that are one window."""

from __future__ import annotations

from collections.abc import Iterator

from exogpu.ir.names import Sym
from exogpu.ir.nodes import Assign, Block, CVar, DataParam, For, If, Param, Pass, Point, Reduce
from exogpu.ir.walk import accesses
from exogpu.result.errors import Diagnostic, Span


def check_in_place(
    name: str, named: tuple[str, ...], params: tuple[Param, ...], body: Block, span: Span
) -> Iterator[Diagnostic]:
    """Yields the reasons why an instruction cannot work in place on the parameters that it names
    (T245)."""
    data = {p.name.name: p for p in params if isinstance(p, DataParam)}
    chosen = [data[n] for n in named if n in data]
    for missing in (n for n in named if n not in data):
        yield _refused(name, f"{missing} is none of its data parameters", span)
    for param in chosen[1:]:
        if (param.shape, param.dtype) != (chosen[0].shape, chosen[0].dtype):
            other = chosen[0].name
            yield _refused(name, f"{param.name} has not the type of {other}", param.span)
    if chosen and not _element_by_element(body, frozenset(p.name for p in chosen), ()):
        yield _refused(name, "its body does not go element by element", span)


def _refused(name: str, why: str, span: Span) -> Diagnostic:
    return Diagnostic(
        "T245",
        f"{name} does not work in place: {why}",
        span,
        "let the body be loops around one statement, which takes these operands at the index of "
        "all its iterators; or leave in_place out",
    )


def _element_by_element(block: Block, names: frozenset[Sym], iterators: tuple[Sym, ...]) -> bool:
    """Tests whether one statement an iteration takes the operands, at an index of its own."""
    match [stmt for stmt in block if not isinstance(stmt, Pass)]:
        case []:
            return True
        case [For() as loop]:
            return _element_by_element(loop.body, names, (*iterators, loop.iterator))
        case [If() as branch]:
            return all(
                _element_by_element(part, names, iterators) for part in (branch.body, branch.orelse)
            )
        case [Assign() | Reduce() as stmt]:
            own = {Point(CVar(i)) for i in iterators}
            indices = [a.coords for a in accesses(stmt) if a.name in names]
            return all(set(index) == own and len(index) == len(own) for index in indices)
        case _:
            return False
