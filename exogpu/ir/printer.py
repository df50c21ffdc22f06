"""GPU IR as source text: what it prints parses back to the same IR."""

from __future__ import annotations

from collections.abc import Iterator
from typing import assert_never

from exogpu.ir import nodes as ir
from exogpu.ir import render
from exogpu.ir.contracts import contract_text
from exogpu.ir.types import CollUnit, DataMemory, DataType, Sym
from exogpu.ir.walk import accesses, control_variables


class _Names:
    """Spellings of variables: a name in use in an enclosing scope gets a number."""

    def __init__(self) -> None:
        self._scopes: list[dict[str, Sym]] = [{}]
        self._spelling: dict[Sym, str] = {}

    def declare(self, name: Sym) -> str:
        taken = {spelled for scope in self._scopes for spelled in scope}
        spelled, number = name.name, 0
        while spelled in taken:
            number += 1
            spelled = f"{name.name}_{number}"
        self._scopes[-1][spelled] = name
        self._spelling[name] = spelled
        return spelled

    def spell(self, name: Sym, text: str) -> None:
        """A variable that stands for a text."""
        self._spelling[name] = text

    def __call__(self, name: Sym) -> str:
        return self._spelling.get(name, name.name)

    def push(self) -> None:
        self._scopes.append({})

    def pop(self) -> None:
        self._scopes.pop()


def print_proc(proc: ir.Proc) -> str:
    """The procedure as source text, `@proc` included.

    Instructions, procedures and constants print by the names that their definitions have.
    """
    names = _Names()
    lines = ["@proc", f"def {_signature(proc, names)}:"]
    lines += [f"    assert {render.condition(p, names)}" for p in proc.preconditions]
    lines += [
        f"    assert {contract_text(c.kind, names(c.array), c.least)}" for c in proc.contracts
    ]
    lines += _block(proc.body, names, 1)
    return "\n".join(lines) + "\n"


def print_signature(proc: ir.Proc) -> str:
    """Prints the procedure's name and parameters as source text."""
    return _signature(proc, _Names())


def _signature(proc: ir.Proc, names: _Names) -> str:
    params = ", ".join(_param(p, names) for p in _declared_first(proc.params, names))
    return f"{proc.name}({params})"


def print_stmt(stmt: ir.Stmt) -> str:
    """One statement, with the blocks inside it, as source text."""
    return "\n".join(_stmt(stmt, _Names(), 0)) + "\n"


def _declared_first(params: tuple[ir.Param, ...], names: _Names) -> tuple[ir.Param, ...]:
    for param in params:
        names.declare(param.name)
    return params


def _param(param: ir.Param, names: _Names) -> str:
    match param:
        case ir.ControlParam():
            return f"{names(param.name)}: {param.kind}"
        case ir.DataParam():
            where = param.window.name if param.window else param.memory.name
            shape = _shape(param.shape, names)
            return f"{names(param.name)}: {param.dtype.value}{shape} @ {where}"
        case _:
            assert_never(param)


def _shape(shape: tuple[ir.CExpr, ...], names: _Names) -> str:
    return f"[{', '.join(render.control(e, names) for e in shape)}]" if shape else ""


def _block(block: ir.Block, names: _Names, depth: int) -> list[str]:
    names.push()
    lines = _lines(block, names, depth)
    names.pop()
    return lines


def _lines(block: ir.Block, names: _Names, depth: int) -> list[str]:
    lines = [line for stmt in block for line in _stmt(stmt, names, depth)]
    return lines or ["    " * depth + "pass"]


def _stmt(stmt: ir.Stmt, names: _Names, depth: int) -> list[str]:
    indent = "    " * depth
    match stmt:
        case ir.For():
            if isinstance(stmt.mode, ir.Slot) and _is_whole(stmt.body, stmt.iterator):
                return _slot(stmt, stmt.mode, names, depth)
            if isinstance(stmt.mode, ir.Loaded):
                return _load_lines(stmt, stmt.mode, names, depth)
            lo, hi = render.control(stmt.lo, names), render.control(stmt.hi, names)
            names.push()
            iterator = names.declare(stmt.iterator)
            head = f"for {iterator} in {_mode(stmt.mode, lo, hi, names)}:"
            lines = [indent + head, *_block(stmt.body, names, depth + 1)]
            names.pop()
            return lines
        case ir.If():
            # What stands under a constant condition is read as if it stood without it.
            branch = _block if control_variables(stmt.condition) else _lines
            lines = [f"{indent}if {render.condition(stmt.condition, names)}:"]
            lines += branch(stmt.body, names, depth + 1)
            if stmt.orelse:
                lines += [f"{indent}else:", *branch(stmt.orelse, names, depth + 1)]
            return lines
        case ir.DeviceFunction():
            head = f"with CudaDeviceFunction({_launch(stmt)}):"
            return [indent + head, *_block(stmt.body, names, depth + 1)]
        case ir.Warps():
            name = f", name={stmt.group!r}" if stmt.group else ""
            head = f"with CudaWarps({stmt.lo}, {stmt.hi}{name}):"
            return [indent + head, *_block(stmt.body, names, depth + 1)]
        case _:
            return [indent + line for line in _simple(stmt, names)]


def _is_whole(body: ir.Block, slot: Sym) -> bool:
    """Tests whether a slot is bound for one access or call alone, whose whole indices it is."""
    match body:
        case (ir.For(mode=ir.Slot()) as inner,):
            return _is_whole(inner.body, slot)
        case (ir.Assign() | ir.Reduce() | ir.CallInstr() as only,):
            return all(
                coord == ir.Point(ir.CVar(slot)) or slot not in control_variables(bound)
                for access in accesses(only)
                for coord in access.coords
                for bound in ((coord.at,) if isinstance(coord, ir.Point) else (coord.lo, coord.hi))
            )
        case _:
            return False


def _slot(stmt: ir.For, mode: ir.Slot, names: _Names, depth: int) -> list[str]:
    """The statement inside, with what its iterator stands for."""
    names.spell(stmt.iterator, f"slot({names(mode.barrier)})")
    return [line for inner in stmt.body for line in _stmt(inner, names, depth)]


def _load_lines(stmt: ir.For, mode: ir.Loaded, names: _Names, depth: int) -> list[str]:
    """The statement that names the value, and the rest of the block."""
    lo, hi = render.control(stmt.lo, names), render.control(stmt.hi, names)
    call = f"load_index({render.access(mode.source, names)}, {lo}, {hi})"
    head = f"{'    ' * depth}{names.declare(stmt.iterator)} = {call}"
    return [head, *(line for inner in stmt.body for line in _stmt(inner, names, depth))]


def _mode(mode: ir.LoopMode, lo: str, hi: str, names: _Names) -> str:
    match mode:
        case ir.Seq():
            return f"seq({lo}, {hi}{_unrolling(mode)})"
        case ir.CudaTasks():
            return f"cuda_tasks({lo}, {hi})"
        case ir.CudaThreads():
            return f"cuda_threads({lo}, {hi}, unit={mode.unit.name})"
        case ir.Slot():
            return f"slot({names(mode.barrier)}, {hi})"
        case ir.Loaded():
            raise AssertionError("a value from memory is printed with the rest of its block")
        case _:
            assert_never(mode)


def _unrolling(mode: ir.Seq) -> str:
    match mode.unroll:
        case None:
            return ""
        case 0 | 1:
            return f", unroll={mode.unroll == 0}"
        case count:
            return f", unroll={count}"


def _launch(stmt: ir.DeviceFunction) -> str:
    rest = ", dependent=True" if stmt.dependent else ""
    rest += f", minBlocks={stmt.min_blocks}" if stmt.min_blocks > 1 else ""
    if [g.name for g in stmt.warps] == [""]:
        return f"clusterDim={stmt.cluster_dim}, blockDim={stmt.block_dim}{rest}"
    groups = ", ".join(_warps(g) for g in stmt.warps)
    return f"clusterDim={stmt.cluster_dim}, warp_config=[{groups}]{rest}"


def _warps(group: ir.WarpConfig) -> str:
    registers = f"{group.setmaxnreg_dec}, {group.setmaxnreg_inc}"
    return f"CudaWarpConfig({group.name!r}, {group.count}, {registers})"


def _simple(stmt: ir.Stmt, names: _Names) -> Iterator[str]:
    match stmt:
        case ir.CallProc():
            yield f"{stmt.proc.name}({', '.join(_arguments(stmt.arguments, names))})"
        case ir.CallInstr():
            yield _instr_call(stmt.instr, stmt.arguments, stmt.trailing, names)
        case ir.Assign():
            yield f"{render.access(stmt.target, names)} = {render.data(stmt.value, names)}"
        case ir.Reduce():
            yield f"{render.access(stmt.target, names)} += {render.data(stmt.value, names)}"
        case ir.WindowStmt():
            source = render.access(stmt.source, names)
            special = f" @ {stmt.special.name}" if stmt.special else ""
            yield f"{names.declare(stmt.name)} = {source}{special}"
        case ir.Alloc():
            shape = _shape(stmt.shape, names)
            yield f"{names.declare(stmt.name)}: {stmt.dtype.value}{shape} @ {stmt.memory.name}"
        case ir.BarrierAlloc():
            guard = f"({names(stmt.guard)})" if stmt.guard else ""
            shape = _shape(stmt.shape, names)
            declared = names.declare(stmt.name)
            yield f"{declared}: barrier{guard}{shape} @ {stmt.mechanism.value}"
        case ir.Free():
            by = "" if stmt.reused_by is None else f", {stmt.reused_by[2] or stmt.reused_by[:2]}"
            yield f"free({names(stmt.name)}{by})"
        case ir.Fence():
            yield f"Fence({stmt.pre.name}, {stmt.post.name})"
        case ir.Arrive():
            targets = " >> ".join(render.access(t, names) for t in stmt.targets)
            yield f"Arrive({stmt.timeline.name}) >> {targets}"
        case ir.Await():
            n = str(stmt.n) if stmt.n >= 0 else f"~{-stmt.n - 1}"
            yield f"Await({render.access(stmt.barrier, names)}, {stmt.timeline.name}, {n})"
        case ir.Uninit():
            yield f"uninit({render.access(stmt.access, names)})"
        case ir.Pass():
            yield "pass"
        case ir.For() | ir.If() | ir.DeviceFunction() | ir.Warps():
            raise AssertionError("a block statement is not simple")
        case _:
            assert_never(stmt)


def _instr_call(
    instr: ir.Instr, arguments: tuple[ir.Argument, ...], trailing: ir.Access | None, names: _Names
) -> str:
    constants = [f"{n}={_constant(v)}" for n, v in instr.constants]
    call = f"{instr.name}({', '.join([*_arguments(arguments, names), *constants])})"
    return call if trailing is None else f"{call} >> {render.access(trailing, names)}"


def _arguments(arguments: tuple[ir.Argument, ...], names: _Names) -> list[str]:
    return [_argument(a, names) for a in arguments]


def _argument(argument: ir.Argument, names: _Names) -> str:
    match argument:
        case ir.Access():
            return render.access(argument, names)
        case ir.Const():
            return repr(argument.value)
        case _:
            return render.control(argument, names)


def _constant(value: object) -> str:
    match value:
        case DataType():
            return value.value
        case DataMemory() | CollUnit():
            return value.name
        case _:
            return repr(value)
