"""Two proofs compared, for a reader of a change: what was shown before, and what is now.

Obligations are told apart by what they are about: their kind, variable and statements, wherever
these stand in the file.
"""

from __future__ import annotations

from collections.abc import Iterable, Sequence
from dataclasses import dataclass, replace
from difflib import SequenceMatcher
from typing import Literal

from exogpu.report.derivation import Line, line_differences
from exogpu.report.snapshot import Claim, Key, Snapshot, Synchronising

Change = Literal["new", "gone", "changed", "same"]


@dataclass(frozen=True, slots=True)
class ClaimChange:
    """An obligation on one side alone, or with another answer or other chains."""

    change: Change
    kind: str
    before: str
    """In a sentence; empty of what is new."""
    now: str
    """In a sentence; empty of what is gone."""
    answer_before: str
    answer_now: str


@dataclass(frozen=True, slots=True)
class SyncChange:
    """A statement that synchronises, of which the reasons changed."""

    change: Change
    line_before: int
    line_now: int
    text: str
    said: str
    """The statement's text now; before, if it is gone."""
    more: tuple[str, ...]
    """The obligations that need it now, and did not before."""
    fewer: tuple[str, ...]
    """The obligations that needed it before, and do no more."""


@dataclass(frozen=True, slots=True)
class ProcedureChange:
    """One procedure, before and now."""

    change: Change
    name: str
    badge_before: str
    badge_now: str
    word_before: str
    word_now: str
    theorem: str
    """The theorem that is established now; before, if it is gone."""
    under: tuple[tuple[str, str, str], ...]
    """Questions that were asked otherwise: `policy`, before, now."""
    claims: tuple[ClaimChange, ...]
    synchronising: tuple[SyncChange, ...]
    source: tuple[tuple[Line, ...], ...]
    """Where the sources differ."""
    obligations: int
    """The number of obligations now."""
    comparable: bool
    """Chains and sources of both sides are known."""
    unproved: str
    """The side without a proof, of whose other obligations nothing is known: `before`, `now`, or
    neither."""

    def count(self, change: Change) -> int:
        """Counts its obligations with this change."""
        return sum(1 for one in self.claims if one.change == change)


@dataclass(frozen=True, slots=True)
class Comparison:
    """All procedures of both sides, in the order of the new one, those that are gone last."""

    against: str
    """The old side's name."""
    procedures: tuple[ProcedureChange, ...]

    def count(self, change: Change) -> int:
        """Counts the procedures with this change."""
        return sum(1 for one in self.procedures if one.change == change)


def compared(old: Iterable[Snapshot], new: Iterable[Snapshot], against: str) -> Comparison:
    """The procedures by their names; of several of one name, in their order."""
    left: dict[str, list[Snapshot]] = {}
    for one in old:
        left.setdefault(one.name, []).append(one)
    found = []
    for one in new:
        before = left.get(one.name)
        found.append(_change_of_two(before.pop(0), one) if before else _change_of_one("new", one))
    found += [_change_of_one("gone", one) for rest in left.values() for one in rest]
    return Comparison(against, tuple(found))


def _change_of_one(change: Literal["new", "gone"], one: Snapshot) -> ProcedureChange:
    new = change == "new"
    open_ = [claim for claim in one.claims if new and claim.answer != "holds"]
    return ProcedureChange(
        change=change,
        name=one.name,
        badge_before="" if new else one.badge,
        badge_now=one.badge if new else "",
        word_before="" if new else one.word,
        word_now=one.word if new else "",
        theorem=one.theorem,
        under=(),
        claims=tuple(_change("new", None, claim) for claim in open_),
        synchronising=(),
        source=(),
        obligations=len(one.claims),
        comparable=one.complete,
        unproved="",
    )


def _change_of_two(old: Snapshot, new: Snapshot) -> ProcedureChange:
    comparable = old.complete and new.complete
    unproved = "" if old.proof == new.proof else "before" if new.proof else "now"
    claims = tuple(
        claim
        for claim in _claims(old.claims, new.claims, comparable)
        # What a side without a proof does not name may be there all the same.
        if not (claim.change == "gone" and unproved == "now" and claim.answer_before == "holds")
        and not (claim.change == "new" and unproved == "before" and claim.answer_now == "holds")
    )
    synchronising = tuple(_synchronising(old, new)) if comparable else ()
    source = tuple(line_differences([*old.source], [*new.source])) if comparable else ()
    under = tuple(
        (label, before, now)
        for label, before, now in (
            ("policy", old.policy, new.policy),
            ("sizes", old.sizes, new.sizes),
        )
        if before != now
    )
    changed = claims or synchronising or source or under or old.badge != new.badge
    return ProcedureChange(
        change="changed" if changed else "same",
        name=new.name,
        badge_before=old.badge,
        badge_now=new.badge,
        word_before=old.word,
        word_now=new.word,
        theorem=new.theorem,
        under=under,
        claims=claims,
        synchronising=synchronising,
        source=source,
        obligations=len(new.claims),
        comparable=comparable,
        unproved=unproved,
    )


# --- obligations --------------------------------------------------------------------------------


def _claims(old: Sequence[Claim], new: Sequence[Claim], comparable: bool) -> Iterable[ClaimChange]:
    """Yields new or changed claims, in the order of the new side; then those that are gone."""
    before, now = _by_key(old, comparable), _by_key(new, comparable)
    for key, several in now.items():
        known = before.get(key, [])
        several, rest = _unpaired(several, known, comparable)
        for number, one in enumerate(several):
            if number < len(rest):
                yield _change("changed", rest[number], one)
            else:
                yield _change("new", None, one)
        before[key] = rest[len(several) :]
    for rest in before.values():
        yield from (_change("gone", one, None) for one in rest)


def _by_key(claims: Sequence[Claim], comparable: bool) -> dict[Key, list[Claim]]:
    found: dict[Key, list[Claim]] = {}
    for one in claims:
        kind, variable, first, second = one.key
        found.setdefault((kind, variable if comparable else "", first, second), []).append(one)
    return found


def _unpaired(
    new: Sequence[Claim], old: Sequence[Claim], comparable: bool
) -> tuple[list[Claim], list[Claim]]:
    """Both sides without those that say the same."""
    rest, left = list(old), []
    for one in new:
        same = next((o for o in rest if _same_claim(o, one, comparable)), None)
        if same is None:
            left.append(one)
        else:
            rest.remove(same)
    return left, rest


def _same_claim(old: Claim, new: Claim, comparable: bool) -> bool:
    return old.answer == new.answer and (not comparable or set(old.chains) == set(new.chains))


def _change(change: Change, old: Claim | None, new: Claim | None) -> ClaimChange:
    one = new or old
    assert one is not None
    return ClaimChange(
        change,
        one.kind,
        "" if old is None else old.said,
        "" if new is None else new.said,
        "" if old is None else old.answer,
        "" if new is None else new.answer,
    )


# --- synchronisation ----------------------------------------------------------------------------


def _synchronising(old: Snapshot, new: Snapshot) -> Iterable[SyncChange]:
    """The statements in order, those that are gone last; those with the same reasons are left
    out."""
    pairs = _pairs(old, new)
    for number, one in enumerate(new.synchronising):
        before = pairs.get(number)
        if before is not None:
            yield from _reasons(before, old, one, new)
        else:
            more = tuple(_sentences(one, new).values())
            yield SyncChange("new", 0, one.line, one.text, one.said, more, ())
    kept = [id(one) for one in pairs.values()]
    for one in old.synchronising:
        if id(one) not in kept:
            fewer = tuple(_sentences(one, old).values())
            yield SyncChange("gone", one.line, 0, one.text, one.said, (), fewer)


def _pairs(old: Snapshot, new: Snapshot) -> dict[int, Synchronising]:
    """By its number now, the statement that was there before: that of a line which stayed, else
    the first of its text that is left."""
    lines: dict[int, int] = {}
    blocks = SequenceMatcher(None, new.source, old.source, autojunk=False).get_matching_blocks()
    for a, b, size in blocks:
        lines |= dict(zip(new.numbers[a : a + size], old.numbers[b : b + size], strict=True))
    left, found = list(old.synchronising), dict[int, Synchronising]()
    for stays in (True, False):
        for number, one in enumerate(new.synchronising):
            fitting = (
                other
                for other in left
                if other.text == one.text and (not stays or other.line == lines.get(one.line))
            )
            if number not in found and (before := next(fitting, None)) is not None:
                found[number] = before
                left = [other for other in left if other is not before]
    return found


def _reasons(
    before: Synchronising, old: Snapshot, now: Synchronising, new: Snapshot
) -> Iterable[SyncChange]:
    if old.proof != new.proof:
        return
    was, is_ = _sentences(before, old), _sentences(now, new)
    more = tuple(said for key, said in is_.items() if key not in was)
    fewer = tuple(said for key, said in was.items() if key not in is_)
    if more or fewer or before.redundant != now.redundant:
        yield SyncChange("changed", before.line, now.line, now.text, now.said, more, fewer)


def _sentences(one: Synchronising, side: Snapshot) -> dict[Key, str]:
    """Returns the sentences about the obligations that need a statement, by subject."""
    return {side.claims[at].key: side.claims[at].said for at in one.needed_by}


def without_same(comparison: Comparison) -> Comparison:
    """The procedures that changed."""
    kept = tuple(one for one in comparison.procedures if one.change != "same")
    return replace(comparison, procedures=kept)
