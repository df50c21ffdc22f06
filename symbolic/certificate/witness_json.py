"""A witness as JSON, and back: what is read is data of a closed grammar, and nothing of it is
believed."""

from __future__ import annotations

from collections.abc import Callable, Iterator, Mapping, Sequence
from functools import cache
from typing import Any, Final, TypeVar

from exogpu.hw.timelines import SHORT, SHORT_NAME
from exogpu.ir.isltext import bexpr, cexpr
from exogpu.ir.names import Sym
from exogpu.ir.nodes import BExpr, CExpr, CVar
from exogpu.machine.literal_records import Grant
from exogpu.symbolic.certificate.expressions import formula, number
from exogpu.symbolic.certificate.sealing import Json
from exogpu.symbolic.certificate.strict_json import (
    NAME,
    TEXT,
    Shape,
    a_list,
    an_object,
    fields,
    malformed,
    maybe,
    one_of,
    whole,
)
from exogpu.symbolic.encode.expressions import Pieces
from exogpu.symbolic.encode.witness import (
    AIMS,
    ORDERS,
    After,
    At,
    Chain,
    Gone,
    Granted,
    Label,
    Nest,
    Passed,
    Seen,
    Values,
    Witness,
    named,
)

SCHEMA: Final = 2

Read = TypeVar("Read")

_GRANTS: Final = {"temporal": Grant.TEMPORAL, "full": Grant.FULL}
_GRANT_NAMES: Final = {grant: name for name, grant in _GRANTS.items()}


# --- to JSON ------------------------------------------------------------------------------------


def to_json(witness: Witness) -> dict[str, Json]:
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
            {"read": read, "by": [_at(one) for one in by]} for read, by in witness.written.items()
        ],
        "partners": [
            {"aim": aim, "sites": [*sites], "by": [_at(one) for one in by]}
            for (aim, sites), by in witness.near.items()
        ],
        "phase": [
            {"order": order, "site": site, "by": [_after(one) for one in by]}
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
    return cexpr(value, OWN)


def _pieces(pieces: Pieces) -> Json:
    return [{"holds": bexpr(where, OWN), "count": _text(value)} for where, value in pieces]


def _values(values: Values) -> list[Json]:
    return [_text(value) for value in values]


def _at(at: At) -> Json:
    return {"site": at.site, "at": _values(at.values)}


def _chain(chain: Chain) -> Json:
    match chain:
        case Gone():
            return {"clear": _at(chain.clear)}
        case Seen():
            return {"granted": _granted(chain.granted), "threads": _values(chain.threads)}


def _granted(granted: Granted | None) -> Json:
    if granted is None:
        return None
    carried = granted.label.carried
    return {
        "by": _at(granted.at),
        "grant": _GRANT_NAMES[granted.label.grant],
        "carried": None if carried is None else SHORT_NAME[carried],
        "ways": [_transfer_json(way) for way in granted.ways],
    }


def _transfer_json(way: Passed) -> Json:
    return {
        "via": _at(way.via),
        "threads": _values(way.threads),
        "before": _granted(way.before),
        "crossing": _granted(way.crossing),
    }


def _after(one: After) -> Json:
    return {
        "of": _at(one.at),
        "granted": _granted(one.granted),
        "threads": _values(one.threads),
    }


# --- shapes -------------------------------------------------------------------------------------

_SITE: Final = whole(0)
_TEXTS: Final = a_list(TEXT)
_AT: Final = an_object(site=_SITE, at=_TEXTS)
_PIECES: Final = a_list(an_object(holds=TEXT, count=TEXT))


def _is_granted(value: object, where: str) -> None:
    shape = an_object(
        by=_AT,
        grant=one_of(list(_GRANTS)),
        carried=maybe(one_of(list(SHORT))),
        ways=a_list(_is_passed),
    )
    maybe(shape)(value, where)


def _is_passed(value: object, where: str) -> None:
    shape = an_object(via=_AT, threads=_TEXTS, before=_is_granted, crossing=_is_granted)
    shape(value, where)


def _is_chain(value: object, where: str) -> None:
    if isinstance(value, dict) and "clear" in value:
        fields(where, value, clear=_AT)
    else:
        fields(where, value, granted=_is_granted, threads=_TEXTS)


_SHAPE: Final[dict[str, Shape]] = {
    "schema": one_of([SCHEMA]),
    "sizes": a_list(an_object(name=NAME, size=whole())),
    "barriers": a_list(
        an_object(name=NAME, apart=whole(0), depth=maybe(whole(1)), total=maybe(_PIECES))
    ),
    "counts": a_list(an_object(site=_SITE, arrivals=one_of([False, True]), pieces=_PIECES)),
    "chains": a_list(an_object(record=_SITE, check=_SITE, by=a_list(_is_chain))),
    "writes": a_list(an_object(read=_SITE, by=a_list(_AT))),
    "partners": a_list(an_object(aim=one_of(AIMS), sites=a_list(_SITE), by=a_list(_AT))),
    "phase": a_list(
        an_object(
            order=one_of(ORDERS),
            site=_SITE,
            by=a_list(an_object(of=_AT, granted=_is_granted, threads=_TEXTS)),
        )
    ),
}


# --- from JSON ----------------------------------------------------------------------------------


def witness_of(value: object) -> Witness:
    """The witness of a JSON.  Raises MalformedError."""
    found = fields("", value, **_SHAPE)
    read = _Reader()
    nests = [(one["name"], read.nest(one)) for one in found["barriers"]]
    counts = [
        ((one["site"], one["arrivals"]), read.pieces(one["pieces"])) for one in found["counts"]
    ]
    chains = [
        ((one["record"], one["check"]), read.all_of(read.chain, one)) for one in found["chains"]
    ]
    written = [(one["read"], read.all_of(read.at, one)) for one in found["writes"]]
    near = [
        ((one["aim"], tuple(one["sites"])), read.all_of(read.at, one)) for one in found["partners"]
    ]
    phased = [((one["order"], one["site"]), read.all_of(read.after, one)) for one in found["phase"]]
    return Witness(
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
            malformed(f"{where}[{at}]", "the same is said twice")
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

    def values(self, texts: Sequence[str]) -> Values:
        return tuple(map(self._number, texts))

    def pieces(self, pieces: Sequence[Mapping[str, str]]) -> Pieces:
        found: list[tuple[BExpr, CExpr]] = [
            (self._formula(one["holds"]), self._number(one["count"])) for one in pieces
        ]
        if not found:
            malformed("", "a count without a value")
        return tuple(found)

    def nest(self, one: Mapping[str, Any]) -> Nest:
        total = None if one["total"] is None else self.pieces(one["total"])
        return Nest(one["apart"], one["depth"], total)

    def at(self, one: Mapping[str, Any]) -> At:
        return At(one["site"], self.values(one["at"]))

    def chain(self, one: Mapping[str, Any]) -> Chain:
        if "clear" in one:
            return Gone(self.at(one["clear"]))
        return Seen(self.granted(one["granted"]), self.values(one["threads"]))

    def granted(self, one: Mapping[str, Any] | None) -> Granted | None:
        if one is None:
            return None
        carried = None if one["carried"] is None else SHORT[one["carried"]]
        label = Label(_GRANTS[one["grant"]], carried)
        return Granted(self.at(one["by"]), label, tuple(map(self.passed, one["ways"])))

    def passed(self, one: Mapping[str, Any]) -> Passed:
        return Passed(
            self.at(one["via"]),
            self.values(one["threads"]),
            self.granted(one["before"]),
            self.granted(one["crossing"]),
        )

    def after(self, one: Mapping[str, Any]) -> After:
        return After(self.at(one["of"]), self.granted(one["granted"]), self.values(one["threads"]))


def _variable(name: str) -> CVar:
    return named(name)
