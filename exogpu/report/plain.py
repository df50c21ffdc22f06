"""Obligations as an engineer would say them; the formal claim is another text."""

from __future__ import annotations

from collections.abc import Callable, Mapping, Sequence
from typing import Final

from exogpu.report.model import Step
from exogpu.result.hazards import HazardKind, Occurrence
from exogpu.result.proof import Lemma, Obligation


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
        return f"since in between there is {_step(chain[0])}"
    return f"thanks to {_listed(list(map(_step, chain)))}"


def _step(step: Step) -> str:
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


def _listed(parts: list[str]) -> str:
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
