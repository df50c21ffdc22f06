"""Atomic operations on a variable that nothing orders are all adds, or all maxima (decision
`atomic-operations`)."""

from __future__ import annotations

from collections.abc import Iterator, Mapping, Sequence
from typing import TypeAlias

from exogpu.analysis.launch import preceding
from exogpu.diagnostics.errors import Diagnostic, Note
from exogpu.ir import nodes as ir
from exogpu.ir.walk import Operation, blocks, operation, walk

Uses: TypeAlias = Sequence[tuple[ir.Access, Operation, ir.CallInstr]]


def check(proc: ir.Proc) -> Iterator[Diagnostic]:
    """The calls whose operation differs from an earlier one's on the variable, which may come
    after it: of the same launch, or of one that still runs when a dependent launch begins.

    Takes a procedure without windows and calls of procedures.
    """
    before = preceding(proc)
    for launch in walk(proc.body):
        if isinstance(launch, ir.DeviceFunction):
            yield from _different([], list(_uses(launch.body)))
            yield from _beside_earlier(launch, before)


def _beside_earlier(
    launch: ir.DeviceFunction, before: Mapping[ir.DeviceFunction, ir.DeviceFunction]
) -> Iterator[Diagnostic]:
    """Compares a dependent launch with earlier ones: before its wait it may pass all earlier
    launches, afterwards only those its predecessor has not waited for."""
    uses = [*_uses(launch.body, early=True)]
    earlier = before.get(launch)
    if earlier is None:
        return
    while earlier is not None:
        yield from _different([*_uses(earlier.body)], uses)
        if not _waits_first(earlier):
            uses = [*_uses(launch.body)]
        earlier = before.get(earlier)


def _different(earlier: Uses, uses: Uses) -> Iterator[Diagnostic]:
    """Yields the later uses of a variable that differ from its first use."""
    first = {access.name: (found, call) for access, found, call in reversed(earlier)}
    for access, found, call in uses:
        known, other = first.setdefault(access.name, (found, call))
        if known != found:
            yield Diagnostic(
                "S331",
                f"{call.instr.name} of {access.name}, which is also the operand of another "
                "atomic operation: in another order of the two the result is another",
                call.span,
                "use a variable for each operation, or two kernels, one after the other",
                (Note(f"{other.instr.name}: {known}, here {found}", other.span),),
            )


def _uses(
    block: ir.Block, early: bool = False
) -> Iterator[tuple[ir.Access, Operation, ir.CallInstr]]:
    """The atomic operations of a block; `early`: without what stands after a wait for the launch
    before, which all threads that execute the block come to."""
    for stmt in block:
        if early and isinstance(stmt, ir.Fence) and stmt.launches:
            return
        if isinstance(stmt, ir.CallInstr):
            yield from ((access, found, stmt) for access, found in atomics(stmt))
        for inner in blocks(stmt):
            yield from _uses(inner, early)


def _waits_first(launch: ir.DeviceFunction) -> bool:
    """Tests whether every task surely waits for the launch before."""

    def waits(block: ir.Block) -> bool:
        tasks = [s for s in block if isinstance(s, ir.For) and s.mode == ir.CudaTasks()]
        if tasks:
            return all(waits(inner) for one in tasks for inner in blocks(one))
        return any(isinstance(s, ir.Fence) and s.launches for s in block)

    return waits(launch.body)


def atomics(call: ir.CallInstr) -> Iterator[tuple[ir.Access, Operation]]:
    """The windows that a call changes atomically, and how."""
    for param, argument in zip(call.instr.params, call.arguments, strict=True):
        if isinstance(param, ir.DataParam) and param.operand is not None and param.operand.atomic:
            found = operation(call.instr.body, param.name)
            if found is not None and isinstance(argument, ir.Access):
                yield argument, found
