"""Reading declarations: `x: f32[4, 128] @ Memory`, `z: barrier(guard)[2] @ Mechanism`."""

from __future__ import annotations

import ast
from dataclasses import dataclass

from exogpu.frontend.control import control
from exogpu.frontend.scope import Barrier, Context
from exogpu.frontend.spelling import TYPES
from exogpu.ir.names import Sym
from exogpu.ir.nodes import CExpr, Int
from exogpu.ir.types import BarrierMechanism, DataMemory, DataType, SpecialWindow


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
