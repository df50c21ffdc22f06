"""The manifest as data: the parameters, and what is done on the stream, in order."""

from __future__ import annotations

import operator
from collections.abc import Callable, Iterator, Mapping
from dataclasses import dataclass, field
from typing import Any, Final, TypeAlias

# Reasons why a call did not launch anything.


class LaunchError(Exception):
    """A call that was refused before anything was launched, or that the driver refused."""

    def __init__(self, problem: str, remedy: str = "") -> None:
        self.problem = problem
        self.remedy = remedy
        super().__init__(f"{problem} ({remedy})" if remedy else problem)


# Expressions of the manifest: integers, names of sizes, and `[operator, operand...]`.

Json: TypeAlias = "bool | int | str | list[Json] | dict[str, Json] | None"

_OPERATORS: Final[Mapping[str, Callable[[int, int], int]]] = {
    "+": operator.add,
    "-": operator.sub,
    "*": operator.mul,
    "//": operator.floordiv,
    "%": operator.mod,
    "==": operator.eq,
    "!=": operator.ne,
    "<": operator.lt,
    "<=": operator.le,
    ">": operator.gt,
    ">=": operator.ge,
    "and": lambda a, b: bool(a) and bool(b),
    "or": lambda a, b: bool(a) or bool(b),
}


def evaluate(expr: Json, sizes: Mapping[str, int]) -> int:
    """The value of an expression; of a condition, a truth."""
    match expr:
        case bool() | int():
            return expr
        case str():
            return sizes[expr]
        case ["not", term]:
            return not evaluate(term, sizes)
        case [str(symbol), left, right] if symbol in _OPERATORS:
            return _OPERATORS[symbol](evaluate(left, sizes), evaluate(right, sizes))
        case _:
            raise LaunchError(f"the manifest has the expression {expr!r}")


_BINDS: Final = (
    ("or",),
    ("and",),
    ("not",),
    ("==", "!=", "<", "<=", ">", ">="),
    "+-",
    ("*", "//", "%"),
)
"""Operators as in Python, the loosest first."""


def expression_text(expr: Json) -> str:
    """The expression as in Python."""
    return _expression_text(expr)[0]


def _expression_text(expr: Json) -> tuple[str, int]:
    """The text, and how tightly its operator binds."""
    match expr:
        case ["not", term]:
            return f"not {_operand_text(term, 2)}", 2
        case ["+", left, int(right)] if right < 0:
            return _expression_text(["-", left, -right])
        case [str(symbol), left, right]:
            binds = next(at for at, symbols in enumerate(_BINDS) if symbol in symbols)
            return f"{_operand_text(left, binds)} {symbol} {_operand_text(right, binds + 1)}", binds
        case _:
            return str(expr), len(_BINDS)


def _operand_text(expr: Json, least: int) -> str:
    text, binds = _expression_text(expr)
    return text if binds >= least else f"({text})"


def names(expr: Json) -> Iterator[str]:
    """The sizes that an expression reads."""
    match expr:
        case str():
            yield expr
        case [_, *operands]:
            for operand in operands:
                yield from names(operand)
        case _:
            pass


@dataclass(frozen=True, slots=True)
class Size:
    """A size, or an index argument."""

    name: str
    least: int | None
    """The smallest value that it may have; None where any will do."""


@dataclass(frozen=True, slots=True)
class Data:
    """An array."""

    name: str
    dtype: str
    shape: tuple[Json, ...]
    written: bool
    by_value: bool = False
    """Its elements are the kernel's parameter, not a pointer to them."""
    on_host: bool = False
    """It lies in memory of the host."""


@dataclass(frozen=True, slots=True)
class MapOf:
    """The argument of a kernel that is a tensor map."""

    tensor: str
    box: tuple[int, ...]
    swizzle: int
    tf32: bool = False
    """Values of f32 are rounded to tf32 as they are loaded."""


@dataclass(frozen=True, slots=True)
class Launch:
    """A kernel: as many clusters as the device holds, or as there are tasks."""

    kernel: str
    cluster: int
    block: int
    shared_bytes: int
    tasks: tuple[tuple[Json, ...], ...]
    """The counts of each nest of tasks."""
    fits: tuple[Json, ...]
    """The values that must have no more than 32 bits."""
    arguments: tuple[str | MapOf, ...]
    dependent: bool = False
    """It may begin before the kernel right before it has ended, and waits by itself."""
    together: bool = False
    """All of its CTAs are to be on the device at a time."""
    level: bool = False
    """It has no more clusters than take its tasks in as many rounds."""


@dataclass(frozen=True, slots=True)
class Fill:
    """A memset of adjacent elements: every byte gets the same value."""

    target: str
    byte: int
    offset: Json
    """The first element, counted by rows."""
    count: Json


@dataclass(frozen=True, slots=True)
class Workspace:
    """Device memory of the procedure's own, from here to its end."""

    name: str
    dtype: str
    shape: tuple[Json, ...]
    zeroed: bool = False
    """Every byte is 0 at first."""


@dataclass(frozen=True, slots=True)
class HostCode:
    """Statements that only the C function of the procedure can do."""


@dataclass(frozen=True, slots=True)
class Contract:
    """An assumption of the proof about the contents of an array."""

    kind: str
    """`monotone` or `injective`."""
    array: str
    least: int | None = None
    """The least element that it is about; None: it is about all."""


Step: TypeAlias = Launch | Fill | Workspace | HostCode


@dataclass(frozen=True, slots=True)
class Manifest:
    """The interface of a compiled procedure."""

    name: str
    arch: str
    sizes: tuple[Size, ...]
    data: tuple[Data, ...]
    preconditions: tuple[Json, ...]
    steps: tuple[Step, ...]
    contracts: tuple[Contract, ...] = ()
    loads: Mapping[int, str] = field(default_factory=dict)
    """The statements that load indices from memory, by line."""
    parameters: tuple[str, ...] = ()
    """The names of sizes and arrays, in order."""


def read_manifest(json: Mapping[str, Any]) -> Manifest:
    """The data of a manifest.  Raises LaunchError for what is none; more keys do not matter."""
    try:
        parameters = json["parameters"]
        return Manifest(
            json["name"],
            json["arch"],
            tuple(_size(p) for p in parameters if p["kind"] != "data"),
            tuple(
                Data(
                    p["name"],
                    p["dtype"],
                    tuple(p["shape"]),
                    p.get("written", True),
                    p.get("memory") == "CudaGridConstant",
                    p.get("memory") == "DRAM",
                )
                for p in parameters
                if p["kind"] == "data"
            ),
            tuple(json["preconditions"]),
            tuple(_step(s) for s in json["steps"]),
            tuple(
                Contract(c["kind"], c["array"], c.get("least")) for c in json.get("contracts", ())
            ),
            {int(line): text for line, text in json.get("loads", {}).items()},
            tuple(p["name"] for p in parameters),
        )
    except (KeyError, TypeError) as error:
        remedy = "compile the procedure again"
        raise LaunchError(f"this is no manifest of exogpu: {error!r}", remedy) from error


def _size(p: Mapping[str, Any]) -> Size:
    return Size(p["name"], p.get("least", 0) if p["kind"] == "size" else None)


def _step(step: Mapping[str, Any]) -> Step:
    match step["op"]:
        case "launch":
            return Launch(
                step["kernel"],
                step["cluster"],
                step["block"],
                step["shared_bytes"],
                tuple(tuple(nest) for nest in step["tasks"]),
                tuple(step["fits"]),
                tuple(_argument(a) for a in step["arguments"]),
                step.get("dependent", False),
                step.get("together", False),
                step.get("level", False),
            )
        case "memset":
            return Fill(step["target"], step["byte"], step["offset"], step["count"])
        case "allocate":
            zeroed = step.get("zeroed", False)
            return Workspace(step["name"], step["dtype"], tuple(step["shape"]), zeroed)
        case "host":
            return HostCode()
        case _:
            raise KeyError(step["op"])


def _argument(argument: str | Mapping[str, Any]) -> str | MapOf:
    if isinstance(argument, str):
        return argument
    box, swizzle = tuple(argument["box"]), argument["swizzle"]
    return MapOf(argument["tensor"], box, swizzle, argument.get("tf32", False))
