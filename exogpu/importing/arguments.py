"""The arguments of a kernel as the command line gives them.

fp16[2048, 2048]:desc(128, 64), fp32[4096], 2048, BLOCK_M=128, MMA=WGMMA
"""

from __future__ import annotations

import re
from collections.abc import Callable, Mapping
from dataclasses import dataclass
from typing import Any, Final

from exogpu.importing.refusing import RefusedError

_TENSOR: Final = re.compile(
    r"(?P<type>[a-z]+\d\w*)\[(?P<shape>[\d\s,]*)\](?::desc\((?P<block>[\d\s,]+)\))?"
)


@dataclass(frozen=True, slots=True)
class TensorArgument:
    """A tensor of global memory; with a block, a descriptor of it for TMA."""

    dtype: str
    shape: tuple[int, ...]
    block: tuple[int, ...] | None = None


@dataclass(frozen=True, slots=True)
class Call:
    """Arguments by place and by name: tensors, or expressions of Python."""

    places: tuple[TensorArgument | str, ...]
    names: tuple[tuple[str, TensorArgument | str], ...]

    def values(
        self, known: Mapping[str, Any], tensor: Callable[[TensorArgument], object]
    ) -> tuple[list[Any], dict[str, Any]]:
        """The values, expressions with the names of the kernel's file.

        Raises RefusedError (K109) for an expression that has none.
        """

        def value(one: TensorArgument | str) -> Any:  # noqa: ANN401
            if isinstance(one, TensorArgument):
                return tensor(one)
            try:
                return eval(one, dict(known))  # the user's own expression, on the user's own file
            except Exception as error:
                raise _wrong(f"{one}: {type(error).__name__}: {error}") from error

        return [value(one) for one in self.places], {name: value(one) for name, one in self.names}


def parse_call(text: str) -> Call:
    """Arguments from their text.  Raises RefusedError (K109) for text of another form."""
    places: list[TensorArgument | str] = []
    names: dict[str, TensorArgument | str] = {}
    for part in _parts(text):
        named = re.fullmatch(r"([^\W\d]\w*)\s*=(?!=)\s*(.+)", part, re.DOTALL)
        if named is None and names:
            raise _wrong(f"{part} stands after arguments with names")
        if named is None:
            places.append(_argument(part))
        elif named[1] in names:
            raise _wrong(f"{named[1]} is given twice")
        else:
            names[named[1]] = _argument(named[2])
    return Call(tuple(places), tuple(names.items()))


def _argument(text: str) -> TensorArgument | str:
    found = _TENSOR.fullmatch(text.strip())
    if found is None:
        return text.strip()
    shape = _numbers(found["shape"])
    block = _numbers(found["block"]) if found["block"] else None
    if block is not None and len(block) != len(shape):
        raise _wrong(f"{text}: the block has {len(block)} extents, the tensor {len(shape)}")
    return TensorArgument(found["type"], shape, block)


def _numbers(text: str) -> tuple[int, ...]:
    return tuple(int(part) for part in text.split(",") if part.strip())


def _parts(text: str) -> list[str]:
    """The parts between commas that are in no brackets."""
    found, depth, start = [], 0, 0
    for at, char in enumerate(text):
        depth += {"(": 1, "[": 1, "{": 1, ")": -1, "]": -1, "}": -1}.get(char, 0)
        if char == "," and depth == 0:
            found.append(text[start:at])
            start = at + 1
    if depth:
        raise _wrong(f"{text}: a bracket is not closed")
    found.append(text[start:])
    return [part.strip() for part in found if part.strip()]


def _wrong(message: str) -> RefusedError:
    remedy = "write --args 'fp16[2048, 2048]:desc(128, 64), 2048, BLOCK_M=128'"
    return RefusedError("K109", f"--args: {message}", remedy)
