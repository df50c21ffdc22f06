"""Contents of the arrays that a program loads values from (decision `loaded-values`), at given
sizes.

for b in load(offsets[g], 0, 3):            for b in loop(v, v + 1):    # v: 2 * ((g + 2) / 3)
    write x[b]                       ->         write x[b]
with offsets = [0, 2, 2]

`tried` chooses contents where a run reads them first: in the range of each load, else the kernel
would trap, and so that the contracts hold.  `given` writes them into the program, as a function of
the element, for machines that know no arrays.
"""

from __future__ import annotations

import random
from collections.abc import Callable, Iterator, Mapping, Sequence
from dataclasses import replace
from math import prod
from typing import Final, TypeAlias

from exogpu.amir.nodes import Block, Guard, Loop, Op, Program
from exogpu.amir.walk import operations
from exogpu.ir import nodes as ir
from exogpu.ir.contracts import is_meant
from exogpu.ir.types import Sym
from exogpu.ir.walk import evaluate, holds

Contents: TypeAlias = Mapping[str, tuple[int, ...]]
"""By array, all of its elements, row by row."""

TRIES: Final = 24
"""Contents that are chosen at most."""

Choice: TypeAlias = Callable[[int, int], Iterator[int]]
"""Values of a range, ends included, the preferred ones first."""


class _TrappedError(Exception):
    """The kernel traps: a value is in no range that it is loaded in."""


def loads(program: Program) -> bool:
    """Tests whether a program loads values."""
    return any(isinstance(op, Loop) and op.source is not None for op in operations(program.body))


# --- choosing -----------------------------------------------------------------------------------


def sample_contents(program: Program, sizes: Mapping[str, int]) -> Iterator[Contents]:
    """Some contents of the arrays, no two alike: with small values, with large ones, at random;
    none where the kernel traps with each of them, or nothing is loaded."""
    chosen = [_upwards, _downwards, *(_at_random(seed) for seed in range(TRIES - 2))]
    return _contents_of(program, sizes, chosen)


def at_random(program: Program, sizes: Mapping[str, int], seed: int) -> Contents:
    """Contents of the arrays that values are loaded from, the same for a seed; of none where
    nothing is loaded, or the kernel traps with all that were tried."""
    several = [*map(_at_random, range(TRIES * seed, TRIES * (seed + 1))), _upwards, _downwards]
    return next(_contents_of(program, sizes, several), {})


def _contents_of(
    program: Program, sizes: Mapping[str, int], choices: Sequence[Choice]
) -> Iterator[Contents]:
    if not loads(program):
        return
    seen = set[tuple[tuple[str, tuple[int, ...]], ...]]()
    for choice in choices:
        choosing = _Choosing(program, sizes, choice)
        try:
            choosing.block(program.body)
        except _TrappedError:
            continue
        found = choosing.contents()
        if (key := tuple(found.items())) not in seen:
            seen.add(key)
            yield found


def _upwards(lo: int, hi: int) -> Iterator[int]:
    return iter(range(lo, hi + 1))


def _downwards(lo: int, hi: int) -> Iterator[int]:
    return iter(range(hi, lo - 1, -1))


def _at_random(seed: int) -> Choice:
    chance = random.Random(seed)

    def choice(lo: int, hi: int) -> Iterator[int]:
        first = chance.randint(lo, hi)
        yield from range(first, hi + 1)
        yield from range(lo, first)

    return choice


class _Choosing:
    """One run through the loops and guards of a program, which loads what it chooses."""

    def __init__(self, program: Program, sizes: Mapping[str, int], choice: Choice) -> None:
        self.choice = choice
        self.values = {p.name: sizes[p.name.name] for p in program.params}
        self.shapes = _shapes(program, self.values)
        self.kinds: dict[Sym, set[str]] = {name: set() for name in self.shapes}
        self.least: dict[Sym, int | None] = {}
        """The least elements that the contracts of an array are about."""
        for one in program.contracts:
            self.kinds.get(one.array, set()).add(one.kind)
            self.least[one.array] = one.least
        self.known: dict[Sym, dict[int, int]] = {name: {} for name in self.shapes}
        self.above = {op for op in operations(program.body) if _loads_inside(op)}

    def block(self, block: Block) -> None:
        for op in block:
            if op not in self.above:
                continue
            match op:
                case Loop(source=ir.Access() as source):
                    self.values[op.iterator] = self.value(op, source)
                    self.block(op.body)
                case Loop():
                    for at in range(evaluate(op.lo, self.values), evaluate(op.hi, self.values)):
                        self.values[op.iterator] = at
                        self.block(op.body)
                case Guard() if holds(op.condition, self.values):
                    self.block(op.body)
                case _:
                    pass

    def value(self, load: Loop, source: ir.Access) -> int:
        lo, hi = evaluate(load.lo, self.values), evaluate(load.hi, self.values) - 1
        at = evaluate(position(source, self.shapes[source.name]), self.values)
        known, kinds = self.known[source.name], self.kinds[source.name]
        if at not in known:
            least = self.least.get(source.name)
            meant = {n: v for n, v in known.items() if is_meant(v, least)}
            first, last = lo, hi  # of the values that the contracts are about
            if "monotone" in kinds:
                # Of all elements, each is greater than the one before it.
                steep = int("injective" in kinds and least is None)
                below = (v + steep * (at - n) for n, v in meant.items() if n < at)
                above = (v - steep * (n - at) for n, v in meant.items() if n > at)
                first, last = max([lo, *below]), min([hi, *above])
            taken = {*meant.values()} if "injective" in kinds else set()

            def is_admitted(value: int) -> bool:
                return not is_meant(value, least) or (first <= value <= last and value not in taken)

            begin, end = (first, last) if least is None else (lo, hi)
            found = next(filter(is_admitted, self.choice(begin, end) if begin <= end else ()), None)
            if found is None:
                raise _TrappedError
            known[at] = found
        if not lo <= known[at] <= hi:
            raise _TrappedError
        return known[at]

    def contents(self) -> dict[str, tuple[int, ...]]:
        """Returns the chosen values, with values that the contracts admit in all other elements."""
        return {
            name.name: tuple(
                _filled(prod(shape), self.known[name], self.kinds[name], self.least.get(name))
            )
            for name, shape in self.shapes.items()
        }


def _loads_inside(op: Op) -> bool:
    if not isinstance(op, Loop | Guard):
        return False
    own = isinstance(op, Loop) and op.source is not None
    return own or any(isinstance(o, Loop) and o.source is not None for o in operations(op.body))


def _filled(
    count: int, known: Mapping[int, int], kinds: set[str], least: int | None
) -> Iterator[int]:
    if least is not None:  # no contract is about what is less
        yield from (known.get(at, least - 1) for at in range(count))
        return
    first = min(known, default=0)
    last, steep = known.get(first, 0), int(kinds == {"monotone", "injective"})
    last -= steep * (first + 1)
    fresh = max(known.values(), default=0)
    for at in range(count):
        if at in known:
            last = known[at]
        elif steep:
            last += 1
        elif "injective" in kinds:
            fresh += 1
            last = fresh
        yield last


def _shapes(program: Program, values: Mapping[Sym, int]) -> dict[Sym, tuple[int, ...]]:
    """The extents of the arrays that are loaded from, in program order."""
    declared = {v.name: v.shape for v in program.variables}
    names = (o.source.name for o in operations(program.body) if isinstance(o, Loop) and o.source)
    return {
        name: tuple(evaluate(extent, values) for extent in declared[name])
        for name in dict.fromkeys(names)
    }


# --- contents that are known --------------------------------------------------------------------


def position(source: ir.Access, shape: Sequence[int]) -> ir.CExpr:
    """The place of an element in its array, row by row."""
    found: ir.CExpr = ir.Int(0)
    for coord, extent in zip(source.coords, shape, strict=True):
        assert isinstance(coord, ir.Point)
        found = coord.at if found == ir.Int(0) else ir.Add(ir.Mul(extent, found), coord.at)
    return found


def with_contents(program: Program, sizes: Mapping[str, int], contents: Contents) -> Program:
    """The program at these sizes with its values from memory written into it; itself if it has
    none.  Operations other than loops and guards are the same objects."""
    if not loads(program):
        return program
    values = {p.name: sizes[p.name.name] for p in program.params}
    shapes = _shapes(program, values)

    def with_contents(op: Op) -> Op:
        match op:
            case Loop(source=ir.Access() as source):
                at = position(source, shapes[source.name])
                value = _looked_up(contents[source.name.name], at)
                body = tuple(map(with_contents, op.body))
                return replace(op, lo=value, hi=ir.Add(value, ir.Int(1)), body=body, source=None)
            case Loop() | Guard():
                return replace(op, body=tuple(map(with_contents, op.body)))
            case _:
                return op

    return replace(program, body=tuple(map(with_contents, program.body)))


def _looked_up(elements: Sequence[int], at: ir.CExpr) -> ir.CExpr:
    """The element at a place: the first, and each step between two from its place on.

    `(at + n - place) / n` is 1 from the place on and 0 before it, where `at` is in `0 .. n - 1`.
    """
    count = len(elements)
    terms: list[ir.CExpr] = [ir.Int(elements[0] if elements else 0)]
    for place in range(1, count):
        if step := elements[place] - elements[place - 1]:
            terms.append(ir.Mul(step, ir.FloorDiv(ir.Add(at, ir.Int(count - place)), count)))
    return _sum(terms)


def _sum(terms: Sequence[ir.CExpr]) -> ir.CExpr:
    """A tree of sums, no deeper than it must be."""
    if len(terms) == 1:
        return terms[0]
    half = len(terms) // 2
    return ir.Add(_sum(terms[:half]), _sum(terms[half:]))
