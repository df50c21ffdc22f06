"""`synchronise`: what it proposes is proved, is needed, and is what the kernel lacked."""

from __future__ import annotations

from dataclasses import FrozenInstanceError, replace
from functools import cache
from pathlib import Path

import pytest
from gpu_steps import beyond, copied, fenced, loaded, plain, racing, reversal, staged

from exogpu import ExoGpuError, Policy, schedule
from exogpu.api import Procedure, collecting
from exogpu.cli import loader
from exogpu.kernels.gemm_sm80 import gemm_sm80
from exogpu.kernels.gemm_sm90 import KERNELS
from exogpu.schedule.checking.opened_procedure import SYNCHRONISATION, same_but_for_silence
from exogpu.schedule.derivations import with_ir
from exogpu.schedule.synchronise import Synchronised

UNWRITTEN = str(Path(__file__).parent.parent / "cases" / "verdicts" / "initialised.py")
MUSEUM = Path(__file__).parent.parent.parent / "examples" / "museum"

SMALL: dict[str, tuple[Procedure, tuple[str, ...]]] = {
    # One Fence between the two loops, and the one at the end is there.
    "fence": (reversal, ("insert_fence",)),
    # From nothing: one between the loops, one before the tile's memory is used again.
    "fences": (schedule.without_synchronisation(fenced), ("insert_fence", "insert_fence")),
    # cp.async: a group for each thread, awaited, then a Fence for the others.
    "group": (
        copied,
        ("insert_barrier_alloc", "insert_arrive", "insert_await", "insert_fence", "insert_fence"),
    ),
    # TMA to ordinary reads: full and empty, and a proxy fence before the slot is given back.
    "ring": (
        schedule.without_synchronisation(loaded),
        (
            "insert_barrier_alloc",
            "insert_barrier_alloc",
            "set_trailing_barrier_expr",
            "insert_arrive",
            "insert_arrive",
            "insert_await",
            "insert_await",
            "insert_fence",
            "insert_fence",
        ),
    ),
    # Ordinary writes to a TMA store: a proxy fence before, a group after, a Fence for the others.
    "store": (
        staged,
        ("insert_barrier_alloc", "insert_arrive", "insert_await", "insert_fence", "insert_fence"),
    ),
}


@cache
def completed(name: str) -> Synchronised:
    """What is proposed for a small kernel."""
    return schedule.synchronise(SMALL[name][0], seconds=60)


@pytest.mark.parametrize("name", SMALL)
def test_what_a_small_kernel_lacks(name: str) -> None:
    kernel, steps = SMALL[name]
    found = completed(name)
    assert found, str(found)
    (proposal,) = found.proposals
    assert sorted(step.primitive for step in proposal.steps) == sorted(steps)
    assert proposal.verdict.word == proposal.procedure.check().word == "proved"
    assert same_but_for_silence(kernel.ir, proposal.procedure.ir)
    made_by = [step.primitive for _, step in schedule.chain(proposal.procedure)][: len(steps)]
    assert made_by == [step.primitive for step in reversed(proposal.steps)]


@pytest.mark.slow
@pytest.mark.parametrize("name", SMALL)
def test_nothing_that_was_added_is_superfluous(name: str) -> None:
    made = completed(name).proposals[0].procedure
    for pattern in ("Fence(_)", "Await(_)", "Arrive(_)_"):
        for cursor in schedule.find_all(made, pattern):
            try:
                less = schedule.delete_sync(made, cursor)
            except ExoGpuError:
                continue  # not even well-formed
            assert less.check().word != "proved", str(cursor)


@pytest.mark.slow
def test_several_proposals_come_the_smallest_first() -> None:
    found = schedule.synchronise(schedule.without_synchronisation(loaded), count=2, seconds=100)
    sizes = [len(proposal.steps) for proposal in found.proposals]
    assert len(sizes) == 2 and sizes == sorted(sizes)
    assert len({schedule.text(proposal.procedure) for proposal in found.proposals}) == 2
    assert all(proposal.verdict.word == "proved" for proposal in found.proposals)


@pytest.mark.slow
def test_a_proved_procedure_needs_nothing() -> None:
    found = schedule.synchronise(gemm_sm80, seconds=60)
    (proposal,) = found.proposals
    assert proposal.procedure is gemm_sm80 and proposal.steps == ()
    assert str(found) == "nothing is missing"


def test_what_no_synchronisation_mends_is_told() -> None:
    """Two tasks write one element: nothing orders them."""
    found = schedule.synchronise(racing, seconds=20)
    assert not found and not found.proposals
    assert [hazard.kind for hazard in found.remaining] == ["WAW"]
    assert "`y[0, t] = x[m, t]`" in str(found.remaining[0])
    assert found.tried > 1 and found.sizes and found.before >= 1
    assert "no other change mends anything" in found.reason
    assert str(found).startswith("nothing is proposed: ")


@pytest.mark.parametrize("name", ["no_zero", "short", "next_slot"])
def test_a_read_of_what_nobody_writes_is_told(name: str) -> None:
    """No order of accesses mends it."""
    with collecting():
        read = {u.procedure.name: u.procedure for u in loader.load(UNWRITTEN) if u.procedure}
    found = schedule.synchronise(read[name], seconds=20)
    assert not found and "UNINIT" in {hazard.kind for hazard in found.remaining}


def test_what_is_refuted_for_another_reason_is_told() -> None:
    found = schedule.synchronise(beyond, seconds=30)
    assert not found and "what was found is refuted: " in found.reason
    assert "out of bounds" in str(found)


def test_the_budget_ends_with_an_answer() -> None:
    told: list[str] = []
    bare = schedule.without_synchronisation(loaded)
    found = schedule.synchronise(bare, seconds=1.0, progress=told.append)
    if not found:  # a fast machine may be done, or have tried all but for all sizes
        assert "budget of 1 s" in found.reason
        assert found.before
    assert found.seconds < 15
    assert told and "tried" in told[0]


def test_an_ill_formed_procedure_is_refused_with_what_is_wrong() -> None:
    wrong = schedule.set_loop_mode(plain, "m", "tasks")
    with pytest.raises(ExoGpuError) as refusal:
        schedule.synchronise(wrong)
    assert refusal.value.diagnostics == wrong.diagnostics


def test_the_answer_is_frozen() -> None:
    found = schedule.synchronise(reversal, seconds=60)
    with pytest.raises(FrozenInstanceError):
        found.reason = ""  # type: ignore[misc]


@pytest.mark.slow
def test_policy_paper_needs_less() -> None:
    """The paper lets TMA overwrite what was read: the proxy fence is of policy ptx."""
    bare = schedule.without_synchronisation(loaded)
    found = schedule.synchronise(bare, policy=Policy.PAPER, seconds=60)
    assert found and found.proposals[0].verdict.policy is Policy.PAPER
    assert "cuda_generic_and_async)" not in schedule.text(found.proposals[0].procedure).replace(
        "Await(full, cuda_generic_and_async", ""
    )


def bugs() -> list[tuple[str, str]]:
    return [
        (file.stem, name)
        for file in sorted(MUSEUM.glob("*.py"))
        for name in load(file)
        if name.startswith(("bug", "uncovered"))
    ]


def load(file: Path) -> dict[str, Procedure]:
    with collecting() as found:
        exec(compile(file.read_text(), str(file), "exec"), {"__name__": file.stem})
    return {p.name: p for p in found}


@pytest.mark.slow
@pytest.mark.parametrize(("stem", "name"), bugs())
def test_each_bug_of_the_museum_is_mended(stem: str, name: str) -> None:
    bug = load(MUSEUM / f"{stem}.py")[name]
    found = schedule.synchronise(bug, seconds=120)
    assert found, str(found)
    mended = found.proposals[0].procedure
    assert same_but_for_silence(bug.ir, mended.ir)
    again = with_ir(bug, replace(mended.ir, name="again"))  # no verdict is remembered
    assert again.check().word == "proved"


@pytest.mark.slow
@pytest.mark.parametrize(
    "kernel",
    [
        gemm_sm80,
        KERNELS["gemm_sm90_1x1_128x256"],
        pytest.param(KERNELS["gemm_sm90_2x2_128x256"], marks=pytest.mark.long),
    ],
    ids=lambda k: k.name,
)
def test_the_shipped_gemm_gets_its_synchronisation_back(kernel: Procedure) -> None:
    bare = schedule.without_synchronisation(kernel)
    found = schedule.synchronise(bare, seconds=240)
    assert found, str(found)
    made = found.proposals[0].procedure
    assert made.check().word == "proved"
    assert same_but_for_silence(kernel.ir, made.ir)
    assert made.emit("sm_90a")  # and there is a lowering
    # No more synchronisation than the author wrote.
    assert statements(made) <= statements(kernel)
    if kernel is not gemm_sm80:  # the ring has the depth of the tiles
        assert ", cuda_temporal, ~4)" in schedule.text(made) and "barrier(full)" in schedule.text(
            made
        )


RINGED = KERNELS["gemm_sm90_2x1_128x256"]


@pytest.mark.slow
@pytest.mark.parametrize(
    "pattern",
    [
        "Fence(wgmma_fence_1, _)",
        "Fence(cuda_in_order, _)",
        "Await(empty[_)",
        "Await(full[_)",
        "Await(cg[_)",
        "Arrive(_) >> full[_",
        "Arrive(_) >> empty[_",
    ],
)
def test_one_statement_that_is_lost_is_found_again(pattern: str) -> None:
    less = schedule.delete_sync(RINGED, pattern)
    assert less.check().word == "refuted"
    found = schedule.synchronise(less, seconds=240)
    assert found, str(found)
    (step,) = found.proposals[0].steps
    assert step.primitive == f"insert_{pattern.partition('(')[0].lower()}"


def statements(procedure: Procedure) -> int:
    return sum(isinstance(c.stmt, SYNCHRONISATION) for c in everything(procedure))


def everything(procedure: Procedure) -> tuple[schedule.Cursor[Procedure], ...]:
    patterns = ("Fence(_)", "Arrive(_)_", "Await(_)", "_: barrier_")
    return tuple(cursor for pattern in patterns for cursor in schedule.find_all(procedure, pattern))
