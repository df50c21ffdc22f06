"""All kinds of what is found about a step, as JSON and back."""

from __future__ import annotations

from typing import Final, TypeAlias

from exogpu.symbolic.certificate.sealing import Json
from exogpu.symbolic.certificate.strict_json import a_list, fields, malformed, one_of, whole
from exogpu.symbolic.steps import summed_json, witness_json
from exogpu.symbolic.steps.elements import Elements
from exogpu.symbolic.steps.record import Record
from exogpu.symbolic.steps.summed import Summed
from exogpu.symbolic.steps.witness import Witness

Found: TypeAlias = Witness | Summed | Elements
"""About statements, about results, or about laws."""

_SCHEMA: Final = 1
_CLASSES: Final = a_list(a_list(a_list(whole(0))))


def to_json(found: Found) -> dict[str, Json]:
    """Returns the witness as plain lists and dicts."""
    match found:
        case Summed():
            return summed_json.to_json(found)
        case Elements():
            elements: list[Json] = [[[*one] for one in classes] for classes in found.of]
            return {"schema": _SCHEMA, "elements": elements}
        case Witness():
            return witness_json.to_json(found)


def witness_of(value: object, record: Record) -> Found:
    """Reads a witness from JSON, of the record's kind. Raises MalformedError."""
    match record.compared:
        case "results":
            return summed_json.summed_of(value, record)
        case "statements":
            return witness_json.witness_of(value, record)
    found = fields("", value, schema=one_of([_SCHEMA]), elements=_CLASSES)["elements"]
    for law, classes in zip(record.laws, found, strict=False):
        if len(classes) != len(law.whole) + len(law.parts):
            malformed("", "a law has another number of statements")
    if len(found) != len(record.laws):
        malformed("", "there is another number of laws")
    return Elements(tuple(tuple(map(tuple, classes)) for classes in found))
