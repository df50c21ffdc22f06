"""Primitives between calls and bodies: a call becomes its body, statements become a procedure."""

from __future__ import annotations

from collections.abc import Iterable, Iterator
from dataclasses import replace

from exogpu.analysis.inline import compose
from exogpu.hw.language import LANGUAGE
from exogpu.ir.names import Sym
from exogpu.ir.nodes import (
    Access,
    Alloc,
    Argument,
    BExpr,
    Block,
    CallInstr,
    CallProc,
    CExpr,
    Compare,
    Const,
    ControlParam,
    CVar,
    DataParam,
    DeviceFunction,
    For,
    If,
    Int,
    Interval,
    Not,
    Param,
    Proc,
)
from exogpu.ir.walk import control_variables, substitute, substitute_bool, walk
from exogpu.result.errors import Diagnostic, ExoGpuError
from exogpu.schedule.control import tidy_access
from exogpu.schedule.cursors import find
from exogpu.schedule.primitive import Unfit, named, path_of, primitive, several_of
from exogpu.schedule.procedures import P, with_ir
from exogpu.schedule.rewrite import (
    Path,
    Rewrite,
    around,
    begun,
    copied,
    splice,
    stmt_at,
)
from exogpu.schedule.scopes import declared, names_in
from exogpu.schedule.storage import data_scope


@primitive
def inline(proc: Proc, call: object) -> Iterator[Rewrite]:
    """Write the body in the place of a call, its variables renamed.

    cleared(4, x[8:12])    ->    for i in seq(0, 4):
                                     x[8 + i] = 0
    """
    path = path_of(proc, call)
    old = stmt_at(proc, path)
    if not isinstance(old, CallInstr | CallProc):
        raise Unfit("the cursor is at no call", old)
    edit = begun(proc)
    splice(edit, path, 1, _body(edit, old))
    yield edit


def _body(edit: Rewrite, call: CallInstr | CallProc) -> Block:
    """The body of what is called, with the arguments in the place of its parameters."""
    callee = call.instr if isinstance(call, CallInstr) else call.proc
    control: dict[Sym, CExpr] = {}
    windows: dict[Sym, Access] = {}
    for param, argument in zip(callee.params, call.arguments, strict=True):
        match argument:
            case Access():
                windows[param.name] = argument
            case Const():
                raise Unfit(f"{param.name.name} is given a constant", call)
            case _:
                control[param.name] = argument

    def opened(access: Access) -> Access:
        window = windows.get(access.name)
        if window is None:
            return access
        coords = compose(window.coords, access.coords)
        return tidy_access(replace(access, name=window.name, coords=coords))

    made = begun(edit.old)
    body = copied(made, callee.body, control, access=opened)
    for stmt in walk(body):
        edit.followed[stmt] = call
        origin = made.origins.get(stmt)
        if origin is not None:
            assert isinstance(origin, tuple)
            images = tuple(replace(one, old=call, inside=(one.old, *one.inside)) for one in origin)
            edit.origins[stmt] = images
    return body


@primitive
def extract_subproc(proc: Proc, block: object, name: str, count: int = 1) -> Iterator[Rewrite]:
    """Make a procedure of statements, and call it: `callee(p, name)` is the new one.

    for i in seq(0, n):    ->    cleared(n, x[0:n])
        x[i] = 0

    `count` statements, from the one given on, or those of a cursor.  Its parameters are what they
    use; iterators are of kind `index`, with preconditions that say their range.
    """
    path, stmts = several_of(proc, block, count)
    if any(isinstance(stmt, DeviceFunction) for stmt in around(proc, path)):
        raise Unfit("a kernel calls no procedures", stmts[0])
    if name in _shadowing_names(proc):
        raise Unfit(f"{name} is the name of something else", stmts[0], "choose another name")
    data, control = _used(proc, path, stmts)
    fresh = _told_apart((*control, *data))
    values: dict[Sym, CExpr] = {old: CVar(fresh[old]) for old in control}
    edit, made = begun(proc), begun(proc)
    body = copied(
        made,
        stmts,
        values,
        access=lambda access: replace(access, name=fresh.get(access.name, access.name)),
        said={},
    )
    sizes = {p.name: p for p in proc.params if isinstance(p, ControlParam)}
    params: list[Param] = [
        ControlParam(fresh[old], sizes[old].kind if old in sizes else "index") for old in control
    ]
    for old, declaration in data.items():
        shape = tuple(substitute(extent, values) for extent in declaration.shape)
        params.append(DataParam(fresh[old], declaration.dtype, shape, declaration.memory))
    conditions = tuple(substitute_bool(c, values) for c in _conditions(proc, path, control))
    sub = Proc(named(name).name, tuple(params), conditions, body, proc.span)
    arguments: list[Argument] = [CVar(old) for old in control]
    for old, declaration in data.items():
        whole = tuple(Interval(Int(0), extent) for extent in declaration.shape)
        arguments.append(Access(old, whole))
    call = CallProc(sub, tuple(arguments), span=stmts[0].span)
    edit.followed[call] = stmts[0]
    for stmt in walk(body):
        origin = made.origins.get(stmt)
        if isinstance(origin, tuple):
            edit.inner[call, stmt] = origin
    splice(edit, path, len(stmts), (call,))
    yield edit


def _shadowing_names(proc: Proc) -> frozenset[str]:
    """The names of which a call would be read as one of something else."""
    variables = (*(p.name for p in proc.params), *declared(proc.body))
    calls = [stmt for stmt in walk(proc.body) if isinstance(stmt, CallInstr | CallProc)]
    called = {s.instr.name if isinstance(s, CallInstr) else s.proc.name for s in calls}
    return frozenset({proc.name, *called, *LANGUAGE, *(name.name for name in variables)})


def _told_apart(names: Iterable[Sym]) -> dict[Sym, Sym]:
    """New variables for these, of which no two are spelt alike: a call names its parameters."""
    fresh: dict[Sym, Sym] = {}
    taken: set[str] = set()
    for old in names:
        spelled, number = old.name, 0
        while spelled in taken:
            number += 1
            spelled = f"{old.name}_{number}"
        taken.add(spelled)
        fresh[old] = Sym(spelled)
    return fresh


def _used(
    proc: Proc, path: Path, stmts: Block
) -> tuple[dict[Sym, DataParam | Alloc], tuple[Sym, ...]]:
    """The data and control variables that statements take from outside, in order."""
    free = names_in(stmts) - set(declared(stmts))
    known = data_scope(proc, path)
    data = {name: known[name] for name in known if name in free}
    control = free - data.keys()
    for declaration in data.values():
        control |= {n for extent in declaration.shape for n in control_variables(extent)}
    loops = {s.iterator: s for s in around(proc, path) if isinstance(s, For)}
    params = {p.name for p in proc.params if isinstance(p, ControlParam)}
    if others := control - loops.keys() - params:
        other = min(others, key=lambda s: s.number)
        raise Unfit(f"{other.name} is a window or barrier: inline the window first", stmts[0])
    for iterator in reversed(loops):
        if iterator in control:
            loop = loops[iterator]
            control |= control_variables(loop.lo) | control_variables(loop.hi)
    ordered = (*(p.name for p in proc.params), *loops)
    return data, tuple(name for name in ordered if name in control)


def _conditions(proc: Proc, path: Path, control: tuple[Sym, ...]) -> Iterator[BExpr]:
    """Yields the conditions that hold at a statement."""
    known = frozenset(control)
    for condition in proc.preconditions:
        if control_variables(condition) <= known:
            yield condition
    for depth, stmt in enumerate(around(proc, path), 1):
        match stmt:
            case For() if stmt.iterator in known:
                yield Compare("<=", stmt.lo, CVar(stmt.iterator))
                yield Compare("<", CVar(stmt.iterator), stmt.hi)
            case If() if control_variables(stmt.condition) <= known:
                yield stmt.condition if path[depth][0] == "body" else Not(stmt.condition)
            case _:
                pass


def callee(procedure: P, call: str) -> P:
    """The procedure that a call calls, found by its name or a pattern."""
    stmt = find(procedure, call).stmt
    if not isinstance(stmt, CallProc):
        help_ = "find a call of a procedure by its name"
        raise ExoGpuError([Diagnostic("X991", f"{call} is no such call", stmt.span, help_)])
    return with_ir(procedure, stmt.proc)
