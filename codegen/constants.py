"""Variables @ CudaGridConstant in a kernel: parameters by value, read through a reference.

A launch copies its parameters, so that what the CPU writes after it is not seen.
"""

from __future__ import annotations

from collections.abc import Mapping, Sequence
from typing import Final

from exogpu.analysis.affine import constant
from exogpu.codegen.errors import unsupported
from exogpu.codegen.expressions import C_TYPE, SIZE_OF
from exogpu.codegen.names import Names
from exogpu.codegen.storage import Storage
from exogpu.ir.names import Sym
from exogpu.ir.types import Space
from exogpu.result.errors import Span

MOST: Final = 4096
"""Bytes of a kernel's parameters that every device takes (CUDA C++ programming guide, __global__
function parameters)."""

POINTER, TENSOR_MAP = 8, 128


def constants(
    used: frozenset[Sym], storage: Mapping[Sym, Storage], others: int, span: Span
) -> tuple[Sym, ...]:
    """The grid constants that a kernel reads, in the order of their declaration.

    `others` are the bytes of its other parameters.  Raises ExoGpuError for extents that depend on
    sizes (G802), and for more bytes than a kernel's parameters have (G812).
    """
    found = tuple(n for n, s in storage.items() if s.space is Space.GRID_CONSTANT and n in used)
    for name in found:
        if any(constant(n) is None for n in storage[name].shape):
            raise unsupported(
                f"{name} is @ CudaGridConstant, and its extents depend on sizes",
                span,
                "give it constant extents, or put it @ CudaGmemLinear",
                "G802",
            )
    taken = sum(_bytes(storage[name]) for name in found)
    if found and others + taken > MOST:
        raise unsupported(
            f"the parameters of this kernel take {others + taken} bytes, and there are {MOST}; "
            f"{taken} are of {', '.join(n.name for n in found)}",
            span,
            "put large arrays @ CudaGmemLinear",
            "G812",
        )
    return found


def _bytes(variable: Storage) -> int:
    return -(-_count(variable) * SIZE_OF[variable.dtype] // 8) * 8


def _count(variable: Storage) -> int:
    return max(1, variable.elements)


def declared(
    names: Names, found: Sequence[Sym], storage: Mapping[Sym, Storage]
) -> tuple[list[str], list[str]]:
    """The parameters of a kernel for its constants, and the references that it reads them by."""
    parameters, references = [], []
    for name in found:
        dtype, count = C_TYPE[storage[name].dtype], _count(storage[name])
        spelled, value = names(name), names.declare(Sym(f"{name.name}_value"))
        parameters.append(f"const __grid_constant__ GridConstant<{dtype}, {count}> {value}")
        references.append(f"const {dtype} (&{spelled})[{count}] = {value}.at;")
    return parameters, references
