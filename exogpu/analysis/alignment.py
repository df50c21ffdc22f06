"""Operands lie in memory as their instruction asks, for all sizes (decision `operand-alignment`).

Strides are products of sizes, which are not affine.  Their remainders decide, and those of a
product follow from those of its factors: the sizes are split by remainders, and for each case the
address is affine.
"""

from __future__ import annotations

from collections.abc import Iterable, Iterator, Mapping, Sequence
from dataclasses import dataclass, replace
from enum import Enum, auto
from functools import lru_cache, reduce
from math import gcd
from typing import Final, assert_never

from exogpu.analysis.distribution import over_ctas
from exogpu.analysis.domain import Called, Domain, never_each
from exogpu.analysis.ownership import Declared
from exogpu.analysis.quantifiers import compared, conjunction_of, disjunction_of
from exogpu.ir import nodes as ir
from exogpu.ir.affine import constant
from exogpu.ir.render import isl_expr
from exogpu.ir.types import Placement, Space, Sym
from exogpu.ir.walk import Passed, declarations, evaluate, window_arguments

# Lays out the elements of a variable in memory: by rows, over the dimensions of one allocation.
#
# Code generation lays variables out so; what instructions ask of addresses is judged by it.

GLOBAL_ALIGNMENT: Final = 16
"""Bytes, of a global variable's first element; every launch refuses arrays that start elsewhere."""

SHARED_ALIGNMENT: Final = 128
"""Bytes; TMA asks for 128 in shared memory (PTX ISA, cp.async.bulk.tensor)."""

SWIZZLED_ALIGNMENT: Final = 1024
"""Bytes: eight rows of 128, the repeat of the widest swizzle (PTX ISA, Swizzling Modes)."""


@dataclass(frozen=True, slots=True)
class Layout:
    """One allocation of a variable in global or shared memory."""

    declaration: ir.DataParam | ir.Alloc
    kept: tuple[int, ...]
    """The dimensions that are not distributed, outermost first."""
    base: int
    """The first element lies at a multiple of so many bytes."""

    @property
    def item(self) -> int:
        """Bytes of an element."""
        return self.declaration.dtype.bytes

    @property
    def extents(self) -> tuple[ir.CExpr, ...]:
        """The extents of the kept dimensions."""
        return tuple(self.declaration.shape[d] for d in self.kept)


class Layouts:
    """The layouts of a procedure without windows and calls of procedures; made when asked for."""

    def __init__(self, proc: ir.Proc, variables: Iterable[Declared]) -> None:
        self._declared = declarations(proc)
        self._cuda = {found.declaration.name: found for found in variables}

    def layout_of(self, name: Sym) -> Layout | None:
        """None for what has no address: registers, host memory, grid constants."""
        declaration = self._declared[name]
        assert not isinstance(declaration, ir.BarrierAlloc | ir.WindowStmt)
        every = tuple(range(len(declaration.shape)))
        match declaration.memory.space:
            case Space.GLOBAL:
                return Layout(declaration, every, GLOBAL_ALIGNMENT)
            case Space.SHARED:
                gone = over_ctas(self._cuda[name])
                base = SWIZZLED_ALIGNMENT if declaration.memory.swizzle else SHARED_ALIGNMENT
                return Layout(declaration, tuple(d for d in every if d not in gone), base)
            case Space.HOST | Space.REGISTER | Space.GRID_CONSTANT:
                return None


def strides_at(layout: Layout, point: Mapping[Sym, int]) -> tuple[int, ...]:
    """Bytes from one index of each kept dimension to the next, at given sizes and iterators."""
    found = [layout.item]
    for extent in reversed(layout.extents[1:]):
        found.insert(0, found[0] * evaluate(extent, point))
    return tuple(found) if layout.kept else ()


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

    call: ir.CallInstr
    operand: Passed
    layout: Layout
    rule: Rule
    bytes: int = 0
    dim: int = 0
    """The dimension of the variable."""


@dataclass(frozen=True, slots=True)
class Judged:
    """The condition under which a rule is broken, for all instances of a domain."""

    wrong: ir.BExpr
    """The instances at which it is."""
    known: tuple[ir.BExpr, ...]
    """The facts of the domain that were used: the remainders that extents have."""


Demand = tuple[Domain, Judged, Misplaced]
"""A domain, a condition that none of its instances may satisfy, and what it would be."""


def placements(site: Called, layouts: Layouts) -> Iterator[Demand]:
    """Yields the demands of a call on the addresses of its windows.

    A tensor map is made at the launch, whatever guards the call has.
    """
    for operand in window_arguments(site.call):
        layout = layouts.layout_of(operand.access.name)
        hardware = operand.param.operand
        if layout is None or hardware is None:
            continue
        what = Misplaced(site.call, operand, layout, Rule.BASE)
        if operand.param.window is not None:
            domain, rules = site.launch, _mapped(what)
        elif hardware.placement is not None:
            domain, rules = site.domain, _relevant_rules(what, hardware.placement)
        else:
            continue
        for finding in rules:
            judged = judge(domain, finding)
            if judged.known or judged.wrong != ir.Truth(False):
                yield domain, judged, finding


def _mapped(what: Misplaced) -> Iterator[Misplaced]:
    """A tensor's strides."""
    for d in what.layout.kept[:-1]:
        yield replace(what, rule=Rule.MAP, bytes=GLOBAL_ALIGNMENT, dim=d)


def _relevant_rules(what: Misplaced, asked: Placement) -> Iterator[Misplaced]:
    """Yields the rules that may break a placement."""
    for rule, multiple in ((Rule.ALIGN, asked.align), (Rule.ROWS, asked.rows)):
        if multiple > what.layout.base:
            yield replace(what, rule=Rule.BASE, bytes=multiple)
        yield replace(what, rule=rule, bytes=multiple)
    access = what.operand.access
    window = [d for d in what.layout.kept if isinstance(access.coords[d], ir.Interval)]
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
            return Judged(ir.Truth(True), ())
        case Rule.ALIGN:
            return _address_wrong(domain, layout, _firsts(access, layout), finding.bytes)
        case Rule.ROWS:
            row = [*_firsts(access, layout)[:-1], ir.Int(0)] if layout.kept else []
            return _address_wrong(domain, layout, row, finding.bytes)
        case Rule.STRIDE | Rule.MAP:
            return _stride_wrong(
                domain, _extents_from(layout, finding.dim), finding.bytes // layout.item
            )
        case Rule.PITCH:
            extents = _extents_from(layout, finding.dim)[1:]
            return Judged(_product_wrong(extents, finding.bytes // layout.item), ())
        case Rule.ADJACENT:
            return Judged(_gaps(access, layout, finding.dim), ())
        case _:
            assert_never(finding.rule)


def _gaps(access: ir.Access, layout: Layout, dim: int) -> ir.BExpr:
    """A later dimension of the variable is not whole in the window."""
    later = [d for d in layout.kept if d > dim]
    pairs = [(_extent(access, d), layout.declaration.shape[d]) for d in later]
    return disjunction_of(compared("!=", own, whole) for own, whole in pairs)


def _extents_from(layout: Layout, dim: int) -> tuple[ir.CExpr, ...]:
    """The extents from a dimension on."""
    return layout.extents[layout.kept.index(dim) :]


def _extent(access: ir.Access, dim: int) -> ir.CExpr:
    coord = access.coords[dim]
    if not isinstance(coord, ir.Interval):
        return ir.Int(1)
    return coord.hi if coord.lo == ir.Int(0) else ir.Sub(coord.hi, coord.lo)


def _firsts(access: ir.Access, layout: Layout) -> list[ir.CExpr]:
    """The index of the window's first element, in one allocation."""
    coords = [access.coords[d] for d in layout.kept]
    return [c.lo if isinstance(c, ir.Interval) else c.at for c in coords]


# --- remainders ---------------------------------------------------------------------------------


def _address_wrong(
    domain: Domain, layout: Layout, index: Sequence[ir.CExpr], multiple: int
) -> Judged:
    """An element does not lie at a multiple of so many bytes."""
    modulus = multiple // layout.item
    if modulus <= 1:
        return Judged(ir.Truth(False), ())
    cases: list[ir.BExpr] = []
    for case, strides in _strides(domain, layout.extents, modulus):
        pairs = zip(strides, index, strict=True)
        terms: list[ir.CExpr] = [ir.Mul(c, e) for c, e in pairs if c and e != ir.Int(0)]
        if terms:
            off = compared("!=", ir.Mod(reduce(ir.Add, terms), modulus), ir.Int(0))
            cases.append(conjunction_of((*case, off)))
    return Judged(disjunction_of(cases), _remainder_conditions(domain, layout.extents, modulus))


def _stride_wrong(domain: Domain, extents: Sequence[ir.CExpr], modulus: int) -> Judged:
    """Neighbours along the first dimension are not a multiple of so many elements apart."""
    if modulus <= 1:
        return Judged(ir.Truth(False), ())
    cases = [case for case, strides in _strides(domain, extents, modulus) if strides[0]]
    return Judged(
        disjunction_of(map(conjunction_of, cases)), _remainder_conditions(domain, extents, modulus)
    )


def _remainder_conditions(
    domain: Domain, extents: Sequence[ir.CExpr], modulus: int
) -> tuple[ir.BExpr, ...]:
    """The extents have the remainders of which there are cases."""
    found: list[ir.BExpr] = []
    for extent in extents[1:]:
        occur = _remainders(domain, extent, modulus)
        if len(occur) < modulus and constant(extent) is None:
            found.append(
                disjunction_of(compared("==", ir.Mod(extent, modulus), ir.Int(r)) for r in occur)
            )
    return tuple(found)


def _strides(
    domain: Domain, extents: Sequence[ir.CExpr], modulus: int
) -> Iterator[tuple[tuple[ir.BExpr, ...], tuple[int, ...]]]:
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
            here = () if known else (compared("==", ir.Mod(extent, needed), ir.Int(remainder)),)
            yield (*case, *here), (inner[0] * remainder % modulus, *inner)


@lru_cache(maxsize=1024)
def _remainders(domain: Domain, extent: ir.CExpr, modulus: int) -> tuple[int, ...]:
    """The remainders that an extent has somewhere in the domain."""
    value = constant(extent)
    if value is not None:
        return (value % modulus,)
    text = isl_expr(extent)
    conditions = [f"({text}) mod {modulus} = {r}" for r in range(modulus)]
    absent = never_each((domain, [condition]) for condition in conditions)
    return tuple(r for r, never in enumerate(absent) if not never)


def _product_wrong(extents: Sequence[ir.CExpr], product: int) -> ir.BExpr:
    """All but the last extent are 1, and the last is the product, or not."""
    *others, last = extents
    wrong = [compared("!=", extent, ir.Int(1)) for extent in others]
    return disjunction_of([*wrong, compared("!=", last, ir.Int(product))])
