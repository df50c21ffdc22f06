"""Counts the arrivals that each Await of a flag waits for, for code generation (decision
`flags`)."""

from __future__ import annotations

import json

from exogpu.amir.nodes import Await, Loop
from exogpu.amir.walk import path_to
from exogpu.ir.listed import Json, condition_json, control_json
from exogpu.ir.names import Sym
from exogpu.ir.nodes import CExpr, CVar
from exogpu.ir.walk import control_variables
from exogpu.solvers import smt
from exogpu.symbolic.encode.counted import lemmas_on
from exogpu.symbolic.encode.drafts import Encoder
from exogpu.symbolic.encode.expressions import pieces_at
from exogpu.symbolic.encode.witness import named, names_of
from exogpu.symbolic.find.domains import Model
from exogpu.symbolic.find.witness import Seeker
from exogpu.symbolic.sites import Site, UndecidedError


def flag_waits(model: Model, seeker: Seeker) -> tuple[str, ...]:
    """By Await of a flag, in the order of the text: the number that the lemma COUNT is about, as
    `exogpu.result.proof.Proof.waits` has it; empty where it is counted by iterations of a nest.
    An iterator is told by the number of loops around its own, loads included."""
    return tuple(
        _waited(model, seeker, site)
        for site in model.sites
        if isinstance(site.op, Await) and model.variables[site.op.barrier.name].counts_all
    )


def _waited(model: Model, seeker: Seeker, site: Site) -> str:
    assert isinstance(site.op, Await)
    name = site.op.barrier.name
    try:
        if seeker.apart(model.called[name]):
            return ""
        told = model.is_numbered(name) or _is_counted(model, seeker, name, site)
        return _count(model, seeker, site) if told else ""
    except UndecidedError:
        return ""


def _is_counted(model: Model, seeker: Seeker, name: Sym, site: Site) -> bool:
    """Returns whether a solver confirms which arrival an Await waits for, on a flag whose
    arrivals the proof does not count."""
    lemmas = lemmas_on(Encoder(model, seeker), name)
    drafts = (draft for draft in lemmas if draft.second is site or not _waits(draft.second))
    return all(smt.ask_z3(draft.script).word == "unsat" for draft in drafts)


def _waits(site: Site | None) -> bool:
    return site is not None and isinstance(site.op, Await)


def _count(model: Model, seeker: Seeker, site: Site) -> str:
    names: dict[Sym, CExpr] = {named(model.called[size]).name: CVar(size) for size in model.sizes}
    own = names_of(site, "here", model.called)
    # A site has its loads last, and only those that tell something; the text has all in its order.
    around = [op.iterator for _, op in path_to(model.program.body, site.op) if isinstance(op, Loop)]
    elsewhere = {*site.iterators} - {*around}
    for iterator in site.iterators:
        at = iterator if iterator in elsewhere else Sym(f"@{around.index(iterator)}")
        names[own[iterator].name] = CVar(at)
    pieces = pieces_at(seeker.count(site.number, arrivals=True), names)
    read = (control_variables(where) | control_variables(value) for where, value in pieces)
    if any(elsewhere & some for some in read):
        return ""  # what is loaded elsewhere has no name at the Await
    listed: list[Json] = [[condition_json(where), control_json(value)] for where, value in pieces]
    return json.dumps(listed)
