"""The server's knowledge of an open document."""

from __future__ import annotations

import asyncio
from dataclasses import dataclass, field
from time import monotonic
from typing import Final

from exogpu.cli.lsp.findings import FIRST
from exogpu.cli.lsp.records import Failed, Finding, Fix, Hover, Judged, Loaded, Stage, Told

SHOWN_AFTER: Final = 1.0
"""Seconds after which the findings so far are shown, while others are looked for."""


@dataclass
class Document:
    """One open document, by its last check."""

    uri: str
    path: str
    version: int = 0
    """Counts the changes of its text, and of others that it rests on."""
    checked: int = -1
    """The version that findings, hovers and fixes are of."""
    judged: list[Judged] = field(default_factory=list)
    failure: Finding | None = None
    """Why there are no more."""
    hovers: list[Hover] = field(default_factory=list)
    fixes: list[Fix] = field(default_factory=list)
    files: frozenset[str] = frozenset()
    """That it imports."""
    failed: bool = False
    """Whether it could not be loaded."""
    repaired: bool = False
    """Whether no more fixes come."""
    dirty: bool = True
    """Whether it has to be checked."""
    complete: asyncio.Event = field(default_factory=asyncio.Event)
    """Set where nothing more is told of it."""
    _fresh: list[Judged] = field(default_factory=list)
    _began: float = 0.0
    _loaded: bool = False

    @property
    def current(self) -> bool:
        """Tests whether the knowledge is of the present text."""
        return self.checked == self.version

    @property
    def loading(self) -> bool:
        """Tests whether its file is being executed."""
        return not self._loaded

    def rests_on(self, path: str) -> bool:
        """Tests whether a change of another file may change the results for this one."""
        return path != self.path and (self.failed or path in self.files)

    def change(self) -> None:
        """Its text, or one that it rests on, is another."""
        self.version += 1
        self.dirty = True
        self.complete.clear()

    def begin(self) -> None:
        """A check of the present text begins."""
        self.dirty, self._loaded, self.repaired = False, False, False
        self._fresh, self._began = [], monotonic()

    def leave(self) -> None:
        """It has no kernels, and is not checked."""
        self.begin()
        self._show(self.version)
        self.failed, self.repaired = False, True
        self.complete.set()

    def tell(self, told: Told, version: int) -> bool:
        """Takes what is told of the check of a version; whether there is something new to show."""
        match told:
            case Loaded():
                self._loaded = True
                self.files, self.failed = frozenset(told.files), told.failed
                return False
            case Judged():
                return self._judge(told, version)
            case Hover():
                self.hovers.append(told)
                return False
            case Fix():
                self.fixes.append(told)
                return False
            case Failed():
                self.failure = Finding(FIRST, "error", "exogpu", told.reason)
                self.failed, self.repaired = told.loading, True
                self.complete.set()
                return self._show(version, self.failure)
            case Stage(done="checked"):
                return self._show(version)
            case Stage():
                self.repaired = True
                if told.done == "all":
                    self.complete.set()
                return False

    def _judge(self, told: Judged, version: int) -> bool:
        """Takes a verdict, in place of an earlier one on the same procedure."""
        names = [(one.name, one.place) for one in self._fresh]
        if (told.name, told.place) in names:
            self._fresh[names.index((told.name, told.place))] = told
        else:
            self._fresh.append(told)
        if self.current:
            return True
        return monotonic() - self._began > SHOWN_AFTER and self._show(version)

    def _show(self, version: int, failure: Finding | None = None) -> bool:
        self.judged, self.failure = self._fresh, failure
        if self.checked != version:
            self.checked, self.hovers, self.fixes = version, [], []
        return True
