"""Statements of a procedure moved, taken away or exchanged, as its text would be changed."""

from __future__ import annotations

from collections.abc import Iterator, Sequence
from dataclasses import replace

from exogpu.amir import nodes as amir
from exogpu.explain import edits
from exogpu.explain import insertion_points as points
from exogpu.explain.patch import changes
from exogpu.ir import nodes as ir
from exogpu.ir.walk import blocks


def outermost_alone(path: points.Path) -> list[ir.Stmt]:
    """The statement, and outwards all that holds nothing else."""
    found = [path[-1]]
    for stmt in reversed(path[:-1]):
        inside = [one for block in blocks(stmt) for one in block]
        if len(inside) != 1 or inside[0] is not found[-1]:
            break
        found.append(stmt)
    return found


def removed_holders_text(holders: list[ir.Stmt]) -> str:
    """Tells which lines go with a statement that is moved away, since they held nothing else."""
    lines = sorted({stmt.span.line for stmt in holders})
    if not lines:
        return ""
    hold = "hold" if lines[1:] else "holds"
    which = f"line{'s' if lines[1:] else ''} {' and '.join(map(str, lines))}"
    return f", and delete {which}, which then {hold} nothing"


def move_in_source(
    proc: ir.Proc, repair: edits.Repair, op: amir.Op, to: amir.Op, after: bool
) -> Iterator[points.Rewritten]:
    """A statement cut and pasted, itself or with what holds it alone."""
    old, new = points.paths_to(proc, op.origin.span), points.paths_to(proc, to.origin.span)
    if not old or len(old) != len(new) or old[0][-1].span == new[0][-1].span:
        return
    pairs = list(zip(old, new, strict=True))
    made_before = changes(repair)
    for depth in range(min(len(outermost_alone(path)) for path in old)):
        anew: dict[int, tuple[ir.Stmt, ...]] = {}
        for path, place in pairs:
            gap = points.next_to(place, after)
            chain = outermost_alone(path)
            moved = chain[depth] if depth else _renamed(chain[0], gap, proc)
            if moved is None or any(stmt is chain[-1] for stmt in place):
                break
            anew[id(chain[-1])] = ()
            anew[id(gap.anchor)] = points.insert_at(gap, replace(moved))
        else:
            kept = ", with what it stands in alone," if depth else ""
            kind = type(op).__name__
            where = points.in_words(points.next_to(new[0], after))
            gone = removed_holders_text(outermost_alone(old[0])[depth + 1 :])
            text = f"move the {kind} of line {op.origin.span.line}{kept} to {where}{gone}"
            change = made_before[depth : depth + 1]
            yield points.Rewritten(points.rebuilt(proc, anew), text, change)


def exchange_in_source(
    proc: ir.Proc, repair: edits.Repair, first: amir.Await, second: amir.Await
) -> Iterator[points.Rewritten]:
    """Each of two Awaits on the other's barrier."""
    paths = [points.paths_to(proc, op.origin.span) for op in (first, second)]
    if [len(some) for some in paths] != [1, 1]:
        return
    (one,), (other,) = paths
    mine = on_barrier(one, second.barrier, proc)
    its = on_barrier(other, first.barrier, proc)
    if mine is not None and its is not None:
        made = points.rebuilt(proc, {id(one[-1]): (mine,), id(other[-1]): (its,)})
        yield points.Rewritten(made, repair.text, changes(repair))


def delete_in_source(
    proc: ir.Proc, repair: edits.Repair, op: amir.Op
) -> Iterator[points.Rewritten]:
    """Without a statement, and without what holds nothing else."""
    found = [outermost_alone(path) for path in points.paths_to(proc, op.origin.span)]
    if found:
        made = points.rebuilt(proc, {id(chain[-1]): () for chain in found})
        text = f"{repair.text}{removed_holders_text(found[0][1:])}"
        yield points.Rewritten(made, text, changes(repair))


def _renamed(stmt: ir.Stmt, gap: points.Gap, proc: ir.Proc) -> ir.Stmt | None:
    """The statement as it names its barrier at a place."""
    match stmt:
        case ir.Arrive():
            found = known_targets(stmt.targets, gap, proc)
            return None if found is None else replace(stmt, targets=found)
        case ir.Await():
            barrier = points.known_at(stmt.barrier, gap, proc)
            return None if barrier is None else replace(stmt, barrier=barrier)
        case _:
            return stmt


def known_targets(
    targets: Sequence[ir.Access], gap: points.Gap, proc: ir.Proc
) -> tuple[ir.Access, ...] | None:
    """The targets as they are named at a place; None where one is not known there."""
    known = [points.known_at(target, gap, proc) for target in targets]
    found = tuple(target for target in known if target is not None)
    return found if len(found) == len(targets) else None


def on_barrier(path: points.Path, wanted: ir.Access, proc: ir.Proc) -> ir.Stmt | None:
    """An Await on another barrier, as that is named there."""
    barrier = points.known_at(wanted, points.next_to(path, False), proc)
    old = path[-1]
    return replace(old, barrier=barrier) if barrier and isinstance(old, ir.Await) else None
