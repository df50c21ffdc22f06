"""Judges for worker processes: packed programs on a GPU, by the driver and numpy alone."""

from __future__ import annotations

from collections.abc import Callable, Mapping
from pathlib import Path
from typing import Any

from exogpu.codegen.runtime import driver
from exogpu.trial import device
from exogpu.trial.dirty import dirtying
from exogpu.trial.packed import read_packed
from exogpu.trial.pool import Spent

_dirty: dict[Path, Callable[[], None]] = {}
"""Of this process, by file: a module is loaded once."""


def run_one(case: str) -> Mapping[str, Any]:
    """A packed program, `FILE`, at all its sizes and numbers of clusters."""
    return _judged(Path(case), device.COUNTS, device.GUARD)


def run_quickly(case: str) -> Mapping[str, Any]:
    """At few clusters, without guard bands: under a checker that is slow."""
    return _judged(Path(case), (device.ALL, 2), 0)


def _judged(file: Path, counts: tuple[int, ...], guard: int) -> Mapping[str, Any]:
    packed = read_packed(file)
    try:
        runs, wrong = device.run(packed, counts, _before(file.parent / "dirty.cubin"), guard)
    except device.DeviceLost as lost:
        found = [one.as_data() for one in lost.wrong]
        raise Spent({"runs": 0, "wrong": found, "lost": True}) from None
    name = driver.gpus()[driver.current_device()].name
    return {"runs": runs, "wrong": [one.as_data() for one in wrong], "device": name}


def _before(cubin: Path) -> Callable[[], None]:
    if not cubin.exists():
        return lambda: None
    if cubin not in _dirty:
        _dirty[cubin] = dirtying(cubin.read_bytes())
    return _dirty[cubin]
