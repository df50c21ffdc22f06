"""Chains as formulas: what the instances of a chain have to satisfy, by the machine's rules.

Whether a sync passes a record on is decided by the literal machine's own rules, on a record that
one thread sees; which instances do so, on which elements, ranks and threads, is for the solver.
"""

from __future__ import annotations

from collections.abc import Callable, Sequence
from typing import Final

from exogpu.ir.names import Sym
from exogpu.ir.nodes import BExpr, Truth
from exogpu.ir.types import Policy
from exogpu.machine.amir import Arrive, Await, Check, Clear, Fence, Record
from exogpu.machine.literal_records import (
    Grant,
    Threads,
    VisibilityRecord,
    augment,
    check_visible,
    new_record,
    witness,
)
from exogpu.symbolic.certify.formulas import (
    TRUE,
    Instance,
    at_most,
    before,
    element_of,
    equal,
    every,
    everyone,
    executes,
    exists,
    in_shape,
    inside,
    same_allocation,
    same_task,
    some,
)
from exogpu.symbolic.certify.ranks import RankTable
from exogpu.symbolic.certify.script import Script
from exogpu.symbolic.certify.witness import Ends, Gone, Granted, Passed, Seen, Values
from exogpu.symbolic.domains import Model
from exogpu.symbolic.sites import Site, UndecidedError, home_of, targets_of

ONE: Final[Threads] = frozenset({(0, 0)})
"""The thread whose visibility the literal rules are asked about."""


class Rules:
    """What a record's threads see, and what each sync passes on, by the literal rules."""

    def __init__(self, policy: Policy, record: Record) -> None:
        self.policy = policy
        self.record = record

    def start(self) -> VisibilityRecord:
        """The record as its own threads see it."""
        op = self.record
        return new_record(op.level, op.timeline, op.atomic, ONE)

    def after(self, granted: Granted | None) -> VisibilityRecord:
        """The record as the threads of a Fence or Await see it that made it visible; as its own
        see it, where there is none."""
        if granted is None:
            return self.start()
        op = granted.at.site.op
        assert isinstance(op, Fence | Await)
        seen = VisibilityRecord(self.record.timeline, self.record.atomic)
        grant = Grant.FULL if granted.full else Grant.TEMPORAL
        augment(self.policy, seen, ONE, op.full, op.temporal, grant)
        return seen

    def fires(self, before: Granted | None, via: Site, full: bool) -> bool:
        """Whether a thread that sees the record thus lets a sync fire."""
        op = via.op
        if not isinstance(op, Fence | Arrive):
            return False
        grant = witness(self.policy, op.transitive, ONE, op.pre, self.after(before))
        return grant is Grant.FULL or (not full and grant is Grant.TEMPORAL)

    def shows(self, granted: Granted | None, check: Check) -> bool:
        """Whether a thread that sees the record thus satisfies a check."""
        return check_visible(self.after(granted), check.level, True, check.timelines, ONE)


class ExecutionOrder:
    """Order of execution (decision 12): every sync passes it on, whatever the timelines."""

    def fires(self, before: Granted | None, via: Site, full: bool) -> bool:
        return True


class Chains:
    """Adds the chains of one script's obligation to it."""

    def __init__(
        self, script: Script, model: Model, ranks: Callable[[Sym], RankTable], ends: Ends
    ) -> None:
        self.script = script
        self.model = model
        self.ranks = ranks
        self.ends = ends

    # --- kills ----------------------------------------------------------------------------

    def gone(self, gone: Gone, variable: Sym) -> str | None:
        """A Clear of the element between the record and the check; None where it clears another
        variable, or records of the other kind."""
        site = gone.clear.site
        op, ends = site.op, self.ends
        made = ends.record.site.op
        assert isinstance(op, Clear) and isinstance(made, Record)
        if op.access.name != variable or op.mutates != made.mutate:
            return None
        label, clear = self.script.named(gone.clear)
        return self.script.node(
            f"{label}.clears",
            [
                exists(clear),
                before(ends.record, clear),
                before(clear, ends.check),
                same_allocation(self.model, ends.record, clear, variable),
                inside(clear, op.access, ends.element),
            ],
        )

    # --- chains ---------------------------------------------------------------------------

    def seen(self, seen: Seen, rules: Rules) -> str | None:
        """The check sees the record; None where the rules do not let it."""
        check = self.ends.check
        op = check.site.op
        assert isinstance(op, Check)
        if seen.granted is None:
            if not rules.shows(None, op):
                return None
            shared = self._made_by_the_check(seen.threads)
            return self.script.node(
                "same_thread", [same_task(self.model, self.ends.record, check), shared]
            )
        if not rules.shows(seen.granted, op):
            return None
        found = self.granted(seen.granted, rules)
        if found is None:
            return None
        node, at = found
        parts = [
            before(at, check),
            same_task(self.model, at, check),
            self._reaches(at, seen.threads),
        ]
        return self.script.node(f"{node}.check", [[node], *parts])

    def granted(
        self, granted: Granted, rules: Rules | ExecutionOrder
    ) -> tuple[str, Instance] | None:
        """A Fence or Await makes the record visible: the formula, and the instance by name."""
        label, at = self.script.named(granted.at)
        ways = [self._passed(way, at, granted.full, rules) for way in granted.ways]
        names = [way for way in ways if way is not None]
        if not names:
            return None
        return self.script.node(f"{label}.grants", [exists(at), names]), at

    def _passed(
        self, passed: Passed, at: Instance, full: bool, rules: Rules | ExecutionOrder
    ) -> str | None:
        """A sync fires, and that leads to the grant."""
        record, site = self.ends.record, passed.via.site
        if passed.before is None and site is record.site:
            return self.script.node("trailing", self._edge(record, at))
        if not rules.fires(passed.before, site, full):
            return None
        via, parts = at, []
        label = ""
        if not isinstance(site.op, Fence):
            label, via = self.script.named(passed.via)
            parts = [exists(via), *self._edge(via, at)]
        elif site is not at.site:
            return None
        if passed.before is None:
            shared = self._by_the_record(via, passed.threads)
            parts += [before(record, via), same_task(self.model, record, via), shared]
            return self.script.node(f"{label or 'fence'}.fires", parts)
        found = self.granted(passed.before, rules)
        if found is None:
            return None
        node, previous = found
        parts += [before(previous, via), same_task(self.model, previous, via)]
        parts.append(self.common(previous, via, passed.threads))
        return self.script.node(f"{label or 'fence'}.fires", [[node], *parts])

    def _edge(self, via: Instance, at: Instance) -> list[BExpr]:
        """An Arrive, or trailing barrier, and an Await that its tags release: on an element they
        target, of the same allocation, later, with `rank <= Max`; the rank is that of the home
        (decision 15)."""
        op = at.site.op
        assert isinstance(op, Await)
        name = op.barrier.name
        if home_of(via.site).name != name:
            raise UndecidedError("a chain joins two barriers", op.origin.span)
        table = self.ranks(name)
        rank = table.arrivals(self.script, via, "arrival")
        bound = table.bound(self.script, at, "wait")
        table.relate(self.script, via, at)
        element = element_of(at, op.barrier)
        return [
            before(via, at),
            same_allocation(self.model, via, at, name),
            in_shape(self.model, name, element),
            some(inside(via, target, element) for target in targets_of(via.site)),
            at_most(rank, bound),
        ]

    # --- threads --------------------------------------------------------------------------

    def common(self, first: Instance, second: Instance, threads: Values) -> BExpr:
        """Some thread executes both."""
        if everyone(first.site) or everyone(second.site):
            return TRUE
        return some(every([executes(t, first), executes(t, second)]) for t in threads)

    def _by_the_record(self, via: Instance, threads: Values) -> BExpr:
        """A thread that made the record executes the instance."""
        record, own = self.ends.record, self.ends.record_thread
        if own is not None:
            return executes(own, via)
        return self.common(record, via, threads)

    def _made_by_the_check(self, threads: Values) -> BExpr:
        """The check's thread, or one of them where that is enough, made the record."""
        record, own = self.ends.record, self.ends.record_thread
        check, thread = self.ends.check, self.ends.check_thread
        if _needs_everyone(check.site):
            return Truth(everyone(record.site))
        if thread is None:
            return self._by_the_record(check, threads)
        return executes(thread, record) if own is None else equal(own, thread)

    def _reaches(self, at: Instance, threads: Values) -> BExpr:
        """The check's thread, or one of them where that is enough, executes the grant."""
        check, thread = self.ends.check, self.ends.check_thread
        if _needs_everyone(check.site):
            return Truth(everyone(at.site))
        if thread is not None:
            return executes(thread, at)
        return self.common(at, check, threads)


def _needs_everyone(check: Site) -> bool:
    """Whether a check asks for every thread of every task."""
    assert isinstance(check.op, Check)
    return everyone(check) and not check.op.convergent


def candidates(found: Sequence[str | None]) -> list[str]:
    """Those that the rules allow."""
    return [one for one in found if one is not None]
