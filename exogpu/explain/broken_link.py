"""The broken link of a refutation: how far an access was ordered, and what is missing then."""

from __future__ import annotations

from collections.abc import Iterable, Iterator, Mapping
from dataclasses import dataclass, replace
from typing import Final, assert_never

from exogpu.amir.nodes import Arrive, Await, Check, Fence, Loop, Op, Program, Record
from exogpu.amir.walk import is_launch, operations, path_to, synchronises
from exogpu.analysis.thread_names import thread_names
from exogpu.diagnostics.errors import Span
from exogpu.diagnostics.verdict import Policy
from exogpu.explain import edits
from exogpu.explain.advice import Overlapping, overlapping
from exogpu.explain.barrier_hazards import skip_text
from exogpu.explain.edits import Repair
from exogpu.explain.journey import Missed, PassedOn, Unseen, Why, follow, granted_timelines
from exogpu.explain.repairs import (
    BY_COMMIT_GROUP,
    BY_COPY,
    PROXY_FENCE,
    PROXY_PAIR,
    SKIPS,
    completion,
    first_timeline,
    new_awaits,
    second_timeline,
)
from exogpu.hw.access_names import accesses_on
from exogpu.hw.timelines import ASYNC_PROXY, SYNC_TIMELINES
from exogpu.ir.nodes import Int
from exogpu.ir.types import BarrierMechanism, QualSet, QualTL
from exogpu.machine.literal_records import EVERYONE, Grant, Threads, covers, shares
from exogpu.machine.observer import Violation

_ADMITTED: Final[Mapping[BarrierMechanism | None, Iterable[int]]] = {
    BarrierMechanism.MBARRIER: SKIPS,
    BarrierMechanism.NAMED_BARRIER: (-1,),
    BarrierMechanism.COMMIT_GROUP: (0,),
    BarrierMechanism.CLUSTER_SYNC: (0,),
}
"""Last operands of an Await that is new; a flag is for other tasks, and awaited nowhere else."""


@dataclass(frozen=True, slots=True)
class Hop:
    """A synchronisation statement that passed the access on."""

    kind: str
    """`Fence`, `Arrive`, `Await`; `launch` for what is around a kernel, and `wait for launches`."""
    span: Span
    threads: str
    """Who executes it, in words."""

    def __str__(self) -> str:
        return f"{_article(self.kind)} at line {self.span.line}"


@dataclass(frozen=True, slots=True)
class BrokenLink:
    """The progress of a violation's access towards the check that needs it."""

    reached: tuple[Hop, ...]
    """The chain of syncs that passed it on, first to last; empty if none did."""
    missing: str
    """Why it went no further."""
    repairs: tuple[Repair, ...] = ()
    """Repairs that may pass it on there; none where only a sync between the two would."""
    advice: str = ""
    """A remedy in words, where no edit is tried."""

    def __str__(self) -> str:
        """`ordered up to Await at line 41 by threads 0 to 127 of CTA 0; nobody ...`"""
        if not self.reached:
            return self.missing
        last = self.reached[-1]
        return f"ordered up to {last} by {last.threads}; {self.missing}"


def broken_link(
    program: Program, sizes: Mapping[str, int], violation: Violation
) -> BrokenLink | None:
    """The broken link of a RAW, WAR, WAW or FREE violation of the program at these sizes.

    None for other violations, where the instance of the access is not known, and where the way
    from it is too long to follow.
    """
    failure = follow(program, sizes, violation)
    if failure is None:
        return None
    return _Teller(program, violation, failure).tell()


class _Teller:
    """One failure in words."""

    def __init__(self, program: Program, violation: Violation, failure: Unseen) -> None:
        assert isinstance(violation.check, Check) and isinstance(violation.record, Record)
        self.program, self.policy = program, program.policy
        self.violation = violation
        self.check, self.record = violation.check, violation.record
        resides = any(v.resident and v.name.name == violation.variable for v in program.variables)
        tasks = violation.record_task, violation.task
        self.apart = not resides and None not in tasks and tasks[0] != tasks[1]
        self.launches = overlapping(program, violation)
        self.journey = failure.journey
        # A check that asks every thread fails for each of these; the first speaks for all.
        self.blind = failure.blind if self.check.convergent else frozenset({min(failure.blind)})

    def tell(self) -> BrokenLink:
        weak = [p for p in self.journey.passed if self._is_ours(p.op, p.threads)]
        if weak:
            useful = [p for p in weak if granted_timelines(p) & self.check.timelines]
            last = (useful or weak)[-1]
            return BrokenLink(self._chain(last), *self._too_weak(last))
        if self.launches is not None:
            return self._of_launches(self.launches)
        if self.apart:
            return self._of_tasks()
        missed = [m for m in self.journey.missed if self._is_ours(m.op, m.threads)]
        told = self._describe_missed(max(reversed(missed), key=_specific, default=None))
        return BrokenLink(self._chain(self._furthest()), *told)

    def _of_tasks(self) -> BrokenLink:
        """Two tasks are ordered by flags alone (decision `flags`)."""
        if not any(variable.counts_all for variable in self.program.variables):
            return BrokenLink((), "tasks of one kernel are never ordered, but by flags")
        if (taken := self._flag_takes_less()) is not None:
            return BrokenLink(self._chain(self._furthest()), *self._describe_missed(taken))
        missing = (
            f"no flag that the task of {self._access()} raises after it is awaited by all threads "
            f"concerned before {self._action()}"
        )
        arrives = (op for op in operations(self.program.body) if isinstance(op, Arrive))
        flags = {v.name for v in self.program.variables if v.counts_all}
        repairs = tuple(
            Repair(f"let {_name(op)} on {op.home.name} come after {self._access()}", edit)
            for op in arrives
            if op.home.name in flags
            for edit in (*self._after_loops(op), edits.Moved(op, self.record))
        )
        return BrokenLink(self._chain(self._furthest()), missing, repairs)

    def _flag_takes_less(self) -> Missed | None:
        """An Await of a flag that is raised after the access and does not take it."""
        weak = (Why.TIMELINE, Why.NOT_TRANSITIVE)
        found = (m for m in reversed(self.journey.missed) if self._is_ours(m.op, m.threads))
        return next((m for m in found if m.arrive is not None and m.why in weak), None)

    def _after_loops(self, arrive: Arrive) -> Iterator[edits.Moved]:
        """An Arrive after the loops of threads around the access."""
        for _, op in reversed(path_to(self.program.body, self.record)):
            if isinstance(op, Loop) and op.threads:
                yield edits.Moved(arrive, op)

    def _of_launches(self, launches: Overlapping) -> BrokenLink:
        reached = self._chain(self._furthest())
        if reached and reached[-1].kind == "launch":
            reached = ()  # which is no news
        missing, advice = launches.missing_order(self._action()), launches.advice()
        return BrokenLink(reached, missing, advice=advice)

    def _is_ours(self, op: Op, threads: Threads) -> bool:
        """Tests whether threads of the check learn of accesses that a sync passes on."""
        meets = shares if self.check.convergent else covers
        return isinstance(op, Fence | Await) and meets(threads, self.blind)

    def _furthest(self) -> PassedOn | None:
        """The last sync that made the access visible; else the last Arrive."""
        passed = self.journey.passed
        granting = [p for p in passed if not isinstance(p.op, Arrive)]
        return (granting or passed)[-1] if passed else None

    def _chain(self, last: PassedOn | None) -> tuple[Hop, ...]:
        hops: list[Hop] = []
        while last is not None:
            hops.append(_hop(last))
            last = last.after
        return tuple(reversed(hops))

    # --- what is missing ------------------------------------------------------------------

    def _too_weak(self, last: PassedOn) -> tuple[str, tuple[Repair, ...]]:
        """The check's threads learn of the access, but not as the check needs it."""
        assert isinstance(last.op, Fence | Await)
        wanted = self.check.timelines
        here, asked = _name(last.op), self._accesses(wanted)
        if not granted_timelines(last) & wanted:
            on = self._accesses(granted_timelines(last))
            return f"{here} orders it for {on}, not for {asked}", _fuller(last, wanted)
        entries = wanted & (last.op.temporal - last.op.full)
        if entries and self._is_overtaken():
            return self._without_proxy(last)
        if entries:
            return (
                f"{here} orders {asked} in time only: enough to overwrite, and "
                f"{self._action()} needs the value",
                _fuller(last, wanted),
            )
        assert last.grant is Grant.TEMPORAL
        missing = f"what reaches {here} is ordered in time only, and not visible"
        before, needs = last.after, last.op.pre if isinstance(last.op, Fence) else wanted
        if before is None:
            return missing, ()
        missing += f": {_name(before.op)} passes on no more"
        while isinstance(before.op, Arrive) and before.after is not None:
            needs = before.op.pre
            before = before.after
        return missing, () if isinstance(before.op, Arrive) else _fuller(before, needs)

    def _accesses(self, timelines: QualSet) -> str:
        """Describes accesses on timelines; without short names where the sites have them."""
        told = self.check.timelines if not self.check.free else frozenset[QualTL]()
        made = self.record.timeline
        return accesses_on(timelines, told if made is None else told | {made})

    def _is_overtaken(self) -> bool:
        """Tests whether policy ptx asks for a proxy fence between the two accesses."""
        proxied = self.check.timelines & ASYNC_PROXY and self.record.timeline not in ASYNC_PROXY
        return bool(proxied) and self.policy is Policy.PTX

    def _without_proxy(self, last: PassedOn) -> tuple[str, tuple[Repair, ...]]:
        """The last step is only temporal on the async proxy, and nothing crossed before it."""
        return (
            f"{_name(last.op)} orders {self._accesses(self.check.timelines)} in time only: "
            "without a proxy fence, the async proxy may overtake an ordinary access",
            _fuller(last, self.check.timelines),
        )

    def _describe_missed(self, missed: Missed | None) -> tuple[str, tuple[Repair, ...]]:
        """Explains why the sync nearest to the check did not pass the access on."""
        if missed is None:
            if not (self.journey.passed or self.journey.missed or self.journey.uncarried):
                missing = f"no synchronisation stands between {self._access()} and {self._action()}"
                return missing, ()
            return f"in between, {self._ours()} executes no Fence or Await", self._wider()
        culprit = missed.arrive or missed
        here = _name(culprit.op)
        for_ = "" if missed.arrive is None else f", for which {_name(missed.op)} waits"
        match missed.why:
            case Why.UNSEEN:
                if not self.journey.passed:
                    return f"nothing passes {self._access()} on before {self._action()}", ()
                return (
                    f"nothing after that passes it on to {self._ours()} before {self._action()}",
                    self._wider(),
                )
            case Why.TIMELINE:
                assert isinstance(culprit.op, Fence | Arrive)
                return (
                    f"nobody orders {self._access()} before {here}{for_}: its first timeline takes "
                    f"{self._accesses(culprit.op.pre) or 'nothing'}, and by then its threads have "
                    f"seen it as {self._accesses(culprit.seen)} only",
                    self._take_repairs(culprit),
                )
            case Why.NOT_TRANSITIVE:
                in_order = SYNC_TIMELINES["cuda_in_order"].sets_under(self.policy)
                ordinary = culprit.seen & in_order.full
                return (
                    f"{here}{for_} is not transitive: it orders what its threads did themselves, "
                    f"not {self._access()}, which they have seen as "
                    f"{self._accesses(culprit.seen)}",
                    self._transitive(culprit) if ordinary else (),
                )
            case Why.RANK:
                return self._earlier_arrival(missed)
            case Why.ELEMENT:
                assert missed.tag is not None
                (_, index), _ = missed.tag
                return (
                    f"{here} waits on another element than {self._barrier(missed, index)}",
                    (*self._on_element(missed.op, index), *self._wider()),
                )
            case Why.EARLIER:
                assert isinstance(missed.op, Await)
                return (
                    f"what {here} waits for arrives before {self._access()}",
                    (*self._later_arrive(missed.op), *self._sooner(missed.op)),
                )
            case _:
                assert_never(missed.why)

    # --- repairs --------------------------------------------------------------------------

    def _wider(self) -> tuple[Repair, ...]:
        """Returns repairs by which the furthest sync reaches the threads of the check."""
        last, asked = self._furthest(), second_timeline(self.check.timelines)
        if last is None or is_launch(last.op) or EVERYONE in self.blind:
            return ()
        ours = self._ours()
        if isinstance(last.op, Arrive):
            skips = _ADMITTED.get(self._mechanism(last.op), ())
            return new_awaits(self.program, self.check, last.op.home, asked, skips)
        if isinstance(last.op, Fence):
            text = f"move {_name(last.op)} out to a scope with {ours} in it"
            return (Repair(text, edits.Widened(self.violation, last.op)),)
        fence = f"Fence(cuda_in_order, {asked})"
        text = f"after {_name(last.op)}, {fence} where {ours} takes part"
        edit = edits.Between(self.violation, "cuda_in_order", asked)
        behind = tuple(
            Repair(
                f"after the loop at line {loop.origin.span.line}, {fence}",
                edits.NewFence(loop, "cuda_in_order", asked),
            )
            for _, loop in path_to(self.program.body, last.op)
            if isinstance(loop, Loop) and loop.threads
        )
        return (Repair(text, edit), Repair(text, replace(edit, widest=True)), *behind)

    def _take_repairs(self, culprit: Missed) -> tuple[Repair, ...]:
        """Returns repairs by which a sync takes an access that its threads saw on other ones."""
        assert isinstance(culprit.op, Fence | Arrive)
        here, line = _name(culprit.op), culprit.op.origin.span.line
        for passed in self.journey.passed:
            later = passed.op.origin.span.line > line and shares(passed.threads, culprit.threads)
            if later and granted_timelines(passed) & culprit.op.pre:
                return (_move_after(culprit.op, passed.op),)
        first = first_timeline(culprit.seen)
        if is_launch(culprit.op) or self._is_group(culprit.op):
            return ()
        last = self._furthest()
        if last is not None and isinstance(last.op, Arrive) and self._is_group(last.op):
            text = f"before {here}, {_missing_await(last.op, 'cuda_in_order', '0')}"
            return (Repair(text, edits.NewAwait(culprit.op, last.op.home, "cuda_in_order", 0)),)
        if first == BY_COPY:
            return tuple(self._sooner_than(culprit.op))
        if first in BY_COMMIT_GROUP:
            ways = completion(first, "cuda_in_order", self.record, self.program, f"before {here}")
            return (*self._completion_repairs(first), *ways)
        return (
            Repair(f"let the first timeline of {here} be {first}", edits.First(culprit.op, first)),
        )

    def _completion_repairs(self, first: str) -> Iterator[Repair]:
        """An Arrive on a commit group that completes less of the access than this one would."""
        for op in operations(self.program.body):
            if isinstance(op, Arrive) and self._is_group(op) and self.record.timeline not in op.pre:
                text = f"let the first timeline of {_name(op)} be {first}"
                yield Repair(text, edits.First(op, first))

    def _sooner_than(self, culprit: Fence | Arrive) -> Iterator[Repair]:
        """An Await for the copy comes before a sync, which then takes what it has written."""
        if self.record.trailing is None:
            return
        here, names = _name(culprit), {a.name for a in self.record.trailing.targets}
        body = self.program.body
        shared = [op for _, op in path_to(body, culprit)]
        for op in operations(body):
            if isinstance(op, Await) and op.barrier.name in names:
                inside = any(other not in shared for _, other in path_to(body, op)[:-1])
                kept = ", with the loops and conditions around it," if inside else ""
                text = f"move the Await of line {op.origin.span.line}{kept} before {here}"
                yield Repair(text, edits.Moved(op, culprit, after=False))

    def _transitive(self, culprit: Missed) -> tuple[Repair, ...]:
        assert isinstance(culprit.op, Fence | Arrive)
        here = _name(culprit.op)
        text = f"let the first timeline of {here} be cuda_in_order, which is transitive"
        return (Repair(text, edits.First(culprit.op, "cuda_in_order")),)

    def _on_element(self, wait: Op, index: tuple[int, ...]) -> tuple[Repair, ...]:
        assert isinstance(wait, Await)
        text = f"let {_name(wait)} wait on {_element(wait.barrier.name.name, index)}"
        return (Repair(text, edits.OnElement(wait, tuple(map(Int, index)))),)

    def _later_arrive(self, wait: Op) -> Iterator[Repair]:
        """The Arrives that an Await waits for, after the access."""
        assert isinstance(wait, Await)
        name = wait.barrier.name
        for op in operations(self.program.body):
            if isinstance(op, Arrive) and op.home.name is name:
                text = f"let {_name(op)} on {name.name} come after {self._access()}"
                yield Repair(text, edits.Moved(op, self.record))

    def _sooner(self, wait: Op) -> Iterator[Repair]:
        """The Await waits for a later arrival, if it may."""
        assert isinstance(wait, Await)
        for n in range(wait.n + 1, 0) if wait.n < 0 else range(wait.n - 1, -1, -1):
            text = f"let {_name(wait)} wait for a later one: {skip_text(n)} instead of "
            yield Repair(text + skip_text(wait.n), edits.Skip(wait, n))

    def _earlier_arrival(self, missed: Missed) -> tuple[str, tuple[Repair, ...]]:
        """The Await does not wait for the first arrival that carries the access, or waits for a
        later one alone (`await-own-arrival`)."""
        assert missed.tag is not None and isinstance(missed.op, Await)
        element, rank = missed.tag
        here, carrier = _name(missed.op), self.journey.carried.get(missed.tag)
        early = missed.arrive
        order = None if carrier is None or rank < missed.bound else carrier.after
        if early is not None and order is not None and carrier and carrier.op is early.op:
            repairs = [_move_after(early.op, order.op)]
            if isinstance(early.op, Arrive) and isinstance(order.op, Await) and order.op.n > 0:
                text = f"let {_name(early.op)} be for the step before"
                repairs.insert(0, Repair(text, edits.Delayed(early.op, order.op)))
            return (
                f"{_name(early.op)}, for which {here} waits, comes before {_name(order.op)}, "
                f"which orders {self._access()}",
                tuple(repairs),
            )
        missing = f"{here} does not wait for arrival {rank} of {self._barrier(missed, element[1])}"
        if rank < missed.bound:
            missing += f": it waits for arrival {missed.bound} alone"
        n, further = missed.op.n, rank - missed.bound
        asked = n + further if n < 0 else n - further
        if (n < 0) != (asked < 0) or further == 0:
            return missing, ()
        text = f"let {here} wait for it: {skip_text(asked)} instead of {skip_text(n)}"
        return missing, (Repair(text, edits.Skip(missed.op, asked)),)

    def _mechanism(self, arrive: Arrive) -> BarrierMechanism | None:
        mechanisms = {v.name: v.mechanism for v in self.program.variables}
        return mechanisms[arrive.home.name]

    def _is_group(self, op: Op) -> bool:
        group = BarrierMechanism.COMMIT_GROUP
        return isinstance(op, Arrive) and self._mechanism(op) is group

    # --- names ----------------------------------------------------------------------------

    def _barrier(self, missed: Missed, index: tuple[int, ...]) -> str:
        """`z[1], which carries the write of line 8`"""
        assert isinstance(missed.op, Await)
        z = _element(missed.op.barrier.name.name, index)
        return f"{z}, which carries {self._access()}"

    def _access(self) -> str:
        """`the example_wgmma of line 37`"""
        what = "write" if self.record.mutate else "read"
        what = self.record.origin.instr or synchronises(self.record, self.program.variables) or what
        return f"the {what} of line {self.record.origin.span.line}"

    def _ours(self) -> str:
        """A thread of the check that does not see the access."""
        return _threads_text(frozenset({min(self.blind)}), self.check)

    def _action(self) -> str:
        if self.check.free:
            return f"the end of the memory of {self.violation.variable}"
        return f"the {verb_of(self.check)} at line {self.check.origin.span.line}"


def verb_of(check: Check) -> str:
    """Returns the verb for a check's access: "read" if it reads and writes, since the read comes
    first."""
    return "read" if check.reads and check.mutates else "write"


_SPECIFIC = (Why.EARLIER, Why.UNSEEN, Why.ELEMENT, Why.NOT_TRANSITIVE, Why.TIMELINE, Why.RANK)
"""The reasons of several syncs that did not pass the access on; the last of these says most."""


def _specific(missed: Missed) -> int:
    return _SPECIFIC.index(missed.why)


def _fuller(passed: PassedOn, asked: QualSet) -> tuple[Repair, ...]:
    """Returns repairs that make a sync full on timelines that it orders in time only, or not at
    all."""
    assert isinstance(passed.op, Fence | Await)
    if not asked or (isinstance(passed.op, Fence) and passed.op.launch):
        return ()
    here, second = _name(passed.op), second_timeline(asked)
    if second == "wgmma_fence_2":
        pair = "wgmma_fence_1", "wgmma_fence_2"
        return (
            Repair(f"put Fence({', '.join(pair)}) after {here}", edits.NewFence(passed.op, *pair)),
        )
    whole = Repair(f"make the second timeline of {here} {second}", edits.Second(passed.op, second))
    if not asked & ASYNC_PROXY:
        return (whole,)
    return (
        whole,
        Repair(f"put {PROXY_FENCE} after {here}", edits.NewFence(passed.op, *PROXY_PAIR)),
    )


def _move_after(arrive: Fence | Arrive | Await, after: Fence | Arrive | Await) -> Repair:
    kind, line = type(arrive).__name__, arrive.origin.span.line
    return Repair(
        f"move the {kind} of line {line} after the {_kind(after)} at line {after.origin.span.line}",
        edits.Moved(arrive, after),
    )


def _missing_await(arrive: Op, second: str, n: str) -> str:
    """The Await that an Arrive lacks."""
    assert isinstance(arrive, Arrive)
    at = "[...]" if arrive.home.coords else ""
    return f"Await({arrive.home.name.name}{at}, {second}, {n})"


def _element(name: str, index: tuple[int, ...]) -> str:
    return f"{name}[{', '.join(map(str, index))}]" if index else name


def _hop(passed: PassedOn) -> Hop:
    return Hop(_kind(passed.op), passed.op.origin.span, _threads_text(passed.threads, passed.op))


def _kind(op: Fence | Arrive | Await) -> str:
    if is_launch(op):
        return "wait for launches" if isinstance(op, Await) else "launch"
    return type(op).__name__


def _article(kind: str) -> str:
    return f"the {kind}" if "launch" in kind else kind


def _name(op: Fence | Arrive | Await) -> str:
    return f"{_article(_kind(op))} at line {op.origin.span.line}"


def _threads_text(threads: Threads, op: Op) -> str:
    if EVERYONE in threads:
        return "the CPU"
    mapping, indices = op.origin.threads, [t for _, t in threads]
    if mapping is None:
        return "the CPU"
    return thread_names(indices, mapping.block_dim or max(indices) + 1, mapping.cluster_dim)
