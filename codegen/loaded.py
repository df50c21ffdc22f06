"""Values from memory: each thread that executes a `load_index` loads the element, and looks whether
it lies in its range.

b = load_index(offsets[g], 0, M)      ->   const int b = checked_index(offsets[g], 0, M, 12);

What lies outside ends the kernel: the rest of the block relies on the range, other threads wait for
this one's arrivals, and no value in the range would keep what the proof has of this element and of
the array's contract.  `__trap` does so without a call: a function that is called, such as that of
`assert`, makes ptxas wait for each wgmma by itself (C7510).
"""

from __future__ import annotations

from collections.abc import Iterator

from exogpu.codegen.access import Accesses
from exogpu.codegen.expressions import c_control, is_nonnegative
from exogpu.ir.nodes import Block, For, Loaded
from exogpu.ir.walk import walk


def load(access: Accesses, stmt: For) -> str:
    """The declaration of the value, in the present scope of names."""
    assert isinstance(stmt.mode, Loaded)
    control = access.control
    element = access.element(stmt.mode.source)
    lo, hi = c_control(stmt.lo, control), c_control(stmt.hi, control)
    control.iterate(stmt.iterator, stmt.lo, stmt.hi)
    if is_nonnegative(stmt.lo, control):
        control.nonnegative.add(stmt.iterator)
    name = access.names.declare(stmt.iterator)
    call = f"checked_index({element}, {lo}, {hi}, {stmt.span.line})"
    return f"[[maybe_unused]] const int {name} = {call};"


def loads_of(block: Block) -> Iterator[For]:
    """The loads of a block, in program order."""
    for stmt in walk(block):
        if isinstance(stmt, For) and isinstance(stmt.mode, Loaded):
            yield stmt
