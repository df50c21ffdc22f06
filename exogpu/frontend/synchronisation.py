"""Reading Fence, Arrive and Await."""

from __future__ import annotations

import ast

from exogpu.diagnostics.errors import Note
from exogpu.frontend.control import integer
from exogpu.frontend.data import access
from exogpu.frontend.scope import Barrier, Context
from exogpu.hw.timelines import AFTER_FLAG, ORDINARY
from exogpu.ir.nodes import Access, Arrive, Await, Fence, Interval
from exogpu.ir.types import BarrierMechanism, SyncTL

STREAM = "cuda_stream_sync"
"""In a dependent launch: what the launches before it did."""

_HOST_TIMELINES = frozenset({"cpu_in_order", STREAM})


def fence(node: ast.Call, targets: list[ast.expr], stmt: ast.stmt, ctx: Context) -> Fence:
    """`Fence(pre, post)`"""
    if targets or node.keywords or len(node.args) != 2:
        remedy = "write Fence(pre, post); Fence(cuda_in_order, cuda_in_order) is __syncthreads()"
        raise ctx.reject("P123", "a Fence takes two sync timelines", node, remedy)
    pre = _timeline(node.args[0], ctx, waits=True)
    launches = ctx.cuda and pre.name == STREAM
    post = _timeline(node.args[1], ctx, waits=launches)
    _check_place("Fence", node, ctx)
    return Fence(pre, post, launches, span=ctx.source.span(stmt))


def arrive(node: ast.Call, targets: list[ast.expr], stmt: ast.stmt, ctx: Context) -> Arrive:
    """`Arrive(timeline) >> z[...] >> z[...]`; a count other than 1 is an error (decision
    `arrive-counts`)."""
    if node.keywords or len(node.args) not in (1, 2):
        raise ctx.reject(
            "P124", "an Arrive takes one sync timeline", node, "write Arrive(timeline) >> z"
        )
    if not targets:
        raise ctx.reject(
            "P124", "an Arrive has no barrier", node, "write Arrive(timeline) >> z[...]"
        )
    if len(node.args) == 2 and (count := integer(node.args[1], ctx)) != 1:
        raise ctx.reject(
            "T237", f"the arrive count is {count}", node.args[1], "the count is 1: leave it out"
        )
    timeline = _timeline(node.args[0], ctx)
    _check_place("Arrive", node, ctx)
    windows = [_barrier(t, ctx) for t in targets]
    first, meaning = windows[0]
    for window, other in windows[1:]:
        if window.name != first.name:
            raise ctx.reject(
                "T238",
                f"an Arrive signals two barrier variables, {first.name} and {window.name}",
                targets[-1],
                "write one Arrive for each",
                Note(f"{other.name} is declared here", other.span),
            )
    flag = meaning.mechanism is BarrierMechanism.FLAG
    several = len(windows) > 1 or (flag and any(isinstance(c, Interval) for c in first.coords))
    if several and meaning.mechanism is not BarrierMechanism.MBARRIER:
        raise ctx.reject(
            "T239",
            f"{meaning.name} is @ {meaning.mechanism.value}, only mbarriers take a multicast",
            targets[-1],
            "signal one element",
        )
    if flag:
        _generic("an Arrive on", timeline, frozenset({ORDINARY}), meaning, node.args[0], ctx)
    return Arrive(timeline, tuple(w for w, _ in windows), span=ctx.source.span(stmt))


def await_(node: ast.Call, targets: list[ast.expr], stmt: ast.stmt, ctx: Context) -> Await:
    """`Await(z[...], timeline, n)`; by default ~0 where there are phases, else 0 (decision
    `await-counts`)."""
    if targets or node.keywords or len(node.args) not in (2, 3):
        raise ctx.reject(
            "P125",
            "an Await takes a barrier, a sync timeline and n",
            node,
            "write Await(z[...], timeline, n)",
        )
    window, meaning = _barrier(node.args[0], ctx)
    wide = any(isinstance(c, Interval) for c in window.coords)
    if wide and meaning.mechanism is not BarrierMechanism.MBARRIER:
        raise ctx.reject(
            "T240", "an Await waits for one element", node.args[0], "index every dimension"
        )
    timeline = _timeline(node.args[1], ctx)
    _check_place("Await", node, ctx)
    phased = meaning.mechanism.phased
    n = integer(node.args[2], ctx) if len(node.args) == 3 else (~0 if phased else 0)
    named = meaning.mechanism is BarrierMechanism.NAMED_BARRIER
    if phased != (n < 0) or (named and n != ~0):
        raise ctx.reject(
            "T241",
            f"n is {n} on a barrier @ {meaning.mechanism.value}",
            node.args[2],
            "write ~m on an mbarrier (all but the first m), ~0 on a named barrier, m elsewhere "
            "(all but the last m)",
            Note("declared here", meaning.span),
        )
    if meaning.mechanism is BarrierMechanism.FLAG:
        if n != 0:
            raise ctx.reject(
                "T241",
                f"n is {n} on a barrier @ {meaning.mechanism.value}",
                node.args[2],
                "write 0: an Await of a flag waits for all that arrive on it",
                Note("declared here", meaning.span),
            )
        _generic("an Await of", timeline, AFTER_FLAG, meaning, node.args[1], ctx)
    return Await(window, timeline, n, span=ctx.source.span(stmt))


def _generic(
    what: str,
    timeline: SyncTL,
    allowed: frozenset[str],
    meaning: Barrier,
    node: ast.expr,
    ctx: Context,
) -> None:
    """A flag orders ordinary accesses: others are waited for within their CTA."""
    if timeline.name not in allowed:
        raise ctx.reject(
            "T275",
            f"{what} the flag {meaning.name} takes {' or '.join(sorted(allowed))}, not "
            f"{timeline.name}",
            node,
            "wait for asynchronous operations beside the flag, by a Fence, a commit group or an "
            "mbarrier of the CTA",
            Note("declared here", meaning.span),
        )


def _barrier(node: ast.expr, ctx: Context) -> tuple[Access, Barrier]:
    window, meaning = access(node, ctx)
    if not isinstance(meaning, Barrier):
        raise ctx.reject(
            "T242",
            f"{meaning.name} is not a barrier",
            node,
            "declare z: barrier @ CudaMbarrier",
            Note("declared here", meaning.span),
        )
    return window, meaning


def _timeline(node: ast.expr, ctx: Context, *, waits: bool = False) -> SyncTL:
    """A timeline that the scope has; of the stream where a Fence waits for launches."""
    value = ctx.evaluate(node) if ctx.is_python(node) else None
    if not isinstance(value, SyncTL):
        raise ctx.reject(
            "T243",
            f"{ast.unparse(node)} is not a sync timeline",
            node,
            "use cuda_in_order, cuda_temporal, wgmma_async, tma_to_smem_async, ...",
        )
    if not ctx.cuda and value.name not in _HOST_TIMELINES:
        raise ctx.reject(
            "S322",
            f"{value.name} is used at CPU scope",
            node,
            "at CPU scope use cpu_in_order and cuda_stream_sync",
        )
    if waits and ctx.dependent and value.name == STREAM:
        return value
    if ctx.cuda and value.name in _HOST_TIMELINES:
        help = "inside a kernel use the cuda, Sm80, tma and wgmma timelines"
        if value.name == STREAM:
            help += "; a launch with dependent=True waits for the one before it by "
            help += f"Fence({STREAM}, cuda_in_order)"
        raise ctx.reject("S323", f"{value.name} is used at CUDA scope", node, help)
    return value


def _check_place(what: str, node: ast.AST, ctx: Context) -> None:
    if ctx.instruction:
        raise ctx.reject(
            "S324", f"an instruction's body has a {what}", node, "instructions only compute"
        )
    if what != "Fence" and not ctx.in_task:
        raise ctx.reject("S325", f"{what} stands outside a device task", node, "put it in one")
    if ctx.cuda and not ctx.in_task:
        raise ctx.reject("S325", f"{what} stands outside a device task", node, "put it in one")
