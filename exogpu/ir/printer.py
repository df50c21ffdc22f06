"""GPU IR as source text: what it prints parses back to the same IR."""

from __future__ import annotations

from collections.abc import Iterator
from typing import assert_never

from exogpu.ir import print_expressions as text
from exogpu.ir.names import Sym
from exogpu.ir.nodes import (
    Access,
    Alloc,
    Argument,
    Arrive,
    Assign,
    Await,
    BarrierAlloc,
    Block,
    CallInstr,
    CallProc,
    CExpr,
    Const,
    ControlParam,
    CudaTasks,
    CudaThreads,
    CVar,
    DataParam,
    DeviceFunction,
    Fence,
    For,
    Free,
    If,
    Instr,
    Loaded,
    LoopMode,
    Param,
    Pass,
    Point,
    Proc,
    Reduce,
    Seq,
    Slot,
    Stmt,
    Uninit,
    WarpConfig,
    Warps,
    WindowStmt,
)
from exogpu.ir.types import CollUnit, DataMemory, DataType
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


def print_proc(proc: Proc) -> str:
    """The procedure as source text, `@proc` included.

    Instructions, procedures and constants print by the names that their definitions have.
    """
    names = _Names()
    lines = ["@proc", f"def {_signature(proc, names)}:"]
    lines += [f"    assert {text.condition(p, names)}" for p in proc.preconditions]
    lines += [f"    assert {one.kind}({names(one.array)})" for one in proc.contracts]
    lines += _block(proc.body, names, 1)
    return "\n".join(lines) + "\n"


def print_signature(proc: Proc) -> str:
    """Prints the procedure's name and parameters as source text."""
    return _signature(proc, _Names())


def _signature(proc: Proc, names: _Names) -> str:
    params = ", ".join(_param(p, names) for p in _declared_first(proc.params, names))
    return f"{proc.name}({params})"


def print_stmt(stmt: Stmt) -> str:
    """One statement, with the blocks inside it, as source text."""
    return "\n".join(_stmt(stmt, _Names(), 0)) + "\n"


def _declared_first(params: tuple[Param, ...], names: _Names) -> tuple[Param, ...]:
    for param in params:
        names.declare(param.name)
    return params


def _param(param: Param, names: _Names) -> str:
    match param:
        case ControlParam():
            return f"{names(param.name)}: {param.kind}"
        case DataParam():
            where = param.window.name if param.window else param.memory.name
            shape = _shape(param.shape, names)
            return f"{names(param.name)}: {param.dtype.value}{shape} @ {where}"
        case _:
            assert_never(param)


def _shape(shape: tuple[CExpr, ...], names: _Names) -> str:
    return f"[{', '.join(text.control(e, names) for e in shape)}]" if shape else ""


def _block(block: Block, names: _Names, depth: int) -> list[str]:
    names.push()
    lines = _lines(block, names, depth)
    names.pop()
    return lines


def _lines(block: Block, names: _Names, depth: int) -> list[str]:
    lines = [line for stmt in block for line in _stmt(stmt, names, depth)]
    return lines or ["    " * depth + "pass"]


def _stmt(stmt: Stmt, names: _Names, depth: int) -> list[str]:
    indent = "    " * depth
    match stmt:
        case For():
            if isinstance(stmt.mode, Slot) and _is_whole(stmt.body, stmt.iterator):
                return _slot(stmt, stmt.mode, names, depth)
            if isinstance(stmt.mode, Loaded):
                return _loaded(stmt, stmt.mode, names, depth)
            lo, hi = text.control(stmt.lo, names), text.control(stmt.hi, names)
            names.push()
            iterator = names.declare(stmt.iterator)
            head = f"for {iterator} in {_mode(stmt.mode, lo, hi, names)}:"
            lines = [indent + head, *_block(stmt.body, names, depth + 1)]
            names.pop()
            return lines
        case If():
            # What stands under a constant condition is read as if it stood without it.
            branch = _block if control_variables(stmt.condition) else _lines
            lines = [f"{indent}if {text.condition(stmt.condition, names)}:"]
            lines += branch(stmt.body, names, depth + 1)
            if stmt.orelse:
                lines += [f"{indent}else:", *branch(stmt.orelse, names, depth + 1)]
            return lines
        case DeviceFunction():
            head = f"with CudaDeviceFunction({_launch(stmt)}):"
            return [indent + head, *_block(stmt.body, names, depth + 1)]
        case Warps():
            name = f", name={stmt.group!r}" if stmt.group else ""
            head = f"with CudaWarps({stmt.lo}, {stmt.hi}{name}):"
            return [indent + head, *_block(stmt.body, names, depth + 1)]
        case _:
            return [indent + line for line in _simple(stmt, names)]


def _is_whole(body: Block, slot: Sym) -> bool:
    """Tests whether a slot is bound for one access or call alone, whose whole indices it is."""
    match body:
        case (For(mode=Slot()) as inner,):
            return _is_whole(inner.body, slot)
        case (Assign() | Reduce() | CallInstr() as only,):
            return all(
                coord == Point(CVar(slot)) or slot not in control_variables(bound)
                for access in accesses(only)
                for coord in access.coords
                for bound in ((coord.at,) if isinstance(coord, Point) else (coord.lo, coord.hi))
            )
        case _:
            return False


def _slot(stmt: For, mode: Slot, names: _Names, depth: int) -> list[str]:
    """The statement inside, with what its iterator stands for."""
    names.spell(stmt.iterator, f"slot({names(mode.barrier)})")
    return [line for inner in stmt.body for line in _stmt(inner, names, depth)]


def _loaded(stmt: For, mode: Loaded, names: _Names, depth: int) -> list[str]:
    """The statement that names the value, and the rest of the block."""
    lo, hi = text.control(stmt.lo, names), text.control(stmt.hi, names)
    call = f"load_index({text.access(mode.source, names)}, {lo}, {hi})"
    head = f"{'    ' * depth}{names.declare(stmt.iterator)} = {call}"
    return [head, *(line for inner in stmt.body for line in _stmt(inner, names, depth))]


def _mode(mode: LoopMode, lo: str, hi: str, names: _Names) -> str:
    match mode:
        case Seq():
            return f"seq({lo}, {hi}{_unrolling(mode)})"
        case CudaTasks():
            return f"cuda_tasks({lo}, {hi})"
        case CudaThreads():
            return f"cuda_threads({lo}, {hi}, unit={mode.unit.name})"
        case Slot():
            return f"slot({names(mode.barrier)}, {hi})"
        case Loaded():
            raise AssertionError("a value from memory is printed with the rest of its block")
        case _:
            assert_never(mode)


def _unrolling(mode: Seq) -> str:
    match mode.unroll:
        case None:
            return ""
        case 0 | 1:
            return f", unroll={mode.unroll == 0}"
        case count:
            return f", unroll={count}"


def _launch(stmt: DeviceFunction) -> str:
    rest = ", dependent=True" if stmt.dependent else ""
    rest += f", minBlocks={stmt.min_blocks}" if stmt.min_blocks > 1 else ""
    if [g.name for g in stmt.warps] == [""]:
        return f"clusterDim={stmt.cluster_dim}, blockDim={stmt.block_dim}{rest}"
    groups = ", ".join(_warps(g) for g in stmt.warps)
    return f"clusterDim={stmt.cluster_dim}, warp_config=[{groups}]{rest}"


def _warps(group: WarpConfig) -> str:
    registers = f"{group.setmaxnreg_dec}, {group.setmaxnreg_inc}"
    return f"CudaWarpConfig({group.name!r}, {group.count}, {registers})"


def _simple(stmt: Stmt, names: _Names) -> Iterator[str]:
    match stmt:
        case CallProc():
            yield f"{stmt.proc.name}({', '.join(_arguments(stmt.arguments, names))})"
        case CallInstr():
            yield _instr_call(stmt.instr, stmt.arguments, stmt.trailing, names)
        case Assign():
            yield f"{text.access(stmt.target, names)} = {text.data(stmt.value, names)}"
        case Reduce():
            yield f"{text.access(stmt.target, names)} += {text.data(stmt.value, names)}"
        case WindowStmt():
            source = text.access(stmt.source, names)
            special = f" @ {stmt.special.name}" if stmt.special else ""
            yield f"{names.declare(stmt.name)} = {source}{special}"
        case Alloc():
            shape = _shape(stmt.shape, names)
            yield f"{names.declare(stmt.name)}: {stmt.dtype.value}{shape} @ {stmt.memory.name}"
        case BarrierAlloc():
            guard = f"({names(stmt.guard)})" if stmt.guard else ""
            shape = _shape(stmt.shape, names)
            declared = names.declare(stmt.name)
            yield f"{declared}: barrier{guard}{shape} @ {stmt.mechanism.value}"
        case Free():
            yield f"free({names(stmt.name)})"
        case Fence():
            yield f"Fence({stmt.pre.name}, {stmt.post.name})"
        case Arrive():
            targets = " >> ".join(text.access(t, names) for t in stmt.targets)
            yield f"Arrive({stmt.timeline.name}) >> {targets}"
        case Await():
            n = str(stmt.n) if stmt.n >= 0 else f"~{-stmt.n - 1}"
            yield f"Await({text.access(stmt.barrier, names)}, {stmt.timeline.name}, {n})"
        case Uninit():
            yield f"uninit({text.access(stmt.access, names)})"
        case Pass():
            yield "pass"
        case For() | If() | DeviceFunction() | Warps():
            raise AssertionError("a block statement is not simple")
        case _:
            assert_never(stmt)


def _instr_call(
    instr: Instr, arguments: tuple[Argument, ...], trailing: Access | None, names: _Names
) -> str:
    constants = [f"{n}={_constant(v)}" for n, v in instr.constants]
    call = f"{instr.name}({', '.join([*_arguments(arguments, names), *constants])})"
    return call if trailing is None else f"{call} >> {text.access(trailing, names)}"


def _arguments(arguments: tuple[Argument, ...], names: _Names) -> list[str]:
    return [_argument(a, names) for a in arguments]


def _argument(argument: Argument, names: _Names) -> str:
    match argument:
        case Access():
            return text.access(argument, names)
        case Const():
            return repr(argument.value)
        case _:
            return text.control(argument, names)


def _constant(value: object) -> str:
    match value:
        case DataType():
            return value.value
        case DataMemory() | CollUnit():
            return value.name
        case _:
            return repr(value)
