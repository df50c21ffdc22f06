"""`cuda_tasks` loops that are nested directly in each other: the rectangle of a kernel's tasks."""

from __future__ import annotations

from dataclasses import dataclass

from exogpu.codegen.errors import unsupported
from exogpu.ir.nodes import (
    Alloc,
    BarrierAlloc,
    Block,
    CExpr,
    CudaTasks,
    DeviceFunction,
    For,
    Int,
    Stmt,
    Sub,
)
from exogpu.ir.walk import control_variables


@dataclass(frozen=True, slots=True)
class TaskNest:
    """Directly nested `cuda_tasks` loops, outermost first, and what is inside them."""

    loops: tuple[For, ...]
    body: Block

    @property
    def counts(self) -> tuple[CExpr, ...]:
        """Iterations of each loop."""
        return tuple(s.hi if s.lo == Int(0) else Sub(s.hi, s.lo) for s in self.loops)


def resident(launch: DeviceFunction) -> tuple[Alloc | BarrierAlloc, ...]:
    """Returns the allocations before the tasks, which serve one after another."""
    return tuple(stmt for stmt in launch.body if isinstance(stmt, Alloc | BarrierAlloc))


def task_nest(stmt: Stmt) -> TaskNest:
    """The nest that begins with a `cuda_tasks` loop.  Its loops must form a rectangle.

    Raises ExoGpuError (G805) where they do not, and for any other statement.
    """
    if not (isinstance(stmt, For) and stmt.mode == CudaTasks()):
        raise unsupported(
            "this statement stands in a kernel outside of its cuda_tasks loops",
            stmt.span,
            "put it inside the innermost cuda_tasks loop",
            "G805",
        )
    loops = [stmt]
    while len(loops[-1].body) == 1:
        (inner,) = loops[-1].body
        if not (isinstance(inner, For) and inner.mode == CudaTasks()):
            break
        loops.append(inner)
    outer = {s.iterator for s in loops}
    for loop in loops:
        if outer & (control_variables(loop.lo) | control_variables(loop.hi)):
            raise unsupported(
                f"the bounds of the cuda_tasks loop over {loop.iterator} depend on other tasks",
                loop.span,
                "iterate over a rectangle, and guard the body by an `if`",
                "G805",
            )
    return TaskNest(tuple(loops), loops[-1].body)
