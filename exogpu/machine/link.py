"""The broken link of a refutation: how far an access was ordered, and what is missing then."""

from __future__ import annotations

import re
from collections.abc import Mapping
from dataclasses import dataclass
from typing import assert_never

from exogpu.analysis.describe import thread_names
from exogpu.errors import Span
from exogpu.hw.timelines import ASYNC_PROXY, SHORT_NAME
from exogpu.ir.types import Policy, QualSet
from exogpu.machine.amir import Arrive, Await, Check, Fence, Op, Program, Record
from exogpu.machine.journey import Failure, Missed, Passed, Why, follow, granted
from exogpu.machine.literal_records import EVERYONE, Grant, Threads, covers, shares
from exogpu.machine.violation import Violation


@dataclass(frozen=True, slots=True)
class Step:
    """A synchronisation statement that passed the access on."""

    kind: str
    """`Fence`, `Arrive`, `Await`; `launch` for the fences around a kernel."""
    span: Span
    threads: str
    """Who executes it, in words."""

    def __str__(self) -> str:
        return f"{_article(self.kind)} at line {self.span.line}"


@dataclass(frozen=True, slots=True)
class BrokenLink:
    """How far the access of a violation got towards the check that needs it."""

    reached: tuple[Step, ...]
    """The chain of syncs that passed it on, first to last; empty if none did."""
    missing: str
    """Why it went no further."""

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
    return _Teller(program.policy, violation, failure).tell()


class _Teller:
    """One failure in words."""

    def __init__(self, policy: Policy, violation: Violation, failure: Failure) -> None:
        assert isinstance(violation.check, Check) and isinstance(violation.record, Record)
        self.policy = policy
        self.check, self.record = violation.check, violation.record
        self.apart = violation.record_task not in (None, violation.task) and violation.task
        self.journey = failure.journey
        # A check that asks every thread fails for each of these; the first speaks for all.
        self.blind = failure.blind if self.check.convergent else frozenset({min(failure.blind)})

    def tell(self) -> BrokenLink:
        weak = [p for p in self.journey.passed if self._is_ours(p.op, p.threads)]
        if weak:
            useful = [p for p in weak if granted(p) & self.check.timelines]
            last = (useful or weak)[-1]
            return BrokenLink(self._chain(last), self._too_weak(last))
        if self.apart:
            return BrokenLink((), "tasks of one kernel are never ordered")
        missed = [m for m in self.journey.missed if self._is_ours(m.op, m.threads)]
        return BrokenLink(self._furthest(), self._told(max(missed, key=_specific, default=None)))

    def _is_ours(self, op: Op, threads: Threads) -> bool:
        """Whether threads of the check learn what a sync passes on."""
        meets = shares if self.check.convergent else covers
        return isinstance(op, Fence | Await) and meets(threads, self.blind)

    def _furthest(self) -> tuple[Step, ...]:
        """The chain to the last sync that made the access visible; else to the last Arrive."""
        passed = self.journey.passed
        granting = [p for p in passed if not isinstance(p.op, Arrive)]
        return self._chain(granting[-1] if granting else passed[-1]) if passed else ()

    def _chain(self, last: Passed | None) -> tuple[Step, ...]:
        steps: list[Step] = []
        while last is not None:
            steps.append(_step(last))
            last = last.after
        return tuple(reversed(steps))

    # --- what is missing ------------------------------------------------------------------

    def _too_weak(self, last: Passed) -> str:
        """The check's threads learn of the access, but not as the check needs it."""
        assert isinstance(last.op, Fence | Await)
        here, asked = _name(last.op), _names(self.check.timelines)
        if not granted(last) & self.check.timelines:
            return f"{here} orders it for accesses on {_names(granted(last))}, not on {asked}"
        entries = self.check.timelines & (last.op.temporal - last.op.full)
        proxied = entries & ASYNC_PROXY and self.record.timeline not in ASYNC_PROXY
        if entries and proxied and self.policy is Policy.STRICT:
            return (
                f"{here} is only temporal on {asked}, and the async proxy may overtake an "
                "ordinary access without a proxy fence"
            )
        if entries:
            return (
                f"{here} is only temporal on {asked}: enough to overwrite, and "
                f"{self._action()} needs the value"
            )
        assert last.grant is Grant.TEMPORAL
        before = "" if last.after is None else f": {_name(last.after.op)} passes on no more"
        return f"what reaches {here} is ordered in time only, and not visible{before}"

    def _told(self, missed: Missed | None) -> str:
        """Why the sync that stands nearest to the check did not pass the access on."""
        if missed is None:
            if not (self.journey.passed or self.journey.missed):
                return f"no synchronisation stands between {self._access()} and {self._action()}"
            return f"in between, {self._ours()} executes no Fence or Await"
        culprit = missed.arrive or missed
        here = _name(culprit.op)
        for_ = "" if missed.arrive is None else f", for which {_name(missed.op)} waits"
        match missed.why:
            case Why.UNSEEN:
                if not self.journey.passed:
                    return f"nothing passes {self._access()} on before {self._action()}"
                return f"nothing after that passes it on to {self._ours()} before {self._action()}"
            case Why.TIMELINE:
                assert isinstance(culprit.op, Fence | Arrive)
                return (
                    f"nobody orders {self._access()} before {here}{for_}: by then its threads "
                    f"have seen it on {_names(culprit.seen)} only, and its first timeline takes "
                    f"{_names(culprit.op.pre) or 'nothing'}"
                )
            case Why.NOT_TRANSITIVE:
                return (
                    f"{here}{for_} is not transitive: it orders what its threads did themselves, "
                    f"not {self._access()}, which they have seen on {_names(culprit.seen)}"
                )
            case Why.RANK:
                assert missed.tag is not None
                (_, index), rank = missed.tag
                return f"{here} does not wait for arrival {rank} of {self._barrier(missed, index)}"
            case Why.ELEMENT:
                assert missed.tag is not None
                (_, index), _ = missed.tag
                return f"{here} waits on another element than {self._barrier(missed, index)}"
            case Why.EARLIER:
                return f"what {here} waits for arrives before {self._access()}"
            case _:
                assert_never(missed.why)

    def _barrier(self, missed: Missed, index: tuple[int, ...]) -> str:
        """`z[1], which carries the write of line 8`"""
        assert isinstance(missed.op, Await)
        at = f"[{', '.join(map(str, index))}]" if index else ""
        return f"{missed.op.barrier.name}{at}, which carries {self._access()}"

    def _access(self) -> str:
        """`the example_wgmma of line 37`"""
        called = re.match(r"(\w+)\(", self.record.origin.text)
        what = called.group(1) if called else ("write" if self.record.mutate else "read")
        return f"the {what} of line {self.record.origin.span.line}"

    def _ours(self) -> str:
        """A thread of the check that does not see the access."""
        return _words(frozenset({min(self.blind)}), self.check)

    def _action(self) -> str:
        if self.check.free:
            return "the free"
        what = "read" if self.check.reads else "write"
        return f"the {what} at line {self.check.origin.span.line}"


_SPECIFIC = (Why.EARLIER, Why.UNSEEN, Why.ELEMENT, Why.NOT_TRANSITIVE, Why.TIMELINE, Why.RANK)
"""Of several syncs that did not pass the access on, the one with the last of these says most."""


def _specific(missed: Missed) -> int:
    return _SPECIFIC.index(missed.why)


def _step(passed: Passed) -> Step:
    return Step(_kind(passed.op), passed.op.origin.span, _words(passed.threads, passed.op))


def _kind(op: Fence | Arrive | Await) -> str:
    return "launch" if is_launch(op) else type(op).__name__


def is_launch(op: Op) -> bool:
    """Whether a Fence is one of those around a kernel, which no statement of the source writes."""
    return isinstance(op, Fence) and op.origin.text.startswith("with ")


def _article(kind: str) -> str:
    return f"the {kind}" if kind == "launch" else kind


def _name(op: Fence | Arrive | Await) -> str:
    return f"{_article(_kind(op))} at line {op.origin.span.line}"


def _words(threads: Threads, op: Op) -> str:
    if EVERYONE in threads:
        return "the CPU"
    mapping, indices = op.origin.threads, [t for _, t in threads]
    if mapping is None:
        return "the CPU"
    return thread_names(indices, mapping.block_dim or max(indices) + 1, mapping.cluster_dim)


def _names(timelines: QualSet) -> str:
    return ", ".join(name for timeline, name in SHORT_NAME.items() if timeline in timelines)
