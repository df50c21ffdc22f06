"""Compiling the procedures of a target, one after the other."""

from __future__ import annotations

import os
from collections.abc import Iterator, Mapping, Sequence
from dataclasses import dataclass, replace
from pathlib import Path

from rich.text import Text

from exogpu.api import Procedure
from exogpu.cli.check_command import sizes_for, unknown_to_all
from exogpu.cli.exit_handler import INTERNAL, STATUS, Outcome, internal
from exogpu.cli.files import Unit
from exogpu.cli.output_folders import Places
from exogpu.cli.process_guard import NO_LIMITS
from exogpu.codegen.compiled_kernel import (
    CompiledKernel,
    RefusedError,
    compile_emitted,
    remove_saved,
    save_source,
)
from exogpu.codegen.task_order import TaskOrder, parse_order
from exogpu.codegen.toolchain import CompileError
from exogpu.diagnostics.errors import NOWHERE, Diagnostic, ExoGpuError
from exogpu.diagnostics.verdict import Policy
from exogpu.report.page import folder_name
from exogpu.report.render_verdict import draw_diagnostics, draw_verdict, sizes_text
from exogpu.solvers.processes import Limits
from exogpu.symbolic.certificate.write import remove_certificate, write_certificate


@dataclass(frozen=True, slots=True)
class Wish:
    """Options of compiling: the sources, and the outputs."""

    folder: Path
    arch: str
    cubin: bool
    ptx: bool
    sass: bool
    so: bool
    sizes: Mapping[str, int] | None
    unchecked: bool
    policy: Policy
    task_order: TaskOrder | None
    arrive_all: bool = False
    limits: Limits = NO_LIMITS
    """The limits of each check."""


@dataclass(frozen=True, slots=True)
class Built:
    """The result for one procedure: text for a reader, and its exit status."""

    text: Text
    status: int


def parse_task_order(text: str) -> TaskOrder:
    """The order that `--task-order` names.  Raises ExoGpuError for others."""
    try:
        return parse_order(text)
    except ValueError as error:
        remedy = "--task-order lexicographic, grouped, grouped:16, hilbert"
        raise ExoGpuError(
            [Diagnostic("X962", f"the task order {error}", NOWHERE, remedy)]
        ) from None


def compile_all(units: tuple[Unit, ...], wish: Wish) -> Iterator[Built]:
    """One result a unit, as soon as it is there.

    A procedure that is refuted, or not proved, is not written: status 1 or 3.
    """
    procedures = [unit.procedure for unit in units if unit.procedure is not None]
    if unknown := unknown_to_all(procedures, wish.sizes or {}):
        yield _failed_build(unknown)
        return
    places = Places()
    for unit in units:
        if unit.procedure is None:
            yield _failed_build(unit.diagnostics)
        else:
            folder = places.shared_folder(unit.procedure.name, wish.folder)
            yield _compile(unit.procedure, procedures, replace(wish, folder=folder))


def _compile(procedure: Procedure, procedures: Sequence[Procedure], wish: Wish) -> Built:
    """Writes the files of one procedure; of older ones nothing stays, whatever comes of it."""
    name = folder_name(procedure.name)
    certificate = wish.folder / f"{name}.certificate"
    at = None if wish.sizes is None else sizes_for(procedure, procedures, wish.sizes)
    try:
        remove_saved(wish.folder, name)
        remove_certificate(certificate)
        emitted, manifest = procedure.emit(
            wish.arch,
            at=at,
            unchecked=wish.unchecked,
            policy=wish.policy,
            task_order=wish.task_order,
            arrive_all=wish.arrive_all,
            timeout=wish.limits.seconds,
            memory=wish.limits.gigabytes,
        )
        checked, slow, warned = _check_text(manifest["checked"]), Text(), Text()
        if not (wish.cubin or wish.ptx or wish.sass or wish.so):
            paths, needs = save_source(emitted, manifest, wish.folder), ""
        else:
            kernel = compile_emitted(emitted, manifest)
            paths = kernel.save(wish.folder, ptx=wish.ptx, sass=wish.sass, so=wish.so)
            needs, slow = _needs(kernel), draw_diagnostics(kernel.warnings, warning=True)
        if not wish.unchecked:
            verdict = procedure.check(policy=wish.policy)
            if verdict.proof is not None:
                write_certificate(certificate, procedure, verdict)
                paths = (*paths, certificate)
            warned = draw_diagnostics(verdict.idle, warning=True)
        built = _success(procedure.name, checked, paths, needs)
        return replace(built, text=built.text.append(warned).append(slow))
    except RefusedError as error:
        return _refusal(error)
    except ExoGpuError as error:
        return _failed_build(error.diagnostics)
    except CompileError as error:
        what = f"{procedure.name}: {error.problem}"
        return _failed_build((Diagnostic("X961", what, NOWHERE, error.remedy),))
    except OSError as error:
        what = f"{error.filename} cannot be written: {error.strerror}"
        return _failed_build((Diagnostic("X948", what, NOWHERE, "choose another folder"),))
    except Exception as error:
        return _internal_failure(procedure.name, error)


def _refusal(error: RefusedError) -> Built:
    verdict = error.verdict
    text = draw_verdict(verdict)
    if verdict.word == "undecided":
        remedy = "give sizes to check it at (--at), or compile it --unchecked"
        what = f"{verdict.proc} is not compiled: it is not proved for all sizes"
        text.append(draw_diagnostics([Diagnostic("X960", what, NOWHERE, remedy)]))
    else:
        text.append(f"{verdict.proc} is not compiled\n", "bold")
    return Built(text, STATUS[verdict.word])


def unloaded(outcome: Outcome) -> Built:
    """Makes the result for a file that could not be loaded within the limits."""
    return Built(draw_verdict(outcome.verdict), STATUS["undecided"])


def _failed_build(diagnostics: tuple[Diagnostic, ...]) -> Built:
    return Built(draw_diagnostics(diagnostics), STATUS["error"])


def _internal_failure(name: str, error: Exception) -> Built:
    """A failure of exogpu: the procedures after this one are compiled all the same."""
    if os.environ.get("EXOGPU_DEBUG"):
        raise error
    text = Text.assemble((name, "bold"), " is not compiled\n")
    return Built(text.append(draw_diagnostics([internal(error)])), INTERNAL)


def _success(name: str, checked: str, paths: Sequence[Path], needs: str) -> Built:
    text = Text.assemble((name, "bold"), f": compiled, {checked}{needs}\n")
    for path in paths:
        text.append(f"  {path}\n")
    return Built(text, STATUS["proved"])


def _check_text(checked: object) -> str:
    match checked:
        case {"how": "at sizes", "sizes": dict(sizes)}:
            return f"checked at {sizes_text(sizes)}"
        case {"how": "all sizes"}:
            return "proved for all sizes"
        case _:
            return "unchecked"


def _needs(kernel: CompiledKernel) -> str:
    """`, 168 registers, no spills`, for each kernel of the procedure."""
    found = []
    for used in kernel.usage.values():
        spilled = used.spill_stores + used.spill_loads
        spills = f"{spilled} bytes of spills" if spilled else "no spills"
        if used.stack and not spilled:
            spills += f", {used.stack} bytes of local memory"
        found.append(f"{used.registers} registers, {spills}")
    return f"; {'; '.join(found)}" if found else ""
