"""Certificates of the steps by which a procedure was derived, made on demand."""

from __future__ import annotations

from collections.abc import Callable, Iterator, Mapping
from dataclasses import dataclass, field
from pathlib import Path
from time import perf_counter
from typing import Protocol

from exogpu.ir.nodes import Proc, Stmt
from exogpu.schedule.argument_types import Schedulable
from exogpu.schedule.certificates.recording import Recorder
from exogpu.schedule.certificates.step_finding import read_as, witness
from exogpu.schedule.certificates.sum_witness import summed
from exogpu.schedule.checking import opened_procedure
from exogpu.schedule.checking.checker import BUDGET, Checker
from exogpu.schedule.checking.equivalence import Differ
from exogpu.schedule.checking.statement_model import Program
from exogpu.schedule.checking.stored_terms import Unclear
from exogpu.schedule.derivations import Derivation, chain
from exogpu.schedule.rewrite import Reading, Rewrite
from exogpu.solvers import smt, smtlib
from exogpu.solvers.isl import IslGaveUpError, limited
from exogpu.solvers.isl_piecewise import SeveralError
from exogpu.symbolic.certificate import strict_json
from exogpu.symbolic.certificate.write import remove_certificate
from exogpu.symbolic.encode.witness import WitnessError
from exogpu.symbolic.steps import step_certificate
from exogpu.symbolic.steps.recheck_steps import Stepped
from exogpu.symbolic.steps.record import Compared, Record
from exogpu.symbolic.steps.record_json import record_of
from exogpu.symbolic.steps.step import changed_variables
from exogpu.symbolic.steps.step_obligations import unlike
from exogpu.symbolic.steps.sums_json import Found, witness_of


@dataclass(frozen=True, slots=True)
class Certified:
    """A step, and its certificate if it has one."""

    made: step_certificate.Made
    decided: step_certificate.Decided
    why: str
    """The reason why a step that ISL alone has decided has no certificate; else empty."""
    old: str
    new: str
    files: dict[str, str] = field(repr=False)
    """The files of the certificate, by name; none where there is none."""
    obligations: int
    seconds: float


@dataclass(frozen=True, slots=True)
class Certificate:
    """The steps of a derivation, each with what certifies it."""

    procedure: str
    steps: tuple[Certified, ...]

    @property
    def complete(self) -> bool:
        """Tests whether no step is decided by ISL alone."""
        return all(step.decided != "isl" for step in self.steps)

    def write(self, folder: Path) -> None:
        """Writes a folder a step and `derivation.json`, for `exogpu recheck`.  Older ones of
        another derivation go.  Raises OSError."""
        folder.mkdir(parents=True, exist_ok=True)
        for old in folder.glob("[0-9]*-*"):
            remove_certificate(old)
        listed = []
        for step in self.steps:
            made, digest = step.made, ""
            if step.files:
                step_certificate.write(
                    folder / step_certificate.folder_name(made.number, made.primitive), step.files
                )
                digest = strict_json.sha256(step.files[strict_json.CERTIFICATE])
            listed.append(
                step_certificate.Listed(
                    made.number,
                    made.primitive,
                    made.arguments,
                    step.decided,
                    step.why,
                    step.old,
                    step.new,
                    digest,
                )
            )
        step_certificate.write(
            folder,
            {step_certificate.DERIVATION: step_certificate.derivation_text(self.procedure, listed)},
        )


def certificate(
    procedure: Schedulable, progress: Callable[[Certified], None] = lambda step: None
) -> Certificate:
    """The certificate of how a procedure was derived; without steps if it was written.

    What ISL finds about each step is a witness, and Z3 is asked for every obligation.  A step
    without a witness, or of which Z3 does not confirm all, was decided by ISL alone, and says so.
    """
    steps = [step for _, step in chain(procedure)][::-1]
    maker, found = _Maker(procedure.name), list[Certified]()
    for step in steps:
        for part in maker.parts(step):
            found.append(maker.certified(len(found) + 1, step, part))
            progress(found[-1])
    return Certificate(procedure.name, tuple(found))


def digests(procedure: Schedulable) -> tuple[Stepped, ...]:
    """Each step by what it is, and the digests of what it was given and of what it made."""
    maker = _Maker(procedure.name)
    steps = [step for _, step in chain(procedure)][::-1]
    return tuple(
        (step.primitive, step.arguments, *maker.ends(part))
        for step in steps
        for part in maker.parts(step)
    )


@dataclass(frozen=True, slots=True)
class _Part:
    """A part of a step that is shown by itself: all of it, of most steps."""

    edit: Rewrite
    old: Program
    new: Program
    compared: Compared


class NoCertificate(Exception):
    """A reason why a step has no certificate."""


class _Maker:
    """Opens each procedure of a chain once, so that neighbouring steps agree on it."""

    def __init__(self, procedure: str) -> None:
        self._procedure = procedure
        self.recorder = Recorder()
        self._programs: dict[tuple[int, tuple[int, ...]], tuple[object, Program]] = {}

    def certified(self, number: int, step: Derivation, part: _Part) -> Certified:
        """A part of a step with what certifies it."""
        start = perf_counter()
        made = step_certificate.Made(self._procedure, number, step.primitive, step.arguments)
        before, after = self.ends(part)
        decided: step_certificate.Decided = "same" if before == after else "certificate"
        why, texts, count = "", dict[str, str](), 0
        if decided != "same":
            try:
                with limited(BUDGET):
                    texts, count = self._certified(made, part)
            except IslGaveUpError:
                decided, why = "isl", "ISL did not find a witness within its budget"
            except SeveralError:
                decided, why = "isl", "what ISL found is no function"
            except (NoCertificate, step_certificate.UnlikeError, WitnessError) as reason:
                decided, why = "isl", str(reason)
            except (strict_json.MalformedError, smtlib.ScriptError) as reason:
                decided, why = "isl", str(reason)
        seconds = perf_counter() - start
        return Certified(made, decided, why, before, after, texts, count, seconds)

    def parts(self, step: Derivation) -> tuple[_Part, ...]:
        """A step in parts: those that change statements, or the first if none does."""
        found = tuple(_parts(step.edit, self.open_procedure))
        changing = tuple(part for part in found if len({*self.ends(part)}) > 1)
        return changing or found[:1]

    def ends(self, part: _Part) -> tuple[str, str]:
        """The digests of what a part was given and of what it made."""
        program = self.recorder.program
        return step_certificate.program_digest(program(part.old)), step_certificate.program_digest(
            program(part.new)
        )

    def open_procedure(self, proc: Proc, readings: Mapping[Stmt, Reading] | None = None) -> Program:
        """A procedure as its statements, with some read as others."""
        key = id(proc), tuple(id(one) for one in (readings or {}).values())
        known = self._programs.get(key)
        if known is None:
            opened = opened_procedure.program(proc, f"S{len(self._programs)}_", readings=readings)
            known = self._programs[key] = (proc, readings), opened
        return known[1]

    def _certified(self, made: step_certificate.Made, part: _Part) -> tuple[dict[str, str], int]:
        record, found = recorded(part, self.recorder)
        obligations = tuple(step_certificate.obliged(record, found))
        replies = smt.ask_together([smtlib.plain(one.smt) for one in obligations])
        for one, reply in zip(obligations, replies, strict=True):
            if reply.word != "unsat":
                raise NoCertificate(f"Z3 answers {reply.word} to: {one.claim}")
        texts = step_certificate.files(made, record, found, zip(obligations, replies, strict=True))
        # Nothing is certified that could not be read again.
        if any(len(text.encode()) > strict_json.LARGEST for text in texts.values()):
            raise NoCertificate("it would be too large")
        again = record_of(strict_json.json_value(texts[strict_json.PROGRAM].encode()))
        witness_of(strict_json.json_value(texts[strict_json.WITNESS].encode()), again)
        return texts, len(obligations)


def records(edit: Rewrite) -> Iterator[tuple[Record, Found]]:
    """A rewriting as data, in parts, and what ISL finds about each, right or wrong.

    Raises UnlikeError, SeveralError and IslGaveUpError.
    """
    maker = _Maker("")
    for part in _parts(edit, maker.open_procedure):
        yield recorded(part, maker.recorder)


def uncertified(edit: Rewrite) -> str:
    """Explains why a rewriting has no certificate, whatever the checker says of it; empty if it has
    one.

    Raises IslGaveUpError.
    """
    try:
        for record, found in records(edit):
            for one in step_certificate.obliged(record, found):
                reply = smt.ask_z3(smtlib.plain(one.smt))
                if reply.word != "unsat":
                    return f"{reply.word}: {one.claim}"
    except (SeveralError, step_certificate.UnlikeError, WitnessError) as reason:
        return f"no witness: {reason}"
    return ""


class _Opener(Protocol):
    def __call__(self, proc: Proc, readings: Mapping[Stmt, Reading] | None = None) -> Program: ...


def _parts(edit: Rewrite, opened: _Opener) -> Iterator[_Part]:
    """A rewriting in parts, each made of what the one before it made."""
    if edit.after is not None:
        yield from _parts(edit.after, opened)
    old, new = opened(edit.old), opened(edit.new)
    if edit.by_results or edit.equal:
        yield _Part(edit, old, new, "results")
        return
    was, now = (opened(proc, edit.readings) for proc in (edit.old, edit.new))
    if was.readings:
        yield _Part(edit, old, was, "whole to parts")
    yield _Part(edit, was if was.readings else old, now if now.readings else new, "statements")
    if now.readings:
        yield _Part(edit, now, new, "parts to whole")


def recorded(part: _Part, recorder: Recorder) -> tuple[Record, Found]:
    """A part of a step as data, and what ISL finds about it, right or wrong.

    Raises UnlikeError where the map is wrong whatever the sizes, SeveralError where what ISL finds
    is no function, and IslGaveUpError.
    """
    old, new = part.old, part.new
    match part.compared:
        case "whole to parts":
            return read_as(old, new, part.compared, recorder)
        case "parts to whole":
            return read_as(new, old, part.compared, recorder)
        case "results":
            record = recorder.results(old, new)
        case "statements":
            record = recorder.record(Checker(part.edit, old, new))
    if (why := unlike(record)) is not None:
        raise step_certificate.UnlikeError(why)
    if record.by_results:
        try:
            return record, summed(old, new, recorder.names)
        except (Differ, Unclear) as reason:
            raise step_certificate.UnlikeError(str(reason)) from None
    names = changed_variables(record)
    every = {**old.variables, **new.variables}
    about = frozenset(s for s in every if recorder.names.variable_of(s).name in names)
    return record, witness(Checker(part.edit, old, new, about=about), recorder.names)
