"""How many arrivals each Await of a flag waits for, for code generation (decision 37)."""

from __future__ import annotations

import json

from collections.abc import Iterator

from exogpu.amir.nodes import Await, Block, Guard, Loop, Op
from exogpu.ir.listed import Json, condition_json, control_json
from exogpu.ir.names import Sym
from exogpu.ir.nodes import CExpr, CVar
from exogpu.ir.walk import control_variables
from exogpu.symbolic.encode.expressions import pieces_at
from exogpu.symbolic.encode.witness import named, names_of
from exogpu.symbolic.find.domains import Model
from exogpu.symbolic.find.witness import Seeker
from exogpu.symbolic.sites import Site


def flag_waits(model: Model, seeker: Seeker) -> tuple[str, ...]:
    """By Await of a flag, in the order of the text: the number that the lemma COUNT is about, as
    `exogpu.result.proof.Proof.waits` has it; empty where it is counted by iterations of a nest."""
    around = dict(_iterators(model.program.body, ()))
    return tuple(
        "" if seeker.apart(model.called[site.op.barrier.name]) else _count(model, seeker, site, around[site.op])
        for site in model.sites
        if isinstance(site.op, Await) and model.variables[site.op.barrier.name].counts_all
    )


def _iterators(block: Block, around: tuple[Sym, ...]) -> Iterator[tuple[Op, tuple[Sym, ...]]]:
    """Each operation with the iterators around it, outermost first: also the values from memory
    that it does not read."""
    for op in block:
        yield op, around
        if isinstance(op, Loop | Guard):
            inner = (*around, op.iterator) if isinstance(op, Loop) else around
            yield from _iterators(op.body, inner)


def _count(model: Model, seeker: Seeker, site: Site, around: tuple[Sym, ...]) -> str:
    """Empty, too, where the number depends on a value that is loaded elsewhere in the block: it has
    no name at the Await."""
    names: dict[Sym, CExpr] = {named(model.called[size]).name: CVar(size) for size in model.sizes}
    own = names_of(site, "here", model.called)
    elsewhere = {loop.iterator for loop in site.loops} - set(around)
    for iterator in site.iterators:
        called = CVar(iterator) if iterator in elsewhere else CVar(Sym(f"@{around.index(iterator)}"))
        names[own[iterator].name] = called
    pieces = pieces_at(seeker.count(site.number, arrivals=True), names)
    for where, value in pieces:
        if (control_variables(where) | control_variables(value)) & elsewhere:
            return ""
    listed: list[Json] = [[condition_json(where), control_json(value)] for where, value in pieces]
    return json.dumps(listed)
