"""From violations for all sizes to one concrete instance that the abstract machine confirms.

The sizes are the smallest with any violation (by sum, then lexicographic); the machine is run
there and must stop at a violation that was predicted: its first, which has the smallest task,
iteration and element in execution order.
"""

from __future__ import annotations

from collections.abc import Callable, Iterator, Mapping
from dataclasses import dataclass

from exogpu.errors import NOWHERE
from exogpu.machine.amir import Program
from exogpu.machine.violation import Violation
from exogpu.solvers import isl
from exogpu.solvers import isl_relations as rel
from exogpu.symbolic.findings import Finding, holds_at
from exogpu.symbolic.prover import Findings, Undecided

Machine = Callable[[Program, Mapping[str, int]], tuple[Violation, ...]]
"""Runs a program at sizes up to its first violation."""


@dataclass(frozen=True, slots=True)
class Refutation:
    """A violation at the smallest sizes, found by the prover and by the concrete machine."""

    sizes: Mapping[str, int]
    violation: Violation
    finding: Finding | None
    """None for a violation of what the prover left undecided: the machine has the last word."""


def refute(program: Program, findings: Findings, machine: Machine) -> Refutation | Undecided | None:
    """The smallest refutation; None if no violation was found.

    Undecided where the machine does not confirm what was predicted, which is a mistake of this
    prover and is said as such.
    """
    if not findings.violations:
        return None
    sizes = smallest_sizes(program, findings)
    if sizes is None:
        first = findings.violations[0].check.op.origin.span
        return Undecided("the sizes with a violation have no smallest one", first)
    confirmed = machine(program, sizes)
    at = ", ".join(f"{name} = {value}" for name, value in sizes.items())
    if not confirmed:
        span = next(_failing_at(findings, sizes)).check.op.origin.span
        return Undecided(
            f"a violation was predicted at {at}, and the concrete machine finds none: "
            "this is a mistake of the prover",
            span,
        )
    violation = confirmed[0]
    for finding in _failing_at(findings, sizes):
        if holds_at(finding, sizes, violation):
            return Refutation(sizes, violation, finding)
    if findings.undecided:
        return Refutation(sizes, violation, None)
    return Undecided(
        f"at {at} the concrete machine stops at a violation that was not predicted: this is a "
        "mistake of the prover",
        violation.check.origin.span if violation.check else NOWHERE,
    )


def smallest_sizes(program: Program, findings: Findings) -> dict[str, int] | None:
    """The sizes with a violation of the smallest sum, the lexicographically smallest of them.

    None if no sizes have one, or the sum has no smallest value (an `index` argument).
    """
    names = [p.name.name for p in program.params]
    best: tuple[int, tuple[int, ...]] | None = None
    for finding in findings.violations:
        found = rel.smallest_sum(finding.sizes())
        if found is None:
            continue
        values = tuple(found[name] for name in finding.size_names())
        if best is None or (sum(values), values) < best:
            best = (sum(values), values)
    return None if best is None else dict(zip(names, best[1], strict=True))


def _failing_at(findings: Findings, sizes: Mapping[str, int]) -> Iterator[Finding]:
    for finding in findings.violations:
        named = dict(zip(finding.size_names(), sizes.values(), strict=True))
        if not isl.is_empty(rel.fix_params(finding.failing, named)):
            yield finding
