"""The CPU part of a procedure as data: what is done on the stream, in order.

The manifest is JSON.  Expressions in it are integers, names of sizes, or lists
`[operator, operand...]` with the operators + - * // % == != < <= > >= and or not.
"""

from __future__ import annotations

from collections.abc import Iterator, Mapping, Sequence
from dataclasses import dataclass
from itertools import count
from typing import assert_never

from exogpu.analysis.facts import Facts
from exogpu.analysis.launch import preceding
from exogpu.codegen import registers
from exogpu.codegen.architecture import check_arch, check_features, check_shared
from exogpu.codegen.fences_and_flags import waits_of
from exogpu.codegen.host_cpp import HostFiles, host_files, host_text
from exogpu.codegen.index_registers import loads_of
from exogpu.codegen.instruction_text import argument_of, helper_text, run_of
from exogpu.codegen.kernel_text import Kernel, Source, kernel, written_variables
from exogpu.codegen.mbarriers import Ring, rings
from exogpu.codegen.names import comment, function_name, one_line
from exogpu.codegen.render_files import HostText, UnitText, render
from exogpu.codegen.storage import Storage, storages
from exogpu.codegen.task_order import TaskOrder, check_order
from exogpu.diagnostics.errors import Diagnostic, Span
from exogpu.ir import nodes as ir
from exogpu.ir.expression_json import Json, condition_json, control_json
from exogpu.ir.types import DataType, Memset, Space, Sym
from exogpu.ir.walk import accesses, blocks


@dataclass(frozen=True, slots=True)
class Emitted:
    """A procedure as CUDA C++ and the manifest that says how to launch it."""

    name: str
    source: str
    manifest: dict[str, Json]
    host: HostFiles
    """A C function for the whole procedure, for use without this package."""
    addressed: tuple[Diagnostic, ...]
    """Warnings of registers that may have to lie in memory."""
    launches: Mapping[str, Span]
    """By the name of a kernel, where its launch is written."""


def emit(
    facts: Facts,
    arch: str = "sm_90a",
    task_order: TaskOrder | None = None,
    depths: Mapping[str, int] | None = None,
    arrive_all: bool = False,
    waits: Sequence[str] = (),
) -> Emitted:
    """CUDA C++ of all kernels of a procedure, and its manifest.

    Clusters take tasks in `task_order`; None is the default, grouped where two loops share data.
    `depths` are ring depths that a proof found, by mbarrier, and `waits` how many arrivals it found
    that Awaits of flags wait for.  With `arrive_all` every thread arrives on mbarriers by itself,
    which is slower and what race checkers follow.  Raises ExoGpuError (G8...) for what has no
    lowering or does not fit the architecture, X963 for one that is not known.
    """
    made = lowered(facts, arch, task_order, depths, arrive_all, waits)
    name, files = facts.proc.name, host_files(made.host)
    source = render(made.unit)
    return Emitted(name, source, made.manifest, files, made.addressed, made.launches)


@dataclass(frozen=True, slots=True)
class Lowered:
    """A procedure as what the texts of its files are made from."""

    unit: UnitText
    manifest: dict[str, Json]
    host: HostText
    addressed: tuple[Diagnostic, ...]
    launches: Mapping[str, Span]


def lowered(
    facts: Facts,
    arch: str = "sm_90a",
    task_order: TaskOrder | None = None,
    depths: Mapping[str, int] | None = None,
    arrive_all: bool = False,
    waits: Sequence[str] = (),
) -> Lowered:
    """All that `emit` finds, without the texts; it raises what `emit` does."""
    proc = facts.proc
    check_arch(arch)
    check_order(task_order)
    check_features(proc, arch)
    found = rings(facts, depths, arrive_all=arrive_all)
    followed = frozenset(preceding(proc).values())
    counted = waits_of(proc, waits)
    source = Source(
        facts, storages(facts), found, task_order, followed, written_variables(proc.body), counted
    )
    helpers: list[str] = []
    kernels: dict[ir.Stmt, Kernel] = {}
    where: dict[str, Span] = {}
    launches = list(_launches(proc.body, ()))
    for number, (launch, outer) in enumerate(launches):
        suffix = f"_{number}" if len(launches) > 1 else ""
        name = function_name(f"{proc.name}{suffix}")
        made = kernel(source, launch, outer, name, helpers)
        check_shared(made, launch, source, arch)
        kernels[launch], where[name] = made, launch.span
    unit = UnitText(
        title=proc.name,
        doc=tuple(comment(line) for line in proc.doc.splitlines()),
        source=_file_name(proc),
        arch=arch,
        helpers=tuple(helper_text(name) for name in helpers),
        kernels=tuple(k.text for k in kernels.values()),
    )
    manifest: dict[str, Json] = {
        "name": proc.name,
        "arch": arch,
        "parameters": [_parameter(p) for p in proc.params],
        "preconditions": [condition_json(p) for p in proc.preconditions],
        "steps": _steps(proc, source.storage, kernels),
    }
    if arrive_all:
        manifest["arrive_all"] = True
    if proc.contracts:
        manifest["contracts"] = [
            {
                "kind": c.kind,
                "array": c.array.name,
                **({} if c.least is None else {"least": c.least}),
            }
            for c in proc.contracts
        ]
    if loads := {str(s.span.line): s.span.text.strip() for s in loads_of(proc.body)}:
        manifest["loads"] = {**loads}
    host = host_text(proc, source.storage, kernels)
    return Lowered(unit, manifest, host, registers.addressed(proc, source.storage), where)


def _launches(
    block: ir.Block, outer: tuple[Sym, ...]
) -> Iterator[tuple[ir.DeviceFunction, tuple[Sym, ...]]]:
    """The launches of the CPU part, each with the iterators around it."""
    for stmt in block:
        if isinstance(stmt, ir.DeviceFunction):
            yield stmt, outer
        else:
            inner = (*outer, stmt.iterator) if isinstance(stmt, ir.For) else outer
            for inside in blocks(stmt):
                yield from _launches(inside, inner)


def _steps(
    proc: ir.Proc, storage: Mapping[Sym, Storage], kernels: Mapping[ir.Stmt, Kernel]
) -> list[Json]:
    """Returns the steps on the stream, in order; `host` alone if only the C function can express
    them."""
    steps: list[Json] = []
    names = _names(proc)
    for stmt in proc.body:
        match stmt:
            case ir.DeviceFunction():
                steps.append(_launch(kernels[stmt], names))
            case ir.CallInstr(instr=ir.Instr(template=Memset() as template)):
                steps.append(_memset(stmt, template, storage, names))
            case ir.Alloc() if _is_workspace(stmt, proc, kernels):
                steps.append(_workspace(names[stmt.name], stmt.dtype, stmt.shape))
            case ir.BarrierAlloc():
                flags = _workspace(names[stmt.name], DataType.I32, stmt.shape)
                steps.append({**flags, "zeroed": True})
            case ir.Pass() | ir.Uninit() | ir.Free():
                pass
            case _:
                return [{"op": "host", "kernels": [_needs(k) for k in kernels.values()]}]
    return steps


def _is_workspace(stmt: ir.Alloc, proc: ir.Proc, kernels: Mapping[ir.Stmt, Kernel]) -> bool:
    """Tests whether it is device memory that nothing but kernels uses, through pointers."""
    others = [s for s in proc.body if isinstance(s, ir.CallInstr)]
    return (
        stmt.memory.space is Space.GLOBAL
        and all(a.name != stmt.name for s in others for a in accesses(s))
        and all(m.tensor != stmt.name for made in kernels.values() for m in made.maps)
    )


def _names(proc: ir.Proc) -> Mapping[Sym, str]:
    """Returns the manifest's names of arrays: their own, but of several of one name, as macros make
    them, the second is `name_2`."""
    own = [s for s in proc.body if isinstance(s, ir.Alloc | ir.BarrierAlloc)]
    taken = {param.name.name for param in proc.params}
    names = {param.name: param.name.name for param in proc.params}
    for stmt in own:
        first = stmt.name.name
        spelled = (first if n == 1 else f"{first}_{n}" for n in count(1))
        names[stmt.name] = next(name for name in spelled if name not in taken)
        taken.add(names[stmt.name])
    return names


def _workspace(name: str, dtype: DataType, shape: Sequence[ir.CExpr]) -> dict[str, Json]:
    return {
        "op": "allocate",
        "name": name,
        "dtype": dtype.value,
        "shape": [control_json(n) for n in shape],
    }


def _file_name(proc: ir.Proc) -> str:
    return one_line(proc.span.file.rpartition("/")[2])


def _parameter(param: ir.ControlParam | ir.DataParam) -> Json:
    match param:
        case ir.ControlParam():
            return {"name": param.name.name, "kind": param.kind}
        case ir.DataParam():
            return {
                "name": param.name.name,
                "kind": "data",
                "dtype": param.dtype.value,
                "memory": param.memory.name,
                "shape": [control_json(n) for n in param.shape],
            }
        case _:
            assert_never(param)


def _needs(made: Kernel) -> dict[str, Json]:
    """Returns the needs of a launch: CTAs a cluster, threads and bytes of shared memory a CTA."""
    return {
        "kernel": made.text.name,
        "cluster": made.cluster_dim,
        "block": made.block_dim,
        "shared_bytes": made.shared_bytes,
    }


def _launch(made: Kernel, names: Mapping[Sym, str]) -> Json:
    arguments: list[Json] = [names[n] for n in (*made.sizes, *made.data)]
    for m in made.maps:
        arguments.append(
            {
                "tensor": names[m.tensor],
                "box": list(m.box),
                "swizzle": m.swizzle,
                **({"tf32": True} if m.tf32 else {}),
            }
        )
    counts: list[Json] = []
    for nest in made.nests:
        counts.append([control_json(n) for n in nest.counts])
    return {
        "op": "launch",
        **_needs(made),
        "tasks": counts,
        "fits": [*map(control_json, made.limits), *map(_product, made.distances)],
        "arguments": arguments,
        **({"shared": [_shared_place(*one) for one in made.shared]} if made.shared else {}),
        **({"mbarriers": [_ring_place(*one) for one in made.mbarriers]} if made.mbarriers else {}),
        **({"dependent": True} if made.dependent else {}),
        **({"together": True} if made.together else {}),
        **({"level": True} if made.level else {}),
    }


def _shared_place(variable: Storage, offset: int) -> Json:
    """Returns the place of a shared variable, which a validation of the PTX reads."""
    swizzle: dict[str, Json] = {"swizzle": variable.swizzle} if variable.swizzle else {}
    place: dict[str, Json] = {"dtype": variable.dtype.value, "offset": offset, **swizzle}
    return {"name": variable.name.name, **place}


def _ring_place(ring: Ring, offset: int) -> Json:
    """Returns the place of a ring of mbarriers, and how many arrivals complete a phase."""
    place: dict[str, Json] = {"offset": offset, "depth": ring.depth, "count": ring.count}
    return {"name": ring.name.name, **place}


def _memset(
    stmt: ir.CallInstr, template: Memset, storage: Mapping[Sym, Storage], names: Mapping[Sym, str]
) -> Json:
    """Returns the step that fills elements of an array with a byte."""
    window = argument_of(stmt, template.target)
    variable = storage[window.name]
    run = run_of(variable, window, stmt)
    offset: Json = 0
    for at, (index, extent) in enumerate(zip(run.firsts, variable.shape, strict=True)):
        inner: Json = ["*", offset, control_json(extent)] if at else 0
        offset = _sum(inner, control_json(index)) if offset else control_json(index)
    return {
        "op": "memset",
        "target": names[window.name],
        "byte": template.byte,
        "offset": offset,
        "count": _product(run.extents),
    }


def _product(factors: Sequence[ir.CExpr]) -> Json:
    found: Json = 1
    for factor in factors:
        found = control_json(factor) if found == 1 else ["*", control_json(factor), found]
    return found


def _sum(left: Json, right: Json) -> Json:
    return left if right == 0 else ["+", left, right]
