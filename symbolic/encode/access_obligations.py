"""Obligations on pairs of accesses: each record that a check meets is visible to it, or cleared.

Every Record and Check of one variable that could meet is an obligation, whatever was found.
"""

from __future__ import annotations

from collections.abc import Callable, Iterable, Iterator, Sequence
from dataclasses import dataclass

from exogpu.amir.nodes import Alloc, Check, Record, Variable
from exogpu.analysis.threadmap import ThreadMap
from exogpu.diagnostics.hazards import HazardKind
from exogpu.ir.nodes import Access, BExpr, CExpr, CVar, Mul, Point
from exogpu.ir.render import smt_cond, smt_expr
from exogpu.ir.types import Sym
from exogpu.ir.walk import read_by, substitute
from exogpu.machine.literal import hazard
from exogpu.symbolic.encode import formulas
from exogpu.symbolic.encode.chain_formulas import Chains, Rules, candidates
from exogpu.symbolic.encode.encoder import Draft, Encoder, Ends
from exogpu.symbolic.encode.formulas import everyone
from exogpu.symbolic.encode.rank_table import RankTable
from exogpu.symbolic.encode.script import Script
from exogpu.symbolic.encode.slot_counts import Slots
from exogpu.symbolic.encode.witness import Gone
from exogpu.symbolic.model import always_visible
from exogpu.symbolic.sites import Site


def pairs_of(encoder: Encoder, ranks: Callable[[Sym], RankTable], record: Site) -> Iterator[Draft]:
    """An obligation for every Check that a Record could meet."""
    assert isinstance(record.op, Record)
    for check in encoder.placed.sites:
        op = check.op
        if not isinstance(op, Check) or op.access.name != record.op.access.name:
            continue
        if op.mutates == record.op.mutate:
            yield _pair(encoder, ranks, record, check)


def each_for_itself(record: Site, check: Site) -> tuple[bool, bool]:
    """Tests whether every thread has a record of its own, and whether every thread of the check has
    to see it."""
    made, asked = record.op, check.op
    assert isinstance(made, Record) and isinstance(asked, Check)
    one_record = made.convergent or made.timeline is None or everyone(record)
    one_is_enough = asked.convergent or everyone(check)
    return not one_record, not one_is_enough


def _pair(encoder: Encoder, ranks: Callable[[Sym], RankTable], record: Site, check: Site) -> Draft:
    made, asked = record.op, check.op
    assert isinstance(made, Record) and isinstance(asked, Check)
    name, placed = made.access.name, encoder.placed
    kind, called = hazard(asked), placed.called[name]
    placed.passes_values(name, record, check)
    if always_visible(made, asked):
        why = "atomics are visible to each other's threads"
        return Draft(kind, name, record, check, _claim(called, record, check, why), "")
    met = encoder.meetings.meeting_of(record, check, name)
    if met is None:
        why = "the first never comes earlier"
        return Draft(kind, name, record, check, _claim(called, record, check, why), "")
    script, first, second, element = met.script, met.first, met.second, met.element
    script.assume_inside(first, element)
    script.assume_inside(second, element)
    found = encoder.sought.chains(record.number, check.number)
    slots = Slots(script, placed, ranks)
    script.assume(formulas.conjunction_of(slots.facts_around(first, made.access, found)))
    script.assume(formulas.conjunction_of(slots.facts_around(second, asked.access, found)))
    by_record, by_check = each_for_itself(record, check)
    ends = Ends(
        first,
        script.thread(first, "first.thread") if by_record else None,
        second,
        script.thread(second, "second.thread") if by_check else None,
        element,
    )
    meaning = encoder.meaning(
        {"first": first, "second": second},
        {"first": ends.record_thread, "second": ends.check_thread},
        element,
    )
    chains = Chains(script, placed, ranks, slots, ends, meaning)
    rules = Rules(placed.program.policy, made, placed.sites)
    ways = [
        chains.clear_formula(one, name)
        if isinstance(one, Gone)
        else chains.seen_formula(one, rules)
        for one in found
    ]
    slots.compare()
    script.refute(candidates(ways))
    claim = _claim(called, record, check, "")
    return Draft(kind, name, record, check, claim, script.text(claim), ends, meaning, found)


def _claim(called: str, record: Site, check: Site, why: str) -> str:
    made, asked = record.op, check.op
    assert isinstance(made, Record) and isinstance(asked, Check)
    access = "write" if made.mutate else "read"
    claim = (
        f"No {hazard(asked).value} on {called}: the {access} at line "
        f"{made.origin.span.line} ({made.origin.text}) is visible at line "
        f"{asked.origin.span.line} ({asked.origin.text}) wherever both touch one element, the "
        "first earlier, or has been cleared."
    )
    return f"{claim} By the rules alone: {why}." if why else claim


# Obligations on registers: an element belongs to one unit, whoever accesses it.


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
    instance = formulas.Instance(site, {name: CVar(name) for name in site.iterators})
    names = _Positions(name for name in site.iterators if name not in scope)
    texts: list[str] = []
    for coord in op.access.coords:
        ends = (coord.at,) if isinstance(coord, Point) else (coord.lo, coord.hi)
        texts.append(" : ".join(smt_expr(end, names) for end in ends))
    assert op.origin.threads is not None
    for axis in op.origin.threads.axes:
        texts.append(f"{axis.pitch} {smt_expr(axis.offset, names)} {axis.extent}")
    known = formulas.known_of(instance, read_by(op.access) | formulas.threads_read(site))
    return " ; ".join([*texts, smt_cond(known, names)])


def _draft(encoder: Encoder, variable: Variable, owner: int, records: Sequence[Site]) -> Draft:
    name, called = variable.name, encoder.placed.called[variable.name]
    script = encoder.script()
    failures = [
        script.node("shared", _overlap_conditions(encoder, script, name, owner, one, other))
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

    instance: formulas.Instance
    element: Sequence[CExpr]
    thread: CExpr
    known: BExpr


def _overlap_conditions(
    encoder: Encoder, script: Script, name: Sym, owner: int, one: Site, other: Site
) -> list[BExpr]:
    """Two units access one element of one allocation."""
    script.renew_loads()
    first, second = _access(script, one), _access(script, other)
    same = [formulas.equal(a, b) for a, b in zip(first.element, second.element, strict=True)]
    # The unit of the first, and the second outside of it.
    unit: CExpr = script.constant(Sym("unit"))
    begin = unit if owner == 1 else Mul(owner, unit)
    mine = [
        formulas.at_most(begin, first.thread),
        formulas.less_than(first.thread, formulas.plus(begin, owner)),
    ]
    outside = formulas.disjunction_of(
        [
            formulas.less_than(second.thread, begin),
            formulas.at_most(formulas.plus(begin, owner), second.thread),
        ]
    )
    allocated = formulas.same_allocation(encoder.placed, first.instance, second.instance, name)
    return [first.known, second.known, allocated, *same, *mine, outside]


def _access(script: Script, site: Site) -> _Access:
    op = site.op
    assert isinstance(op, Record) and isinstance(op.origin.threads, ThreadMap)
    label = script.label(site)
    read = read_by(op.access) | formulas.threads_read(site)
    instance = script.free(site, f"{label}.", frozenset(formulas.bearing_on(site, read)))
    element, known = _element(script, instance, op.access, label)
    thread = script.thread(instance, f"{label}.thread")
    return _Access(
        instance,
        element,
        thread,
        formulas.conjunction_of([formulas.known_of(instance, read), *known]),
    )


def _element(
    script: Script, instance: formulas.Instance, access: Access, label: str
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
        known.append(formulas.at_most(substitute(coord.lo, instance.values), at))
        known.append(formulas.less_than(at, substitute(coord.hi, instance.values)))
    return element, known
