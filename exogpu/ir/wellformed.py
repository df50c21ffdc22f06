"""Invariants of a procedure that every pass may rely on, as an executable specification.

`flaws` is no diagnostic for users: a flaw is a mistake of the pass that made the procedure.  Tests
ask it after every pass.
"""

from __future__ import annotations

from collections.abc import Iterator
from dataclasses import dataclass, field

from exogpu.ir import nodes as ir
from exogpu.ir.types import Sym
from exogpu.ir.walk import accesses, blocks, control_variables, walk


@dataclass(frozen=True, slots=True)
class _Scope:
    """The names visible at a statement."""

    controls: frozenset[Sym]
    ranks: dict[Sym, int] = field(default_factory=dict)
    """Dimensions of the data and windows, and of the barriers, that are declared."""
    barriers: frozenset[Sym] = frozenset()
    launched: bool = False


def flaws(proc: ir.Proc, *, inlined: bool = False) -> Iterator[str]:
    """Yields the reasons why a procedure is not well-formed; none if it is.

    Control variables are parameters or iterators around; data, windows and barriers are declared
    before, in a block around, once; accesses have as many coordinates as there are dimensions;
    barriers are synchronised with and not accessed; launches do not nest; what is freed is
    declared, not used after that in its block, and freed once.  After inlining there are neither
    calls of procedures nor windows but tensor maps.
    """
    controls = frozenset(p.name for p in proc.params if not isinstance(p, ir.DataParam))
    ranks = {p.name: len(p.shape) for p in proc.params if isinstance(p, ir.DataParam)}
    for contract in proc.contracts:
        if not ranks.get(contract.array):
            yield f"{contract.array} has a contract and is no parameter with elements"
        elif contract.kind == "monotone" and ranks[contract.array] != 1:
            yield f"{contract.array} is monotone and has not one dimension"
    for param in proc.params:
        for extent in param.shape if isinstance(param, ir.DataParam) else ():
            yield from _unknown(control_variables(extent), controls, f"extent of {param.name}")
    for condition in proc.preconditions:
        yield from _unknown(control_variables(condition), controls, "precondition")
    yield from _declared_twice(proc)
    yield from _in_block(proc.body, _Scope(controls, ranks), inlined=inlined)


def _declared_twice(proc: ir.Proc) -> Iterator[str]:
    seen = {param.name for param in proc.params}
    for stmt in walk(proc.body):
        name = None
        match stmt:
            case ir.For():
                name = stmt.iterator
            case ir.Alloc() | ir.BarrierAlloc() | ir.WindowStmt():
                name = stmt.name
        if name is not None and name in seen:
            yield f"{name} is declared twice"
        if name is not None:
            seen.add(name)


def _unknown(used: frozenset[Sym], known: frozenset[Sym], where: str) -> Iterator[str]:
    yield from (f"{where}: {name} is no control variable in scope" for name in used - known)


def _in_block(block: ir.Block, scope: _Scope, *, inlined: bool) -> Iterator[str]:
    freed: set[Sym] = set()
    here = _Scope(scope.controls, {**scope.ranks}, scope.barriers, scope.launched)
    for stmt in block:
        where = f"{type(stmt).__name__} at line {stmt.span.line}"
        for name in _names(stmt) & freed:
            yield f"{where}: {name} is used after it is freed"
        yield from (f"{where}: {flaw}" for flaw in _statement_flaws(stmt, here, inlined=inlined))
        match stmt:
            case ir.Alloc():
                here.ranks[stmt.name] = len(stmt.shape)
            case ir.WindowStmt():
                here.ranks[stmt.name] = _window_rank(stmt.source)
            case ir.BarrierAlloc():
                here.ranks[stmt.name] = len(stmt.shape)
                barriers = here.barriers | {stmt.name}
                here = _Scope(here.controls, here.ranks, barriers, here.launched)
            case ir.Free(reused_by=None):
                freed.add(stmt.name)
        for inner in blocks(stmt):
            controls, launched = here.controls, here.launched
            if isinstance(stmt, ir.For):
                controls |= {stmt.iterator}
            launched |= isinstance(stmt, ir.DeviceFunction)
            inside = _Scope(controls, here.ranks, here.barriers, launched)
            yield from _in_block(inner, inside, inlined=inlined)


def _window_rank(access: ir.Access) -> int:
    """Dimensions of a window: points leave none."""
    return sum(isinstance(coord, ir.Interval) for coord in access.coords)


def _names(stmt: ir.Stmt) -> set[Sym]:
    """The data, windows and barriers that a statement uses, or one inside it."""
    found = set()
    for one in walk((stmt,)):
        found |= {access.name for access in accesses(one)}
        if isinstance(one, ir.Free):
            found.add(one.name)
    return found


def _statement_flaws(stmt: ir.Stmt, scope: _Scope, *, inlined: bool) -> Iterator[str]:
    """Yields the flaws of a statement itself."""
    for access in accesses(stmt):
        yield from _access(access, scope)
    match stmt:
        case ir.For():
            used = control_variables(stmt.lo) | control_variables(stmt.hi)
            yield from _unknown(used, scope.controls, "bounds")
            if isinstance(stmt.mode, ir.Slot):
                yield from _slot(stmt, stmt.mode, scope)
            if isinstance(stmt.mode, ir.Loaded):
                yield from _load_flaws(stmt.mode, scope)
        case ir.If():
            yield from _unknown(control_variables(stmt.condition), scope.controls, "condition")
        case ir.Alloc() | ir.BarrierAlloc():
            for extent in stmt.shape:
                yield from _unknown(control_variables(extent), scope.controls, "extent")
        case ir.DeviceFunction() if scope.launched:
            yield "a launch inside a launch"
        case ir.Free() if stmt.name not in scope.ranks:
            yield f"{stmt.name} is freed and not declared"
        case ir.WindowStmt() if inlined and stmt.special is None:
            yield f"{stmt.name} is a window after inlining"
        case ir.CallProc():
            if inlined:
                yield f"{stmt.proc.name} is called after inlining"
            yield from _arguments(stmt.arguments, scope)
        case ir.CallInstr():
            yield from _arguments(stmt.arguments, scope)
        case ir.Assign() | ir.Reduce() if stmt.target.name in scope.barriers:
            yield f"{stmt.target.name}, a barrier, is written"
        case ir.Await() if stmt.barrier.name not in scope.barriers:
            yield f"{stmt.barrier.name} is awaited and no barrier"
        case ir.Arrive():
            if not stmt.targets:
                yield "an Arrive without barriers"
            for target in stmt.targets:
                if target.name not in scope.barriers:
                    yield f"{target.name} is arrived on and no barrier"


def _slot(stmt: ir.For, mode: ir.Slot, scope: _Scope) -> Iterator[str]:
    """Yields flaws in the binding of a slot: it counts, and nothing is counted in it."""
    if mode.barrier not in scope.barriers:
        yield f"{mode.barrier} has slots and is no barrier"
    if stmt.lo != ir.Int(0) or not isinstance(stmt.hi, ir.Int) or stmt.hi.value < 1:
        yield "a slot's bounds are no ring"
    for inner in walk(stmt.body):
        if isinstance(
            inner, ir.Arrive | ir.Await | ir.Fence | ir.Alloc | ir.BarrierAlloc | ir.Free
        ):
            yield f"{type(inner).__name__} inside the binding of a slot"


def _load_flaws(mode: ir.Loaded, scope: _Scope) -> Iterator[str]:
    """Yields flaws in a value from memory: it is one element of data, read in a launch."""
    if not scope.launched:
        yield f"{mode.source.name} is loaded outside of a launch"
    if mode.source.name in scope.barriers:
        yield f"{mode.source.name}, a barrier, is loaded"
    if not all(isinstance(coord, ir.Point) for coord in mode.source.coords):
        yield f"a window of {mode.source.name} is loaded"


def _access(access: ir.Access, scope: _Scope) -> Iterator[str]:
    if access.name not in scope.ranks:
        yield f"{access.name} is not declared here"
    elif len(access.coords) != scope.ranks[access.name]:
        yield f"{access.name} has {scope.ranks[access.name]} dimensions, not {len(access.coords)}"
    for coord in access.coords:
        for bound in (coord.at,) if isinstance(coord, ir.Point) else (coord.lo, coord.hi):
            yield from _unknown(
                control_variables(bound), scope.controls, f"access of {access.name}"
            )


def _arguments(arguments: tuple[ir.Argument, ...], scope: _Scope) -> Iterator[str]:
    for argument in arguments:
        if not isinstance(argument, ir.Access | ir.Const):
            yield from _unknown(control_variables(argument), scope.controls, "argument")
