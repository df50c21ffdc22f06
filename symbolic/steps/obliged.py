"""Obligations of a step under names, and answers to them."""

from __future__ import annotations

from collections.abc import Iterator, Mapping
from dataclasses import dataclass
from typing import Any

from exogpu.symbolic.certificate.sealing import Json
from exogpu.symbolic.steps.obligations import drafts, unlike
from exogpu.symbolic.steps.record import Record
from exogpu.symbolic.steps.witnesses import Found


class UnlikeError(ValueError):
    """A map that is wrong whatever the sizes."""


@dataclass(frozen=True, slots=True)
class Obliged:
    """A claim about a step for all sizes, and a text that a solver must answer with `unsat`."""

    name: str
    kind: str
    claim: str
    smt: str

    def to_json(self) -> Mapping[str, Json]:
        """Returns the obligation as JSON, without the answer."""
        return {"name": self.name, "kind": self.kind, "claim": self.claim}


def obliged(record: Record, witness: Found) -> Iterator[Obliged]:
    """The obligations of a step.

    Raises UnlikeError where the record shows that it is wrong, WitnessError where the witness does
    not fit the record.
    """
    if (why := unlike(record)) is not None:
        raise UnlikeError(why)
    names: dict[str, int] = {}
    for draft in drafts(record, witness):
        parts = [draft.kind.lower(), *(f"{which}{number}" for which, number in draft.statements)]
        plain = "-".join(parts)
        names[plain] = count = names.get(plain, 0) + 1
        name = plain if count == 1 else f"{plain}-{count}"
        yield Obliged(name, draft.kind, draft.claim, draft.script)


def entry(one: Mapping[str, Any]) -> dict[str, Any]:
    """Selects the fields of an obligation that a certificate states, without the answer."""
    return {key: one[key] for key in ("name", "kind", "claim")}
