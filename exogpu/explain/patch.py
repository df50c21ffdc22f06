"""Repairs as changes of the source, as a person would paste them.

They are proposals: where a statement of the abstract machine stands in the text can only be guessed
where macros, unrolled loops and scopes lie between.  Whoever makes one checks the changed text.
"""

from __future__ import annotations

import ast
import linecache
from collections.abc import Iterator, Mapping, Sequence
from dataclasses import dataclass
from functools import lru_cache
from typing import Final, TypeAlias

from exogpu.amir.nodes import Op
from exogpu.diagnostics.errors import Span
from exogpu.diagnostics.hazards import Change, Replacement
from exogpu.explain import edits
from exogpu.explain.barrier_hazards import skip_text
from exogpu.frontend.source import span_of
from exogpu.ir import render
from exogpu.ir.nodes import Access
from exogpu.machine.observer import Violation

MOST: Final = 6
"""Ways to make one repair that are proposed."""

Step: TypeAlias = tuple[list[ast.stmt], int]
"""A block, and which of its statements."""

Path: TypeAlias = tuple[Step, ...]
"""From the file down to a statement."""

_SYNCS: Final = frozenset({"Fence", "Arrive", "Await"})


@dataclass(frozen=True, slots=True)
class _Text:
    """A file as it was read."""

    file: str
    lines: tuple[str, ...]
    tree: ast.Module


def changes(repair: edits.Repair) -> tuple[Change, ...]:
    """Ways to write a repair into the source, the likeliest first; none where no place is known."""
    try:
        found = list(dict.fromkeys(_changes(repair.edit)))
    except (SyntaxError, ValueError, RecursionError, IndexError):
        return ()
    return tuple(found[:MOST])


def _changes(edit: edits.Edit) -> Iterator[Change]:
    match edit:
        case edits.First():
            yield from _argument(edit.op.origin.span, 0, edit.timeline)
        case edits.Second():
            yield from _argument(edit.op.origin.span, 1, edit.timeline)
        case edits.Skip():
            yield from _argument(edit.op.origin.span, 2, skip_text(edit.n))
        case edits.OnElement():
            element = f"{edit.op.barrier.name.name}[{', '.join(map(str, edit.index))}]"
            yield from _argument(edit.op.origin.span, 0, element)
        case edits.NewFence():
            yield from _insert_statements(
                edit.op, edit.after, f"Fence({edit.first}, {edit.second})"
            )
        case edits.NewAwait():
            wait = f"Await({_text_of(edit.barrier)}, {edit.timeline}, {skip_text(edit.n)})"
            yield from _insert_statements(edit.op, edit.after, wait)
        case edits.NewArrive():
            yield from _insert_statements(
                edit.op, edit.after, _arrive(edit.timeline, _text_of(edit.barrier))
            )
        case edits.NewGroup():
            yield from _group(edit)
        case edits.Between():
            yield from _insert_on_the_way(edit.violation, f"Fence({edit.first}, {edit.second})")
        case edits.Widened():
            yield from _widening_changes(edit)
        case edits.Moved():
            yield from _move_changes(edit)
        case edits.Hoisted():
            yield from _hoisting_changes(edit)
        case edits.Drained() | edits.Delayed() | edits.Counted():
            return
        case edits.Reindexed() | edits.Filled():
            return


def _arrive(timeline: str, barrier: str) -> str:
    return f"Arrive({timeline}) >> {barrier}"


def _text_of(access: Access) -> str:
    return render.access(access, lambda name: name.name)


# --- where statements stand ---------------------------------------------------------------------


@lru_cache(maxsize=8)
def _parsed(file: str, lines: tuple[str, ...]) -> _Text:
    return _Text(file, lines, ast.parse("".join(lines)))


def _read_source(span: Span) -> _Text:
    lines = tuple(linecache.getlines(span.file))
    if lines[span.line - 1 : span.line] != (f"{span.text}\n",) and span.text:
        raise ValueError("the file is not what was read")
    return _parsed(span.file, lines)


def _path(text: _Text, span: Span) -> Path:
    """Down to the innermost statement around a place."""
    block, found = text.tree.body, list[Step]()
    while block:
        for at, stmt in enumerate(block):
            here = span_of(stmt, text.file, text.lines)
            if (here.line, here.column) <= (span.line, span.column) and (
                span.end_line,
                span.end_column,
            ) <= (here.end_line, here.end_column):
                found.append((block, at))
                block = next((b for b in _blocks(stmt) if _holds(b, span)), [])
                break
        else:
            break
    return tuple(found)


def _blocks(stmt: ast.stmt) -> list[list[ast.stmt]]:
    match stmt:
        case ast.If() | ast.For():
            return [stmt.body, stmt.orelse]
        case ast.With() | ast.FunctionDef():
            return [stmt.body]
        case _:
            return []


def _holds(block: list[ast.stmt], span: Span) -> bool:
    return bool(block) and block[0].lineno <= span.line <= (block[-1].end_lineno or 0)


def _statement(step: Step) -> ast.stmt:
    return step[0][step[1]]


def _indent(text: _Text, stmt: ast.stmt) -> str:
    line = text.lines[stmt.lineno - 1]
    return line[: len(line) - len(line.lstrip())]


def _insert_before(text: _Text, stmt: ast.stmt, *new: str) -> Replacement:
    indent = _indent(text, stmt)
    at = Span(text.file, stmt.lineno, 1, stmt.lineno, 1)
    return Replacement(at, "".join(f"{indent}{line}\n" for line in new))


def _insert_after(text: _Text, stmt: ast.stmt, *new: str) -> Replacement:
    indent, line = _indent(text, stmt), stmt.end_lineno or stmt.lineno
    end = len(text.lines[line - 1].rstrip("\n")) + 1
    made = "".join(f"\n{indent}{one}" for one in new)
    return Replacement(Span(text.file, line, end, line, end), made)


def inserted(anchor: Span, after: bool, new: Sequence[str]) -> Replacement:
    """Lines before or after a statement, indented as it is.  Raises ValueError where the file is
    not what was read."""
    text = _read_source(anchor)
    first = text.lines[anchor.line - 1]
    indent = first[: len(first) - len(first.lstrip())]
    if len(indent) != anchor.column - 1:
        raise ValueError("something stands before the statement in its line")
    if not after:
        at = Span(text.file, anchor.line, 1, anchor.line, 1)
        return Replacement(at, "".join(f"{indent}{line}\n" for line in new))
    last = max(anchor.line, anchor.end_line)
    end = len(text.lines[last - 1].rstrip("\n")) + 1
    made = "".join(f"\n{indent}{line}" for line in new)
    return Replacement(Span(text.file, last, end, last, end), made)


SHOWN: Final = 48
"""Characters of a statement that a sentence quotes."""


def scope(anchor: Span) -> str:
    """`, in the loop of line 20`: what holds a statement in the text; empty where that is not what
    was read."""
    try:
        text = _read_source(anchor)
        around = _path(text, anchor)[-2:-1]
    except (ValueError, SyntaxError, RecursionError):
        return ""
    match [_statement(step) for step in around]:
        case [ast.For() as loop]:
            return f", in the loop of line {loop.lineno}"
        case [ast.If() as condition]:
            return f", in the `if` of line {condition.lineno}"
        case [ast.With() as block]:
            header = text.lines[block.lineno - 1].strip().removesuffix(":")
            header = header if len(header) <= SHOWN else "with"
            return f", in the `{header}` of line {block.lineno}"
        case [ast.FunctionDef(name=name)]:
            return f", in {name}"
        case _:
            return ""


def _delete_statement(text: _Text, stmt: ast.stmt) -> Replacement:
    return Replacement(Span(text.file, stmt.lineno, 1, (stmt.end_lineno or 0) + 1, 1), "")


# --- one statement ------------------------------------------------------------------------------


def _argument(span: Span, number: int, new: str) -> Iterator[Change]:
    """Another argument of a synchronisation statement."""
    text = _read_source(span)
    for node in ast.walk(_statement(_path(text, span)[-1])):
        if (
            isinstance(node, ast.Call)
            and isinstance(node.func, ast.Name)
            and node.func.id in _SYNCS
            and number < len(node.args)
        ):
            yield (Replacement(span_of(node.args[number], text.file, text.lines), new),)


def reindexed(span: Span, dims: Mapping[str, int], new: str) -> Iterator[Replacement]:
    """Another index of some variables in a statement, each in one dimension.  Raises ValueError
    where the file is not what was read."""
    text = _read_source(span)
    for node in ast.walk(_statement(_path(text, span)[-1])):
        if isinstance(node, ast.Subscript) and isinstance(node.value, ast.Name):
            indices = node.slice.elts if isinstance(node.slice, ast.Tuple) else [node.slice]
            at = dims.get(node.value.id, len(indices))
            if at < len(indices):
                yield Replacement(span_of(indices[at], text.file, text.lines), new)


def reindexed_ring(
    declared: Span, name: str, dimension: int, old: str, new: str
) -> Iterator[Replacement]:
    """Another index wherever the function of a variable's declaration has this one for it.  Raises
    ValueError where the file is not what was read."""
    text = _read_source(declared)
    function, wanted = (
        _statement(_path(text, declared)[0]),
        ast.unparse(ast.parse(old, mode="eval")),
    )
    for stmt in map(_statement, _path(text, declared)):
        function = stmt if isinstance(stmt, ast.FunctionDef) else function
    for node in ast.walk(function):
        match node:
            case ast.Subscript(value=ast.Name(id=of), slice=index) if of == name:
                indices = index.elts if isinstance(index, ast.Tuple) else [index]
                if dimension < len(indices) and ast.unparse(indices[dimension]) == wanted:
                    yield Replacement(span_of(indices[dimension], text.file, text.lines), new)
            case _:
                pass


def _insert_statements(op: Op, after: bool, *new: str) -> Iterator[Change]:
    """Statements next to that of an operation; where a variable ends, before it does."""
    span = op.origin.span
    text = _read_source(span)
    if op.origin.ends is not None:
        yield (_at_the_end(text, span, op.origin.ends, *new),)
        return
    stmt = _statement(_path(text, span)[-1])
    yield (_insert_after(text, stmt, *new) if after else _insert_before(text, stmt, *new),)


def _at_the_end(text: _Text, declared: Span, ends: Span, *new: str) -> Replacement:
    """In the block of a variable, before its memory ends."""
    block, at = _path(text, declared)[-1]
    last = next((step[1] for step in _path(text, ends) if step[0] is block), len(block) - 1)
    stmt = block[last]
    reused = span_of(stmt, text.file, text.lines) == ends and last > at
    if reused and isinstance(stmt, ast.AnnAssign):
        return _insert_before(text, stmt, *new)
    return _insert_after(text, stmt, *new)


def _group(edit: edits.NewGroup) -> Iterator[Change]:
    """An Arrive and an Await of a commit group; of a new one, its declaration too."""
    span = edit.op.origin.span
    text = _read_source(span)
    path = _path(text, span)
    stmt = _statement(path[-1])

    def texts(group: str) -> tuple[str, str]:
        return _arrive(edit.first, group), f"Await({group}, {edit.second}, 0)"

    if edit.group is not None:
        yield (_insert_after(text, stmt, *texts(_text_of(edit.group))),)
        return
    loops = [one for one in map(_statement, path) if _divides(one)]
    if not loops:
        return
    names, extents = [], []
    for loop in loops:
        assert isinstance(loop, ast.For) and isinstance(loop.iter, ast.Call)
        names.append(ast.unparse(loop.target))
        extents.append(ast.unparse(loop.iter.args[1]))
    index = f"[{', '.join(names)}]"
    if unused := _declared_group(path, len(names)):
        yield (_insert_after(text, stmt, *texts(unused + index)),)
    name = _fresh("cg", path)
    declared = f"{name}: barrier[{', '.join(extents)}] @ CudaCommitGroup"
    yield (
        _insert_before(text, loops[0], declared),
        _insert_after(text, stmt, *texts(name + index)),
    )


def _declared_group(path: Path, rank: int) -> str:
    """A commit group of so many dimensions that is known at a statement; empty where none is."""
    for block, at in path:
        for stmt in block[:at]:
            match stmt:
                case ast.AnnAssign(
                    target=ast.Name(id=name),
                    annotation=ast.BinOp(
                        left=ast.Subscript(slice=extents), right=ast.Name(id="CudaCommitGroup")
                    ),
                ):
                    found = len(extents.elts) if isinstance(extents, ast.Tuple) else 1
                    if found == rank:
                        return name
                case _:
                    pass
    return ""


def _fresh(name: str, path: Path) -> str:
    """The name, with a number where the function has it already."""
    function = next((s for s in map(_statement, path) if isinstance(s, ast.FunctionDef)), None)
    nodes = () if function is None else ast.walk(function)
    taken = {node.id for node in nodes if isinstance(node, ast.Name)}
    return next(n for n in (name, *(f"{name}{i}" for i in range(2, 99))) if n not in taken)


def _divides(stmt: ast.stmt) -> bool:
    """Tests whether it is a `cuda_threads` loop."""
    return _loop_of(stmt) == "cuda_threads"


def _loop_of(stmt: ast.stmt) -> str:
    match stmt:
        case ast.For(iter=ast.Call(func=ast.Name(id=name))):
            return name
        case _:
            return ""


# --- between two statements ---------------------------------------------------------------------


def _insert_on_the_way(violation: Violation, *new: str) -> Iterator[Change]:
    """Statements on the way from one statement to the other: between them in the block that holds
    both, or at the end of a loop around both, the innermost first."""
    check, record = violation.check.origin, violation.record
    if record is None or record.origin.span.file != check.span.file:
        return
    text = _read_source(check.span)
    _read_source(record.origin.span)
    if check.ends is not None:
        yield (_at_the_end(text, check.span, check.ends, *new),)
    ours, theirs = _path(text, check.span), _path(text, record.origin.span)
    common = _common_length(ours, theirs)
    split = ours[common : common + 1], theirs[common : common + 1]
    ahead: list[Change] = []
    if all(split) and split[0][0][0] is split[1][0][0] and split[1][0][1] < split[0][0][1]:
        ahead = [(_insert_before(text, _statement(split[0][0]), *new),)]
    around = [_statement(step) for step in reversed(ours[:common])]
    loops = [one for one in around if _loop_of(one) in ("seq", "cuda_tasks")]
    carried = [
        (_insert_after(text, loop.body[-1], *new),) for loop in loops if isinstance(loop, ast.For)
    ]
    yield from (*ahead, *carried)


def _common_length(ours: Path, theirs: Path) -> int:
    """Steps from the file on that both take."""
    count = 0
    for mine, other in zip(ours, theirs, strict=False):
        if mine[0] is not other[0] or mine[1] != other[1]:
            break
        count += 1
    return count


def _widening_changes(edit: edits.Widened) -> Iterator[Change]:
    """A Fence where the threads of both take part, and no longer where it was."""
    span = edit.op.origin.span
    text = _read_source(span)
    path = _path(text, span)
    fence = _statement(path[-1])
    alone, _ = _outermost_alone(path)
    for change in _insert_on_the_way(edit.violation, ast.unparse(fence)):
        yield (*change, _delete_statement(text, alone))


# --- moves --------------------------------------------------------------------------------------


def _outermost_alone(path: Path) -> tuple[ast.stmt, Sequence[ast.stmt]]:
    """The outermost statement that holds nothing else; all from it down to the statement."""
    chain = [_statement(path[-1])]
    for step, inner in zip(reversed(path[:-1]), reversed(path[1:]), strict=True):
        stmt = _statement(step)
        if len(inner[0]) != 1 or not isinstance(stmt, ast.For | ast.With | ast.If):
            break
        chain.append(stmt)
    return chain[-1], chain


def _move_changes(edit: edits.Moved) -> Iterator[Change]:
    """A statement cut and pasted, itself or with what holds it alone."""
    span, to = edit.op.origin.span, edit.to.origin.span
    if span.file != to.file:
        return
    text = _read_source(span)
    whole, chain = _outermost_alone(_path(text, span))
    place = _statement(_path(text, to)[-1])
    for moved in chain:
        lines = text.lines[moved.lineno - 1 : moved.end_lineno]
        indent = len(_indent(text, moved))
        pasted = [line.rstrip("\n")[indent:] for line in lines]
        new = (_insert_after if edit.after else _insert_before)(text, place, *pasted)
        yield (_delete_statement(text, whole), new)


def _hoisting_changes(edit: edits.Hoisted) -> Iterator[Change]:
    """A statement that ends or begins a block, out of it; what then holds nothing goes."""
    text = _read_source(edit.op.origin.span)
    *_, outer, inner = _path(text, edit.op.origin.span)
    holder, stmt = _statement(outer), _statement(inner)
    first, last = stmt.lineno, stmt.end_lineno or stmt.lineno
    less = len(_indent(text, stmt)) - len(_indent(text, holder))
    new = "".join(line[less:] for line in text.lines[first - 1 : last])
    begins = inner[1] == 0
    if begins:
        if len(inner[0]) > 1:
            new += "".join(text.lines[holder.lineno - 1 : first - 1])
        first = holder.lineno
    yield (Replacement(Span(text.file, first, 1, last + 1, 1), new),)
