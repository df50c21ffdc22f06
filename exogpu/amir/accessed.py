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
    """`TMA load into shared memory`; empty of what is no access, and where memory is freed."""
    if not isinstance(op, Record | Check) or (isinstance(op, Check) and op.free):
        return ""
    shared = next((v.shared for v in variables if v.name is op.access.name), None)
    first = next((tl for tl in CALLED if tl in timelines_of(op)), None)
    return "" if first is None else access_words(first, shared)
