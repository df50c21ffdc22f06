"""The record and witness of statements that are read as others."""

from __future__ import annotations

from collections.abc import Sequence

from exogpu.ir.nodes import Access
from exogpu.schedule.certifying.recording import Recorder
from exogpu.schedule.events import Place, Program
from exogpu.schedule.laws import Elements as Told
from exogpu.symbolic.steps.elements import Classes, Elements
from exogpu.symbolic.steps.obligations import unlike
from exogpu.symbolic.steps.obliged import UnlikeError
from exogpu.symbolic.steps.record import Compared, Law, Record


def read_as(
    plain: Program, read: Program, compared: Compared, recorder: Recorder
) -> tuple[Record, Elements]:
    """A procedure, and the same with statements read as others: as data.

    `compared` says which of them comes first.  Raises UnlikeError.
    """
    wholes = {place.site: number for number, place in enumerate(plain.places)}
    parts = {place.name: number for number, place in enumerate(read.places)}
    laws: list[Law] = []
    found: list[Classes] = []
    for said in read.readings:
        if not all(place.site in wholes for place in said.whole):
            raise UnlikeError("what is read as others stands in no procedure")
        laws.append(
            Law(
                tuple(wholes[place.site] for place in said.whole),
                tuple(parts[place.name] for place in said.parts),
            )
        )
        found.append(_classes(said.whole, said.parts))
    sides = (plain, read) if compared == "whole to parts" else (read, plain)
    old, new = (recorder.program(side) for side in sides)
    record = Record(old, new, (), (), compared=compared, laws=tuple(laws))
    if (why := unlike(record)) is not None:
        raise UnlikeError(why)
    return record, Elements(tuple(found))


def _classes(whole: Sequence[Place], parts: Sequence[Place]) -> Classes:
    """Accesses of one element, as ISL sees it, have one number; nothing is said of three."""
    if len(whole) != 1:
        return ((),) * (len(whole) + len(parts))
    elements = Told(whole[0].domain, [])
    return tuple(
        tuple(elements.number(access) for access in _accesses(place)) for place in (*whole, *parts)
    )


def _accesses(place: Place) -> list[Access]:
    """Returns the reads of a statement, in order, and its write."""
    reads = [e.access for e in place.events if not e.writes and not e.reduces]
    return [*reads, place.plain.target]
