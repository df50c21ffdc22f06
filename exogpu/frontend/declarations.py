"""Reading declarations: `x: f32[4, 128] @ Memory`, `z: barrier(guard)[2] @ Mechanism`."""

from __future__ import annotations

import ast
from dataclasses import dataclass

from exogpu.diagnostics.errors import Span
from exogpu.frontend.control import control
from exogpu.frontend.operand_checks import box_problem
from exogpu.frontend.scope import Barrier, Context, Data
from exogpu.frontend.suggestions import TYPES
from exogpu.hw.memories import DRAM, CudaRmem
from exogpu.ir.nodes import CExpr, Int, Interval, Sub
from exogpu.ir.types import BarrierMechanism, DataMemory, DataType, Space, SpecialWindow, Sym


@dataclass(frozen=True, slots=True)
class DataAnnotation:
    dtype: DataType
    shape: tuple[CExpr, ...]
    memory: DataMemory | SpecialWindow | None


@dataclass(frozen=True, slots=True)
class BarrierAnnotation:
    guard: Sym | None
    shape: tuple[CExpr, ...]
    mechanism: BarrierMechanism


def annotation(node: ast.expr, ctx: Context) -> DataAnnotation | BarrierAnnotation:
    """The declared type of a variable."""
    if isinstance(node, ast.Constant) and isinstance(node.value, str):
        raise ctx.reject("P110", "the type is a string", node, "write it without quotes")
    where: ast.expr | None = None
    if isinstance(node, ast.BinOp) and isinstance(node.op, ast.MatMult):
        where = node.right
        node = node.left
    extents: list[ast.expr] = []
    if isinstance(node, ast.Subscript):
        inner = node.slice
        extents = list(inner.elts) if isinstance(inner, ast.Tuple) else [inner]
        node = node.value
    if _is_barrier(node):
        return _barrier(node, extents, where, ctx)
    foreign = TYPES.get(node.id) if isinstance(node, ast.Name) else None
    defined = ctx.is_python(node) and (foreign is None or _is_defined(node, ctx))
    dtype = ctx.evaluate(node) if defined else None
    if not isinstance(dtype, DataType):
        raise ctx.reject(
            "T211", f"{ast.unparse(node)} is not a data type", node, _typed(foreign, extents)
        )
    memory: DataMemory | SpecialWindow | None = None
    if where is not None:
        found = ctx.evaluate(where)
        if not isinstance(found, DataMemory | SpecialWindow):
            raise ctx.reject(
                "T212",
                f"{ast.unparse(where)} is not a data memory",
                where,
                "use a memory such as CudaSmemLinear, CudaRmem, CudaGmemLinear or DRAM",
            )
        memory = found
    return DataAnnotation(dtype, _shape(extents, ctx), memory)


def _is_defined(node: ast.expr, ctx: Context) -> bool:
    """Tests whether Python has the name, as of a type that the enclosing scope names."""
    return isinstance(node, ast.Name) and node.id in ctx.source.names


def _typed(foreign: str | None, extents: list[ast.expr]) -> str:
    """Describes how to write the type."""
    if foreign is not None and not extents and foreign.startswith(("i", "ui")):
        return f"an integer parameter is n: size (1 or more) or i: index; data is {foreign}"
    if foreign is not None:
        return f"write {foreign}" + (f"[{', '.join(map(ast.unparse, extents))}]" if extents else "")
    return f"use barrier, or one of {', '.join(t.value for t in DataType)}"


def _shape(extents: list[ast.expr], ctx: Context) -> tuple[CExpr, ...]:
    shape = tuple(control(e, ctx) for e in extents)
    for extent, node in zip(shape, extents, strict=True):
        if isinstance(extent, Int) and extent.value < 0:
            raise ctx.reject("T213", "a negative extent", node, "use an extent of 0 or more")
    return shape


def _is_barrier(node: ast.expr) -> bool:
    function = node.func if isinstance(node, ast.Call) else node
    return isinstance(function, ast.Name) and function.id == "barrier"


def _barrier(
    node: ast.expr, extents: list[ast.expr], where: ast.expr | None, ctx: Context
) -> BarrierAnnotation:
    guard: Sym | None = None
    if isinstance(node, ast.Call):
        match node.args:
            case [ast.Name(id=name)] if isinstance(found := ctx.lookup(name), Barrier):
                guard = found.name
            case _:
                raise ctx.reject(
                    "T214",
                    f"{ast.unparse(node)}: the guard is not a barrier",
                    node,
                    "name one barrier that was declared before",
                )
    mechanism = ctx.evaluate(where) if where is not None else None
    if not isinstance(mechanism, BarrierMechanism):
        raise ctx.reject(
            "T215",
            "a barrier needs a mechanism",
            where or node,
            "write @ CudaMbarrier, @ CudaNamedBarrier, @ CudaCommitGroup, @ CudaClusterSync "
            "or @ CudaFlag",
        )
    if guard is not None and mechanism is not BarrierMechanism.MBARRIER:
        raise ctx.reject(
            "T216", "only an mbarrier takes a guard", node, "write barrier without a guard"
        )
    return BarrierAnnotation(guard, _shape(extents, ctx), mechanism)


# Rules of memories that may be allocated and accessed at CPU and at CUDA scope.


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
