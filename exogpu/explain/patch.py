"""Repairs as changes of the source, as a person would paste them.

They are proposals: where a statement of the abstract machine stands in the text can only be guessed
where macros, unrolled loops and scopes lie between.  Whoever makes one checks the changed text.
"""

from __future__ import annotations

import ast
from collections.abc import Iterator, Mapping, Sequence
from dataclasses import replace
from typing import Final

from exogpu.amir.nodes import Op
from exogpu.diagnostics.errors import Span
from exogpu.diagnostics.hazards import Change, Replacement
from exogpu.explain import edits
from exogpu.explain.barrier_hazards import skip_text
from exogpu.explain.source_text import (
    Path,
    SourceText,
    delete_statement,
    indent_of,
    insert_after,
    insert_before,
    path_down,
    read_source,
    statement_of,
)
from exogpu.frontend.source import span_of
from exogpu.ir import render
from exogpu.ir.nodes import Access, Point
from exogpu.machine.observer import Violation

MOST: Final = 6
"""Ways to make one repair that are proposed."""

_SYNCS: Final = frozenset({"Fence", "Arrive", "Await"})


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
            coords = tuple(map(Point, edit.index))
            element = _text_of(replace(edit.op.barrier, coords=coords))
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
                edit.op, edit.after, _arrive(edit.timeline, *(edit.targets or (edit.barrier,)))
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
        case edits.Deletion():
            text = read_source(edit.op.origin.span)
            yield (
                delete_statement(text, _outermost_alone(path_down(text, edit.op.origin.span))[0]),
            )
        case edits.Exchange():
            ends = ((edit.first, edit.second), (edit.second, edit.first))
            parts = [_argument(a.origin.span, 0, _text_of(b.barrier)) for a, b in ends]
            for first, second in zip(*parts, strict=False):
                yield (*first, *second)
        case edits.MulticastTo():
            yield from _multicast_changes(edit)
        case edits.Drained() | edits.Delayed() | edits.Counted() | edits.BesideLoop():
            return
        case edits.Reindexed() | edits.Filled():
            return


def _arrive(timeline: str, *targets: Access) -> str:
    return f"Arrive({timeline})" + "".join(f" >> {_text_of(target)}" for target in targets)


def _text_of(access: Access) -> str:
    return render.access(access, lambda name: name.name)


# --- one statement ------------------------------------------------------------------------------


def _argument(span: Span, number: int, new: str) -> Iterator[Change]:
    """Another argument of a synchronisation statement."""
    text = read_source(span)
    for node in ast.walk(statement_of(path_down(text, span)[-1])):
        if (
            isinstance(node, ast.Call)
            and isinstance(node.func, ast.Name)
            and node.func.id in _SYNCS
            and number < len(node.args)
        ):
            yield (Replacement(span_of(node.args[number], text.file, text.lines), new),)


def _multicast_changes(edit: edits.MulticastTo) -> Iterator[Change]:
    """Other targets of an Arrive."""
    text = read_source(edit.op.origin.span)
    for node in ast.walk(statement_of(path_down(text, edit.op.origin.span)[-1])):
        match node:
            case ast.BinOp(left=ast.Call(func=ast.Name(id="Arrive")) as call):
                whole = span_of(node, text.file, text.lines)
                first = span_of(call, text.file, text.lines)
                at = replace(whole, line=first.end_line, column=first.end_column)
                new = "".join(f" >> {_text_of(target)}" for target in edit.targets)
                yield (Replacement(at, new),)
            case _:
                pass


def reindexed(span: Span, dims: Mapping[str, int], new: str) -> Iterator[Replacement]:
    """Another index of some variables in a statement, each in one dimension.  Raises ValueError
    where the file is not what was read."""
    text = read_source(span)
    for node in ast.walk(statement_of(path_down(text, span)[-1])):
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
    text = read_source(declared)
    function, wanted = (
        statement_of(path_down(text, declared)[0]),
        ast.unparse(ast.parse(old, mode="eval")),
    )
    for stmt in map(statement_of, path_down(text, declared)):
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
    text = read_source(span)
    if op.origin.ends is not None:
        yield (_at_the_end(text, span, op.origin.ends, *new),)
        return
    stmt = statement_of(path_down(text, span)[-1])
    yield (insert_after(text, stmt, *new) if after else insert_before(text, stmt, *new),)


def _at_the_end(text: SourceText, declared: Span, ends: Span, *new: str) -> Replacement:
    """In the block of a variable, before its memory ends."""
    block, at = path_down(text, declared)[-1]
    last = next((step[1] for step in path_down(text, ends) if step[0] is block), len(block) - 1)
    stmt = block[last]
    reused = span_of(stmt, text.file, text.lines) == ends and last > at
    if reused and isinstance(stmt, ast.AnnAssign):
        return insert_before(text, stmt, *new)
    return insert_after(text, stmt, *new)


def _group(edit: edits.NewGroup) -> Iterator[Change]:
    """An Arrive and an Await of a commit group; of a new one, its declaration too."""
    span = edit.op.origin.span
    text = read_source(span)
    path = path_down(text, span)
    stmt = statement_of(path[-1])

    def texts(group: str) -> tuple[str, str]:
        return f"Arrive({edit.first}) >> {group}", f"Await({group}, {edit.second}, 0)"

    if edit.group is not None:
        yield (insert_after(text, stmt, *texts(_text_of(edit.group))),)
        return
    loops = [one for one in map(statement_of, path) if _divides(one)]
    if not loops:
        return
    names, extents = [], []
    for loop in loops:
        assert isinstance(loop, ast.For) and isinstance(loop.iter, ast.Call)
        names.append(ast.unparse(loop.target))
        extents.append(ast.unparse(loop.iter.args[1]))
    index = f"[{', '.join(names)}]"
    if unused := _declared_group(path, len(names)):
        yield (insert_after(text, stmt, *texts(unused + index)),)
    name = _fresh("cg", path)
    declared = f"{name}: barrier[{', '.join(extents)}] @ CudaCommitGroup"
    yield (
        insert_before(text, loops[0], declared),
        insert_after(text, stmt, *texts(name + index)),
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
    function = next((s for s in map(statement_of, path) if isinstance(s, ast.FunctionDef)), None)
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
    text = read_source(check.span)
    read_source(record.origin.span)
    if check.ends is not None:
        yield (_at_the_end(text, check.span, check.ends, *new),)
    ours, theirs = path_down(text, check.span), path_down(text, record.origin.span)
    common = _common_length(ours, theirs)
    split = ours[common : common + 1], theirs[common : common + 1]
    ahead: list[Change] = []
    if all(split) and split[0][0][0] is split[1][0][0] and split[1][0][1] < split[0][0][1]:
        ahead = [(insert_before(text, statement_of(split[0][0]), *new),)]
    around = [statement_of(step) for step in reversed(ours[:common])]
    loops = [one for one in around if _loop_of(one) in ("seq", "cuda_tasks")]
    carried = [
        (insert_after(text, loop.body[-1], *new),) for loop in loops if isinstance(loop, ast.For)
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
    text = read_source(span)
    path = path_down(text, span)
    fence = statement_of(path[-1])
    alone, _ = _outermost_alone(path)
    for change in _insert_on_the_way(edit.violation, ast.unparse(fence)):
        yield (*change, delete_statement(text, alone))


# --- moves --------------------------------------------------------------------------------------


def _outermost_alone(path: Path) -> tuple[ast.stmt, Sequence[ast.stmt]]:
    """The outermost statement that holds nothing else; all from it down to the statement."""
    chain = [statement_of(path[-1])]
    for step, inner in zip(reversed(path[:-1]), reversed(path[1:]), strict=True):
        stmt = statement_of(step)
        if len(inner[0]) != 1 or not isinstance(stmt, ast.For | ast.With | ast.If):
            break
        chain.append(stmt)
    return chain[-1], chain


def _move_changes(edit: edits.Moved) -> Iterator[Change]:
    """A statement cut and pasted, itself or with what holds it alone."""
    span, to = edit.op.origin.span, edit.to.origin.span
    if span.file != to.file:
        return
    text = read_source(span)
    whole, chain = _outermost_alone(path_down(text, span))
    place = statement_of(path_down(text, to)[-1])
    for moved in chain:
        lines = text.lines[moved.lineno - 1 : moved.end_lineno]
        indent = len(indent_of(text, moved))
        pasted = [line.rstrip("\n")[indent:] for line in lines]
        new = (insert_after if edit.after else insert_before)(text, place, *pasted)
        yield (delete_statement(text, whole), new)


def _hoisting_changes(edit: edits.Hoisted) -> Iterator[Change]:
    """A statement that ends or begins a block, out of it; what then holds nothing goes."""
    text = read_source(edit.op.origin.span)
    *_, outer, inner = path_down(text, edit.op.origin.span)
    holder, stmt = statement_of(outer), statement_of(inner)
    first, last = stmt.lineno, stmt.end_lineno or stmt.lineno
    less = len(indent_of(text, stmt)) - len(indent_of(text, holder))
    new = "".join(line[less:] for line in text.lines[first - 1 : last])
    begins = inner[1] == 0
    if begins:
        if len(inner[0]) > 1:
            new += "".join(text.lines[holder.lineno - 1 : first - 1])
        first = holder.lineno
    yield (Replacement(Span(text.file, first, 1, last + 1, 1), new),)
