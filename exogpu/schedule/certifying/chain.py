"""Certificates of the steps by which a procedure was derived, made on demand."""

from __future__ import annotations

from collections.abc import Callable
from dataclasses import dataclass, field
from pathlib import Path
from time import perf_counter

from exogpu.ir.nodes import Proc
from exogpu.schedule import opening
from exogpu.schedule.certifying.finding import witness
from exogpu.schedule.certifying.recording import Recorder
from exogpu.schedule.certifying.summing import summed
from exogpu.schedule.checker import BUDGET, Checker
from exogpu.schedule.equivalence import Differ
from exogpu.schedule.events import Program
from exogpu.schedule.procedures import Derivation, Schedulable, chain
from exogpu.schedule.rewrite import Rewrite
from exogpu.schedule.terms import Unclear
from exogpu.solvers import smt, smtlib
from exogpu.solvers.isl_branches import SeveralError
from exogpu.solvers.isl_budget import IslGaveUpError, limited
from exogpu.symbolic.certificate.sealing import CERTIFICATE, PROGRAM, WITNESS, sha256
from exogpu.symbolic.certificate.strict_json import LARGEST, MalformedError, json_value
from exogpu.symbolic.certificate.write import remove_certificate
from exogpu.symbolic.encode.witness import WitnessError
from exogpu.symbolic.steps.certificate import (
    DERIVATION,
    Decided,
    Listed,
    Made,
    derivation_text,
    files,
    folder_name,
    program_digest,
    write,
)
from exogpu.symbolic.steps.obligations import unlike
from exogpu.symbolic.steps.obliged import UnlikeError, obliged
from exogpu.symbolic.steps.record import Record
from exogpu.symbolic.steps.record_json import record_of
from exogpu.symbolic.steps.summed import Summed
from exogpu.symbolic.steps.untouched import touched
from exogpu.symbolic.steps.witness import Witness
from exogpu.symbolic.steps.witnesses import witness_of


@dataclass(frozen=True, slots=True)
class Certified:
    """A step, and its certificate if it has one."""

    made: Made
    decided: Decided
    why: str
    """Of a step that ISL alone has decided, why it has no certificate; else empty."""
    old: str
    new: str
    files: dict[str, str] = field(repr=False)
    """Of the certificate, by name; none where there is none."""
    obligations: int
    seconds: float


@dataclass(frozen=True, slots=True)
class Certificate:
    """The steps of a derivation, each with what certifies it."""

    procedure: str
    steps: tuple[Certified, ...]

    @property
    def complete(self) -> bool:
        """Whether no step is decided by ISL alone."""
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
                write(folder / folder_name(made.number, made.primitive), step.files)
                digest = sha256(step.files[CERTIFICATE])
            listed.append(
                Listed(
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
        write(folder, {DERIVATION: derivation_text(self.procedure, listed)})


def certificate(
    procedure: Schedulable, progress: Callable[[Certified], None] = lambda step: None
) -> Certificate:
    """The certificate of how a procedure was derived; without steps if it was written.

    What ISL finds about each step is a witness, and Z3 is asked for every obligation.  A step
    without a witness, or of which Z3 does not confirm all, was decided by ISL alone, and says so.
    """
    steps = [step for _, step in chain(procedure)][::-1]
    maker, found = _Maker(procedure.name), list[Certified]()
    for number, step in enumerate(steps, 1):
        found.append(maker.step(number, step))
        progress(found[-1])
    return Certificate(procedure.name, tuple(found))


def digests(procedure: Schedulable) -> tuple[tuple[str, str, str], ...]:
    """The primitive of each step, and the digests of what it was given and of what it made."""
    maker = _Maker(procedure.name)
    steps = [step for _, step in chain(procedure)][::-1]
    return tuple((step.primitive, *maker.ends(step)[2:]) for step in steps)


class NoCertificate(Exception):
    """Why a step has no certificate."""


class _Maker:
    """Opens each procedure of a chain once, so that neighbouring steps agree on it."""

    def __init__(self, procedure: str) -> None:
        self._procedure = procedure
        self._recorder = Recorder()
        self._opened: dict[int, tuple[Proc, Program]] = {}

    def step(self, number: int, step: Derivation) -> Certified:
        """A step with what certifies it."""
        start = perf_counter()
        made = Made(self._procedure, number, step.primitive, step.arguments)
        old, new, before, after = self.ends(step)
        decided: Decided = "same" if before == after else "certificate"
        why, texts, count = "", dict[str, str](), 0
        if decided != "same":
            try:
                with limited(BUDGET):
                    texts, count = self._certified(made, step, old, new)
            except IslGaveUpError:
                decided, why = "isl", "ISL did not find a witness within its budget"
            except SeveralError:
                decided, why = "isl", "what ISL found is no function"
            except (NoCertificate, UnlikeError, WitnessError, MalformedError, smtlib.ScriptError) as reason:
                decided, why = "isl", str(reason)
        seconds = perf_counter() - start
        return Certified(made, decided, why, before, after, texts, count, seconds)

    def ends(self, step: Derivation) -> tuple[Program, Program, str, str]:
        """What a step was given and what it made, and the digests of both."""
        old, new = self._program(_first(step.edit).old), self._program(step.edit.new)
        before, after = (program_digest(self._recorder.program(one)) for one in (old, new))
        return old, new, before, after

    def _program(self, proc: Proc) -> Program:
        known = self._opened.get(id(proc))
        if known is None:
            opened = opening.program(proc, f"S{len(self._opened)}_")
            known = self._opened[id(proc)] = proc, opened
        return known[1]

    def _certified(
        self, made: Made, step: Derivation, old: Program, new: Program
    ) -> tuple[dict[str, str], int]:
        if why := _inexpressible(step.edit):
            raise NoCertificate(why)
        record, found = recorded(step.edit, old, new, self._recorder)
        obligations = tuple(obliged(record, found))
        replies = smt.ask_together([smtlib.plain(one.smt) for one in obligations])
        for one, reply in zip(obligations, replies, strict=True):
            if reply.word != "unsat":
                raise NoCertificate(f"Z3 answers {reply.word} to: {one.claim}")
        texts = files(made, record, found, zip(obligations, replies, strict=True))
        # Nothing is certified that could not be read again.
        if any(len(text.encode()) > LARGEST for text in texts.values()):
            raise NoCertificate("it would be too large")
        again = record_of(json_value(texts[PROGRAM].encode()))
        witness_of(json_value(texts[WITNESS].encode()), again)
        return texts, len(obligations)


def uncertified(edit: Rewrite) -> str:
    """Why a rewriting has no certificate, whatever the checker says of it; empty if it has one.

    Raises IslGaveUpError.
    """
    if why := _inexpressible(edit):
        return why
    old, new = opening.program(edit.old, "P"), opening.program(edit.new, "Q")
    try:
        obligations = obliged(*recorded(edit, old, new, Recorder()))
        for one in obligations:
            reply = smt.ask_z3(smtlib.plain(one.smt))
            if reply.word != "unsat":
                return f"{reply.word}: {one.claim}"
    except (SeveralError, UnlikeError, WitnessError) as reason:
        return f"no witness: {reason}"
    return ""


def _first(edit: Rewrite) -> Rewrite:
    """The first of the rewritings that a step is made of."""
    return edit if edit.after is None else _first(edit.after)


def _by_results(edit: Rewrite) -> bool:
    """Whether both procedures are compared by what they leave."""
    return edit.by_results or bool(edit.equal)


def _inexpressible(edit: Rewrite) -> str:
    """Why the record of a rewriting would not say all that it rests on; empty if it does."""
    if edit.readings:
        return "its statements are read as others, which do the same"
    if edit.after is not None:
        return "it is made of several"
    return ""


def recorded(
    edit: Rewrite, old: Program, new: Program, recorder: Recorder
) -> tuple[Record, Witness | Summed]:
    """A rewriting as data, and what ISL finds about it, right or wrong.

    Raises UnlikeError where the map is wrong whatever the sizes, SeveralError where what ISL finds
    is no function, and IslGaveUpError.
    """
    if _by_results(edit):
        record = recorder.results(old, new)
        if (why := unlike(record)) is not None:
            raise UnlikeError(why)
        try:
            return record, summed(old, new, recorder.names)
        except (Differ, Unclear) as reason:
            raise UnlikeError(str(reason)) from None
    record = recorder.record(Checker(edit, old, new))
    if (why := unlike(record)) is not None:
        raise UnlikeError(why)
    names = touched(record)
    every = {**old.variables, **new.variables}
    about = frozenset(s for s in every if recorder.names.of(s).name in names)
    return record, witness(Checker(edit, old, new, about=about), recorder.names)
