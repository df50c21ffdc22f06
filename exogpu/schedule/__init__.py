"""Scheduling: step by step from a simple procedure to a fast one, each step checked.

    p = divide_loop(gemm, "for i in _: _", 64, ["io", "ii"], tail="perfect")
    p = reorder_loops(p, "ii")

Each primitive takes a procedure, a cursor or a pattern and its arguments, and returns a new
procedure.  A step that would change what is computed, at any sizes, is refused.
"""

from exogpu.schedule.certificates.chain import Certificate, certificate
from exogpu.schedule.checking.equivalence import Equivalence, equivalent
from exogpu.schedule.cursors import Cursor, Expression, Gap, Stretch, find, find_all
from exogpu.schedule.derivations import Derivation, assumptions, chain, derivation, history, text
from exogpu.schedule.higher_steps import derives, higher, repeat, seq, try_else
from exogpu.schedule.primitive import followed
from exogpu.schedule.primitives.annotations import (
    parallelize_loop,
    set_loop_mode,
    set_memory,
    update_loop_mode,
)
from exogpu.schedule.primitives.barriers import (
    delete_sync,
    insert_arrive,
    insert_await,
    insert_barrier_alloc,
    insert_fence,
    insert_uninit,
    set_trailing_barrier_expr,
    without_synchronisation,
)
from exogpu.schedule.primitives.call_replacement import (
    call_eqv,
    insert_noop_call,
    replace,
    replace_all,
)
from exogpu.schedule.primitives.contexts import (
    CudaDeviceFunction,
    CudaWarps,
    wrap_kernel,
    wrap_with_context,
)
from exogpu.schedule.primitives.dimensions import (
    divide_dim,
    expand_dim,
    mult_dim,
    rearrange_dim,
    resize_dim,
    unroll_buffer,
)
from exogpu.schedule.primitives.expressions import (
    bind_expr,
    commute_expr,
    left_reassociate_expr,
    rewrite_expr,
)
from exogpu.schedule.primitives.fission import add_loop, autofission, divide_with_recompute, fission
from exogpu.schedule.primitives.inlining import callee, extract_subproc, inline
from exogpu.schedule.primitives.loops import (
    cut_loop,
    divide_loop,
    extend_loop,
    fuse,
    join_loops,
    mult_loops,
    remove_loop,
    reorder_loops,
    shift_loop,
    unroll_loop,
)
from exogpu.schedule.primitives.staging import stage_mem, stage_sum
from exogpu.schedule.primitives.statement_moves import (
    add_if,
    delete_pass,
    eliminate_dead_code,
    fill_zero,
    insert_pass,
    lift_scope,
    merge_ifs,
    remove_if,
    rename,
    reorder_stmts,
    simplify,
    specialize,
)
from exogpu.schedule.primitives.storage import (
    autolift_alloc,
    bind_window,
    delete_buffer,
    inline_window,
    lift_alloc,
    reuse_buffer,
    sink_alloc,
)
from exogpu.schedule.primitives.sums import apply_at_writes, round_copies, sum_by_exchange
from exogpu.schedule.primitives.writes import (
    fold_into_reduce,
    inline_assign,
    lift_reduce_constant,
    merge_writes,
    split_write,
)
from exogpu.schedule.step_cache import kept_steps
from exogpu.schedule.synchronise import Proposal, Synchronised, synchronise
from exogpu.schedule.tile_steps import (
    accumulate,
    guard_ring,
    outwards,
    pipeline,
    split_warps,
    stage_epilogue,
    stage_ring,
    tile,
    tile_for_cluster,
)

__all__ = [
    "Certificate",
    "CudaDeviceFunction",
    "CudaWarps",
    "Cursor",
    "Derivation",
    "Equivalence",
    "Expression",
    "Gap",
    "Proposal",
    "Stretch",
    "Synchronised",
    "accumulate",
    "add_if",
    "add_loop",
    "apply_at_writes",
    "assumptions",
    "autofission",
    "autolift_alloc",
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
    "derives",
    "divide_dim",
    "divide_loop",
    "divide_with_recompute",
    "eliminate_dead_code",
    "equivalent",
    "expand_dim",
    "extend_loop",
    "extract_subproc",
    "fill_zero",
    "find",
    "find_all",
    "fission",
    "fold_into_reduce",
    "followed",
    "fuse",
    "guard_ring",
    "higher",
    "history",
    "inline",
    "inline_assign",
    "inline_window",
    "insert_arrive",
    "insert_await",
    "insert_barrier_alloc",
    "insert_fence",
    "insert_noop_call",
    "insert_pass",
    "insert_uninit",
    "join_loops",
    "kept_steps",
    "left_reassociate_expr",
    "lift_alloc",
    "lift_reduce_constant",
    "lift_scope",
    "merge_ifs",
    "merge_writes",
    "mult_dim",
    "mult_loops",
    "outwards",
    "parallelize_loop",
    "pipeline",
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
    "rewrite_expr",
    "round_copies",
    "seq",
    "set_loop_mode",
    "set_memory",
    "set_trailing_barrier_expr",
    "shift_loop",
    "simplify",
    "sink_alloc",
    "specialize",
    "split_warps",
    "split_write",
    "stage_epilogue",
    "stage_mem",
    "stage_ring",
    "stage_sum",
    "sum_by_exchange",
    "synchronise",
    "text",
    "tile",
    "tile_for_cluster",
    "try_else",
    "unroll_buffer",
    "unroll_loop",
    "update_loop_mode",
    "without_synchronisation",
    "wrap_kernel",
    "wrap_with_context",
]
