"""The CPU part of a procedure run as hardware does: the CPU goes on while the stream copies.

The oracle for memory of the host.  It knows nothing of the abstract machine: copies are carried out
when a Fence waits for them, or at any time before, and memory holds garbage once its block ends.
"""

from __future__ import annotations

from collections.abc import Callable, Iterator
from dataclasses import dataclass, field
from random import Random

import numpy as np

from exogpu.analysis.inline import inline
from exogpu.api import Procedure
from exogpu.ir.nodes import (
    Access,
    Alloc,
    Assign,
    Block,
    CallInstr,
    Const,
    DExpr,
    Fence,
    For,
    Free,
    If,
    Interval,
    Pass,
    Proc,
    Read,
    Reduce,
    Stmt,
)
from exogpu.ir.types import Memcpy, Sym
from exogpu.ir.walk import evaluate, holds

GARBAGE = 1e9
"""What memory holds after its end."""

Pace = Callable[[], int]
"""How many of the copies that wait the stream carries out now."""


@dataclass
class Run:
    """A run so far."""

    pace: Pace
    values: dict[Sym, int]
    arrays: dict[Sym, np.ndarray]
    stream: list[Callable[[], None]] = field(default_factory=list)


def at_once() -> int:
    """Each copy is over when it is called: the order of the text."""
    return 1


def as_late_as_may_be() -> int:
    """Nothing is copied before somebody waits."""
    return 0


def at_times(random: Random) -> Pace:
    """Some copies are carried out, now and then."""
    return lambda: random.choice((0, 0, 1, 2))


def contents(proc: Proc, size: int, pace: Pace) -> dict[str, np.ndarray]:
    """The parameters of an inlined procedure after a run; every size has the same value."""
    values = {p.name: size for p in proc.params if not hasattr(p, "shape")}
    arrays = {
        p.name: np.arange(size * 4, dtype=np.float64).reshape(size, 4) * (number + 1)
        for number, p in enumerate(proc.params)
        if hasattr(p, "shape")
    }
    run = Run(pace, values, dict(arrays))
    _block(run, proc.body)
    _carry_out(run, len(run.stream))
    return {name.name: array for name, array in arrays.items()}


def depends_on_the_stream(procedure: Procedure, size: int) -> bool:
    """Tests whether some pace of the stream gives other results than copying at once."""
    assert procedure.ir is not None
    inlined = inline(procedure.ir)
    expected = contents(inlined, size, at_once)
    for pace in (as_late_as_may_be, *(at_times(Random(n)) for n in range(3))):
        found = contents(inlined, size, pace)
        if any(not np.array_equal(found[name], expected[name]) for name in expected):
            return True
    return False


def _carry_out(run: Run, count: int) -> None:
    for copy in run.stream[:count]:
        copy()
    del run.stream[:count]


def _block(run: Run, block: Block) -> None:
    mine: list[np.ndarray] = []
    for stmt in block:
        _step(run, stmt, mine)
        _carry_out(run, run.pace())
    for array in mine:
        array[:] = GARBAGE


def _step(run: Run, stmt: Stmt, mine: list[np.ndarray]) -> None:
    match stmt:
        case Alloc():
            run.arrays[stmt.name] = np.zeros([evaluate(n, run.values) for n in stmt.shape])
            mine.append(run.arrays[stmt.name])
        case For():
            for value in range(evaluate(stmt.lo, run.values), evaluate(stmt.hi, run.values)):
                run.values[stmt.iterator] = value
                _block(run, stmt.body)
        case If():
            _block(run, stmt.body if holds(stmt.condition, run.values) else stmt.orelse)
        case Assign() | Reduce():
            array, at = _window(run, stmt.target)
            before = array[at] if isinstance(stmt, Reduce) else 0.0
            array[at] = before + _value(run, stmt.value)
        case CallInstr():
            assert isinstance(stmt.instr.template, Memcpy)
            _, to, source = stmt.arguments
            assert isinstance(to, Access) and isinstance(source, Access)
            run.stream.append(_copy(_window(run, to), _window(run, source)))
        case Fence():
            if (stmt.pre.name, stmt.post.name) == ("cuda_stream_sync", "cpu_in_order"):
                _carry_out(run, len(run.stream))
        case Free() | Pass():
            pass  # memory ends with its block, whatever the analysis has found
        case _:
            raise AssertionError(stmt)


def _value(run: Run, value: DExpr) -> float:
    if isinstance(value, Const):
        return float(value.value)
    assert isinstance(value, Read)
    array, at = _window(run, value.access)
    return float(array[at])


Window = tuple[np.ndarray, tuple[int | slice, ...]]


def _window(run: Run, access: Access) -> Window:
    return run.arrays[access.name], tuple(_indices(run, access))


def _indices(run: Run, access: Access) -> Iterator[int | slice]:
    for coord in access.coords:
        if isinstance(coord, Interval):
            yield slice(evaluate(coord.lo, run.values), evaluate(coord.hi, run.values))
        else:
            yield evaluate(coord.at, run.values)


def _copy(to: Window, source: Window) -> Callable[[], None]:
    def copy() -> None:
        to[0][to[1]] = source[0][source[1]]

    return copy
