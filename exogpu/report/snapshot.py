"""A report as data that a later report is compared with: `report.json` of its folder."""

from __future__ import annotations

import json
from collections.abc import Iterator, Mapping, Sequence
from dataclasses import dataclass
from pathlib import Path
from typing import Final, TypeAlias

from exogpu.diagnostics.codec import Json, decode, encode
from exogpu.report.report_data import Place, Report, Row
from exogpu.symbolic.certificate.strict_json import CERTIFICATE
from exogpu.symbolic.certificate.strict_json import FORMAT as CERTIFIED

FILE: Final = "report.json"
FORMAT: Final = "exogpu report"
VERSION: Final = 1

Key: TypeAlias = tuple[str, str, str, str]


@dataclass(frozen=True, slots=True)
class Claim:
    """One obligation, or one hazard: `answer` is `holds`, `broken` or `open`."""

    kind: str
    variable: str
    first: str
    """The statement's text; empty where there is none."""
    second: str
    said: str
    """In a plain sentence, with its lines."""
    answer: str
    chains: tuple[tuple[str, ...], ...]
    """The statements of each way that orders the two, without their lines."""

    @property
    def key(self) -> Key:
        """The key of the obligation, which does not depend on the lines of its statements."""
        return self.kind, self.variable.partition("[")[0], self.first, self.second


@dataclass(frozen=True, slots=True)
class Synchronising:
    """A statement that synchronises, and the claims that need it, by their numbers."""

    line: int
    text: str
    said: str
    redundant: bool
    needed_by: tuple[int, ...]


@dataclass(frozen=True, slots=True)
class Snapshot:
    """One procedure and its verdict."""

    name: str
    word: str
    badge: str
    theorem: str
    policy: str
    sizes: str
    numbers: tuple[int, ...]
    """The numbers of the lines of the source."""
    source: tuple[str, ...]
    claims: tuple[Claim, ...]
    synchronising: tuple[Synchronising, ...]
    proof: bool
    """Its claims are the obligations of a proof; else they are hazards alone."""
    complete: bool
    """It has chains and source; a certificate alone has neither."""


def snapshot_of(report: Report) -> Snapshot:
    """Returns the parts of a report that are compared."""
    facts = dict(report.facts)
    marks = {mark.number: mark for mark in report.marks}
    return Snapshot(
        name=report.name,
        word=report.word,
        badge=report.badge,
        theorem=report.theorem,
        policy=facts.get("Policy", ""),
        sizes=facts.get("Sizes", ""),
        numbers=tuple(line.number for line in report.lines),
        source=tuple(
            "".join(piece.text for segment in line.segments for piece in segment.pieces)
            for line in report.lines
        ),
        claims=tuple(map(_claim, report.rows)),
        synchronising=tuple(
            Synchronising(
                marks[use.mark].line, marks[use.mark].text, use.why, use.redundant, use.rows
            )
            for use in report.uses
        ),
        proof=report.proof,
        complete=True,
    )


def _claim(row: Row) -> Claim:
    chains = (tuple(f"{step.role}: {_text(step.place)}" for step in chain) for chain in row.chains)
    return Claim(
        row.kind,
        row.variable,
        _text(row.first),
        _text(row.second),
        row.plain,
        row.answer,
        tuple(dict.fromkeys(chains)),
    )


def _text(place: Place | None) -> str:
    return "" if place is None else " ".join(place.text.split())


# --- files --------------------------------------------------------------------------------------


def snapshot_json(snapshot: Snapshot) -> str:
    """The text of `report.json`: each record is the list of its fields."""
    value = {"format": FORMAT, "version": VERSION, "report": encode(snapshot)}
    return json.dumps(value, indent=1, ensure_ascii=False) + "\n"


def saved(folder: Path) -> tuple[Snapshot, ...]:
    """The procedures of a folder that `exogpu report` wrote, or of one certificate: those of the
    folder itself, or of the folders in it; none where it has none.

    Raises OSError, and ValueError for what is no report or certificate.
    """
    here = _read_folder(folder)
    if here is not None:
        return (here,)
    inside = sorted(one for one in folder.iterdir() if one.is_dir())
    return tuple(found for one in inside if (found := _read_folder(one)) is not None)


def _read_folder(folder: Path) -> Snapshot | None:
    for name, read in ((FILE, _report), (CERTIFICATE, _certificate)):
        path = folder / name
        if path.is_file():
            try:
                value = json.loads(path.read_text(encoding="utf-8"))
                if not isinstance(value, dict):
                    raise ValueError("it is no object")
                return read(value)
            except (ValueError, KeyError, RecursionError) as error:
                raise ValueError(f"{path} is no report that can be read: {error}") from None
    return None


def _report(value: Mapping[str, Json]) -> Snapshot:
    if (value.get("format"), value.get("version")) != (FORMAT, VERSION):
        raise ValueError("it is of another version of exogpu")
    found = decode(Snapshot, value["report"])
    assert isinstance(found, Snapshot)
    if len(found.numbers) != len(found.source):
        raise ValueError("its lines and their numbers are not as many")
    if any(not 0 <= at < len(found.claims) for s in found.synchronising for at in s.needed_by):
        raise ValueError("a statement is needed by an obligation that is not there")
    return found


def _certificate(value: Mapping[str, Json]) -> Snapshot:
    """Returns the snapshot of a certificate alone: that it was proved, and of which claims."""
    if value.get("format") != CERTIFIED:
        raise ValueError("it is no certificate")
    listed = value["obligations"]
    return Snapshot(
        name=str(value["procedure"]),
        word="proved",
        badge="proved",
        theorem="",
        policy=str(value["policy"]),
        sizes="all",
        numbers=(),
        source=(),
        claims=tuple(_claims(listed if isinstance(listed, list) else [])),
        synchronising=(),
        proof=True,
        complete=False,
    )


def _claims(obligations: Sequence[Json]) -> Iterator[Claim]:
    for one in obligations:
        if not isinstance(one, dict):
            raise ValueError("an obligation is no object")
        first, second = _statement(one["first"]), _statement(one["second"])
        yield Claim(str(one["kind"]), "", first, second, str(one["claim"]), "holds", ())


def _statement(side: Json) -> str:
    return " ".join(str(side["text"]).split()) if isinstance(side, dict) else ""
