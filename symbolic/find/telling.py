"""Sizes that are not the smallest, and at which the concrete machine may find what it does not at
these: rings that go round, and several tasks.

A ring that is filled once tells nothing of who waits for whom when it is filled again, and a task
that is alone nothing of what two do to each other.
"""

from __future__ import annotations

from collections.abc import Callable, Iterator
from dataclasses import dataclass, field
from typing import Final

from exogpu.amir.nodes import Arrive, Await, Block, Guard, Loop, Program
from exogpu.amir.walk import operations
from exogpu.ir.names import Sym
from exogpu.ir.nodes import Add, BExpr, Compare, CVar, Int
from exogpu.ir.walk import control_variables
from exogpu.symbolic.find.smallest import admitted

TASKS: Final = 3
"""Iterations of a loop over tasks: one before and one after another."""


def telling(program: Program) -> Iterator[dict[str, int]]:
    """The smallest sizes at which each loop with Arrives or Awaits in it has two more iterations
    than any ring has slots, or any Await leaves; and those at which each loop over tasks has some.

    Of loops whose iterations depend on sizes; of what no sizes are, or Z3 cannot find, none.
    """
    for least, meant in ((_ring(program) + 2, _synchronises), (TASKS, lambda loop: loop.tasks)):
        sought = _IterationConditions(Int(least), meant)
        sought.block(program.body, ())
        if sought.conditions:
            found = next(admitted(program, also=sought.conditions, of=sought.iterators), None)
            yield from () if found is None else (found,)


def _ring(program: Program) -> int:
    """The longest ring, as the program has it: slots, and Arrives that an Await leaves."""
    found = [0]
    for op in operations(program.body):
        match op:
            case Await(n=n):
                found.append(~n if n < 0 else n)
            case Loop(slot=slot, hi=Int(slots)) if slot is not None:
                found.append(slots)
            case _:
                pass
    return max(found)


def _synchronises(loop: Loop) -> bool:
    """Tests whether it is an ordinary loop of the program's in which threads synchronise."""
    marked = loop.tasks or loop.threads or loop.slot is not None or loop.source is not None
    return not marked and any(isinstance(op, Arrive | Await) for op in operations(loop.body))


@dataclass
class _IterationConditions:
    """Collects conditions on sizes and iterators under which the loops meant have at least this
    many iterations."""

    least: Int
    meant: Callable[[Loop], bool]
    conditions: list[BExpr] = field(default_factory=list)
    iterators: list[Sym] = field(default_factory=list)

    def block(self, block: Block, around: tuple[BExpr, ...]) -> None:
        for op in block:
            match op:
                case Loop():
                    at = CVar(op.iterator)
                    self.iterators.append(op.iterator)
                    inside = (Compare("<=", op.lo, at), Compare("<", at, op.hi))
                    if self.meant(op) and control_variables(op.lo) | control_variables(op.hi):
                        enough = Compare("<=", Add(op.lo, self.least), op.hi)
                        self.conditions += (*around, enough)
                    self.block(op.body, (*around, *inside))
                case Guard():
                    self.block(op.body, (*around, op.condition))
                case _:
                    pass
