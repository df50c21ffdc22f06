"""Writes a kernel's result as a formula: summarised, then checked on random data.

Where the summary fails, as for sums that threads exchange, the formula is guessed from the
shapes of the parameters: a product summed over the extents that the output lacks.  Either way
nothing is shown that the sequential meaning does not compute at the sizes that are tried.
"""

from __future__ import annotations

from collections.abc import Iterator, Mapping
from functools import partial
from math import prod
from typing import Final

import numpy as np

from exogpu import interpreter
from exogpu.analysis.domain import entry, smallest
from exogpu.diagnostics.errors import ExoGpuError
from exogpu.interpreter import concrete_procedure
from exogpu.interpreter.inline import inline
from exogpu.interpreter.program import Buffer
from exogpu.interpreter.values import NARROW_FLOATS, NUMPY, Array
from exogpu.ir import nodes as ir
from exogpu.ir.render import conjunction, identifier, isl_expr, show
from exogpu.ir.types import FLOATS, DataType, Sym
from exogpu.ir.walk import control_variables, walk
from exogpu.ir.walk import evaluate as extent_of
from exogpu.report import formula_terms
from exogpu.report.memory_use import main_loop
from exogpu.report.reduction_summary import NoSummary, summarise
from exogpu.report.report_data import Formula
from exogpu.solvers.processes import Limits, Stopped, Tell, isolated

WORK: Final = 30_000_000
"""Products that a check may take."""

SECONDS: Final = 5.0
"""The seconds that a run of the procedure may take."""


def formula(proc: ir.Proc) -> Formula | None:
    """The formula of a procedure on floating-point arrays, where there is one."""
    data = [p for p in proc.params if isinstance(p, ir.DataParam)]
    if not data or any(p.dtype not in FLOATS for p in data):
        return None
    for sizes in _sizes(proc):
        try:
            for how, guess in _guesses(proc, data, sizes):
                if _holds(proc, data, guess, sizes):
                    at = ", ".join(f"{name} = {value}" for name, value in sizes.items())
                    where = f" at {at}" if at else ""
                    return Formula(
                        "; ".join(map(formula_terms.text, guess)),
                        formula_terms.mathml(guess),
                        f"{how}; a run on random data{where} agrees",
                    )
        except ExoGpuError:  # these sizes cannot be run
            continue
    return None


def _sizes(proc: ir.Proc) -> Iterator[dict[str, int]]:
    """Small sizes: two tasks in every direction and a partial tile, if there are any such."""
    domain = entry(proc)
    sizes = {p.name for p in domain.params}
    several = [f"{identifier(name)} >= {2 + at}" for at, name in enumerate(sorted(sizes, key=str))]
    tasks = [
        f"({isl_expr(stmt.hi)}) - ({isl_expr(stmt.lo)}) >= 2"
        for stmt in walk(proc.body)
        if isinstance(stmt, ir.For) and isinstance(stmt.mode, ir.CudaTasks)
        if control_variables(stmt.hi) | control_variables(stmt.lo) <= sizes
        and not isinstance(stmt.hi, ir.Int)
    ]
    main = main_loop(proc)
    if main is not None and control_variables(main.loop.hi) <= sizes:
        tasks.append(f"({isl_expr(main.loop.hi)}) - ({isl_expr(main.loop.lo)}) >= 2")
    for conditions in (tasks, several):
        found = smallest(domain, conjunction(conditions)) if conditions else None
        if found is not None:
            yield {p.name.name: found[p.name] for p in domain.params}


# --- guesses ------------------------------------------------------------------------------


def _guesses(
    proc: ir.Proc, data: list[ir.DataParam], sizes: Mapping[str, int]
) -> Iterator[tuple[str, tuple[formula_terms.Equation, ...]]]:
    values = _values(proc, sizes)
    buffers = {p.name: Buffer(p.name.name, p.dtype, _shape(p, values), local=False) for p in data}
    extents = {buffers[p.name]: tuple(map(show, p.shape)) for p in data}
    try:
        nodes, ranges = inline(concrete_procedure.without_slots(proc, values), values, buffers)
        equations = tuple(summarise(nodes, ranges, extents))
        yield "read off the loops of its sequential meaning", equations
    except (NoSummary, ExoGpuError):  # or its slots are not counted
        pass
    if shaped := _from_shapes(data):
        yield "guessed from the shapes of its arrays", (shaped,)


def _from_shapes(data: list[ir.DataParam]) -> formula_terms.Equation | None:
    """The last array as a product of the others, summed over the extents that it lacks."""
    *inputs, output = data
    if not inputs or any(not isinstance(e, ir.CVar) for p in data for e in p.shape):
        return None
    names = {
        extent: show(extent).rpartition("_")[2][:1].lower() for p in data for extent in p.shape
    }
    if len(set(names.values())) != len(names):
        return None

    def element(param: ir.DataParam) -> formula_terms.Element:
        return formula_terms.Element(
            param.name.name, tuple(formula_terms.Index((names[e],)) for e in param.shape)
        )

    body: formula_terms.Term = element(inputs[0])
    for factor in inputs[1:]:
        body = formula_terms.Call("*", (body, element(factor)))
    summed: dict[ir.CExpr, None] = dict.fromkeys(
        e for p in inputs for e in p.shape if e not in output.shape
    )
    if not summed or any(e not in {x for p in inputs for x in p.shape} for e in output.shape):
        return None
    over = tuple((names[e], show(e)) for e in summed)
    return formula_terms.Equation(element(output), False, formula_terms.Sum(over, body))


# --- the check ----------------------------------------------------------------------------


def _holds(
    proc: ir.Proc,
    data: list[ir.DataParam],
    guess: tuple[formula_terms.Equation, ...],
    sizes: Mapping[str, int],
) -> bool:
    """Tests whether running the procedure on random data gives the results of the equations."""
    values = _values(proc, sizes)
    generator = np.random.default_rng(0)
    shapes = {p.name.name: _shape(p, values) for p in data}
    start = {
        p.name.name: generator.uniform(0.5, 1.5, _shape(p, values)).astype(NUMPY[p.dtype])
        for p in data
    }
    extents: dict[str, int] = {}
    for equation in guess:
        for element in (equation.target, *formula_terms.elements(equation.body)):
            for index, extent in zip(element.at, shapes[element.array], strict=True):
                for name in index.names:
                    if extents.setdefault(name, extent) != extent:
                        return False
        if prod(extents.values()) > WORK:
            return False
    arrays = isolated(partial(_run, proc, sizes, start), Limits(SECONDS))
    if isinstance(arrays, Stopped):
        return False
    numbers: dict[str, formula_terms.Numbers] = {n: a.astype(np.float64) for n, a in start.items()}
    expected = numbers | {
        e.target.array: formula_terms.evaluate(e, numbers, extents) for e in guess
    }
    return all(
        np.allclose(arrays[p.name.name], expected[p.name.name], rtol=_tolerance(p.dtype), atol=0)
        for p in data
    )


def _run(
    proc: ir.Proc, sizes: Mapping[str, int], start: Mapping[str, Array], tell: Tell
) -> dict[str, Array]:
    """The arrays after a run from these."""
    arrays = {name: array.copy() for name, array in start.items()}
    interpreter.run(proc, {**sizes, **arrays})
    return arrays


def _tolerance(dtype: DataType) -> float:
    return 3e-2 if dtype in NARROW_FLOATS else 1e-4


def _values(proc: ir.Proc, sizes: Mapping[str, int]) -> dict[Sym, int]:
    return {p.name: sizes[p.name.name] for p in proc.params if isinstance(p, ir.ControlParam)}


def _shape(param: ir.DataParam, values: Mapping[Sym, int]) -> tuple[int, ...]:
    return tuple(extent_of(extent, values) for extent in param.shape)
