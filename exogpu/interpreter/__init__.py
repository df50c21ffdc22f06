"""The sequential meaning of a procedure, on numpy arrays: all annotations are ignored.

`run` inlines the calls (`inline`), makes the indices affine (`rewrite`), finds the loops whose
iterations may run at once (`dependence`), and runs those as array operations (`execute`).
`exogpu.interpreter.elementwise` is the same meaning, one element at a time.
"""

from __future__ import annotations

from collections.abc import Iterator, Mapping

import numpy as np

from exogpu.interpreter import concrete_procedure
from exogpu.interpreter.arguments import bind, check_writes
from exogpu.interpreter.concrete_procedure import without_slots
from exogpu.interpreter.divide_iterators import split_digits
from exogpu.interpreter.execution import Execution
from exogpu.interpreter.inline import inline
from exogpu.interpreter.lanes import Lanes
from exogpu.interpreter.parallel_loops import annotate
from exogpu.interpreter.program import Buffer, Guard, Loop, Nodes, Store
from exogpu.interpreter.values import NUMPY, Array, round_bf16, round_f8, round_tf32
from exogpu.ir.nodes import DataParam, Proc
from exogpu.ir.types import DataType

__all__ = ["round_bf16", "round_f8", "round_tf32", "run"]


def run(proc: Proc, arguments: Mapping[str, object]) -> None:
    """Run a procedure in program order on numpy arrays, which change in place.

    Loops of all kinds run in order, synchronisation does nothing.  A store rounds to the
    variable's type; arrays of `bf16` and of 8-bit floats are float32 (or of ml_dtypes' types).
    Sums in f32 and f64 may be added up in another order.  Fresh memory is NaN, or a pattern for
    integers.  Sizes that are an extent of an array may be left out.  Raises ExoGpuError, before
    anything changes, for arguments that do not fit (X901 to X904, X920 to X926); and on the way for
    an access out of range (X927), a call whose precondition does not hold (X928) and an integer
    division by zero (X929), with the arrays as far as the run has come; and before, where index
    arithmetic leaves 64 bits (X930), a slot is no expression of the iterators (X931), a
    contract does not hold (X933), or a value from memory is not in its range (X932).
    """
    bound = bind(proc, arguments)
    buffers = {
        param.name: Buffer(param.name.name, param.dtype, bound.arrays[param.name].shape, False)
        for param in proc.params
        if isinstance(param, DataParam)
    }
    plain = concrete_procedure.without_loads(
        concrete_procedure.open_calls(proc), bound.sizes, bound.arrays
    )
    counted = without_slots(plain, bound.sizes)
    nodes, ranges = inline(counted, bound.sizes, buffers)
    written = frozenset(_written(nodes))
    check_writes(proc, bound, [name for name, buffer in buffers.items() if buffer in written])
    nodes = annotate(split_digits(nodes, ranges), ranges)
    flat = {b: _flat(bound.arrays[name], b.dtype) for name, b in buffers.items()}
    try:
        with np.errstate(all="ignore"):
            Execution(flat).run(nodes, Lanes((), {}, ()))
    finally:
        for name, buffer in buffers.items():
            array = bound.arrays[name]
            if buffer in written and not np.shares_memory(array, flat[buffer]):
                array[...] = flat[buffer].reshape(array.shape).astype(array.dtype)


def _flat(array: Array, dtype: DataType) -> Array:
    """The elements in row-major order: the array's own memory where it is laid out so."""
    return np.ascontiguousarray(array, NUMPY[dtype]).reshape(-1)


def _written(nodes: Nodes) -> Iterator[Buffer]:
    for node in nodes:
        match node:
            case Store():
                yield node.target.buffer
            case Loop():
                yield from _written(node.body)
            case Guard():
                yield from _written((*node.body, *node.orelse))
            case _:
                pass
