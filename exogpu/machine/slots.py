"""Slots at given sizes, as expressions of iterators: what their loops are once counting is done.

for k in loop(0, 7):                      for k in loop(0, 7):
    for s in slot(full) of 2:      ->         for s in loop(k mod 2, k mod 2 + 1):
        write tile[s]                             write tile[s]
    Arrive full                               Arrive full

The literal machine counts while it runs; the fast one skips iterations, and needs to know which
are alike.
"""

from __future__ import annotations

from collections.abc import Mapping
from dataclasses import dataclass, field, replace

from exogpu.amir.nodes import Alloc, Arrive, Block, Guard, Loop, Op, Program
from exogpu.amir.walk import operations
from exogpu.ir.names import Sym
from exogpu.ir.nodes import Access, Add, CExpr, CVar, Int, Mod, Mul, Point, Sub
from exogpu.ir.walk import evaluate, holds

Index = tuple[int, ...]


class UncountedError(Exception):
    """The number of Arrives before a slot is no expression of this kind."""


def resolved(program: Program, sigma: Mapping[Sym, int]) -> Program:
    """The program at these sizes without slots; itself if it has none.

    Operations other than loops and guards are the same objects.  Raises UncountedError.
    """
    slots = [op.slot for op in operations(program.body) if isinstance(op, Loop) and op.slot]
    if not slots:
        return program
    counted = {(slot.name, _element(slot, sigma)) for slot in slots}
    counting = _Counting(dict(sigma), counted)
    return replace(program, body=counting.block(program.body, dict.fromkeys(counted, Int(0))))


def _element(slot: Access, sigma: Mapping[Sym, int]) -> Index:
    return tuple(evaluate(c.at, sigma) for c in slot.coords if isinstance(c, Point))


@dataclass(slots=True)
class _Counting:
    sigma: dict[Sym, int]
    counted: set[tuple[Sym, Index]]
    totals: dict[tuple[Op, Sym, Index, tuple[tuple[Sym, int], ...]], int] = field(
        default_factory=dict
    )

    def block(self, block: Block, counts: dict[tuple[Sym, Index], CExpr]) -> Block:
        """The block; `counts` are the Arrives before it, and in the end those after it."""
        made: list[Op] = []
        for op in block:
            made.append(self.op(op, counts))
            for name, index in self.counted:
                if isinstance(op, Alloc) and op.name == name:
                    counts[name, index] = Int(0)
                elif (total := self.total(op, name, index, {})) != 0:
                    before = counts[name, index]
                    counts[name, index] = Add(before, Int(total))
        return tuple(made)

    def op(self, op: Op, counts: dict[tuple[Sym, Index], CExpr]) -> Op:
        match op:
            case Loop(slot=Access() as slot):
                count = counts[slot.name, _element(slot, self.sigma)]
                lo = Mod(count, evaluate(op.hi, self.sigma))
                return replace(op, lo=lo, hi=Add(lo, Int(1)), slot=None)
            case Loop():
                inside = dict(counts)
                for (name, index), before in counts.items():
                    if each := sum(self.total(inner, name, index, {}) for inner in op.body):
                        done = Sub(CVar(op.iterator), op.lo)
                        inside[name, index] = Add(before, Mul(each, done))
                return replace(op, body=self.block(op.body, inside))
            case Guard():
                return replace(op, body=self.block(op.body, dict(counts)))
            case _:
                return op

    def total(self, op: Op, name: Sym, index: Index, values: Mapping[Sym, int]) -> int:
        """How many Arrives on an element an operation has, where these iterators have these
        values and no other matters.  Raises UncountedError."""
        if not isinstance(op, Loop | Guard):
            return self.arrives(op, name, index, values)
        key = (op, name, index, tuple(values.items()))
        if key not in self.totals:
            self.totals[key] = self._total(op, name, index, values)
        return self.totals[key]

    def _total(self, op: Loop | Guard, name: Sym, index: Index, values: Mapping[Sym, int]) -> int:
        if not any(isinstance(o, Arrive) and o.home.name == name for o in operations(op.body)):
            return 0
        known = {**self.sigma, **values}
        try:
            if isinstance(op, Guard):
                each = sum(self.total(inner, name, index, values) for inner in op.body)
                return each if each == 0 or holds(op.condition, known) else 0
            iterations = range(evaluate(op.lo, known), evaluate(op.hi, known))
        except KeyError:
            raise UncountedError from None
        try:
            each = sum(self.total(inner, name, index, values) for inner in op.body)
            return each * len(iterations)
        except UncountedError:
            found = 0
            for value in iterations:
                at = {**values, op.iterator: value}
                found += sum(self.total(inner, name, index, at) for inner in op.body)
            return found

    def arrives(self, op: Op, name: Sym, index: Index, values: Mapping[Sym, int]) -> int:
        """Whether an operation is an Arrive on the element."""
        if not isinstance(op, Arrive) or op.home.name != name:
            return 0
        try:
            return int(_element(op.home, {**self.sigma, **values}) == index)
        except KeyError:
            raise UncountedError from None
