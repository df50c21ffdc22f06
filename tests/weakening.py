"""Programs in JSON that ask for less, or promise more, in one field than the program that they are
made of: what a forger would try, without another statement."""

from __future__ import annotations

import re
from collections.abc import Iterator
from copy import deepcopy
from typing import Any, Final

from exogpu.hw.timelines import SHORT_NAME
from exogpu.ir.types import Level

Content = dict[str, Any]

LEVELS: Final = tuple(level.name.lower() for level in Level)
TIMELINES: Final = tuple(SHORT_NAME.values())
FURTHER: Final = ("cuda1", "cuda2", "Sm80", "tmaS", "wgS")
"""Timelines that are put in where they are not."""

_COUNT: Final = re.compile(r"< (?!1\b)\d+")


def weakened(program: Content) -> Iterator[tuple[str, Content]]:
    """Each program with one field changed, and what was changed."""
    for number, op in enumerate(operations(program["body"])):
        for field, value in _fields(op):
            made = deepcopy(program)
            list(operations(made["body"]))[number][field] = value
            of = op.get("access", {}).get("variable", "")
            yield f"{op['op']} of {of} at line {op['line']}: {field} = {value}", made


def operations(body: list[Content]) -> Iterator[Content]:
    """All operations, in the order of the text."""
    for op in body:
        yield op
        yield from operations(op.get("body", []))


def _fields(op: Content) -> Iterator[tuple[str, object]]:
    match op["op"]:
        case "CheckReads" | "CheckMutates":
            yield from (("level", level) for level in LEVELS if level != op["level"])
            for more in FURTHER:
                if more not in op["timelines"]:
                    some = {more, *op["timelines"]}
                    yield "timelines", [name for name in TIMELINES if name in some]
            if op["threads"] is not None:
                yield "convergent", not op["convergent"]
            yield from _fewer_threads(op)
        case "RecordRead" | "RecordMutate":
            yield from (("level", level) for level in LEVELS if level != op["level"])
            yield from (("timeline", one) for one in (*FURTHER, None) if one != op["timeline"])
            yield "atomic", [] if op["atomic"] else ["cuda2"]
            if op["threads"] is not None:
                yield "convergent", not op["convergent"]
            if op["trailing"] is None:
                yield from _fewer_threads(op)
        case "Fence" | "Arrive":
            yield "transitive", not op["transitive"]
            yield "pre", list(TIMELINES)
        case "Await":
            yield "full", list(TIMELINES)
            yield "temporal", []
        case _:
            pass


def _fewer_threads(op: Content) -> Iterator[tuple[str, str]]:
    """One thread on an axis in the place of several."""
    if op["threads"] is not None and _COUNT.search(op["threads"]):
        yield "threads", _COUNT.sub("< 1", op["threads"], count=1)
