"""The data of a run: whole numbers, poison where nothing is read, and what the program means."""

from __future__ import annotations

from collections.abc import Iterator, Mapping

import numpy as np
import numpy.typing as npt

from exogpu.api import Procedure
from exogpu.codegen.kernels import written
from exogpu.ir.names import Sym
from exogpu.ir.nodes import Access, Assign, Block, CallInstr, ControlParam, DataParam
from exogpu.ir.types import AccessMode, DataType
from exogpu.ir.walk import accesses, evaluate, reads, walk
from exogpu.meaning.values import NUMPY, poison, stored
from exogpu.trial.differences import encoded
from exogpu.trial.packed import At

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
    outputs, inputs = written(ir.body), frozenset(_read(ir.body))
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


def _read(block: Block) -> Iterator[Sym]:
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
