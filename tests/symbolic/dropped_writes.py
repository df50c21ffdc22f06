"""Conditions of the certificates on reads of what has been written (decision `initialised`), each
dropped."""

from __future__ import annotations

from exogpu.amir.nodes import CheckInitialised, Initialise
from exogpu.ir.nodes import Int
from exogpu.symbolic.encode import formulas, initialisation_obligations
from exogpu.symbolic.search import reaching_writes
from exogpu.symbolic.search.reaching_writes import Reached, Written
from tests.machine.build import Builder, Name, t
from tests.symbolic.dropped import COUNTS, Patch, holds, is_value, killed, unasked


def _any_write_reaches(patch: Patch) -> None:
    """A careless finder: any write in the loops of a read has written it."""
    patch.setattr(reaching_writes, "_covers", lambda *_: True)


def _the_first_write_reaches(patch: Patch) -> None:
    """A careless finder: the write of the first iteration has written what every read reads."""

    def reaching(slots, name, writes, read, access) -> Reached:
        written = tuple(Written(write, at=(Int(0),)) for write in writes)
        return Reached(read, slots.frame, written, None)

    patch.setattr(reaching_writes, "_reaching", reaching)


COUNTS["any write reaches"] = _any_write_reaches
COUNTS["the first write reaches"] = _the_first_write_reaches


def gives(b: Builder, x: Name, *index) -> None:
    b.emit(Initialise(x[index], b.origin("write", t(0)), False))


def asks(b: Builder, x: Name, *index) -> None:
    b.emit(CheckInitialised(x[index], b.origin("read", t(0))))


@killed("nobody asks what has been written", unasked(initialisation_obligations, "_read_draft"))
def _(b, count):
    x = b.data("x")
    b.alloc(x)
    asks(b, x)
    b.release(x)


@killed(
    "a write is executed whatever its guard",
    holds(initialisation_obligations, "_executed"),
    "any write reaches",
)
def _(b, count):
    x = b.data("x")
    b.alloc(x)
    with b.loop("k", 0, count) as k:
        with is_value(b, k, 1):
            gives(b, x)
        asks(b, x)
    b.release(x)


@killed("a write may come later", holds(formulas, "runs_before"), "any write reaches")
def _(b, count):
    x = b.data("x")
    b.alloc(x)
    with b.loop("k", 0, count):
        asks(b, x)
        gives(b, x)
    b.release(x)


@killed("a write of another element counts", holds(formulas, "lies_in_window"), "any write reaches")
def _(b, count):
    x = b.data("x", 2)
    b.alloc(x)
    with b.loop("k", 0, count):
        gives(b, x, 0)
        asks(b, x, 1)
    b.release(x)


@killed(
    "a write of an earlier allocation counts",
    holds(formulas, "same_allocation"),
    "the first write reaches",
)
def _(b, count):
    x = b.data("x")
    with b.loop("k", 0, count) as k:
        b.alloc(x)
        with is_value(b, k, 0):
            gives(b, x)
        asks(b, x)
        b.release(x)
