"""Rules of memories that may be allocated and accessed at CPU and at CUDA scope."""

from __future__ import annotations

import ast

from exogpu.frontend.annotations import DataAnnotation
from exogpu.frontend.scope import Context, Data
from exogpu.frontend.tensor_maps import box_problem
from exogpu.hw.memories import DRAM, CudaRmem
from exogpu.ir.nodes import CExpr, Int, Interval, Sub
from exogpu.ir.types import BarrierMechanism, DataMemory, Space, SpecialWindow
from exogpu.result.errors import Span


def alloc_memory(found: DataAnnotation, node: ast.AnnAssign, ctx: Context) -> DataMemory:
    """The memory of an allocation: by default CudaRmem at CUDA scope, DRAM at CPU scope."""
    memory = found.memory or (CudaRmem if ctx.cuda else DRAM)
    if isinstance(memory, SpecialWindow):
        raise ctx.reject(
            "T217",
            f"{memory.name} is a window type, not a memory",
            node.annotation,
            "declare the variable in a memory, then window it",
        )
    if memory.abstract:
        raise ctx.reject(
            "T236",
            f"{memory.name} is a base of other memories, nothing can be allocated in it",
            node.annotation,
            "name the memory itself, such as CudaSmemLinear",
        )
    if ctx.instruction:
        return memory
    if ctx.cuda:
        if ctx.resident and memory.space is Space.REGISTER:
            raise ctx.reject(
                "S315",
                "registers are allocated outside a device task",
                node,
                "put them in cuda_tasks; shared memory and mbarriers may serve all tasks",
            )
        if memory.space not in (Space.SHARED, Space.REGISTER):
            raise ctx.reject(
                "S316",
                f"{memory.name} cannot be allocated at CUDA scope",
                node.annotation,
                "allocate shared memory or registers here, global memory at CPU scope",
            )
    elif memory.space in (Space.SHARED, Space.REGISTER):
        raise ctx.reject(
            "S317",
            f"{memory.name} cannot be allocated at CPU scope",
            node.annotation,
            "allocate it inside the kernel",
        )
    return memory


def barrier_alloc(mechanism: BarrierMechanism, node: ast.AnnAssign, ctx: Context) -> None:
    """Barriers live inside a device task; those with phases may serve all tasks of a cluster,
    and flags all tasks of a launch."""
    if mechanism is BarrierMechanism.FLAG:
        if ctx.cuda:
            raise ctx.reject(
                "S318",
                "a flag stands inside a kernel",
                node,
                "declare it before the launch: its tasks signal each other in global memory",
            )
        return
    if ctx.in_task or (ctx.resident and mechanism.phased):
        return
    raise ctx.reject(
        "S318",
        "a barrier stands outside a device task",
        node,
        "declare it inside the innermost cuda_tasks loop, or an mbarrier before the loops",
    )


def window(source: Data, special: SpecialWindow | None, node: ast.AST, ctx: Context) -> None:
    """Tensor maps are made at CPU scope, of global memory."""
    if special is None or ctx.instruction:
        return
    if ctx.cuda:
        raise ctx.reject(
            "S319", "a tensor map is made at CUDA scope", node, "make it before the launch"
        )
    if source.memory.space is not Space.GLOBAL:
        raise ctx.reject(
            "T218",
            f"{source.name} is in {source.memory.name}, a tensor map is of global memory",
            node,
            "window a variable @ CudaGmemLinear",
        )
    if problem := box_problem(special, source.dtype):
        what, remedy = problem
        raise ctx.reject("T244", f"{special.name}: {what}", node, remedy)


def scalar_statement(target: Data, node: ast.AST, ctx: Context) -> None:
    """Scalar code at CUDA scope stands in a task; grid constants are not written."""
    if ctx.instruction:
        return
    if ctx.cuda and not ctx.in_task:
        raise ctx.reject("S312", "a statement stands outside a device task", node, "put it in one")
    if ctx.cuda and target.memory.space is Space.GRID_CONSTANT:
        raise ctx.reject(
            "S321", f"{target.name} is a grid constant", node, "write to global memory instead"
        )


def extent(coord: Interval, span: Span) -> CExpr:
    """The extent of a window's dimension."""
    if isinstance(coord.lo, Int) and coord.lo.value == 0:
        return coord.hi
    if isinstance(coord.lo, Int) and isinstance(coord.hi, Int):
        return Int(coord.hi.value - coord.lo.value, span)
    return Sub(coord.hi, coord.lo, span)
