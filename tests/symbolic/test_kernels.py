"""The shipped kernels: nothing is found, for any size; and a sample of the mutants of some is
judged as by the concrete machine.  `campaigns/mutants.py` judges them all."""

from __future__ import annotations

from dataclasses import replace

import pytest

from examples import erroneous_synchronisation as paper
from exogpu.amir import nodes as amir
from exogpu.amir.walk import operations, rewritten
from exogpu.api import Procedure
from exogpu.diagnostics.hazards import HazardKind
from exogpu.diagnostics.verdict import Policy
from exogpu.kernels.gemm_sm80 import gemm_sm80
from exogpu.kernels.gemm_sm90 import KERNELS as GEMM_SM90
from exogpu.kernels.gemm_splitk_sm90 import KERNELS as GEMM_SPLITK
from exogpu.kernels.gemv_f32 import gemv
from exogpu.symbolic.search.analysis import analyse
from tests.symbolic.agreement import safe_condition
from tests.symbolic.judging import GRIDS, judge
from tests.symbolic.kernel_mutants import Mutant, mutants

pytestmark = pytest.mark.slow

KERNELS = {**GEMM_SM90, **GEMM_SPLITK, "gemm_sm80": gemm_sm80, "gemv": gemv}

CASES = [(name, Policy.PTX) for name in KERNELS]
CASES += [(name, Policy.PAPER) for name in KERNELS if "2x1" in name or name.endswith(("0", "v"))]


@pytest.mark.parametrize(("name", "policy"), CASES)
def test_nothing_is_found(name: str, policy: Policy) -> None:
    findings = analyse(KERNELS[name].amir(policy))
    assert (findings.violations, findings.undecided, findings.vacuous) == ((), (), False)
    assert findings.obligations >= 16


WHOLE = ("without", "skip", "skip, same depth")
"""Mistakes of which each one is judged, of a GEMM too; of the others, one in `share`."""


def sample(kernel: Procedure, share: int) -> list[Mutant]:
    every = list(mutants(kernel.amir(Policy.PTX)))
    others = [mutant for mutant in every if mutant.operator not in WHOLE]
    return [mutant for mutant in every if mutant.operator in WHOLE] + others[::share]


@pytest.mark.parametrize(
    ("kernel", "share", "refuted", "redundant"),
    [
        pytest.param(GEMM_SM90["gemm_sm90_2x1_128x256"], 17, 14, 8, marks=pytest.mark.long),
        pytest.param(gemm_sm80, 23, 6, 4, marks=pytest.mark.long),
        (paper.example_1_repaired, 3, 3, 10),
        (paper.example_2_repaired, 3, 4, 10),
        (paper.example_3_repaired, 3, 8, 10),
    ],
    ids=lambda value: getattr(value, "name", ""),
)
def test_mutants(kernel: Procedure, share: int, refuted: int, redundant: int) -> None:
    words: list[str] = []
    for mutant in sample(kernel, share):
        judged = judge(mutant.program, GRIDS.get(kernel.name, [{}]))
        assert judged.disagreements == (), mutant.label
        assert judged.word != "undecided", (mutant.label, judged.reason)
        words.append(judged.word)
    # Neither a prover that refutes nothing nor one that refutes everything would do.
    assert len(words) - words.count("safe") >= refuted
    assert words.count("safe") >= redundant


def test_condition_of_splitk_without_atomics() -> None:
    # Reductions that are ordinary writes: tasks of one output tile race, unless there is one.
    program = GEMM_SPLITK["gemm_splitk_sm90_1x1_128x256"].amir(Policy.PTX)
    edits: dict[amir.Op, amir.Block] = {
        op: (replace(op, atomic=frozenset()),)
        for op in operations(program.body)
        if isinstance(op, amir.Record) and op.atomic
    }
    program = replace(program, body=rewritten(program.body, edits))
    findings = analyse(program)
    assert {f.kind for f in findings.violations} == {HazardKind.RAW}
    assert {f.variable.name for f in findings.violations} == {"C"}
    assert safe_condition(program, findings) == "K_split = 1"
