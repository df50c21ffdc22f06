"""Running a procedure on random data: its sequential meaning, and beside it the GPU."""

from __future__ import annotations

import math
import os
import zlib
from collections.abc import Mapping
from dataclasses import dataclass
from typing import TypeAlias

import numpy as np
import numpy.typing as npt
from rich.text import Text

from exogpu.analysis.sizes import check_sizes
from exogpu.api import Procedure
from exogpu.codegen.compiled_kernel import RefusedError
from exogpu.codegen.runtime import LaunchError, driver
from exogpu.codegen.runtime.manifest import read_manifest
from exogpu.codegen.toolchain import CompileError
from exogpu.diagnostics.errors import Diagnostic, ExoGpuError
from exogpu.gpu_trial.run_data import decoded, encoded
from exogpu.interpreter.values import NUMPY, stored
from exogpu.ir.nodes import ControlParam, DataParam, Proc
from exogpu.ir.types import DataType
from exogpu.ir.walk import evaluate
from exogpu.machine.index_contents import at_random
from exogpu.report.render_verdict import sizes_text

Arrays: TypeAlias = Mapping[str, npt.NDArray[np.generic]]


def random_arguments(
    ir: Proc, sizes: Mapping[str, int], seed: int
) -> dict[str, npt.NDArray[np.generic]]:
    """An array for each data parameter: floats in [-1, 1), integers in -8 .. 7 (0 .. 15 unsigned).
    What they are indices of is not looked at; see `fill_indices`.

    The same seed and sizes always give the same data.  Raises ExoGpuError for sizes that are
    missing, unknown or break a precondition.
    """
    if wrong := check_sizes(ir, sizes):
        raise ExoGpuError(wrong)
    values = {p.name: sizes[p.name.name] for p in ir.params if isinstance(p, ControlParam)}
    data = [p for p in ir.params if isinstance(p, DataParam)]
    shapes = [tuple(evaluate(extent, values) for extent in p.shape) for p in data]
    _must_fit(ir, sum(math.prod(shape) for shape in shapes))
    generator = np.random.default_rng(seed)
    return {
        param.name.name: _random(generator, param.dtype, shape)
        for param, shape in zip(data, shapes, strict=True)
    }


def fill_indices(procedure: Procedure, sizes: Mapping[str, int], seed: int, arrays: Arrays) -> None:
    """Writes to the arrays that values are loaded from, or contracts are on, what lies in the
    ranges and satisfies the contracts, if such contents are found."""
    assert procedure.ir is not None
    for one in procedure.ir.contracts:
        array = arrays[one.array.name]
        array[...] = np.arange(array.size).reshape(array.shape)  # satisfies all of them
    if procedure.diagnostics:
        return
    for name, elements in at_random(procedure.amir(), sizes, seed).items():
        arrays[name][...] = np.array(elements, np.int64).reshape(arrays[name].shape)


def _must_fit(ir: Proc, elements: int) -> None:
    """Raises ExoGpuError where the arrays, drawn in double precision and kept twice, take more
    than half of the machine's memory."""
    needed, there = 24 * elements, os.sysconf("SC_PHYS_PAGES") * os.sysconf("SC_PAGE_SIZE")
    if needed > there // 2:
        gib = f"{needed / 2**30:,.1f} GiB, and the machine has {there / 2**30:,.1f}"
        what = f"the arrays of a run at these sizes need {gib}"
        raise ExoGpuError([Diagnostic("X958", what, ir.span, "give smaller sizes")])


def _random(
    generator: np.random.Generator, dtype: DataType, shape: tuple[int, ...]
) -> npt.NDArray[np.generic]:
    kind = NUMPY[dtype]
    if kind.kind == "f":
        return stored(generator.uniform(-1, 1, shape), dtype)
    low = 0 if kind.kind == "u" else -8
    return generator.integers(low, low + 16, shape).astype(kind)


@dataclass(frozen=True, slots=True)
class Ran:
    """The result of a run."""

    text: Text
    """A line an array: type, shape, whether it changed, the sum and the CRC of its bytes.  Of a
    run on the GPU, the errors of what is written."""
    note: Text
    """Why it was not run on a GPU; empty if it was."""


def run_on_random_data(procedure: Procedure, sizes: Mapping[str, int], seed: int) -> Ran:
    """Run the sequential meaning and, where there is a GPU, the kernel, if it is safe there.

    Raises ExoGpuError for an ill-formed procedure or wrong sizes.
    """
    assert procedure.ir is not None
    arrays = random_arguments(procedure.ir, sizes, seed)
    fill_indices(procedure, sizes, seed, arrays)
    before = {name: array.copy() for name, array in arrays.items()}
    procedure.run(**sizes, **arrays)
    at = f" at {sizes_text(sizes)}" if sizes else ""
    text = Text.assemble((procedure.name, "bold"), f"{at}, seed {seed}\n")
    for name, array in arrays.items():
        data = array.tobytes()
        shape = ", ".join(map(str, array.shape))
        what = "written" if data != before[name].tobytes() else "unchanged"
        total = float(array.astype(np.float64).sum())
        text.append(
            f"  {name}: {array.dtype.name}[{shape}] {what}, "
            f"sum {total:.9g}, crc32 {zlib.crc32(data):08x}\n"
        )
    try:
        return Ran(text.append(_on_gpu(procedure, sizes, before, arrays)), Text())
    except (LaunchError, CompileError) as error:
        problem = error.problem
    except RefusedError as error:
        problem = f"{error.verdict.word} at these sizes, or for all"
    except ExoGpuError as error:
        problem = error.diagnostics[0].message
    return Ran(text, Text(f"{procedure.name} is not run on a GPU: {problem}\n"))


def _on_gpu(procedure: Procedure, sizes: Mapping[str, int], given: Arrays, wanted: Arrays) -> Text:
    """The errors of the compiled kernel on the same data."""
    gpu = driver.gpus()[driver.current_device()]
    kernel = procedure.compile(arch_of(gpu.capability), at=sizes)
    assert procedure.ir is not None
    dtypes = {p.name.name: p.dtype for p in procedure.ir.params if isinstance(p, DataParam)}
    found = {name: to_device(array, dtypes[name]) for name, array in given.items()}
    kernel(**found, **sizes)
    text = Text(f"  on {gpu.name}, against the run above:\n")
    for param in read_manifest(kernel.manifest).data:
        if param.written:
            result = from_device(found[param.name], dtypes[param.name])
            text.append(f"    {param.name}: {_errors(result, wanted[param.name])}\n")
    return text


def arch_of(capability: tuple[int, int]) -> str:
    """The architecture to compile for: with the instructions of that GPU alone from 9.0 on."""
    major, minor = capability
    return f"sm_{major}{minor}" + ("a" if major >= 9 else "")


def to_device(array: npt.NDArray[np.generic], dtype: DataType) -> npt.NDArray[np.generic]:
    """A copy as a kernel takes it: what is float32 here, and narrower there, as its bits."""
    return encoded(array, dtype.value)


def from_device(array: npt.NDArray[np.generic], dtype: DataType) -> npt.NDArray[np.generic]:
    """The inverse of `to_device`."""
    return decoded(array, dtype.value)


def _errors(found: npt.NDArray[np.generic], wanted: npt.NDArray[np.generic]) -> str:
    difference = found.astype(np.float64) - wanted.astype(np.float64)
    size = float(np.linalg.norm(wanted.astype(np.float64)))
    relative = float(np.linalg.norm(difference)) / size if size else float(np.any(difference))
    return f"max abs error {np.max(np.abs(difference), initial=0):.3g}, relative {relative:.3g}"
