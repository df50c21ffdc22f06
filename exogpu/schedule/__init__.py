"""Scheduling: step by step from a simple procedure to a fast one, each step checked.

    p = divide_loop(gemm, "for i in _: _", 64, ["io", "ii"], tail="perfect")
    p = reorder_loops(p, "ii")

Each primitive takes a procedure, a cursor or a pattern and its arguments, and returns a new
procedure.  A step that would change what is computed, at any sizes, is refused.
"""

from exogpu.schedule.annotations import (
    parallelize_loop,
    set_loop_mode,
    set_memory,
    update_loop_mode,
)
from exogpu.schedule.calls import call_eqv, insert_noop_call, replace, replace_all
from exogpu.schedule.certifying.chain import Certificate, certificate
from exogpu.schedule.combinators import repeat, seq, try_else
from exogpu.schedule.contexts import (
    CudaDeviceFunction,
    CudaWarps,
    wrap_kernel,
    wrap_with_context,
)
from exogpu.schedule.cursors import Cursor, Gap, find, find_all
from exogpu.schedule.dimensions import divide_dim, expand_dim, mult_dim, rearrange_dim, resize_dim
from exogpu.schedule.equivalence import Equivalence, equivalent
from exogpu.schedule.expressions import commute_expr
from exogpu.schedule.inlining import callee, extract_subproc, inline
from exogpu.schedule.loops import (
    cut_loop,
    divide_loop,
    extend_loop,
    fission,
    fuse,
    join_loops,
    mult_loops,
    remove_loop,
    reorder_loops,
    shift_loop,
    unroll_loop,
)
from exogpu.schedule.primitive import followed
from exogpu.schedule.procedures import Derivation, chain, derivation, history, text
from exogpu.schedule.staging import stage_mem, stage_sum
from exogpu.schedule.statements import (
    add_if,
    delete_pass,
    eliminate_dead_code,
    fill_zero,
    lift_scope,
    remove_if,
    rename,
    reorder_stmts,
    simplify,
    specialize,
)
from exogpu.schedule.storage import (
    bind_expr,
    bind_window,
    delete_buffer,
    inline_window,
    lift_alloc,
    reuse_buffer,
    sink_alloc,
)
from exogpu.schedule.synchronisation import (
    delete_sync,
    insert_arrive,
    insert_await,
    insert_barrier_alloc,
    insert_fence,
    set_trailing_barrier_expr,
    without_synchronisation,
)
from exogpu.schedule.synchronise import Proposal, Synchronised, synchronise

__all__ = [
    "Certificate",
    "CudaDeviceFunction",
    "CudaWarps",
    "Cursor",
    "Derivation",
    "Equivalence",
    "Gap",
    "Proposal",
    "Synchronised",
    "add_if",
    "bind_expr",
    "bind_window",
    "call_eqv",
    "callee",
    "certificate",
    "chain",
    "commute_expr",
    "cut_loop",
    "delete_buffer",
    "delete_pass",
    "delete_sync",
    "derivation",
    "divide_dim",
    "divide_loop",
    "eliminate_dead_code",
    "equivalent",
    "expand_dim",
    "extend_loop",
    "extract_subproc",
    "fill_zero",
    "find",
    "find_all",
    "fission",
    "followed",
    "fuse",
    "history",
    "inline",
    "inline_window",
    "insert_arrive",
    "insert_await",
    "insert_barrier_alloc",
    "insert_fence",
    "insert_noop_call",
    "join_loops",
    "lift_alloc",
    "lift_scope",
    "mult_dim",
    "mult_loops",
    "parallelize_loop",
    "rearrange_dim",
    "remove_if",
    "remove_loop",
    "rename",
    "reorder_loops",
    "reorder_stmts",
    "repeat",
    "replace",
    "replace_all",
    "resize_dim",
    "reuse_buffer",
    "seq",
    "set_loop_mode",
    "set_memory",
    "set_trailing_barrier_expr",
    "shift_loop",
    "simplify",
    "sink_alloc",
    "specialize",
    "stage_mem",
    "stage_sum",
    "synchronise",
    "text",
    "try_else",
    "unroll_loop",
    "update_loop_mode",
    "without_synchronisation",
    "wrap_kernel",
    "wrap_with_context",
]
