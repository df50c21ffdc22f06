"""Finds the executions of an operation on an element, from the program text.

Loops are walked from the last iteration to the first, and those that cannot touch the element are
left out: bounds and coordinates are evaluated over intervals.
"""

from __future__ import annotations

from collections.abc import Iterator, Mapping
from dataclasses import dataclass
from typing import Final, TypeAlias

from exogpu.amir.nodes import Block, Guard, IncTaskID, Loop
from exogpu.amir.walk import Path, begins_tasks
from exogpu.ir.affine import Affine, Range, Ranges, from_cexpr, interval
from exogpu.ir.nodes import Access, CExpr, Point
from exogpu.ir.types import Sym
from exogpu.ir.walk import control_variables, evaluate, holds

When: TypeAlias = tuple[int, ...]
"""Places in blocks, and values of iterators, from the outside in: ordered as the execution is."""

PATIENCE: Final = 100_000
"""Iterations that one search looks at."""


class TooLong(Exception):
    """A search has looked at too many iterations."""


@dataclass(frozen=True, slots=True)
class Instance:
    """One execution of an operation."""

    when: When
    values: tuple[int, ...]
    """The values of the iterators around it, outermost first."""


def last_instance_at(path: Path, values: tuple[int, ...]) -> Instance:
    """The instance of the last operation of the path where the loops have these values."""
    left, when = list(values), []
    for place, op in path:
        when.append(place)
        if isinstance(op, Loop):
            when.append(left.pop(0))
    return Instance(tuple(when), values)


class Search:
    """The instances of one operation that touch an element, by one of some accesses.

    With an instant `after` those that come later alone.
    """

    def __init__(
        self,
        path: Path,
        accesses: tuple[Access, ...],
        element: tuple[int, ...],
        after: When = (),
    ) -> None:
        self._path = path
        self._accesses = accesses
        self._element = element
        self._after = after
        self._left = PATIENCE
        self._forms: dict[CExpr, Affine] = {}

    def instances_before(self, end: When, sigma: Mapping[Sym, int]) -> Iterator[Instance]:
        """Yields the instances before an instant, the last one first. Raises TooLong."""
        return self._instances_from(0, dict(sigma), end, (), ())

    def _instances_from(
        self,
        depth: int,
        sigma: dict[Sym, int],
        end: When | None,
        when: When,
        values: tuple[int, ...],
    ) -> Iterator[Instance]:
        place, op = self._path[depth]
        if end is not None:
            if place > end[0]:
                return
            end = end[1:] if place == end[0] else None
        when = (*when, place)
        if when < self._after[: len(when)]:
            return
        match op:
            case Loop():
                last = evaluate(op.hi, sigma) - 1
                if end is not None:
                    last = min(last, end[0])
                for y in range(last, evaluate(op.lo, sigma) - 1, -1):
                    if (*when, y) < self._after[: len(when) + 1]:
                        return
                    self._left -= 1
                    if self._left < 0:
                        raise TooLong
                    sigma[op.iterator] = y
                    if self._may_touch(depth + 1, sigma):
                        inner = end[1:] if end is not None and y == end[0] else None
                        yield from self._instances_from(
                            depth + 1, sigma, inner, (*when, y), (*values, y)
                        )
            case Guard():
                if holds(op.condition, sigma):
                    yield from self._instances_from(depth + 1, sigma, end, when, values)
            case _:
                # An instant that ends here is this instance itself.
                if end is None and self._may_touch(depth, sigma):
                    yield Instance(when, values)

    def _may_touch(self, depth: int, sigma: Mapping[Sym, int]) -> bool:
        ranges = {name: Range(value, value, 0) for name, value in sigma.items()}
        for _, op in self._path[depth:]:
            if isinstance(op, Loop):
                least = interval(self._form(op.lo), ranges)[0]
                most = interval(self._form(op.hi), ranges)[1] - 1
                if least > most:
                    return False
                ranges[op.iterator] = Range(least, most)
        return not self._accesses or any(self._touches(access, ranges) for access in self._accesses)

    def _touches(self, access: Access, ranges: Ranges) -> bool:
        for coord, index in zip(access.coords, self._element, strict=True):
            first, last = (coord.at, coord.at) if isinstance(coord, Point) else (coord.lo, coord.hi)
            end = 0 if isinstance(coord, Point) else 1
            if index < interval(self._form(first), ranges)[0]:
                return False
            if index > interval(self._form(last), ranges)[1] - end:
                return False
        return True

    def _form(self, expr: CExpr) -> Affine:
        found = self._forms.get(expr)
        if found is None:
            found = self._forms[expr] = from_cexpr(expr, {}, {})
        return found


# Counts the tasks that a program begins.


def tasks_before(path: Path, values: tuple[int, ...], body: Block, sigma: Mapping[Sym, int]) -> int:
    """Counts the tasks begun before an instance of the last operation of the path."""
    total, env, left = 0, dict(sigma), list(values)
    for place, op in path:
        total += count_tasks(body[:place], env)
        match op:
            case Loop():
                y = left.pop(0)
                lo = evaluate(op.lo, env)
                for earlier in range(lo, y) if begins_tasks(op.body) else ():
                    total += count_tasks(op.body, {**env, op.iterator: earlier})
                env[op.iterator] = y
                body = op.body
            case Guard():
                body = op.body
            case _:
                pass
    return total


def count_tasks(block: Block, sigma: Mapping[Sym, int]) -> int:
    """Counts the tasks that a block begins."""
    total = 0
    for op in block:
        if isinstance(op, IncTaskID):
            total += 1
        elif isinstance(op, Guard):
            total += count_tasks(op.body, sigma) if holds(op.condition, sigma) else 0
        elif isinstance(op, Loop) and begins_tasks(op.body):
            lo, hi = evaluate(op.lo, sigma), evaluate(op.hi, sigma)
            if _depends(op.body, op.iterator):
                total += sum(count_tasks(op.body, {**sigma, op.iterator: y}) for y in range(lo, hi))
            elif hi > lo:
                total += (hi - lo) * count_tasks(op.body, {**sigma, op.iterator: lo})
    return total


def _depends(block: Block, name: Sym) -> bool:
    """Tests whether the number of tasks that a block begins depends on an iterator."""
    for op in block:
        if isinstance(op, Guard) and begins_tasks(op.body):
            if name in control_variables(op.condition) or _depends(op.body, name):
                return True
        elif isinstance(op, Loop) and begins_tasks(op.body):
            here = control_variables(op.lo) | control_variables(op.hi)
            if name in here or _depends(op.body, name):
                return True
    return False
