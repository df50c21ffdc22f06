"""Obligations on order: no dependence of the old procedure is reversed; two `+=` have none."""

from __future__ import annotations

from collections.abc import Iterator
from itertools import product
from typing import TypeAlias

from exogpu.ir.nodes import BExpr
from exogpu.symbolic.encode.formulas import FALSE, every
from exogpu.symbolic.steps.instances import (
    Instance,
    earlier,
    element,
    is_same_access,
    moment,
    original,
    same_element,
)
from exogpu.symbolic.steps.record import Access, Image
from exogpu.symbolic.steps.step import Draft, Step

Both: TypeAlias = tuple[Access, Access]
"""An access of a new statement, and of the old one that it is."""


def orders(step: Step) -> Iterator[Draft]:
    """Drafts the obligation that two dependent images stay in order."""
    for sooner, later in product(step.images, repeat=2):
        pairs = list(product(step.pairs(sooner), step.pairs(later)))
        depending = [(a, b) for a, b in pairs if _depends(a[1], b[1])]
        if not depending:
            continue
        ask = step.question()
        one = ask.instance(step.new, sooner.new, "sooner")
        other = ask.instance(step.new, later.new, "later")
        ends = (sooner, one), (later, other)
        fails = [_reversed(step, ends, a, b) for a, b in depending]
        fails = [one for one in fails if one != FALSE]
        if not fails:
            continue
        claim = (
            f"What {step.said('old', later.old)} has to wait for, "
            f"{step.said('old', sooner.old)} does before it, still."
        )
        about = (("old", sooner.old), ("old", later.old))
        yield Draft("ORDER", about, claim, ask.expose(fails, claim))


def _depends(one: Access, other: Access) -> bool:
    """Tests whether the order of two accesses of one element counts."""
    if one.cell.variable != other.cell.variable or (one.reduces and other.reduces):
        return False
    return one.writes or other.writes


def _reversed(
    step: Step,
    ends: tuple[tuple[Image, Instance], tuple[Image, Instance]],
    first: Both,
    second: Both,
) -> BExpr:
    (sooner, one), (later, other) = ends
    was, is_ = original(step.old, sooner, one), original(step.old, later, other)
    order = earlier(moment(was, first[1]), moment(is_, second[1]))
    now = earlier(moment(other, second[0]), moment(one, first[0]), or_same=True)
    if FALSE in (order, now):
        return FALSE
    return every(
        [
            is_same_access(step.old, sooner, one, first[0]),
            is_same_access(step.old, later, other, second[0]),
            same_element(element(was, first[1].cell), element(is_, second[1].cell)),
            order,
            now,
        ]
    )
