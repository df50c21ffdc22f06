"""Obligations, refutations and their chains as rows of a table; which statements they need."""

from __future__ import annotations

import re
from collections.abc import Callable, Iterable, Iterator, Mapping, Sequence
from dataclasses import replace
from typing import Final

from exogpu.diagnostics.hazards import Hazard, HazardKind, Occurrence
from exogpu.diagnostics.verdict import (
    Answered,
    AnswerWord,
    Lemma,
    Link,
    Obligation,
    Proof,
    Redundancy,
    Role,
)
from exogpu.report.report_data import Answer, Mark, Place, Row, Step, Use
from exogpu.report.source_view import Source

# Obligations as an engineer would say them; the formal claim is another text.


def plain(obligation: Obligation, chains: Sequence[tuple[Step, ...]], claim: str) -> str:
    """Puts the obligation, and the reason why it holds, in a sentence; else its claim without the
    name of the hazard."""
    first, second = obligation.first, obligation.second
    kind = obligation.kind
    if first is not None and second is not None and kind in _PAIRS:
        _, _, rule = claim.partition(" By the rules alone: ")
        said = _PAIRS[kind](obligation.variable, first, second)
        return f"{said}{_because(chains, rule.rstrip('.'))}."
    if second is not None and kind in _ONE:
        return _ONE[kind].format(line=second.place.line, name=obligation.variable)
    said = claim.removeprefix(f"No {kind.value}: ")
    return said[:1].upper() + said[1:]


# --- two accesses -------------------------------------------------------------------------------


def _raw(name: str, first: Occurrence, second: Occurrence) -> str:
    return f"Line {second.place.line} sees what line {first.place.line} wrote to {name}"


def _war(name: str, first: Occurrence, second: Occurrence) -> str:
    a, b = first.place.line, second.place.line
    if a == b:
        return f"Line {b} overwrites no element of {name} that it has still to read"
    return f"Line {b} overwrites {name} only after line {a} has read it"


def _waw(name: str, first: Occurrence, second: Occurrence) -> str:
    a, b = first.place.line, second.place.line
    if a == b:
        return f"Two writes of one element of {name} at line {b} stay in order"
    return f"What line {b} writes to {name} lands after what line {a} wrote"


def _free(name: str, first: Occurrence, second: Occurrence) -> str:
    end = f"ends at line {second.place.line}" if second.ends else "ends"
    return f"Line {first.place.line} is done with {name} when its memory {end}"


_PAIRS: Final[Mapping[HazardKind | Lemma, Callable[[str, Occurrence, Occurrence], str]]] = {
    HazardKind.RAW: _raw,
    HazardKind.WAR: _war,
    HazardKind.WAW: _waw,
    HazardKind.FREE: _free,
}


def _because(chains: Sequence[tuple[Step, ...]], rule: str) -> str:
    """Describes the ways in which the two are ordered."""
    if rule:
        return f", by the rules alone: {rule}"
    if not chains:
        return ": the two never touch one element, one after the other"
    ways = list(dict.fromkeys(map(_way, chains)))
    return ", " + ", or ".join(ways)


def _way(chain: tuple[Step, ...]) -> str:
    if not chain:
        return "since the same threads do both, in program order"
    if len(chain) == 1 and chain[0].role in ("overwritten", "fresh memory"):
        return f"since in between there is {_plain_step(chain[0])}"
    return f"thanks to {_enumerate_parts(list(map(_plain_step, chain)))}"


def _plain_step(step: Step) -> str:
    words = _STEPS.get(step.role, f"the {step.role}")
    return f"{words} at line {step.place.line}" if step.place.line else words


_STEPS: Final[Mapping[str, str]] = {
    "overwritten": "another write",
    "fresh memory": "a fresh allocation",
    "fence": "the Fence",
    "arrive": "the Arrive",
    "await": "the Await",
    "signal": "the signal of the instruction",
    "access": "the statement",
    "seen at once by its threads": "nothing that its own threads wait for",
}


def _enumerate_parts(parts: list[str]) -> str:
    if not parts[1:]:
        return parts[0]
    return f"{', '.join(parts[:-1])} and {parts[-1]}"


# --- one statement ------------------------------------------------------------------------------

_ONE: Final[Mapping[HazardKind | Lemma, str]] = {
    HazardKind.BOUNDS: "Line {line} accesses no element outside of {name}.",
    HazardKind.DIVERGENCE: "All threads that line {line} synchronises execute it, or none does.",
    HazardKind.OVERLAP: "The operands of line {line} have no element of {name} in common.",
    HazardKind.ALIGN: "At line {line}, {name} lies in memory as the instruction asks.",
    HazardKind.UNINIT: "Whatever line {line} reads of {name} has been written before.",
    Lemma.COUNT: "The Arrives and Awaits on {name} before line {line} are counted rightly; other "
    "obligations use the number.",
    Lemma.INNER: "Within one iteration of the outer loops, the Arrives and Awaits on {name} before "
    "line {line} are counted rightly; other obligations use the number.",
    Lemma.TOTAL: "Each iteration of the outer loops has as many Arrives as Awaits on {name}.",
}


ANSWERS: Final[Mapping[AnswerWord, Answer]] = {"unsat": "holds", "sat": "broken", "unknown": "open"}

ROLES: Final[Mapping[Role, str]] = {
    "start": "seen at once by its threads",
    "trailing": "signal",
    "fence": "fence",
    "arrive": "arrive",
    "await": "await",
    "clear": "overwritten",
    "alloc": "fresh memory",
    "access": "access",
}
"""The part of a statement in a chain, in words."""

ALONE: Final = frozenset(
    kind.value
    for kind in (
        HazardKind.BOUNDS,
        HazardKind.ALIGN,
        HazardKind.OVERLAP,
        HazardKind.DIVERGENCE,
        HazardKind.OWNERSHIP,
        HazardKind.SLOT,
        HazardKind.UNINIT,
    )
)
"""Obligations that concern one statement or variable, and on which nothing else rests."""

PAIRS: Final = (HazardKind.RAW, HazardKind.WAR, HazardKind.WAW, HazardKind.FREE)
"""Kinds of obligations about two accesses, which a chain may order."""


def rows_of(proof: Proof | None, hazards: Iterable[Hazard], source: Source) -> tuple[Row, ...]:
    """A row for each hazard, then one for each obligation."""
    rows: list[Row] = []
    for hazard in hazards:
        rows.append(_hazard_row(len(rows), hazard, source))
    for answered in () if proof is None else proof.answered:
        rows.append(_row(len(rows), answered, source))
    return tuple(rows)


def uses_of(
    rows: Sequence[Row], source: Source, certified: bool, redundant: Sequence[Redundancy] | None
) -> tuple[Use, ...]:
    """For each synchronising mark, the rows that hold because of it: those with a chain over it,
    and those about the statement itself, but for what it requires of itself alone.

    A fence that no chain passes is redundant: without it every chain is there still.  An Arrive
    or Await counts too, so it is only where all that was ever done with its barrier is of no use,
    or where a search has shown it.
    """
    needed: dict[int, dict[int, None]] = {m.number: {} for m in source.marks}
    for row in rows:
        if row.kind in ALONE:
            continue
        places = [row.first, row.second, *(step.place for chain in row.chains for step in chain)]
        for place in places:
            if place is not None and place.mark is not None:
                needed[place.mark][row.number] = None
    passed = {
        m.variable
        for m in source.marks
        if m.variable and any(m.number in _marks_passed(rows[r]) for r in needed[m.number])
    }
    found = {span for one in redundant or () if one.kind == "delete" for span in one.spans}
    searched = {m.number for span in found for m in source.by_statement.get(span, ())}
    return tuple(
        _use(mark, tuple(needed[mark.number]), certified, passed, mark.number in searched)
        for mark in source.marks
        if mark.synchronises
    )


def _marks_passed(row: Row) -> set[int]:
    """The marks of the statements that the chains of a row pass."""
    steps = (step.place.mark for chain in row.chains for step in chain)
    return {mark for mark in steps if mark is not None}


def _use(
    mark: Mark, rows: tuple[int, ...], certified: bool, passed: set[str], searched: bool
) -> Use:
    if searched:
        return Use(mark.number, rows, True, "Redundant: the kernel is safe without it.")
    if rows:
        plural = "s" if len(rows) > 1 else ""
        return Use(mark.number, rows, False, f"Needed by {len(rows)} obligation{plural}.")
    if not certified:
        why = "No obligation is known to need it; only a proof for all sizes tells."
        return Use(mark.number, rows, False, why)
    if mark.kind == "launch":
        return Use(mark.number, rows, False, "The kernel's own beginning and end.")
    if mark.kind == "signal" or mark.variable in passed:
        why = f"No chain passes it, but chains pass other uses of {mark.variable}: it counts."
        return Use(mark.number, rows, False, why)
    return Use(mark.number, rows, True, "Needed by none: redundant.")


def place_of(site: Occurrence, variable: str, source: Source) -> Place:
    """A site of an obligation or hazard, with the mark it falls on."""
    mark = source.find(site.span, variable)
    details = [", ".join(f"{name} = {value}" for name, value in site.iteration)]
    details.append(site.access_text)
    number = None if mark is None else mark.number
    detail = ", ".join(filter(None, details))
    text = site.text if mark is None or site.ends is not None else mark.text
    return Place(number, site.place.line, text, detail, site.threads)


def _row(number: int, answered: Answered, source: Source) -> Row:
    obligation = answered.obligation
    variable = obligation.variable
    chains = tuple(
        tuple(_step(link, variable, source) for link in _links_between(chain, obligation))
        for chain in obligation.chains
    )
    return Row(
        number=number,
        name=obligation.name,
        kind="lemma" if isinstance(obligation.kind, Lemma) else obligation.kind.value,
        variable=variable,
        claim=_short(obligation),
        plain=plain(obligation, chains, _short(obligation)),
        first=None if obligation.first is None else place_of(obligation.first, variable, source),
        second=None if obligation.second is None else place_of(obligation.second, variable, source),
        chains=chains,
        in_words=_describe_reason(obligation, chains),
        answer=ANSWERS[answered.answer],
        solver=answered.solver,
        seconds=answered.seconds if answered.solver else None,
    )


def _links_between(chain: tuple[Link, ...], obligation: Obligation) -> Iterator[Link]:
    """The links between the two accesses.  An access that an Await follows at once is what
    signals its barrier."""
    for at, link in enumerate(chain):
        if link.role in ("access", "start"):
            after = chain[at + 1 : at + 2]
            if after and after[0].role == "await":
                yield replace(link, role="trailing")
                continue
            ends = [(0, obligation.first), (len(chain) - 1, obligation.second)]
            if any(at == end and site and site.span == link.span for end, site in ends):
                continue
        yield link


def _short(obligation: Obligation) -> str:
    """The claim without the statements' texts, which stand beside it."""
    claim = obligation.claim
    for site in (obligation.first, obligation.second):
        if site is not None:
            claim = claim.replace(f" ({site.text})", "")
    return claim


def _hazard_row(number: int, hazard: Hazard, source: Source) -> Row:
    element = hazard.variable + (f"[{', '.join(map(str, hazard.index))}]" if hazard.index else "")
    first = None if hazard.first is None else place_of(hazard.first, hazard.variable, source)
    return Row(
        number=number,
        name=f"{hazard.code.lower()}-{number + 1}",
        kind=hazard.kind.value,
        variable=element,
        claim=hazard.message,
        plain=f"Broken: {hazard.message}.",
        first=first,
        second=place_of(hazard.second, hazard.variable, source),
        chains=(),
        in_words=f"broken: {hazard.message}",
        answer="broken",
        solver="abstract machine" if hazard.replayed else "",
        seconds=None,
    )


def _step(link: Link, variable: str, source: Source) -> Step:
    synchronises = link.role in ("fence", "arrive", "await", "trailing")
    mark = source.synchronising(link.span) if synchronises else source.find(link.span, variable)
    # What is the same as in one of the two accesses goes without saying.
    told = [(name, value) for name, value in link.iteration if value.rstrip("'") != name]
    iteration = ", ".join(_describe_iteration(name, value) for name, value in told)
    number = None if mark is None else mark.number
    return Step(Place(number, link.span.line, link.text, iteration, link.threads), ROLES[link.role])


def _describe_iteration(name: str, value: str) -> str:
    """Describes the iteration of a loop that a step of a chain is in: `4 of k later`.

    A prime marks an iterator of the second access.
    """
    match = _SHIFT.fullmatch(value)
    if match is not None and match["name"] == name:
        when = "later" if match["sign"] == "+" else "earlier"
        after = " than the second" if match["prime"] else ""
        return f"{name} {match['steps']} {when}{after}"
    return f"where {name} is {value}"


_SHIFT: Final = re.compile(r"(?P<name>\w+)(?P<prime>'?) (?P<sign>[+-]) (?P<steps>\d+)")


def _in_words(chain: tuple[Step, ...]) -> str:
    """`arrive 121 → await 122`, with line numbers."""
    if not chain:
        return "program order is enough"
    return " → ".join(
        f"{step.role} {step.place.line}" if step.place.line else step.role for step in chain
    )


def _describe_reason(obligation: Obligation, chains: tuple[tuple[Step, ...], ...]) -> str:
    """Describes the reason why an obligation holds."""
    if chains:
        return "; or ".join(dict.fromkeys(map(_in_words, chains)))
    return "no chain is needed" if obligation.kind in PAIRS else _short(obligation)
