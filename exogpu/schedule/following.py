"""Follows a statement, or a part of its value, through one step."""

from __future__ import annotations

from exogpu.ir.nodes import Assign, DExpr, Reduce, Stmt
from exogpu.ir.walk import reads
from exogpu.schedule.parts import Where, children, part_at, parts, reads_at
from exogpu.schedule.rewrite import Image, Path, Reading, Rewrite, paths, stmt_at


def forward(
    edit: Rewrite, path: Path, where: Where | None = None
) -> tuple[Path, Where | None] | None:
    """Returns the first new place of a statement of the old procedure; None if it is gone. With
    `where`, also where that part of its value is, or None."""
    if edit.after is not None:
        before = forward(edit.after, path, where)
        if before is None or (where is not None and before[1] is None):
            return before
        path, where = before
    old = stmt_at(edit.old, path)
    found = _forward(edit, old)
    if found is None or where is None:
        return None if found is None else (found[0], None)
    new_path, new, reading = found
    if new is old:
        return new_path, where
    if not isinstance(old, Assign | Reduce) or not isinstance(new, Assign | Reduce):
        return new_path, None
    if old in edit.readings:
        if edit.readings[old].made:
            return new_path, _common_place(old.value, new.value, where)
        return new_path, _find_equal(new.value, part_at(old.value, where))
    if reading is None:
        return new_path, _by_reads(old.value, new.value, where, edit.origins.get(new))
    return new_path, _by_looks(old, new.value, where, edit, reading)


def _forward(edit: Rewrite, old: Stmt) -> tuple[Path, Stmt, Reading | None] | None:
    """The new path, and how the statement there is read."""
    for path, stmt in paths(edit.new):
        if stmt is old or edit.followed.get(stmt) is old:
            return path, stmt, edit.readings.get(stmt)
    for path, stmt in paths(edit.new):  # one that has become a part of another
        if stmt is edit.joined.get(old):
            return path, stmt, None
        reading = edit.readings.get(stmt)
        if reading is not None and any(edit.followed.get(p) is old for p in reading.parts):
            return path, stmt, reading
    return None


def _by_reads(old: DExpr, new: DExpr, where: Where, origin: object) -> Where | None:
    """The part of the new value that reads what a part of the old one did."""
    wanted = reads_at(old, where)
    if not wanted:
        part = part_at(old, where)
        return where if _there(new, where) == part else _find_equal(new, part)
    image = origin[0] if isinstance(origin, tuple) and len(origin) == 1 else None
    order = image.reads if isinstance(image, Image) else None
    every = range(len(list(reads(new))))
    now = [n for n in every if (n if order is None else order[n]) in wanted]
    fits = [w for w, _ in parts(new) if now and list(reads_at(new, w)) == now]
    kind = type(part_at(old, where))
    alike = [w for w in fits if type(part_at(new, w)) is kind]
    return next(iter((*alike, *fits)), None)


def _by_looks(
    old: Assign | Reduce, new: DExpr, where: Where, edit: Rewrite, reading: Reading
) -> Where | None:
    """The part of a value that is read as others, of which one is the old one's."""
    for number, part in enumerate(reading.parts):
        if edit.followed.get(part) is old and isinstance(part, Assign | Reduce):
            wanted = _there(part.value, where)
            inside = _there(new, (number,)) if len(reading.parts) > 1 else new
            if inside == part.value:
                return (number, *where) if inside is not new else where
            return None if wanted is None else _find_equal(new, wanted)
    return _find_equal(new, part_at(old.value, where))


def _common_place(old: DExpr, new: DExpr, where: Where) -> Where:
    """The same place, or what is read where a part around it is in a variable of its own now."""
    for length in range(len(where)):
        mine, its = _there(old, where[:length]), _there(new, where[:length])
        if type(mine) is not type(its):
            return where[:length]
    return where


def _find_equal(expr: DExpr, wanted: DExpr) -> Where | None:
    """The first part that is written like another."""
    return next((where for where, part in parts(expr) if part == wanted), None)


def _there(expr: DExpr, where: Where) -> DExpr | None:
    for number in where:
        given = children(expr)
        if number >= len(given):
            return None
        expr = given[number]
    return expr
