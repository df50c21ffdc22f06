"""A new statement with the old one that it stands for, and the writes that reads find."""

from __future__ import annotations

import re
from collections.abc import Iterator, Mapping
from dataclasses import dataclass

from exogpu.ir.nodes import CVar
from exogpu.ir.render import conjunction, identifier, isl_cond, isl_expr
from exogpu.ir.types import Sym
from exogpu.schedule.checking.statement_model import Event, Place
from exogpu.schedule.rewrite import Image
from exogpu.solvers import isl_unions


@dataclass(frozen=True, slots=True)
class Pair:
    """A new statement and the old one that it is."""

    new: Place
    old: Place
    image: Image

    @property
    def reads(self) -> tuple[int, ...]:
        """Maps each read of the new statement to a read of the old one."""
        if self.image.reads is not None:
            return self.image.reads
        return tuple(range(sum(not (e.writes or e.reduces) for e in self.new.events)))

    @property
    def events(self) -> Iterator[tuple[Event, Event]]:
        """The events of the new statement, each with the one of the old that it is."""
        old, count = self.old.events, len(self.reads)
        return zip(self.new.events, (*(old[n] for n in self.reads), *old[count:]), strict=True)

    @property
    def old_names(self) -> dict[Sym, str]:
        """Names of the old iterators that differ from the new ones."""
        return {s: f"old_{identifier(s)}" for s in self.old.iterators}

    @property
    def premise(self) -> str:
        """The constraint that an instance of the new statement is that one of the old."""
        there, at = self.old_names, self.image.at
        equal = [f"{there[s]} = {isl_expr(at.get(s, CVar(s)))}" for s in self.old.iterators]
        only = () if self.image.only is None else (isl_cond(self.image.only),)
        return conjunction(
            (self.new.constraint, rename_variables(self.old.constraint, there), *equal, *only)
        )


@dataclass(frozen=True, slots=True)
class Flow:
    """The writes that the reads of the new procedure find."""

    stands: isl_unions.Relation
    """From accesses to the old elements that they stand for."""
    image_writes: isl_unions.Relation
    """The same of writes that are images."""
    idle: isl_unions.Points | None
    """Sums that add zero, and stand for nothing; None if there are none."""
    reads: isl_unions.Relation
    """From reads that stand for something to their elements."""
    seen: isl_unions.Relation
    """From each to the writes of its element before it."""
    last: isl_unions.Relation
    """To the last of these."""


def rename_variables(text: str, names: Mapping[Sym, str]) -> str:
    """The text with other names of control variables."""
    known = {identifier(s): name for s, name in names.items()}
    return re.sub(r"(?<![^\W\d])[^\W\d]\w*", lambda word: known.get(word[0], word[0]), text)
