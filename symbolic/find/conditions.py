"""The weakest condition on the sizes under which a program is proved."""

from __future__ import annotations

from collections.abc import Mapping
from dataclasses import dataclass, replace
from functools import reduce
from typing import Final, TypeVar

from exogpu.amir.nodes import Program
from exogpu.analysis import bounds, operands
from exogpu.analysis.bounds_report import Outside
from exogpu.analysis.uses import Declared
from exogpu.ir import print_expressions
from exogpu.ir.isltext import identifier
from exogpu.ir.names import Sym
from exogpu.ir.nodes import (
    Add,
    And,
    BExpr,
    CExpr,
    Compare,
    CVar,
    FloorDiv,
    Int,
    Mod,
    Mul,
    Or,
    Proc,
    Sub,
    Truth,
)
from exogpu.machine.contents import loads
from exogpu.result.proof import Proof
from exogpu.solvers import isl
from exogpu.solvers import isl_relations as rel
from exogpu.solvers.isl_budget import IslGaveUpError, limited
from exogpu.solvers.isl_exprs import Tree, tree
from exogpu.symbolic.find.domains import Model
from exogpu.symbolic.find.necessary import necessary, refuted_without
from exogpu.symbolic.find.prover import BUDGET, Findings, analyse
from exogpu.symbolic.prove import prove
from exogpu.symbolic.sites import UndecidedError

PARTS: Final = 16
"""Sizes in more parts than this make no condition that anybody would read."""

Conditional = TypeVar("Conditional", Program, Proc)


@dataclass(frozen=True, slots=True)
class Condition:
    """A condition on sizes: `K mod 32 = 0`."""

    expr: BExpr
    exact: bool = False
    """Whether it is confirmed that something fails at all other sizes."""

    def __str__(self) -> str:
        return self.source.replace(" == ", " = ").replace(" % ", " mod ")

    @property
    def source(self) -> str:
        """Returns the text after `assert` in a precondition: `K % 32 == 0`."""
        return print_expressions.condition(self.expr, lambda name: name.name)


def conditioned(program: Conditional, condition: BExpr) -> Conditional:
    """The program, or procedure, with one more precondition."""
    return replace(program, preconditions=(*program.preconditions, condition))


def unsafe_sizes(findings: Findings) -> isl.Set | None:
    """The sizes with a violation; None if there are none."""
    found: isl.Set | None = None
    for finding in findings.violations:
        found = finding.sizes() if found is None else isl.union(found, finding.sizes())
    return found


def without(program: Program, unsafe: isl.Set) -> Condition | None:
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

    proc: Proc
    variables: tuple[Declared, ...]


def weakest_condition(
    proc: Proc, program: Program, findings: Findings | None = None, calls: Calls | None = None
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
            inside = None if outside is None else without(program, outside)
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
            condition = without(program, reduce(isl.union, parts)) if parts else None
        if condition is None or not _confirmed(proc, program, condition.expr, calls):
            return None
        if necessary(proc, program, findings, condition.expr):
            return replace(condition, exact=True)
        if outside is None and not refuted_without(program, condition.expr):
            return None
    except (UndecidedError, IslGaveUpError):
        return None
    return condition


def _failing_sizes(proc: Proc, calls: Calls | None) -> isl.Set | None:
    """The sizes that fail before the program runs; None if there are none."""
    found = [bounds.failing_sizes(proc)]
    if calls is not None:
        found.append(operands.failing_sizes(calls.proc, calls.variables))
    failing = [sizes for sizes in found if sizes is not None]
    return reduce(isl.union, failing) if failing else None


def _confirmed(proc: Proc, program: Program, condition: BExpr, calls: Calls | None) -> bool:
    again = bounds.violations(conditioned(proc, condition))
    if any(isinstance(violation.finding, Outside) for violation in again):
        return False
    if calls is not None and operands.violations(
        conditioned(calls.proc, condition), calls.variables
    ):
        return False
    findings = analyse(conditioned(program, condition))
    if findings.violations or findings.undecided or findings.vacuous:
        return False
    return isinstance(prove(findings), Proof)


# --- from ISL's trees to expressions ------------------------------------------------------------


def _boolean(node: Tree, names: Mapping[str, Sym]) -> BExpr:
    match node:
        case int():
            return Truth(node != 0)
        case (("and" | "or") as operator, (first, *rest)):
            joined = And if operator == "and" else Or
            made = _boolean(first, names)
            for other in rest:
                made = joined(made, _boolean(other, names))
            return made
        case (("==" | "<" | "<=" | ">" | ">=") as operator, (left, right)):
            return Compare(operator, _control(left, names), _control(right, names))
        case _:
            raise AssertionError(node)


def _control(node: Tree, names: Mapping[str, Sym]) -> CExpr:
    match node:
        case int():
            return Int(node)
        case str():
            return CVar(names[node])
        case ("+", (left, right)):
            return Add(_control(left, names), _control(right, names))
        case ("-", (left, right)):
            return Sub(_control(left, names), _control(right, names))
        case ("*", (int(factor), term)) | ("*", (term, int(factor))):
            return Mul(factor, _control(term, names))
        case ("neg", (term,)):
            return Mul(-1, _control(term, names))
        case ("floor", (term, int(divisor))):
            return FloorDiv(_control(term, names), divisor)
        case ("mod", (term, int(divisor))):
            return Mod(_control(term, names), divisor)
        case _:
            raise AssertionError(node)
