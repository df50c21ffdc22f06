"""Shows the progress of a check: obligations answered, or the first hazard."""

from __future__ import annotations

from time import perf_counter
from types import TracebackType
from typing import Final

from rich.status import Status

from exogpu.cli.render import console, sizes_text
from exogpu.result.proof import Proving
from exogpu.result.verdict import Hazard, Verdict

MOMENT: Final = 0.5
"""Seconds after which a proof shows how far it is."""


class SoFar:
    """Told of a verdict with each further hazard, it shows the first one on the terminal; of a
    proof, how many obligations are answered."""

    def __init__(self, name: str, bar: bool) -> None:
        self._name = name
        self._bar = bar
        self._start = perf_counter()
        self._status: Status | None = None

    def __enter__(self) -> SoFar:
        return self

    def __exit__(
        self,
        kind: type[BaseException] | None,
        error: BaseException | None,
        trace: TracebackType | None,
    ) -> None:
        if self._status is not None:
            self._status.stop()

    def __call__(self, verdict: Verdict) -> None:
        if not self._bar:
            return
        self._show(so_far(verdict))

    def proving(self, proving: Proving) -> None:
        """Shows the number of obligations, if the proof takes longer than a moment."""
        if self._bar and perf_counter() - self._start > MOMENT:
            self._show(f"{self._name}: proving, {proving.answered:,} obligations answered")

    def _show(self, text: str) -> None:
        if self._status is None:
            self._status = console(stderr=True).status(text)
            self._status.start()
        self._status.update(text)


def so_far(verdict: Verdict) -> str:
    """`gemm: refuted, RAW on A at M=1 (lines 8 and 12); 3 hazards so far, looking for others`"""
    count = len(verdict.hazards)
    several = f"{count} hazard{'s' if count != 1 else ''} so far"
    return f"{verdict.proc}: refuted, {_first(verdict.hazards[0])}; {several}, looking for others"


def _first(hazard: Hazard) -> str:
    sites = [site for site in (hazard.first, hazard.second) if site is not None]
    lines = " and ".join(str(site.place.line) for site in sites)
    at = f" at {sizes_text(hazard.sizes)}" if hazard.sizes else ""
    where = f"line{'s' if len(sites) != 1 else ''} {lines}"
    return f"{hazard.kind.value} on {hazard.variable}{at} ({where})"
