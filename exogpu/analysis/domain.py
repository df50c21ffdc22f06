"""The instances of a scope as an integer set, and the smallest one at which something fails.

A domain has one dimension a control variable: the procedure's parameters first, then the
enclosing iterators, then whatever a check binds (an instruction's control parameters, an element
of a window).  Expressions over these variables become constraints as they stand.
"""

from __future__ import annotations

from collections.abc import Iterable, Iterator, Mapping, Sequence
from dataclasses import dataclass, replace
from functools import lru_cache
from typing import Final, TypeAlias

from exogpu.analysis.load_facts import load_conditions
from exogpu.ir import nodes as ir
from exogpu.ir.constraints import UnreadError, smt_of
from exogpu.ir.render import conjunction, identifier, in_range, isl_cond, isl_expr
from exogpu.ir.types import Sym
from exogpu.ir.walk import control_variables
from exogpu.solvers import isl, smt

Instance = Mapping[Sym, int]
"""One instance: a value for every variable of its domain."""


@dataclass(frozen=True, slots=True)
class Domain:
    """The instances of one scope."""

    params: tuple[ir.ControlParam, ...]
    iterators: tuple[Sym, ...] = ()
    """The iterators of the enclosing loops, outermost first."""
    bound: tuple[Sym, ...] = ()
    """Further variables, which are nobody's iterator."""
    constraints: tuple[str, ...] = ()
    loads: tuple[ir.For, ...] = ()
    """The loops of those iterators that are values from memory."""
    contracts: tuple[ir.Contract, ...] = ()
    """Assumptions on the contents of arrays."""

    @property
    def variables(self) -> tuple[Sym, ...]:
        """Every variable, in the order in which instances are compared."""
        return (*(p.name for p in self.params), *self.iterators, *self.bound)


def conjuncts(condition: ir.BExpr) -> Iterator[ir.BExpr]:
    """The conditions that `condition` joins by `and`."""
    if isinstance(condition, ir.And):
        yield from conjuncts(condition.left)
        yield from conjuncts(condition.right)
    else:
        yield condition


@lru_cache(maxsize=4096)
def admits_zero(proc: ir.Proc | ir.Instr, size: Sym) -> bool:
    """Tests whether a precondition admits 0 for a size, as `assert n >= 0` does (decision
    `empty-loops`).

    Such a precondition reads no other variable, holds at 0, and bounds the size from below.
    """
    name = identifier(size)
    for precondition in proc.preconditions:
        for condition in conjuncts(precondition):
            if control_variables(condition) != {size}:
                continue
            admitted = isl.set_of((), (name,), isl_cond(condition))
            below = isl.set_of((), (name,), f"{name} < 0")
            at_zero = isl.fix(admitted, {name: 0})
            if not isl.is_empty(at_zero) and isl.bounded_below(isl.intersect(admitted, below)):
                return True
    return False


def least(proc: ir.Proc | ir.Instr, size: Sym) -> int:
    """The smallest value that a size may have: 1, or 0 where it is admitted."""
    return 0 if admits_zero(proc, size) else 1


def controls(proc: ir.Proc | ir.Instr) -> tuple[ir.ControlParam, ...]:
    """The control parameters, in order."""
    return tuple(p for p in proc.params if isinstance(p, ir.ControlParam))


def size_constraints(proc: ir.Proc | ir.Instr) -> tuple[str, ...]:
    """`n >= 1`, or `n >= 0` where 0 is admitted, for every size."""
    return tuple(
        f"{identifier(p.name)} >= {least(proc, p.name)}" for p in controls(proc) if p.kind == "size"
    )


def entry(proc: ir.Proc | ir.Instr) -> Domain:
    """The instances of a procedure's outermost scope: its preconditions."""
    preconditions = tuple(isl_cond(b) for b in proc.preconditions)
    found = Domain(controls(proc), constraints=(*size_constraints(proc), *preconditions))
    return replace(found, contracts=proc.contracts) if isinstance(proc, ir.Proc) else found


def restrict_domain(domain: Domain, *constraints: str) -> Domain:
    """The instances that satisfy the constraints, too."""
    return replace(domain, constraints=(*domain.constraints, *constraints))


def within_loop(domain: Domain, iterator: Sym, lo: ir.CExpr, hi: ir.CExpr) -> Domain:
    """The instances of a loop's body."""
    inner = replace(domain, iterators=(*domain.iterators, iterator))
    return restrict_domain(inner, in_range(iterator, lo, hi))


def body_domain(domain: Domain, loop: ir.For) -> Domain:
    """The instances of a loop's body; where it binds a value from memory, with what is known of it
    and of those around it."""
    inner = within_loop(domain, loop.iterator, loop.lo, loop.hi)
    if not isinstance(loop.mode, ir.Loaded):
        return inner
    known = load_conditions(loop, domain.loads, domain.contracts)
    return restrict_domain(replace(inner, loads=(*domain.loads, loop)), *map(isl_cond, known))


def bind(domain: Domain, values: Mapping[Sym, ir.CExpr]) -> Domain:
    """The domain with further variables, each equal to an expression."""
    if not values:
        return domain
    inner = replace(domain, bound=(*domain.bound, *values))
    return restrict_domain(inner, *(f"{identifier(s)} = {isl_expr(e)}" for s, e in values.items()))


def bind_range(domain: Domain, name: Sym, lo: ir.CExpr, hi: ir.CExpr) -> Domain:
    """The domain with a further variable, anywhere in `lo .. hi - 1`."""
    return restrict_domain(replace(domain, bound=(*domain.bound, name)), in_range(name, lo, hi))


Question: TypeAlias = tuple[Domain, Iterable[str]]
"""A domain and conditions; the question is if one of them holds somewhere in it."""


def none_holds(questions: Iterable[Question]) -> bool:
    """Tests whether Z3, asked together, refutes all questions: then none has to be asked alone.

    False also where it did not decide that.
    """
    scripts = []
    for domain, conditions in questions:
        script = _script(domain, " or ".join(f"({c})" for c in conditions) or "0 = 1")
        if script is None:
            return False
        scripts.append(script)
    return smt.all_refuted(tuple(scripts))


def never(domain: Domain, conditions: Iterable[str]) -> bool:
    """Tests whether none of the conditions holds at any instance: ISL finds none, and Z3
    neither."""
    return never_each([(domain, conditions)])[0]


def never_each(questions: Iterable[Question]) -> tuple[bool, ...]:
    """For each domain, whether none of its conditions holds at any instance; Z3 is asked together
    about all of which ISL finds none."""
    found: list[bool] = []
    scripts: dict[int, str] = {}
    wholes: dict[Domain, isl.Set] = {}
    for at, (domain, conditions) in enumerate(questions):
        alternatives = " or ".join(f"({c})" for c in conditions)
        found.append(not alternatives)
        if not alternatives:
            continue
        names = [identifier(v) for v in domain.variables]
        if domain not in wholes:
            wholes[domain] = isl.set_of((), names, conjunction(domain.constraints))
        part = isl.set_of((), names, alternatives)
        found[at] = isl.is_empty(isl.intersect(wholes[domain], part))
        script = _script(domain, alternatives) if found[at] else None
        if script is not None:
            scripts[at] = script
    replies = smt.ask_together(tuple(scripts.values()), attempts=smt.SOON)
    for at, reply in zip(scripts, replies, strict=True):
        found[at] = reply.word != "sat"
    return tuple(found)


def _script(domain: Domain, condition: str) -> str | None:
    names = map(identifier, domain.variables)
    return question(names, (*domain.constraints, f"({condition})"))


def question(names: Iterable[str], constraints: Iterable[str]) -> str | None:
    """A script that has a solution where the constraints do; None where they are written in
    ISL's words alone."""
    try:
        asserted = [f"(assert {smt_of(constraint)})" for constraint in constraints]
    except UnreadError:
        return None
    declared = [f"(declare-const {name} Int)" for name in names]
    return "\n".join(["(set-logic QF_LIA)", *declared, *asserted, "(check-sat)", ""])


_TOTAL: Final = "total"


def smallest(domain: Domain, condition: str) -> Instance | None:
    """The smallest instance at which `condition` holds; None if there is none.

    Smallest is: by the sum of the sizes and of the magnitudes of the index arguments, then by
    those magnitudes, then parameter by parameter, then iterator by iterator, outermost first.
    What ISL finds is confirmed by Z3, which looks for itself where it is not (decision
    `confirmed-answers`).
    """
    names = [identifier(v) for v in domain.variables]
    magnitudes, addends, extra = _magnitudes(domain.params)
    total = f"{_TOTAL} = {' + '.join(addends) or '0'}"
    constraints = (*domain.constraints, f"({condition})", total, *extra)
    ordered = (_TOTAL, *magnitudes, *names)
    found = isl.smallest(isl.set_of((), ordered, conjunction(constraints)))
    script = question(ordered, constraints)
    if script is not None and not smt.is_smallest(script, ordered, found):
        values = smt.smallest_model(script, ordered)
        if values == "unsat":
            return None
        if values != "unknown":
            found = dict(zip(ordered, values, strict=True))
    if found is None:
        return None
    return {v: found[name] for v, name in zip(domain.variables, names, strict=True)}


def rank(domain: Domain, instance: Instance) -> tuple[int, ...]:
    """Returns the key by which `smallest` compares parameters: smaller instances have smaller
    ranks."""
    values = [instance[p.name] for p in domain.params]
    magnitudes = [abs(instance[p.name]) for p in domain.params if p.kind == "index"]
    return (sum(map(abs, values)), *magnitudes, *values)


def _magnitudes(params: Sequence[ir.ControlParam]) -> tuple[list[str], list[str], list[str]]:
    """Names of the magnitudes of index arguments, the addends of the total, the constraints."""
    names: list[str] = []
    addends: list[str] = []
    constraints: list[str] = []
    for param in params:
        name = identifier(param.name)
        if param.kind == "size":
            addends.append(name)
            continue
        magnitude = f"magnitude_{name}"
        names.append(magnitude)
        addends.append(magnitude)
        either = f"({magnitude} = {name} or {magnitude} = -{name})"
        constraints += [f"{magnitude} >= 0", either]
    return names, addends, constraints


# Finds the instruction calls of a procedure, with their sizes, iterators and guards.


@dataclass(frozen=True, slots=True)
class Called:
    """An instruction call with its instances."""

    call: ir.CallInstr
    domain: Domain
    launch: Domain
    """The instances of the launch that it stands in; its own at CPU scope."""


@dataclass(frozen=True, slots=True)
class _Scope:
    domain: Domain
    launch: Domain | None = None


def calls(proc: ir.Proc) -> Iterator[Called]:
    """The instruction calls of an inlined procedure, in program order."""
    yield from _block(proc.body, _Scope(entry(proc)))


def _block(block: ir.Block, scope: _Scope) -> Iterator[Called]:
    for stmt in block:
        match stmt:
            case ir.CallInstr():
                yield Called(stmt, scope.domain, scope.launch or scope.domain)
            case ir.For():
                inner = body_domain(scope.domain, stmt)
                yield from _block(stmt.body, replace(scope, domain=inner))
            case ir.If():
                holds, fails = isl_cond(stmt.condition), isl_cond(ir.Not(stmt.condition))
                yield from _block(
                    stmt.body, replace(scope, domain=restrict_domain(scope.domain, holds))
                )
                yield from _block(
                    stmt.orelse, replace(scope, domain=restrict_domain(scope.domain, fails))
                )
            case ir.DeviceFunction():
                yield from _block(stmt.body, replace(scope, launch=scope.domain))
            case ir.Warps():
                yield from _block(stmt.body, scope)
            case _:
                pass
