"""Operands lie in memory as their instruction asks, for all sizes (decision `operand-alignment`).

Strides are products of sizes, which are not affine.  Their remainders decide, and those of a
product follow from those of its factors: the sizes are split by remainders, and for each case the
address is affine.
"""

from __future__ import annotations

from collections.abc import Iterator, Sequence
from dataclasses import dataclass, replace
from enum import Enum, auto
from functools import lru_cache, reduce
from math import gcd
from typing import assert_never

from exogpu.analysis.affine import constant
from exogpu.analysis.called import Called
from exogpu.analysis.extremes import compared, every, some
from exogpu.analysis.instances import Domain, never_each
from exogpu.analysis.layout import GLOBAL_ALIGNMENT, Layout, Layouts
from exogpu.ir.isltext import cexpr
from exogpu.ir.nodes import (
    Access,
    Add,
    BExpr,
    CallInstr,
    CExpr,
    Int,
    Interval,
    Mod,
    Mul,
    Sub,
    Truth,
)
from exogpu.ir.types import Placement
from exogpu.ir.walk import Passed, passed


class Rule(Enum):
    """The rule that an operand does not satisfy."""

    BASE = auto()
    """No variable of its memory starts at a multiple of `bytes`."""
    ALIGN = auto()
    """Its first element does not lie at a multiple of `bytes`."""
    ROWS = auto()
    """The row of its first element does not."""
    STRIDE = auto()
    """The elements along `dim` are not multiples of `bytes` apart."""
    PITCH = auto()
    """The elements along `dim` are not `bytes` apart."""
    ADJACENT = auto()
    """There are gaps between its elements along `dim`."""
    MAP = auto()
    """The elements of a tensor along `dim` are not multiples of `bytes` apart."""


@dataclass(frozen=True, slots=True)
class Misplaced:
    """An operand does not lie as the instruction asks."""

    call: CallInstr
    operand: Passed
    layout: Layout
    rule: Rule
    bytes: int = 0
    dim: int = 0
    """Of the variable."""


@dataclass(frozen=True, slots=True)
class Judged:
    """The condition under which a rule is broken, for all instances of a domain."""

    wrong: BExpr
    """The instances at which it is."""
    known: tuple[BExpr, ...]
    """What was used of the domain: the remainders that extents have."""


Demand = tuple[Domain, Judged, Misplaced]
"""A domain, a condition that none of its instances may satisfy, and what it would be."""


def placements(site: Called, layouts: Layouts) -> Iterator[Demand]:
    """Yields the demands of a call on the addresses of its windows.

    A tensor map is made at the launch, whatever guards the call has.
    """
    for operand in passed(site.call):
        layout = layouts.of(operand.access.name)
        hardware = operand.param.operand
        if layout is None or hardware is None:
            continue
        what = Misplaced(site.call, operand, layout, Rule.BASE)
        if operand.param.window is not None:
            domain, rules = site.launch, _mapped(what)
        elif hardware.placement is not None:
            domain, rules = site.domain, _asked(what, hardware.placement)
        else:
            continue
        for finding in rules:
            judged = judge(domain, finding)
            if judged.known or judged.wrong != Truth(False):
                yield domain, judged, finding


def _mapped(what: Misplaced) -> Iterator[Misplaced]:
    """A tensor's strides."""
    for d in what.layout.kept[:-1]:
        yield replace(what, rule=Rule.MAP, bytes=GLOBAL_ALIGNMENT, dim=d)


def _asked(what: Misplaced, asked: Placement) -> Iterator[Misplaced]:
    """Yields the rules that may break a placement."""
    for rule, multiple in ((Rule.ALIGN, asked.align), (Rule.ROWS, asked.rows)):
        if multiple > what.layout.base:
            yield replace(what, rule=Rule.BASE, bytes=multiple)
        yield replace(what, rule=rule, bytes=multiple)
    access = what.operand.access
    window = [d for d in what.layout.kept if isinstance(access.coords[d], Interval)]
    for d in window[:-1]:
        yield replace(what, rule=Rule.STRIDE, bytes=asked.stride, dim=d)
    for d in window[:-2]:
        yield replace(what, rule=Rule.STRIDE, bytes=asked.blocks, dim=d)
    if asked.pitch and len(window) > 1:
        yield replace(what, rule=Rule.PITCH, bytes=asked.pitch, dim=window[-2])
    longer = [d for d in window[-asked.adjacent :] if constant(_extent(access, d)) != 1]
    if longer:
        yield replace(what, rule=Rule.ADJACENT, dim=longer[0])


def judge(domain: Domain, finding: Misplaced) -> Judged:
    """The instances of the domain at which the rule is broken."""
    layout, access = finding.layout, finding.operand.access
    match finding.rule:
        case Rule.BASE:
            return Judged(Truth(True), ())
        case Rule.ALIGN:
            return _address_wrong(domain, layout, _firsts(access, layout), finding.bytes)
        case Rule.ROWS:
            row = [*_firsts(access, layout)[:-1], Int(0)] if layout.kept else []
            return _address_wrong(domain, layout, row, finding.bytes)
        case Rule.STRIDE | Rule.MAP:
            return _stride_wrong(domain, _from(layout, finding.dim), finding.bytes // layout.item)
        case Rule.PITCH:
            extents = _from(layout, finding.dim)[1:]
            return Judged(_product_wrong(extents, finding.bytes // layout.item), ())
        case Rule.ADJACENT:
            return Judged(_gaps(access, layout, finding.dim), ())
        case _:
            assert_never(finding.rule)


def _gaps(access: Access, layout: Layout, dim: int) -> BExpr:
    """A later dimension of the variable is not whole in the window."""
    later = [d for d in layout.kept if d > dim]
    pairs = [(_extent(access, d), layout.declaration.shape[d]) for d in later]
    return some(compared("!=", own, whole) for own, whole in pairs)


def _from(layout: Layout, dim: int) -> tuple[CExpr, ...]:
    """The extents from a dimension on."""
    return layout.extents[layout.kept.index(dim) :]


def _extent(access: Access, dim: int) -> CExpr:
    coord = access.coords[dim]
    if not isinstance(coord, Interval):
        return Int(1)
    return coord.hi if coord.lo == Int(0) else Sub(coord.hi, coord.lo)


def _firsts(access: Access, layout: Layout) -> list[CExpr]:
    """The index of the window's first element, in one allocation."""
    coords = [access.coords[d] for d in layout.kept]
    return [c.lo if isinstance(c, Interval) else c.at for c in coords]


# --- remainders ---------------------------------------------------------------------------------


def _address_wrong(domain: Domain, layout: Layout, index: Sequence[CExpr], multiple: int) -> Judged:
    """An element does not lie at a multiple of so many bytes."""
    modulus = multiple // layout.item
    if modulus <= 1:
        return Judged(Truth(False), ())
    cases: list[BExpr] = []
    for case, strides in _strides(domain, layout.extents, modulus):
        pairs = zip(strides, index, strict=True)
        terms: list[CExpr] = [Mul(c, e) for c, e in pairs if c and e != Int(0)]
        if terms:
            off = compared("!=", Mod(reduce(Add, terms), modulus), Int(0))
            cases.append(every((*case, off)))
    return Judged(some(cases), _known(domain, layout.extents, modulus))


def _stride_wrong(domain: Domain, extents: Sequence[CExpr], modulus: int) -> Judged:
    """Neighbours along the first dimension are not a multiple of so many elements apart."""
    if modulus <= 1:
        return Judged(Truth(False), ())
    cases = [case for case, strides in _strides(domain, extents, modulus) if strides[0]]
    return Judged(some(map(every, cases)), _known(domain, extents, modulus))


def _known(domain: Domain, extents: Sequence[CExpr], modulus: int) -> tuple[BExpr, ...]:
    """The extents have the remainders of which there are cases."""
    found: list[BExpr] = []
    for extent in extents[1:]:
        occur = _remainders(domain, extent, modulus)
        if len(occur) < modulus and constant(extent) is None:
            found.append(some(compared("==", Mod(extent, modulus), Int(r)) for r in occur))
    return tuple(found)


def _strides(
    domain: Domain, extents: Sequence[CExpr], modulus: int
) -> Iterator[tuple[tuple[BExpr, ...], tuple[int, ...]]]:
    """The cases of the extents' remainders, and in each the remainders of the strides.

    Strides are in elements, outermost first.  Where the stride within is p, that of an extent n is
    p * n, whose remainder follows from that of n by modulus / gcd(p, modulus).
    """
    if len(extents) <= 1:
        yield (), (1 % modulus,) * len(extents)
        return
    extent = extents[1]
    occur = _remainders(domain, extent, modulus)
    for case, inner in _strides(domain, extents[1:], modulus):
        needed = modulus // gcd(inner[0], modulus)
        for remainder in sorted({r % needed for r in occur}):
            known = needed == 1 or constant(extent) is not None
            here = () if known else (compared("==", Mod(extent, needed), Int(remainder)),)
            yield (*case, *here), (inner[0] * remainder % modulus, *inner)


@lru_cache(maxsize=1024)
def _remainders(domain: Domain, extent: CExpr, modulus: int) -> tuple[int, ...]:
    """The remainders that an extent has somewhere in the domain."""
    value = constant(extent)
    if value is not None:
        return (value % modulus,)
    text = cexpr(extent)
    conditions = [f"({text}) mod {modulus} = {r}" for r in range(modulus)]
    absent = never_each((domain, [condition]) for condition in conditions)
    return tuple(r for r, never in enumerate(absent) if not never)


def _product_wrong(extents: Sequence[CExpr], product: int) -> BExpr:
    """All but the last extent are 1, and the last is the product, or not."""
    *others, last = extents
    wrong = [compared("!=", extent, Int(1)) for extent in others]
    return some([*wrong, compared("!=", last, Int(product))])
