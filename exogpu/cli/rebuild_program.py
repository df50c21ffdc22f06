"""Compares a certificate's program with that of the kernel, if its source is at hand.

The one part of rechecking that reads source and needs the prover's analyses.  Source is run as it
is loaded, so that only what the user names is read, and what is shipped with exogpu.
"""

from __future__ import annotations

from collections.abc import Iterator, Sequence
from contextlib import suppress
from itertools import zip_longest
from pathlib import Path
from typing import TYPE_CHECKING

import exogpu
from exogpu.diagnostics.errors import ExoGpuError
from exogpu.diagnostics.verdict import Policy
from exogpu.symbolic.certificate.certificate_schema import Certificate
from exogpu.symbolic.certificate.recheck import Compared
from exogpu.symbolic.certificate.strict_json import sha256
from exogpu.symbolic.certificate.write import file_name, program_json
from exogpu.symbolic.steps.recheck_steps import Stepped

if TYPE_CHECKING:
    from exogpu.api import Procedure


SHIPPED = Path(exogpu.__file__).parent / "kernels"


class Sources:
    """Makes programs again from targets, or from the shipped kernel that a certificate names."""

    def __init__(self, targets: Sequence[str]) -> None:
        self._targets = tuple(targets)
        self._procedures: dict[str, tuple[Procedure, ...]] = {}

    def compare(self, certificate: Certificate, program: object) -> Compared:
        """Explains why a program is not that of the source; None if the source is not at hand."""
        targets = self._targets or self._shipped(certificate)
        if not targets:
            return None
        found = [one for target in targets for one in self._load_procedures(target)]
        named = [one for one in found if one.name == certificate.procedure]
        if not self._targets and not named:
            return None
        if not named:
            return f"the source has no procedure {certificate.procedure}"
        problems = [_difference(one, certificate, program) for one in named]
        return min(problems, key=bool)

    def compare_derivation(self, procedure: str, steps: Sequence[Stepped]) -> Compared:
        """Explains why steps are not those by which the source derives a procedure; None if the
        source is not named."""
        if not self._targets:
            return None
        from exogpu.schedule.certificates.chain import digests

        found = [one for target in self._targets for one in self._load_procedures(target)]
        made = [digests(one) for one in found if one.name == procedure]
        if tuple(steps) in made:
            return ""
        if not any(made):
            return f"the source derives no procedure {procedure}"
        return f"the source derives {procedure} by other steps"

    def _shipped(self, certificate: Certificate) -> tuple[str, ...]:
        path = SHIPPED / certificate.source_file
        return (str(path),) if _digest(path) == certificate.source is not None else ()

    def _load_procedures(self, target: str) -> tuple[Procedure, ...]:
        if target not in self._procedures:
            try:
                from exogpu.cli.loader import load  # needs ISL, which a checker may be without
            except ImportError:
                return ()
            units = load(target)
            self._procedures[target] = tuple(one.procedure for one in units if one.procedure)
        return self._procedures[target]


def _digest(path: Path) -> str | None:
    with suppress(OSError):
        return sha256(path.read_bytes())
    return None


def _difference(procedure: Procedure, certificate: Certificate, program: object) -> str:
    """Explains why the program is not the procedure's; empty if it is."""
    assert procedure.ir is not None
    span = procedure.ir.span
    if _digest(Path(span.file)) != certificate.source:
        return "its source is not the file that is named: the digests differ"
    if (file_name(span.file), span.line) != (certificate.source_file, certificate.source_line):
        return "its source stands elsewhere than is stated"
    try:
        made = program_json(procedure.amir(Policy(certificate.policy)))
    except ExoGpuError:
        return "no program can be made from its source"
    where = next(_differences(made, program), None)
    return "" if where is None else f"it is not what its source gives: {where} differs"


def _differences(one: object, other: object, where: str = "") -> Iterator[str]:
    """The places where two JSON values differ."""
    if isinstance(one, dict) and isinstance(other, dict):
        for key in [*one, *(key for key in other if key not in one)]:
            yield from _differences(
                one.get(key), other.get(key), f"{where}.{key}" if where else str(key)
            )
    elif isinstance(one, list) and isinstance(other, list):
        for at, (left, right) in enumerate(zip_longest(one, other)):
            yield from _differences(left, right, f"{where}[{at}]")
    elif one != other or type(one) is not type(other):
        yield where
