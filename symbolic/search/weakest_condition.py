"""The weakest condition on the sizes under which a program is proved."""

from __future__ import annotations

from collections.abc import Iterator, Mapping
from dataclasses import dataclass, replace
from functools import reduce
from itertools import islice
from typing import Final, TypeVar

from exogpu.amir.nodes import Program
from exogpu.analysis import bounds, operand_windows
from exogpu.analysis.bounds_messages import Outside
from exogpu.analysis.ownership import Declared
from exogpu.diagnostics.verdict import Proof
from exogpu.ir import nodes as ir
from exogpu.ir import render
from exogpu.ir.render import identifier, smt_cond
from exogpu.ir.types import Sym
from exogpu.machine.index_contents import loads
from exogpu.solvers import isl, smt
from exogpu.solvers import isl_relations as rel
from exogpu.solvers.isl import IslGaveUpError, limited
from exogpu.solvers.isl_piecewise import Tree, tree
from exogpu.symbolic.model import least_of
from exogpu.symbolic.prove import drafts_within, prove
from exogpu.symbolic.search.admitted_sizes import admitted
from exogpu.symbolic.search.analysis import BUDGET, Evidence, Findings, analyse
from exogpu.symbolic.search.instance_model import Model
from exogpu.symbolic.search.smallest_sizes import run_to_first_violation
from exogpu.symbolic.sites import UndecidedError

# Decides whether a condition on sizes is necessary: at all other sizes something fails (decision
# `confirmed-answers`).
#
# That it is sufficient is proved by analysing the program under it. Here Z3 is asked of every
# size without it whether some obligation fails, in the obligations' own formulas; sizes come from
# ISL's projections only in the condition itself.

SAMPLES: Final = 3
"""Sizes at which the machine is asked where Z3 cannot tell."""


def necessary(proc: ir.Proc, program: Program, findings: Findings, condition: ir.BExpr) -> bool:
    """Returns true if Z3 confirms that at all sizes without the condition something fails.

    `findings` are of the program, without those sizes at which accesses are out of bounds.
    """
    outside = _outside(program, condition)
    return smt.always_some(_failing(proc, findings), outside, len(program.params))


def refuted_without(program: Program, condition: ir.BExpr) -> bool:
    """Returns true if the machine finds a violation at each of the smallest sizes without the
    condition, or does not end soon."""
    other = replace(program, preconditions=(*program.preconditions, ir.Not(condition)))
    found = (
        sizes and run_to_first_violation(program, sizes)
        for sizes in islice(admitted(other), SAMPLES)
    )
    return all(violations != () for violations in found)


def _outside(program: Program, condition: ir.BExpr) -> str:
    """The sizes that the preconditions admit and the condition does not."""
    names = {p.name: f"size{at}" for at, p in enumerate(program.params)}
    known: list[ir.BExpr] = [
        ir.Compare(">=", ir.CVar(p.name), ir.Int(least_of(program, p.name)))
        for p in program.params
        if p.kind == "size"
    ]
    known += [*program.preconditions, ir.Not(condition)]
    lines = [f"(declare-const {name} Int)" for name in names.values()]
    return "\n".join([*lines, *(f"(assert {smt_cond(one, names)})" for one in known)])


def _failing(proc: ir.Proc, findings: Findings) -> Iterator[str]:
    """Scripts that have a solution at the sizes at which something fails."""
    yield from bounds.failing_scripts(proc)
    if findings.evidence is not None:
        yield from filter(_fails, _obligations(findings.evidence))


def _obligations(evidence: Evidence) -> Iterator[str]:
    try:
        for draft in drafts_within(evidence):
            if draft.kind is not None and draft.script:
                yield draft.script
    except UndecidedError:
        return  # what was made until then may do


def _fails(script: str) -> bool:
    return smt.ask_z3(script, attempts=smt.SOON).word == "sat"


PARTS: Final = 16
"""Sizes in more parts than this make no condition that anybody would read."""

Conditional = TypeVar("Conditional", Program, ir.Proc)


@dataclass(frozen=True, slots=True)
class Condition:
    """A condition on sizes: `K mod 32 = 0`."""

    expr: ir.BExpr
    exact: bool = False
    """Something fails at all other sizes, as is confirmed."""

    def __str__(self) -> str:
        return self.source.replace(" == ", " = ").replace(" % ", " mod ")

    @property
    def source(self) -> str:
        """Returns the text after `assert` in a precondition: `K % 32 == 0`."""
        return render.condition(self.expr, lambda name: name.name)


def conditioned(program: Conditional, condition: ir.BExpr) -> Conditional:
    """The program, or procedure, with one more precondition."""
    return replace(program, preconditions=(*program.preconditions, condition))


def unsafe_sizes(findings: Findings) -> isl.Set | None:
    """The sizes with a violation; None if there are none."""
    found: isl.Set | None = None
    for finding in findings.violations:
        found = finding.sizes() if found is None else isl.union(found, finding.sizes())
    return found


def condition_excluding(program: Program, unsafe: isl.Set) -> Condition | None:
    """Returns a precondition that excludes these sizes of a program, beside those it has.

    None if no sizes are left, or the condition cannot be written.
    """
    model = Model(program)
    sizes = {identifier(name): name for name in model.sizes}
    named = [name for name in model.names if name not in sizes]
    allowed = rel.project_params(model.exact_context, named)
    safe = isl.subtract(allowed, unsafe)
    if isl.is_empty(safe):
        return None
    found = tree(safe, allowed)
    return None if found is None else Condition(_boolean(found, sizes))


@dataclass(frozen=True, slots=True)
class Calls:
    """A procedure whose operands are judged, too: inlined, with its variables of CUDA scope."""

    proc: ir.Proc
    variables: tuple[Declared, ...]


def weakest_condition(
    proc: ir.Proc, program: Program, findings: Findings | None = None, calls: Calls | None = None
) -> Condition | None:
    """The weakest condition on the sizes under which a procedure stays in bounds, its operands
    are as its `calls` ask, and its program is proved.

    `findings` is what the analysis of the program found, if it was done.  None if no sizes are
    left, or a condition cannot be had: where something is undecided, or what is found does not
    end with it.  Under the condition the program was analysed once more, and certified; it is
    `exact` where Z3 confirms that at other sizes something fails, too.
    """
    if any(variable.resident for variable in program.variables):
        return None  # How many tasks a cluster executes is no size.
    if loads(program):
        return None  # Neither are the contents of arrays.
    try:
        with limited(BUDGET):
            outside = _failing_sizes(proc, calls)
            if outside is not None and isl.parts(outside) > PARTS:
                return None
            inside = None if outside is None else condition_excluding(program, outside)
        if outside is not None:
            if inside is None:
                return None
            # What happens where an access is out of bounds anyway does not matter.
            findings = analyse(conditioned(program, inside.expr))
        elif findings is None:
            findings = analyse(program)
        if findings.undecided:
            return None
        with limited(BUDGET):
            parts = [part for part in (outside, unsafe_sizes(findings)) if part is not None]
            condition = condition_excluding(program, reduce(isl.union, parts)) if parts else None
        if condition is None or not _confirmed(proc, program, condition.expr, calls):
            return None
        if necessary(proc, program, findings, condition.expr):
            return replace(condition, exact=True)
        if outside is None and not refuted_without(program, condition.expr):
            return None
    except (UndecidedError, IslGaveUpError):
        return None
    return condition


def _failing_sizes(proc: ir.Proc, calls: Calls | None) -> isl.Set | None:
    """The sizes that fail before the program runs; None if there are none."""
    found = [bounds.failing_sizes(proc)]
    if calls is not None:
        found.append(operand_windows.failing_sizes(calls.proc, calls.variables))
    failing = [sizes for sizes in found if sizes is not None]
    return reduce(isl.union, failing) if failing else None


def _confirmed(proc: ir.Proc, program: Program, condition: ir.BExpr, calls: Calls | None) -> bool:
    again = bounds.violations(conditioned(proc, condition))
    if any(isinstance(violation.finding, Outside) for violation in again):
        return False
    if calls is not None and operand_windows.violations(
        conditioned(calls.proc, condition), calls.variables
    ):
        return False
    findings = analyse(conditioned(program, condition))
    if findings.violations or findings.undecided or findings.vacuous:
        return False
    return isinstance(prove(findings), Proof)


# --- from ISL's trees to expressions ------------------------------------------------------------


def _boolean(node: Tree, names: Mapping[str, Sym]) -> ir.BExpr:
    match node:
        case int():
            return ir.Truth(node != 0)
        case (("and" | "or") as operator, (first, *rest)):
            joined = ir.And if operator == "and" else ir.Or
            made = _boolean(first, names)
            for other in rest:
                made = joined(made, _boolean(other, names))
            return made
        case (("==" | "<" | "<=" | ">" | ">=") as operator, (left, right)):
            return ir.Compare(operator, _control(left, names), _control(right, names))
        case _:
            raise AssertionError(node)


def _control(node: Tree, names: Mapping[str, Sym]) -> ir.CExpr:
    match node:
        case int():
            return ir.Int(node)
        case str():
            return ir.CVar(names[node])
        case ("+", (left, right)):
            return ir.Add(_control(left, names), _control(right, names))
        case ("-", (left, right)):
            return ir.Sub(_control(left, names), _control(right, names))
        case ("*", (int(factor), term)) | ("*", (term, int(factor))):
            return ir.Mul(factor, _control(term, names))
        case ("neg", (term,)):
            return ir.Mul(-1, _control(term, names))
        case ("floor", (term, int(divisor))):
            return ir.FloorDiv(_control(term, names), divisor)
        case ("mod", (term, int(divisor))):
            return ir.Mod(_control(term, names), divisor)
        case _:
            raise AssertionError(node)
