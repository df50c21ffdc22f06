"""Obligations on reads: each element that a statement reads has been written before, in the order
of the program and since its allocation (decision `initialised`).

One of each read of a variable that is no parameter.  What was found names writes; that they write
the element, are executed and come before is what the solver is asked.
"""

from __future__ import annotations

from collections.abc import Callable, Iterator, Sequence

from exogpu.amir.nodes import CheckInitialised, Initialise
from exogpu.diagnostics.hazards import HazardKind
from exogpu.ir.nodes import BExpr, CVar
from exogpu.ir.types import Sym
from exogpu.symbolic.encode import formulas
from exogpu.symbolic.encode.encoder import Draft, Encoder
from exogpu.symbolic.encode.rank_table import RankTable
from exogpu.symbolic.encode.slot_counts import Slots
from exogpu.symbolic.encode.witness import Gone
from exogpu.symbolic.model import Placed
from exogpu.symbolic.sites import Site, one_cluster


def reads_of(encoder: Encoder, ranks: Callable[[Sym], RankTable], name: Sym) -> Iterator[Draft]:
    """An obligation for every read of a variable."""
    for site in encoder.placed.uses[name]:
        if isinstance(site.op, CheckInitialised):
            yield _read_draft(encoder, ranks, site, site.op)


def _read_draft(
    encoder: Encoder, ranks: Callable[[Sym], RankTable], site: Site, op: CheckInitialised
) -> Draft:
    placed, name = encoder.placed, op.access.name
    script = encoder.script()
    here = script.free(site, "here.")
    script.assume_exists(here)
    rank = len(placed.variables[name].shape)
    element = tuple(script.constant(Sym(f"element{at}")) for at in range(rank))
    script.assume(formulas.in_shape(placed, name, element))
    script.assume_inside(here, element)
    found = encoder.sought.writes(site.number)
    slots = Slots(script, placed, ranks)
    script.assume(
        formulas.conjunction_of(slots.facts_around(here, op.access, [Gone(at) for at in found]))
    )
    meaning = encoder.meaning({"here": here}, element=element)
    ways: list[str] = []
    for at in found:
        write = meaning.instance(at, Initialise)
        label, write = script.name_instance(slots.executed(write))
        parts = _writes(placed, name, write, here, element)
        if formulas.FALSE not in parts:
            ways.append(script.node(f"{label}.writes", parts))
    slots.compare()
    script.refute(ways)
    origin = op.origin
    claim = (
        f"Whenever line {origin.span.line} ({origin.text}) is executed, every element of "
        f"{placed.called[name]} that it reads has been written before, since its allocation."
    )
    return Draft(HazardKind.UNINIT, name, None, site, claim, script.text(claim))


def _writes(
    placed: Placed,
    name: Sym,
    write: formulas.Instance,
    read: formulas.Instance,
    element: Sequence[CVar],
) -> list[BExpr]:
    """A write is executed before a read, in the same allocation, and writes the element."""
    op = write.site.op
    assert isinstance(op, Initialise)
    if op.access.name != name:
        return [formulas.FALSE]
    return [
        _executed(placed, name, write, read),
        formulas.runs_before(write, read),
        formulas.same_allocation(placed, write, read, name),
        formulas.lies_in_window(write, op.access, element),
    ]


def _executed(
    placed: Placed, name: Sym, write: formulas.Instance, read: formulas.Instance
) -> BExpr:
    """The write is executed, whoever executes its task.

    Where memory resides in a launch its tasks stand at positions of one cluster (decision
    `resident-memory`).  Of another position of that launch nothing is known but of what resides.
    Elsewhere the launch has been executed: each of its tasks is at some position of some cluster.
    """
    one, other = write.site, read.site
    if one.residence is None or one.task is None or placed.variables[name].resident:
        return formulas.exists(write)
    by_someone = formulas.exists(write, but=one.residence.loop)
    if not one_cluster(one, other) or other.task is None:
        return by_someone
    depth = one.residence.depth
    launch = formulas.agree(write, read, one.iterators[:depth])
    here = formulas.conjunction_of(
        [
            launch,
            formulas.agree(write, read, one.iterators[depth : depth + 1]),
            formulas.exists(write),
        ]
    )
    return formulas.disjunction_of(
        [here, formulas.conjunction_of([formulas.opposite(launch), by_someone])]
    )
