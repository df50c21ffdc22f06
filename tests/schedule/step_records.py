"""Records and witnesses of steps, and the claims of theirs that no solver confirms."""

from __future__ import annotations

from typing import Any

from exogpu import schedule
from exogpu.api import Procedure
from exogpu.schedule.certificates import chain
from exogpu.schedule.rewrite import Rewrite
from exogpu.solvers import smt, smtlib
from exogpu.symbolic.steps import record_json, sums_json
from exogpu.symbolic.steps.step_certificate import obliged

Json = dict[str, Any]


def recorded(p: Procedure) -> list[tuple[Json, Json]]:
    """The records and witnesses of the last step of a procedure, right ones."""
    made = schedule.derivation(p)
    assert made is not None
    return recorded_of(made.edit)


def recorded_of(edit: Rewrite) -> list[tuple[Json, Json]]:
    """The same of a rewriting, right or wrong, in parts."""
    found = chain.records(edit)
    return [(record_json.to_json(r), sums_json.any_witness_to_json(w)) for r, w in found]


def failing(record: Json, witness: Json) -> set[str]:
    """The kinds of claims that a solver does not confirm."""
    read = record_json.record_of(record)
    obligations = obliged(read, sums_json.witness_of(witness, read))
    asked = [(one.kind, smt.ask_z3(smtlib.plain(one.smt)).word) for one in obligations]
    return {kind for kind, word in asked if word != "unsat"}
