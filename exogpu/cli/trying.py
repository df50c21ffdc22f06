"""`exogpu trial`: the instructions of a target against their bodies, on a GPU."""

from __future__ import annotations

import os
import re
from collections import Counter
from collections.abc import Iterator, Mapping, Sequence
from dataclasses import dataclass, field
from pathlib import Path
from types import ModuleType
from typing import Final

from exogpu.cli.files import bad
from exogpu.cli.loader import load, load_modules
from exogpu.codegen.runtime import LaunchError, driver
from exogpu.codegen.toolchain import CompileError, compile_cubin
from exogpu.frontend.instructions import InstructionTemplate
from exogpu.hw.language import DATA_TYPES
from exogpu.result.errors import Diagnostic, ExoGpuError
from exogpu.trial import dirty
from exogpu.trial.instructions import (
    NotTried,
    Variant,
    copies_alone,
    program,
    sizes_of,
    variants,
)
from exogpu.trial.judging import run_one
from exogpu.trial.packed import write_packed
from exogpu.trial.packing import pack
from exogpu.trial.pool import Result, on_this_machine

TRIES: Final = 60
"""Variants that are looked at for each that is asked for: most do not fit together."""

SECONDS: Final = 60.0
"""For one program on the GPU; what takes longer hangs."""


@dataclass(slots=True)
class Instruction:
    """The results of an instruction's variants."""

    name: str
    packed: dict[Path, Variant] = field(default_factory=dict)
    refused: dict[str, str] = field(default_factory=dict)
    """By the variant, what kept it from being run though it is well-formed."""
    broken: dict[str, str] = field(default_factory=dict)
    """By the variant, what the CUDA compiler refused, or where exogpu failed."""
    not_tried: str = ""
    unfit: Counter[str] = field(default_factory=Counter)
    """Codes of variants whose parameters do not fit together."""


@dataclass(frozen=True, slots=True)
class Tried:
    """A line for a reader, and whether all that was tried is right."""

    text: str
    right: bool
    ran: bool


def parse_values(given: Sequence[str]) -> Mapping[str, tuple[object, ...]]:
    """`n=4,8` and `dtype=f16`.  Raises ExoGpuError."""
    found: dict[str, tuple[object, ...]] = {}
    for text in given:
        name, equals, listed = text.partition("=")
        values = [_value(word.strip()) for word in listed.split(",")]
        if not equals or not name.isidentifier() or None in values:
            remedy = "write --with n=4,8 or --with dtype=f16,f32"
            raise bad("X949", f"{text} gives no values of a compile-time parameter", remedy)
        found[name] = tuple(values)
    return found


def _value(word: str) -> object:
    if word in DATA_TYPES:
        return DATA_TYPES[word]
    return int(word) if re.fullmatch(r"-?\d+", word) else None


def instructions(target: str) -> list[tuple[InstructionTemplate, str]]:
    """The instructions that a target defines, in their order, each with what imports it.

    Raises ExoGpuError where there is none.
    """
    path, _, wanted = target.partition("::")
    found = []
    for module in load_modules(path):
        header = _import_of(module)
        here = [
            value
            for value in vars(module).values()
            if isinstance(value, InstructionTemplate) and value.source.file == module.__file__
        ]
        found += [(t, header.format(name=t.name)) for t in here if t.name == (wanted or t.name)]
    if not found:
        what = f"{path} defines no instruction {wanted}".rstrip()
        raise bad("X945", what, "give a file or module with @instr in it")
    return found


def _import_of(module: ModuleType) -> str:
    """Lines that import `{name}` from where the module is, also into another process."""
    assert module.__file__ is not None
    name = module.__name__
    file = Path(module.__file__)
    folder = file.parents[name.count(".")]
    last = file.stem if file.stem != "__init__" else file.parent.name
    dotted = ".".join((*name.split(".")[:-1], last))
    return f"import sys\nsys.path.insert(0, {str(folder)!r})\nfrom {dotted} import {{name}}"


def emit(
    template: InstructionTemplate,
    header: str,
    folder: Path,
    most: int,
    given: Mapping[str, tuple[object, ...]],
    arch: str,
) -> Instruction:
    """Packs up to `most` variants of an instruction into a folder."""
    found = Instruction(template.name)
    for number, variant in enumerate(variants(template, given)):
        done = len(found.packed) + len(found.refused) + len(found.broken)
        if done >= most or number >= TRIES * most:
            break
        name = f"trial_{template.name}_{number}"
        try:
            source = program(variant, name, header)
        except NotTried as reason:
            found.not_tried = str(reason)
            break
        file = folder / "programs" / f"{name}.py"
        file.parent.mkdir(parents=True, exist_ok=True)
        file.write_text(source)
        try:
            _pack(variant, name, file, source, folder, arch, found)
        except ExoGpuError as error:
            found.refused[str(variant)] = _first_diagnostic(error.diagnostics)
        except CompileError as error:
            lines = error.problem.strip().splitlines()
            found.broken[str(variant)] = next((x for x in lines if "error" in x), lines[-1])
        except Exception as error:  # ours: the other variants are tried all the same
            if os.environ.get("EXOGPU_DEBUG"):
                raise
            found.broken[str(variant)] = f"exogpu failed: {type(error).__name__}: {error}"
    return found


def _pack(
    variant: Variant,
    name: str,
    file: Path,
    source: str,
    folder: Path,
    arch: str,
    found: Instruction,
) -> None:
    (unit,) = load(str(file))
    diagnostics = unit.diagnostics if unit.procedure is None else unit.procedure.diagnostics
    if unit.procedure is None or diagnostics:
        found.unfit[diagnostics[0].code] += 1
        return
    verdict = unit.procedure.check(timeout=SECONDS)
    if verdict.word == "refuted" and verdict.hazards[0].kind.value in ("ALIGN", "BOUNDS"):
        found.unfit[verdict.hazards[0].kind.value] += 1
        return
    sizes, copies = sizes_of(variant), copies_alone(variant)
    packed = pack(unit.procedure, sizes, source, arch=arch, fractions=copies)
    path = folder / f"{name}.zip"
    write_packed(path, packed)
    found.packed[path] = variant


def _first_diagnostic(diagnostics: Sequence[Diagnostic]) -> str:
    if not diagnostics:
        return "it is not proved"
    first = diagnostics[0]
    return f"{first.code} {first.message}"


def trial(
    target: str,
    folder: Path,
    most: int,
    given: Mapping[str, tuple[object, ...]],
    jobs: int,
    arch: str,
) -> Iterator[Tried]:
    """One line an instruction: emitted, and run where there is a GPU.

    Raises ExoGpuError for a target without instructions, CompileError where there is no compiler.
    """
    wanted = instructions(target)
    folder.mkdir(parents=True, exist_ok=True)
    for older in folder.glob("trial_*.zip"):
        older.unlink()
    (folder / "dirty.cubin").write_bytes(compile_cubin(dirty.SOURCE, arch).cubin)
    why_not = _why_not()
    for template, header in wanted:
        found = emit(template, header, folder, most, given, arch)
        results: dict[str, Result] = {}
        if not why_not:
            files = [str(path) for path in found.packed]
            results = dict(on_this_machine(jobs, files, run_one, SECONDS))
        yield told(found, results, why_not)


def _why_not() -> str:
    try:
        driver.gpus()
    except LaunchError as error:
        return error.problem
    return ""


def told(found: Instruction, results: Mapping[str, Result], why_not: str) -> Tried:
    """Describes the results for an instruction."""
    if found.not_tried:
        return Tried(f"{found.name}: not tried: {found.not_tried}\n", True, False)
    wrong = {
        str(variant): what
        for path, variant in found.packed.items()
        if str(path) in results and (what := wrongs(results[str(path)]))
    }
    ran = not why_not
    count = len(found.packed)
    head = f"{count - len(wrong)} of {count} right" if ran else f"{count} compiled, none run"
    lines = [f"{found.name}: {head}"]
    lines += [f"  {name}: WRONG: {what}" for name, what in wrong.items()]
    lines += [f"  {name}: BROKEN: {what.strip()}" for name, what in found.broken.items()]
    lines += [f"  {name}: not run: {what}" for name, what in found.refused.items()]
    if not count and not found.refused and not found.broken:
        lines.append(f"  no variant fits together: {dict(found.unfit)}")
    return Tried("\n".join(lines) + "\n", not wrong and not found.broken, ran and bool(count))


def wrongs(result: Result) -> str:
    """Describes the fault in a result of `run_one`; empty if there is none."""
    if "hang" in result:
        return f"hangs: no answer in {result['hang']} s"
    if "died" in result:
        return f"the process died ({result['died']})"
    if not result["wrong"]:
        return ""
    first = result["wrong"][0]
    return f"{len(result['wrong'])} times, first at {first['sizes']}: {first['what']}"
