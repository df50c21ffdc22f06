"""Primitives between calls and bodies: a call becomes its body, statements become a procedure."""

from __future__ import annotations

from collections.abc import Iterable, Iterator
from dataclasses import replace

from exogpu.analysis.inline import compose
from exogpu.diagnostics.errors import Diagnostic, ExoGpuError
from exogpu.hw.language import LANGUAGE
from exogpu.ir import nodes as ir
from exogpu.ir.types import Sym
from exogpu.ir.walk import control_variables, substitute, substitute_bool, walk
from exogpu.schedule import rewrite
from exogpu.schedule.cursors import find
from exogpu.schedule.derivations import P, with_ir
from exogpu.schedule.index_text import tidy_access
from exogpu.schedule.primitive import Unfit, new_variable, path_of, primitive, several_of
from exogpu.schedule.primitives.storage import data_scope
from exogpu.schedule.reparse import declared, names_in


@primitive
def inline(proc: ir.Proc, call: object) -> Iterator[rewrite.Rewrite]:
    """Write the body in the place of a call, its variables renamed.

    cleared(4, x[8:12])    ->    for i in seq(0, 4):
                                     x[8 + i] = 0
    """
    path = path_of(proc, call)
    old = rewrite.stmt_at(proc, path)
    if not isinstance(old, ir.CallInstr | ir.CallProc):
        raise Unfit("the cursor is at no call", old)
    edit = rewrite.unchanged_rewrite(proc)
    rewrite.splice(edit, path, 1, _body(edit, old))
    yield edit


def _body(edit: rewrite.Rewrite, call: ir.CallInstr | ir.CallProc) -> ir.Block:
    """The body of what is called, with the arguments in the place of its parameters."""
    callee = call.instr if isinstance(call, ir.CallInstr) else call.proc
    control: dict[Sym, ir.CExpr] = {}
    windows: dict[Sym, ir.Access] = {}
    for param, argument in zip(callee.params, call.arguments, strict=True):
        match argument:
            case ir.Access():
                windows[param.name] = argument
            case ir.Const():
                raise Unfit(f"{param.name.name} is given a constant", call)
            case _:
                control[param.name] = argument

    def open_window(access: ir.Access) -> ir.Access:
        window = windows.get(access.name)
        if window is None:
            return access
        coords = compose(window.coords, access.coords)
        return tidy_access(replace(access, name=window.name, coords=coords))

    made = rewrite.unchanged_rewrite(edit.old)
    body = rewrite.copied(made, callee.body, control, access=open_window)
    for stmt in walk(body):
        edit.followed[stmt] = call
        origin = made.origins.get(stmt)
        if origin is not None:
            assert isinstance(origin, tuple)
            images = tuple(replace(one, old=call, inside=(one.old, *one.inside)) for one in origin)
            edit.origins[stmt] = images
    return body


@primitive
def extract_subproc(
    proc: ir.Proc, block: object, name: str, count: int = 1
) -> Iterator[rewrite.Rewrite]:
    """Make a procedure of statements, and call it: `callee(p, name)` is the new one.

    for i in seq(0, n):    ->    cleared(n, x[0:n])
        x[i] = 0

    `count` statements, from the one given on, or those of a cursor.  Its parameters are what they
    use; iterators are of kind `index`, with preconditions that say their range.
    """
    path, stmts = several_of(proc, block, count)
    if any(
        isinstance(stmt, ir.DeviceFunction) for stmt in rewrite.enclosing_statements(proc, path)
    ):
        raise Unfit("a kernel calls no procedures", stmts[0])
    if name in _shadowing_names(proc):
        raise Unfit(f"{name} is the name of something else", stmts[0], "choose another name")
    data, control = _free_variables(proc, path, stmts)
    fresh = _told_apart((*control, *data))
    values: dict[Sym, ir.CExpr] = {old: ir.CVar(fresh[old]) for old in control}
    edit, made = rewrite.unchanged_rewrite(proc), rewrite.unchanged_rewrite(proc)
    body = rewrite.copied(
        made,
        stmts,
        values,
        access=lambda access: replace(access, name=fresh.get(access.name, access.name)),
        said={},
    )
    sizes = {p.name: p for p in proc.params if isinstance(p, ir.ControlParam)}
    params: list[ir.Param] = [
        ir.ControlParam(fresh[old], sizes[old].kind if old in sizes else "index") for old in control
    ]
    for old, declaration in data.items():
        shape = tuple(substitute(extent, values) for extent in declaration.shape)
        params.append(ir.DataParam(fresh[old], declaration.dtype, shape, declaration.memory))
    conditions = tuple(substitute_bool(c, values) for c in _conditions(proc, path, control))
    sub = ir.Proc(new_variable(name).name, tuple(params), conditions, body, proc.span)
    arguments: list[ir.Argument] = [ir.CVar(old) for old in control]
    for old, declaration in data.items():
        whole = tuple(ir.Interval(ir.Int(0), extent) for extent in declaration.shape)
        arguments.append(ir.Access(old, whole))
    call = ir.CallProc(sub, tuple(arguments), span=stmts[0].span)
    edit.followed[call] = stmts[0]
    for stmt in walk(body):
        origin = made.origins.get(stmt)
        if isinstance(origin, tuple):
            edit.inner[call, stmt] = origin
    rewrite.splice(edit, path, len(stmts), (call,))
    yield edit


def _shadowing_names(proc: ir.Proc) -> frozenset[str]:
    """The names of which a call would be read as one of something else."""
    variables = (*(p.name for p in proc.params), *declared(proc.body))
    calls = [stmt for stmt in walk(proc.body) if isinstance(stmt, ir.CallInstr | ir.CallProc)]
    called = {s.instr.name if isinstance(s, ir.CallInstr) else s.proc.name for s in calls}
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


def _free_variables(
    proc: ir.Proc, path: rewrite.Path, stmts: ir.Block
) -> tuple[dict[Sym, ir.DataParam | ir.Alloc], tuple[Sym, ...]]:
    """The data and control variables that statements take from outside, in order."""
    free = names_in(stmts) - set(declared(stmts))
    known = data_scope(proc, path)
    data = {name: known[name] for name in known if name in free}
    control = free - data.keys()
    for declaration in data.values():
        control |= {n for extent in declaration.shape for n in control_variables(extent)}
    loops = {
        s.iterator: s for s in rewrite.enclosing_statements(proc, path) if isinstance(s, ir.For)
    }
    params = {p.name for p in proc.params if isinstance(p, ir.ControlParam)}
    if others := control - loops.keys() - params:
        other = min(others, key=lambda s: s.number)
        raise Unfit(f"{other.name} is a window or barrier: inline the window first", stmts[0])
    for iterator in reversed(loops):
        if iterator in control:
            loop = loops[iterator]
            control |= control_variables(loop.lo) | control_variables(loop.hi)
    ordered = (*(p.name for p in proc.params), *loops)
    return data, tuple(name for name in ordered if name in control)


def _conditions(proc: ir.Proc, path: rewrite.Path, control: tuple[Sym, ...]) -> Iterator[ir.BExpr]:
    """Yields the conditions that hold at a statement."""
    known = frozenset(control)
    for condition in proc.preconditions:
        if control_variables(condition) <= known:
            yield condition
    for depth, stmt in enumerate(rewrite.enclosing_statements(proc, path), 1):
        match stmt:
            case ir.For() if stmt.iterator in known:
                yield ir.Compare("<=", stmt.lo, ir.CVar(stmt.iterator))
                yield ir.Compare("<", ir.CVar(stmt.iterator), stmt.hi)
            case ir.If() if control_variables(stmt.condition) <= known:
                yield stmt.condition if path[depth][0] == "body" else ir.Not(stmt.condition)
            case _:
                pass


def callee(procedure: P, call: str) -> P:
    """The procedure that a call calls, found by its name or a pattern."""
    stmt = find(procedure, call).stmt
    if not isinstance(stmt, ir.CallProc):
        help_ = "find a call of a procedure by its name"
        raise ExoGpuError([Diagnostic("X991", f"{call} is no such call", stmt.span, help_)])
    return with_ir(procedure, stmt.proc)
