"""Atomic operations of one kernel on one variable are all adds, or all maxima (decision 31)."""

from __future__ import annotations

from collections.abc import Iterator

from exogpu.ir.atomics import Operation, operation
from exogpu.ir.names import Sym
from exogpu.ir.nodes import Access, CallInstr, DataParam, DeviceFunction, Proc
from exogpu.ir.walk import walk
from exogpu.result.errors import Diagnostic, Note


def check(proc: Proc) -> Iterator[Diagnostic]:
    """The calls whose operation differs from an earlier one's on the variable.

    Takes a procedure without windows and calls of procedures.
    """
    for launch in walk(proc.body):
        if isinstance(launch, DeviceFunction):
            yield from _in_launch(launch)


def _in_launch(launch: DeviceFunction) -> Iterator[Diagnostic]:
    first: dict[Sym, tuple[Operation, CallInstr]] = {}
    for call in walk(launch.body):
        if not isinstance(call, CallInstr):
            continue
        for access, found in atomics(call):
            known, earlier = first.setdefault(access.name, (found, call))
            if known != found:
                yield Diagnostic(
                    "S331",
                    f"{call.instr.name} of {access.name}, which is also the operand of another "
                    "atomic operation: in another order of the two the result is another",
                    call.span,
                    "use a variable for each operation, or two kernels, one after the other",
                    (Note(f"{earlier.instr.name}: {known}, here {found}", earlier.span),),
                )


def atomics(call: CallInstr) -> Iterator[tuple[Access, Operation]]:
    """The windows that a call changes atomically, and how."""
    for param, argument in zip(call.instr.params, call.arguments, strict=True):
        if isinstance(param, DataParam) and param.operand is not None and param.operand.atomic:
            found = operation(call.instr.body, param.name)
            if found is not None and isinstance(argument, Access):
                yield argument, found
