"""Certificates answered again: by solvers alone, without the prover and without the kernel.

A certificate is confirmed if its files are those that were sealed, every obligation that its
program has is there, and every solver answers each with `unsat`.
"""

from __future__ import annotations

import json
from collections import Counter
from collections.abc import Callable, Iterator, Mapping, Sequence
from dataclasses import dataclass
from pathlib import Path
from time import perf_counter
from typing import Any, Final, Literal

from exogpu.coverage import Need, needs
from exogpu.errors import NOWHERE, Diagnostic, ExoGpuError
from exogpu.sealing import CERTIFICATE, FORMAT, OBLIGATIONS, VERSION, json_text, sealed, sha256
from exogpu.solvers import smt

Ask = Callable[[str], smt.Reply]
Which = Literal["z3", "cvc5", "all"]
Word = Literal["confirmed", "rejected", "unknown"]

REMAKE: Final = "make it again from the kernel's source"


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
    """Names and versions."""
    flaws: tuple[Flaw, ...]
    seconds: float

    @property
    def word(self) -> Word:
        """Rejected if anything is wrong, unknown if a solver could not decide."""
        if not self.flaws:
            return "confirmed"
        return "unknown" if all(flaw.open for flaw in self.flaws) else "rejected"


@dataclass(frozen=True, slots=True)
class Entry:
    """One obligation, as a certificate has it."""

    name: str
    need: Need
    claim: str
    digest: str | None
    """Of its script; None where it is said to follow from the rules alone."""


@dataclass(frozen=True, slots=True)
class Certificate:
    """A certificate that could be read."""

    text: str
    content: Mapping[str, Any]
    procedure: str
    policy: str
    program: tuple[str, str]
    """File and digest."""
    entries: tuple[Entry, ...]


# --- what is asked for --------------------------------------------------------------------------


def solvers(which: Which) -> tuple[Ask, ...]:
    """The solvers of that name; `all` is Z3, and cvc5 where it is installed.

    Raises ExoGpuError where cvc5 is asked for and not installed.
    """
    installed = smt.cvc5_version() is not None
    if which == "cvc5" and not installed:
        message = "cvc5 is not installed"
        raise ExoGpuError([Diagnostic("X972", message, NOWHERE, "pip install cvc5")])
    z3 = () if which == "cvc5" else (smt.ask_z3,)
    return (*z3, smt.ask_cvc5) if installed and which != "z3" else z3


def certificates_in(folder: Path) -> tuple[Path, ...]:
    """The folder, if it is a certificate, else those in it that are, or should be.

    Raises ExoGpuError where there is none.
    """
    if _is_one(folder):
        return (folder,)
    found = tuple(sorted(filter(_is_one, folder.iterdir()))) if folder.is_dir() else ()
    if not found:
        what = "has no certificate" if folder.is_dir() else "is no folder"
        remedy = f"name a folder with {CERTIFICATE}, or one that holds such folders"
        raise ExoGpuError([Diagnostic("X970", f"{folder} {what}", NOWHERE, remedy)])
    return found


def _is_one(folder: Path) -> bool:
    return (folder / CERTIFICATE).exists() or (folder / OBLIGATIONS).is_dir()


# --- reading ------------------------------------------------------------------------------------


def read(folder: Path) -> Certificate:
    """The certificate of a folder.  Raises ExoGpuError for what cannot be read as one."""
    path = folder / CERTIFICATE
    try:
        text = path.read_bytes().decode()
        content = json.loads(text)
    except OSError as error:
        raise _unreadable(path, error.strerror or "it cannot be opened") from None
    except (ValueError, RecursionError) as error:
        raise _unreadable(path, f"it is no JSON: {error}") from None
    if not isinstance(content, dict) or content.get("format") != FORMAT:
        raise _unreadable(path, "it is no certificate of exogpu")
    if content.get("version") != VERSION:
        found = json.dumps(content.get("version"))
        why = f"it has version {found} of the format, and this is for version {VERSION}"
        raise _unreadable(path, why)
    try:
        program = (_plain(content["program"]["file"]), _text(content["program"]["sha256"]))
        entries = tuple(_entry(one) for one in content["obligations"])
        names = _text(content["procedure"]), _text(content["policy"])
    except (KeyError, TypeError, ValueError, AttributeError) as error:
        raise _unreadable(path, f"a field is missing or has a wrong value: {error}") from None
    return Certificate(text, content, *names, program, entries)


def _unreadable(path: Path, why: str) -> ExoGpuError:
    return ExoGpuError([Diagnostic("X971", f"{path} cannot be read: {why}", NOWHERE, REMAKE)])


def _entry(one: Mapping[str, Any]) -> Entry:
    name = _plain(one["name"])
    kind = None if one["kind"] is None else _text(one["kind"])
    need = Need(kind, _statement(one["first"]), _statement(one["second"]))
    digest = None
    if one["by"] == "solver":
        digest = _text(one["sha256"])
        if (one["file"], one["answer"]) != (f"{OBLIGATIONS}/{name}.smt2", "unsat"):
            raise ValueError(f"the file or the answer of {name}")
    elif one["by"] != "rules":
        raise ValueError(f"by {one['by']}")
    return Entry(name, need, _text(one["claim"]), digest)


def _statement(site: Mapping[str, Any] | None) -> tuple[str, int, str] | None:
    if site is None:
        return None
    return (_text(site["file"]), int(site["line"]), _text(site["text"]))


def _text(value: object) -> str:
    if not isinstance(value, str):
        raise TypeError(f"{value!r} is no text")
    return value


def _plain(value: object) -> str:
    """A name that stays in its folder."""
    name = _text(value)
    if not name or name.startswith(".") or any(mark in name for mark in "/\\:"):
        raise ValueError(f"{name!r} is no file name")
    return name


# --- checking -----------------------------------------------------------------------------------


def recheck(
    folder: Path,
    ask: Sequence[Ask],
    progress: Callable[[str, int, int], None] = lambda procedure, done, total: None,
) -> Rechecked:
    """Answers the obligations of one certificate again.

    `progress` gets the procedure, and how many of its obligations are answered.  Raises
    ExoGpuError for what cannot be read as a certificate.
    """
    start = perf_counter()
    found = read(folder)
    flaws = [*_seal(found), *_coverage(folder, found), *_strangers(folder, found)]
    names: dict[str, None] = {}
    for number, entry in enumerate(found.entries):
        progress(found.procedure, number, len(found.entries))
        flaws += (
            Flaw(entry.name, problem, entry.claim, unknown)
            for problem, unknown in _answers(folder, entry, ask, names)
        )
    progress(found.procedure, len(found.entries), len(found.entries))
    return Rechecked(
        folder,
        found.procedure,
        len(found.entries),
        sum(entry.digest is None for entry in found.entries),
        tuple(names),
        tuple(flaws),
        perf_counter() - start,
    )


def _seal(found: Certificate) -> Iterator[Flaw]:
    if found.text != json_text(sealed(found.content)):
        yield Flaw(CERTIFICATE, "its digest differs: it is not the text that was written")
    if len({entry.name for entry in found.entries}) < len(found.entries):
        yield Flaw(CERTIFICATE, "two obligations have one name")


def _coverage(folder: Path, found: Certificate) -> Iterator[Flaw]:
    """The obligations are those that the program has."""
    file, digest = found.program
    try:
        data = (folder / file).read_bytes()
    except OSError:
        yield Flaw(file, "the file is missing")
        return
    if sha256(data) != digest:
        yield Flaw(file, f"its digest differs from that in {CERTIFICATE}")
    try:
        program = json.loads(data)
        described = (program["name"], program["policy"])
        needed = needs(program)
    except (ValueError, KeyError, TypeError, AttributeError, RecursionError):
        yield Flaw(file, "it is no program of the abstract machine")
        return
    if described != (found.procedure, found.policy):
        yield Flaw(file, "it is of another procedure or policy")
    present = Counter(entry.need for entry in found.entries)
    by_rules = Counter(entry.need for entry in found.entries if entry.digest is None)
    for need, missing in (needed.all - present).items():
        times = f" ({missing} times)" if missing > 1 else ""
        yield Flaw(CERTIFICATE, f"an obligation of the program is missing{times}: {need}")
    for need in present - needed.all:
        if need.kind is not None:  # there may be further lemmas
            yield Flaw(CERTIFICATE, f"no obligation of the program: {need}")
    for need in by_rules - needed.by_rules:
        yield Flaw(CERTIFICATE, f"does not follow from the rules alone: {need}")


def _strangers(folder: Path, found: Certificate) -> Iterator[Flaw]:
    known = {f"{entry.name}.smt2" for entry in found.entries if entry.digest is not None}
    inside = folder / OBLIGATIONS
    for path in sorted(inside.iterdir()) if inside.is_dir() else ():
        if path.name not in known:
            yield Flaw(f"{OBLIGATIONS}/{path.name}", f"the file is not in {CERTIFICATE}")


def _answers(
    folder: Path, entry: Entry, ask: Sequence[Ask], names: dict[str, None]
) -> Iterator[tuple[str, bool]]:
    """What is wrong with one obligation, and whether it is only not decided; `names` gathers
    those of the solvers."""
    if entry.digest is None:
        return
    path = folder / OBLIGATIONS / f"{entry.name}.smt2"
    try:
        data = path.read_bytes()
        script = data.decode()
    except OSError:
        yield f"the file {OBLIGATIONS}/{path.name} is missing", False
        return
    except UnicodeDecodeError:
        yield f"the file {OBLIGATIONS}/{path.name} is no text", False
        return
    if sha256(data) != entry.digest:
        yield f"the digest of its script differs from that in {CERTIFICATE}", False
    if not _comment(script).startswith("".join(entry.claim.split())):
        yield "its script states another claim", False
    for solver in ask:
        reply = solver(script)
        names[reply.solver] = None
        if reply.word == "sat":
            yield f"{reply.solver} answers sat: there is a case in which the claim fails", False
        elif reply.word == "unknown":
            why = "it reached its limit, or cannot read the script"
            yield f"{reply.solver} does not decide it: {why}", True


def _comment(script: str) -> str:
    """The comment that a script begins with, without spaces."""
    found = ""
    for line in script.splitlines():
        if not line.startswith(";"):
            break
        found += "".join(line[1:].split())
    return found
