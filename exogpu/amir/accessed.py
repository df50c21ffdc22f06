"""Names an access that an operation records or checks, for a reader."""

from __future__ import annotations

from collections.abc import Iterable

from exogpu.amir.nodes import Check, Op, Record, Variable
from exogpu.hw.accesses import CALLED, access_words
from exogpu.hw.timelines import SHORT_NAME
from exogpu.ir.types import QualSet


def timelines_of(op: Op) -> QualSet:
    """The timelines that a record is made on, or a check asks for."""
    match op:
        case Record() if op.timeline is not None:
            return frozenset({op.timeline})
        case Check():
            return op.timelines
        case _:
            return frozenset()


def short_names(op: Op) -> str:
    """`cuda2`; empty of what is no access."""
    return ", ".join(name for tl, name in SHORT_NAME.items() if tl in timelines_of(op))


def called(op: Op, variables: Iterable[Variable]) -> str:
    """`TMA load into shared memory`; empty where memory is freed, and of an access
    of a barrier."""
    if not isinstance(op, Record | Check) or (isinstance(op, Check) and op.free):
        return ""
    variable = next((v for v in variables if v.name is op.access.name), None)
    if variable is not None and variable.mechanism is not None:
        return ""
    shared = None if variable is None else variable.shared
    first = next((tl for tl in CALLED if tl in timelines_of(op)), None)
    return "" if first is None else access_words(first, shared)


def synchronises(op: Op, variables: Iterable[Variable]) -> str:
    """`Arrive` or `Await` where the record is that of the statement's barrier; empty of others."""
    if not isinstance(op, Record) or op.timeline is None:
        return ""
    variable = next((v for v in variables if v.name is op.access.name), None)
    if variable is None or variable.mechanism is None:
        return ""
    word = op.origin.text.partition("(")[0]
    return word if word in ("Arrive", "Await") else ""
