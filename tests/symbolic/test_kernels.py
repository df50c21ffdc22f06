"""The shipped kernels: nothing is found, for any size; and each mutant of one is judged as by the
concrete machine."""

from __future__ import annotations

from collections.abc import Iterator
from dataclasses import replace

import pytest

from exogpu.ir.types import Policy
from exogpu.kernels.gemm_sm80 import gemm_sm80
from exogpu.kernels.gemm_sm90 import KERNELS as GEMM_SM90
from exogpu.kernels.gemm_splitk_sm90 import KERNELS as GEMM_SPLITK
from exogpu.kernels.gemv import gemv
from exogpu.machine import amir, fast
from exogpu.symbolic.conditions import safe_condition
from exogpu.symbolic.prover import analyse
from exogpu.symbolic.refute import Refutation, refute
from exogpu.verdict import HazardKind

KERNELS = {**GEMM_SM90, **GEMM_SPLITK, "gemm_sm80": gemm_sm80, "gemv": gemv}

SIZES = {
    "gemm_sm90_2x1_128x256": [{"L": 1, "M": 1, "N": 1, "cluster_K": 32 * k} for k in (1, 2, 5, 7)],
    # The first trips, and rows that only the second half of the copies covers.
    "gemm_sm80": [{"M": m, "N": 1, "K": 16 * k} for m, k in [(1, 1), (1, 2), (1, 3), (33, 4)]],
}
"""Enough of them for every mutant's smallest failing size: the ring has 4 slots, 5 trips fill
it and come back."""


CASES = [(name, Policy.STRICT) for name in KERNELS]
CASES += [(name, Policy.PAPER) for name in KERNELS if "2x1" in name or name.endswith(("0", "v"))]


@pytest.mark.parametrize(("name", "policy"), CASES)
def test_nothing_is_found(name: str, policy: Policy) -> None:
    findings = analyse(KERNELS[name].amir(policy))
    assert (findings.violations, findings.undecided, findings.vacuous) == ((), (), False)
    assert findings.obligations >= 16


def machine(program, sizes):
    return fast.run(program, sizes).violations


Mutant = tuple[str, amir.Program]


def mutants(program: amir.Program) -> Iterator[Mutant]:
    """Each synchronisation statement deleted, weakened to temporal, and shifted by one."""
    for op in operations(program.body):
        at = f"line {op.origin.span.line}"
        if isinstance(op, amir.Fence | amir.Arrive | amir.Await):
            yield f"without {type(op).__name__} {at}", rewritten(program, op, ())
        if isinstance(op, amir.Fence | amir.Await) and op.full:
            temporal = replace(op, full=frozenset())
            yield f"temporal {type(op).__name__} {at}", rewritten(program, op, (temporal,))
        if isinstance(op, amir.Await):
            for n in (op.n - 1, op.n + 1):
                if (n < 0) == (op.n < 0):
                    shifted = rewritten(program, op, (replace(op, n=n),))
                    yield f"Await {op.n} -> {n} {at}", shifted


def operations(block: amir.Block) -> Iterator[amir.Op]:
    for op in block:
        yield op
        if isinstance(op, amir.Loop | amir.Guard):
            yield from operations(op.body)


def rewritten(program: amir.Program, site: amir.Op, new: amir.Block) -> amir.Program:
    def body(block: amir.Block) -> amir.Block:
        made: list[amir.Op] = []
        for op in block:
            if op is site:
                made += new
            elif isinstance(op, amir.Loop | amir.Guard):
                made.append(replace(op, body=body(op.body)))
            else:
                made.append(op)
        return tuple(made)

    return replace(program, body=body(program.body))


@pytest.mark.parametrize("name", SIZES)
def test_mutants(name: str) -> None:
    refuted = redundant = 0
    for label, mutant in mutants(KERNELS[name].amir(Policy.STRICT)):
        findings = analyse(mutant)
        assert not findings.undecided, label
        found = refute(mutant, findings, machine)
        if found is None:
            assert not any(machine(mutant, sizes) for sizes in SIZES[name]), label
            redundant += 1
            continue
        assert isinstance(found, Refutation), (label, found)
        refuted += 1
        smaller = [s for s in SIZES[name] if sum(s.values()) < sum(found.sizes.values())]
        assert not any(machine(mutant, sizes) for sizes in smaller), label
    assert refuted >= 9
    assert redundant >= 3, "the stream fences around the kernel, and a temporal empty Await"


def test_condition_of_splitk_without_atomics() -> None:
    # Reductions that are ordinary writes: tasks of one output tile race, unless there is one.
    program = GEMM_SPLITK["gemm_splitk_sm90_1x1_128x256"].amir(Policy.STRICT)
    for op in operations(program.body):
        if isinstance(op, amir.Record) and op.atomic:
            program = rewritten(program, op, (replace(op, atomic=frozenset()),))
    findings = analyse(program)
    assert {f.kind for f in findings.violations} == {HazardKind.RAW}
    assert {f.variable.name for f in findings.violations} == {"C"}
    assert safe_condition(program, findings) == "K_split = 1"
