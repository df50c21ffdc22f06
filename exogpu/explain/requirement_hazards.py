"""Hazards of bounds, divergence and operands, which the analysis finds without running the
kernel."""

from __future__ import annotations

from collections.abc import Mapping

from exogpu.analysis import bounds, operand_windows
from exogpu.analysis.bounds_messages import Outside
from exogpu.diagnostics.errors import Diagnostic
from exogpu.diagnostics.hazards import Hazard, HazardKind, Occurrence
from exogpu.ir.nodes import ControlParam, For, Instr
from exogpu.ir.types import Sym
from exogpu.ir.walk import walk


def hazard_of_divergence(diagnostic: Diagnostic, sizes: Mapping[str, int]) -> Hazard:
    """A divergence as a hazard: its first site is the scope that narrowed the threads."""
    note = diagnostic.notes[0] if diagnostic.notes else None
    return Hazard(
        code=diagnostic.code,
        kind=HazardKind.DIVERGENCE,
        variable="",
        index=(),
        sizes=dict(sizes),
        task=None,
        first=Occurrence(note.span, note.span.text.strip()) if note else None,
        second=Occurrence(diagnostic.span, diagnostic.span.text.strip()),
        message=diagnostic.message.removeprefix(f"{HazardKind.DIVERGENCE.value}: "),
        help=diagnostic.help,
        replayed=False,
    )


def hazard_of_bounds(violation: bounds.Breach) -> Hazard:
    """An access out of bounds as a hazard, at the smallest instance that has it."""
    found = violation.diagnostic
    assert isinstance(violation.finding, Outside)
    sizes = dict(violation.sizes)
    outside = violation.finding
    inner = frozenset[Sym]() if outside.call is None else _body_iterators(outside.call.instr)
    iteration = tuple(
        (s.name, n) for s, n in violation.point.items() if s.name not in sizes and s not in inner
    )
    # A reader looks at the call, and not into the instruction that it calls.
    notes = [
        note for note in found.notes if outside.call is None or note.span != outside.access.span
    ]
    first = None
    if notes:
        span = notes[0].span
        called_there = outside.call is None or outside.via is not None
        role = "the call" if called_there else ""
        if span in [load.span for load in outside.loads]:
            role = "where its index is loaded"
        first = Occurrence(span, span.text.strip(), role=role)
    return Hazard(
        code=found.code,
        kind=HazardKind.BOUNDS,
        variable=(outside.access if outside.call is None else outside.element).name.name,
        index=(),
        sizes=sizes,
        task=None,
        first=first,
        second=Occurrence(found.span, found.span.text.strip(), iteration=iteration),
        message=found.message,
        help=found.help,
        replayed=False,
    )


def _body_iterators(instr: Instr) -> frozenset[Sym]:
    """Lists the iterators and control parameters of an instruction, which its caller has not."""
    params = (p.name for p in instr.params if isinstance(p, ControlParam))
    return frozenset({*params, *(s.iterator for s in walk(instr.body) if isinstance(s, For))})


def hazard_of_operands(violation: operand_windows.Misuse) -> Hazard:
    """Operands that overlap or are misplaced as a hazard, at the smallest instance."""
    found, note = violation.diagnostic, violation.diagnostic.notes[0]
    sizes = dict(violation.sizes)
    iteration = tuple((s.name, n) for s, n in violation.point.items() if s.name not in sizes)
    return Hazard(
        code=found.code,
        kind=violation.kind,
        variable=violation.variable,
        index=(),
        sizes=sizes,
        task=None,
        first=Occurrence(note.span, note.span.text.strip()),
        second=Occurrence(found.span, found.span.text.strip(), iteration=iteration),
        message=found.message,
        help=found.help,
        replayed=False,
    )
