"""The changes of registers in a turn of a loop of PTX: guesses, which the loop's proof checks."""

from __future__ import annotations

from collections.abc import Mapping
from dataclasses import dataclass

from exogpu.solvers import bitvectors as bv
from exogpu.validate.control_flow import Loop
from exogpu.validate.product import Product
from exogpu.validate.ptx_arithmetic import computed, number, registers_written
from exogpu.validate.refusals import NotValidatedError
from exogpu.validate.thread_state import State


@dataclass(frozen=True, slots=True)
class Steps:
    """The registers that a turn changes by a constant, and those that it changes by so many times
    the CTAs of the launch."""

    constant: Mapping[str, int]
    with_tasks: Mapping[str, int]
    integers: frozenset[str]
    """All registers of 32 bits that some integer instruction writes."""


def steps_of(product: Product, loop: Loop, state: State) -> Steps:
    """The steps, by one pass over the loop's code as if nothing branched."""
    unknown: dict[str, bv.Term] = {}
    registers = dict(state.registers)
    needed = product.kernel.flow.live[loop.head]
    for name in loop.written & registers.keys() & needed:
        if not bv.is_formula(registers[name]):
            unknown[name] = registers[name] = bv.fresh("before", bv.width(registers[name]))
        else:
            registers[name] = bv.fresh_truth("before")
    _pass_over(product, loop, registers)
    ctas = product.kernel.specials["%nctaid.x"]
    constant: dict[str, int] = {}
    tasks: dict[str, int] = {}
    inner = frozenset[str]().union(
        *(
            other.written
            for head, other in product.kernel.flow.loops.items()
            if head != loop.head and head in loop.blocks
        )
    )
    for name in inner:
        registers.pop(name, None)
    for name, before in unknown.items():
        if name not in registers:
            continue
        step = bv.simplified(registers[name] - before)
        if (value := bv.signed_value(step)) is not None:
            constant[name] = value
        elif bv.width(step) == 32:
            for times in (1, -1, 2, 4, 8, 16, 32, 64, 128, 256):
                if bv.signed_value(bv.simplified(step - ctas * bv.constant(times, 32))) == 0:
                    tasks[name] = times
    for name, before in unknown.items():
        if name in constant or name in tasks or name not in registers:
            continue
        for known, step in list(constant.items()):
            if bv.width(unknown[known]) != bv.width(before):
                continue
            distance = bv.simplified(registers[name] - registers[known])
            at_first = state.registers[name] - state.registers[known]
            if bv.signed_value(distance) is not None and product.follows(
                state, bv.equal(at_first, distance)
            ):
                constant[name] = step
                break
    integers = frozenset(
        name
        for block in loop.blocks
        for one in product.kernel.flow.code[block]
        if one.opcode[-1] in ("s32", "u32", "b32")
        for name in registers_written(one)
    )
    return Steps(constant, tasks, integers)


def _pass_over(product: Product, loop: Loop, registers: dict[str, bv.Term]) -> None:
    flow = product.kernel.flow

    def value(text: str, bits: int) -> bv.Term:
        found = registers.get(text)
        if found is None:
            found = product.kernel.specials.get(text)
        if found is None:
            found = number(text, bits)
        return bv.fresh("unknown", bits) if found is None else found

    def truth(name: str) -> bv.Formula:
        found = registers.get(name)
        return bv.fresh_truth("unknown") if found is None else found

    for block in sorted(loop.blocks, key=lambda one: flow.order[one]):
        for one in flow.code[block]:
            try:
                registers |= computed(one, value, truth)
            except (NotValidatedError, ValueError):
                for name in registers_written(one):
                    registers.pop(name, None)
