"""The broken link of a refutation: one small program for each reason, and the paper's examples."""

from __future__ import annotations

import re
from random import Random

import pytest

from examples import erroneous_synchronisation as paper
from exogpu.amir import nodes as amir
from exogpu.amir.walk import operations
from exogpu.diagnostics.hazards import Hazard, HazardKind
from exogpu.diagnostics.verdict import Policy
from exogpu.explain.broken_link import BrokenLink, broken_link
from exogpu.explain.hazard_text import hazard_of, hazards_of
from exogpu.explain.journey import counts_at
from exogpu.machine import literal
from exogpu.report.render_verdict import roles_of
from tests.machine import generate
from tests.machine.build import COMMIT, Q0, Q1, Q2, TMA, UNORDERED, Builder, Name, at_least, mod, t

pytestmark = pytest.mark.slow


def link(b: Builder) -> BrokenLink:
    """The broken link of a program's first violation."""
    program = b.program(Policy.PTX)
    (violation,) = literal.run(program, {})
    found = broken_link(program, {}, violation)
    assert found is not None
    return found


def written() -> Builder:
    """A write of x[0] by thread 0 on Q1, whose record is line 5."""
    b = Builder()
    b.write(b.data("x", 4)[0], t(0), Q1)
    return b


def read(b: Builder, by: int, timeline=Q1) -> int:
    """Reads x[0]; the line of the read."""
    b.read(Name(b.variables[0].name)[0], t(by), timeline)
    return b.line - 1


WRITE = "the write of line 5"


def test_no_synchronisation_at_all() -> None:
    b = written()
    line = read(b, 1)
    found = link(b)
    assert found.reached == ()
    assert str(found) == f"no synchronisation stands between {WRITE} and the read at line {line}"


def test_the_checks_threads_execute_no_sync() -> None:
    b = written()
    b.fence(t(0, 2), Q1, Q1)
    read(b, 2)
    assert str(link(b)) == (
        "ordered up to Fence at line 6 by all 2 threads; "
        "in between, thread 2 executes no Fence or Await"
    )


def test_an_arrive_that_nobody_awaits_is_a_synchronisation() -> None:
    # It stands between, takes another timeline than the write's, and none of the check's awaits it.
    b = written()
    b.arrive(t(0), Q2, b.barrier("z", mechanism=COMMIT)[()])
    read(b, 1)
    assert str(link(b)) == "in between, thread 1 executes no Fence or Await"


def test_the_first_timeline_lacks_it() -> None:
    b = written()
    b.fence(t(0, 2), Q2, Q1, transitive=True)
    read(b, 1)
    assert str(link(b)) == (
        f"nobody orders {WRITE} before Fence at line 6: its first timeline takes cp.async copies "
        "(Sm80), and by then its threads have seen it as ordinary memory accesses only"
    )


def test_it_is_not_transitive() -> None:
    # Thread 1 sees the write on Q0 and Q1 through the first fence, and passes on only what it did.
    b = written()
    b.fence(t(0, 2), Q1, Q0)
    b.fence(t(1, 2), {Q0}, Q1)
    read(b, 2)
    found = link(b)
    assert [step.span.line for step in found.reached] == [6]
    assert "Fence at line 7 is not transitive" in found.missing
    assert "seen as ordinary register accesses (cuda1)" in found.missing


def test_others_have_not_seen_it() -> None:
    b = written()
    b.fence(t(1, 2), Q1, Q1, transitive=True)
    line = read(b, 1)
    assert str(link(b)) == f"nothing passes {WRITE} on before the read at line {line}"


def test_it_reached_other_threads_only() -> None:
    b = written()
    b.fence(t(0, 2), Q1, Q1)
    b.fence(t(2, 2), Q1, Q1, transitive=True)
    line = read(b, 2)
    assert str(link(b)) == (
        "ordered up to Fence at line 6 by all 2 threads; "
        f"nothing after that passes it on to thread 2 before the read at line {line}"
    )


def test_the_cpu_stands_for_every_thread() -> None:
    # What one thread's fence makes visible to this thread is not visible to the CPU.
    b = written()
    b.fence(t(0), Q1, Q1)
    b.read(Name(b.variables[0].name)[0], None, Q1, convergent=False)
    assert str(link(b)) == (
        "ordered up to Fence at line 6 by all 1 threads; "
        "in between, the CPU executes no Fence or Await"
    )


def test_it_is_only_temporal() -> None:
    b = written()
    b.fence(t(0, 2), Q1, Q2, Q1)
    line = read(b, 1)
    found = link(b)
    assert [step.span.line for step in found.reached] == [6]
    assert found.missing == (
        "Fence at line 6 orders ordinary memory accesses in time only: enough to overwrite, and "
        f"the read at line {line} needs the value"
    )


def test_what_reached_it_was_only_temporal() -> None:
    # ptx only: the first fence orders in time, so the second cannot make anything visible.
    b = written()
    b.fence(t(0, 2), Q1, (), Q1)
    b.fence(t(1, 2), Q1, Q1, transitive=True)
    read(b, 2)
    found = link(b)
    assert [step.span.line for step in found.reached] == [6, 7]
    assert found.missing == (
        "what reaches Fence at line 7 is ordered in time only, and not visible: "
        "Fence at line 6 passes on no more"
    )
    assert literal.run(b.program(Policy.PAPER), {}) == ()


def test_other_timelines() -> None:
    b = written()
    b.fence(t(0, 2), Q1, Q0)
    read(b, 1)
    assert link(b).missing == (
        "Fence at line 6 orders it for ordinary register accesses (cuda1), not for ordinary memory "
        "accesses"
    )


def test_the_async_proxy() -> None:
    b = Builder()
    name = b.data("x", 1)
    b.read(name[0], t(0), Q1)
    b.fence(t(0), Q1, Q1, TMA, transitive=True)
    b.write(name[0], t(0), TMA, level=UNORDERED)
    found = link(b)
    assert "Fence at line 3 orders TMA loads in time only" in found.missing
    assert "proxy fence" in found.missing
    assert literal.run(b.program(Policy.PAPER), {}) == ()


# --- barriers -----------------------------------------------------------------------------------


def ring(skip: int) -> Builder:
    """Thread 0 writes x[k % 2] and arrives on z[k % 2]; thread 1 awaits it."""
    b = Builder()
    name, z = b.data("x", 2), b.barrier("z", 2, depth=9)
    b.alloc(z)
    with b.loop("k", 0, 4) as k:
        b.write(name[mod(k, 2)], t(0), Q1, level=UNORDERED)
        b.arrive(t(0), Q1, z[mod(k, 2)])
        b.await_(z[mod(k, 2)], t(1), Q1, n=skip)
        b.read(name[mod(k, 2)], t(1), Q1)
    return b


def test_an_await_for_an_earlier_arrival() -> None:
    # `~1`: in trip 0 the Await waits for nothing, and arrival 0 carries the write.
    found = link(ring(skip=-2))
    assert [(step.kind, step.span.line) for step in found.reached] == [("Arrive", 8)]
    assert found.missing == (
        "Await at line 9 does not wait for arrival 0 of z[0], which carries the write of line 7"
    )


def test_an_await_on_another_element() -> None:
    b = Builder()
    name, z = b.data("x", 2), b.barrier("z", 2, depth=9)
    b.alloc(z)
    b.arrive(t(0), Q1, z[1])
    b.write(name[0], t(0), Q1)
    b.arrive(t(0), Q1, z[0])
    b.await_(z[1], t(1), Q1)
    b.read(name[0], t(1), Q1)
    found = link(b)
    assert "waits on another element than z[0], which carries the write" in found.missing


def test_another_element_than_that_of_the_copy() -> None:
    b = Builder()
    name, z = b.data("x", 2), b.barrier("z", 2, depth=1)
    b.alloc(z)
    b.multicast(lambda c: name[c], lambda c: t(c), lambda c: z[c], 2)
    b.arrive(t(0), (), z[0])
    b.arrive(t(0), (), z[1])
    b.await_(z[0], t(1), Q1)
    b.read(name[1], t(1), Q1)
    assert "waits on another element than z[1], which carries the write" in link(b).missing
    (hazard,) = hazards(b)
    assert hazard.help == f"let Await at line {b.line - 2} wait on z[1]"


def test_arrivals_before_the_access() -> None:
    b = Builder()
    name, z = b.data("x", 1), b.barrier("z", depth=9)
    b.alloc(z)
    b.arrive(t(0), Q1, z[()])
    b.write(name[0], t(0), Q1)
    b.await_(z[()], t(1), Q1)
    b.read(name[0], t(1), Q1)
    line = b.line
    assert str(link(b)) == (
        f"what Await at line {line - 2} waits for arrives before the write of line {line - 3}"
    )


def test_a_commit_group_that_lets_the_newest_run() -> None:
    b = Builder()
    name, cg = b.data("x", 1), b.barrier("cg", mechanism=COMMIT)
    b.alloc(cg)
    b.write(name[0], t(0), Q2, level=UNORDERED)
    b.arrive(t(0), Q2, cg[()])
    b.await_(cg[()], t(0), Q1, n=1)
    b.read(name[0], t(0), Q1)
    found = link(b)
    assert found.reached[-1].kind == "Arrive"
    assert "does not wait for arrival 0 of cg" in found.missing


def test_tasks() -> None:
    b = Builder()
    name = b.data("x", 1)
    with b.tasks("i", 0, 2):
        b.write(name[0], t(0), Q1)
        b.fence(t(0), Q1, Q1)
    assert link(b).missing == "tasks of one kernel are never ordered, but by flags"


def test_of_another_hazard_there_is_none() -> None:
    b = Builder()
    z = b.barrier("z")
    b.alloc(z)
    b.await_(z[()], t(0), Q1)
    program = b.program(Policy.PTX)
    (violation,) = literal.run(program, {})
    assert broken_link(program, {}, violation) is None


KINDS = tuple(generate.SHAPES)


@pytest.mark.parametrize("kind", KINDS)
def test_every_violation_of_generated_programs_has_a_link(kind: str) -> None:
    # The journey applies the rules to one access alone, and must fail where the machine does.
    told: set[str] = set()
    for seed in range(40):
        program = generate.program(Random(seed), kind).program
        sizes = {parameter.name.name: 3 for parameter in program.params}
        for violation in literal.run(program, sizes, collect=True):
            if violation.kind is HazardKind.LEAK:
                continue  # no link is missing: the value is another task's
            if isinstance(violation.check, amir.Check):
                found = broken_link(program, sizes, violation)
                assert found is not None, (seed, violation)
                told.add(re.sub(r"\d+", "", found.missing))
    assert len(told) > 3


# --- repairs follow from the reason ---------------------------------------------------------------


def repair(b: Builder, policy: Policy = Policy.PTX) -> str:
    """The repair that the program's first hazard names."""
    program = b.program(policy)
    return hazard_of(literal.run(program, {})[0], {}, program).help


def test_without_any_sync_a_fence() -> None:
    b = written()
    read(b, 1)
    assert repair(b) == (
        "between them, Fence(cuda_in_order, cuda_in_order) where the threads of both take part"
    )


def test_a_fence_without_the_reader_is_widened() -> None:
    b = written()
    b.fence(t(0, 2), Q1, Q1)
    read(b, 2)
    assert repair(b) == "move Fence at line 6 out to a scope with thread 2 in it"


def test_a_first_timeline_that_has_the_access() -> None:
    b = written()
    b.fence(t(0, 2), Q2, Q1, transitive=True)
    read(b, 1)
    assert repair(b) == "let the first timeline of Fence at line 6 be cuda_in_order"


def test_an_access_in_a_commit_group_is_waited_for_first() -> None:
    b = Builder()
    name, cg = b.data("x", 1), b.barrier("cg", mechanism=COMMIT)
    b.alloc(cg)
    b.write(name[0], t(0), Q2, level=UNORDERED)
    b.fence(t(0, 2), Q1, Q1, transitive=True)
    line = b.line
    b.read(name[0], t(1), Q1)
    assert repair(b) == (
        f"before Fence at line {line}, Arrive(Sm80_cp_async) >> cg and Await(cg, cuda_in_order, 0)"
    )


@pytest.mark.parametrize(("skip", "enough"), [(-2, "~0 instead of ~1"), (-3, "~0 instead of ~2")])
def test_the_skip_that_is_enough(skip: int, enough: str) -> None:
    assert repair(ring(skip)) == f"let Await at line 9 wait for it: {enough}"


def early_release(early: bool) -> Builder:
    """Thread 0 reads x by a commit group and releases it before its group is done, or after."""
    b = Builder()
    name, cg = b.data("x", 1), b.barrier("cg", mechanism=COMMIT)
    z = b.barrier("z", depth=9)
    b.alloc(cg)
    b.alloc(z)
    with b.loop("k", 0, 3):
        b.await_(z[()], t(1), Q1, n=-2)
        b.write(name[0], t(1), Q1)
        b.fence(t(0, 2), Q1, {Q1, Q2})
        b.read(name[0], t(0), Q2, level=UNORDERED)
        b.arrive(t(0), Q2, cg[()])
        if early:
            b.arrive(t(0), Q1, z[()], transitive=True)
        b.await_(cg[()], t(0), Q1)
        if not early:
            b.arrive(t(0), Q1, z[()], transitive=True)
    return b


def test_an_arrive_that_comes_too_early_is_moved() -> None:
    program = early_release(early=True).program(Policy.PTX)
    (violation,) = literal.run(program, {})
    lines = {type(op).__name__ + of(op): op.origin.span.line for op in operations(program.body)}
    assert hazard_of(violation, {}, program).help == (
        f"move the Arrive of line {lines['Arrive z']} after the Await at line {lines['Await cg']}"
    )
    # And that repairs it.
    repaired = early_release(early=False).program(Policy.PTX)
    assert all(v.kind is not violation.kind for v in literal.run(repaired, {}, collect=True))


def of(op: amir.Op) -> str:
    """The barrier that an operation is for."""
    match op:
        case amir.Arrive():
            return f" {op.home.name.name}"
        case amir.Await():
            return f" {op.barrier.name.name}"
        case _:
            return ""


@pytest.mark.parametrize("kind", KINDS)
def test_the_counts_at_a_barriers_end_differ_where_it_does_not_balance(kind: str) -> None:
    for seed in range(25):
        program = generate.program(Random(seed), kind).program
        sizes = {parameter.name.name: 3 for parameter in program.params}
        for violation in literal.run(program, sizes, collect=True):
            if violation.kind is HazardKind.BARRIER:
                assert isinstance(violation.check, amir.CheckBarrier)
                counts = counts_at(program, sizes, violation, violation.check.name)
                assert counts is not None and counts[0] != counts[1], (seed, violation)


def proxied(before: object) -> Builder:
    """Thread 0 reads, fences, and arrives; thread 1 awaits in time only and copies over it."""
    b = Builder()
    name, z = b.data("x", 1), b.barrier("z", depth=9)
    b.alloc(z)
    b.read(name[0], t(0), Q1)
    b.fence(t(0), Q1, before, TMA, transitive=True)
    b.arrive(t(0), Q1, z[()], transitive=True)
    b.await_(z[()], t(1), (), {Q1, TMA})
    b.write(name[0], t(1), TMA, level=UNORDERED)
    return b


def test_a_proxy_fence_earlier_on_the_way() -> None:
    fenced = proxied({Q1, TMA})
    assert literal.run(fenced.program(Policy.PTX), {}) == ()
    assert literal.run(fenced.program(Policy.PAPER), {}) == ()
    b = proxied(Q1)
    assert "without a proxy fence" in link(b).missing
    assert repair(b).startswith(
        "make the second timeline of Await at line 6 cuda_generic_and_async"
    )


# --- barriers themselves ------------------------------------------------------------------------


def hazards(b: Builder) -> list[Hazard]:
    program = b.program(Policy.PTX)
    return list(hazards_of(literal.run(program, {}, collect=True), {}, program))


def test_an_await_that_nothing_arrives_for() -> None:
    b = Builder()
    z = b.barrier("z")
    b.alloc(z)
    b.await_(z[()], t(0), Q1)
    (hazard,) = (h for h in hazards(b) if h.kind is HazardKind.DEADLOCK)
    assert hazard.first is None
    assert roles_of(hazard)[1] == "the Await at which program order blocks"
    assert "no Arrive signals z" in hazard.message
    assert hazard.help == f"add an Arrive >> z before the Await at line {hazard.second.span.line}"


def test_an_arrive_after_the_await_that_needs_it() -> None:
    b = Builder()
    z = b.barrier("z")
    b.alloc(z)
    b.await_(z[()], t(0), Q1)
    b.arrive(t(1), Q1, z[()])
    found = literal.run(b.program(Policy.PTX), {}, collect=True)
    assert [v.kind for v in found].count(HazardKind.DEADLOCK) == 2  # of the Await, of the Arrive
    (hazard,) = (h for h in hazards(b) if h.kind is HazardKind.DEADLOCK)
    assert hazard.first is not None and hazard.first.span.line < hazard.second.span.line
    assert roles_of(hazard) == (
        "the Await at which program order blocks",
        "the Arrive that it waits for",
    )
    line = hazard.second.span.line
    assert f"move the Arrive at line {line} before the Await" in hazard.help


def test_awaits_that_block_are_told_one_by_one() -> None:
    """Two Awaits are two hazards, and one that nothing arrives for keeps its place."""
    b = Builder()
    z, y = b.barrier("z"), b.barrier("y")
    b.alloc(z)
    b.alloc(y)
    b.await_(z[()], t(0), Q1)
    b.await_(z[()], t(0), Q1)
    b.await_(y[()], t(0), Q1)
    b.arrive(t(1), Q1, z[()])
    found = [h for h in hazards(b) if h.kind is HazardKind.DEADLOCK]
    assert len({(h.variable, (h.first or h.second).span) for h in found}) == len(found) == 3


@pytest.mark.parametrize("awaited", [True, False])
def test_a_trailing_tag_without_its_arrive(awaited: bool) -> None:
    b = Builder()
    name, z = b.data("x", 1), b.barrier("z")
    b.alloc(z)
    b.write(name[0], t(0), TMA, level=UNORDERED, trailing=amir.Trailing(z[()], (z[()],)))
    if awaited:
        b.await_(z[()], t(0), Q1)
    b.free_barrier(z)
    hazard = next(h for h in hazards(b) if h.first is not None)
    assert roles_of(hazard) == (
        "the instruction that signals it",
        "where the barrier ends without that Arrive",
    )
    assert hazard.first is not None
    # Where nothing awaits it, an Arrive alone would leave the barrier unbalanced.
    assert hazard.help.startswith("add an Arrive >> z") if awaited else hazard.help == ""


@pytest.mark.parametrize(("n", "left"), [(1, "last is"), (2, "last 2 are")])
def test_groups_that_are_never_awaited(n: int, left: str) -> None:
    b = Builder()
    cg = b.barrier("cg", mechanism=COMMIT)
    b.alloc(cg)
    with b.loop("k", 0, 3):
        b.arrive(t(0), Q2, cg[()])
        b.await_(cg[()], t(0), Q1, n=n)
    b.free_barrier(cg)
    (hazard,) = hazards(b)
    assert hazard.message == f"of 3 arrivals on cg the {left} never awaited"
    assert hazard.help == f"let the Await at line 4 wait for all of them: 0 instead of {n}"


def test_mbarriers_that_do_not_balance() -> None:
    b = Builder()
    z = b.barrier("z", 2, depth=9)
    b.alloc(z)
    with b.loop("k", 0, 3):
        b.arrive(t(0), Q1, z[1])
    b.await_(z[1], t(1), Q1)
    b.free_barrier(z)
    (hazard,) = hazards(b)
    assert hazard.message == (
        "z[1] has 3 Arrives and 1 Await when it ends: the Arrive at line 3 and the Await at line 4"
    )
    assert hazard.help == ""


def test_a_ring_that_is_too_shallow() -> None:
    b = Builder()
    z = b.barrier("z", depth=2)
    b.alloc(z)
    with b.loop("k", 0, 3):
        b.arrive(t(0), Q1, z[()])
    with b.loop("k", 0, 3):
        b.await_(z[()], t(1), Q1)
    hazard = next(h for h in hazards(b) if h.kind is HazardKind.PHASE)
    assert "the ring is 2 deep, 1 plus the skips of its Awaits, which sum to 1" in hazard.message
    assert hazard.help == "deepen the ring: ~1 instead of ~0 at line 5"


def test_a_waiter_that_runs_ahead_is_told_apart() -> None:
    b = Builder()
    z = b.barrier("z", depth=1)
    b.alloc(z)
    with b.loop("k", 0, 3) as k:
        b.arrive(t(0), Q1, z[()])
        b.await_(z[()], t(0), Q1)
        with b.when(at_least(k, 1)):
            b.arrive(t(0), Q1, z[()])
            b.await_(z[()], t(1), Q1)
            b.fence(t(0, 2), Q1)
    hazard = next(h for h in hazards(b) if h.kind is HazardKind.PHASE)
    assert hazard.first is None and hazard.second.role == "the Await that may run ahead"
    assert "this Await may end before arrival 2 of z" in hazard.message
    assert "after an Await for arrival 1, whose mbarrier it uses again" in hazard.message
    # Another Await would not balance with the Arrives; a Fence orders the threads of the two.
    assert hazard.help == (
        "between the Await at line 4 and this one, Fence(cuda_in_order, cuda_in_order) where the "
        "threads of both take part"
    )


# --- the paper's three examples -----------------------------------------------------------------

PAPER = {
    "example_1": (
        "ordered up to Fence at line 83 by all 256 threads of CTA 0; nothing after that passes it "
        "on to thread 0 of CTA 1 before the write at line 86"
    ),
    "example_2": (
        "no synchronisation stands between the example_wgmma of line 111 and the read at line 115"
    ),
    "example_3": (
        "ordered up to Await at line 153 by threads 0 to 127 of CTA 0; nobody orders the "
        "example_wgmma of line 139 before Arrive at line 149, for which Await at line 155 waits: "
        "its first timeline takes ordinary accesses (cuda1, cuda2), and by then its threads have "
        "seen it as wgmma reads of shared memory only"
    ),
}


@pytest.mark.parametrize("name", PAPER)
def test_the_papers_examples(name: str) -> None:
    program = vars(paper)[name].amir(Policy.PAPER)
    (violation,) = literal.run(program, {})
    assert str(broken_link(program, {}, violation)) == PAPER[name]
