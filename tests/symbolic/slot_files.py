"""The procedures of a file of `tests/cases/slots`."""

from __future__ import annotations

from pathlib import Path

from exogpu.api import Procedure, collecting
from exogpu.cli.loader import load


def procedures(path: Path) -> dict[str, Procedure]:
    with collecting():
        units = load(str(path))
    found = {u.procedure.name: u.procedure for u in units if u.procedure is not None}
    assert found, units
    return found
