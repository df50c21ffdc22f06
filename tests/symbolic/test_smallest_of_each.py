"""Each hazard that is told comes with its smallest sizes: at no smaller ones does the machine find
the same two statements at fault, nor at any smaller than the first hazard's anything at all."""

from __future__ import annotations

from collections.abc import Mapping
from dataclasses import replace
from itertools import product

import pytest

from exogpu import proc
from exogpu.amir.nodes import Program
from exogpu.diagnostics.hazards import Hazard, HazardKind
from exogpu.explain import hazard_text
from exogpu.ir.walk import holds
from exogpu.machine import fast
from exogpu.machine.observer import Violation
from exogpu.pipeline.check import answer
from exogpu.pipeline.refutation import Failures, hazards_of
from tests.symbolic.agreement import generated

SEVERAL = (HazardKind.DEADLOCK, HazardKind.PHASE)
"""Of these the machine names the last of several Awaits at fault."""

SEEDS = {
    "ring": (700, 701, 702),
    "waits": (700, 701, 702, 703),
    "groups": range(700, 706),
    "handovers": range(700, 712),
    "roles": range(700, 705),
    "turns": range(700, 706),
    "tiles": (700, 701, 702),
    "nests": (702,),
}
CASES = [(shape, seed) for shape, seeds in SEEDS.items() for seed in seeds]

LARGEST = 20
"""Hazards of larger sizes, as of rings of 32, are left out: there are too many smaller ones."""


def smaller(program: Program, sizes: Mapping[str, int]) -> list[dict[str, int]]:
    """The sizes that the preconditions admit, and that come before some."""
    names = [p.name.name for p in program.params]
    found = []
    for values in product(range(1, sum(sizes.values()) + 1), repeat=len(names)):
        at = dict(zip(names, values, strict=True))
        sigma = {p.name: at[p.name.name] for p in program.params}
        before = (sum(values), values) < (sum(sizes.values()), tuple(sizes.values()))
        if before and all(holds(one, sigma) for one in program.preconditions):
            found.append(at)
    return found


def of_hazard(hazard: Hazard) -> tuple[object, ...]:
    several = hazard.kind in SEVERAL or hazard.first is None
    first = None if several or hazard.first is None else hazard.first.span
    return hazard.kind, hazard.variable, first, hazard.second.span


def of_violation(found: Violation) -> tuple[object, ...]:
    several = found.kind in SEVERAL or found.record is None
    first = None if several or found.record is None else found.record.origin.span
    return found.kind, found.variable, first, found.check.origin.span


def not_smallest(program: Program) -> list[str] | None:
    """The hazards of a program that are found at smaller sizes, too; None where it is safe."""
    found = answer(program)
    if found.refutation is None:
        return None
    told: tuple[Hazard, ...] = ()
    for told in hazards_of(program, found.findings, found.refutation, Failures()):
        pass
    assert told
    ran: dict[tuple[int, ...], set[tuple[object, ...]]] = {}

    def at(sizes: Mapping[str, int]) -> set[tuple[object, ...]]:
        key = tuple(sizes.values())
        if key not in ran:
            run = fast.run(program, sizes, keep=fast.Keep.PAIRS, locate=False)
            ran[key] = set(map(of_violation, run.violations))
        return ran[key]

    wrong = [f"something at {one}" for one in smaller(program, found.refutation.sizes) if at(one)]
    for hazard in told:
        if sum(hazard.sizes.values()) <= LARGEST:
            also = [one for one in smaller(program, hazard.sizes) if of_hazard(hazard) in at(one)]
            wrong += [f"{hazard.kind.value} of {dict(hazard.sizes)} at {one}" for one in also[:1]]
    return wrong


@pytest.mark.slow
@pytest.mark.parametrize(("shape", "seed"), CASES)
def test_no_smaller_sizes_fail(shape: str, seed: int) -> None:
    assert not not_smallest(generated(shape, seed))


@proc
def waits_twice(K: size, x: f32[K, 32] @ CudaGmemLinear, y: f32[K, 32] @ CudaGmemLinear):
    """The second Await blocks in the first step, and is overtaken by an Arrive in the fourth."""
    with CudaDeviceFunction(blockDim=64):
        for task in cuda_tasks(0, 1):
            tile: f32[3, 32] @ CudaSmemLinear
            full: barrier[3] @ CudaMbarrier
            empty: barrier[3] @ CudaMbarrier
            for k in seq(0, K):
                with CudaWarps(0, 1):
                    Await(empty[k % 3], cuda_in_order, ~1)
                    for t in cuda_threads(0, 32, unit=cuda_thread):
                        tile[k % 3, t] = x[k, t]
                    Arrive(cuda_in_order) >> full[k % 3]
                with CudaWarps(1, 2):
                    Await(full[k % 3], cuda_in_order, ~0)
                    Await(full[k % 3], cuda_in_order, ~0)
                    for t in cuda_threads(0, 32, unit=cuda_thread):
                        y[k, t] = tile[k % 3, 31 - t]
                    Arrive(cuda_in_order) >> empty[k % 3]
            Fence(cuda_in_order, cuda_in_order)


def test_a_deadlock_that_comes_in_two_ways_is_told_at_its_smallest_sizes() -> None:
    found = [h for h in waits_twice.check().hazards if h.kind is HazardKind.DEADLOCK]
    assert [dict(h.sizes) for h in found] == [{"K": 1}, {"K": 4}]
    assert found[0].second.span != found[1].second.span
    assert not_smallest(waits_twice.amir()) == []


def test_the_property_sees_a_hazard_that_is_told_at_larger_sizes(
    monkeypatch: pytest.MonkeyPatch,
) -> None:
    def larger(told: object) -> tuple[Hazard, ...]:
        several = real(told)
        return tuple(replace(h, sizes={n: v + 1 for n, v in h.sizes.items()}) for h in several)

    real = hazard_text.deduplicate_hazards
    monkeypatch.setattr(hazard_text, "deduplicate_hazards", larger)
    assert not_smallest(waits_twice.amir())
