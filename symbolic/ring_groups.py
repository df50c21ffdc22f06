"""Finds the resident variables of a launch that belong together: rings, and where they are used.

A ring is what slots, trailing barriers and common places connect: buffers, and the barriers that
hand them over.
"""

from __future__ import annotations

from collections.abc import Iterator, Sequence
from typing import TypeAlias

from exogpu.amir import nodes as amir
from exogpu.amir.walk import Path, accesses_of, begins_tasks, paths
from exogpu.diagnostics.hazards import HazardKind
from exogpu.ir import nodes as ir
from exogpu.ir.types import Sym
from exogpu.ir.walk import control_variables, read_by

Variables: TypeAlias = dict[Sym, amir.Variable]


def rings(ops: Sequence[amir.Op], variables: Variables) -> Iterator[tuple[frozenset[Sym], Path]]:
    """Yields the resident variables that belong together, and what is around all their uses in
    tasks, down to the innermost loop of the program's own."""
    around: dict[Sym, Path] = {}
    together: dict[Sym, Sym] = {}

    def leader(name: Sym) -> Sym:
        while (other := together.setdefault(name, name)) is not name:
            name = other
        return name

    nests = tuple(op for op in ops if begins_tasks((op,)))
    for path in paths(nests):
        *_, (_, op) = path
        names = [a.name for a in accesses_of(op) if variables[a.name].resident]
        names += _slots_read(path, op, variables)
        if not names:
            continue
        for name in names[1:]:
            together[leader(name)] = leader(names[0])
        if not _compares_slots(path):
            loops = _enclosing_path(path)
            for name in names:
                around[name] = _common_path(around.get(name, loops), loops)
    joint: dict[Sym, Path] = {}
    for name, loops in around.items():
        first = leader(name)
        joint[first] = _common_path(joint.get(first, loops), loops)
    same: dict[tuple[amir.Op, ...], tuple[Path, set[Sym]]] = {}
    for name in around:
        loops = joint[leader(name)]
        same.setdefault(tuple(op for _, op in loops), (loops, set()))[1].add(name)
    unused = [
        op.name
        for op in ops
        if isinstance(op, amir.Alloc) and variables[op.name].resident and op.name not in around
    ]
    for loops, members in same.values():
        yield frozenset((*members, *unused)), loops
        unused = []


def _slots_read(path: Path, op: amir.Op, variables: Variables) -> Iterator[Sym]:
    """Yields the resident barriers whose slots an operation reads."""
    read = frozenset[Sym]().union(*map(read_by, accesses_of(op)))
    for _, one in path[:-1]:
        slot = one.slot if isinstance(one, amir.Loop) and one.iterator in read else None
        if slot is not None and variables[slot.name].resident:
            yield slot.name


def _compares_slots(path: Path) -> bool:
    """Tests whether it is a part of what a task requires of slots as it begins."""
    *_, (_, op) = path
    return is_comparison(op) or any(is_comparison(one) for _, one in path)


def is_comparison(op: amir.Op) -> bool:
    """Tests whether an operation is a comparison of slots, with the loops that bind them."""
    while isinstance(op, amir.Loop) and op.slot is not None and len(op.body) == 1:
        (op,) = op.body
    return isinstance(op, amir.Require) and op.kind is HazardKind.SLOT


def _enclosing_path(path: Path) -> Path:
    """The loops, conditions and loads around an operation, outside of loops over threads and of
    slots."""
    found: list[tuple[int, amir.Op]] = []
    for place, op in path[:-1]:
        if isinstance(op, amir.Loop) and (op.threads or op.slot is not None):
            break
        found.append((place, op))
    return tuple(found)


def _common_path(one: Path, other: Path) -> Path:
    same = 0
    for (_, left), (_, right) in zip(one, other, strict=False):
        if left is not right:
            break
        same += 1
    return one[:same]


def is_needed(around: Path) -> bool:
    """Tests whether a ring is in loops of the tasks, of which positions of tasks do not tell the
    iterations."""
    told = set[Sym]()
    depends = in_loop = False
    for _, op in around:
        match op:
            case amir.Loop(source=ir.Access() as source):
                if read_by(source) & told:
                    told.add(op.iterator)
            case amir.Loop(tasks=True):
                told.add(op.iterator)
            case amir.Loop():
                depends |= bool((control_variables(op.lo) | control_variables(op.hi)) & told)
                in_loop = True
            case amir.Guard() if in_loop:
                depends |= bool(control_variables(op.condition) & told)
            case _:
                pass
    return depends
