"""The rules that were unsound, each put back: then a wrong program passes, which an oracle shows.

`await-own-arrival`: all arrivals up to one's own.  `private-slot`: slots as values.
`host-lifetime`
is in `test_host_memory`.  `initialised`: nobody asks what is read.  The
oracles know nothing of the rules: what the hardware counts, numpy, and a stream that is late.
"""

from __future__ import annotations

from pathlib import Path

import numpy as np
import pytest

from exogpu.amir import lower, lower_arguments
from exogpu.amir.nodes import CheckInitialised, Program
from exogpu.amir.walk import operations
from exogpu.analysis import private_slots
from exogpu.api import Procedure
from exogpu.diagnostics.errors import ExoGpuError
from exogpu.diagnostics.verdict import Policy, Proof
from exogpu.interpreter import elementwise
from exogpu.ir.nodes import Proc
from exogpu.symbolic import model
from exogpu.symbolic.certificate.program_schema import check_program
from exogpu.symbolic.certificate.strict_json import MalformedError
from exogpu.symbolic.certificate.write import program_json
from exogpu.symbolic.encode import formulas, phase_obligations
from exogpu.symbolic.prove import prove
from exogpu.symbolic.search import analysis, rank_comparisons
from tests.machine.hardware import went_wrong
from tests.machine.shapes.handovers import late
from tests.symbolic.slot_files import CASES, alone, procedures

INITIALISED = Path(__file__).parent.parent / "cases" / "verdicts" / "initialised.py"
SLOTS = CASES / "private.py"


def proved(program: Program) -> bool:
    """Tests whether nothing is found, and Z3 confirms all obligations."""
    findings = analysis.analyse(program)
    if findings.violations or findings.undecided:
        return False
    return isinstance(prove(findings), Proof)


# --- await-own-arrival ----------------------------------------------------------------------------


def forget_own_arrival(patch: pytest.MonkeyPatch, *modules: object) -> None:
    for module in modules:
        patch.setattr(module, "own_arrival", lambda policy, n: False)


def test_an_await_of_all_arrivals_up_to_its_own(monkeypatch: pytest.MonkeyPatch) -> None:
    program = late(Policy.PTX)
    assert not proved(program)
    forget_own_arrival(monkeypatch, rank_comparisons)
    assert not proved(program), "the encoder does not believe the finder"
    forget_own_arrival(monkeypatch, formulas, phase_obligations)
    assert proved(program)
    assert went_wrong(late(Policy.PAPER), {}, orders=12, seed=0)


# --- private-slot ---------------------------------------------------------------------------------


def read_by_slots(proc: Proc, one_by_one: bool) -> np.ndarray:
    """Computes `y[m, k, t] = x[slot(full), t]`, all tasks on one cluster or each on its own."""
    x = np.random.default_rng(0).random((3, 32), np.float32)
    y = np.zeros((2, 2, 32), np.float32)
    for some in alone(proc, 2) if one_by_one else [proc]:
        elementwise.run(some, {"M": 2, "K": 2, "x": x, "y": y})
    return y


def test_a_slot_is_a_value(monkeypatch: pytest.MonkeyPatch) -> None:
    name = "read_of_global"
    assert procedures(SLOTS)[name].check().word == "error"
    monkeypatch.setattr(private_slots, "check", lambda proc: iter(()))
    procedure = procedures(SLOTS)[name]
    with pytest.raises(ExoGpuError, match="a slot that is private"):
        procedure.amir()
    monkeypatch.setattr(lower, "with_comparisons", lambda program: program)
    program = procedure.amir()
    assert not proved(program), "the model of the prover asks by itself"
    monkeypatch.setattr(model, "check_private_slots", lambda program: None)
    assert proved(program)
    assert procedure.ir is not None
    assert (read_by_slots(procedure.ir, True) != read_by_slots(procedure.ir, False)).any()


# --- initialised ----------------------------------------------------------------------------------


def computes_garbage(procedure: Procedure, sizes: dict[str, int]) -> bool:
    """Tests whether some result is what memory holds before anybody writes it."""
    x = np.ones([sizes[n] for n in ("M", "K") if n in sizes] or (sizes["n"], 32), np.float32)
    y = np.zeros(sizes.get("M", 32), np.float32)
    procedure.run(x=x, y=y, **sizes)
    return bool(np.isnan(y).any())


UNWRITTEN = {"no_zero": {"n": 2}, "sometimes": {"n": 1}}


@pytest.mark.parametrize("name", UNWRITTEN)
def test_nobody_asks_what_is_read(name: str, monkeypatch: pytest.MonkeyPatch) -> None:
    procedure = procedures(INITIALISED)[name]
    assert not proved(procedure.amir(Policy.PTX))
    monkeypatch.setattr(lower_arguments, "may_be_uninitialised", lambda low, access: False)
    program = lower.lower(procedure.facts, Policy.PTX)
    assert not any(isinstance(op, CheckInitialised) for op in operations(program.body))
    assert proved(program)
    with pytest.raises(MalformedError, match="does not ask whether it has been written"):
        check_program(program_json(program))
    assert computes_garbage(procedure, UNWRITTEN[name])
