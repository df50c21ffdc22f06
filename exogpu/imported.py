"""Kernels of Triton, Gluon and TLX as procedures that can be checked.

from exogpu.imported import import_ttgir
import_ttgir(open("kernel.ttgir").read()).check()
"""

from __future__ import annotations

from collections.abc import Callable, Iterator, Mapping
from contextlib import contextmanager
from dataclasses import dataclass, replace
from pathlib import Path
from time import perf_counter
from typing import Final

from exogpu.api import Procedure, refuse_sizes
from exogpu.diagnostics.errors import NOWHERE, Diagnostic, Span, one_line
from exogpu.diagnostics.hazards import Hazard, HazardKind
from exogpu.diagnostics.verdict import Policy, Proving, Verdict
from exogpu.importing import compiled_kernels, triton_compiler
from exogpu.importing.compiled_kernels import Watched
from exogpu.importing.kernel_arguments import parse_call
from exogpu.importing.read_ttgir import Imported, imported, with_barriers_of
from exogpu.importing.refusals import FaultyError, RefusedError
from exogpu.importing.trip_counts import possible
from exogpu.importing.triton_terms import hazard_for_triton


class ImportedKernel(Procedure):
    """A kernel that others compile.

    Its verdict tells what it rests on besides, and a refutation is in the words of Triton.
    """

    compiled_elsewhere = True

    def __init__(
        self,
        name: str,
        source: Imported,
        import_with_numbers: Callable[[Mapping[str, int]], Imported] | None = None,
    ) -> None:
        super().__init__(name, replace(source.proc, name=name), ())
        self.source = source
        self.import_with_numbers = import_with_numbers
        """Reads it again, with numbers for some of its arguments."""

    def check(
        self,
        *,
        policy: Policy | str = Policy.PTX,
        heard: Callable[[Verdict], None] = lambda verdict: None,
        progress: Callable[[Proving], None] | None = None,
        timeout: float | None = None,
        memory: float | None = None,
        **sizes: object,
    ) -> Verdict:
        """The verdict for all grids and trip counts.

        A proof is soon there, or not at all; then a refutation is looked for where the abstract
        machine is fast, and last with all the time that is left.
        """
        refuse_sizes(self.name, sizes)
        start = perf_counter()
        soon = SOON * (2 if self.source.flagged else 1)
        begin = soon if timeout is None else min(soon, timeout)

        def answer(kernel: Procedure, seconds: float | None) -> Verdict:
            found = Procedure.check(
                kernel,
                policy=policy,
                heard=lambda verdict: heard(self._told(verdict)),
                progress=progress,
                timeout=seconds,
                memory=memory,
            )
            return replace(self._told(found), seconds=perf_counter() - start)

        found = answer(self, begin)
        if found.word == "undecided" and self.source.flagged:
            left = None if timeout is None else max(timeout - (perf_counter() - start), 0.0)
            refuted = self._refuted_at_numbers(policy, left if left is None else left * 0.6)
            if refuted is not None:
                return refuted
        if found.word != "undecided" or begin == timeout:
            return found
        left = None if timeout is None else max(timeout - (perf_counter() - start), 0.0)
        if self.source.flagged:
            return answer(self, left)
        hastened = answer(_Hastened(self.name, self.source), left if left is None else left * 0.6)
        if hastened.word == "refuted":
            return hastened
        left = None if timeout is None else max(timeout - (perf_counter() - start), 0.0)
        return answer(self, left)

    def _refuted_at_numbers(self, policy: Policy | str, timeout: float | None) -> Verdict | None:
        """Returns a refutation with numbers for those arguments that tell when conditions hold."""
        if self.import_with_numbers is None:
            return None
        start = perf_counter()
        tried = list(self.source.specialisations())
        for at, given in enumerate(tried):
            left = None if timeout is None else timeout - (perf_counter() - start)
            left = left if left is None else max(left, 0.0) / (len(tried) - at)
            try:
                source = self.import_with_numbers(given)
            except RefusedError:
                continue
            if source.flagged:
                continue
            found = ImportedKernel(self.name, source).check(policy=policy, timeout=left)
            if found.word == "refuted":
                hazards = (replace(h, sizes={**given, **h.sizes}) for h in found.hazards)
                return replace(found, hazards=tuple(hazards))
        return None

    def _told(self, verdict: Verdict) -> Verdict:
        if verdict.hazards and self.source.flagged:
            reason = _unknown_conditions(verdict.hazards[0])
            verdict = replace(verdict, word="undecided", reason=reason, hazards=())
        if verdict.hazards and not possible(self.source.sizes, verdict.hazards[0].sizes):
            sizes = ", ".join(f"{name}={n}" for name, n in verdict.hazards[0].sizes.items())
            reason = f"not proved, and the trip counts at which it fails never occur: {sizes}"
            verdict = replace(verdict, word="undecided", reason=reason, hazards=())
        stuck = verdict.hazards and verdict.hazards[0].kind is HazardKind.DEADLOCK
        if stuck and self.source.ordered:
            said = hazard_for_triton(verdict.hazards[0]).message
            reason = f"no order was found in which the roles can be read one by one: {said}"
            verdict = replace(verdict, word="undecided", reason=reason, hazards=())
        if verdict.hazards and verdict.hazards[0].kind is HazardKind.BARRIER:
            hazard = hazard_for_triton(verdict.hazards[0])
            reason = f"{hazard.message}, so that its waits could not be counted"
            verdict = replace(verdict, word="undecided", reason=reason, hazards=())
        return replace(
            verdict,
            hazards=tuple(map(hazard_for_triton, verdict.hazards)),
            remarks=self.source.notes,
            warnings=(),
        )


def _unknown_conditions(hazard: Hazard) -> str:
    """The reason where a refutation has values for conditions that the kernel may never have."""
    told = hazard_for_triton(hazard)
    places = [one.span for one in (hazard.first, hazard.second) if one is not None]
    lines = " and ".join(str(line) for line in dict.fromkeys(place.line for place in places))
    said = f"{hazard.kind.value} of lines {lines}: {told.message}"
    return f"not proved; it fails if conditions that are data hold at will: {said}"


class _Hastened(Procedure):
    """The same kernel with more order than it has: only refutations of it count."""

    compiled_elsewhere = True

    def __init__(self, name: str, source: Imported) -> None:
        super().__init__(name, replace(source.hastened(), name=name), ())


SOON: Final = 8.0
"""Seconds in which nearly all proofs are found."""


class UnimportedKernel(Procedure):
    """A kernel that was not imported: its verdict is undecided, and says why; or it is refuted,
    where reading it shows what is wrong."""

    compiled_elsewhere = True

    def __init__(self, name: str, reason: Diagnostic, hazard: Hazard | None = None) -> None:
        super().__init__(name, None, (reason,))
        self.reason = reason
        self.hazard = hazard

    def check(
        self,
        *,
        policy: Policy | str = Policy.PTX,
        heard: Callable[[Verdict], None] = lambda verdict: None,
        progress: Callable[[Proving], None] | None = None,
        timeout: float | None = None,
        memory: float | None = None,
        **sizes: object,
    ) -> Verdict:
        """The verdict, which is undecided or refuted."""
        del heard, progress, timeout, memory
        refuse_sizes(self.name, sizes)
        if self.hazard is not None:
            hazards = (self.hazard,)
            return Verdict(self.name, "refuted", None, Policy.of(policy), 0.0, hazards=hazards)
        reason = f"not imported: {one_line(self.reason)}"
        return Verdict(self.name, "undecided", None, Policy.of(policy), 0.0, reason=reason)

    @property
    def span(self) -> Span:
        """The place of the reason."""
        return self.reason.span


def import_ttgir(
    text: str, *, name: str = "", version: str = "", ptx: str = ""
) -> ImportedKernel | UnimportedKernel:
    """A kernel from the text of its TTGIR, as it is after allocation and barriers.

    `version` is that of the Triton that lowers it, `ptx` what it was lowered to: where that is
    given, it is compared.  Without a version, PTX tells which known one it was; without both, it is
    taken to be the newest.
    """
    try:
        source = imported(text, version, ptx)
    except RefusedError as error:
        hazard = error.hazard if isinstance(error, FaultyError) else None
        return UnimportedKernel(name or "kernel", error.diagnostic, hazard)

    def import_with_numbers(given: Mapping[str, int]) -> Imported:
        return imported(text, version, ptx, given)

    return ImportedKernel(name or source.proc.name, source, import_with_numbers)


def from_file(path: Path) -> ImportedKernel | UnimportedKernel:
    """A kernel from a file of TTGIR.

    What Triton keeps in its cache has no barriers yet: an installed Triton places them.  Where the
    kernel's own Triton was another one, its PTX shows more of them.
    """
    try:
        text = path.read_text()
        beside = path.with_suffix(".ptx")
        ptx = beside.read_text() if beside.is_file() else ""
        if "ttg.shared = " in text:
            return import_ttgir(text, ptx=ptx)
        text = triton_compiler.allocated_ttgir(path)
        return import_ttgir(with_barriers_of(ptx, text) if ptx else text, ptx=ptx)
    except (OSError, UnicodeDecodeError) as error:
        message = f"{path} cannot be read: {error}"
        reason = Diagnostic("K101", message, NOWHERE, "give a file of TTGIR")
        return UnimportedKernel(path.stem, reason)
    except RefusedError as error:
        return UnimportedKernel(path.stem, error.diagnostic)


def from_source(
    path: Path,
    name: str,
    arguments: str,
    *,
    num_warps: int | None = None,
    num_stages: int | None = None,
    arch: int = 90,
    plain: bool = False,
) -> Iterator[ImportedKernel | UnimportedKernel]:
    """A kernel of a Python file, compiled by Triton for these arguments; of one that is tuned, all
    its configurations, or if it is to be `plain`, only these arguments."""
    given = {"num_warps": num_warps, "num_stages": num_stages}
    options = {key: value for key, value in given.items() if value is not None}
    try:
        call = parse_call(arguments)
    except RefusedError as error:
        yield UnimportedKernel(name or path.stem, error.diagnostic)
        return
    for shown, made in triton_compiler.compile_all(path, name, call, options, arch, plain=plain):
        if isinstance(made, Diagnostic):
            yield UnimportedKernel(shown, made)
        else:
            yield import_ttgir(made.ttgir, name=shown, version=made.version, ptx=made.ptx)


@dataclass(frozen=True, slots=True)
class Seen:
    """The kernels that Triton compiled while it was watched."""

    watched: Watched

    def kernels(self) -> Iterator[ImportedKernel | UnimportedKernel]:
        """Each specialisation that was compiled."""
        for name, compiled in self.watched.compiled():
            try:
                made = compiled()
            except RefusedError as error:
                yield UnimportedKernel(name, error.diagnostic)
                continue
            yield import_ttgir(made.ttgir, name=name, version=made.version, ptx=made.ptx)

    def check(self, *, timeout: float | None = None) -> list[Verdict]:
        """The verdicts, in the order in which the kernels were compiled."""
        return [kernel.check(timeout=timeout) for kernel in self.kernels()]


@contextmanager
def watch_triton() -> Iterator[Seen]:
    """Within it, the kernels that a program launches are collected: `seen.check()` checks them.

    Raises RefusedError (K106) where Triton is not installed.
    """
    with compiled_kernels.watched() as found:
        yield Seen(found)
