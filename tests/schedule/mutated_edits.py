"""Rewritings with one thing changed in the new procedure or in the map, and whether they matter."""

from __future__ import annotations

from collections.abc import Iterator
from dataclasses import replace

import numpy as np
from steps import data

from exogpu import ExoGpuError
from exogpu.interpreter import elementwise
from exogpu.ir.nodes import Add, Assign, Block, CExpr, For, If, Int, Point, Proc, Reduce, Stmt
from exogpu.ir.walk import blocks, map_reads, walk
from exogpu.schedule.rewrite import Copy, Image, Rewrite


def mutations(edit: Rewrite) -> Iterator[Rewrite]:
    """The rewriting, each time with one mistake."""
    for stmt in walk(edit.new.body):
        for block in variants(stmt):
            yield placed(edit, stmt, block)
    yield from swapped(edit)
    yield from lies(edit)


def moved(expr: CExpr, by: int) -> CExpr:
    return Add(expr, Int(by))


def variants(stmt: Stmt) -> Iterator[Block]:
    """What could stand in the place of a statement."""
    match stmt:
        case For():
            for by in (-1, 1):
                yield (replace(stmt, lo=moved(stmt.lo, by)),)
                yield (replace(stmt, hi=moved(stmt.hi, by)),)
        case If():
            yield stmt.body
            yield (replace(stmt, body=(), orelse=stmt.body),) if not stmt.orelse else stmt.orelse
        case Assign() | Reduce():
            yield ()
            for at in range(len(stmt.target.coords)):
                yield (replace(stmt, target=beside(stmt.target, at)),)
            count = [0]

            def counted(read):
                count[0] += len(read.access.coords)
                return read

            map_reads(stmt.value, counted)
            for at in range(count[0]):
                yield (replace(stmt, value=reads_beside(stmt.value, at)),)


def beside(access, at):
    coords = list(access.coords)
    coords[at] = Point(moved(coords[at].at, 1))
    return replace(access, coords=tuple(coords))


def reads_beside(value, at):
    """The value with one index of one of its reads moved."""
    left = [at]

    def change(read):
        rank = len(read.access.coords)
        here, left[0] = left[0], left[0] - rank
        if 0 <= here < rank:
            return replace(read, access=beside(read.access, here))
        return read

    return map_reads(value, change)


def rebuilt(block: Block, old: Stmt, new: Block) -> Block:
    found: list[Stmt] = []
    for stmt in block:
        if stmt is old:
            found += new
        else:
            inner = [rebuilt(one, old, new) for one in blocks(stmt)]
            if all(a is b or a == b for a, b in zip(inner, blocks(stmt), strict=True)):
                found.append(stmt)
            else:
                names = ("body", "orelse")[: len(inner)]
                found.append(replace(stmt, **dict(zip(names, inner, strict=True))))
    return tuple(found)


def placed(edit: Rewrite, old: Stmt, new: Block) -> Rewrite:
    """The rewriting with a statement replaced by others, of which it says the same."""
    origins = dict(edit.origins)
    for stmt in new:
        if isinstance(stmt, Assign | Reduce) and stmt is not old:
            origins.setdefault(stmt, edit.origins.get(old, (Image(old),)))
    proc = replace(edit.new, body=rebuilt(edit.new.body, old, new))
    return replace(edit, new=proc, origins=origins)


def swapped(edit: Rewrite) -> Iterator[Rewrite]:
    """Two neighbours exchanged."""
    for stmt in [None, *walk(edit.new.body)]:
        for name in ("body", "orelse"):
            block = edit.new.body if stmt is None else getattr(stmt, name, ())
            for at in range(len(block) - 1):
                other = (*block[:at], block[at + 1], block[at], *block[at + 2 :])
                if stmt is None:
                    yield replace(edit, new=replace(edit.new, body=other))
                else:
                    yield placed(edit, stmt, (replace(stmt, **{name: other}),))
            if stmt is None:
                break


def lies(edit: Rewrite) -> Iterator[Rewrite]:
    """The map says something else."""
    for stmt, origin in edit.origins.items():
        if isinstance(origin, Copy):
            for at in range(len(origin.element.coords)):
                other: object = replace(origin, element=beside(origin.element, at))
                yield replace(edit, origins={**edit.origins, stmt: other})
            continue
        for number, image in enumerate(origin):
            for name, expr in image.at.items():
                one = replace(image, at={**image.at, name: moved(expr, 1)})
                images = (*origin[:number], one, *origin[number + 1 :])
                yield replace(edit, origins={**edit.origins, stmt: images})


def differ(old: Proc, new: Proc, sizes: dict[str, int]) -> bool:
    """Whether two procedures leave other results, on one of a few inputs."""
    for seed in range(3):
        given = data(old, seed, sizes)
        before, after = (
            {n: a.copy() if isinstance(a, np.ndarray) else a for n, a in given.items()}
            for _ in range(2)
        )
        try:
            elementwise.run(old, before)
        except ExoGpuError:  # it does not admit the sizes
            return False
        try:
            elementwise.run(new, after)
        except ExoGpuError:  # out of bounds, or a value that nobody wrote
            return True
        if any(not np.array_equal(before[n], after[n]) for n in given):
            return True
    return False
