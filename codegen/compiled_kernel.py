"""A procedure as CUDA C++, PTX, cubin, SASS and shared object, with its manifest."""

from __future__ import annotations

import json
from collections.abc import Callable, Iterator, Mapping, Sequence
from dataclasses import asdict, dataclass, field
from functools import cached_property
from pathlib import Path
from typing import Final, Literal, assert_never

from exogpu.analysis.domain import least
from exogpu.analysis.facts import Facts
from exogpu.codegen import toolchain
from exogpu.codegen.architecture import SM90
from exogpu.codegen.host_steps import Emitted, lowered
from exogpu.codegen.kernel_text import written_variables
from exogpu.codegen.runtime import Kernel
from exogpu.codegen.runtime.manifest import Json
from exogpu.diagnostics.errors import NOWHERE, Diagnostic, ExoGpuError, Note
from exogpu.diagnostics.hazards import Hazard
from exogpu.diagnostics.verdict import Policy, Verdict
from exogpu.ir.nodes import ControlParam, DataParam, Proc

# Decides whether a procedure may be compiled, and records in its manifest how it was checked.

How = Literal["all sizes", "at sizes", "unchecked"]


@dataclass(frozen=True, slots=True)
class Checked:
    """A record of how a compiled procedure was checked."""

    how: How
    sizes: Mapping[str, int] | None
    """The sizes of `at sizes`."""
    policy: Policy | None
    """None where it was not checked."""
    certificate: str | None
    """Digest of the certificate; None where there is none."""
    depths: Mapping[str, int] = field(default_factory=dict)
    """Ring depths that the proof found, by mbarrier."""
    waits: tuple[str, ...] = ()
    """The numbers of arrivals for which Awaits of flags wait (`Proof.waits`)."""

    def to_json(self) -> Json:
        """The manifest's `checked`."""
        return {
            "how": self.how,
            "sizes": None if self.sizes is None else dict(self.sizes),
            "policy": self.policy.value if self.policy else None,
            "certificate": self.certificate,
        }


UNCHECKED: Final = Checked("unchecked", None, None, None)


class RefusedError(ExoGpuError):
    """A procedure that is not compiled because of its verdict."""

    def __init__(self, verdict: Verdict) -> None:
        self.verdict = verdict
        super().__init__(_diagnostics(verdict))


def vet(
    check: Callable[[], Verdict],
    check_at: Callable[[], Verdict] | None,
    digest: Callable[[Verdict], str],
) -> Checked:
    """Checks the procedure for all sizes, or else at the sizes given.

    Raises RefusedError for what either check refutes, and for what neither proves.
    """
    at_sizes = check_at() if check_at is not None else None
    if at_sizes is not None and at_sizes.word != "proved":
        raise RefusedError(at_sizes)
    verdict = check()
    match verdict.word:
        case "proved":
            proof = verdict.proof
            depths, waits = ({}, ()) if proof is None else (dict(proof.depths), proof.waits)
            return Checked("all sizes", None, verdict.policy, digest(verdict), depths, waits)
        case "undecided" if at_sizes is not None:
            return Checked("at sizes", at_sizes.sizes, at_sizes.policy, None)
        case "undecided" | "refuted" | "error":
            raise RefusedError(verdict)
        case _:
            assert_never(verdict.word)


def _diagnostics(verdict: Verdict) -> tuple[Diagnostic, ...]:
    match verdict.word:
        case "error":
            return verdict.diagnostics
        case "refuted":
            return tuple(_of_hazard(hazard) for hazard in verdict.hazards)
        case _:
            what = f"{verdict.proc} is not proved for all sizes: {verdict.reason}"
            remedy = "pass at={...}, sizes to check it at, or unchecked=True"
            return (Diagnostic("X960", what, NOWHERE, remedy),)


def _of_hazard(hazard: Hazard) -> Diagnostic:
    sizes = ", ".join(f"{name}={value}" for name, value in hazard.sizes.items())
    at = f" at {sizes}" if sizes else ""
    what = f"{hazard.kind.value} on {hazard.variable}{at}: {hazard.message}"
    first = hazard.first
    notes = (Note("the other statement", first.span),) if first is not None else ()
    return Diagnostic(hazard.code, what, hazard.second.span, hazard.help, notes)


class CompiledKernel(Kernel):
    """A compiled procedure: call it, look at it, or save it."""

    def __init__(
        self, emitted: Emitted, manifest: Mapping[str, Json], compiled: toolchain.Compiled
    ) -> None:
        self._emitted = emitted
        self.source = emitted.source
        self.ptx = compiled.ptx
        self.log = compiled.log
        super().__init__(manifest, compiled.cubin, lambda: self.shared_object)

    @cached_property
    def sass(self) -> str:
        """The machine code as text.  Raises CompileError where no disassembler is found."""
        return toolchain.disassemble(self.cubin)

    @property
    def usage(self) -> Mapping[str, toolchain.Usage]:
        """Registers and spills of each kernel."""
        return toolchain.usage(self.log)

    @property
    def warnings(self) -> tuple[Diagnostic, ...]:
        """Warnings of slow code: registers in local memory (G816), products that wait (G817)."""
        in_memory = any(used.stack for used in self.usage.values())
        return (*(self._emitted.addressed if in_memory else ()), *self._waiting())

    def _waiting(self) -> Iterator[Diagnostic]:
        for name, reasons in toolchain.held_up(self.log).items():
            yield Diagnostic(
                "G817",
                f"ptxas makes products of {name} wait: {'; '.join(reasons)}",
                self._emitted.launches.get(name, NOWHERE),
                "between a wgmma and the Await for it leave its accumulator and its registers of A "
                "alone, index them by constants, and see that the registers suffice",
            )

    @cached_property
    def shared_object(self) -> bytes:
        """The C function of `<name>.h`, with the kernels: it needs neither Python nor this package.

        Raises CompileError where there is no nvcc or no host compiler, or one refuses.
        """
        texts = _texts(self._emitted)
        return toolchain.compile_shared(
            f"{self._emitted.name}_host.cu", texts, str(self.manifest["arch"])
        )

    def save(
        self, folder: Path, *, ptx: bool = False, sass: bool = False, so: bool = False
    ) -> tuple[Path, ...]:
        """Write what `save_source` does, `<name>.cubin`, and what else is asked for.

        `Kernel.from_folder` reads them; `so` is `lib<name>.so`.  Raises CompileError, with nothing
        written, where a tool that it takes is missing or refuses.
        """
        name = self._emitted.name
        made = {f"{name}.cubin": self.cubin}
        if ptx:
            made[f"{name}.ptx"] = self.ptx.encode()
        if sass:
            made[f"{name}.sass"] = self.sass.encode()
        if so:
            made[f"lib{name}.so"] = self.shared_object
        sources = save_source(self._emitted, self.manifest, folder)
        for file, data in made.items():
            (folder / file).write_bytes(data)
        return (*sources, *(folder / file for file in made))


def compile_emitted(emitted: Emitted, manifest: Mapping[str, Json]) -> CompiledKernel:
    """The kernel of an emitted procedure and its completed manifest.

    Raises CompileError where there is no compiler, or it refuses.
    """
    compiled = toolchain.compile_cubin(emitted.source, str(manifest["arch"]))
    needs: dict[str, Json] = {name: asdict(u) for name, u in toolchain.usage(compiled.log).items()}
    return CompiledKernel(emitted, {**manifest, "usage": needs}, compiled)


def save_source(emitted: Emitted, manifest: Mapping[str, Json], folder: Path) -> tuple[Path, ...]:
    """Write `<name>.cu`, `<name>.json`, and the C function of the CPU part: `<name>.h` and
    `<name>_host.cu`."""
    shown = json.dumps(manifest, indent=1) + "\n"
    texts = {**_texts(emitted), f"{emitted.name}.json": shown}
    folder.mkdir(parents=True, exist_ok=True)
    for name, text in texts.items():
        (folder / name).write_text(text)
    return tuple(folder / name for name in texts)


def remove_saved(folder: Path, name: str) -> None:
    """Removes what an earlier `save` or `save_source` wrote for a procedure of this name, and
    nothing else: its manifest tells that it did.  Raises OSError."""
    try:
        manifest = json.loads((folder / f"{name}.json").read_bytes())
    except (OSError, ValueError):
        return
    if not isinstance(manifest, dict) or not {"name", "arch", "checked"} <= manifest.keys():
        return
    # First what makes the others a kernel.
    for pattern in ("{}.json", "{}.cubin", "{}.cu", "{}.h", "{}_host.cu", "{}.ptx", "{}.sass"):
        (folder / pattern.format(name)).unlink(missing_ok=True)
    (folder / f"lib{name}.so").unlink(missing_ok=True)


def _texts(emitted: Emitted) -> dict[str, str]:
    """The kernels and the C function, by file name."""
    return {
        f"{emitted.name}.cu": emitted.source,
        f"{emitted.name}.h": emitted.host.header,
        f"{emitted.name}_host.cu": emitted.host.source,
    }


def complete_manifest(proc: Proc, emitted: Emitted, checked: Checked) -> dict[str, Json]:
    """The manifest with what a call must know, and how the procedure was checked.

    Sizes get their `least` value, and arrays whether they are `written`.
    """
    outputs = written_variables(proc.body)
    parameters: list[Json] = []
    described = emitted.manifest["parameters"]
    assert isinstance(described, list)
    for param, shown in zip(proc.params, described, strict=True):
        assert isinstance(shown, dict)
        match param:
            case ControlParam(kind="size"):
                parameters.append({**shown, "least": least(proc, param.name)})
            case ControlParam():
                parameters.append(shown)
            case DataParam():
                parameters.append({**shown, "written": param.name in outputs})
    return {**emitted.manifest, "parameters": parameters, "checked": checked.to_json()}


# Diagnostics, in a check, of a proved procedure that cannot be compiled.


def limitations(
    facts: Facts, depths: Mapping[str, int], waits: Sequence[str] = ()
) -> tuple[Diagnostic, ...]:
    """Returns the reasons why a procedure is not compiled, with the codes of `emit`; empty if it
    is.

    `depths` are the ring depths that the proof found, by mbarrier, `waits`
    for how many arrivals it found that Awaits of flags wait.  The architecture is the one
    that has everything.  Another failure of code generation is a mistake in it, and no reason to
    doubt the proof: it is a warning too.
    """
    try:
        lowered(facts, SM90, depths=depths, waits=waits)
    except ExoGpuError as error:
        return error.diagnostics
    except Exception as error:  # whatever it is, what was proved stays proved
        message = f"code generation fails: {type(error).__name__}: {error}"
        remedy = "this is a mistake of exogpu, not of the kernel: report it"
        return (Diagnostic("G813", message, facts.proc.span, remedy),)
    return ()
