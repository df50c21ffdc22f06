"""Checks within limits: what a check could not do within them is undecided, and says so."""

from __future__ import annotations

from collections.abc import Callable, Mapping
from dataclasses import dataclass, replace
from itertools import chain, islice
from time import perf_counter
from typing import Final

from exogpu.amir.nodes import Program
from exogpu.diagnostics.verdict import Verdict
from exogpu.machine import fast
from exogpu.solvers.processes import Limits, Stopped, Tell, cut_short, isolated, stage
from exogpu.symbolic.search.admitted_sizes import admitted
from exogpu.symbolic.search.smallest_sizes import larger_sizes

PROVING: Final = 0.75
"""The share of the time limit for all sizes; the rest is for the smallest."""

TRIED: Final = 2
"""Smallest sizes at which the concrete machine is run where all sizes together are undecided."""

WORK: Final = 4_000_000
"""Work of the machine at one of them: some 20 seconds.  It is counted, so that an answer does not
depend on how busy a computer is."""

TRYING: Final = 240.0
"""Seconds that all of this may take, whatever takes them, if the limit leaves as much."""


SMALLER: Final = "it may fail at smaller sizes, too, which are not decided"
"""The sentence for a hazard that was not found at the smallest sizes."""

ENDED: Final = {"time": "came to no end", "memory": "ran out of memory", "crash": "crashed"}
"""The sentences for a check that was stopped there."""


EXHAUSTED: Final = "too much work"
"""The message of a machine that has done as much as it may."""


@dataclass(frozen=True, slots=True)
class Judged:
    """A verdict, and what kept the check from being done to its end."""

    verdict: Verdict
    stopped: Stopped | None


def check_in_process(
    judge: Callable[[Tell], Verdict],
    blank: Verdict,
    limits: Limits,
    heard: Tell = lambda message: None,
) -> Judged:
    """The verdict of a check in a process of its own, or the last that it told before it was
    stopped; else `blank`, undecided.  What it tells is heard."""
    start = perf_counter()
    interim: list[Verdict] = []

    def hear(message: object) -> None:
        if isinstance(message, Verdict):
            interim.append(message)
        heard(message)

    found = isolated(judge, limits, hear)
    if isinstance(found, Verdict):
        return Judged(found, None)
    cut_short()
    seconds = perf_counter() - start
    if interim:
        return Judged(replace(interim[-1], seconds=seconds), found)
    undecided = replace(blank, word="undecided", reason=str(found), seconds=seconds)
    return Judged(undecided, found)


def try_smallest_sizes(
    undecided: Verdict,
    program: Callable[[], Program],
    check_at: Callable[[Mapping[str, int], Tell], Verdict],
    names: tuple[str, ...],
    limits: Limits,
) -> Verdict:
    """An undecided verdict with what the concrete machine says of the smallest sizes, and of some
    at which more happens; refuted where it finds a hazard there.

    `names` are the sizes of the procedure; without any, the machine decides.
    """
    at: list[Mapping[str, int]] = []
    found: list[Verdict] = []
    exhausted: list[str] = []

    def work(tell: Tell) -> None:
        some = islice(admitted(program()), TRIED if names else 1)
        seen: list[Mapping[str, int]] = []
        for sizes in chain(some, larger_sizes(program()) if names else ()):
            if sizes is None:
                return
            if sizes in seen:
                continue
            seen.append(sizes)
            stage(f"running the abstract machine at {_text(sizes) or 'its only sizes'}")
            tell(sizes)
            try:
                verdict = check_at(sizes, tell)
            except fast.WorkLimitError:
                tell(EXHAUSTED)
                return
            tell(verdict)
            if verdict.word not in ("proved", "undecided"):
                return

    def hear(message: object) -> None:
        if isinstance(message, Verdict):
            # Of sizes at which it is refuted, the first hazard was told before.
            del found[len(at) - 1 :]
            found.append(message)
        elif isinstance(message, Mapping):
            at.append(message)
        elif message == EXHAUSTED:
            exhausted.append(EXHAUSTED)

    start = perf_counter()
    stopped = isolated(work, _trial_limits(limits, names), hear)
    if isinstance(stopped, Stopped):
        cut_short()
    last = found[-1] if found else None
    seconds = undecided.seconds + perf_counter() - start
    if last is not None and last.word != "undecided" and not names:
        return replace(last, seconds=seconds)
    if last is not None and last.word == "refuted":
        smallest = len(found) <= TRIED and all(one.word != "undecided" for one in found)
        note = last.note if smallest else SMALLER
        return replace(last, sizes=None, seconds=seconds, operations=0, note=note)
    safe = [_text(sizes) for sizes, one in zip(at, found, strict=False) if one.word == "proved"]
    said = [undecided.reason]
    said += [f"safe at {' and at '.join(safe)}"] if safe and names else []
    cause = stopped.cause if isinstance(stopped, Stopped) else "time" if exhausted else None
    if len(found) < len(at) and cause is not None:
        where = f"at {_text(at[-1])} " if names else ""
        said.append(f"{where}the abstract machine {ENDED[cause]}")
    if names:
        offer = ",".join(f"{name}=64" for name in names)
        said.append(f"give sizes to check it at, such as --at {offer}")
    return replace(undecided, reason="; ".join(said), seconds=seconds)


def _trial_limits(limits: Limits, names: tuple[str, ...]) -> Limits:
    if not names:
        return limits
    seconds = TRYING if limits.seconds is None else min(TRYING, limits.seconds)
    return replace(limits, seconds=seconds)


def _text(sizes: Mapping[str, int]) -> str:
    return ", ".join(f"{name}={value}" for name, value in sizes.items())
