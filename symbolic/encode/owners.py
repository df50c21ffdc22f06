"""Obligations on registers: an element belongs to one unit, whoever accesses it."""

from __future__ import annotations

from collections.abc import Iterable, Iterator, Sequence
from dataclasses import dataclass

from exogpu.amir.nodes import Alloc, Record, Variable
from exogpu.analysis.threadmap import ThreadMap
from exogpu.ir.names import Sym
from exogpu.ir.nodes import Access, BExpr, CExpr, CVar, Mul, Point
from exogpu.ir.smttext import bexpr, cexpr
from exogpu.ir.walk import substitute
from exogpu.result.hazards import HazardKind
from exogpu.symbolic.encode.drafts import Draft, Encoder
from exogpu.symbolic.encode.formulas import (
    Instance,
    at_most,
    bearing_on,
    equal,
    every,
    known_of,
    less,
    plus,
    same_allocation,
    some,
    threads_read,
)
from exogpu.symbolic.encode.script import Script
from exogpu.symbolic.sites import Site, read_by


def owner(encoder: Encoder, variable: Variable) -> Iterator[Draft]:
    """The obligation on a variable of registers, if it is accessed."""
    assert variable.owner is not None
    records = _records(encoder, variable.name)
    if records:
        yield _draft(encoder, variable, variable.owner, records)


def _records(encoder: Encoder, name: Sym) -> list[Site]:
    """The accesses of a variable, of those that are alike one: two whose formulas differ by the
    names of iterators alone, but for those around the allocation, say the same with any third."""
    found: dict[str, Site] = {}
    for site in encoder.placed.sites:
        op = site.op
        if isinstance(op, Record) and op.access.name == name and op.origin.threads is not None:
            found.setdefault(_access_by_positions(encoder, site, op), site)
    return list(found.values())


class _Positions(dict[Sym, str]):
    """Iterators by where they stand first; those around an allocation, and sizes, by themselves."""

    def __init__(self, inside: Iterable[Sym]) -> None:
        super().__init__()
        self._inside = frozenset(inside)

    def __missing__(self, name: Sym) -> str:
        text = f"at{len(self)}" if name in self._inside else f"{name.name}.{name.number}"
        return self.setdefault(name, text)


def _access_by_positions(encoder: Encoder, site: Site, op: Record) -> str:
    """Returns the access of a site in names of positions: sites with equal texts share an
    obligation."""
    scope = {loop.iterator for loop in encoder.placed.scope(op.access.name, op.origin.span)}
    instance = Instance(site, {name: CVar(name) for name in site.iterators})
    names = _Positions(name for name in site.iterators if name not in scope)
    texts: list[str] = []
    for coord in op.access.coords:
        ends = (coord.at,) if isinstance(coord, Point) else (coord.lo, coord.hi)
        texts.append(" : ".join(cexpr(end, names) for end in ends))
    assert op.origin.threads is not None
    for axis in op.origin.threads.axes:
        texts.append(f"{axis.pitch} {cexpr(axis.offset, names)} {axis.extent}")
    known = known_of(instance, read_by(op.access) | threads_read(site))
    return " ; ".join([*texts, bexpr(known, names)])


def _draft(encoder: Encoder, variable: Variable, owner: int, records: Sequence[Site]) -> Draft:
    name, called = variable.name, encoder.placed.called[variable.name]
    script = encoder.script()
    failures = [
        script.node("shared", _shared(encoder, script, name, owner, one, other))
        for at, one in enumerate(records)
        for other in records[at:]
    ]
    script.expose(failures)
    alloc = next(
        site for site in encoder.placed.sites if isinstance(site.op, Alloc) and site.op.name == name
    )
    unit = "one thread" if owner == 1 else f"one unit of {owner} adjacent threads"
    claim = f"Of one allocation of {called}, each element is accessed by {unit} alone."
    return Draft(HazardKind.OWNERSHIP, name, None, alloc, claim, script.text(claim))


@dataclass(frozen=True, slots=True)
class _Access:
    """One instance of an access, an element of it, and a thread."""

    instance: Instance
    element: Sequence[CExpr]
    thread: CExpr
    known: BExpr


def _shared(
    encoder: Encoder, script: Script, name: Sym, owner: int, one: Site, other: Site
) -> list[BExpr]:
    """Two units access one element of one allocation."""
    script.apart()
    first, second = _access(script, one), _access(script, other)
    same = [equal(a, b) for a, b in zip(first.element, second.element, strict=True)]
    # The unit of the first, and the second outside of it.
    unit: CExpr = script.constant(Sym("unit"))
    begin = unit if owner == 1 else Mul(owner, unit)
    mine = [at_most(begin, first.thread), less(first.thread, plus(begin, owner))]
    outside = some([less(second.thread, begin), at_most(plus(begin, owner), second.thread)])
    allocated = same_allocation(encoder.placed, first.instance, second.instance, name)
    return [first.known, second.known, allocated, *same, *mine, outside]


def _access(script: Script, site: Site) -> _Access:
    op = site.op
    assert isinstance(op, Record) and isinstance(op.origin.threads, ThreadMap)
    label = script.label(site)
    read = read_by(op.access) | threads_read(site)
    instance = script.free(site, f"{label}.", frozenset(bearing_on(site, read)))
    element, known = _element(script, instance, op.access, label)
    thread = script.thread(instance, f"{label}.thread")
    return _Access(instance, element, thread, every([known_of(instance, read), *known]))


def _element(
    script: Script, instance: Instance, access: Access, label: str
) -> tuple[list[CExpr], list[BExpr]]:
    """Some element of a window, and what is known of it."""
    element: list[CExpr] = []
    known: list[BExpr] = []
    for coord in access.coords:
        if isinstance(coord, Point):
            element.append(substitute(coord.at, instance.values))
            continue
        at = script.constant(Sym(f"element{len(element)}"), f"{label}.")
        element.append(at)
        known.append(at_most(substitute(coord.lo, instance.values), at))
        known.append(less(at, substitute(coord.hi, instance.values)))
    return element, known
