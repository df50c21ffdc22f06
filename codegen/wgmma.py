"""Helper functions with one operand a register: wgmma.mma_async for each shape and type."""

from __future__ import annotations

import re
from typing import Final

_NAME: Final = re.compile(r"Sm90_wgmma_(rs_)?(tf32|f16|bf16)_n(\d+)")
_DEPTH: Final = {"tf32": 8, "f16": 16, "bf16": 16}
_FLAGS: Final = {"tf32": "1, 1", "f16": "1, 1, 0, 0", "bf16": "1, 1, 0, 0"}
"""Signs of A and B; for 16-bit types also whether they are transposed."""
_RS_FLAGS: Final = {"tf32": "1, 1", "f16": "1, 1, 0", "bf16": "1, 1, 0"}
"""A in registers is never transposed."""


def is_wgmma(name: str) -> bool:
    """Whether `wgmma_text` knows the helper function."""
    return _NAME.fullmatch(name) is not None


def wgmma_text(name: str) -> str:
    """The definition of `Sm90_wgmma_<type>_n<columns>`, or of `Sm90_wgmma_rs_...`."""
    found = _NAME.fullmatch(name)
    assert found is not None, name
    kind, columns = found[2], int(found[3])
    if found[1]:
        return _register_text(name, kind, columns)
    registers = columns // 2
    lines = [", ".join(f"%{i}" for i in range(at, at + 8)) for at in range(0, registers, 8)]
    if registers % 8:
        lines[-1] = ", ".join(f"%{i}" for i in range(registers // 8 * 8, registers))
    listed = ', "\n            "'.join(lines)
    operands = [f'"+f"(D[{registers} * m + {i}])' for i in range(registers)]
    grouped = ",\n              ".join(
        ", ".join(operands[at : at + 4]) for at in range(0, registers, 4)
    )
    shape = f"m64n{columns}k{_DEPTH[kind]}.f32.{kind}.{kind}"
    return f"""\
// D += A * B^T, or D = A * B^T where scale is 0, on M x {columns} accumulators of a warpgroup
// (PTX ISA, wgmma.mma_async); A and B are K-major in swizzled shared memory.
template <int M, int swizzle>
__device__ __forceinline__ void {name}(
    float (&D)[M * {columns} / 128], int& scale, const void* A, const void* B)
{{
    const unsigned long long b = wgmma_descriptor<swizzle>(B);
#pragma unroll
    for (int m = 0; m < M / 64; ++m) {{
        const unsigned long long a = wgmma_descriptor<swizzle>(A) + 64 * swizzle / 16 * m;
        asm volatile(
            "{{\\n\\t.reg .pred accumulate;\\n\\tsetp.ne.b32 accumulate, %{registers + 2}, 0;\\n\\t"
            "wgmma.mma_async.sync.aligned.{shape} {{"
            "{listed}}}, "
            "%{registers}, %{registers + 1}, accumulate, {_FLAGS[kind]};\\n\\t}}"
            : {grouped}
            : "l"(a), "l"(b), "r"(scale) : "memory");
    }}
    scale = 1;
}}
"""


def _register_text(name: str, kind: str, columns: int) -> str:
    """The definition with A in registers: 64 rows."""
    count = columns // 2
    listed = ', "\n        "'.join(
        ", ".join(f"%{i}" for i in range(at, min(at + 8, count))) for at in range(0, count, 8)
    )
    operands = ",\n          ".join(
        ", ".join(f'"+f"(D[{i}])' for i in range(at, min(at + 4, count)))
        for at in range(0, count, 4)
    )
    element = "float" if kind == "tf32" else "unsigned"
    packed = [f"__float_as_uint(A[{i}])" if kind == "tf32" else f"A[{i}]" for i in range(4)]
    a = ", ".join(f"%{count + i}" for i in range(4))
    shape = f"m64n{columns}k{_DEPTH[kind]}.f32.{kind}.{kind}"
    return f"""\
// D += A * B^T, or D = A * B^T where scale is 0, on a 64 x {columns} accumulator of a warpgroup
// (PTX ISA, wgmma.mma_async); A is in registers, B K-major in swizzled shared memory.
template <int swizzle>
__device__ __forceinline__ void {name}(
    float (&D)[{count}], int& scale, const {element} (&A)[4], const void* B)
{{
    const unsigned a[4] = {{{", ".join(packed)}}};
    asm volatile(
        "{{\\n\\t.reg .pred accumulate;\\n\\tsetp.ne.b32 accumulate, %{count + 5}, 0;\\n\\t"
        "wgmma.mma_async.sync.aligned.{shape} {{"
        "{listed}}}, "
        "{{{a}}}, %{count + 4}, accumulate, {_RS_FLAGS[kind]};\\n\\t}}"
        : {operands}
        : "r"(a[0]), "r"(a[1]), "r"(a[2]), "r"(a[3]), "l"(wgmma_descriptor<swizzle>(B)), "r"(scale)
        : "memory");
    scale = 1;
}}
"""
