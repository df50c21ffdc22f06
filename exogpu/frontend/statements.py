"""Reading statements: one function a form; a refused statement is reported and skipped."""

from __future__ import annotations

import ast
from collections.abc import Iterable, Sequence
from dataclasses import replace
from itertools import islice
from typing import Final

from exogpu.diagnostics.errors import Note
from exogpu.frontend import data as frontend_data
from exogpu.frontend import declarations, scope
from exogpu.frontend.calls import call
from exogpu.frontend.control import condition, control
from exogpu.frontend.data import access, check_value, data
from exogpu.frontend.declarations import BarrierAnnotation, annotation
from exogpu.frontend.fragment_loops import HEAD, fragment_loop
from exogpu.frontend.limits import STATEMENTS
from exogpu.frontend.load_index import is_load, load
from exogpu.frontend.loops import LOOPS, device_function, loop, warps
from exogpu.frontend.macros import Macro, expanded
from exogpu.frontend.minimum_cases import in_cases
from exogpu.frontend.slot_index import slot_loop, with_slots
from exogpu.frontend.suggestions import closest_name, no_statement
from exogpu.frontend.synchronisation import arrive, await_, fence
from exogpu.ir import nodes as ir
from exogpu.ir.types import FLOATS, INDICES, SpecialWindow, Sym

UNROLLED: Final = 65_536
"""Iterations of a Python loop that are written out."""


def block(nodes: Sequence[ast.stmt], ctx: scope.Context) -> ir.Block:
    """The statements of a block, in a scope of their own."""
    with ctx.scope():
        return statements(nodes, ctx)


def statements(nodes: Iterable[ast.stmt], ctx: scope.Context) -> ir.Block:
    """The statements, in the scope that is open."""
    found: list[ir.Stmt] = []
    waiting = iter(nodes)
    for node in waiting:
        ctx.reading.seen[node] += 1
        try:
            if is_load(node, ctx):
                loaded = load(node, lambda: statements(waiting, ctx), ctx)
                found.extend(in_cases((loaded,), node, ctx))
            else:
                found.extend(statement(node, ctx))
        except scope.Reject as refusal:
            ctx.give_up(refusal)
            _break_names(node, ctx)
    return tuple(found)


def _break_names(node: ast.stmt, ctx: scope.Context) -> None:
    match node:
        case ast.AnnAssign(target=ast.Name(id=name)):
            ctx.declare(name, scope.Broken())
        case ast.Assign(targets=[ast.Name(id=name)]) if ctx.lookup(name) is None:
            ctx.declare(name, scope.Broken())
        case _:
            pass


def statement(node: ast.stmt, ctx: scope.Context) -> ir.Block:
    """The IR of one Python statement; several for an unrolled loop, none for a dead `if`."""
    if isinstance(node, ast.Assign | ast.AugAssign | ast.Expr):
        return in_cases(with_slots(node, ctx, lambda: _statement(node, ctx)), node, ctx)
    return in_cases(_statement(node, ctx), node, ctx)


def _statement(node: ast.stmt, ctx: scope.Context) -> ir.Block:
    span = ctx.source.span(node)
    match node:
        case ast.Pass():
            return (ir.Pass(span=span),)
        case ast.Expr(value=ast.Constant(value=str())):
            ctx.reading.dissolved[node] += 1
            return ()
        case ast.AnnAssign():
            return _declare(node, ctx)
        case ast.Assign(targets=[target]):
            if isinstance(target, ast.Name) and ctx.lookup(target.id) is None:
                if _is_control(node.value, ctx):
                    ctx.declare(target.id, scope.Formula(control(node.value, ctx)))
                    ctx.reading.dissolved[node] += 1
                    return ()
                if (number := _whole_number(node.value, ctx)) is not None:
                    ctx.declare(target.id, scope.Constant(number))
                    ctx.reading.dissolved[node] += 1
                    return ()
                return (_window(target.id, node, ctx),)
            written, meaning = frontend_data.element(target, ctx)
            return (_assignment(written, meaning, node.value, node, ctx),)
        case ast.AugAssign(op=ast.Add()):
            written, meaning = frontend_data.element(node.target, ctx)
            value, dtype = data(node.value, ctx)
            _same_kind(meaning, dtype, node, ctx)
            check_value(value, meaning, node, ctx, adds=True)
            return (ir.Reduce(written, value, span=span),)
        case ast.AugAssign():
            raise ctx.reject(
                "P112", "only += reduces", node, "write x = x op e, or x += -e for a subtraction"
            )
        case ast.If():
            return _if(node, ctx)
        case ast.For():
            return _for_loop(node, ctx)
        case ast.With():
            return _with_block(node, ctx)
        case ast.Expr():
            return _expression(node, ctx)
        case ast.Delete():
            raise _no_free(node, ctx)
        case ast.Assert():
            raise ctx.reject(
                "P113",
                "a precondition stands after the first statement",
                node,
                "move the assert to the top of the procedure",
            )
        case _:
            keyword, remedy = no_statement(node)
            raise ctx.reject("P114", f"{keyword} is not a statement of the language", node, remedy)


def _no_free(node: ast.AST, ctx: scope.Context) -> scope.Reject:
    return ctx.reject(
        "S307",
        "variables are not freed by hand",
        node,
        "remove this: lifetimes end by themselves",
    )


def _declare(node: ast.AnnAssign, ctx: scope.Context) -> ir.Block:
    """`x: f32[4] @ Memory`, or `v: f32 = e`, which declares one element and assigns it."""
    if not isinstance(node.target, ast.Name):
        raise ctx.reject("P115", "a declaration is of one name", node, "declare, then assign")
    if node.value is not None and _is_control(node.value, ctx):
        what = f"{node.target.id} = {ast.unparse(node.value)}"
        remedy = f"a control value has no type: write {what}"
        raise ctx.reject("P115", "a declaration has a control value", node, remedy)
    name, span = Sym(node.target.id), ctx.source.span(node)
    found = annotation(node.annotation, ctx)
    if node.value is not None and (isinstance(found, BarrierAnnotation) or found.shape):
        remedy = "declare it, then assign one element after the other"
        raise ctx.reject("P115", "a declaration with a value is of one element", node, remedy)
    if isinstance(found, BarrierAnnotation):
        declarations.barrier_alloc(found.mechanism, node, ctx)
        ctx.declare(node.target.id, scope.Barrier(name, found.shape, found.mechanism, span))
        return (ir.BarrierAlloc(name, found.shape, found.mechanism, found.guard, span=span),)
    memory = declarations.alloc_memory(found, node, ctx)
    meaning = scope.Data(name, found.dtype, found.shape, memory, None, span)
    made: ir.Block = (ir.Alloc(name, found.dtype, found.shape, memory, span=span),)
    if node.value is not None:
        target, value = ir.Access(name, (), span), node.value
        made += with_slots(node, ctx, lambda: (_assignment(target, meaning, value, node, ctx),))
        ctx.reading.dissolved[node] -= 1  # one statement more has its place
    ctx.declare(node.target.id, meaning)
    return made


def _assignment(
    target: ir.Access, meaning: scope.Data, value: ast.expr, node: ast.stmt, ctx: scope.Context
) -> ir.Assign:
    """`x[c*] = e`"""
    read, dtype = data(value, ctx)
    _same_kind(meaning, dtype, node, ctx)
    check_value(read, meaning, node, ctx)
    return ir.Assign(target, read, span=ctx.source.span(node))


def _is_control(node: ast.expr, ctx: scope.Context) -> bool:
    """Tests whether an expression is made of control variables: it may have a name."""
    names = [ctx.lookup(n.id) for n in ast.walk(node) if isinstance(n, ast.Name)]
    mine = [meaning for meaning in names if not isinstance(meaning, scope.Constant | None)]
    return bool(mine) and all(
        isinstance(meaning, scope.Control | scope.Formula) for meaning in mine
    )


def _whole_number(node: ast.expr, ctx: scope.Context) -> int | None:
    """The integer that an expression of Python's values is: it may have a name."""
    if isinstance(node, ast.Name | ast.Subscript) or not ctx.is_python(node):
        return None
    value = ctx.evaluate(node)
    if isinstance(value, bool) or not isinstance(value, int):
        return None
    found = control(node, ctx)
    return found.value if isinstance(found, ir.Int) else None


def _window(name: str, node: ast.Assign, ctx: scope.Context) -> ir.WindowStmt:
    """`w = x[w*] @ special`, or a plain alias `w = x[w*]`, which is of more than one element."""
    made, meaning = _window_of(name, node.value, node, ctx)
    if not meaning.shape and made.special is None:
        raise _point(name, node, meaning, ctx)
    ctx.declare(name, meaning)
    return made


def _point(name: str, node: ast.Assign, meaning: scope.Data, ctx: scope.Context) -> scope.Reject:
    """The refusal of a window of one point (decision `point-window`)."""
    read = ast.unparse(node.value)
    remedy = f"write {name}: {meaning.dtype.value} = {read} to copy its value"
    match node.value:
        case ast.Subscript(value=base, slice=index):
            indices = index.elts if isinstance(index, ast.Tuple) else [index]
            *around, last = map(ast.unparse, indices)
            window = ", ".join((*around, f"{last} : {last} + 1"))
            remedy += f", or {name} = {ast.unparse(base)}[{window}] for a window of it"
            if meaning.dtype in INDICES:
                remedy += f"; as an index, {name} = load_index({read}, lo, hi)"
        case _:
            remedy += f", or use {read} itself"
    what = f"{name} = {read} reads as a copy, and would be another name of the element"
    return ctx.reject("P134", what, node, remedy)


def _window_of(
    name: str, source: ast.expr, node: ast.stmt | ast.expr, ctx: scope.Context
) -> tuple[ir.WindowStmt, scope.Data]:
    """A window, and what its name means."""
    special: SpecialWindow | None = None
    if isinstance(source, ast.BinOp) and isinstance(source.op, ast.MatMult):
        found = ctx.evaluate(source.right)
        if not isinstance(found, SpecialWindow):
            raise ctx.reject(
                "T217",
                f"{ast.unparse(source.right)} is not a special window type",
                source.right,
                "use Sm90_tensorMap(swizzle, *box)",
            )
        special, source = found, source.left
    if not isinstance(source, ast.Name | ast.Subscript):
        remedy = f"declare it first: {name}: f32"
        if ctx.is_python(source):
            ctx.evaluate(source)  # what it does not know itself is said first
            remedy += "; Python's numbers have their names outside of the procedure"
        raise ctx.reject("P102", f"name '{name}' is not defined", node, remedy)
    window, meaning = access(source, ctx)
    if not isinstance(meaning, scope.Data) or meaning.window is not None:
        problem, remedy = f"{meaning.name} cannot be windowed", "make windows of data variables"
        if isinstance(meaning, scope.Data):
            problem = f"{meaning.name} is a tensor map, of which no window has a name"
            remedy = f"pass {meaning.name}[...] to the instruction that copies it"
        raise ctx.reject(
            "T218",
            problem,
            node,
            remedy,
            Note("declared here", meaning.span),
        )
    declarations.window(meaning, special, node, ctx)
    shape = tuple(
        declarations.extent(c, ctx.source.span(node))
        for c in window.coords
        if isinstance(c, ir.Interval)
    )
    alias = Sym(name)
    span = ctx.source.span(node)
    assert all(isinstance(c, ir.Point | ir.Interval) for c in window.coords)
    named = replace(meaning, name=alias, shape=shape, window=special, span=span)
    return ir.WindowStmt(alias, window, special, span=span), named


def _same_kind(target: scope.Data, dtype: object, node: ast.stmt, ctx: scope.Context) -> None:
    declarations.scalar_statement(target, node, ctx)
    if dtype is not None and (target.dtype in FLOATS) != (dtype in FLOATS):
        raise ctx.reject(
            "T210",
            f"a value of another kind is stored in {target.name}, which is {target.dtype.value}",
            node,
            f"convert it, which CUDA C++ does silently: {target.dtype.value}(...)",
            Note("declared here", target.span),
        )


def _if(node: ast.If, ctx: scope.Context) -> ir.Block:
    test = condition(node.test, ctx)
    if isinstance(test, ir.Truth):
        taken, dead = (node.body, node.orelse) if test.value else (node.orelse, node.body)
        ctx.reading.dissolved[node] += 1
        ctx.reading.left_out.update(dead)
        return statements(taken, ctx)
    body = block(node.body, ctx)
    orelse = block(node.orelse, ctx)
    return (ir.If(test, body, orelse, span=ctx.source.span(node)),)


def _for_loop(node: ast.For, ctx: scope.Context) -> ir.Block:
    match node.iter:
        case ast.Call(func=ast.Name(id=name)) if name == HEAD and ctx.lookup(name) is None:
            return (fragment_loop(node, lambda: block(node.body, ctx), ctx),)
        case _:
            pass
    several = isinstance(node.target, ast.Tuple | ast.List)
    if node.orelse or not (several or isinstance(node.target, ast.Name)):
        raise ctx.reject(
            "P116", "a loop has one iterator and no else", node, "write for i in seq(lo, hi)"
        )
    if several and isinstance(node.iter, ast.Call) and _is_loop(node.iter.func):
        raise ctx.reject("P116", "a loop has one iterator", node.target, "nest a loop for each")
    if isinstance(node.iter, ast.Call) and isinstance(node.iter.func, ast.Name) and not several:
        bound = slot_loop(node, lambda: block(node.body, ctx), ctx)
        if bound is not None:
            return (bound,)
        made = loop(node, node.iter.func.id, lambda: block(node.body, ctx), ctx)
        if made is not None:
            return (made,)
    if not ctx.is_python(node.iter):
        remedy = "use seq(lo, hi), cuda_tasks(lo, hi) or cuda_threads(lo, hi, unit=...)"
        match node.iter:
            case ast.Call(func=ast.Name(id="range"), args=[hi]):
                remedy = f"write seq(0, {ast.unparse(hi)}): range is Python's, and unrolled"
            case ast.Call(func=ast.Name(id=name)) if close := closest_name(name, LOOPS):
                remedy = f"did you mean {close}? {remedy}"
            case _:
                pass
        what = f"{ast.unparse(node.iter)} is not a loop of the language"
        raise ctx.reject("P117", what, node.iter, remedy)
    return _unroll(node, ctx)


def _is_loop(node: ast.expr) -> bool:
    return isinstance(node, ast.Name) and node.id in LOOPS


def _bind(target: ast.expr, value: object, ctx: scope.Context) -> None:
    """The names of an unrolled loop, of which there may be several: `for i, d in enumerate(ds)`."""
    if isinstance(target, ast.Name):
        ctx.declare(target.id, scope.Constant(value))
        return
    several = isinstance(target, ast.Tuple | ast.List)
    parts = _items(value)
    if not isinstance(target, ast.Tuple | ast.List) or not isinstance(parts, tuple):
        what = f"{value!r} is no tuple" if several else f"{ast.unparse(target)} is no name"
        raise ctx.reject("P116", what, target, "give as many names as each value has parts")
    if len(parts) != len(target.elts):
        what = f"{len(target.elts)} names are given for {len(parts)} values"
        raise ctx.reject("P116", what, target, "give as many names as each value has parts")
    for one, part in zip(target.elts, parts, strict=True):
        _bind(one, part, ctx)


def _items(value: object) -> object:
    """The values of an iterable, up to one more than are unrolled."""
    return tuple(islice(value, UNROLLED + 1)) if isinstance(value, Iterable) else value


def _unroll(node: ast.For, ctx: scope.Context) -> ir.Block:
    values = ctx.evaluate(node.iter, _items)
    if not isinstance(values, tuple):
        raise ctx.reject(
            "P117",
            f"{ast.unparse(node.iter)} is not a loop of the language, nor a Python iterable",
            node.iter,
            "use seq(lo, hi), cuda_tasks(lo, hi) or cuda_threads(lo, hi, unit=...)",
        )
    if len(values) > UNROLLED:
        raise ctx.reject(
            "P117",
            f"this loop is unrolled more than {UNROLLED:,} times",
            node.iter,
            "write a loop of the language, seq(lo, hi), which is not unrolled",
        )
    ctx.reading.dissolved[node] += 1
    ctx.reading.left_out.update(node.body)
    found: list[ir.Stmt] = []
    for value in values:
        if ctx.reading.seen.total() > STATEMENTS:
            raise ctx.reject(
                "P132",
                f"with its loops unrolled the procedure has more than {STATEMENTS:,} statements",
                node,
                "write a loop of the language, seq(lo, hi), which is not unrolled",
            )
        with ctx.scope():
            _bind(node.target, value, ctx)
            found.extend(statements(node.body, ctx))
    return tuple(found)


def _with_block(node: ast.With, ctx: scope.Context) -> ir.Block:
    match node.items:
        case [ast.withitem(context_expr=ast.Call(func=ast.Name(id=name)) as head)]:
            if name == "CudaDeviceFunction":
                return (device_function(node, head, lambda: block(node.body, ctx), ctx),)
            if name == "CudaWarps":
                return (warps(node, head, lambda: block(node.body, ctx), ctx),)
        case _:
            pass
    raise ctx.reject(
        "P118",
        "this with-block is not in the language",
        node.items[0].context_expr,
        "use CudaDeviceFunction(...) or CudaWarps(lo, hi, name=...)",
    )


def _expression(node: ast.Expr, ctx: scope.Context) -> ir.Block:
    value = node.value
    targets: list[ast.expr] = []
    while isinstance(value, ast.BinOp) and isinstance(value.op, ast.RShift):
        targets.insert(0, value.right)
        value = value.left
    if not isinstance(value, ast.Call):
        raise ctx.reject("P119", "this expression has no effect", node, "assign it, or remove it")
    name = value.func.id if isinstance(value.func, ast.Name) else ""
    match name:
        case "Fence":
            return (fence(value, targets, node, ctx),)
        case "Arrive":
            return (arrive(value, targets, node, ctx),)
        case "Await":
            return (await_(value, targets, node, ctx),)
        case "uninit" if ctx.lookup(name) is None:
            return (_uninit(value, targets, node, ctx),)
        case "free":
            raise _no_free(node, ctx)
        case _:
            return _call(value, targets, node, ctx)


def _uninit(
    value: ast.Call, targets: list[ast.expr], node: ast.Expr, ctx: scope.Context
) -> ir.Uninit:
    """`uninit(x[w*])`"""
    if targets or value.keywords or len(value.args) != 1:
        remedy = "write uninit(x), or uninit(x[lo:hi]) of some elements"
        raise ctx.reject("P135", "uninit takes one window of a variable", node, remedy)
    window, meaning = access(value.args[0], ctx)
    if isinstance(meaning, scope.Barrier) or meaning.window is not None:
        raise ctx.reject(
            "P135",
            f"{meaning.name} has no elements that are read",
            node,
            "name a data variable that the procedure allocates",
            Note("declared here", meaning.span),
        )
    return ir.Uninit(window, span=ctx.source.span(node))


def _call(value: ast.Call, targets: list[ast.expr], node: ast.Expr, ctx: scope.Context) -> ir.Block:
    called = ctx.evaluate(value.func) if ctx.is_python(value.func) else None
    if not isinstance(called, Macro):
        return (call(called, value, targets, node, ctx),)
    if targets:
        raise ctx.reject("T220", "a macro signals no barrier", targets[0], "remove the >>")
    ctx.reading.dissolved[node] += 1

    return expanded(called, value, ctx, statements, _window_for_macro)


def _window_for_macro(
    name: str, node: ast.expr, ctx: scope.Context
) -> tuple[ir.WindowStmt | None, scope.Meaning]:
    """A window, or an element, that is passed to a macro."""
    found, meaning = access(node, ctx)
    element = all(isinstance(coord, ir.Point) for coord in found.coords)
    if isinstance(meaning, scope.Barrier) or meaning.window is not None or element:
        return None, scope.Part(found, meaning)
    return _window_of(name, node, node, ctx)
