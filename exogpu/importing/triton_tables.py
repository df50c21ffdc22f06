"""The table of TTGIR's operations: which are read, and with which attributes.

An operation that is not here, or has an attribute that is not here, is refused: it may access
memory or order accesses in a way that is not known.
"""

from __future__ import annotations

import re
from collections.abc import Mapping
from dataclasses import dataclass
from typing import Final

from exogpu.diagnostics.errors import Span
from exogpu.importing.mlir_text import Operation, walk
from exogpu.importing.refusals import unknown_operation, unsupported

SCRATCH: Final = frozenset({"allocation.offset", "allocation.size"})
"""Attributes of what the compiler gave scratch memory."""

_ANY: Final = frozenset({"*"})
"""Attributes say how registers are computed, and nothing of memory."""

REGISTERS: Final[frozenset[str]] = frozenset(
    {
        *("tt.splat", "tt.broadcast", "tt.expand_dims", "tt.make_range", "tt.addptr", "tt.bitcast"),
        *("tt.reshape", "tt.trans", "tt.split", "tt.join", "tt.cat", "tt.fp_to_fp", "tt.clampf"),
        *("tt.int_to_ptr", "tt.ptr_to_int", "tt.mulhiui", "tt.precise_sqrt", "tt.precise_divf"),
        "tt.approx_divf",
        *("tt.reduce", "tt.scan", "tt.reduce.return", "tt.scan.return", "tt.unsplat"),
        *("tt.get_program_id", "tt.get_num_programs", "tt.gather", "ttg.convert_layout"),
        *("llvm.intr.assume", "ttg.async_token", "ub.poison"),
    }
)
"""Operations on registers; where one has scratch memory, its threads exchange values there."""

REGISTER_DIALECTS: Final = ("arith.", "math.")

STRUCTURE: Final = frozenset(
    {
        *("scf.for", "scf.if", "scf.yield", "tt.func", "tt.return"),
        *("ttg.warp_specialize", "ttg.warp_yield", "ttg.warp_return"),
    }
)
"""The operations of control flow."""

_MEMORY: Final[Mapping[str, frozenset[str]]] = {
    "tt.load": _ANY,
    "tt.store": _ANY,
    "ttg.local_alloc": frozenset({"allocation.offset", "alignment"}),
    "ttg.local_dealloc": frozenset(),
    "ttg.local_load": frozenset({"ttg.partition"}),
    "ttg.local_store": frozenset({"ttg.partition"}),
    "ttg.memdesc_index": _ANY,
    "ttg.memdesc_trans": _ANY,
    "ttg.memdesc_reshape": _ANY,
    "ttg.memdesc_reinterpret": _ANY,
    "ttg.memdesc_subslice": _ANY,
    "ttg.barrier": frozenset(),
    "ttg.async_copy_global_to_local": frozenset(
        {"contiguity", "isVolatile", "cache", "evict", "cacheModifier"}
    ),
    "ttg.async_commit_group": frozenset(),
    "ttg.async_wait": frozenset({"num"}),
    "ttng.fence_async_shared": frozenset({"bCluster"}),
    "ttng.init_barrier": frozenset(),
    "ttng.inval_barrier": frozenset(),
    "ttng.barrier_expect": frozenset(),
    "ttng.wait_barrier": frozenset(),
    "ttng.arrive_barrier": frozenset(),
    "ttng.async_tma_copy_global_to_local": frozenset({"isVolatile", "cache", "evict"}),
    "ttng.async_tma_copy_local_to_global": frozenset(),
    "ttng.async_tma_store_wait": frozenset({"pendings", "read_only"}),
    "ttng.warp_group_dot": frozenset(
        {"inputPrecision", "isAsync", "maxNumImpreciseAcc", "tt.self_latency", "loop.stage"}
    ),
    "ttng.warp_group_dot_wait": frozenset({"pendings", "warpGroupLocal"}),
}
"""Operations that access memory or order accesses, with the attributes that are understood."""

_SCHEDULING: Final = ("loop.", "tt.", "ttg.partition", "async_task_id")
"""Attributes that passes leave behind, which say nothing of memory."""


def is_register_operation(operation: Operation) -> bool:
    """Returns whether an operation computes registers from registers."""
    return operation.name in REGISTERS or operation.name.startswith(REGISTER_DIALECTS)


def accept(operation: Operation, span: Span) -> None:
    """Raises RefusedError for an operation, or an attribute of it, that the table does not have."""
    if is_register_operation(operation):
        _accept_registers(operation, span)
        return
    if operation.name in STRUCTURE:
        return
    known = _MEMORY.get(operation.name)
    if known is None:
        raise unknown_operation(operation.name, span)
    for name, value in operation.attributes.items():
        if known is _ANY or name in known or name.startswith(_SCHEDULING):
            continue
        raise unsupported(
            f"{operation.name} has the attribute {name}{' = ' + value if value else ''}",
            "exogpu would need to know what the attribute changes",
            span,
        )
    if operation.attributes.get("bCluster", "false") != "false":
        raise unsupported(
            "a proxy fence of a cluster", "kernels of one CTA a program are read", span
        )
    if operation.name == "ttg.barrier" and not _LOCAL.fullmatch(operation.text):
        raise unsupported(
            f"a barrier of {operation.text or 'no memory'}",
            "barriers that order shared memory are read",
            span,
        )


_LOCAL: Final = re.compile(r"(\w+\|)*(local|all)(\|\w+)*")
"""The address spaces of a barrier that orders shared memory."""


def _accept_registers(operation: Operation, span: Span) -> None:
    """Raises RefusedError for a register operation that chooses buffers, or has others within."""
    if "!ttg.memdesc" in operation.types:
        raise unsupported(
            f"{operation.name} of a buffer", "choose a slot by its index, not a buffer", span
        )
    for region in operation.regions:
        for inner in walk(region.operations):
            if not is_register_operation(inner):
                raise unsupported(
                    f"{inner.name} within {operation.name}", "combine registers alone", span
                )


# A table of the synchronisation that each version of Triton adds when it lowers TTGIR to PTX.
#
# The rows were counted in the PTX of each version. A kernel's own PTX is compared with them
# (`exogpu.importing.ptx_skeleton`), so that a proof does not rest on the table alone.


@dataclass(frozen=True, slots=True)
class Lowering:
    """One version."""

    version: str
    meet_before_arrive: bool
    """`mbarrier.arrive` is executed by one thread, after a barrier of its partition."""
    meet_after_product_wait: bool
    """A partition of several warpgroups meets after `wgmma.wait_group`, if that is not local."""
    meet_within_scratch: bool
    """Between the stores and the loads of scratch memory all threads of a partition meet."""
    copies_once: bool
    """True if, of the threads that have one element, one executes its cp.async."""


LOWERINGS: Final[Mapping[str, Lowering]] = {
    "3.8": Lowering("3.8", True, False, True, True),
    "3.9": Lowering("3.9", True, True, True, True),
}
"""By the first two parts of the version."""

NEWEST: Final = LOWERINGS["3.9"]
NEWEST_FIRST: Final = tuple(reversed(tuple(LOWERINGS.values())))
