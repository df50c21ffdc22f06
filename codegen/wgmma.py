"""Helper functions with one operand a register: wgmma.mma_async for each shape and type."""

from __future__ import annotations

import re
from collections.abc import Sequence
from dataclasses import dataclass
from typing import Final

_NAME: Final = re.compile(r"Sm90_wgmma_(rs_)?(mn_)?(tf32|f16|bf16|f8e4m3|f8e5m2|i8|ui8)_n(\d+)")
_DEPTH: Final = {"tf32": 8, "f16": 16, "bf16": 16, "f8e4m3": 32, "f8e5m2": 32, "i8": 32, "ui8": 32}
_BETWEEN: Final = ",\n              "
_HALVES: Final = ("f16", "bf16")
"""Types of which an operand may be transposed."""
_INTEGERS: Final = {"i8": "s8", "ui8": "u8"}
"""The names of PTX for integers, of which the sums are integers, too."""


@dataclass(frozen=True, slots=True)
class Product:
    """A helper function, as its name tells it."""

    registers: bool
    """A is in registers."""
    mn_major: bool
    """B is stored K x N, by rows of N."""
    kind: str
    columns: int

    @property
    def shape(self) -> str:
        """The shape of wgmma.mma_async."""
        ptx = _INTEGERS.get(self.kind, self.kind.removeprefix("f8"))
        of_sum = "s32" if self.of_integers else "f32"
        return f"m64n{self.columns}k{_DEPTH[self.kind]}.{of_sum}.{ptx}.{ptx}"

    @property
    def of_integers(self) -> bool:
        """Tests whether the accumulator has integers."""
        return self.kind in _INTEGERS

    @property
    def flags(self) -> str:
        """Signs of A and B; for 16-bit types also which are transposed: A in registers never.

        Integers have none.
        """
        if self.of_integers:
            return ""
        transposed = [str(int(self.mn_major))] if self.kind in _HALVES else []
        return ", " + ", ".join(["1", "1", *["0"][: len(transposed) - self.registers], *transposed])

    @property
    def parameter(self) -> str:
        """The text after parameter B."""
        return ", int apart" if self.mn_major else ""

    @property
    def descriptor(self) -> str:
        """The descriptor of B; elements of blocks that are `apart` have two bytes."""
        if self.mn_major:
            return "wgmma_mn_descriptor<swizzle>(B, 2 * apart)"
        return "wgmma_descriptor<swizzle>(B)"

    @property
    def lies(self) -> str:
        """The layout of B in shared memory, in words."""
        return "K x N, its blocks `apart` elements from each other" if self.mn_major else "K-major"


def product_of(name: str) -> Product | None:
    """The helper function of a name; None for another name."""
    found = _NAME.fullmatch(name)
    if found is None or (found[2] and found[3] not in _HALVES):
        return None
    if found[1] and _DEPTH[found[3]] == 32:
        return None  # no register has four elements
    return Product(bool(found[1]), bool(found[2]), found[3], int(found[4]))


def is_wgmma(name: str) -> bool:
    """Tests whether `wgmma_text` knows the helper function."""
    return product_of(name) is not None


def wgmma_text(name: str) -> str:
    """The definition of `Sm90_wgmma_<type>_n<columns>`, or of `Sm90_wgmma_rs_...`, `..._mn_...`."""
    product = product_of(name)
    assert product is not None, name
    return _register_text(name, product) if product.registers else _shared_text(name, product)


def _lines(words: Sequence[str], count: int, end: str) -> str:
    return end.join(", ".join(words[at : at + count]) for at in range(0, len(words), count))


def _shared_text(name: str, product: Product) -> str:
    """The definition with both operands in shared memory."""
    columns, registers = product.columns, product.columns // 2
    listed = _lines([f"%{i}" for i in range(registers)], 8, ', "\n            "')
    more = product.parameter
    element, constraint = ("int", "r") if product.of_integers else ("float", "f")
    operands = _lines(
        [f'"+{constraint}"(D[{registers} * m + {i}])' for i in range(registers)], 4, _BETWEEN
    )
    return f"""\
// D += A * B^T, or D = A * B^T where scale is 0, on M x {columns} accumulators of a warpgroup
// (PTX ISA, wgmma.mma_async); {_layout_text(product)}.
template <int M, int swizzle>
__device__ __forceinline__ void {name}(
    {element} (&D)[M * {columns} / 128], int& scale, const void* A, const void* B{more})
{{
    const unsigned long long b = {product.descriptor};
#pragma unroll
    for (int m = 0; m < M / 64; ++m) {{
        const unsigned long long a = wgmma_descriptor<swizzle>(A) + 64 * swizzle / 16 * m;
        asm volatile(
            "{{\\n\\t.reg .pred accumulate;\\n\\tsetp.ne.b32 accumulate, %{registers + 2}, 0;\\n\\t"
            "wgmma.mma_async.sync.aligned.{product.shape} {{"
            "{listed}}}, "
            "%{registers}, %{registers + 1}, accumulate{product.flags};\\n\\t}}"
            : {operands}
            : "l"(a), "l"(b), "r"(scale) : "memory");
    }}
    scale = 1;
}}
"""


def _layout_text(product: Product) -> str:
    if product.mn_major:
        return f"A is K-major, B {product.lies},\n// in swizzled shared memory"
    return "A and B are K-major in swizzled shared memory"


def _inputs(product: Product) -> str:
    """Returns the operands of a product with A in registers."""
    a = ", ".join(f'"r"(a[{i}])' for i in range(4))
    between = ",\n          " if product.mn_major else ", "
    return f'{a}{between}"l"({product.descriptor}), "r"(scale)'


def _register_text(name: str, product: Product) -> str:
    """The definition with A in registers: 64 rows."""
    columns, count = product.columns, product.columns // 2
    listed = _lines([f"%{i}" for i in range(count)], 8, ', "\n        "')
    operands = _lines([f'"+f"(D[{i}])' for i in range(count)], 4, ",\n          ")
    tf32 = product.kind == "tf32"
    element = "float" if tf32 else "unsigned"
    packed = [f"__float_as_uint(A[{i}])" if tf32 else f"A[{i}]" for i in range(4)]
    a = ", ".join(f"%{count + i}" for i in range(4))
    where = f"B {product.lies}" + (",\n// in" if product.mn_major else " in")
    return f"""\
// D += A * B^T, or D = A * B^T where scale is 0, on a 64 x {columns} accumulator of a warpgroup
// (PTX ISA, wgmma.mma_async); A is in registers, {where} swizzled shared memory.
template <int swizzle>
__device__ __forceinline__ void {name}(
    float (&D)[{count}], int& scale, const {element} (&A)[4], const void* B{product.parameter})
{{
    const unsigned a[4] = {{{", ".join(packed)}}};
    asm volatile(
        "{{\\n\\t.reg .pred accumulate;\\n\\tsetp.ne.b32 accumulate, %{count + 5}, 0;\\n\\t"
        "wgmma.mma_async.sync.aligned.{product.shape} {{"
        "{listed}}}, "
        "{{{a}}}, %{count + 4}, accumulate{product.flags};\\n\\t}}"
        : {operands}
        : {_inputs(product)}
        : "memory");
    scale = 1;
}}
"""
