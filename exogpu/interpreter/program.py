"""The program that runs: calls inlined, windows resolved to elements of arrays, sizes constant.

Loops, guards and stores are all that is left; indices are affine forms over iterators, each of
which is bound by one loop.
"""

from __future__ import annotations

from collections.abc import Iterator, Mapping
from dataclasses import dataclass
from typing import TypeAlias

import numpy as np

from exogpu.diagnostics.errors import Span
from exogpu.ir.affine import Affine, Range, combine, interval
from exogpu.ir.scalars import Function
from exogpu.ir.types import DataType, Sym


@dataclass(frozen=True, slots=True, eq=False)
class Buffer:
    """An array: a parameter or an allocation; `shape` bounds what an allocation may ask for."""

    name: str
    dtype: DataType
    shape: tuple[int, ...]
    local: bool


@dataclass(frozen=True, slots=True)
class Check:
    """`index` must lie in `0 .. extent - 1`, or the access is out of range."""

    name: str
    dimension: int
    index: Affine
    extent: Affine


@dataclass(frozen=True, slots=True)
class Place:
    """An element of a buffer, as a function of the iterators."""

    buffer: Buffer
    dims: tuple[Affine, ...]
    checks: tuple[Check, ...]
    """The checks that no interval of the iterators decides."""
    clips: tuple[Affine, ...]
    """Where one is negative, a read gives zero and a write does nothing."""
    span: Span

    @property
    def offset(self) -> Affine:
        """Position in the flattened buffer, row-major, in elements."""
        return flatten(self.buffer.shape, self.dims)


def flatten(shape: tuple[int, ...], dims: tuple[Affine, ...]) -> Affine:
    """The row-major position of an element."""
    position = Affine(0)
    for extent, index in zip(shape, dims, strict=True):
        position = combine((extent, position), (1, index))
    return position


@dataclass(frozen=True, slots=True)
class Literal:
    value: float | int
    dtype: np.dtype[np.generic]


@dataclass(frozen=True, slots=True)
class Load:
    place: Place
    dtype: np.dtype[np.generic]
    """The type that the value is widened to."""


@dataclass(frozen=True, slots=True)
class Operation:
    """`dtype` is the result's; see `exogpu.ir.scalars`."""

    function: Function
    arguments: tuple[Value, ...]
    dtype: np.dtype[np.generic]
    span: Span


@dataclass(frozen=True, slots=True)
class Convert:
    term: Value
    dtype: np.dtype[np.generic]


Value: TypeAlias = Literal | Load | Operation | Convert


@dataclass(frozen=True, slots=True)
class Condition:
    """`form op 0`."""

    form: Affine
    equality: bool
    """`form == 0`, else `form >= 0`."""


@dataclass(frozen=True, slots=True)
class AllOf:
    parts: tuple[Test, ...]


@dataclass(frozen=True, slots=True)
class AnyOf:
    parts: tuple[Test, ...]


Test: TypeAlias = Condition | AllOf | AnyOf
"""A condition without negation: `not` is pushed to the comparisons."""

TRUE = AllOf(())
FALSE = AnyOf(())


@dataclass(frozen=True, slots=True, eq=False)
class Loop:
    """`parallel`: no two iterations conflict (see `dependence`), so they may run in any order."""

    iterator: Sym
    lo: Affine
    hi: Affine
    body: Nodes
    parallel: bool = False
    weight: int = 1
    """Instances of its busiest statement, or private elements, that one iteration has at most."""


@dataclass(frozen=True, slots=True, eq=False)
class Guard:
    test: Test
    body: Nodes
    orelse: Nodes = ()


@dataclass(frozen=True, slots=True, eq=False)
class Store:
    target: Place
    value: Value
    accumulate: bool
    span: Span
    copies: bool = False
    """The value has the target's type as it is: nothing is rounded."""


@dataclass(frozen=True, slots=True, eq=False)
class Allocate:
    """Fresh, poisoned memory, one for each instance."""

    buffer: Buffer


@dataclass(frozen=True, slots=True, eq=False)
class Demand:
    """A precondition of a call, or that a window passed lies in its variable."""

    test: Test
    message: str
    span: Span
    code: str


Node: TypeAlias = Loop | Guard | Store | Allocate | Demand
Nodes: TypeAlias = tuple[Node, ...]


# Views of data variables while calls are inlined: an array, or a window of one.


@dataclass(frozen=True, slots=True)
class Window:
    """`source[coords]`: per dimension of the source the start, and whether it is an interval."""

    source: View
    coords: tuple[tuple[Affine, bool], ...]


@dataclass(frozen=True, slots=True)
class View:
    """A variable of rank `len(extents)`."""

    name: str
    extents: tuple[Affine, ...]
    of: Buffer | Window
    clipped: bool = False
    """Elements outside what the window is of read as zero and are not written."""

    @property
    def buffer(self) -> Buffer:
        """The array at the bottom."""
        return self.of if isinstance(self.of, Buffer) else self.of.source.buffer


def element(
    view: View, index: tuple[Affine, ...], ranges: Mapping[Sym, Range], span: Span
) -> Place:
    """The array element that an index of a view denotes, with its bounds checks.

    Every variable on the way checks its own extents; below a clipped one they clip instead.
    """
    checks: list[Check] = []
    clips: list[Affine] = []
    clipped = False
    while True:
        for dimension, (at, extent) in enumerate(zip(index, view.extents, strict=True)):
            last = combine((1, extent), (-1, at), constant=-1)
            inside = interval(at, ranges)[0] >= 0 and interval(last, ranges)[0] >= 0
            if inside:
                continue
            if clipped:
                clips += [form for form in (at, last) if interval(form, ranges)[0] < 0]
            else:
                checks.append(Check(view.name, dimension, at, extent))
        clipped = clipped or view.clipped
        if isinstance(view.of, Buffer):
            return Place(view.of, index, tuple(checks), tuple(clips), span)
        index = through_window(view.of, index)
        view = view.of.source


def spans(view: View) -> Iterator[tuple[Affine, Affine, Affine]]:
    """For each dimension of each variable that a window is of: where it begins, where it ends,
    and the dimension's extent."""
    ends = [(Affine(0), extent) for extent in view.extents]
    while isinstance(view.of, Window):
        left = iter(ends)
        ends = []
        for start, is_interval in view.of.coords:
            lo, hi = next(left) if is_interval else (Affine(0), Affine(1))
            ends.append((combine((1, start), (1, lo)), combine((1, start), (1, hi))))
        view = view.of.source
        for (lo, hi), extent in zip(ends, view.extents, strict=True):
            yield lo, hi, extent


def through_window(window: Window, index: tuple[Affine, ...]) -> tuple[Affine, ...]:
    """The index into a window's source."""
    free = iter(index)
    return tuple(
        combine((1, start), (1, next(free))) if is_interval else start
        for start, is_interval in window.coords
    )
