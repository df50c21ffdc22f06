"""The data of a run: whole numbers, poison where nothing is read, and what the program means."""

from __future__ import annotations

import ctypes
import io
import json
import zipfile
from collections.abc import Callable, Iterator, Mapping
from dataclasses import dataclass
from functools import cache
from pathlib import Path
from typing import Any, Final, TypeAlias

import numpy as np
import numpy.typing as npt

from exogpu.api import Procedure
from exogpu.codegen.kernel_text import written_variables
from exogpu.codegen.runtime import driver
from exogpu.codegen.runtime.manifest import Launch
from exogpu.codegen.runtime.modules import Loaded, launcher, load, module_of
from exogpu.interpreter.values import NUMPY, from_bits, poison, stored, to_bits
from exogpu.ir.nodes import Access, Assign, Block, CallInstr, ControlParam, DataParam
from exogpu.ir.types import AccessMode, DataType, Sym
from exogpu.ir.walk import accesses, evaluate, reads, walk

# Shared memory filled with NaN before a run: nothing there is zero by chance.

SOURCE: Final = """\
extern "C" __global__ void dirty(int words)
{
    extern __shared__ unsigned memory[];
    for (int i = threadIdx.x; i < words; i += blockDim.x)
        memory[i] = 0x7fffffffu;
    __syncthreads();
    // Read, so that the writes stay.
    if (memory[(threadIdx.x * 7919u) % words] == 0x12345678u)
        __trap();
}
"""
"""CUDA C++ of the kernel."""

BYTES: Final = 227 * 1024
"""All that a CTA can have on a Hopper GPU, so that one runs on each multiprocessor."""

LAUNCH: Final = Launch("dirty", 1, 1024, BYTES, ((1,),), (), ())


def dirtying(cubin: bytes) -> Callable[[], None]:
    """Returns a function that fills the shared memory of all multiprocessors of the current
    device."""

    @cache
    def load_kernel() -> Loaded:
        return load(module_of(cubin), (LAUNCH,), driver.current_device())["dirty"]

    def dirty() -> None:
        kernel = load_kernel()
        launcher(kernel, kernel.clusters, [ctypes.c_int(BYTES // 4)], 0)()

    return dirty


# Compares an array that a device wrote with the expected one.


def decoded(array: Array, dtype: str) -> Array:
    """The values of an array as a device holds it: bf16 and 8-bit floats come as their bits."""
    if dtype.startswith("f8"):
        return from_bits(array, dtype)
    if dtype == "bf16":
        return (array.astype(np.uint32) << 16).view(np.float32)
    return array


def encoded(array: Array, dtype: str) -> Array:
    """A copy as a device holds it: the inverse of `decoded`."""
    if dtype.startswith("f8"):
        return to_bits(array.astype(np.float32), dtype)
    if dtype == "bf16":
        return (array.view(np.uint32) >> 16).astype(np.uint16)
    return array.copy()


def difference(found: Array, wanted: Array, dtype: str, tolerance: float) -> str:
    """Describes the first difference of two arrays, and the number of differing elements; empty if
    they agree.

    NaN agrees with NaN, and -0 with 0.
    """
    have, want = decoded(found, dtype), decoded(wanted, dtype)
    with np.errstate(all="ignore"):
        agree = have == want
        if have.dtype.kind == "f":
            agree |= np.isnan(have) & np.isnan(want)
            if tolerance:
                off = np.abs(have.astype(np.float64) - want.astype(np.float64))
                agree |= off <= tolerance * np.abs(want.astype(np.float64))
    if agree.all():
        return ""
    wrong = np.argwhere(~agree)
    at = tuple(int(i) for i in wrong[0])
    return f"{len(wrong)} of {agree.size} elements, first {at}: {have[at]} for {want[at]}"


# A compiled program with its data and the values that it must give, in one file.
#
# A run needs nothing else: neither the solvers, nor a compiler, nor the program's meaning.

Arrays: TypeAlias = Mapping[str, npt.NDArray[np.generic]]
"""As a device holds them: bf16 as its bits."""

_WHEN: Final = (1980, 1, 1, 0, 0, 0)
"""Equal programs give equal files."""


@dataclass(frozen=True, slots=True)
class At:
    """A program's data at some sizes."""

    sizes: Mapping[str, int]
    given: Arrays
    """Before the run; what is only written is poisoned."""
    wanted: Arrays
    """The wanted contents of the arrays that are written."""


@dataclass(frozen=True, slots=True)
class Packed:
    """A program that can be run and judged."""

    name: str
    source: str
    """For a reader, and to make it again."""
    manifest: Mapping[str, Any]
    cubin: bytes
    library: bytes | None
    """The shared object of a program that does more on the CPU than to launch kernels."""
    tolerance: float
    """Relative; 0 where the values are exact."""
    at: tuple[At, ...]


def write_packed(path: Path, packed: Packed) -> None:
    """Write the file at once or not at all."""
    head = {"name": packed.name, "tolerance": packed.tolerance}
    head["sizes"] = [dict(one.sizes) for one in packed.at]
    parts = {
        "head.json": json.dumps(head).encode(),
        "program.py": packed.source.encode(),
        "manifest.json": json.dumps(packed.manifest).encode(),
        "kernel.cubin": packed.cubin,
    }
    if packed.library is not None:
        parts["host.so"] = packed.library
    for number, one in enumerate(packed.at):
        for what, arrays in (("given", one.given), ("wanted", one.wanted)):
            for name, array in arrays.items():
                parts[f"{number}/{what}/{name}.npy"] = _npy(array)
    path.parent.mkdir(parents=True, exist_ok=True)
    part = path.with_name(f".{path.name}.part")
    with zipfile.ZipFile(part, "w", zipfile.ZIP_DEFLATED) as archive:
        for name, data in parts.items():
            archive.writestr(zipfile.ZipInfo(name, _WHEN), data, zipfile.ZIP_DEFLATED)
    part.replace(path)


def read_packed(path: Path) -> Packed:
    """The inverse of `write_packed`."""
    with zipfile.ZipFile(path) as archive:
        names = frozenset(archive.namelist())
        head = json.loads(archive.read("head.json"))

        def arrays(number: int, what: str) -> dict[str, npt.NDArray[np.generic]]:
            folder = f"{number}/{what}/"
            inside = sorted(n for n in names if n.startswith(folder))
            return {
                n.removeprefix(folder).removesuffix(".npy"): np.load(io.BytesIO(archive.read(n)))
                for n in inside
            }

        return Packed(
            head["name"],
            archive.read("program.py").decode(),
            json.loads(archive.read("manifest.json")),
            archive.read("kernel.cubin"),
            archive.read("host.so") if "host.so" in names else None,
            head["tolerance"],
            tuple(
                At(sizes, arrays(number, "given"), arrays(number, "wanted"))
                for number, sizes in enumerate(head["sizes"])
            ),
        )


def _npy(array: npt.NDArray[np.generic]) -> bytes:
    file = io.BytesIO()
    np.save(file, array, allow_pickle=False)
    return file.getvalue()


Array = npt.NDArray[np.generic]


def at_sizes(
    procedure: Procedure, sizes: Mapping[str, int], seed: int, *, fractions: bool = False
) -> At:
    """Data of small whole numbers, the same for a seed, and what the run makes of them.

    With `fractions`, which only copies keep exactly, normal numbers of floating point.  An array
    that is only written is poisoned first.  Raises ExoGpuError.
    """
    ir = procedure.facts.proc
    values = {p.name: sizes[p.name.name] for p in ir.params if isinstance(p, ControlParam)}
    data = [p for p in ir.params if isinstance(p, DataParam)]
    outputs, inputs = written_variables(ir.body), frozenset(_variables_read(ir.body))
    rng = np.random.default_rng(seed)
    arrays: dict[str, Array] = {}
    for param in data:
        shape = tuple(max(0, evaluate(extent, values)) for extent in param.shape)
        only_written = param.name in outputs and param.name not in inputs
        numbers = _numbers(rng, param.dtype, shape, fractions=fractions)
        if only_written:
            numbers = np.full(shape, poison(param.dtype), NUMPY[param.dtype])
        arrays[param.name.name] = numbers
    types = {p.name.name: p.dtype.value for p in data}
    given = {name: encoded(array, types[name]) for name, array in arrays.items()}
    procedure.run(**sizes, **arrays)
    names = frozenset(name.name for name in outputs)
    wanted = {n: encoded(a, types[n]) for n, a in arrays.items() if n in names}
    return At(dict(sizes), given, wanted)


def _numbers(
    rng: np.random.Generator, dtype: DataType, shape: tuple[int, ...], *, fractions: bool
) -> Array:
    """From -3 to 3, or 0 to 6: products and sums of many are exact in f32 and tf32."""
    if fractions and NUMPY[dtype].kind == "f":
        return stored(rng.standard_normal(shape), dtype)
    low = 0 if NUMPY[dtype].kind == "u" else -3
    return stored(rng.integers(low, low + 7, shape), dtype)


def _variables_read(block: Block) -> Iterator[Sym]:
    """The variables whose elements are read, added to included."""
    for stmt in walk(block):
        match stmt:
            case CallInstr():
                data = [
                    argument
                    for param, argument in zip(stmt.instr.params, stmt.arguments, strict=True)
                    if isinstance(param, DataParam)
                ]
                for argument, mode in zip(data, stmt.instr.modes, strict=True):
                    if isinstance(argument, Access) and mode is not AccessMode.WRITE:
                        yield argument.name
            case Assign():
                yield from (access.name for access in reads(stmt.value))
            case _:
                yield from (access.name for access in accesses(stmt))
