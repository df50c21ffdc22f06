"""Checks concrete sizes for a procedure, before anything runs at them."""

from __future__ import annotations

from collections.abc import Iterable, Iterator, Mapping
from difflib import get_close_matches
from numbers import Integral

from exogpu.analysis.instances import admits_zero, conjuncts, controls
from exogpu.frontend.control import LIMIT
from exogpu.frontend.quote import quote
from exogpu.ir.names import Sym
from exogpu.ir.nodes import BExpr, ControlParam, Proc
from exogpu.ir.walk import control_variables, holds
from exogpu.result.errors import Diagnostic, Note


def check_sizes(proc: Proc, sizes: Mapping[str, int]) -> tuple[Diagnostic, ...]:
    """Returns the faults of running a procedure at these sizes; empty if there are none.

    Unknown and missing names, sizes below what is admitted, preconditions that do not hold.
    """
    if wrong := tuple(_no_integers(proc, sizes)):
        return wrong
    params = {p.name.name: p for p in controls(proc)}
    found = [_unknown(proc, name, params) for name in sizes if name not in params]
    found += _missing(proc, [p for name, p in params.items() if name not in sizes], sizes)
    given = {p.name: sizes[name] for name, p in params.items() if name in sizes}
    too_small = [
        problem
        for param in params.values()
        if param.name in given
        for problem in _too_small(proc, param, given[param.name])
    ]
    return (*found, *too_small, *(() if too_small else _broken(proc, given)))


def _no_integers(proc: Proc, sizes: Mapping[str, object]) -> Iterator[Diagnostic]:
    for name, value in sizes.items():
        if not isinstance(value, Integral) or isinstance(value, bool) or abs(int(value)) >= LIMIT:
            what = f"{value!r}"[:40]
            yield Diagnostic(
                "X905",
                f"{name} is {what}, and sizes are integers of 64 bits",
                proc.span,
                "give an integer below 2 ** 63",
            )


def _unknown(proc: Proc, name: str, params: Iterable[str]) -> Diagnostic:
    known = list(params)
    same = [k for k in known if k.lower() == name.lower()]
    close = same or get_close_matches(name, known, 1)
    if close:
        remedy = f"did you mean {close[0]}?"
    elif known:
        remedy = f"{proc.name} takes {', '.join(known)}"
    else:
        remedy = f"{proc.name} takes no sizes"
    return Diagnostic("X901", f"{proc.name} has no size {name}", proc.span, remedy)


def _missing(proc: Proc, params: list[ControlParam], sizes: Mapping[str, int]) -> list[Diagnostic]:
    if not params:
        return []
    names = [p.name.name for p in params]
    example = ",".join([*(f"{n}={v}" for n, v in sizes.items()), *(f"{n}=..." for n in names)])
    what = "size" if len(names) == 1 else "sizes"
    return [
        Diagnostic(
            "X902",
            f"{proc.name} needs the {what} {', '.join(names)}",
            params[0].span if params[0].span.line else proc.span,
            f"give a value to each: {example}",
        )
    ]


def _too_small(proc: Proc, param: ControlParam, value: int) -> list[Diagnostic]:
    if param.kind != "size" or value > 0:
        return []
    name = param.name
    zero = admits_zero(proc, name)
    if value == 0 and zero:
        return []
    least = 0 if zero else 1
    remedy = f"give {name} a value of at least {least}"
    if value == 0:
        remedy += f", or admit 0 by the precondition `assert {name} >= 0`"
    return [
        Diagnostic(
            "X903",
            f"{name} is {value}, and a size is at least {least} here",
            param.span if param.span.line else proc.span,
            remedy,
        )
    ]


def _broken(proc: Proc, given: Mapping[Sym, int]) -> list[Diagnostic]:
    return [
        _precondition(proc, condition, given)
        for precondition in proc.preconditions
        for condition in conjuncts(precondition)
        if control_variables(condition) <= given.keys() and not holds(condition, given)
    ]


def _precondition(proc: Proc, condition: BExpr, given: Mapping[Sym, int]) -> Diagnostic:
    read = control_variables(condition)
    at = ", ".join(f"{name} = {value}" for name, value in given.items() if name in read)
    return Diagnostic(
        "X904",
        f"the precondition {quote(condition)} of {proc.name} does not hold"
        + (f": {at}" * bool(at)),
        condition.span if condition.span.line else proc.span,
        "give sizes that satisfy it",
        (Note("the procedure", proc.span),),
    )
