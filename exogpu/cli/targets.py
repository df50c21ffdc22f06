"""The procedures of a target, for commands that need all of them."""

from __future__ import annotations

from exogpu.api import Procedure
from exogpu.cli import loader
from exogpu.result.errors import ExoGpuError


def parsed(target: str, *, derive: bool = False) -> list[Procedure]:
    """The procedures of a target.  Raises ExoGpuError where one could not be read."""
    units = loader.load(target, derive=derive)
    wrong = [
        diagnostic
        for unit in units
        if unit.procedure is None or unit.procedure.ir is None
        for diagnostic in (unit.procedure.diagnostics if unit.procedure else unit.diagnostics)
    ]
    if wrong:
        raise ExoGpuError(wrong)
    return [unit.procedure for unit in units if unit.procedure is not None]


def well_formed(target: str) -> list[Procedure]:
    """The procedures of a target.  Raises ExoGpuError with all that is wrong with them."""
    procedures = parsed(target)
    if wrong := [found for procedure in procedures for found in procedure.diagnostics]:
        raise ExoGpuError(wrong)
    return procedures
