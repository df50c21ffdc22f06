"""Certificates answered again: by solvers alone, without the prover and without ISL.

A certificate is confirmed if its files are those that were sealed, the obligations are those that
its program has, and every solver answers each with `unsat`: in a script that is made here, from
the program and the witness.  Nothing is asked of a solver before all else is right.
"""

from __future__ import annotations

from collections import Counter
from collections.abc import Callable, Iterator, Mapping, Sequence
from dataclasses import dataclass
from pathlib import Path
from time import monotonic, perf_counter
from typing import Any, Final, Literal, Protocol, TypeAlias

from exogpu.amir.nodes import Program
from exogpu.diagnostics.errors import NOWHERE, Diagnostic, ExoGpuError
from exogpu.diagnostics.verdict import Lemma, Obligation
from exogpu.solvers import smt as solvers_smt
from exogpu.solvers import smtlib, solver_process
from exogpu.symbolic.certificate.certificate_schema import Certificate, read_certificate
from exogpu.symbolic.certificate.program_reader import program_of
from exogpu.symbolic.certificate.program_rules import COUNT, Need, assumed, needs
from exogpu.symbolic.certificate.program_schema import check_program, operations
from exogpu.symbolic.certificate.strict_json import (
    CERTIFICATE,
    PROGRAM,
    WITNESS,
    Json,
    MalformedError,
    file_bytes,
    json_value,
    printable,
    sha256,
    strange_line,
)
from exogpu.symbolic.certificate.witness_json import to_json, witness_of
from exogpu.symbolic.certificate.write import obligation_json
from exogpu.symbolic.encode.chain_text import named_obligations
from exogpu.symbolic.encode.obligations import check_sizes, drafts
from exogpu.symbolic.encode.witness import Witness, WitnessError
from exogpu.symbolic.model import Placed
from exogpu.symbolic.sites import UndecidedError

Ask = Callable[[str], solvers_smt.Reply]
Which = Literal["z3", "cvc5", "all"]
Word = Literal["confirmed", "rejected", "unknown"]
Of = Literal["proof", "step", "derivation"]
"""The subject of a certificate: synchronisation, a step of a schedule, or the list of its steps."""

CHECKED: Final = (
    f"the digests of {CERTIFICATE}, {PROGRAM} and {WITNESS}",
    f"that {PROGRAM} is a program of the abstract machine, and the obligations are all it has",
    "that solvers find no case in which a claim fails, in scripts made here from the program and "
    "the witness",
)

STEPS_CHECKED: Final = (
    f"the digests of {CERTIFICATE}, {PROGRAM} and {WITNESS}",
    f"that {PROGRAM} is of two procedures and a map between their statements, and the obligations "
    "are all that the map has",
    "that solvers find no case in which a claim fails, in scripts made here from the program and "
    "the witness",
    "of a derivation, that each step is made of what the one before it made",
)
"""The checks of steps of schedules."""

STEPS_NOT_CHECKED: Final = (
    f"that the statements in {PROGRAM} are those of the kernel's source",
    "the versions named",
    "what the certificate lists as assumed and trusted",
)

NOT_CHECKED: Final = (
    f"that {PROGRAM} is the program of the kernel, where its source is not at hand: name it with "
    "--source",
    "the versions named",
    "what the certificate lists as assumed and trusted",
)


@dataclass(frozen=True, slots=True)
class Flaw:
    """A reason why a certificate is not confirmed."""

    where: str
    """A file, or an obligation's name."""
    problem: str
    claim: str = ""
    """The claim of the obligation."""
    open: bool = False
    """A solver could not decide, which rejects nothing."""


@dataclass(frozen=True, slots=True)
class Rechecked:
    """The result of rechecking one certificate."""

    folder: Path
    procedure: str
    policy: str
    obligations: int
    by_rules: int
    """Obligations that need no solver."""
    solvers: tuple[str, ...]
    """Names and versions; none where nothing was asked."""
    flaws: tuple[Flaw, ...]
    seconds: float
    digest: str = ""
    """The digest of all of the certificate, as it says."""
    others: tuple[str, ...] = ()
    """Files of the folder that are no part of the certificate."""
    compared: bool = False
    """The program was made again from the kernel's source."""
    of: Of = "proof"

    @property
    def word(self) -> Word:
        """Rejected if anything is wrong, unknown if a solver could not decide."""
        if not self.flaws:
            return "confirmed"
        return "unknown" if all(flaw.open for flaw in self.flaws) else "rejected"


# --- what is asked for --------------------------------------------------------------------------


def solver_names(which: Which) -> tuple[solver_process.Name, ...]:
    """The solvers of that name; `all` is Z3, and cvc5 where it is installed.

    Raises ExoGpuError where cvc5 is asked for and not installed.
    """
    installed = solvers_smt.cvc5_version() is not None
    if which == "cvc5" and not installed:
        message = "cvc5 is not installed"
        raise ExoGpuError([Diagnostic("X972", message, NOWHERE, "pip install cvc5")])
    if which != "all":
        return (which,)
    return ("z3", "cvc5") if installed else ("z3",)


def solvers(which: Which) -> tuple[Ask, ...]:
    """The same, asked in this process."""
    return tuple(solver_process.ASKS[name] for name in solver_names(which))


def certificates_in(folder: Path, *, derived: bool = False) -> tuple[Path, ...]:
    """The folder, if it is a certificate, else those in it that are, or should be; of a derivation,
    which has a proof beside its steps where both were written to one folder, all of them.

    Raises ExoGpuError where there is none, but for a derivation.
    """
    try:
        if folder.is_symlink():
            folder = folder.resolve()
        own = (folder,) if is_certificate(folder) else ()
        if own and not derived:
            return own
        found = tuple(sorted(filter(is_certificate, folder.iterdir()))) if folder.is_dir() else ()
    except OSError as error:
        raise _none_in(folder, f"cannot be read: {error.strerror}") from None
    if not found and not derived:
        raise _none_in(folder, "has no certificate" if folder.is_dir() else "is no folder")
    return own + found


def _none_in(folder: Path, what: str) -> ExoGpuError:
    remedy = f"name a folder with {CERTIFICATE}, or one that holds such folders"
    return ExoGpuError([Diagnostic("X970", f"{printable(folder)} {what}", NOWHERE, remedy)])


def is_certificate(folder: Path) -> bool:
    """Tests whether the folder is, or should be, a certificate; one that may not be read could
    be."""
    parts = (folder / CERTIFICATE, folder / WITNESS)
    try:
        return folder.is_dir() and any(part.exists() or part.is_symlink() for part in parts)
    except OSError:
        return True


# --- checking -----------------------------------------------------------------------------------

Compared: TypeAlias = str | None
"""Why a program is not what the kernel's source gives, empty if it is; None where the source is not
at hand."""

Compare: TypeAlias = Callable[[Certificate, object], Compared]
"""Compares a program's JSON with what the source gives."""


class Asked(Protocol):
    """An obligation, as far as it is asked: of a proof or of a step."""

    @property
    def name(self) -> str: ...
    @property
    def claim(self) -> str: ...
    @property
    def smt(self) -> str: ...


class Stated(Protocol):
    """A certificate, as far as an answer names it."""

    @property
    def procedure(self) -> str: ...
    @property
    def policy(self) -> str: ...
    @property
    def digest(self) -> str: ...
    @property
    def entries(self) -> Sequence[Mapping[str, Any]]: ...
    @property
    def of(self) -> Of: ...


@dataclass(frozen=True, slots=True)
class Prepared:
    """A certificate as it was read, with what solvers are to be asked."""

    folder: Path
    found: Stated
    obligations: tuple[Asked, ...]
    """The obligations that the program has; none where there are flaws already."""
    flaws: tuple[Flaw, ...]
    compared: bool
    seconds: float


def prepare(folder: Path, compare: Compare = lambda certificate, program: None) -> Prepared:
    """Reads a certificate and encodes its obligations; nothing is asked of a solver.

    Raises ExoGpuError for what cannot be read as a certificate.
    """
    start = perf_counter()
    found = read_certificate(folder)
    flaws = [] if found.fits else [_differs()]
    compared: list[str] = []

    def remake(certificate: Certificate, value: object) -> Compared:
        if (why := compare(certificate, value)) is not None:
            compared.append(why)
        return why

    program, witness = _program(folder, found, remake, flaws), _witness(folder, found, flaws)
    obligations: tuple[Obligation, ...] = ()
    if program is not None and witness is not None and not flaws:
        obligations = _obligations(program, witness, flaws)
        flaws += () if flaws else _check_list(found, obligations)
    asked = () if flaws else obligations
    seconds = perf_counter() - start
    return Prepared(folder, found, asked, tuple(flaws), bool(compared), seconds)


def answered(
    prepared: Prepared,
    ask: Sequence[Ask],
    progress: Callable[[str, int, int], None] = lambda procedure, done, total: None,
    deadline: float | None = None,
) -> Rechecked:
    """Asks solvers for the obligations, until `deadline` (of `time.monotonic`).

    `progress` gets the procedure, and how many of its obligations are answered.
    """
    start, found = perf_counter(), prepared.found
    names: dict[str, None] = {}
    flaws = prepared.flaws or tuple(
        _answers(found, prepared.obligations, ask, names, progress, deadline)
    )
    return Rechecked(
        prepared.folder,
        found.procedure,
        found.policy,
        len(found.entries),
        sum(entry["by"] == "rules" for entry in found.entries),
        tuple(names),
        flaws,
        prepared.seconds + perf_counter() - start,
        found.digest,
        _foreign_files(prepared.folder),
        prepared.compared,
        found.of,
    )


def recheck(
    folder: Path,
    ask: Sequence[Ask],
    *,
    compare: Compare = lambda certificate, program: None,
) -> Rechecked:
    """Reads one certificate and answers its obligations anew.

    Raises ExoGpuError for what cannot be read as a certificate.
    """
    return answered(prepare(folder, compare), ask)


def _differs() -> Flaw:
    return Flaw(CERTIFICATE, "its digest differs: it is not the text that was written")


def _program(
    folder: Path, found: Certificate, compare: Compare, flaws: list[Flaw]
) -> Program | None:
    """The program of a certificate; `flaws` gathers what is wrong with it."""
    try:
        data = file_bytes(folder / PROGRAM)
        if sha256(data) != found.program:
            flaws.append(Flaw(PROGRAM, f"its digest differs from that in {CERTIFICATE}"))
        value = check_program(json_value(data))
        if line := strange_line(value, data):
            flaws.append(Flaw(PROGRAM, f"line {line} is not written as such a file is"))
        program = program_of(value)
    except MalformedError as error:
        flaws.append(Flaw(PROGRAM, str(error)))
        return None
    if (program.name, program.policy.value) != (found.procedure, found.policy):
        flaws.append(Flaw(PROGRAM, "it is of another procedure or policy"))
    if tuple(value["preconditions"]) != found.preconditions:
        flaws.append(Flaw(CERTIFICATE, f"its preconditions are not those of {PROGRAM}"))
    if found.assumptions != tuple(assumed(value, operations(value))):
        flaws.append(Flaw(CERTIFICATE, f"it rests on other assumptions than {PROGRAM} states"))
    if why := compare(found, value):
        flaws.append(Flaw(PROGRAM, why))
    flaws += _coverage(found, value)
    return program


def _witness(folder: Path, found: Certificate, flaws: list[Flaw]) -> Witness | None:
    """The witness of a certificate; `flaws` gathers what is wrong with it."""
    try:
        data = file_bytes(folder / WITNESS)
        if sha256(data) != found.witness:
            flaws.append(Flaw(WITNESS, f"its digest differs from that in {CERTIFICATE}"))
        witness = witness_of(json_value(data))
        if line := strange_line(to_json(witness), data):
            flaws.append(Flaw(WITNESS, f"line {line} is not written as such a file is"))
    except MalformedError as error:
        flaws.append(Flaw(WITNESS, str(error)))
        return None
    return witness


# --- obligations --------------------------------------------------------------------------------


def _obligations(program: Program, witness: Witness, flaws: list[Flaw]) -> tuple[Obligation, ...]:
    """Encodes the program's obligations; appends to `flaws` the reason if it cannot."""
    try:
        placed = Placed(program)
        check_sizes(placed, witness.sizes)
        found = named_obligations(placed, drafts(placed, witness))
    except WitnessError as error:
        flaws.append(Flaw(WITNESS, str(error)))
        return ()
    except UndecidedError as error:
        flaws.append(Flaw(PROGRAM, f"line {error.span.line}: {error.reason}"))
        return ()
    flaws += (Flaw(WITNESS, f"nobody asks for {one}") for one in witness.unasked())
    return found


def _check_list(found: Certificate, obligations: Sequence[Obligation]) -> Iterator[Flaw]:
    """The certificate lists the obligations that were made, in their order."""
    made = [obligation_json(one) for one in obligations]
    stated: dict[str, Any] = {entry["name"]: entry for entry in found.entries}
    for one in made:
        name = str(one["name"])
        if name not in stated:
            yield Flaw(CERTIFICATE, f"an obligation of the program is missing: {name}")
            continue
        for field, value in one.items():
            if stated[name][field] != value:
                yield Flaw(name, f"its {field} is another: {_format_value(value)}")
    names = {str(one["name"]) for one in made}
    for entry in found.entries:
        if entry["name"] not in names:
            yield Flaw(CERTIFICATE, f"no obligation of the program: {entry['name']}")
    if [entry["name"] for entry in found.entries] != [one["name"] for one in made]:
        yield Flaw(CERTIFICATE, "its obligations stand in another order, or twice")


def _format_value(value: Json) -> str:
    if isinstance(value, dict):
        return f"line {value['line']} ({value['text']})"
    return str(value)


def _coverage(found: Certificate, program: dict[str, Any]) -> Iterator[Flaw]:
    """The same told apart from the encoder: read off the program's JSON, by another hand."""
    needed = needs(program)
    proper = [entry for entry in found.entries if entry["kind"] != Lemma.TOTAL.value]
    present = Counter(map(_need, proper))
    by_rules = Counter(_need(entry) for entry in found.entries if entry["by"] == "rules")
    for need, missing in (needed.all - present).items():
        times = f" ({missing} times)" if missing > 1 else ""
        yield Flaw(CERTIFICATE, f"an obligation of the program is missing{times}: {need}")
    for need in (one for one in present - needed.all if one not in needed.again):
        yield Flaw(CERTIFICATE, f"no obligation of the program: {need}")
    for need in by_rules - needed.by_rules:
        yield Flaw(CERTIFICATE, f"does not follow from the rules alone: {need}")


def _need(entry: Mapping[str, Any]) -> Need:
    kind = COUNT if entry["kind"] == Lemma.INNER.value else entry["kind"]
    sites = ((site["file"], site["line"], site["text"]) if site else None for site in _ends(entry))
    return Need(kind, *sites)


def _ends(entry: Mapping[str, Any]) -> tuple[Any, Any]:
    return entry["first"], entry["second"]


# --- files --------------------------------------------------------------------------------------


def _foreign_files(folder: Path) -> tuple[str, ...]:
    parts = (CERTIFICATE, PROGRAM, WITNESS)
    try:
        names = sorted(printable(path.name) for path in folder.iterdir())
    except OSError:
        return ()
    return tuple(name for name in names if name not in parts)


# --- answers ------------------------------------------------------------------------------------


def _answers(
    found: Stated,
    obligations: Sequence[Asked],
    ask: Sequence[Ask],
    names: dict[str, None],
    progress: Callable[[str, int, int], None],
    deadline: float | None,
) -> Iterator[Flaw]:
    """Yields the obligations that solvers do not confirm; `names` gathers those of the solvers."""
    total = len(obligations)
    for number, one in enumerate(obligations):
        progress(found.procedure, number, total)
        if not one.smt:
            continue
        if _late(deadline):
            left = sum(bool(other.smt) for other in obligations[number:])
            why = f"the time is up: {left} obligations are not answered, this one and the next"
            yield Flaw(one.name, why, open=True)
            return
        try:
            question = smtlib.plain(one.smt)
        except smtlib.ScriptError as error:
            yield Flaw(one.name, f"its script: {error}")
            continue
        for solver in ask:
            reply = solver(question)
            names[reply.solver] = None
            yield from _flaws_of(one, reply)
    progress(found.procedure, total, total)


def _late(deadline: float | None) -> bool:
    return deadline is not None and monotonic() >= deadline


def _flaws_of(one: Asked, reply: solvers_smt.Reply) -> Iterator[Flaw]:
    if reply.word == "sat":
        why = f"{reply.solver} answers sat: there is a case in which the claim fails"
        yield Flaw(one.name, why, one.claim)
    elif reply.word == "unknown":
        why = reply.why or "it reached its limit"
        yield Flaw(one.name, f"{reply.solver} does not decide it: {why}", one.claim, open=True)
