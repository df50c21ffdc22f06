"""A witness as JSON, and back: what is read is data of a closed grammar, and nothing of it is
believed."""

from __future__ import annotations

from collections.abc import Callable, Iterator, Mapping, Sequence
from functools import cache
from typing import Any, Final, TypeVar

from exogpu.hw.timelines import SHORT, SHORT_NAME
from exogpu.ir.nodes import BExpr, CExpr, CVar
from exogpu.ir.render import isl_cond, isl_expr
from exogpu.ir.types import Sym
from exogpu.machine.literal_records import Grant
from exogpu.symbolic.certificate import strict_json
from exogpu.symbolic.certificate.program_reader import formula, number
from exogpu.symbolic.encode import witness as encode_witness
from exogpu.symbolic.encode.pieces import Pieces

SCHEMA: Final = 2

Read = TypeVar("Read")

_GRANTS: Final = {"temporal": Grant.TEMPORAL, "full": Grant.FULL}
_GRANT_NAMES: Final = {grant: name for name, grant in _GRANTS.items()}


# --- to JSON ------------------------------------------------------------------------------------


def to_json(witness: encode_witness.Witness) -> dict[str, strict_json.Json]:
    """The witness as plain lists and dicts."""
    return {
        "schema": SCHEMA,
        "sizes": [{"name": name, "size": size} for name, size in witness.sizes.items()],
        "barriers": [
            {
                "name": name,
                "apart": nest.apart,
                "depth": nest.depth,
                "total": None if nest.total is None else _pieces(nest.total),
            }
            for name, nest in witness.nests.items()
        ],
        "counts": [
            {"site": site, "arrivals": arrivals, "pieces": _pieces(value)}
            for (site, arrivals), value in witness.counts.items()
        ],
        "chains": [
            {"record": record, "check": check, "by": [_chain(one) for one in by]}
            for (record, check), by in witness.chained.items()
        ],
        "writes": [
            {"read": read, "by": [_at_json(one) for one in by]}
            for read, by in witness.written.items()
        ],
        "partners": [
            {"aim": aim, "sites": [*sites], "by": [_at_json(one) for one in by]}
            for (aim, sites), by in witness.near.items()
        ],
        "phase": [
            {"order": order, "site": site, "by": [_after_json(one) for one in by]}
            for (order, site), by in witness.phased.items()
        ],
    }


class _Own(Mapping[Sym, str]):
    """The names of a witness's variables are their own."""

    def __getitem__(self, key: Sym) -> str:
        return key.name

    def __iter__(self) -> Iterator[Sym]:
        return iter(())

    def __len__(self) -> int:
        return 0


OWN: Final = _Own()
"""By variable, its own name."""


def _text(value: CExpr) -> str:
    return isl_expr(value, OWN)


def _pieces(pieces: Pieces) -> strict_json.Json:
    return [{"holds": isl_cond(where, OWN), "count": _text(value)} for where, value in pieces]


def _values(values: encode_witness.Values) -> list[strict_json.Json]:
    return [_text(value) for value in values]


def _at_json(at: encode_witness.At) -> strict_json.Json:
    return {"site": at.site, "at": _values(at.values)}


def _chain(chain: encode_witness.Chain) -> strict_json.Json:
    match chain:
        case encode_witness.Gone():
            return {"clear": _at_json(chain.clear)}
        case encode_witness.Seen():
            return {"granted": _granted_json(chain.granted), "threads": _values(chain.threads)}


def _granted_json(granted: encode_witness.Granted | None) -> strict_json.Json:
    if granted is None:
        return None
    carried = granted.label.carried
    return {
        "by": _at_json(granted.at),
        "grant": _GRANT_NAMES[granted.label.grant],
        "carried": None if carried is None else SHORT_NAME[carried],
        "ways": [_transfer_json(way) for way in granted.ways],
    }


def _transfer_json(way: encode_witness.Passed) -> strict_json.Json:
    return {
        "via": _at_json(way.via),
        "threads": _values(way.threads),
        "before": _granted_json(way.before),
        "crossing": _granted_json(way.crossing),
    }


def _after_json(one: encode_witness.After) -> strict_json.Json:
    return {
        "of": _at_json(one.at),
        "granted": _granted_json(one.granted),
        "threads": _values(one.threads),
    }


# --- shapes -------------------------------------------------------------------------------------

_SITE: Final = strict_json.integer_between(0)
_TEXTS: Final = strict_json.a_list(strict_json.TEXT)
_AT: Final = strict_json.an_object(site=_SITE, at=_TEXTS)
_PIECES: Final = strict_json.a_list(
    strict_json.an_object(holds=strict_json.TEXT, count=strict_json.TEXT)
)


def _is_granted(value: object, where: str) -> None:
    shape = strict_json.an_object(
        by=_AT,
        grant=strict_json.one_of(list(_GRANTS)),
        carried=strict_json.maybe(strict_json.one_of(list(SHORT))),
        ways=strict_json.a_list(_is_passed),
    )
    strict_json.maybe(shape)(value, where)


def _is_passed(value: object, where: str) -> None:
    shape = strict_json.an_object(via=_AT, threads=_TEXTS, before=_is_granted, crossing=_is_granted)
    shape(value, where)


def _is_chain(value: object, where: str) -> None:
    if isinstance(value, dict) and "clear" in value:
        strict_json.fields(where, value, clear=_AT)
    else:
        strict_json.fields(where, value, granted=_is_granted, threads=_TEXTS)


_SHAPE: Final[dict[str, strict_json.Shape]] = {
    "schema": strict_json.one_of([SCHEMA]),
    "sizes": strict_json.a_list(
        strict_json.an_object(name=strict_json.NAME, size=strict_json.integer_between())
    ),
    "barriers": strict_json.a_list(
        strict_json.an_object(
            name=strict_json.NAME,
            apart=strict_json.integer_between(0),
            depth=strict_json.maybe(strict_json.integer_between(1)),
            total=strict_json.maybe(_PIECES),
        )
    ),
    "counts": strict_json.a_list(
        strict_json.an_object(
            site=_SITE, arrivals=strict_json.one_of([False, True]), pieces=_PIECES
        )
    ),
    "chains": strict_json.a_list(
        strict_json.an_object(record=_SITE, check=_SITE, by=strict_json.a_list(_is_chain))
    ),
    "writes": strict_json.a_list(strict_json.an_object(read=_SITE, by=strict_json.a_list(_AT))),
    "partners": strict_json.a_list(
        strict_json.an_object(
            aim=strict_json.one_of(encode_witness.AIMS),
            sites=strict_json.a_list(_SITE),
            by=strict_json.a_list(_AT),
        )
    ),
    "phase": strict_json.a_list(
        strict_json.an_object(
            order=strict_json.one_of(encode_witness.ORDERS),
            site=_SITE,
            by=strict_json.a_list(
                strict_json.an_object(of=_AT, granted=_is_granted, threads=_TEXTS)
            ),
        )
    ),
}


# --- from JSON ----------------------------------------------------------------------------------


def witness_of(value: object) -> encode_witness.Witness:
    """The witness of a JSON.  Raises MalformedError."""
    found = strict_json.fields("", value, **_SHAPE)
    read = _Reader()
    nests = [(one["name"], read.nest(one)) for one in found["barriers"]]
    counts = [
        ((one["site"], one["arrivals"]), read.pieces(one["pieces"])) for one in found["counts"]
    ]
    chains = [
        ((one["record"], one["check"]), read.all_of(read.chain, one)) for one in found["chains"]
    ]
    written = [(one["read"], read.all_of(read.read_at, one)) for one in found["writes"]]
    near = [
        ((one["aim"], tuple(one["sites"])), read.all_of(read.read_at, one))
        for one in found["partners"]
    ]
    phased = [
        ((one["order"], one["site"]), read.all_of(read.read_after, one)) for one in found["phase"]
    ]
    return encode_witness.Witness(
        _keyed("sizes", [(one["name"], one["size"]) for one in found["sizes"]]),
        _keyed("barriers", nests),
        _keyed("counts", counts),
        _keyed("chains", chains),
        _keyed("writes", written),
        _keyed("partners", near),
        _keyed("phase", phased),
    )


def _keyed(where: str, pairs: Sequence[tuple[Any, Any]]) -> dict[Any, Any]:
    found: dict[Any, Any] = {}
    for at, (key, value) in enumerate(pairs):
        if key in found:
            strict_json.malformed(f"{where}[{at}]", "the same is said twice")
        found[key] = value
    return found


class _Reader:
    """Reads the parts of a witness, each text once."""

    def __init__(self) -> None:
        self._number = cache(lambda text: number(text, _variable))
        self._formula = cache(lambda text: formula(text, _variable))

    def all_of(
        self, read: Callable[[Mapping[str, Any]], Read], one: Mapping[str, Any]
    ) -> tuple[Read, ...]:
        return tuple(map(read, one["by"]))

    def values(self, texts: Sequence[str]) -> encode_witness.Values:
        return tuple(map(self._number, texts))

    def pieces(self, pieces: Sequence[Mapping[str, str]]) -> Pieces:
        found: list[tuple[BExpr, CExpr]] = [
            (self._formula(one["holds"]), self._number(one["count"])) for one in pieces
        ]
        if not found:
            strict_json.malformed("", "a count without a value")
        return tuple(found)

    def nest(self, one: Mapping[str, Any]) -> encode_witness.Nest:
        total = None if one["total"] is None else self.pieces(one["total"])
        return encode_witness.Nest(one["apart"], one["depth"], total)

    def read_at(self, one: Mapping[str, Any]) -> encode_witness.At:
        return encode_witness.At(one["site"], self.values(one["at"]))

    def chain(self, one: Mapping[str, Any]) -> encode_witness.Chain:
        if "clear" in one:
            return encode_witness.Gone(self.read_at(one["clear"]))
        return encode_witness.Seen(self.read_granted(one["granted"]), self.values(one["threads"]))

    def read_granted(self, one: Mapping[str, Any] | None) -> encode_witness.Granted | None:
        if one is None:
            return None
        carried = None if one["carried"] is None else SHORT[one["carried"]]
        label = encode_witness.Label(_GRANTS[one["grant"]], carried)
        return encode_witness.Granted(
            self.read_at(one["by"]), label, tuple(map(self.read_passed, one["ways"]))
        )

    def read_passed(self, one: Mapping[str, Any]) -> encode_witness.Passed:
        return encode_witness.Passed(
            self.read_at(one["via"]),
            self.values(one["threads"]),
            self.read_granted(one["before"]),
            self.read_granted(one["crossing"]),
        )

    def read_after(self, one: Mapping[str, Any]) -> encode_witness.After:
        return encode_witness.After(
            self.read_at(one["of"]), self.read_granted(one["granted"]), self.values(one["threads"])
        )


def _variable(name: str) -> CVar:
    return encode_witness.witness_integer(name)
