"""Listings: who executes each scope of a procedure, and its abstract machine program."""

from __future__ import annotations

import re
from typing import Final

from rich.text import Text

from exogpu.amir.export import Json, to_json
from exogpu.amir.nodes import Program
from exogpu.analysis import collective
from exogpu.analysis.dependent import with_waits
from exogpu.analysis.inline import inline
from exogpu.analysis.lifetimes import insert_frees
from exogpu.analysis.listing import listing
from exogpu.ir.nodes import Proc
from exogpu.result.errors import ExoGpuError

_NUMBER = re.compile(r"\((-?\d+)\)")
_LINE = "{:>5} | "
_PLACE: Final = frozenset({"op", "body", "file", "line", "column", "text", "threads"})
"""Fields of an operation that the listing does not show as `name=value`."""


def threads_listing(ir: Proc, *, relations: bool = False) -> Text:
    """A line for each scope of the kernels that has its own set of threads, and that set.

    With `relations`, below each the exact ISL relation from iterators to thread indices.
    Raises ExoGpuError where the scopes do not fit the launch.
    """
    flat = insert_frees(with_waits(inline(ir)))
    executors, wrong = collective.analyse(flat)
    if wrong:
        raise ExoGpuError(wrong)
    # Metaprogramming unrolls loops: what was written once is listed once.
    lines = tuple(dict.fromkeys(listing(flat, executors)))
    text = Text(f"{ir.name}\n", "bold")
    if not lines:
        return text.append("  runs on the CPU alone\n")
    width = max(len("  " * line.depth + line.opens) for line in lines)
    for line in lines:
        text.append(_LINE.format(line.span.line), "blue")
        text.append(f"{'  ' * line.depth + line.opens:<{width}}  ")
        text.append(f"{line.executors}\n", "cyan")
        if relations:
            text.append(f"{_LINE.format('')}{'  ' * line.depth}{line.relation}\n", "dim")
    return text


def amir_listing(program: Program) -> Text:
    """The operations of the machine, one a line, each with its source line and its fields."""
    text = Text()
    exported = to_json(program)
    params = ", ".join(p.name.name for p in program.params)
    text.append(f"{program.name}({params}), policy {program.policy.value}\n", "bold")
    variables = exported["variables"]
    assert isinstance(variables, list)
    for variable in variables:
        assert isinstance(variable, dict)
        text.append(f"  variable {variable['name']}")
        text.append(f"[{_value(variable['shape'])}]")
        text.append(_fields(variable, frozenset({"name", "shape"}))).append("\n")
    _operations(exported["body"], 0, text)
    return text


def _operations(body: Json, depth: int, text: Text) -> None:
    assert isinstance(body, list)
    for op in body:
        assert isinstance(op, dict)
        text.append(_LINE.format(str(op["line"])), "blue")
        text.append(f"{'  ' * depth}{op['op']}", "bold").append(_fields(op, _PLACE)).append("\n")
        if "body" in op:
            _operations(op["body"], depth + 1, text)


def _fields(fields: dict[str, Json], hidden: frozenset[str]) -> str:
    """The fields that say something: what is false, null or empty is left out."""
    shown = [
        f" {name}" if value is True else f" {name}={_value(value)}"
        for name, value in fields.items()
        if name not in hidden and value is not False and value is not None and value != []
    ]
    return "".join(shown)


def _value(value: Json) -> str:
    match value:
        case {"variable": str(name), "coords": [*coords]}:
            return f"{name}[{', '.join(_coordinate(coord) for coord in coords)}]"
        case {"home": home, "targets": targets}:
            return f"{_value(targets)} (home {_value(home)})"
        case list():
            return ", ".join(_value(item) for item in value)
        case _:
            return _NUMBER.sub(r"\1", str(value))


def _coordinate(coord: Json) -> str:
    return ":".join(map(_value, coord)) if isinstance(coord, list) else _value(coord)
