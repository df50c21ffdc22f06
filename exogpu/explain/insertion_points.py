"""Places in a procedure for new statements: in the procedure, in its text and in words."""

from __future__ import annotations

import re
from collections.abc import Callable, Iterator, Mapping, Sequence
from dataclasses import dataclass, replace
from typing import TypeAlias

from exogpu.diagnostics.errors import Span
from exogpu.diagnostics.hazards import Change, Replacement
from exogpu.explain.barrier_hazards import skip_text
from exogpu.explain.source_text import call_of_macro, inserted, scope
from exogpu.ir import nodes as ir
from exogpu.ir import render
from exogpu.ir.render import condition, control
from exogpu.ir.types import Sym
from exogpu.ir.walk import blocks, control_variables, map_blocks, substitute_access

Path: TypeAlias = tuple[ir.Stmt, ...]
"""The statements that enclose a statement, outermost first, and the statement itself."""

Anew: TypeAlias = Mapping[int, tuple[ir.Stmt, ...]]
"""New statements for some statements, by `id` of the old one."""


@dataclass(frozen=True, slots=True, eq=False)
class Gap:
    """The place right before or right after a statement, in its block."""

    anchor: ir.Stmt
    after: bool
    around: Path

    @property
    def key(self) -> tuple[Span, bool]:
        """A key that differs for different places of the text."""
        return self.anchor.span, self.after


def paths(block: ir.Block, around: Path = ()) -> Iterator[Path]:
    """The path of each statement, in program order."""
    for stmt in block:
        yield (*around, stmt)
        for inner in blocks(stmt):
            yield from paths(inner, (*around, stmt))


def paths_to(proc: ir.Proc, span: Span) -> list[Path]:
    """The paths of the statements of a place in the text: several where that is read more than
    once."""
    found = [
        path
        for path in paths(proc.body)
        if path[-1].span == span and not isinstance(path[-1], ir.Free | ir.Alloc | ir.BarrierAlloc)
    ]
    # The binding of a slot has the place of its statement.
    return [path for path in found if len(path) < 2 or path[-2].span != span]


def next_to(path: Path, after: bool) -> Gap:
    """The place next to a statement."""
    return Gap(path[-1], after, path[:-1])


def at_the_end(proc: ir.Proc, declared: Span) -> list[Gap]:
    """Finds the place after the last statement before the memory of a variable is freed."""
    found = []
    for path in paths(proc.body):
        if isinstance(path[-1], ir.Free) and path[-1].span == declared:
            block = _block_of(path, proc)
            before = block[: next(at for at, stmt in enumerate(block) if stmt is path[-1])]
            last = [stmt for stmt in before if not isinstance(stmt, ir.Free)][-1:]
            found += [Gap(stmt, True, path[:-1]) for stmt in last]
    return found


def gaps_between(proc: ir.Proc, ours: Path, theirs: Path) -> Iterator[Gap]:
    """The places on the way from the statement of `theirs` to that of `ours`: in the block that
    holds both, then at the end of each loop around both, then in narrower scopes."""
    common = 0
    while common < min(len(ours), len(theirs)) and ours[common] is theirs[common]:
        common += 1
    if common < min(len(ours), len(theirs)):
        block = list(_block_of(ours[: common + 1], proc))
        first, last = _position(block, theirs[common]), _position(block, ours[common])
        around = ours[:common]
        if 0 <= first < last:
            yield Gap(ours[common], False, around)
            for at in range(first, last - 1):
                if not isinstance(block[at], ir.Free):
                    yield Gap(block[at], True, around)
    for length in range(common, 0, -1):
        loop = ours[length - 1]
        if isinstance(loop, ir.For) and isinstance(loop.mode, ir.Seq) and loop.body:
            yield Gap(loop.body[-1], True, ours[:length])
    for path, after in ((theirs, True), (ours, False)):
        for length in range(common + 2, len(path) + 1):
            if not any(_is_alone(stmt) for stmt in path[common : length - 1]):
                yield next_to(path[:length], after)


def _position(block: Sequence[ir.Stmt], wanted: ir.Stmt) -> int:
    return next((at for at, stmt in enumerate(block) if stmt is wanted), -1)


def _is_alone(stmt: ir.Stmt) -> bool:
    """Returns whether a statement divides threads among its iterations."""
    return isinstance(stmt, ir.For) and isinstance(stmt.mode, ir.CudaThreads)


def _block_of(path: Path, proc: ir.Proc) -> ir.Block:
    """The block that holds the statement of a path."""
    if len(path) == 1:
        return proc.body
    inside = blocks(path[-2])
    return next(block for block in inside if any(stmt is path[-1] for stmt in block))


# --- the procedure ------------------------------------------------------------------------------


def rebuilt(proc: ir.Proc, anew: Anew) -> ir.Proc:
    """The procedure with other statements in the place of some, and without frees."""

    def change(block: ir.Block) -> ir.Block:
        found: list[ir.Stmt] = []
        for stmt in block:
            for one in anew.get(id(stmt), (stmt,)):
                if not isinstance(one, ir.Free):
                    found.append(map_blocks(one, change))
        same = len(found) == len(block) and all(a is b for a, b in zip(found, block, strict=True))
        return block if same else tuple(found)

    return replace(proc, body=change(proc.body))


def insert_at(gap: Gap, *new: ir.Stmt) -> tuple[ir.Stmt, ...]:
    """The statement of a place with others before or after it; after a value is loaded, first in
    what it is loaded for."""
    anchor = gap.anchor
    if not gap.after:
        return (*new, anchor)
    if isinstance(anchor, ir.For) and isinstance(anchor.mode, ir.Loaded):
        return (replace(anchor, body=(*new, *anchor.body)),)
    return (anchor, *new)


def known_at(access: ir.Access, gap: Gap, proc: ir.Proc) -> ir.Access | None:
    """An access as it is named at a place, with iterators of the same names; None where there are
    none."""
    known = {p.name.name: p.name for p in proc.params if isinstance(p, ir.ControlParam)}
    loops = [*gap.around, *((gap.anchor,) if _binds_what_follows(gap) else ())]
    known |= {stmt.iterator.name: stmt.iterator for stmt in loops if isinstance(stmt, ir.For)}
    used = frozenset[Sym]().union(
        *(control_variables(at) for coord in access.coords for at in _ends(coord))
    )
    if not all(name.name in known for name in used):
        return None
    return substitute_access(access, {name: ir.CVar(known[name.name]) for name in used})


def _ends(coord: ir.Coord) -> tuple[ir.CExpr, ...]:
    return (coord.at,) if isinstance(coord, ir.Point) else (coord.lo, coord.hi)


def _binds_what_follows(gap: Gap) -> bool:
    return gap.after and isinstance(gap.anchor, ir.For) and isinstance(gap.anchor.mode, ir.Loaded)


# --- the text -----------------------------------------------------------------------------------


@dataclass(frozen=True, slots=True)
class Rewritten:
    """A procedure with a repair made, what is said of it, and the change of the text."""

    proc: ir.Proc
    text: str
    changes: tuple[Change, ...] = ()


def with_new(
    proc: ir.Proc,
    gaps: Sequence[Gap],
    make: Callable[[Gap], tuple[ir.Stmt, ...] | None],
    end: str = "",
) -> Rewritten | None:
    """The procedure with new statements in all of these places, which are one in the text; None
    where they name what is not known in some."""
    anew: dict[int, tuple[ir.Stmt, ...]] = {}
    lines: list[str] = []
    for gap in gaps:
        new = make(gap)
        if new is None:
            return None
        lines = [line for stmt in new for line in source(stmt)]
        anew[id(gap.anchor)] = insert_at(gap, *new)
    if not gaps:
        return None
    place = gaps[0] if gaps[1:] else _at_the_call(gaps[0])
    text = f"add `{joined(lines)}` {in_words(place)}{end}"
    change = pasted(place, *lines)
    return Rewritten(rebuilt(proc, anew), text, () if change is None else ((change,),))


def _at_the_call(gap: Gap) -> Gap:
    """The place, in the text, where a macro is read that holds it: what is new names barriers as
    they are known there."""
    around = gap.around[-1].span if gap.around else gap.anchor.span
    call = call_of_macro(gap.anchor.span, around)
    return gap if call is None else replace(gap, anchor=replace(gap.anchor, span=call))


def joined(lines: Sequence[str]) -> str:
    """Lines of the text in one: what is in a block after its header."""
    return re.sub(r":; +", ": ", "; ".join(lines))


def source(stmt: ir.Stmt) -> list[str]:
    """The lines of a new statement; of what was copied from the text its header as it is there."""
    match stmt:
        case ir.Fence():
            return [f"Fence({stmt.pre.name}, {stmt.post.name})"]
        case ir.Arrive():
            targets = "".join(f" >> {_spelled(target)}" for target in stmt.targets)
            return [f"Arrive({stmt.timeline.name}){targets}"]
        case ir.Await():
            of = f"{_spelled(stmt.barrier)}, {stmt.timeline.name}, {skip_text(stmt.n)}"
            return [f"Await({of})"]
        case ir.BarrierAlloc():
            extents = ", ".join(control(extent, lambda name: name.name) for extent in stmt.shape)
            shape = f"[{extents}]" if extents else ""
            return [f"{stmt.name.name}: barrier{shape} @ {stmt.mechanism.value}"]
        case ir.For() | ir.Warps() | ir.If():
            header = stmt.span.text.strip()
            if isinstance(stmt, ir.If):
                header = f"if {condition(stmt.condition, lambda name: name.name)}:"
            return [header, *(f"    {line}" for one in stmt.body for line in source(one))]
        case _:
            return [stmt.span.text.strip()]


def _spelled(access: ir.Access) -> str:
    return render.access(access, lambda name: name.name)


def pasted(gap: Gap, *lines: str) -> Replacement | None:
    """The lines in the text; None where it is not what was read."""
    try:
        return inserted(gap.anchor.span, gap.after, lines)
    except (ValueError, IndexError, SyntaxError):
        return None


def in_words(gap: Gap) -> str:
    """`after line 31, indented like line 29 (16 spaces), in the loop of line 20`"""
    span = gap.anchor.span
    last = max(span.line, span.end_line)
    where = f"after line {last}" if gap.after else f"before line {span.line}"
    like = "it" if not gap.after or last == span.line else f"line {span.line}"
    return f"{where}, indented like {like} ({span.column - 1} spaces){scope(span)}"
