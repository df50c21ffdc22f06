"""Writes `scf.while` as `scf.for`, where a carried counter grows by a constant up to a bound.

The loop has the same iterations then: the region before its condition has register operations
alone, and the condition compares the counter with a value from outside of the loop.
"""

from __future__ import annotations

from collections.abc import Mapping
from dataclasses import replace

from exogpu.importing.mlir_text import Operation, Region, walk
from exogpu.importing.refusals import unsupported
from exogpu.importing.source_locations import Places
from exogpu.importing.triton_tables import SCRATCH, is_register_operation


def with_counted_loops(body: tuple[Operation, ...], places: Places) -> tuple[Operation, ...]:
    """The operations with each `scf.while` as a `scf.for`.

    Raises RefusedError (K104) for one whose iterations are counted in another way.
    """
    return tuple(_as_counted(operation, places) for operation in body)


def _as_counted(operation: Operation, places: Places) -> Operation:
    regions = tuple(
        replace(region, operations=with_counted_loops(region.operations, places))
        for region in operation.regions
    )
    changed = replace(operation, regions=regions)
    if operation.name != "scf.while":
        return changed
    counted = _as_for(changed)
    if counted is None:
        raise unsupported(
            "a `while` loop whose iterations are not counted",
            "compare a counter that grows by a constant with a bound, or write a `for` loop",
            places.span(operation),
        )
    return counted


def _as_for(loop: Operation) -> Operation | None:
    """The loop as `scf.for`; None where its form is another."""
    before, after = loop.regions
    ends = [region.terminator.name for region in loop.regions if region.terminator is not None]
    if ends != ["scf.condition", "scf.yield"]:
        return None
    # Regions beside each other may use the same names, so those of the first one are changed.
    own = {*before.arguments, *(name for one in walk(before.operations) for name in one.results)}
    first = {name: f"{name}@while_{loop.line}" for name in own}
    *computed, condition = (_renamed(one, first) for one in before.operations)
    arguments = tuple(first[name] for name in before.arguments)
    holds, *passed = condition.operands
    if not set(passed) <= set(arguments) or not all(map(_is_pure, computed)):
        return None
    named = dict(zip(after.arguments, passed, strict=True))
    inside = tuple(_renamed(one, named) for one in after.operations)
    counter, bound = _compared(holds, computed) or ("", "")
    results = dict(zip(passed, loop.results, strict=True))
    if counter not in arguments or len(results) < len(loop.results):
        return None
    at = arguments.index(counter)
    step = _growth(inside[-1].operands[at], counter, inside)
    made = {name for one in walk((*computed, *inside)) for name in one.results}
    if step is None or {bound, step} & {*made, *arguments}:
        return None
    body = Region("", (f"%while_{loop.line}", *arguments), (*computed, *inside))
    return replace(
        loop,
        name="scf.for",
        results=tuple(results.get(name, f"{name}_after") for name in arguments),
        operands=(loop.operands[at], bound, step, *loop.operands),
        regions=(body,),
    )


def _is_pure(operation: Operation) -> bool:
    """Returns whether an operation may be executed once more, when the loop ends, unseen."""
    return is_register_operation(operation) and not SCRATCH & set(operation.attributes)


def _compared(holds: str, computed: list[Operation]) -> tuple[str, str] | None:
    """The counter, and the bound that it is less than while the loop goes on."""
    for one in computed:
        if holds in one.results and one.name == "arith.cmpi":
            kind, (left, right) = one.text.partition(",")[0].strip(), one.operands
            return {"slt": (left, right), "sgt": (right, left)}.get(kind)
    return None


def _growth(after: str, counter: str, inside: tuple[Operation, ...]) -> str | None:
    """The value that is added to the counter in each iteration."""
    for one in inside:
        if after in one.results and one.name == "arith.addi" and counter in one.operands:
            left, right = one.operands
            return right if left == counter else left
    return None


def _renamed(operation: Operation, names: Mapping[str, str]) -> Operation:
    """The operation with other names of values from outside of its regions, and of its results."""
    return replace(
        operation,
        results=tuple(names.get(name, name) for name in operation.results),
        operands=tuple(names.get(name, name) for name in operation.operands),
        regions=tuple(
            replace(region, operations=tuple(_renamed(one, names) for one in region.operations))
            for region in operation.regions
        ),
    )
