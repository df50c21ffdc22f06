"""Addresses of the elements of the program's variables, from the manifest's layout.

The layout is a claim of the code generator.  Any layout is right in which variables that exist at
one time have no byte in common, so that is what is checked.
"""

from __future__ import annotations

from collections.abc import Callable, Mapping, Sequence
from dataclasses import dataclass
from math import prod
from typing import Any

from exogpu.amir import nodes as amir
from exogpu.amir.walk import operations
from exogpu.ir import nodes as ir
from exogpu.ir.types import DataType, Sym
from exogpu.solvers import bitvectors as bv
from exogpu.validate.events import Space
from exogpu.validate.refusals import refusal_of

Evaluate = Callable[[ir.CExpr], bv.Term]
"""The value of a control expression, in 64 bits."""

LARGEST_SHARED = 1 << 20
"""No address of shared memory is larger, with room to spare."""


@dataclass(frozen=True, slots=True)
class Place:
    """The place of a variable, whose elements lie by rows."""

    space: Space
    base: bv.Term
    """The first byte, in 64 bits."""
    shape: tuple[ir.CExpr, ...]
    element: int
    """The bytes of an element."""


@dataclass(frozen=True, slots=True)
class Window:
    """Adjacent elements."""

    space: Space
    address: bv.Term
    bytes: int


def window(place: Place, access: ir.Access, value: Evaluate) -> Window:
    """The bytes of an access.  Raises NotValidatedError where they are not adjacent, or their
    number depends on sizes."""
    flat: bv.Term = bv.constant(0, 64)
    count = 1
    for coord, extent in zip(access.coords, place.shape, strict=True):
        if count > 1:
            whole = isinstance(coord, ir.Interval) and _is_whole(coord, extent, value)
            if not whole:
                raise refusal_of(f"a window of {access.name} is not contiguous")
        first = coord.at if isinstance(coord, ir.Point) else coord.lo
        flat = flat * value(extent) + value(first)
        if isinstance(coord, ir.Interval):
            length = bv.signed_value(bv.simplified(value(coord.hi) - value(coord.lo)))
            if length is None:
                raise refusal_of(f"the extent of a window of {access.name} depends on sizes")
            count *= length
    address = bv.simplified(place.base + flat * bv.constant(place.element, 64))
    if place.space == "shared":
        address = bv.part(address, 0, 32)
    return Window(place.space, bv.simplified(address), count * place.element)


def _is_whole(coord: ir.Interval, extent: ir.CExpr, value: Evaluate) -> bool:
    begins = bv.signed_value(bv.simplified(value(coord.lo)))
    rest = bv.signed_value(bv.simplified(value(coord.hi) - value(extent)))
    return begins == 0 and rest == 0


def shared_places(
    program: amir.Program,
    body: amir.Block,
    layout: Sequence[Mapping[str, Any]],
    within: tuple[int, int],
) -> dict[Sym, Place]:
    """The places of the shared variables of a kernel, in the order of their allocation.

    Raises NotValidatedError for a layout in which two that exist at one time share a byte.
    """
    lifetimes = _lifetimes(body)
    variables = [
        one
        for one in program.variables
        if one.shared and one.mechanism is None and one.name in lifetimes
    ]
    if [*map(_spelled, layout)] != [
        _base(one.name.name, layout, at) for at, one in enumerate(variables)
    ]:
        raise refusal_of("the manifest lays out other shared variables than the program has")
    smem = bv.extend(bv.variable("smem", 32), 64, signed=False)
    found: dict[Sym, Place] = {}
    ends: dict[Sym, tuple[int, int]] = {}
    for one, described in zip(variables, layout, strict=True):
        if described.get("swizzle", 0):
            raise refusal_of(f"{one.name} is swizzled, which is not validated yet")
        shape = [extent.value for extent in one.shape if isinstance(extent, ir.Int)]
        if len(shape) < len(one.shape):
            raise refusal_of(f"the extents of {one.name} depend on sizes")
        element, offset = DataType(described["dtype"]).bytes, int(described["offset"])
        end = offset + element * prod(shape)
        if offset % element or offset < within[0] or end > within[1]:
            raise refusal_of(f"{one.name} does not lie within the kernel's shared memory")
        found[one.name] = Place("shared", smem + bv.constant(offset, 64), one.shape, element)
        ends[one.name] = (offset, end)
    names = list(found)
    for at, first in enumerate(names):
        for second in names[at + 1 :]:
            if _meet(ends[first], ends[second]) and _meet(lifetimes[first], lifetimes[second]):
                raise refusal_of(
                    f"{first} and {second} have bytes in common, and exist at one time"
                )
    return found


def _spelled(described: Mapping[str, Any]) -> str:
    return str(described["name"])


def _base(name: str, layout: Sequence[Mapping[str, Any]], at: int) -> str:
    """The name as the source has it: a second `tile` is `tile_2` in a program."""
    if at < len(layout):
        spelled = _spelled(layout[at])
        rest = name.removeprefix(f"{spelled}_")
        if name != spelled and rest != name and rest.isdigit():
            return spelled
    return name


def _meet(one: tuple[int, int], other: tuple[int, int]) -> bool:
    return one[0] < other[1] and other[0] < one[1]


def _lifetimes(body: amir.Block) -> dict[Sym, tuple[int, int]]:
    """From the allocation of each variable to its release, by place in the program text."""
    begins: dict[Sym, int] = {}
    found: dict[Sym, tuple[int, int]] = {}
    for at, op in enumerate(operations(body)):
        if isinstance(op, amir.Alloc):
            begins[op.name] = at
            found[op.name] = (at, 1 << 62)
        elif isinstance(op, amir.Release) and op.name in begins:
            found[op.name] = (begins[op.name], at)
    return found
