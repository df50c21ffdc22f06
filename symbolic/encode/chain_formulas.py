"""Chains as formulas: what the instances of a chain have to satisfy, by the machine's rules.

Whether a sync passes a record on is decided by the literal machine's own rules, on a record that
one thread sees; which instances do so, on which elements, ranks and threads, is for the solver.
"""

from __future__ import annotations

from collections.abc import Callable, Sequence
from typing import Final, TypeAlias

from exogpu.amir import nodes as amir
from exogpu.diagnostics.verdict import Policy
from exogpu.ir.nodes import BExpr, CExpr, Truth
from exogpu.ir.types import Sym
from exogpu.machine import literal_records
from exogpu.machine.literal_records import carried_timelines, witness
from exogpu.symbolic.encode import formulas
from exogpu.symbolic.encode import witness as encode_witness
from exogpu.symbolic.encode.encoder import Ends, Meaning
from exogpu.symbolic.encode.formulas import (
    executes,
    exists,
    lies_in_window,
    received,
    runs_before,
    same_allocation,
    same_task,
    within_task,
)
from exogpu.symbolic.encode.rank_table import RankTable
from exogpu.symbolic.encode.script import Script
from exogpu.symbolic.encode.slot_counts import Slots
from exogpu.symbolic.model import Placed
from exogpu.symbolic.sites import Site, home_of, one_cluster, targets_of

ONE: Final[literal_records.Threads] = frozenset({(0, 0)})
"""The thread whose visibility the literal rules are asked about."""

Parts: TypeAlias = list[BExpr | list[str]]
"""The parts of a conjunction: formulas, and lists of named ones of which one holds."""


class Rules:
    """The literal rules for chains: the sight of a record's threads, and the grants of each
    sync."""

    def __init__(self, policy: Policy, record: amir.Record, sites: Sequence[Site]) -> None:
        self.policy = policy
        self.record = record
        self.sites = sites

    def record_after(
        self, *granted: encode_witness.Granted | None
    ) -> literal_records.VisibilityRecord:
        """The record as a thread sees it that executes these Fences and Awaits, which made it
        visible; None stands for the record itself."""
        op = self.record
        seen = literal_records.VisibilityRecord(op.timeline, op.atomic)
        if None in granted:
            seen = literal_records.new_record(op.level, op.timeline, op.atomic, ONE)
        for one in granted:
            if one is None:
                continue
            sync, label = self._op(one.at), one.label
            if not isinstance(sync, amir.Fence | amir.Await):
                raise encode_witness.WitnessError(
                    f"line {sync.origin.span.line} makes nothing visible"
                )
            across = frozenset(() if label.carried is None else (label.carried,))
            literal_records.augment(
                self.policy, seen, ONE, sync.full, sync.temporal, label.grant, across
            )
        return seen

    def fires(self, passed: encode_witness.Passed, label: encode_witness.Label) -> bool:
        """Tests whether a thread with this sight of the record fires a sync, and the sync gives
        what the label says."""
        op = self._op(passed.via)
        if not isinstance(op, amir.Fence | amir.Arrive):
            return False
        others = () if passed.crossing is None else (passed.crossing,)
        way = (self.policy, op.transitive, ONE, op.pre, self.record_after(passed.before, *others))
        if label.carried is not None and label.carried not in carried_timelines(*way):
            return False
        return witness(*way) >= label.grant

    def _op(self, at: encode_witness.At) -> amir.Op:
        if not 0 <= at.site < len(self.sites):
            raise encode_witness.WitnessError(f"there is no site {at.site}")
        return self.sites[at.site].op

    def shows(self, granted: encode_witness.Granted | None, check: amir.Check) -> bool:
        """Tests whether a thread with this sight of the record satisfies a check."""
        return literal_records.check_visible(
            self.record_after(granted), check.level, True, check.timelines, ONE
        )


class ExecutionOrder:
    """Order of execution (decision `mbarrier-phase`): every sync for which threads wait for others
    passes it on, whatever the timelines."""

    def __init__(self, placed: Placed) -> None:
        self.placed = placed

    def fires(self, passed: encode_witness.Passed, label: encode_witness.Label) -> bool:
        at = passed.via.site
        return 0 <= at < len(self.placed.sites) and self.placed.joins(self.placed.sites[at])


class Chains:
    """Adds the chains of one script's obligation to it."""

    def __init__(
        self,
        script: Script,
        placed: Placed,
        ranks: Callable[[Sym], RankTable],
        slots: Slots,
        ends: Ends,
        meaning: Meaning,
    ) -> None:
        self.script = script
        self.placed = placed
        self.ranks = ranks
        self.slots = slots
        self.ends = ends
        self.meaning = meaning

    # --- kills ----------------------------------------------------------------------------

    def clear_formula(self, gone: encode_witness.Gone, variable: Sym) -> str | None:
        """A Clear of the element between the record and the check; None where it clears another
        variable, or records of the other kind."""
        found, ends = self.meaning.instance(gone.clear, amir.Clear), self.ends
        op, made = found.site.op, ends.record.site.op
        assert isinstance(op, amir.Clear) and isinstance(made, amir.Record)
        if op.access.name != variable or op.mutates != made.mutate:
            return None
        label, clear = self.script.name_instance(self.slots.executed(found))
        alone = self._own_task_condition(variable, clear)
        return self.script.node(
            f"{label}.clears",
            [
                exists(clear),
                runs_before(ends.record, clear),
                runs_before(clear, ends.check),
                same_allocation(self.placed, ends.record, clear, variable),
                lies_in_window(clear, op.access, ends.element),
                alone,
            ],
        )

    def _own_task_condition(self, variable: Sym, clear: formulas.Instance) -> BExpr:
        """Returns the condition that a Clear is of the record's own task, unless the variable
        resides (decision `resident-memory`)."""
        record = self.ends.record
        if self.placed.variables[variable].resident or not one_cluster(record.site, clear.site):
            return formulas.TRUE
        return within_task(record, clear)

    # --- chains ---------------------------------------------------------------------------

    def _one_task(self, first: formulas.Instance, second: formulas.Instance) -> BExpr:
        """Threads of one execute the other; where memory resides, threads of one cluster, but
        records of what does not reside belong to their task."""
        found = same_task(self.placed, first, second)
        return formulas.conjunction_of([found, self._one_position(first, second)])

    def _one_position(self, first: formulas.Instance, second: formulas.Instance) -> BExpr:
        made = self.ends.record.site.op
        if not isinstance(made, amir.Record) or self.placed.variables[made.access.name].resident:
            return formulas.TRUE
        in_tasks = first.site.task is not None and second.site.task is not None
        if not in_tasks or not one_cluster(first.site, second.site):
            return formulas.TRUE
        return within_task(first, second)

    def _counts(self) -> BExpr:
        """Returns the condition under which chains order the record and the check: two tasks may be
        of two clusters, and no value passes from one to the next (decision `resident-memory`)."""
        record, check = self.ends.record, self.ends.check
        made = record.site.op
        assert isinstance(made, amir.Record)
        if not self.placed.within_a_task(made.access.name, record.site, check.site):
            return formulas.TRUE
        return within_task(record, check)

    def seen_formula(self, seen: encode_witness.Seen, rules: Rules) -> str | None:
        """The check sees the record; None where the rules do not let it."""
        check = self.ends.check
        op = check.site.op
        assert isinstance(op, amir.Check)
        if seen.granted is None:
            if not rules.shows(None, op):
                return None
            shared = self._made_by_the_check(seen.threads)
            return self.script.node(
                "same_thread",
                [self._one_task(self.ends.record, check), shared, self._counts()],
            )
        if not rules.shows(seen.granted, op):
            return None
        found = self.grant_formula(seen.granted, rules)
        if found is None:
            return None
        node, at = found
        parts = [
            runs_before(at, check),
            self._one_task(at, check),
            self._reaches(at, seen.threads),
            self._counts(),
        ]
        return self.script.node(f"{node}.check", [[node], *parts])

    def grant_formula(
        self, granted: encode_witness.Granted, rules: Rules | ExecutionOrder
    ) -> tuple[str, formulas.Instance] | None:
        """A Fence or Await makes the record visible: the formula, and the instance by name."""
        label, at = self.script.name_instance(
            self.meaning.instance(granted.at, amir.Fence, amir.Await)
        )
        ways = [self._passed_formula(way, at, granted.label, rules) for way in granted.ways]
        names = [way for way in ways if way is not None]
        if not names:
            return None
        return self.script.node(f"{label}.grants", [exists(at), names]), at

    def _passed_formula(
        self,
        passed: encode_witness.Passed,
        at: formulas.Instance,
        label: encode_witness.Label,
        rules: Rules | ExecutionOrder,
    ) -> str | None:
        """A sync fires, and that leads to the grant."""
        record, fired = (
            self.ends.record,
            self.meaning.instance(passed.via, amir.Fence, amir.Arrive, amir.Record),
        )
        site = fired.site
        if not isinstance(site.op, amir.Fence) and not isinstance(at.site.op, amir.Await):
            raise encode_witness.WitnessError("an Arrive releases Awaits, and nothing else")
        if passed.before is None and site is record.site:
            if label.carried is not None:
                return None
            return self.script.node("trailing", self._edge(record, at))
        if not rules.fires(passed, label):
            return None
        via, name = at, "fence"
        parts: Parts = []
        if not isinstance(site.op, amir.Fence):
            name, via = self.script.name_instance(fired)
            parts = [exists(via), *self._edge(via, at)]
        elif site is not at.site:
            return None
        if passed.crossing is not None:
            seen = self._by_one_thread(passed, passed.crossing, via, rules)
        elif passed.before is None:
            shared = self._by_the_record(via, passed.threads)
            seen = [runs_before(record, via), self._one_task(record, via), shared]
        else:
            seen = self._by_another(passed.before, via, passed.threads, rules)
        return None if seen is None else self.script.node(f"{name}.fires", [*parts, *seen])

    def _by_another(
        self,
        granted: encode_witness.Granted,
        via: formulas.Instance,
        threads: encode_witness.Values,
        rules: Rules | ExecutionOrder,
    ) -> Parts | None:
        """A thread that executes the instance has seen the record by an earlier sync."""
        found = self.grant_formula(granted, rules)
        if found is None:
            return None
        node, previous = found
        shared = self.common_thread(previous, via, threads)
        return [[node], runs_before(previous, via), self._one_task(previous, via), shared]

    def _by_one_thread(
        self,
        passed: encode_witness.Passed,
        crossing: encode_witness.Granted,
        via: formulas.Instance,
        rules: Rules | ExecutionOrder,
    ) -> Parts | None:
        """One thread executes the instance, lets it fire by what it has seen, and has been shown
        the record across the proxy (decision `proxy-fence-anywhere`)."""
        record, own = self.ends.record, self.ends.record_thread
        if len(passed.threads) != 1:
            raise encode_witness.WitnessError("one thread sees the record across the proxy")
        if formulas.everyone(via.site):
            # A thread of one task and one of the same number of another are two.
            raise encode_witness.WitnessError("what crosses to the async proxy at CPU scope")
        (thread,) = self.meaning.values(passed.threads)
        parts: Parts = [executes(thread, via)]
        for granted in (passed.before, crossing):
            if granted is None:
                made = _executes(thread, record) if own is None else formulas.equal(own, thread)
                parts += [runs_before(record, via), self._one_task(record, via), made]
                continue
            found = self.grant_formula(granted, rules)
            if found is None:
                return None
            node, previous = found
            parts += [[node], runs_before(previous, via), self._one_task(previous, via)]
            parts.append(_executes(thread, previous))
        return parts

    def _edge(self, via: formulas.Instance, at: formulas.Instance) -> list[BExpr]:
        """An Arrive, or trailing barrier, and an Await that its tags release: on an element they
        target, of the same allocation, later, of a rank that the Await receives; the rank is that
        of the home (decision `multicast-tags`)."""
        op = at.site.op
        assert isinstance(op, amir.Await)
        name = op.barrier.name
        if isinstance(via.site.op, amir.Record) and via.site.op.trailing is None:
            raise encode_witness.WitnessError(
                f"line {via.site.op.origin.span.line} has no trailing barrier"
            )
        if home_of(via.site).name != name:
            raise encode_witness.WitnessError("a chain joins two barriers")
        table = self.ranks(name)
        rank = table.arrivals(self.script, via, "arrival")
        bound = table.await_bound(self.script, at, "wait")
        table.relate(self.script, via, at)
        element = formulas.element_of(at, op.barrier)
        return [
            runs_before(via, at),
            same_allocation(self.placed, via, at, name),
            formulas.in_shape(self.placed, name, element),
            formulas.disjunction_of(
                lies_in_window(via, target, element) for target in targets_of(via.site)
            ),
            received(self.placed.program.policy, op.n, rank, bound),
            self._one_position(via, at),
        ]

    # --- threads --------------------------------------------------------------------------

    def common_thread(
        self, first: formulas.Instance, second: formulas.Instance, threads: encode_witness.Values
    ) -> BExpr:
        """Some thread executes both."""
        if formulas.everyone(first.site) or formulas.everyone(second.site):
            return formulas.TRUE
        found = self.meaning.values(threads)
        return formulas.disjunction_of(
            formulas.conjunction_of([executes(t, first), executes(t, second)]) for t in found
        )

    def _by_the_record(self, via: formulas.Instance, threads: encode_witness.Values) -> BExpr:
        """A thread that made the record executes the instance."""
        record, own = self.ends.record, self.ends.record_thread
        if own is not None:
            return executes(own, via)
        return self.common_thread(record, via, threads)

    def _made_by_the_check(self, threads: encode_witness.Values) -> BExpr:
        """The check's thread, or one of them where that is enough, made the record."""
        record, own = self.ends.record, self.ends.record_thread
        check, thread = self.ends.check, self.ends.check_thread
        if _needs_everyone(check.site):
            return Truth(formulas.everyone(record.site))
        if thread is None:
            return self._by_the_record(check, threads)
        return executes(thread, record) if own is None else formulas.equal(own, thread)

    def _reaches(self, at: formulas.Instance, threads: encode_witness.Values) -> BExpr:
        """The check's thread, or one of them where that is enough, executes the grant."""
        check, thread = self.ends.check, self.ends.check_thread
        if _needs_everyone(check.site):
            return Truth(formulas.everyone(at.site))
        if thread is not None:
            return executes(thread, at)
        return self.common_thread(at, check, threads)


def _executes(thread: CExpr, instance: formulas.Instance) -> BExpr:
    return formulas.TRUE if formulas.everyone(instance.site) else executes(thread, instance)


def _needs_everyone(check: Site) -> bool:
    """Tests whether a check asks for every thread of every task."""
    assert isinstance(check.op, amir.Check)
    return formulas.everyone(check) and not check.op.convergent


def candidates(found: Sequence[str | None]) -> list[str]:
    """Returns the candidates that the rules allow."""
    return [one for one in found if one is not None]
