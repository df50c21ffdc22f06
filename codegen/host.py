"""The CPU part of a procedure as data: what is done on the stream, in order.

The manifest is JSON.  Expressions in it are integers, names of sizes, or lists
`[operator, operand...]` with the operators + - * // % == != < <= > >= and or not.
"""

from __future__ import annotations

from dataclasses import dataclass
from typing import TypeAlias, assert_never

from exogpu.analysis.divergence import mechanisms_of
from exogpu.analysis.facts import CollectiveFacts
from exogpu.codegen.errors import unsupported
from exogpu.codegen.instructions import helper_text
from exogpu.codegen.kernels import Kernel, Source, kernel
from exogpu.codegen.mbarriers import rings
from exogpu.codegen.render import UnitText, render
from exogpu.codegen.storage import storages
from exogpu.ir.nodes import (
    Access,
    Add,
    And,
    BExpr,
    CallInstr,
    CExpr,
    Compare,
    ControlParam,
    CVar,
    DataParam,
    DeviceFunction,
    FloorDiv,
    Free,
    Int,
    Interval,
    Mod,
    Mul,
    Not,
    Or,
    Pass,
    Proc,
    Stmt,
    Sub,
    Truth,
)
from exogpu.ir.walk import walk

Json: TypeAlias = "bool | int | str | list[Json] | dict[str, Json] | None"


@dataclass(frozen=True, slots=True)
class Emitted:
    """A procedure as CUDA C++ and the manifest that says how to launch it."""

    name: str
    source: str
    manifest: dict[str, Json]


def emit(proc: Proc, facts: CollectiveFacts, arch: str = "sm_90a") -> Emitted:
    """CUDA C++ of all kernels of a procedure, and its manifest.

    Takes an inlined procedure with frees, and its facts.  Raises ExoGpuError (G8...) for what
    has no lowering.
    """
    source = Source(proc, facts, mechanisms_of(proc), storages(proc, facts), rings(proc, facts))
    helpers: list[str] = []
    kernels: list[Kernel] = []
    steps: list[Json] = []
    many = sum(isinstance(s, DeviceFunction) for s in walk(proc.body)) > 1
    for stmt in proc.body:
        match stmt:
            case DeviceFunction():
                suffix = f"_{len(kernels)}" if many else ""
                made = kernel(source, stmt, f"{proc.name}{suffix}", helpers)
                kernels.append(made)
                steps.append(_launch(made))
            case CallInstr():
                steps.append(_stream_call(stmt))
            case Pass() | Free():
                pass
            case _:
                raise _unsupported(stmt)
    text = render(
        UnitText(
            title=proc.name,
            doc=tuple(proc.doc.splitlines()),
            source=_file_name(proc),
            arch=arch,
            helpers=tuple(helper_text(name) for name in helpers),
            kernels=tuple(k.text for k in kernels),
        )
    )
    manifest: dict[str, Json] = {
        "name": proc.name,
        "arch": arch,
        "parameters": [_parameter(p) for p in proc.params],
        "preconditions": [condition_json(p) for p in proc.preconditions],
        "steps": steps,
    }
    return Emitted(proc.name, text, manifest)


def _file_name(proc: Proc) -> str:
    return proc.span.file.rpartition("/")[2]


def _unsupported(stmt: Stmt) -> Exception:
    return unsupported(
        "this statement of the CPU part has no lowering",
        stmt.span,
        "launch kernels, and call stream instructions, directly in the procedure's body",
        "G806",
    )


def _parameter(param: ControlParam | DataParam) -> Json:
    match param:
        case ControlParam():
            return {"name": param.name.name, "kind": param.kind}
        case DataParam():
            return {
                "name": param.name.name,
                "kind": "data",
                "dtype": param.dtype.value,
                "memory": param.memory.name,
                "shape": [control_json(n) for n in param.shape],
            }
        case _:
            assert_never(param)


def _launch(made: Kernel) -> Json:
    names: list[Json] = [n.name for n in (*made.sizes, *made.data)]
    for m in made.maps:
        names.append({"tensor": m.tensor.name, "box": list(m.box), "swizzle": m.swizzle})
    counts: list[Json] = []
    for nest in made.nests:
        counts.append([control_json(n) for n in nest.counts])
    return {
        "op": "launch",
        "kernel": made.text.name,
        "cluster": made.cluster_dim,
        "block": made.block_dim,
        "shared_bytes": made.shared_bytes,
        "tasks": counts,
        "arguments": names,
    }


def _stream_call(stmt: CallInstr) -> Json:
    """A memset: the only stream instruction with a lowering; of a whole variable."""
    if not stmt.instr.name.startswith("cuda_memset0"):
        raise _unsupported(stmt)
    (target,) = [a for a in stmt.arguments if isinstance(a, Access)]
    if any(not isinstance(c, Interval) or c.lo != Int(0) for c in target.coords):
        raise _unsupported(stmt)
    return {"op": "memset0", "target": target.name.name}


# --- expressions ----------------------------------------------------------------------------


def control_json(expr: CExpr) -> Json:
    """A control expression as JSON."""
    match expr:
        case Int():
            return expr.value
        case CVar():
            return expr.name.name
        case Add():
            return ["+", control_json(expr.left), control_json(expr.right)]
        case Sub():
            return ["-", control_json(expr.left), control_json(expr.right)]
        case Mul():
            return ["*", expr.factor, control_json(expr.term)]
        case FloorDiv():
            return ["//", control_json(expr.term), expr.divisor]
        case Mod():
            return ["%", control_json(expr.term), expr.divisor]
        case _:
            assert_never(expr)


def condition_json(expr: BExpr) -> Json:
    """A boolean expression as JSON."""
    match expr:
        case Truth():
            return expr.value
        case Compare():
            return [expr.op, control_json(expr.left), control_json(expr.right)]
        case And():
            return ["and", condition_json(expr.left), condition_json(expr.right)]
        case Or():
            return ["or", condition_json(expr.left), condition_json(expr.right)]
        case Not():
            return ["not", condition_json(expr.term)]
        case _:
            assert_never(expr)
