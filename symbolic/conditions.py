"""The sizes at which nothing was found to be wrong."""

from __future__ import annotations

from exogpu.ir.isltext import readable
from exogpu.machine.amir import Program
from exogpu.solvers import isl
from exogpu.solvers import isl_relations as rel
from exogpu.symbolic.domains import Model
from exogpu.symbolic.prover import Findings


def unsafe_sizes(findings: Findings) -> isl.Set | None:
    """The sizes with a violation; None if there are none."""
    found: isl.Set | None = None
    for finding in findings.violations:
        found = finding.sizes() if found is None else isl.union(found, finding.sizes())
    return found


def safe_condition(program: Program, findings: Findings) -> str | None:
    """What sizes have to satisfy, beside the preconditions, for nothing to be violated.

    It is exact if nothing is undecided.  None if every size has a violation; the empty text if
    none has.
    """
    unsafe = unsafe_sizes(findings)
    if unsafe is None:
        return ""
    model = Model(program)
    names = findings.violations[0].size_names()
    allowed = rel.project_params(
        model.exact_context, [name for name in model.names if name not in names]
    )
    safe = isl.subtract(allowed, unsafe)
    if isl.is_empty(safe):
        return None
    text = rel.condition_text(rel.simplified(safe, allowed))
    return readable(text, model.sizes)
