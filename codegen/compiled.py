"""A procedure as CUDA C++, PTX, cubin, SASS and shared object, with its manifest."""

from __future__ import annotations

import json
from collections.abc import Iterator, Mapping
from dataclasses import asdict
from functools import cached_property
from pathlib import Path

from exogpu.analysis.instances import least
from exogpu.codegen.host import Emitted
from exogpu.codegen.kernels import written
from exogpu.codegen.runtime import Kernel
from exogpu.codegen.runtime.expressions import Json
from exogpu.codegen.toolchain import (
    Compiled,
    Usage,
    compile_cubin,
    compile_shared,
    disassemble,
    held_up,
    usage,
)
from exogpu.codegen.vetting import Checked
from exogpu.ir.nodes import ControlParam, DataParam, Proc
from exogpu.result.errors import NOWHERE, Diagnostic


class CompiledKernel(Kernel):
    """A compiled procedure: call it, look at it, or save it."""

    def __init__(self, emitted: Emitted, manifest: Mapping[str, Json], compiled: Compiled) -> None:
        self._emitted = emitted
        self.source = emitted.source
        self.ptx = compiled.ptx
        self.log = compiled.log
        super().__init__(manifest, compiled.cubin)

    @cached_property
    def sass(self) -> str:
        """The machine code as text.  Raises CompileError where no disassembler is found."""
        return disassemble(self.cubin)

    @property
    def usage(self) -> Mapping[str, Usage]:
        """Registers and spills of each kernel."""
        return usage(self.log)

    @property
    def warnings(self) -> tuple[Diagnostic, ...]:
        """Warnings of slow code: registers in local memory (G816), products that wait (G817)."""
        in_memory = any(used.stack for used in self.usage.values())
        return (*(self._emitted.addressed if in_memory else ()), *self._waiting())

    def _waiting(self) -> Iterator[Diagnostic]:
        for name, reasons in held_up(self.log).items():
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
        return compile_shared(f"{self._emitted.name}_host.cu", texts, str(self.manifest["arch"]))

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
    compiled = compile_cubin(emitted.source, str(manifest["arch"]))
    needs: dict[str, Json] = {name: asdict(u) for name, u in usage(compiled.log).items()}
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
    outputs = written(proc.body)
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
