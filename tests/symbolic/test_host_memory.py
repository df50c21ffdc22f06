"""Memory of the host ends only when the stream is done with it (decision `host-lifetime`).

Generated CPU parts: finder, literal and fast machine agree; what is proved computes the same
however late the stream copies; without the check at the end of host memory that would not be so.
"""

from __future__ import annotations

from random import Random

import pytest

from exogpu.amir import lower, lower_arguments
from exogpu.amir.nodes import Check, Program
from exogpu.amir.walk import operations
from exogpu.api import Procedure, proc
from exogpu.diagnostics.hazards import HazardKind
from exogpu.diagnostics.verdict import Policy, Proof
from exogpu.ir.types import QualTL
from exogpu.isa.cuda import cuda_memcpy_to_device, cuda_memcpy_to_host
from exogpu.machine import literal
from exogpu.symbolic.prove import prove
from exogpu.symbolic.search.analysis import analyse
from tests.machine import host_runs
from tests.machine.shapes import sources
from tests.machine.shapes.host import host
from tests.symbolic import agreement

SIZES = range(4)
SEEDS = range(0, 150, 10)
EACH = 10
"""Programs of one test."""


def written(seed: int) -> Procedure:
    return sources.procedure(host(Random(seed)))


def policy(seed: int) -> Policy:
    return (Policy.PTX, Policy.PAPER)[seed % 2]


def is_safe(program: Program, size: int) -> bool:
    """Whether nothing is wrong but reads of what nobody wrote, which are 0 here."""
    found = literal.run(program, {"K": size}, collect=True)
    return all(violation.kind is HazardKind.UNINIT for violation in found)


@pytest.mark.slow
@pytest.mark.parametrize("first", SEEDS)
def test_machines_and_prover_agree(first: int) -> None:
    for seed in range(first, first + EACH):
        program = written(seed).amir(policy(seed))
        sizes = [{"K": size} for size in SIZES]
        findings = agreement.check(program, sizes)
        for at in sizes:
            theirs = frozenset(agreement.machine_set(program, at))
            assert not agreement.machines_differ(program, at, theirs), seed
        if not findings.violations and not findings.undecided:
            assert isinstance(prove(findings), Proof), seed


@pytest.mark.parametrize("first", SEEDS)
def test_what_is_safe_computes_the_same_at_any_pace(first: int) -> None:
    for seed in range(first, first + EACH):
        procedure = written(seed)
        program = procedure.amir(policy(seed))
        for size in SIZES:
            if is_safe(program, size):
                assert not host_runs.depends_on_the_stream(procedure, size), (seed, size)


@pytest.mark.slow
def test_without_the_check_at_its_end_results_differ(monkeypatch: pytest.MonkeyPatch) -> None:
    """The rule before: memory of the host ended unasked."""
    monkeypatch.setattr(lower, "is_on_host", lambda variable: False)
    wrong = []
    for seed in range(150):
        procedure = written(seed)
        safe = is_safe(procedure.amir(policy(seed)), 3)
        wrong += [seed] if safe and host_runs.depends_on_the_stream(procedure, 3) else []
    assert len(wrong) > 2


def test_the_generator_has_both() -> None:
    """Safe programs that copy, and programs whose memory ends too early."""
    kinds: list[HazardKind] = []
    safe = 0
    for seed in range(60):
        program = written(seed).amir()
        found = literal.run(program, {"K": 2}, collect=True)
        kinds += {v.kind for v in found}
        frees = any(isinstance(op, Check) and op.free for op in operations(program.body))
        safe += frees and not found
    assert {HazardKind.FREE, HazardKind.WAR, HazardKind.RAW, HazardKind.WAW} <= set(kinds)
    assert safe > 5


# --- what the check is ----------------------------------------------------------------------------


@proc
def staged(n: size, x: f32[n] @ CudaGmemLinear):
    for k in seq(0, 2):
        t: f32[n] @ DRAM
        cuda_memcpy_to_host(n, t[:], x[:])
        Fence(cuda_stream_sync, cpu_in_order)


@proc
def constant(x: f32[4] @ CudaGmemLinear):
    for k in seq(0, 2):
        c: f32[1] @ CudaGridConstant
        c[0] = 1.0
        with CudaDeviceFunction(blockDim=32):
            for task in cuda_tasks(0, 1):
                for t in cuda_threads(0, 4, unit=cuda_thread):
                    x[t] += c[0]


@proc
def own_on_the_device(n: size, h: f32[n] @ DRAM):
    for k in seq(0, 2):
        d: f32[n] @ CudaGmemLinear
        cuda_memcpy_to_device(n, d[:], h[:])


def test_the_cpu_asks_for_all_accesses_at_the_end_of_the_block() -> None:
    checks = [op for op in operations(staged.amir().body) if isinstance(op, Check) and op.free]
    assert [op.mutates for op in checks] == [False, True]
    assert all(op.timelines == {QualTL.CPU} and op.origin.threads is None for op in checks)
    assert {op.origin.ends.line for op in checks if op.origin.ends} == {
        checks[0].origin.span.line + 2
    }
    assert staged.check().word == "proved"


@pytest.mark.parametrize("procedure", [constant, own_on_the_device], ids=lambda p: p.name)
def test_what_needs_no_wait(procedure: Procedure) -> None:
    """A launch copies what it takes by value when it is called; memory of the device is given back
    by the stream itself, in its order."""
    assert not any(isinstance(op, Check) and op.free for op in operations(procedure.amir().body))
    assert procedure.check().word == "proved"


def test_parameters_are_the_callers() -> None:
    assert not lower_arguments.is_on_host(constant.facts.proc.params[0])
    program = sources.procedure(
        sources.HEAD + "\n@proc\ndef out(n: size, h: f32[n] @ DRAM, x: f32[n] @ CudaGmemLinear):\n"
        "    cuda_memcpy_to_host(n, h[:], x[:])\n"
    ).amir()
    assert not analyse(program).violations
