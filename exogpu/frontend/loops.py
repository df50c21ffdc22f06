"""Reading loops, kernel launches and warp selections, and where they may stand."""

from __future__ import annotations

import ast
from collections.abc import Callable
from typing import Final

from exogpu.frontend.control import control, integer
from exogpu.frontend.scope import Context, Control
from exogpu.frontend.suggestions import bounds_of_loop, closest_name
from exogpu.ir import nodes as ir
from exogpu.ir.types import CollUnit, Sym

LOOPS: Final = ("seq", "cuda_tasks", "cuda_threads")
"""The loops of the language."""


def loop(node: ast.For, kind: str, body: Callable[[], ir.Block], ctx: Context) -> ir.For | None:
    """`for y in seq | cuda_tasks | cuda_threads`; None for another kind of loop."""
    assert isinstance(node.iter, ast.Call) and isinstance(node.target, ast.Name)
    if kind not in LOOPS:
        return None
    mode: ir.LoopMode
    match kind:
        case "seq":
            mode = ir.Seq(_unrolling(node.iter, ctx))
        case "cuda_tasks":
            mode = ir.CudaTasks()
        case _:
            mode = ir.CudaThreads(_unit(node.iter, ctx))
    if kind == "cuda_tasks" and node.iter.keywords:
        raise ctx.reject("P120", f"{kind} takes lo and hi only", node.iter, f"write {kind}(lo, hi)")
    if len(node.iter.args) != 2:
        raise ctx.reject(
            "P120",
            f"{kind} takes lo and hi",
            node.iter,
            bounds_of_loop(kind, node.target.id, node.iter.args),
        )
    lo, hi = (control(a, ctx) for a in node.iter.args)
    _may_stand(mode, node, ctx)
    iterator = Sym(node.target.id)
    was_task, ctx.in_task = ctx.in_task, ctx.in_task or _innermost(mode, node)
    was_resident, ctx.resident = ctx.resident, False
    try:
        with ctx.scope():
            ctx.declare(node.target.id, Control(iterator))
            inside = body()
    finally:
        ctx.in_task, ctx.resident = was_task, was_resident
    return ir.For(iterator, lo, hi, mode, inside, span=ctx.source.span(node))


def _unrolling(node: ast.Call, ctx: Context) -> int | None:
    """Reads how many iterations `unroll=` asks for: 0 for all of them."""
    match node.keywords:
        case []:
            return None
        case [ast.keyword(arg="unroll", value=value)]:
            asked = ctx.evaluate(value)
            if asked is None:
                return None
            if isinstance(asked, bool):
                return 0 if asked else 1
            if isinstance(asked, int) and asked >= 1:
                return asked
            message = f"unroll is {asked!r}"
        case _:
            value, message = node, "seq takes lo, hi and unroll"
    remedy = "write seq(lo, hi), or unroll=True, unroll=False or unroll=4 after it"
    raise ctx.reject("P120", message, value, remedy)


def _innermost(mode: ir.LoopMode, node: ast.For) -> bool:
    return isinstance(mode, ir.CudaTasks) and not is_task_nest(node.body)


def is_task_nest(nodes: list[ast.stmt]) -> bool:
    """Tests whether a block is a single cuda_tasks loop."""
    match nodes:
        case [ast.For(iter=ast.Call(func=ast.Name(id="cuda_tasks")))]:
            return True
        case _:
            return False


def _is_kernel(nodes: list[ast.stmt]) -> bool:
    """Tests whether a block is a single cuda_tasks loop, after declarations."""
    *before, last = nodes
    return all(isinstance(node, ast.AnnAssign) for node in before) and is_task_nest([last])


def _tasks_meant(nodes: list[ast.stmt]) -> str | None:
    """A remedy where a loop is spelt otherwise."""
    for node in nodes:
        match node:
            case ast.For(iter=ast.Call(func=ast.Name(id=name))) if name not in LOOPS:
                if (close := closest_name(name, LOOPS)) is not None:
                    return f"did you mean {close} in place of {name}?"
            case _:
                pass
    return None


def _unit(node: ast.Call, ctx: Context) -> CollUnit:
    match node.keywords:
        case [ast.keyword(arg="unit", value=value)]:
            unit = ctx.evaluate(value)
            if isinstance(unit, CollUnit):
                return unit
            message = f"{ast.unparse(value)} is not a collective unit"
        case [ast.keyword(arg=str(name)) as value, *_] if name != "unit":
            message = f"cuda_threads has no {name}, it needs a unit"
        case _:
            message, value = "cuda_threads needs a unit", node
    raise ctx.reject(
        "T219",
        message,
        value,
        "write unit=cuda_thread, 2 * cuda_warp, cuda_warpgroup, cuda_cta_in_cluster, ...",
    )


def _may_stand(mode: ir.LoopMode, node: ast.For, ctx: Context) -> None:
    if ctx.instruction:
        if not isinstance(mode, ir.Seq):
            raise ctx.reject(
                "S308",
                "an instruction's body has sequential loops only",
                node.iter,
                "use seq(lo, hi): the unit of the instruction says who executes it",
            )
        return
    match mode:
        case ir.CudaTasks() if not ctx.cuda or ctx.in_task:
            raise ctx.reject(
                "S309",
                "a cuda_tasks loop stands where no task can begin",
                node.iter,
                "put cuda_tasks loops directly inside CudaDeviceFunction, nested in each other",
            )
        case ir.CudaThreads() if not ctx.in_task:
            raise ctx.reject(
                "S310",
                "a cuda_threads loop stands outside a device task",
                node.iter,
                "put it inside the innermost cuda_tasks loop; CPU loops are seq loops",
            )
        case _:
            pass


THREADS_OF_SM: Final = 2048
"""Threads of one multiprocessor of sm_80 and sm_90 (CUDA C++ Programming Guide, Compute
Capabilities)."""

LAUNCH: Final = ("clusterDim", "blockDim", "warp_config", "dependent", "minBlocks")
"""The arguments that describe a launch."""


def device_function(
    node: ast.With, head: ast.Call, body: Callable[[], ir.Block], ctx: Context
) -> ir.DeviceFunction:
    """`with CudaDeviceFunction(clusterDim=n, blockDim=n | warp_config=[...], dependent=b,
    minBlocks=n)`."""
    if ctx.cuda or ctx.instruction:
        raise ctx.reject(
            "S311", "a kernel launch stands inside a kernel", head, "launch from CPU scope"
        )
    options = {k.arg: k.value for k in head.keywords}
    for keyword in head.keywords:
        if keyword.arg not in LAUNCH:
            close = closest_name(keyword.arg or "", LAUNCH)
            remedy = f"did you mean {close}?" if close else f"it takes {', '.join(LAUNCH)}"
            what = f"CudaDeviceFunction has no {keyword.arg or 'such arguments'}"
            raise ctx.reject("P121", what, keyword, remedy)
    if head.args:
        remedy = f"write CudaDeviceFunction(blockDim={ast.unparse(head.args[0])})"
        raise ctx.reject("P121", "CudaDeviceFunction takes names only", head.args[0], remedy)
    if ("blockDim" in options) == ("warp_config" in options):
        raise ctx.reject(
            "P121",
            "a launch is described by blockDim, or by warp_config",
            head,
            "write CudaDeviceFunction(clusterDim=2, blockDim=128) or warp_config=[...]",
        )
    cluster = integer(options["clusterDim"], ctx) if "clusterDim" in options else 1
    if cluster < 1:
        raise ctx.reject("T232", f"clusterDim is {cluster}", head, "use 1 or more")
    groups = (
        _groups(options["warp_config"], ctx)
        if "warp_config" in options
        else (ir.WarpConfig("", _warps_of(options["blockDim"], ctx)),)
    )
    dependent = ctx.evaluate(options["dependent"]) if "dependent" in options else False
    if not isinstance(dependent, bool):
        what = f"dependent is {dependent!r}"
        raise ctx.reject("P121", what, options["dependent"], "write dependent=True")
    blocks = _min_blocks(options["minBlocks"], groups, ctx) if "minBlocks" in options else 1
    if not _is_kernel(node.body):
        raise ctx.reject(
            "S312",
            "the body of CudaDeviceFunction is not one nest of cuda_tasks loops",
            head,
            _tasks_meant(node.body)
            or "write for task in cuda_tasks(lo, hi): after what the tasks share, and nothing else",
        )
    ctx.cuda, ctx.resident, ctx.warp_groups = True, True, {g.name: g.count for g in groups}
    ctx.dependent = dependent
    try:
        inside = body()
    finally:
        ctx.cuda, ctx.resident, ctx.warp_groups = False, False, {}
        ctx.dependent = False
    return ir.DeviceFunction(cluster, groups, inside, dependent, blocks, span=ctx.source.span(node))


def _warps_of(node: ast.expr, ctx: Context) -> int:
    threads = integer(node, ctx)
    if threads < 32 or threads % 32:
        raise ctx.reject(
            "T233", f"blockDim is {threads}", node, "use a positive multiple of 32 threads"
        )
    return threads // 32


def _min_blocks(node: ast.expr, groups: tuple[ir.WarpConfig, ...], ctx: Context) -> int:
    """CTAs of a multiprocessor, whose threads and registers must do."""
    found, threads = integer(node, ctx), 32 * sum(g.count for g in groups)
    if not 1 <= found <= THREADS_OF_SM // threads:
        what = f"minBlocks is {found}, and a multiprocessor has room for {THREADS_OF_SM} threads"
        remedy = f"use 1 to {THREADS_OF_SM // threads}, with {threads} threads a CTA"
        raise ctx.reject("P121", what, node, remedy)
    if any(g.setmaxnreg_dec or g.setmaxnreg_inc for g in groups):
        what = "minBlocks limits the registers of a thread, which a warp group changes"
        raise ctx.reject("P121", what, node, "leave one of the two out")
    return found


def _groups(node: ast.expr, ctx: Context) -> tuple[ir.WarpConfig, ...]:
    value = ctx.evaluate(node)
    groups = tuple(value) if isinstance(value, list | tuple) else ()
    if not groups or not all(isinstance(g, ir.WarpConfig) and _typed(g) for g in groups):
        raise ctx.reject(
            "T234",
            "warp_config is not a list of CudaWarpConfig",
            node,
            'write [CudaWarpConfig("producer", 1, 40, 0), CudaWarpConfig("consumer", 8, 0, 232)]',
        )
    names = [g.name for g in groups]
    if len(set(names)) != len(names) or any(g.count < 1 for g in groups):
        raise ctx.reject(
            "T235",
            "warp groups need different names and at least one warp each",
            node,
            "rename the group, or remove it",
        )
    return groups


def _typed(group: ir.WarpConfig) -> bool:
    """Tests whether the user gave a name and integers: dataclasses do not check."""
    numbers = (group.count, group.setmaxnreg_dec, group.setmaxnreg_inc)
    return isinstance(group.name, str) and all(type(n) is int for n in numbers)


def warps(node: ast.With, head: ast.Call, body: Callable[[], ir.Block], ctx: Context) -> ir.Warps:
    """`with CudaWarps(lo, hi, name="consumer")`; without lo and hi, the whole group."""
    if not ctx.in_task or ctx.instruction:
        raise ctx.reject(
            "S313", "CudaWarps stands outside a device task", head, "put it inside cuda_tasks"
        )
    name: str | None = None
    for keyword in head.keywords:
        found = ctx.evaluate(keyword.value)
        if keyword.arg != "name" or not isinstance(found, str):
            raise ctx.reject(
                "P122", "CudaWarps takes lo, hi and name", head, 'write CudaWarps(0, 4, name="w")'
            )
        name = found
    if len(head.args) not in (0, 2):
        raise ctx.reject("P122", "CudaWarps takes lo, hi and name", head, "give both lo and hi")
    if name is not None and name not in ctx.warp_groups:
        known = ", ".join(repr(g) for g in ctx.warp_groups if g) or "none has a name"
        raise ctx.reject(
            "S314", f"no warp group is named {name!r}", head, f"the launch has: {known}"
        )
    group = name if name is not None else ctx.group
    if group is None:
        if len(ctx.warp_groups) > 1:
            raise ctx.reject(
                "S314",
                "CudaWarps does not say which warp group",
                head,
                "name one of " + ", ".join(repr(g) for g in ctx.warp_groups),
            )
        (group,) = ctx.warp_groups
    whole = (0, ctx.warp_groups[group])
    lo, hi = (integer(a, ctx) for a in head.args) if head.args else whole
    outer, ctx.group = ctx.group, group
    try:
        inside = body()
    finally:
        ctx.group = outer
    return ir.Warps(lo, hi, group, inside, span=ctx.source.span(node))
