"""Checks in a program's JSON that shared memory is free for the threads that take its bytes next
(decision `shared-lifetime`).

- A shared variable is released by all threads that use shared memory in its launch.
- Before a later allocation of its block, the end of each shared variable that is used no more is
  checked, by all threads that use what is allocated from there to its Release.
"""

from __future__ import annotations

from collections.abc import Iterator, Mapping, Sequence
from dataclasses import dataclass
from itertools import product
from typing import Any, Final, TypeAlias

from exogpu.analysis.threadmap import threads_of
from exogpu.ir import nodes as ir
from exogpu.ir.types import Sym
from exogpu.ir.walk import control_variables
from exogpu.symbolic.certificate import program_reader
from exogpu.symbolic.certificate.strict_json import MalformedError, malformed

Op: TypeAlias = Mapping[str, Any]

Ranges: TypeAlias = Mapping[str, tuple[Sym, range]]
"""The values of the iterators around, of those with numbers for bounds."""

Threads: TypeAlias = frozenset[int]

_ENDS: Final = ("CheckReads", "CheckMutates")


@dataclass(frozen=True, slots=True)
class _Use:
    """An access of a shared variable in a statement of a block, or one of the ends of one."""

    at: int
    """The statement's position in the block."""
    op: Op
    threads: Threads | None
    """None where they are not numbers."""

    @property
    def variable(self) -> str:
        """The shared variable."""
        found: str = self.op["variable"] if self.op["op"] == "Release" else _variable_of(self.op)
        return found

    @property
    def is_end(self) -> bool:
        """Tests whether it is a Release, or a check before one."""
        return self.op["op"] == "Release" or bool(self.op.get("free"))


def check_reuse(program: Mapping[str, Any]) -> None:
    """Raises MalformedError for a program that frees shared memory too late, or for too few."""
    shared = {
        one["name"] for one in program["variables"] if one["shared"] and "mechanism" not in one
    }
    launches: list[list[_Use]] = [[]]
    for at, op in enumerate(program["body"]):
        if op["op"] == "Fence" and op["threads"] is None:
            launches.append([])
        launches[-1] += _uses((op,), shared, {}, at)
    for uses in launches:
        _check_release(uses)
    if "imported" not in program:  # where such a program has its variables is not for us to say
        for block, ranges in _task_blocks(program["body"], {}):
            _check_block(block, list(_uses(block, shared, ranges)), shared)


def _check_release(uses: Sequence[_Use]) -> None:
    """All that use shared memory of the launch release it: the next task has other variables."""
    for use in uses:
        if use.op["op"] == "Release":
            for other in uses:
                if not _includes(use, other):
                    _wrong(use.op, f"releases {use.variable} without threads that use its bytes")


def _check_block(block: Sequence[Op], uses: Sequence[_Use], shared: set[str]) -> None:
    begins = {
        op["variable"]: at
        for at, op in enumerate(block)
        if op["op"] == "Alloc" and op["variable"] in shared
    }
    for name, begin in begins.items():
        ours = [use for use in uses if use.variable == name]
        last = max((use.at for use in ours if not use.is_end), default=begin)
        later = [at for at in begins.values() if at > last]
        ends = [use for use in ours if use.is_end]
        if not later or not ends:
            continue
        early = [use for use in ends if use.at < min(later)]
        release = max(use.at for use in ends)
        if not {"Release"} & {use.op["op"] for use in early}:
            taken = {other for other, at in _allocated(block, shared) if last < at}
            users = [use for use in uses if use.variable in taken and use.at < release]
            for kind in _ENDS:
                checks = [use for use in early if use.op["op"] == kind and use.at > last]
                if not checks:
                    _wrong(block[min(later)], f"may take the bytes of {name}, without {kind} of it")
                if not all(_includes(checks[-1], user) for user in users):
                    _wrong(checks[-1].op, f"leaves out threads that may use the bytes of {name}")


def _includes(larger: _Use, smaller: _Use) -> bool:
    if larger.op["threads"] == smaller.op["threads"]:
        return True
    if larger.threads is None or smaller.threads is None:
        return False
    return smaller.threads <= larger.threads


def _allocated(block: Sequence[Op], shared: set[str]) -> Iterator[tuple[str, int]]:
    """Yields the shared variables that the statements of a block allocate, and their positions."""
    for at, op in enumerate(block):
        if op["op"] == "Alloc" and op["variable"] in shared:
            yield op["variable"], at
        yield from ((name, at) for name, _ in _allocated(op.get("body", ()), shared))


def _task_blocks(
    block: Sequence[Op], ranges: Ranges, *, inside: bool = False
) -> Iterator[tuple[Sequence[Op], Ranges]]:
    """Yields the blocks inside of tasks, with the ranges of the iterators around."""
    for op in block:
        if "body" in op:
            here = inside or op.get("mode") == "tasks"
            within = _ranges_inside(op, ranges)
            if here:
                yield op["body"], within
            yield from _task_blocks(op["body"], within, inside=here)


def _uses(
    block: Sequence[Op], shared: set[str], ranges: Ranges, at: int | None = None
) -> Iterator[_Use]:
    for place, op in enumerate(block):
        position = place if at is None else at
        name = op["variable"] if op["op"] == "Release" else _variable_of(op)
        if name in shared:
            yield _Use(position, op, _numbers(op, ranges))
        yield from _uses(op.get("body", ()), shared, _ranges_inside(op, ranges), position)


def _variable_of(op: Op) -> str:
    found: str = op["access"]["variable"] if "access" in op else ""
    return found


def _ranges_inside(op: Op, ranges: Ranges) -> Ranges:
    if op["op"] != "Loop":
        return ranges
    ends = [op[end].strip("()") for end in ("lo", "hi")]
    rest = {name: one for name, one in ranges.items() if name != op["iterator"]}
    if not all(end.isdigit() for end in ends):
        return rest
    return {**rest, op["iterator"]: (Sym(op["iterator"]), range(int(ends[0]), int(ends[1])))}


def _numbers(op: Op, ranges: Ranges) -> Threads | None:
    if op["threads"] is None:
        return None

    def variable(name: str) -> ir.CVar | None:
        return ir.CVar(ranges[name][0]) if name in ranges else None

    try:
        found = program_reader.threads(op["threads"], variable)
    except MalformedError:  # it reads an iterator whose bounds are no numbers
        return None
    read = set[Sym]().union(*(control_variables(axis.offset) for axis in found.axes))
    values = [(name, each) for name, each in ranges.values() if name in read]
    return frozenset(
        thread
        for chosen in product(*(each for _, each in values))
        for thread in threads_of(found, dict(zip([n for n, _ in values], chosen, strict=True)))
    )


def _wrong(op: Op, what: str) -> None:
    malformed("body", f"line {op['line']} ({op['text']}) {what}")
