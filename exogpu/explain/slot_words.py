"""Slots of one memory that have counted in another way in another task of a cluster, in words."""

from __future__ import annotations

from exogpu.amir.nodes import Origin, Program, Require
from exogpu.amir.private import PrivateSlot, comparison_of
from exogpu.ir.nodes import Compare, CVar
from exogpu.machine.violation import Violation


def slot_words(program: Program, violation: Violation) -> tuple[str, str, Origin] | None:
    """Returns the defect, the remedy and the access that the one at fault is compared with.

    Returns None where the requirement is not one of the program's own.
    """
    assert isinstance(violation.check, Require)
    asked = comparison_of(program, violation.check)
    if asked is None:
        return None
    values = [value for _, value in violation.iteration][-len(asked.slots) :]
    begun = "a later task of the cluster"
    if violation.task is not None:
        begun = f"task {violation.task}"
    said = " and ".join(
        f"{_called(slot)} is {value}" for slot, value in zip(asked.slots, values, strict=True)
    )
    name = violation.variable
    if all(slot.ring == asked.slots[0].ring for slot in asked.slots) and _compares(asked.condition):
        return (
            f"as {begun} begins, {said}: tasks do not arrive equally often on the barriers whose "
            f"slots index {name}",
            f"index {name} by slots of barriers on which each task arrives equally often, or of "
            "one barrier alone",
            asked.first,
        )
    rings = " and ".join(
        dict.fromkeys(f"{slot.ring} times on {slot.barrier.name}" for slot in asked.slots)
    )
    return (
        f"as {begun} begins, {said}, and in another cluster another number: which element of "
        f"{name} this access has among those of the slots changes from task to task",
        f"index {name} by slots in every access, or let each task arrive a multiple of {rings}",
        asked.first,
    )


def _called(slot: PrivateSlot) -> str:
    return f"slot({slot.barrier.name})"


def _compares(condition: object) -> bool:
    return isinstance(condition, Compare) and isinstance(condition.right, CVar)
