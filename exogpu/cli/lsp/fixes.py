"""Repairs of a document: each proposal is made in its text, which is loaded and checked anew.

What does not take the hazard away, or brings another, is not offered.
"""

from __future__ import annotations

import difflib
import importlib
import io
import linecache
import os
import sys
import tokenize
from collections import Counter
from collections.abc import Iterator, Mapping, Sequence
from dataclasses import dataclass, field
from importlib.abc import MetaPathFinder
from importlib.machinery import ModuleSpec, PathFinder, SourceFileLoader
from importlib.util import spec_from_file_location
from pathlib import Path
from time import monotonic
from types import ModuleType
from typing import Final

from exogpu.cli.check_command import check_all
from exogpu.cli.files import BUFFERS
from exogpu.cli.loader import load_file
from exogpu.cli.lsp.protocol import Edit, Fix, place_of
from exogpu.diagnostics.hazards import Change, Hazard
from exogpu.diagnostics.verdict import Policy, Verdict
from exogpu.pipeline import verdict_cache
from exogpu.solvers.processes import Limits, Stopped, isolated

# The text of an editor in place of the disk's, for a file that is loaded and what it imports.


def use(buffers: Mapping[str, str]) -> None:
    """From here on these texts, by absolute path, are what this process reads."""
    importlib.invalidate_caches()
    for path, text in buffers.items():
        BUFFERS[path] = _encoded(text)
        lines = io.StringIO(text, newline=None).readlines()
        # Without a time of change an entry is never compared with the disk.
        linecache.cache[path] = (len(text), None, lines, path)
    if not any(isinstance(finder, _Finder) for finder in sys.meta_path):
        sys.meta_path.insert(0, _Finder())


def _encoded(text: str) -> bytes:
    """In the encoding that it declares, since Python decodes it by that."""
    data = text.encode(errors="replace")
    try:
        encoding, _ = tokenize.detect_encoding(io.BytesIO(data).readline)
        return data if encoding.startswith("utf-8") else text.encode(encoding)
    except (SyntaxError, UnicodeEncodeError):
        return data


class _Loader(SourceFileLoader):
    """Reads a buffer, and neither reads nor writes bytecode."""

    def path_stats(self, path: str | bytes) -> Mapping[str, float]:
        raise OSError  # there is no bytecode to compare with

    def get_data(self, path: str | bytes) -> bytes:
        return BUFFERS[os.fsdecode(path)]


class _Finder(MetaPathFinder):
    """Finds the modules that are open in the editor, saved or not."""

    def find_spec(
        self, name: str, path: Sequence[str] | None, target: ModuleType | None = None
    ) -> ModuleSpec | None:
        found = PathFinder.find_spec(name, path, target)
        if found is not None:
            at = found.origin or ""
            return self._spec(name, os.path.abspath(at)) if at.endswith(".py") else None
        for folder in sys.path if path is None else path:
            last = name.rpartition(".")[2]
            if (made := self._spec(name, os.path.abspath(f"{folder}/{last}.py"))) is not None:
                return made
        return None

    def _spec(self, name: str, path: str) -> ModuleSpec | None:
        if path not in BUFFERS:
            return None
        return spec_from_file_location(name, path, loader=_Loader(name, path))


PATIENCE: Final = 30.0
"""Seconds for all repairs of one procedure."""

STEPS: Final = 8
"""Repairs that are made one after the other, to mend all hazards."""

ALL: Final = -1
"""In place of a hazard's number: the change mends all of them."""


@dataclass(frozen=True, slots=True)
class _Tried:
    """A change of the text and what it makes of the procedure."""

    text: str
    verdict: Verdict


@dataclass(frozen=True, slots=True)
class _Trials:
    """Trials of repairs for one document and procedure."""

    path: str
    name: str
    policy: Policy
    limits: Limits
    until: float
    known: dict[str, _Tried | None] = field(default_factory=dict)
    """By text."""

    def try_change(self, text: str, change: Change) -> _Tried | None:
        """The verdict on the changed text; None where it has none, or the time is up."""
        if any(one.span.file != self.path for one in change):
            return None
        changed = apply_change(text, change)
        if changed not in self.known:
            self.known[changed] = self._try(changed)
        return self.known[changed]

    def _try(self, changed: str) -> _Tried | None:
        left = self.until - monotonic()
        if left <= 0:
            return None
        within = Limits(min(left, self.limits.seconds or left))
        found = isolated(lambda _: self._check_text(changed, within), within)
        return None if isinstance(found, Stopped) or found is None else _Tried(changed, found)

    def _check_text(self, text: str, limits: Limits) -> Verdict | None:
        use({self.path: text})
        units = load_file(Path(self.path))
        named = tuple(unit for unit in units if unit.name == self.name)
        if len(named) != 1 or named[0].procedure is None:
            return None
        (outcome,) = check_all(named, None, self.policy, limits=limits, cached=True)
        verdict_cache.keep(named[0].procedure, outcome.verdict)
        return outcome.verdict


def fixes(verdict: Verdict, path: str, text: str, policy: Policy, limits: Limits) -> Iterator[Fix]:
    """For each hazard the first change that helps, then one that mends all."""
    trials = _Trials(path, verdict.proc, policy, limits, monotonic() + PATIENCE)
    first: _Tried | None = None
    for number, hazard in enumerate(verdict.hazards):
        found = _helpful(trials, text, verdict, hazard)
        if found is None:
            continue
        first = first or found
        proved = found.verdict.word == "proved"
        left = len(found.verdict.hazards)
        then = "proved then" if proved else f"{left} other hazard{'s' if left > 1 else ''} left"
        title = f"{hazard.help[:1].upper()}{hazard.help[1:]} ({then})"
        yield Fix(verdict.proc, number, title, proved, edits_of(text, found.text))
    if first is not None and first.verdict.word != "proved":
        whole = _all(trials, first)
        if whole is not None:
            title = f"Repair all hazards of {verdict.proc} (proved then)"
            yield Fix(verdict.proc, ALL, title, True, edits_of(text, whole.text))


def _helpful(trials: _Trials, text: str, verdict: Verdict, hazard: Hazard) -> _Tried | None:
    """The first change of a hazard with which it is gone, and no other one has come."""
    for change in hazard.changes:
        found = trials.try_change(text, change)
        if found is not None and better(verdict, found.verdict, hazard):
            return found
    return None


def better(before: Verdict, after: Verdict, mended: Hazard) -> bool:
    """Tests whether a hazard is gone and the others are some of those before."""
    if after.word == "proved":
        return True
    if after.word != "refuted":
        return False
    old, new = Counter(map(_kind, before.hazards)), Counter(map(_kind, after.hazards))
    return new <= old and new[_kind(mended)] < old[_kind(mended)]


def _kind(hazard: Hazard) -> tuple[str, str, str, str]:
    """Returns the key that distinguishes hazards even if lines move."""
    first = "" if hazard.first is None else hazard.first.text
    return hazard.kind.value, hazard.variable, first, hazard.second.text


def _all(trials: _Trials, first: _Tried) -> _Tried | None:
    """The repairs of what is left, one after the other, until it is proved."""
    now = first
    for _ in range(STEPS):
        if now.verdict.word == "proved":
            return now
        for hazard in now.verdict.hazards:
            found = _helpful(trials, now.text, now.verdict, hazard)
            if found is not None:
                now = found
                break
        else:
            return None
    return None


# --- text ---------------------------------------------------------------------------------------


def apply_change(text: str, change: Change) -> str:
    """The text with the replacements of a change made; its line ends are those of the text."""
    lines = text.splitlines(keepends=True)
    end = "\r\n" if lines and lines[0].endswith("\r\n") else "\n"
    starts = [0]
    for part in lines:
        starts.append(starts[-1] + len(part))

    def offset(line: int, column: int) -> int:
        return min(starts[min(line, len(starts)) - 1] + column - 1, len(text))

    for one in sorted(change, key=lambda one: place_of(one.span), reverse=True):
        line, column, end_line, end_column = place_of(one.span)
        start, stop = offset(line, column), offset(end_line, end_column)
        text = text[:start] + one.text.replace("\n", end) + text[stop:]
    return text


def edits_of(old: str, new: str) -> tuple[Edit, ...]:
    """The lines that differ, as edits of whole lines."""
    before, after = old.splitlines(keepends=True), new.splitlines(keepends=True)
    found = []
    matcher = difflib.SequenceMatcher(a=before, b=after, autojunk=False)
    for tag, a, b, c, d in matcher.get_opcodes():
        if tag != "equal":
            found.append(Edit((a + 1, 1, b + 1, 1), "".join(after[c:d])))
    return tuple(found)
