"""The claims that may be invariant in a loop of PTX: bounds, remainders, and what registers count.

Those that hold at first and behind each turn are known inside; the others are left out.
"""

from __future__ import annotations

from collections.abc import Mapping
from dataclasses import dataclass

from exogpu.amir import nodes as amir
from exogpu.ir.types import Sym
from exogpu.solvers import bitvectors as bv
from exogpu.validate.control_flow import Loop
from exogpu.validate.cursor import Walker
from exogpu.validate.mbarriers import left_to_skip
from exogpu.validate.thread_state import State
from exogpu.validate.turn_steps import Steps


@dataclass(frozen=True, slots=True)
class Entered:
    """A loop of PTX as it is entered: what is unknown, and what is claimed to be invariant."""

    state: State
    """As it was before the loop."""
    steps: Steps
    loop: amir.Loop
    counter: Sym
    """The counter of the program's loop."""
    turns: int
    """Turns of the program in one of PTX; 0 of tasks, which go on by the number of CTAs."""
    count: bv.Term
    """The turns of PTX so far, in 32 bits; of tasks, the number of the task."""
    inside: State
    """At the begin of any turn."""


def claims_of(
    walker: Walker, loop: Loop, entered: Entered, state: State
) -> Mapping[str, bv.Formula]:
    """The claims that may be invariant, as they read in a state, by name."""
    counted = state.cursor.env[entered.counter]
    first = entered.state.cursor.env[entered.counter]
    end = walker.end(state.cursor, entered.loop)
    most = bv.constant((1 << 31) - 1, 64)
    found = {
        "first <= counter": bv.compare("le", first, counted),
        "counter <= end": bv.compare("le", counted, end),
        "counter < end": bv.compare("lt", counted, end),
        "counter fits": bv.compare("le", counted, most),
    }
    for name, old in entered.state.registers.items():
        if name not in loop.written or name not in entered.inside.registers:
            continue
        if name not in state.registers or bv.is_formula(old) or bv.width(old) != 32:
            continue
        now, zero = state.registers[name], bv.constant(0, 32)
        step = entered.steps.constant.get(name)
        if step is None and name not in entered.steps.with_tasks:
            if name in entered.steps.integers:
                found[f"0 <= {name}"] = bv.compare("ge", now, zero)
                found |= _of_rings(walker, name, now, state)
            continue
        found[f"0 <= {name}"] = bv.compare("ge", now, zero)
        found |= _of_rings(walker, name, now, state)
        if step is not None:
            found[f"0 < {name}"] = bv.compare("gt", now, zero)
            word = "ge" if step > 0 else "le"
            found[f"{name} behind its first"] = bv.compare(word, now, old)
            found[f"{name} not 0"] = bv.compare("ne", now, zero)
            if (mask := (step & -step) - 1) > 0:
                rest = (now - old) & bv.constant(mask, 32)
                found[f"{name} by steps"] = bv.equal(rest, zero)
    if entered.turns:
        found |= _of_count(entered, state)
    return found


def _of_rings(walker: Walker, name: str, now: bv.Term, state: State) -> dict[str, bv.Formula]:
    """A register may hold one of the thread's numbers, or the waits that are left to skip."""
    found = {}
    ghosts = state.cursor.ghosts
    for ring in walker.rings.values():
        for ghost in (ring.arrived, ring.awaited):
            found[f"{name} is {ghost.name}"] = bv.equal(now, ghosts[ghost])
        for skip in ring.skips:
            left = left_to_skip(skip, ghosts[ring.in_task])
            found[f"{name} of {skip} to skip on {ring.variable.name.name}"] = now == left
    return found


def _of_count(entered: Entered, state: State) -> Mapping[str, bv.Formula]:
    """The count of turns is not negative, and small."""
    first = entered.state.cursor.env[entered.counter]
    passed = state.cursor.env[entered.counter] - first
    most = bv.constant(((1 << 31) - 1), 64)
    count: bv.Term = bv.constant(0, 32)
    if state is not entered.state:
        count = entered.count if state is entered.inside else entered.count + 1
    return {
        "count >= 0": bv.compare("ge", count, bv.constant(0, 32)),
        "count fits": bv.conjunction(
            [
                bv.compare("le", passed, most),
                bv.compare("ge", passed, bv.constant(0, 64)),
                bv.compare("le", count, bv.constant(((1 << 31) - 1) // entered.turns, 32)),
            ]
        ),
    }


def wide_as(count: bv.Term, like: bv.Term) -> bv.Term:
    """The count in as many bits as another term."""
    return bv.extend(count, bv.width(like), signed=True)
