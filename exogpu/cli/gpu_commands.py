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

from rich.table import Table
from rich.text import Text

from exogpu.cli import exit_handler as handler
from exogpu.cli.files import bad
from exogpu.cli.loader import load, load_modules
from exogpu.codegen.runtime import LaunchError, driver
from exogpu.codegen.toolchain import CompileError, compile_cubin
from exogpu.diagnostics.errors import Diagnostic, ExoGpuError
from exogpu.frontend.instructions import InstructionTemplate
from exogpu.gpu_trial import run_data
from exogpu.gpu_trial.instruction_kernels import (
    NotTried,
    Variant,
    copies_alone,
    program,
    sizes_of,
    variants,
)
from exogpu.gpu_trial.pool import Result, on_this_machine, pack, run_one
from exogpu.gpu_trial.run_data import write_packed
from exogpu.hw.language import DATA_TYPES
from exogpu.kernels import gemm_calls, select
from exogpu.kernels.select import Choice, Product, fastest
from exogpu.kernels.tune import RUNS, Timed, tune, work
from exogpu.report.render_verdict import console, shown_path

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
    (folder / "dirty.cubin").write_bytes(compile_cubin(run_data.SOURCE, arch).cubin)
    why_not = _why_not()
    for template, header in wanted:
        found = emit(template, header, folder, most, given, arch)
        results: dict[str, Result] = {}
        if not why_not:
            files = [str(path) for path in found.packed]
            results = dict(on_this_machine(jobs, files, run_one, SECONDS))
        yield describe_results(found, results, why_not)


def _why_not() -> str:
    try:
        driver.gpus()
    except LaunchError as error:
        return error.problem
    return ""


def describe_results(found: Instruction, results: Mapping[str, Result], why_not: str) -> Tried:
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


# `exogpu tune`: the kernels of a product on this GPU, by their measured times.

FORMS = {"gemm": "LxMxNxK or MxNxK", "gemv": "MxK"}
"""The forms of sizes, by call."""


TYPES = {"gemm": ("f32", "bf16", "f16"), "gemv": ("f32",)}


def check_call(target: str, dtype: str) -> None:
    """Raises ExoGpuError for a product or type that no kernel has."""
    if target not in FORMS:
        raise ExoGpuError(
            [handler.wrong("X964", f"there is no product {target}", "give gemm or gemv")]
        )
    if dtype not in TYPES[target]:
        types = ", ".join(TYPES[target])
        raise ExoGpuError(
            [handler.wrong("X964", f"there is no {target} of {dtype}", f"it is of {types}")]
        )


def product(target: str, sizes: str, dtype: str) -> Product:
    """Sizes as they are written.  Raises ExoGpuError for what is none.

    >>> product("gemm", "4096x2048x1024", "bf16")
    Product(L=1, M=4096, N=2048, K=1024, dtype='bf16')
    >>> product("gemv", "128x65536", "f32").K
    65536
    """
    numbers = [int(n) for n in sizes.split("x")] if re.fullmatch(r"\d+(x\d+)*", sizes) else []
    if not all(0 < n < 1 << 31 for n in numbers):
        numbers = []
    match target, numbers:
        case "gemm", [*batch, m, n, k] if len(batch) < 2:
            found = Product(batch[0] if batch else 1, m, n, k, dtype)
        case "gemv", [m, k]:
            found = Product(1, m, 0, k, dtype)
        case _:
            said = f"{sizes!r} are no sizes of a {target}"
            raise ExoGpuError([handler.wrong("X964", said, f"write them as {FORMS[target]}")])
    chunk = 4 if dtype == "f32" else 8
    if found.K % chunk:
        said = f"K is {found.K}: rows of {found.dtype} that are no multiple of 16 bytes"
        raise ExoGpuError([handler.wrong("X964", said, f"take a multiple of {chunk}")])
    return found


def tell(target: str, sizes: Sequence[str], dtype: str, runs: int = RUNS) -> None:
    """Times the kernels for each of the sizes, prints and keeps what is found.  Raises ExoGpuError,
    OSError."""
    check_call(target, dtype)
    products = [product(target, one, dtype) for one in sizes]
    for one in products:
        try:
            gpu = driver.gpus()[driver.current_device()].name
            with console(stderr=True).status("") as status:
                times = tune(one, runs, status.update)
        except (LaunchError, CompileError) as error:
            raise ExoGpuError([handler.wrong("X965", error.problem, error.remedy)]) from None
        select.keep(gpu, one, times[0].choice)
        console().print(draw(one, gpu, times))
    said = f"kept in {shown_path(str(select.file()))}: exogpu.kernels.{target} looks there first\n"
    console().print(Text(said), end="")


def draw(product: Product, gpu: str, times: Sequence[Timed]) -> Table:
    """A line a kernel; the one that would have been taken untuned is marked."""
    count, unit = work(product)
    untuned = (
        fastest(product, gpu)
        if product.N
        else Choice(gemm_calls.of_vector(product.M, product.K), 0)
    )
    title = " x ".join(str(n) for n in (product.L, product.M, product.N, product.K) if n)
    found = Table(title=f"{title} {product.dtype}, {gpu}", title_justify="left", box=None)
    for name in ("kernel", "slices of K", "us", unit, ""):
        found.add_column(name, justify="left" if name in ("kernel", "") else "right")
    for one in times:
        found.add_row(
            one.choice.name,
            str(one.choice.slices or ""),
            f"{one.seconds * 1e6:.1f}",
            f"{count / one.seconds / 1e12:.4g}",
            "taken untuned" if one.choice == untuned else "",
        )
    return found
