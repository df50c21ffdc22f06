"""Views of data variables while calls are inlined: an array, or a window of one."""

from __future__ import annotations

from collections.abc import Iterator, Mapping
from dataclasses import dataclass

from exogpu.ir.affine import Affine, Range, combine, interval
from exogpu.ir.names import Sym
from exogpu.meaning.core import Buffer, Check, Place
from exogpu.result.errors import Span


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
        index = through(view.of, index)
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


def through(window: Window, index: tuple[Affine, ...]) -> tuple[Affine, ...]:
    """The index into a window's source."""
    free = iter(index)
    return tuple(
        combine((1, start), (1, next(free))) if is_interval else start
        for start, is_interval in window.coords
    )
