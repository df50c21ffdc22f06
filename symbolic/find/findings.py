"""Findings of the prover: a kind of hazard, and its exact instances with sizes as parameters."""

from __future__ import annotations

from collections.abc import Iterator, Mapping
from dataclasses import dataclass
from math import prod

from exogpu.amir.nodes import Op
from exogpu.ir.isltext import identifier
from exogpu.ir.names import Sym
from exogpu.ir.walk import evaluate
from exogpu.machine.violation import Violation
from exogpu.result.hazards import HazardKind
from exogpu.solvers import isl
from exogpu.solvers import isl_relations as rel
from exogpu.symbolic.find.frames import Frame
from exogpu.symbolic.resident import extents
from exogpu.symbolic.sites import Site, of_tasks


@dataclass(frozen=True, slots=True, eq=False)
class Finding:
    """All violations of one kind between one check and one record."""

    kind: HazardKind
    frame: Frame
    variable: Sym
    check: Site
    """The operation that fails: a Check, Await, Arrive, trailing Record or CheckBarrier."""
    record: Site | None
    """The operation that is not ordered before it; None if there is none."""
    failing: isl.Map
    """`check -> element`, for all sizes and values of the frame's iterators."""
    pairs: isl.Map | None = None
    """`record -> check`, where there is a record."""

    def sizes(self) -> isl.Set:
        """The sizes for which there is a violation."""
        others = [name for name in self.frame.params if name not in self.size_names()]
        return rel.project_params(rel.params_where(self.failing), others)

    def size_names(self) -> tuple[str, ...]:
        return tuple(identifier(name) for name in self.frame.model.sizes)


@dataclass(frozen=True, slots=True)
class Instance:
    """One violation: comparable with `machine.violation.Violation`."""

    kind: HazardKind
    variable: str
    index: tuple[int, ...]
    check: Op
    iteration: tuple[tuple[str, int], ...]
    record: Op | None


def instances(finding: Finding, sizes: Mapping[str, int]) -> Iterator[Instance]:
    """The violations at concrete sizes, by name of the size; where memory resides (decision
    `resident-memory`), of one cluster that executes all tasks of their loop in order."""
    frame, check = finding.frame, finding.check
    known = {name: sizes[name.name] for name in frame.model.sizes if name.name in sizes}
    for residence in frame.model.by_position.residences:
        known[residence.count.name] = prod(evaluate(n, known) for n in extents(residence))
    named = {identifier(name): value for name, value in known.items()}
    names, points = rel.params_first(rel.fix_params(finding.failing, named))
    iterators = tuple(identifier(name) for name in check.iterators)
    for point in isl.points(points):
        values = dict(zip(names, point, strict=False))
        inner = point[len(names) : len(names) + len(iterators) - frame.depth]
        values |= dict(zip(iterators[frame.depth :], inner, strict=True))
        index = point[len(names) + len(inner) :]
        iteration = _executed(check, {n: values[identifier(n)] for n in check.iterators}, known)
        if iteration is None:
            continue
        yield Instance(
            finding.kind,
            finding.variable.name,
            index,
            check.op,
            iteration,
            None if finding.record is None else finding.record.op,
        )


def _executed(
    check: Site, values: dict[Sym, int], sizes: Mapping[Sym, int]
) -> tuple[tuple[str, int], ...] | None:
    """The iterators as the machine has them; None where another task stands at the position than
    in their order, of one loop."""
    residence = check.residence
    if residence is None or check.task is None:
        return tuple((name.name, value) for name, value in values.items())
    (task,) = residence.tasks
    position = values.pop(residence.loop.iterator) + evaluate(task.lo, {**sizes, **values})
    if values.pop(task.iterator, position) != position:
        return None
    found = [(name.name, value) for name, value in values.items()]
    found.insert(residence.depth, (task.iterator.name, position))
    return tuple(found)


def holds_at(finding: Finding, sizes: Mapping[str, int], violation: Violation) -> bool:
    """Tests whether a violation of the concrete machine at these sizes is one of the finding's.

    Of a late Arrive and of PHASE the machine names the last of several Awaits at fault, so that
    the record is not compared there.
    """
    several = finding.kind in (HazardKind.DEADLOCK, HazardKind.PHASE)
    record = None if finding.record is None else finding.record.op
    if (finding.kind, finding.variable.name) != (violation.kind, violation.variable):
        return False
    if finding.check.op is not violation.check or not (several or record is violation.record):
        return False
    model = finding.frame.model
    named = {identifier(name): sizes[name.name] for name in model.sizes if name.name in sizes}
    if finding.check.residence is not None:
        return _holds_at_position(finding, named, violation)
    values = dict(zip(finding.check.iterators, violation.iteration, strict=True))
    point = {identifier(name): value for name, (_, value) in values.items()}
    inside = rel.fix_params(finding.failing, named | point)
    inner = [point[name] for name in finding.frame.inner(finding.check)]
    return rel.has_pair(inside, inner, violation.index)


def _holds_at_position(finding: Finding, sizes: Mapping[str, int], violation: Violation) -> bool:
    """The same where memory resides: at some position, for some number of them."""
    values = [value for _, value in violation.iteration]
    check, residence = finding.check, finding.check.residence
    assert residence is not None
    if check.task is not None:
        at, count = residence.depth, len(residence.tasks)
        tasks = values[at : at + count] if of_tasks(check) else []
        known = [*values[:at], None, *values[at + count :], *tasks]
    else:
        known = [*values]
    named = zip(check.iterators, known, strict=True)
    point = {identifier(name): value for name, value in named if value is not None}
    inside = rel.fix_params(finding.failing, {**sizes, **point})
    inner = [point.get(name) for name in finding.frame.inner(check)]
    return rel.has_pair(inside, inner, violation.index)
