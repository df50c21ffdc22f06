"""Both kinds of what is found about a step, of statements or of results, as JSON and back."""

from __future__ import annotations

from exogpu.symbolic.certificate.sealing import Json
from exogpu.symbolic.steps import summed_json, witness_json
from exogpu.symbolic.steps.record import Record
from exogpu.symbolic.steps.summed import Summed
from exogpu.symbolic.steps.witness import Witness


def to_json(found: Witness | Summed) -> dict[str, Json]:
    """What was found as plain lists and dicts."""
    if isinstance(found, Summed):
        return summed_json.to_json(found)
    return witness_json.to_json(found)


def witness_of(value: object, record: Record) -> Witness | Summed:
    """What a JSON says about a record, of its kind.  Raises MalformedError."""
    if record.by_results:
        return summed_json.summed_of(value, record)
    return witness_json.witness_of(value, record)
