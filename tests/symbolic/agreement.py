"""Comparison of the prover with the literal machine: sets of violations, not verdicts."""

from __future__ import annotations

from collections.abc import Iterable, Mapping
from dataclasses import replace
from random import Random

from exogpu.ir.nodes import Compare, CVar, Int
from exogpu.machine import amir, literal
from exogpu.machine.violation import Violation
from exogpu.symbolic.findings import Instance, instances
from exogpu.symbolic.prover import Findings, analyse
from exogpu.verdict import HazardKind
from tests.machine import generate
from tests.symbolic import chains

Key = tuple[object, ...]


def key(found: Violation | Instance) -> Key:
    """What must agree.  Of a late Arrive and of PHASE the machine names the last of several
    Awaits at fault, so that the record is not compared there."""
    several = found.kind in (HazardKind.DEADLOCK, HazardKind.PHASE)
    record = None if several else found.record
    return (found.kind, found.variable, found.index, found.check, found.iteration, record)


def generated(shape: str, seed: int) -> amir.Program:
    """A program of one of the generators' shapes."""
    random = Random(seed)
    return chains.program(random) if shape == "chains" else generate.program(random, shape).program


def admitting_zero(program: amir.Program) -> amir.Program:
    """The program with every size allowed to be 0."""
    least = tuple(Compare(">=", CVar(p.name), Int(0)) for p in program.params)
    return replace(program, preconditions=(*program.preconditions, *least))


def machine_set(program: amir.Program, sizes: Mapping[str, int]) -> set[Key]:
    return {key(v) for v in literal.run(program, sizes, collect=True)}


def prover_set(findings: Findings, sizes: Mapping[str, int]) -> set[Key]:
    return {key(i) for found in findings.violations for i in instances(found, sizes)}


def shown(keys: Iterable[Key]) -> list[str]:
    return sorted(
        f"{k[0]} {k[1]}{list(k[2])} line {k[3].origin.span.line} at {k[4]} "
        f"record {k[5] and k[5].origin.span.line}"
        for k in keys
    )


def disagreement(
    program: amir.Program, findings: Findings, sizes: Mapping[str, int]
) -> tuple[list[str], list[str]]:
    """What only the prover finds, and what only the machine finds: the latter is excused where
    the prover says that it could not decide everything."""
    mine, theirs = prover_set(findings, sizes), machine_set(program, sizes)
    missing = set() if findings.undecided else theirs - mine
    return shown(mine - theirs), shown(missing)


def check(program: amir.Program, sizes: Iterable[Mapping[str, int]]) -> Findings:
    """Asserts agreement at each of the sizes."""
    findings = analyse(program)
    for at in sizes:
        assert disagreement(program, findings, at) == ([], []), at
    return findings
