"""Running a procedure's sequential meaning on random data."""

from __future__ import annotations

import zlib
from collections.abc import Mapping

import numpy as np
import numpy.typing as npt
from rich.text import Text

from exogpu.api import Procedure
from exogpu.errors import ExoGpuError
from exogpu.frontend.bounds import check_sizes
from exogpu.ir.nodes import ControlParam, DataParam, Proc
from exogpu.ir.types import DataType
from exogpu.ir.walk import evaluate
from exogpu.machine.sequential.values import NUMPY, stored
from exogpu.terminal.render import sizes_text


def random_arguments(
    ir: Proc, sizes: Mapping[str, int], seed: int
) -> dict[str, npt.NDArray[np.generic]]:
    """An array for each data parameter: floats in [-1, 1), integers in -8 .. 7 (0 .. 15 unsigned).

    The same seed and sizes always give the same data.  Raises ExoGpuError for sizes that are
    missing, unknown or break a precondition.
    """
    if wrong := check_sizes(ir, sizes):
        raise ExoGpuError(wrong)
    values = {p.name: sizes[p.name.name] for p in ir.params if isinstance(p, ControlParam)}
    generator = np.random.default_rng(seed)
    return {
        p.name.name: _random(
            generator, p.dtype, tuple(evaluate(extent, values) for extent in p.shape)
        )
        for p in ir.params
        if isinstance(p, DataParam)
    }


def _random(
    generator: np.random.Generator, dtype: DataType, shape: tuple[int, ...]
) -> npt.NDArray[np.generic]:
    kind = NUMPY[dtype]
    if kind.kind == "f":
        return stored(generator.uniform(-1, 1, shape), dtype)
    low = 0 if kind.kind == "u" else -8
    return generator.integers(low, low + 16, shape).astype(kind)


def run_on_random_data(procedure: Procedure, sizes: Mapping[str, int], seed: int) -> Text:
    """Run it; a line an array: type, shape, whether it changed, the sum and the CRC of its bytes.

    Raises ExoGpuError for an ill-formed procedure or wrong sizes.
    """
    assert procedure.ir is not None
    arrays = random_arguments(procedure.ir, sizes, seed)
    before = {name: array.tobytes() for name, array in arrays.items()}
    procedure.run(**sizes, **arrays)
    at = f" at {sizes_text(sizes)}" if sizes else ""
    text = Text.assemble((procedure.name, "bold"), f"{at}, seed {seed}\n")
    for name, array in arrays.items():
        data = array.tobytes()
        shape = ", ".join(map(str, array.shape))
        what = "written" if data != before[name] else "unchanged"
        total = float(array.astype(np.float64).sum())
        text.append(
            f"  {name}: {array.dtype.name}[{shape}] {what}, "
            f"sum {total:.9g}, crc32 {zlib.crc32(data):08x}\n"
        )
    return text
