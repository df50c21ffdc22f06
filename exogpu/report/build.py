"""A report from a procedure, its verdict and its proof."""

from __future__ import annotations

import hashlib
import os
from pathlib import Path

from exogpu.amir.nodes import Program
from exogpu.amir.walk import operations, timelines_of
from exogpu.diagnostics.errors import one_line
from exogpu.diagnostics.hazards import Hazard
from exogpu.diagnostics.verdict import Verdict
from exogpu.hw.access_names import CALLED
from exogpu.hw.timelines import SHORT_NAME
from exogpu.ir.printer import print_proc
from exogpu.ir.types import QualTL
from exogpu.pipeline.stages import Stages
from exogpu.report import timeline as report_timeline
from exogpu.report.derivation import Taken, derivation_steps
from exogpu.report.formula import formula
from exogpu.report.memory_use import rings_of, shared_memory_pictures
from exogpu.report.obligation_rows import place_of, rows_of, uses_of
from exogpu.report.render_verdict import roles_of
from exogpu.report.report_data import HazardCard, Report
from exogpu.report.source_view import Source, source_of
from exogpu.report.theorem import assumptions, badge, sizes_text, theorem, trusted, uncovered
from exogpu.report.thread_table import clusters, distributed_variables
from exogpu.schedule.derivations import derivation
from exogpu.symbolic.certificate.write import certificate_digest


def build(procedure: Stages, verdict: Verdict) -> Report:
    """Everything a report shows; of an ill-formed procedure, only what is wrong with it."""
    ir, proof = procedure.ir, verdict.proof
    if verdict.word == "error" or ir is None:
        return _ill_formed(procedure, verdict)
    facts, program = procedure.facts, procedure.amir(verdict.policy)
    source = source_of(facts.proc)
    rows = rows_of(proof, verdict.hazards, source)
    certified = proof is not None and proof.complete and verdict.word == "proved"
    hazard = verdict.hazards[0] if verdict.hazards else None
    return Report(
        name=procedure.name,
        doc=ir.doc.strip(),
        file=shown_path(ir.span.file),
        word=verdict.word,
        badge=badge(verdict),
        theorem=theorem(procedure, verdict),
        formula=formula(ir),
        facts=_facts(procedure, verdict),
        assumptions=assumptions(verdict),
        trusted=trusted(verdict),
        uncovered=uncovered(procedure),
        hazards=tuple(_card(h, source) for h in verdict.hazards),
        problems=(),
        proof=proof is not None,
        certified=certified,
        legend=_legend(program),
        lines=source.lines,
        marks=source.marks,
        rows=rows,
        uses=uses_of(rows, source, certified, verdict.redundant),
        clusters=clusters(facts.proc, facts.collective),
        owned=distributed_variables(facts),
        shared=shared_memory_pictures(facts, {} if proof is None else dict(proof.depths)),
        rings=rings_of(facts, program),
        timeline=report_timeline.timeline(facts, program, hazard),
        taken=_derivation_steps(procedure),
    )


def _ill_formed(procedure: Stages, verdict: Verdict) -> Report:
    found = verdict.diagnostics or procedure.diagnostics
    file = found[0].span.file if found else "<none>"
    return Report(
        name=procedure.name,
        doc="",
        file=shown_path(file),
        word=verdict.word,
        badge=badge(verdict),
        theorem=theorem(procedure, verdict),
        formula=None,
        facts=_facts(procedure, verdict),
        assumptions=(),
        trusted=(),
        uncovered=(),
        hazards=(),
        problems=tuple(one_line(d).replace(d.span.file, shown_path(d.span.file)) for d in found),
        proof=False,
        certified=False,
        legend=(),
        lines=(),
        marks=(),
        rows=(),
        uses=(),
        clusters=(),
        owned=(),
        shared=(),
        rings=(),
        timeline=None,
    )


def _derivation_steps(procedure: Stages) -> Taken | None:
    """The steps of a procedure that was derived."""
    return None if derivation(procedure) is None else derivation_steps(procedure)


def _legend(program: Program) -> tuple[tuple[str, str, str], ...]:
    """The timelines on which something is accessed."""
    used = frozenset[QualTL]().union(*map(timelines_of, operations(program.body)))
    return tuple(
        (SHORT_NAME[timeline], called.title, called.about)
        for timeline, called in CALLED.items()
        if timeline in used
    )


def shown_path(file: str) -> str:
    """The file relative to the working directory or, elsewhere, its name alone: reports are read
    on other machines."""
    try:
        relative = os.path.relpath(file)
    except ValueError:  # another drive
        return Path(file).name
    return Path(file).name if relative.startswith(os.pardir) else Path(relative).as_posix()


def _facts(procedure: Stages, verdict: Verdict) -> tuple[tuple[str, str], ...]:
    proof = verdict.proof
    facts = [("Verdict", badge(verdict)), ("Policy", verdict.policy.value)]
    facts.append(("Sizes", "all" if verdict.sizes is None else sizes_text(verdict.sizes) or "none"))
    if verdict.condition is not None:
        facts.append(("Safe if and only if" if verdict.necessary else "Safe if", verdict.condition))
    if verdict.note:
        facts.append(("Note", verdict.note))
    if proof is not None:
        smt = sum(1 for a in proof.answered if a.obligation.smt)
        solvers = ", ".join(dict.fromkeys(a.solver for a in proof.answered if a.solver))
        facts.append(("Obligations", f"{len(proof.answered)}, {smt} of them answered by a solver"))
        facts.append(("Solver", solvers or "none was needed"))
        facts.append(
            ("Time", f"{proof.isl_seconds:.2f} s to find, {proof.smt_seconds:.2f} s to check")
        )
    else:
        facts.append(("Time", f"{verdict.seconds:.2f} s"))
    if verdict.operations:
        facts.append(("Operations", f"{verdict.operations:,} of the abstract machine"))
    if procedure.ir is not None:
        facts.append(
            ("Source", f"{shown_path(procedure.ir.span.file)}, line {procedure.ir.span.line}")
        )
        facts.append(
            (
                "Digest" if verdict.proof is None else "Certificate",
                f"sha256 {_digest(procedure, verdict)}",
            )
        )
    return tuple(facts)


def _digest(procedure: Stages, verdict: Verdict) -> str:
    """Returns the digest of the certificate or, if there is none, of the procedure's printed
    representation, which no comment or path changes."""
    if verdict.proof is not None and verdict.proof.complete:
        return certificate_digest(procedure, verdict)
    assert procedure.ir is not None
    return hashlib.sha256(print_proc(procedure.ir).encode()).hexdigest()


def _card(hazard: Hazard, source: Source) -> HazardCard:
    element = hazard.variable + (f"[{', '.join(map(str, hazard.index))}]" if hazard.index else "")
    where = [sizes_text(hazard.sizes)] if hazard.sizes else []
    where += [f"task {hazard.task}"] if hazard.task is not None else []
    title = f"{hazard.code} {hazard.kind.value}" + (f" on {element}" if element else "")
    first_role, second_role = roles_of(hazard)
    return HazardCard(
        title=title + (f" at {', '.join(where)}" if where else ""),
        first=None if hazard.first is None else place_of(hazard.first, hazard.variable, source),
        second=place_of(hazard.second, hazard.variable, source),
        first_role=first_role,
        second_role=second_role,
        missing=hazard.message + (f"; {hazard.link}" if hazard.link else ""),
        repair=hazard.help,
        replayed=hazard.replayed,
    )
