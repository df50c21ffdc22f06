"""Repairs of an access that is not ordered, in the language's own words."""

from __future__ import annotations

from collections.abc import Iterable, Iterator, Mapping
from dataclasses import replace
from itertools import islice
from typing import Final

from exogpu.amir.nodes import Arrive, Await, Check, Guard, Loop, Program, Record
from exogpu.amir.walk import begins_tasks, operations, path_to
from exogpu.explain import apply_edits
from exogpu.explain.barrier_hazards import skip_text
from exogpu.explain.edits import Between, NewArrive, NewAwait, NewFence, NewGroup, Repair
from exogpu.hw.timelines import ASYNC_PROXY, ONLY_BEFORE, SHORT_NAME
from exogpu.ir.nodes import Access
from exogpu.ir.types import BarrierMechanism, Level, QualSet, QualTL
from exogpu.machine.observer import Violation

_PRE: Final[Mapping[QualTL, str]] = {
    QualTL.CPU: "cpu_in_order",
    QualTL.STRM: "cuda_stream_sync",
    QualTL.CUDA1: "cuda_in_order",
    QualTL.CUDA2: "cuda_in_order",
    QualTL.SM80: "Sm80_cp_async",
    QualTL.TMA_S: "tma_to_smem_async",
    QualTL.TMA_G: "tma_to_gmem_async",
    QualTL.TMA_R: "tma_to_gmem_source",
    QualTL.WG_A: "wgmma_async",
    QualTL.WG_D: "wgmma_async",
    QualTL.WG_S: "wgmma_async",
    QualTL.WG_0: "wgmma_fence_1",
}
"""A sync timeline whose full set has the timeline of the first access."""

_POST: Final[Mapping[QualTL, str]] = {
    QualTL.CPU: "cpu_in_order",
    QualTL.STRM: "cuda_stream_sync",
    QualTL.CUDA1: "cuda_in_order",
    QualTL.CUDA2: "cuda_in_order",
    QualTL.SM80: "Sm80_generic",
    QualTL.TMA_S: "cuda_generic_and_async",
    QualTL.TMA_G: "cuda_generic_and_async",
    QualTL.TMA_R: "cuda_generic_and_async",
    QualTL.WG_A: "wgmma_fence_2",
    QualTL.WG_D: "wgmma_fence_2",
    QualTL.WG_S: "cuda_generic_and_async",
    QualTL.WG_0: "cuda_in_order",
}
"""A sync timeline that orders the timeline of the second access."""

BY_COMMIT_GROUP: Final = frozenset(
    {"Sm80_cp_async", "tma_to_gmem_async", "tma_to_gmem_source", "wgmma_async"}
)
"""First timelines of an Arrive on a commit group only."""

BY_COPY: Final = "tma_to_smem_async"
"""The timeline of copies that signal an mbarrier themselves."""

SKIPS: Final = range(-1, -9, -1)
"""Last operands that are tried for an Await of an mbarrier that a kernel lacks."""

IN_FLIGHT: Final = (3, 2, 1, 0)
"""Groups that an Await may leave in flight where a loop commits them, the most first."""

PROXY_PAIR: Final = ("cuda_in_order", "cuda_generic_and_async")

PROXY_FENCE: Final = f"Fence({', '.join(PROXY_PAIR)})"


def first_timeline(seen: QualSet) -> str:
    """A first timeline for what was seen on one of these; an ordinary one if that will do, and the
    host's only for what kernels do not see."""
    kernels = seen - {QualTL.CPU, QualTL.STRM}
    names = [_PRE[timeline] for timeline in SHORT_NAME if timeline in (kernels or seen)]
    return next((name for name in names if not _by_completion(name)), names[0] if names else "")


def second_timeline(asked: QualSet) -> str:
    """A second timeline that orders accesses on the first of these."""
    return _POST[next(timeline for timeline in SHORT_NAME if timeline in asked)]


def _by_completion(name: str) -> bool:
    return name in BY_COMMIT_GROUP or name == BY_COPY


def completion(
    first: str, second: str, record: Record, program: Program, words: str
) -> tuple[Repair, ...]:
    """Returns repairs that wait for an asynchronous access: by its commit group, or the barrier it
    signals.

    `words` is where they do.  Nothing for a copy that signals a barrier: an Await of it is missing
    in a place that the kernel has to choose, or it does not wait for this copy.
    """
    if first not in BY_COMMIT_GROUP:
        return ()
    group = _group(record, program)
    if group is None and (waits := list(_awaited_groups(program))):
        return tuple(r for wait in waits for r in _new_arrives(first, wait, record, program))
    cg = "cg" if group is None else group.name.name + ("[...]" if group.coords else "")
    arrive = () if group is None else _arrives_after(record, group, program)
    if group is not None and arrive:
        at = arrive[-1]
        steps = any(isinstance(op, Loop) and not op.threads for _, op in path_to(program.body, at))
        return tuple(
            Repair(
                f"{words}, Await({cg}, {second}, {n}) after the Arrive at line "
                f"{at.origin.span.line}",
                NewAwait(at, group, second, n, after=True),
            )
            for n in (IN_FLIGHT if steps else (0,))
        )
    text = f"{words}, Arrive({first}) >> {cg} and Await({cg}, {second}, 0)"
    return (Repair(text, NewGroup(record, first, second, group)),)


def new_awaits(
    program: Program, check: Check, barrier: Access, second: str, skips: Iterable[int]
) -> tuple[Repair, ...]:
    """An Await of a barrier before an access, or before a loop of threads around it."""
    z = barrier.name.name + ("[...]" if barrier.coords else "")
    return tuple(
        Repair(
            f"Await({z}, {second}, {skip_text(n)}) before line {place.origin.span.line}, for its "
            "threads to wait",
            NewAwait(place, barrier, second, n),
        )
        for place in apply_edits.places(program, check)
        for n in skips
    )


def _arrive_element(barrier: Access, program: Program) -> Access:
    """The element as an Arrive names it: an instruction's own has iterators of its desugaring."""
    arrives = (op.home for op in operations(program.body) if isinstance(op, Arrive))
    return next((home for home in arrives if home.name is barrier.name), barrier)


def _group(record: Record, program: Program) -> Access | None:
    """The commit group that the kernel has for such accesses, if it has one."""
    groups = {v.name: v for v in program.variables if v.mechanism is BarrierMechanism.COMMIT_GROUP}
    for op in operations(program.body):
        if isinstance(op, Arrive) and op.home.name in groups and record.timeline in op.pre:
            return op.home
    return None


def _awaited_groups(program: Program) -> Iterator[Access]:
    """The commit groups that are awaited, and on which nothing arrives."""
    ops = tuple(operations(program.body))
    arrived = {op.home.name for op in ops if isinstance(op, Arrive)}
    for v in program.variables:
        if v.mechanism is BarrierMechanism.COMMIT_GROUP and v.name not in arrived:
            waits = (op for op in ops if isinstance(op, Await) and op.barrier.name is v.name)
            yield from (op.barrier for op in islice(waits, 1))


def _new_arrives(first: str, group: Access, record: Record, program: Program) -> Iterator[Repair]:
    """An Arrive on a group, after the access, or a loop or an `if` around it."""
    cg = group.name.name + ("[...]" if group.coords else "")
    around = [op for _, op in path_to(program.body, record) if isinstance(op, Loop | Guard)]
    places: list[Record | Loop | Guard] = [record]
    places += reversed([one for one in around if not begins_tasks(one.body)])
    for op in places:
        what = "instruction" if op is record else "`if`" if isinstance(op, Guard) else "loop"
        text = f"Arrive({first}) >> {cg} after the {what} at line {op.origin.span.line}"
        yield Repair(text, NewArrive(op, group, first, after=True))


def _arrives_after(record: Record, group: Access, program: Program) -> tuple[Arrive, ...]:
    """The Arrives on a group that stand after the access in the program text."""
    ops = list(operations(program.body))
    later = ops[next(at for at, op in enumerate(ops) if op is record) :]
    return tuple(op for op in later if isinstance(op, Arrive) and op.home.name is group.name)


def general_repairs(violation: Violation, program: Program) -> tuple[Repair, ...]:
    """Yields repairs that order the two accesses if nothing stood between them."""
    check, record = violation.check, violation.record
    assert isinstance(check, Check) and isinstance(record, Record)
    if record.timeline is None or are_tasks(violation):
        return ()
    first, second = _PRE[record.timeline], second_timeline(check.timelines)
    if record.timeline in ASYNC_PROXY and check.level is Level.TEMPORALLY_ORDERED:
        second = "cuda_in_order"
    if first == BY_COPY and record.trailing is not None:
        home = _arrive_element(record.trailing.home, program)
        return new_awaits(program, check, home, second_timeline(check.timelines), SKIPS)
    if _by_completion(first):
        return completion(first, second, record, program, "between them")
    if ONLY_BEFORE.get(first, second) != second:
        return ()
    fence = f"Fence({first}, {second})"
    edit = Between(violation, first, second)
    if check.free and any(
        isinstance(o, Loop) and o.threads for _, o in path_to(program.body, check)
    ):
        return ()  # all threads of the cluster free it, and a Fence there has those of the loop
    if check.origin.threads is None:
        return _on_cpu(check, record, first, second, edit)
    if check.free:
        text = f"before {violation.variable} ends, {fence} by all threads of its scope"
        return (Repair(text, NewFence(check, first, second, after=False)), Repair(text, edit))
    text = f"between them, {fence} where the threads of both take part"
    return (Repair(text, edit), Repair(text, replace(edit, widest=True)))


def _on_cpu(
    check: Check, record: Record, first: str, second: str, edit: Between
) -> tuple[Repair, ...]:
    """A Fence of the CPU, after the first access; before the end of a variable, or between both."""
    fence = f"Fence({first}, {second})"
    after = NewFence(record, first, second, after=True)
    soon = Repair(f"{fence} after line {record.origin.span.line}", after)
    if not check.free:
        return (soon, Repair(f"between them, {fence}", edit))
    declared = check.origin.span.line
    name = check.access.name.name
    text = f"{fence} at the end of the block that declares {name} (line {declared})"
    return (Repair(text, NewFence(check, first, second, after=False)), soon)


def are_tasks(violation: Violation) -> bool:
    """Tests whether the two accesses are of two tasks, which nothing orders."""
    tasks = violation.task, violation.record_task
    return None not in tasks and tasks[0] != tasks[1]


def resident_names(program: Program) -> frozenset[str]:
    """Returns the names of variables that serve one task of a cluster after another."""
    return frozenset(v.name.name for v in program.variables if v.resident)
