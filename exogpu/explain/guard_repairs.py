"""Repairs of an index outside of its array: a guard around the statement, or a guard's bound that
is off by one."""

from __future__ import annotations

from collections.abc import Iterator
from dataclasses import replace

from exogpu.analysis.bounds import Breach
from exogpu.analysis.bounds_messages import Outside
from exogpu.explain import insertion_points as points
from exogpu.explain.source_text import indented_below, strict_bound
from exogpu.explain.value_repairs import zeros_for
from exogpu.ir import nodes as ir
from exogpu.ir.render import condition
from exogpu.ir.walk import control_variables, evaluate


def guard_repairs(proc: ir.Proc, breach: Breach) -> Iterator[points.Rewritten]:
    """Ways to keep an index inside: the bound of the guard around it first."""
    found = breach.finding
    if not isinstance(found, Outside) or found.via is not None:
        return
    asked = _missing_condition(found, breach)
    if asked is None:
        return
    for guard in reversed(found.guards):
        strict = _strict(guard.condition, asked)
        if strict is not None:
            made = points.rebuilt(proc, {id(guard): (replace(guard, condition=strict),)})
            line = guard.span.line
            text = f"let the bound of the `if` at line {line} be strict: < instead of <="
            change = strict_bound(guard.span)
            yield points.Rewritten(made, text, () if change is None else ((change,),))
            return
    stmt = found.stmt if found.call is None else found.call
    paths = [path for path in points.paths(proc.body) if path[-1] is stmt]
    if len(paths) != 1:
        return
    known = {p.name for p in proc.params if isinstance(p, ir.ControlParam)}
    known |= {s.iterator for s in paths[0][:-1] if isinstance(s, ir.For)}
    loaded = {load.iterator for load in found.loads}  # their range is what is too large
    read = control_variables(asked)
    if not read <= known or read & loaded:
        return
    inner = replace(stmt)  # another object: what is rebuilt is looked up by its identity
    made = points.rebuilt(proc, {id(stmt): (ir.If(asked, (inner,), (), span=stmt.span),)})
    header = f"if {condition(asked, lambda name: name.name)}:"
    rest = isinstance(stmt, ir.For)
    which = "and what follows in its block is" if rest else "which is"
    text = f"guard it: put `{header}` before line {stmt.span.line}, {which} indented by 4 more"
    change = indented_below(stmt.span, header, rest)
    yield points.Rewritten(made, text, () if change is None else ((change,),))
    if isinstance(stmt, ir.Assign) and found.access != stmt.target and found.call is None:
        zeros, other = zeros_for(proc, stmt)
        made = points.rebuilt(proc, {id(stmt): (ir.If(asked, (inner,), (zeros,), span=stmt.span),)})
        text += f", and after it `else: {other}`, or another value that leaves the result as it is"
        change = indented_below(stmt.span, header, rest, "else:", f"    {other}")
        yield points.Rewritten(made, text, () if change is None else ((change,),))


def _missing_condition(found: Outside, breach: Breach) -> ir.Compare | None:
    """The condition on the first index that is outside; None of one that depends on no iterator."""
    element = found.element
    for index, extent in zip(element.indices, element.extents, strict=True):
        value, size = evaluate(index, breach.point), evaluate(extent, breach.point)
        if not control_variables(index):
            continue
        if value < 0:
            return ir.Compare(">=", index, ir.Int(0))
        if value >= size:
            return ir.Compare("<", index, extent)
    return None


def _strict(guard: ir.BExpr, asked: ir.Compare) -> ir.Compare | None:
    """The condition of a guard that is the missing one but for equality."""
    match guard:
        case ir.Compare("<=", left, right) if (left, right) == (asked.left, asked.right):
            return replace(guard, op="<")
        case _:
            return None
