"""Certificates answered again: by solvers alone, without the prover and without the kernel.

A certificate is confirmed if its files are those that were sealed, every obligation that its
program has is there, and every solver answers each with `unsat`.  Nothing is asked of a solver
before all else is right.
"""

from __future__ import annotations

import re
from collections import Counter
from collections.abc import Callable, Iterator, Mapping, Sequence
from dataclasses import dataclass
from pathlib import Path
from time import monotonic, perf_counter
from typing import Any, Final, Literal

from exogpu.result.errors import NOWHERE, Diagnostic, ExoGpuError
from exogpu.result.proof import Lemma
from exogpu.solvers import apart, smt, smtlib
from exogpu.symbolic.certificate.coverage import Needs, Statement, needs, statements
from exogpu.symbolic.certificate.program_schema import check_program
from exogpu.symbolic.certificate.schema import Certificate, Entry, read
from exogpu.symbolic.certificate.sealing import (
    CERTIFICATE,
    OBLIGATIONS,
    PROGRAM,
    obligation_name,
    sha256,
)
from exogpu.symbolic.certificate.strict_json import (
    MalformedError,
    file_bytes,
    json_value,
    printable,
    strange_line,
)

Ask = Callable[[str], smt.Reply]
Which = Literal["z3", "cvc5", "all"]
Word = Literal["confirmed", "rejected", "unknown"]

CHECKED: Final = (
    f"the digests of {CERTIFICATE}, {PROGRAM} and every script",
    f"that {PROGRAM} is a program of the abstract machine, and the obligations are all it has",
    "that each script states its claim, and holds nothing but declarations, assertions, one "
    "question",
    "that solvers find no case in which a script's claim fails",
)

NOT_CHECKED: Final = (
    f"that {PROGRAM} is the program of the kernel, and that the scripts encode it: make the "
    "certificate again from the kernel's source and compare the digests",
    "the chains in words, which explain a claim, and the versions and source named",
    "what the certificate lists as assumed and trusted",
)


@dataclass(frozen=True, slots=True)
class Flaw:
    """Why a certificate is not confirmed."""

    where: str
    """A file, or an obligation's name."""
    problem: str
    claim: str = ""
    """Of the obligation."""
    open: bool = False
    """Whether a solver could not decide, which rejects nothing."""


@dataclass(frozen=True, slots=True)
class Rechecked:
    """What came of one certificate."""

    folder: Path
    procedure: str
    obligations: int
    by_rules: int
    """Obligations that need no solver."""
    solvers: tuple[str, ...]
    """Names and versions; none where nothing was asked."""
    flaws: tuple[Flaw, ...]
    seconds: float
    digest: str = ""
    """Of all of the certificate, as it says."""
    others: tuple[str, ...] = ()
    """Files of the folder that are no part of the certificate."""

    @property
    def word(self) -> Word:
        """Rejected if anything is wrong, unknown if a solver could not decide."""
        if not self.flaws:
            return "confirmed"
        return "unknown" if all(flaw.open for flaw in self.flaws) else "rejected"


# --- what is asked for --------------------------------------------------------------------------


def solver_names(which: Which) -> tuple[apart.Name, ...]:
    """The solvers of that name; `all` is Z3, and cvc5 where it is installed.

    Raises ExoGpuError where cvc5 is asked for and not installed.
    """
    installed = smt.cvc5_version() is not None
    if which == "cvc5" and not installed:
        message = "cvc5 is not installed"
        raise ExoGpuError([Diagnostic("X972", message, NOWHERE, "pip install cvc5")])
    if which != "all":
        return (which,)
    return ("z3", "cvc5") if installed else ("z3",)


def solvers(which: Which) -> tuple[Ask, ...]:
    """The same, asked in this process."""
    return tuple(apart.ASKS[name] for name in solver_names(which))


def certificates_in(folder: Path) -> tuple[Path, ...]:
    """The folder, if it is a certificate, else those in it that are, or should be.

    Raises ExoGpuError where there is none.
    """
    try:
        if folder.is_symlink():
            folder = folder.resolve()
        if _is_one(folder):
            return (folder,)
        found = tuple(sorted(filter(_is_one, folder.iterdir()))) if folder.is_dir() else ()
    except OSError as error:
        raise _none_in(folder, f"cannot be read: {error.strerror}") from None
    if not found:
        raise _none_in(folder, "has no certificate" if folder.is_dir() else "is no folder")
    return found


def _none_in(folder: Path, what: str) -> ExoGpuError:
    remedy = f"name a folder with {CERTIFICATE}, or one that holds such folders"
    return ExoGpuError([Diagnostic("X970", f"{printable(folder)} {what}", NOWHERE, remedy)])


def _is_one(folder: Path) -> bool:
    """Whether the folder is, or should be, a certificate; one that may not be read could be."""
    parts = (folder / CERTIFICATE, folder / OBLIGATIONS)
    try:
        return folder.is_dir() and any(part.exists() or part.is_symlink() for part in parts)
    except OSError:
        return True


# --- checking -----------------------------------------------------------------------------------


def recheck(
    folder: Path,
    ask: Sequence[Ask],
    progress: Callable[[str, int, int], None] = lambda procedure, done, total: None,
    deadline: float | None = None,
) -> Rechecked:
    """Answers the obligations of one certificate again, until `deadline` (of `time.monotonic`).

    `progress` gets the procedure, and how many of its obligations are answered.  Raises
    ExoGpuError for what cannot be read as a certificate.
    """
    start = perf_counter()
    found = read(folder)
    scripts: dict[str, str] = {}
    flaws = [*_of_certificate(folder, found), *_strangers(folder, found)]
    flaws += _scripts(folder, found, scripts, deadline)
    names: dict[str, None] = {}
    if not flaws:
        flaws += _answers(found, scripts, ask, names, progress, deadline)
    return Rechecked(
        folder,
        found.procedure,
        len(found.entries),
        sum(entry.digest is None for entry in found.entries),
        tuple(names),
        tuple(flaws),
        perf_counter() - start,
        found.digest,
        _others(folder),
    )


def _of_certificate(folder: Path, found: Certificate) -> Iterator[Flaw]:
    """What is wrong with the list of obligations, beside the program."""
    if not found.fits:
        yield Flaw(CERTIFICATE, "its digest differs: it is not the text that was written")
    taken: set[str] = set()
    for entry in found.entries:
        name = obligation_name(entry.kind, entry.variable, entry.lines, taken)
        if entry.name != name:
            yield Flaw(entry.name, f"an obligation of this kind and place is called {name}")
    try:
        data = file_bytes(folder / PROGRAM)
        if sha256(data) != found.program:
            yield Flaw(PROGRAM, f"its digest differs from that in {CERTIFICATE}")
        program = check_program(json_value(data))
        if line := strange_line(program, data):
            yield Flaw(PROGRAM, f"line {line} is not written as such a file is")
    except MalformedError as error:
        yield Flaw(PROGRAM, str(error))
        return
    yield from _of_program(found, program)


def _of_program(found: Certificate, program: Mapping[str, Any]) -> Iterator[Flaw]:
    """The obligations are those that the program has."""
    if (program["name"], program["policy"]) != (found.procedure, found.policy):
        yield Flaw(PROGRAM, "it is of another procedure or policy")
    if tuple(program["preconditions"]) != found.preconditions:
        yield Flaw(CERTIFICATE, f"its preconditions are not those of {PROGRAM}")
    known = statements(program)
    variables = {one["name"] for one in program["variables"]}
    variables |= {re.sub(r"_\d+$", "", name) for name in variables}
    for entry in found.entries:
        if entry.variable not in variables:
            yield Flaw(entry.name, f"the program has no variable {entry.variable}")
        for file, line, text in sorted(entry.links - known):
            yield Flaw(entry.name, f"the program has no statement at {file}:{line}: {text}")
    yield from _coverage(found, needs(program))


def _coverage(found: Certificate, needed: Needs) -> Iterator[Flaw]:
    proper = [entry for entry in found.entries if entry.kind != Lemma.TOTAL.value]
    present = Counter(entry.need for entry in proper)
    by_rules = Counter(entry.need for entry in found.entries if entry.digest is None)
    for need, missing in (needed.all - present).items():
        times = f" ({missing} times)" if missing > 1 else ""
        yield Flaw(CERTIFICATE, f"an obligation of the program is missing{times}: {need}")
    for need in present - needed.all:
        yield Flaw(CERTIFICATE, f"no obligation of the program: {need}")
    for need in by_rules - needed.by_rules:
        yield Flaw(CERTIFICATE, f"does not follow from the rules alone: {need}")
    yield from _nests(found, needed)


def _nests(found: Certificate, needed: Needs) -> Iterator[Flaw]:
    """Where counts are those within an iteration, the lemma on its total is there too.

    A procedure that is called twice has two barriers at the same statements.
    """
    inner, totals = (
        Counter(entry.need.second for entry in found.entries if entry.kind == lemma.value)
        for lemma in (Lemma.INNER, Lemma.TOTAL)
    )
    firsts: dict[Statement, list[tuple[Statement, ...]]] = {}
    for counted in needed.counted:
        if counted:
            firsts.setdefault(counted[0], []).append(counted)
    for first, barriers in firsts.items():
        line = f"line {first[1]} ({first[2]})"
        for at in {at for counted in barriers for at in counted}:
            if bool(inner[at]) != bool(inner[first]):
                yield Flaw(CERTIFICATE, f"only some counts of the barrier of {line} are INNER")
        least = -(-inner[first] // max(counted.count(first) for counted in barriers))
        if totals[first] < least:
            yield Flaw(CERTIFICATE, f"an obligation is missing: TOTAL at {line}")
        if totals[first] > (len(barriers) if least else 0):
            yield Flaw(CERTIFICATE, f"no obligation of the program: TOTAL at {line}")
    for nowhere in totals.keys() - firsts.keys():
        yield Flaw(CERTIFICATE, f"no obligation of the program: TOTAL at {nowhere}")


# --- files --------------------------------------------------------------------------------------


def _strangers(folder: Path, found: Certificate) -> Iterator[Flaw]:
    """Files among the scripts that are none."""
    known = {f"{entry.name}.smt2" for entry in found.entries if entry.digest is not None}
    inside = folder / OBLIGATIONS
    if inside.is_symlink():
        yield Flaw(OBLIGATIONS, "it is a symbolic link")
        return
    for name in _names(inside):
        if name not in known:
            yield Flaw(f"{OBLIGATIONS}/{name}", f"the file is not in {CERTIFICATE}")


def _others(folder: Path) -> tuple[str, ...]:
    parts = (CERTIFICATE, PROGRAM, OBLIGATIONS)
    return tuple(name for name in _names(folder) if name not in parts)


def _names(folder: Path) -> list[str]:
    try:
        return sorted(printable(path.name) for path in folder.iterdir())
    except OSError:
        return []


def _scripts(
    folder: Path, found: Certificate, scripts: dict[str, str], deadline: float | None
) -> Iterator[Flaw]:
    """What is wrong with scripts before anybody answers them; `scripts` gathers what solvers are
    to be asked."""
    for entry in found.entries:
        if entry.digest is None:
            continue
        if _late(deadline):
            yield Flaw(entry.name, "the time is up: nothing is answered", open=True)
            return
        try:
            data = file_bytes(folder / entry.file, smtlib.LONGEST)
            if sha256(data) != entry.digest:
                where = f"that in {CERTIFICATE}"
                yield Flaw(entry.name, f"the digest of its script differs from {where}")
            script = data.decode("ascii")
            if not script.startswith(smtlib.heading(entry.claim)):
                yield Flaw(entry.name, "its script states another claim")
            scripts[entry.name] = smtlib.plain(script)
        except UnicodeDecodeError:
            yield Flaw(entry.name, f"the file {entry.file} is not ASCII")
        except (MalformedError, smtlib.ScriptError) as error:
            yield Flaw(entry.name, f"the file {entry.file}: {error}")


# --- answers ------------------------------------------------------------------------------------


def _answers(
    found: Certificate,
    scripts: Mapping[str, str],
    ask: Sequence[Ask],
    names: dict[str, None],
    progress: Callable[[str, int, int], None],
    deadline: float | None,
) -> Iterator[Flaw]:
    """What solvers do not confirm; `names` gathers those of the solvers."""
    total = len(found.entries)
    for number, entry in enumerate(found.entries):
        progress(found.procedure, number, total)
        if entry.name not in scripts:
            continue
        if _late(deadline):
            left = sum(one.name in scripts for one in found.entries[number:])
            why = f"the time is up: {left} obligations are not answered, this one and the next"
            yield Flaw(entry.name, why, open=True)
            return
        for solver in ask:
            reply = solver(scripts[entry.name])
            names[reply.solver] = None
            yield from _flaws_of(entry, reply)
    progress(found.procedure, total, total)


def _late(deadline: float | None) -> bool:
    return deadline is not None and monotonic() >= deadline


def _flaws_of(entry: Entry, reply: smt.Reply) -> Iterator[Flaw]:
    if reply.word == "sat":
        why = f"{reply.solver} answers sat: there is a case in which the claim fails"
        yield Flaw(entry.name, why, entry.claim)
    elif reply.word == "unknown":
        why = reply.why or "it reached its limit"
        yield Flaw(entry.name, f"{reply.solver} does not decide it: {why}", entry.claim, open=True)
