"""Steps that are kept on disk: what was decided of a rewriting is not decided again.

The name of an entry is the digest of the rewriting, which is the old and the new procedure and what
is said of their statements, and of the program that decides.  It says `accepted` or `refused`; why
a step is refused is found out again.  Of rewritings only those are kept of which
no more is said than images and copies.
"""

from __future__ import annotations

import hashlib
import json
from collections.abc import Mapping
from contextlib import AbstractContextManager
from itertools import count
from typing import Final

from exogpu.diagnostics import derivation_context, disk_cache
from exogpu.ir.digest import digest_of
from exogpu.ir.nodes import CExpr
from exogpu.ir.types import Sym
from exogpu.ir.walk import walk
from exogpu.schedule.rewrite import Again, Copy, Image, Rewrite, is_plain

SUFFIX: Final = ".step"
MOST: Final = 16384
"""Entries that are kept; of more, those written first go."""

WORDS: Final = {"accepted": True, "refused": False}

_written: Final = count(1)
TOGETHER: Final = 256
"""Entries that are written before the oldest are looked for."""


def kept_steps(on: bool = True) -> AbstractContextManager[None]:
    """A context in which steps that were decided before are not decided again: they are kept on
    disk.  `exogpu history` and `exogpu check` keep them by themselves, without `--no-cache`.
    """
    return derivation_context.keeping(on)


def key(edit: Rewrite) -> str | None:
    """Returns the digest of everything that determines whether a rewriting is accepted; None if
    that is not known, or the cache is not used."""
    if (
        not derivation_context.is_cached() or edit.equal
    ):  # that procedures are equivalent only this process knows
        return None
    if not is_plain(edit):
        return None
    rewriting, decider = digest_of(rewriting_data(edit)), disk_cache.own_files()
    if rewriting is None or decider is None:
        return None
    parts = [rewriting, disk_cache.tools(), decider]
    return hashlib.sha256(json.dumps(parts).encode()).hexdigest()


def rewriting_data(edit: Rewrite) -> tuple[object, ...]:
    """A rewriting as tuples: both procedures, and what is said of each new statement."""
    said: list[tuple[object, ...]] = []
    inside = {stmt for stmt in walk(edit.new.body)}
    for stmt in walk(edit.new.body):
        match edit.origins.get(stmt):
            case None:
                pass
            case Copy() as copy:
                said.append((stmt, "copy", copy.element, _pairs(copy.at)))
            case Again():
                raise AssertionError("a rewriting that is not plain")
            case images:
                said.append((stmt, "images", *map(_image, images)))
    for site, within in edit.inner.items():
        if site[0] in inside:
            said.append((*site, "images", *map(_image, within)))
    return (edit.old, edit.new, edit.by_results, tuple(said))


def _image(image: Image) -> tuple[object, ...]:
    return (image.old, _pairs(image.at), image.inside, image.reads)


def _pairs(at: Mapping[Sym, CExpr]) -> tuple[tuple[Sym, CExpr], ...]:
    return tuple(at.items())


def load(entry: str) -> bool | None:
    """Returns whether a rewriting was accepted; None if it is not in the cache."""
    text = disk_cache.read_entry(entry, SUFFIX)
    return None if text is None else WORDS.get(text.decode(errors="replace"))


def store(entry: str, accepted: bool) -> None:
    """Keeps what was decided, unless exogpu's files have changed since this process read them."""
    if not disk_cache.unchanged():
        return
    word = next(word for word, meaning in WORDS.items() if meaning is accepted)
    where = disk_cache.write(entry, SUFFIX, word.encode())
    if where is not None and next(_written) % TOGETHER == 0:
        disk_cache.forget(where, SUFFIX, MOST)
