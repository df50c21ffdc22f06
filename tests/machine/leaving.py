"""Whether accesses leave their variables: as the program runs, against what is said of all sizes.

The oracle is `machine.naive`, which knows no solver.
"""

from __future__ import annotations

from collections.abc import Callable, Iterable, Mapping

import numpy as np

from exogpu.analysis import bounds
from exogpu.analysis.bounds_messages import Outside
from exogpu.diagnostics.errors import ExoGpuError
from exogpu.interpreter import elementwise
from exogpu.ir.nodes import ControlParam, DataParam, Proc
from exogpu.ir.render import conjunction, identifier
from exogpu.ir.walk import evaluate
from exogpu.solvers import isl_relations as rel

Run = Callable[[Proc, Mapping[str, object]], None]

NEAR = 24
"""Refutations are run at sizes up to here."""


def leaves(run: Run, proc: Proc, sizes: Mapping[str, int]) -> bool:
    """Whether an access is out of bounds as the program runs."""
    values = {p.name: sizes[p.name.name] for p in proc.params if not isinstance(p, DataParam)}
    arrays = {
        p.name.name: np.zeros([evaluate(n, values) for n in p.shape], np.float32)
        for p in proc.params
        if isinstance(p, DataParam)
    }
    try:
        run(proc, {**sizes, **arrays})
    except ExoGpuError as error:
        assert [d.code for d in error.diagnostics] == ["X927"]
        return True
    return False


def misjudged(proc: Proc, sizes: Iterable[Mapping[str, int]]) -> list[Mapping[str, int]]:
    """The sizes at which an access leaves its variable and the analysis of bounds says otherwise,
    or the reverse: at these sizes, for all, or as the smallest that fail."""
    found = [v for v in bounds.violations(proc) if isinstance(v.finding, Outside)]
    failing = bounds.failing_sizes(proc)
    claimed = [v.sizes for v in found if max(v.sizes.values(), default=0) <= NEAR]
    names = {p.name.name: identifier(p.name) for p in proc.params if isinstance(p, ControlParam)}
    wrong: list[Mapping[str, int]] = [] if bool(found) == (failing is not None) else [{}]
    for at in [*sizes, *claimed]:
        runs_out = leaves(elementwise.run, proc, at)
        inside = rel.context(
            names.values(), conjunction(f"{names[k]} = {v}" for k, v in at.items())
        )
        for_all = failing is not None and not failing.intersect(inside).is_empty()
        smaller = runs_out and not any(sum(c.values()) <= sum(at.values()) for c in claimed)
        here = bool(bounds.violations_at(proc, at))
        if {here, for_all} != {runs_out} or smaller or (at in claimed and not runs_out):
            wrong.append(at)
    return wrong
