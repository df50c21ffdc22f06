"""Records of one site as the closure sees them, and which later instances there are for them."""

from __future__ import annotations

from dataclasses import dataclass

from exogpu.amir.nodes import Record
from exogpu.solvers import isl
from exogpu.solvers import isl_relations as rel
from exogpu.symbolic.encode.witness import Label
from exogpu.symbolic.find.frames import Frame
from exogpu.symbolic.sites import Site


@dataclass(frozen=True, slots=True)
class Holder:
    """Records of one site as the closure sees them.

    Of a record per thread, either each thread is a coordinate (`members`), or the instance
    stands for all its threads at once: then what is found holds for every one of them, and
    something may be missed.
    """

    site: Site
    each: bool
    """One record a thread."""
    exact: bool

    @property
    def op(self) -> Record:
        assert isinstance(self.site.op, Record)
        return self.site.op

    @property
    def with_members(self) -> bool:
        return self.each and self.exact

    @property
    def name(self) -> str:
        return f"{self.site.tuple_name}t"


def holder(frame: Frame, site: Site, *, exact: bool) -> Holder:
    """The records of a Record: one a thread, unless convergent, without timeline or at CPU
    scope."""
    op = site.op
    assert isinstance(op, Record)
    one = op.convergent or op.timeline is None or frame.everyone(site)
    return Holder(site, not one, exact)


def members(frame: Frame, records: Holder) -> isl.Map:
    """`S7h[k, t] -> T[t]`: the thread of a record."""
    return rel.output_of_extended(frame.threads(records.site), records.name)


def instances(frame: Frame, records: Holder) -> isl.Map:
    """`S7h[k, t] -> S7[k]`, or the identity where members are no coordinates."""
    if not records.with_members:
        return rel.identity(frame.domain(records.site))
    return isl.inverse(rel.extend_input(frame.threads(records.site), records.name))


def first_seen(frame: Frame, records: Holder, site: Site) -> isl.Map:
    """The records and the later instances of `site` executed by a thread that made the record:
    by every one, where the instance stands for all its threads."""
    if not records.each:
        return frame.shared(records.site, site)
    if not records.exact:
        return frame.covers(records.site, site)
    later = frame.same_task(frame.before(records.site, site), records.site, site)
    later = isl.compose(instances(frame, records), later)
    if frame.everyone(site):
        return later
    return isl.intersect_map(later, rel.pairs(members(frame, records), frame.threads(site)))


class Later:
    """By granting site, the records with all its later instances: no grant goes beyond these."""

    def __init__(self, frame: Frame, records: Holder) -> None:
        self._frame = frame
        self._records = records
        self._all: dict[int, isl.Map] = {}
        self._holds: dict[tuple[Label, int], tuple[isl.Map, bool]] = {}

    def holds(self, label: Label, site: Site, known: isl.Map | None) -> bool:
        """Tests whether the pairs known to be granted at a site are all there can be."""
        if known is None:
            return False
        asked, found = self._holds.get((label, site.number), (None, False))
        if asked is not known:
            found = isl.is_subset_map(self._later(site), known)
            self._holds[label, site.number] = known, found
        return found

    def _later(self, site: Site) -> isl.Map:
        if site.number not in self._all:
            made = instances(self._frame, self._records)
            before = self._frame.before(self._records.site, site)
            self._all[site.number] = isl.compose(made, before)
        return self._all[site.number]
