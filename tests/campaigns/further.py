"""Whether the campaign tells a careless reading apart by one program."""

from __future__ import annotations

from dataclasses import replace
from functools import cache

import pytest

from campaigns import agreement
from exogpu.amir import nodes as amir
from exogpu.amir.walk import operations, rewritten
from exogpu.symbolic.search.analysis import Findings, analyse
from tests.symbolic import agreement as comparing
from tests.symbolic.careless_further import DEEPER, PROGRAMS, PROVERS, Change, deeper

MUTANTS = {
    **{name: shape for name, (shape, _) in (PROVERS | PROGRAMS).items()},
    **{f"a ring is a phase deeper in {shape}": shape for shape in DEEPER},
}
"""By name, the shape of programs that tell."""


@cache
def before(case: str) -> tuple[bool, bool]:
    """Whether something is wrong with a program, and whether it is proved."""
    return judged(case)


def judged(case: str) -> tuple[bool, bool]:
    found = agreement.outcome(case)
    return bool(found["wrong"]), bool(found["tally"]["proved"])


def killed(name: str, seed: int) -> str:
    """`disagreement`, or `no proof` of what was proved; empty where nobody notices."""
    case = f"{MUTANTS[name]}:{seed}"
    assert not before(case)[0], case
    with pytest.MonkeyPatch.context() as patch:
        applied(name, patch)
        if misses(MUTANTS[name], seed):
            return "disagreement"
        wrong, proved = judged(case)
    return "disagreement" if wrong else "no proof" if before(case)[1] and not proved else ""


def misses(shape: str, seed: int) -> bool:
    """Whether the sets of violations disagree at some size, which is seen before any proof."""
    program = comparing.admitting_zero(comparing.generated(shape, seed))
    findings = agreement.analyse(program)
    sizes = comparing.small_sizes(shape, program)
    return not all(comparing.compared(program, findings, at).agree for at in sizes)


def applied(name: str, patch: pytest.MonkeyPatch) -> None:
    """Applies a careless reading."""
    if name in PROVERS:
        PROVERS[name][1](patch)
    elif name in PROGRAMS:
        change = PROGRAMS[name][1]
        patch.setattr(agreement, "analyse", lambda program, **_: misled(program, change))
    else:
        patch.setattr(agreement, "analyse", lambda program, **_: analyse(deeper(program)))


def misled(program: amir.Program, change: Change) -> Findings:
    """What is found of a program whose operations are read wrongly, said of the operations."""
    found = {op: change(op) for op in operations(program.body)}
    kept = {op: new for op, new in found.items() if new != (op,)}
    meant = {one: op for op, new in kept.items() for one in new}
    findings = analyse(replace(program, body=rewritten(program.body, kept)))
    violations = []
    for one in findings.violations:
        check = replace(one.check, op=meant.get(one.check.op, one.check.op))
        record = one.record and replace(one.record, op=meant.get(one.record.op, one.record.op))
        violations.append(replace(one, check=check, record=record))
    return replace(findings, violations=tuple(violations))
