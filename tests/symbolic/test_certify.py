"""Certificates: every obligation of a program is confirmed exactly where the literal machine finds
nothing; none is confirmed for want of instances; none outlives a change to its chain."""

from __future__ import annotations

from collections.abc import Iterator
from dataclasses import dataclass, replace
from itertools import cycle

import pytest

from exogpu.amir import nodes as amir
from exogpu.amir.nodes import Check, Clear, Record
from exogpu.diagnostics.hazards import HazardKind
from exogpu.diagnostics.verdict import Policy, Proof
from exogpu.ir.types import Level
from exogpu.kernels.gemm_sm80 import gemm_sm80
from exogpu.kernels.gemm_sm90 import KERNELS as GEMM_SM90
from exogpu.kernels.gemm_splitk_sm90 import KERNELS as GEMM_SPLITK
from exogpu.kernels.gemv_f32 import gemv
from exogpu.machine import literal
from exogpu.machine.literal_records import VisibilityRecord
from exogpu.machine.observer import Moment, Observer, Violation
from exogpu.solvers.smt import ask_together, ask_z3
from exogpu.solvers.smtlib import plain
from exogpu.symbolic import prove
from exogpu.symbolic.encode.encoder import Draft
from exogpu.symbolic.encode.formulas import Instance
from exogpu.symbolic.encode.pieces import linear
from exogpu.symbolic.encode.script import Script
from exogpu.symbolic.search.analysis import Findings, Undecided, analyse
from exogpu.symbolic.sites import UndecidedError
from tests.machine.build import COMMIT, Q1, Q2, TMA, UNORDERED, Builder, at_least, div, mod, t
from tests.symbolic.agreement import SHAPES, Sizes, admitting_zero, generated, small_sizes
from tests.symbolic.dropped import reads, write

pytestmark = pytest.mark.slow

ACCESSES = (HazardKind.RAW, HazardKind.WAR, HazardKind.WAW, HazardKind.FREE)


@dataclass(frozen=True)
class Answers:
    """The obligations that a solver does not confirm; or why they were not made."""

    made: int
    refused: tuple[Draft, ...]
    undecided: str = ""
    words: frozenset[str] = frozenset()
    """What the solver said of those."""

    @property
    def certified(self) -> bool:
        return not self.refused and not self.undecided


def answers(findings: Findings) -> Answers:
    """Every obligation is asked, also of programs in which something was found."""
    assert findings.evidence is not None
    made: list[Draft] = []
    why = ""
    try:
        for draft in prove.drafts(findings.evidence):
            made.append(draft)
    except UndecidedError as reason:
        why = reason.reason
    asked = [draft for draft in made if draft.script]
    replies = ask_together([plain(draft.script) for draft in asked])
    words = [(draft, reply.word) for draft, reply in zip(asked, replies, strict=True)]
    refused = tuple(draft for draft, word in words if word != "unsat")
    return Answers(len(made), refused, why, frozenset(w for _, w in words if w != "unsat"))


# --- generated programs ---------------------------------------------------------------------------

SEEDS = {
    "chains": 10,
    "fences": 12,
    "proxies": 4,
    "straight_line": 12,
    "ring": 6,
    "multicast": 4,
    "waits": 8,
    "groups": 12,
    "nested": 8,
    "threads": 8,
    "tasked": 8,
    "tiles": 10,
    "nests": 4,
    "casts": 3,
    "windows": 4,
    "resident": 4,
    "flags": 6,
    "roles": 4,
    "turns": 6,
    "handovers": 6,
}
"""By shape, how many programs, under one policy and the other in turn."""

CASES = [
    (shape, seed, policy)
    for shape, count in SEEDS.items()
    for first in (703 if shape == "casts" else 700,)  # of casts, some take minutes
    for seed, policy in zip(range(first, first + count), cycle(Policy), strict=False)
]

UNDECIDED = (
    "at CPU scope",  # barriers at CPU scope
    "no one ring depth holds",
    "no quasi-affine function",
    "is allocated in several places, or used outside its allocation",
    "threads outside of tasks, after one",
)
"""Why obligations may not be made."""


def excludes(draft: Draft, violation: Violation) -> bool:
    """Whether the obligation says that there is no such violation."""
    if violation.kind not in {*ACCESSES, HazardKind.LEAK}:
        return draft.kind is violation.kind and draft.variable.name == violation.variable
    assert draft.second is not None
    record = None if draft.first is None else draft.first.op
    return (record, draft.second.op) == (violation.record, violation.check)


def test_every_shape_is_certified() -> None:
    """Of slots sets are not compared: test_slots_agree has their verdicts."""
    assert SEEDS.keys() | {"slots", "relays", "unequal"} == set(SHAPES)


@pytest.mark.parametrize(("shape", "seed", "policy"), CASES)
def test_certified_iff_nothing_is_wrong(shape: str, seed: int, policy: Policy) -> None:
    program = replace(admitting_zero(generated(shape, seed)), policy=policy)
    wrong = machine_finds(program, small_sizes(shape, program))
    findings = analyse(program)
    found = answers(findings)
    if found.undecided:
        assert any(reason in found.undecided for reason in UNDECIDED)
        return
    for violation in wrong:
        assert any(excludes(draft, violation) for draft in found.refused), violation
    if not findings.violations and not findings.undecided:
        # Sums of many divisions, as nests have, may be beyond the solver's budget.
        assert found.certified or (shape == "nests" and found.words == {"unknown"})


def machine_finds(program: amir.Program, sizes: list[Sizes]) -> list[Violation]:
    found: dict[object, Violation] = {}
    for at in sizes:
        for violation in literal.run(program, at, collect=True):
            key = (violation.kind, violation.variable, violation.check, violation.record)
            found.setdefault(key, violation)
    return list(found.values())


# --- shipped kernels ------------------------------------------------------------------------------

KERNELS = {
    name: {**GEMM_SM90, **GEMM_SPLITK, "gemm_sm80": gemm_sm80, "gemv": gemv}[name]
    for name in ("gemm_sm90_2x1_128x256", "gemm_splitk_sm90_2x1_128x256", "gemm_sm80", "gemv")
}


@pytest.mark.parametrize("name", KERNELS)
@pytest.mark.parametrize("policy", Policy)
def test_kernel_is_proved(name: str, policy: Policy) -> None:
    found = prove.prove(analyse(KERNELS[name].amir(policy)))
    assert isinstance(found, Proof)
    assert found.complete and len(found.answered) >= 16


# --- no obligation is vacuous ---------------------------------------------------------------------


def assumptions(draft: Draft) -> str:
    """The script without its last assertion, the negated claim."""
    lines = draft.script.splitlines()
    last = max(at for at, line in enumerate(lines) if line.startswith("(assert"))
    return "\n".join([*lines[:last], *lines[last + 1 :]])


class Met(Observer):
    """The pairs of a Record and a Check that touch one element, Clears aside, and the operations
    that run."""

    def __init__(self) -> None:
        super().__init__()
        self.met: set[object] = set()

    def step(self, at: Moment) -> bool:
        self.met.add(at.op)
        return True

    def asks(self, at: Moment) -> bool:
        return not isinstance(at.op, Clear)

    def checked(self, at: Moment, record: Moment, unseen: list[VisibilityRecord]) -> None:
        self.met.add((record.op, at.op))


def met(program: amir.Program, sizes: list[Sizes]) -> set[object]:
    """What meets, and what runs, at some of the sizes."""
    run = Met()
    for at in sizes:
        literal.run(program, at, run)
    return run.met


FIRST = dict.fromkeys(SHAPES, 900) | {"nests": 903}
"""By shape, the first of three programs; of nests, some take half a minute."""


@pytest.mark.parametrize(
    ("shape", "seed"), [(s, seed) for s, first in FIRST.items() for seed in range(first, first + 3)]
)
def test_what_is_never_asked_never_happens(shape: str, seed: int) -> None:
    program = admitting_zero(generated(shape, seed))
    happened = met(program, small_sizes(shape, program))
    findings = analyse(program)
    if shape == "relays" and findings.evidence is None:
        assert findings.undecided  # where a guard reads the task
        return
    assert findings.evidence is not None
    for draft in made(findings):
        pair = isinstance(draft.second.op, Check) and draft.first is not None
        if not pair and draft.kind is not None:
            continue
        what = (draft.first.op, draft.second.op) if pair else draft.second.op
        if what in happened:
            assert ask_z3(assumptions(draft)).word != "unsat"


def made(findings: Findings) -> Iterator[Draft]:
    """The obligations that a solver is asked."""
    assert findings.evidence is not None
    try:
        yield from (draft for draft in prove.drafts(findings.evidence) if draft.script)
    except UndecidedError:
        return


def test_every_pair_of_a_kernel_meets_or_cannot() -> None:
    program = gemv.amir(Policy.PTX)
    happened = met(program, [{"M": 33, "K": 68}])
    pairs = {what for what in happened if isinstance(what, tuple)}
    asked = {
        (draft.first.op, draft.second.op)
        for draft in made(analyse(program))
        if draft.first is not None and isinstance(draft.first.op, Record)
        if ask_z3(assumptions(draft)).word == "sat"
    }
    assert len(pairs) >= 10
    assert pairs <= asked


# --- altered chains -------------------------------------------------------------------------------


def count_instances(findings: Findings, monkeypatch: pytest.MonkeyPatch, shifted: int = -1) -> int:
    """How many instances the scripts name; the innermost iterator of one of them is shifted."""
    count = 0
    kept = Script.name_instance

    def named(self, instance: Instance):
        nonlocal count
        count += 1
        if count - 1 == shifted:
            values = dict(instance.values)
            name = list(values)[-1]
            values[name] = linear(1, [(1, values[name])])
            instance = Instance(instance.site, values)
        return kept(self, instance)

    with monkeypatch.context() as patch:
        patch.setattr(Script, "name_instance", named)
        refused = answers(findings).refused
    assert bool(refused) is (shifted >= 0)
    return count


def handover(trailing: bool) -> amir.Program:
    """One slot that a producer and a consumer hand to each other, K times."""
    b = Builder()
    x = b.data("x")
    full, empty = b.barrier("full", depth=1), b.barrier("empty", depth=1)
    b.alloc(full)
    b.alloc(empty)
    with b.loop("k", 0, b.size("K")):
        b.await_(empty[()], t(0), (), (Q1, TMA), n=-2)
        if trailing:
            tag = amir.Trailing(full[()], (full[()],))
            b.write(x[()], t(0), TMA, level=UNORDERED, trailing=tag)
            b.arrive(t(0), (), full[()])
        else:
            b.write(x[()], t(0), Q1)
            b.arrive(t(0), Q1, full[()])
        b.await_(full[()], t(1), (Q1, TMA), Q2)
        b.read(x[()], t(1), TMA)
        b.arrive(t(1), TMA, empty[()], transitive=True)
    b.free_barrier(full)
    b.free_barrier(empty)
    return b.program()


@pytest.mark.parametrize("trailing", [False, True])
def test_altered_chain_is_refused(trailing: bool, monkeypatch: pytest.MonkeyPatch) -> None:
    findings = analyse(handover(trailing))
    assert not findings.violations and not findings.undecided
    count = count_instances(findings, monkeypatch)
    assert count > 15
    for shifted in range(count):
        count_instances(findings, monkeypatch, shifted)


# --- what once went wrong -------------------------------------------------------------------------


def word(program: amir.Program) -> str:
    """As the answer for all sizes has it, refutations not replayed."""
    findings = analyse(program)
    if findings.violations:
        return "refuted"
    if findings.undecided:
        return "undecided"
    return "undecided" if isinstance(prove.prove(findings), Undecided) else "proved"


def test_allocation_within_the_frame_of_another_barrier() -> None:
    # The counts of `inner` restart with each allocation, though `outer` makes their frame wider.
    b = Builder()
    count = b.size("K")
    outer, inner = b.barrier("outer"), b.barrier("inner")
    b.alloc(outer)
    with b.loop("i", 0, count):
        b.alloc(inner)
        with b.loop("k", 0, count):
            for z in (inner, outer):
                b.arrive(t(0), Q1, z[()])
                b.await_(z[()], t(0), Q1)
        b.free_barrier(inner)
    b.free_barrier(outer)
    assert word(b.program()) == "proved"


@pytest.mark.parametrize("inside", [True, False])
def test_trailing_barrier_outside_a_nest(inside: bool) -> None:
    b = Builder()
    count, x = b.size("K"), b.data("x")
    z = b.barrier("z", mechanism=COMMIT)
    b.alloc(z)
    if not inside:
        b.record(x[()], t(0), TMA, trailing=amir.Trailing(z[()], (z[()],)))
    with b.loop("i", 0, count), b.loop("k", 0, count):
        if inside:
            b.record(x[()], t(0), TMA, trailing=amir.Trailing(z[()], (z[()],)))
        b.arrive(t(0), Q1, z[()])
        b.await_(z[()], t(0), Q1)
    b.free_barrier(z)
    assert word(b.program()) == ("proved" if inside else "undecided")


@pytest.mark.parametrize("name", ["div", "mod", "true", "let", "exists", "distinct", "xor"])
def test_sizes_with_names_of_the_solver(name: str) -> None:
    b = Builder()
    count, x = b.size(name), b.data("x", 4)
    with b.loop("k", 0, count) as k, b.when(at_least(3, mod(k, 5))):
        write(b, x, mod(k, 4))
        reads(b, x, mod(k, 4), by=t(0))
    assert word(b.program()) == "proved"


def test_no_timeline_sees_nothing() -> None:
    b = Builder()
    x = b.data("x")
    write(b, x)
    b.check(x[()], t(0), (), mutates=True, level=Level.INVISIBLE)
    program = b.program()
    assert literal.run(program, {})
    assert word(program) == "refuted"


def test_threads_outside_of_tasks_after_one() -> None:
    # The machine's task is then the last one that ran: its thread 0 is another.
    b = Builder()
    count, x = b.size("K"), b.data("x")
    write(b, x)
    with b.tasks("task", 0, count):
        b.fence(t(0), Q1, Q1)
    reads(b, x, by=t(0))
    program = b.program()
    assert literal.run(program, {"K": 1})
    assert word(program) == "undecided"


def test_task_that_begins_under_a_guard() -> None:
    b = Builder()
    count, x = b.size("K"), b.data("x")
    with b.tasks("task", 0, count) as task:
        write(b, x)
        with b.when(at_least(task, 0)):
            b.emit(amir.IncTaskID(b.origin("task", None)))
        reads(b, x, by=t(0))
    assert word(b.program()) == "undecided"


def test_divisions_of_sizes_in_accesses_and_threads() -> None:
    b = Builder()
    count, x = b.size("K"), b.data("x", 4)
    write(b, x, mod(count, 4), by=t(div(count, 2)))
    reads(b, x, mod(count, 4), by=t(div(count, 2)))
    assert word(b.program()) == "proved"


def test_depth_is_asked_at_the_free_alone() -> None:
    # Two arrivals without an Await rule out depth 1 only; and without a free no depth is sought.
    b = Builder()
    z = b.barrier("z")
    b.alloc(z)
    with b.loop("k", 0, b.size("K")):
        b.arrive(t(0), Q1, z[()])
    b.await_(z[()], t(1), n=-2)
    program = b.program()
    assert not literal.run(program, {"K": 40})
    assert word(program) == "proved"
