"""Primitives that write calls in the place of statements."""

from __future__ import annotations

from collections.abc import Iterator, Mapping
from contextlib import suppress
from itertools import islice, product

from exogpu.diagnostics.errors import Diagnostic, ExoGpuError, Span
from exogpu.frontend.calls import HasProc, InstrTemplate
from exogpu.ir import nodes as ir
from exogpu.ir.walk import accesses, walk
from exogpu.schedule import rewrite
from exogpu.schedule.call_operands import Mismatch, real
from exogpu.schedule.checking.unify import Unified, unified
from exogpu.schedule.cursors import Cursor
from exogpu.schedule.derivations import P, chain, ir_of, rewritable
from exogpu.schedule.index_text import constant, control_scope, minus, read_control, read_window
from exogpu.schedule.primitive import Unfit, annotation, gap_of, path_of, primitive
from exogpu.schedule.primitives.storage import data_scope
from exogpu.schedule.reparse import dtypes

TRIES = 400
"""Choices of compile-time parameters that are tried."""


@primitive
def replace(
    proc: ir.Proc, /, block: object, callee: object, **constants: object
) -> Iterator[rewrite.Rewrite]:
    """Write a call in the place of statements that are the body of an instruction or procedure.

    for i in seq(0, 4):
        a[i] = x[8 * t + i]    ->    cuda_load(a[0:4], x[8 * t : 8 * t + 4])

    As many statements as the body has, from the one given on.  Operands are windows of what the
    statements access, without the dimensions in which they stay; control parameters follow from
    bounds and guards; a guard that only the body has always holds.  Sides of sums and products may
    be exchanged.  `constants` are compile-time parameters of an instruction; for those not given
    what fits is looked for.
    """
    path = path_of(proc, block)
    first: Mismatch | None = None
    made, name = False, ""
    for candidate in _candidates(proc, path, callee, constants):
        try:
            edit = _replace_by_call(proc, path, candidate)
        except Mismatch as mismatch:
            first, name = first or mismatch, name or candidate.name
            continue
        made = True
        yield edit
    if not made and first is not None:
        stmt = first.program or rewrite.stmt_at(proc, path)
        remedy = "bring the statements into the form of the body first"
        raise Unfit(first.side_by_side(name), stmt, remedy)


def replace_all(procedure: P, callee: object, /, **constants: object) -> P:
    """Write a call wherever statements are the body of an instruction or procedure, in order.

    Each call is a step of its own, made by `replace`.  Raises ExoGpuError (X991) where none is.
    """
    if isinstance(callee, InstrTemplate):
        callee = callee.instantiate(constants)
    made, at = procedure, 0
    while at < len(places := list(rewrite.paths(ir_of(made)))):
        path, stmt = places[at]
        at += 1
        if isinstance(stmt, ir.For | ir.If | ir.Assign | ir.Reduce):
            with suppress(ExoGpuError):
                made = replace(made, Cursor(made, path), callee)
    if made is procedure:
        message = "replace_all: no statements are such a call"
        remedy = "try `replace` on statements, which says what differs"
        raise ExoGpuError([Diagnostic("X991", message, ir_of(procedure).span, remedy)])
    return made


def _replace_by_call(
    proc: ir.Proc, path: rewrite.Path, callee: ir.Proc | ir.Instr
) -> rewrite.Rewrite:
    """The call that the statements are.  Raises Mismatch."""
    at = path[-1][1]
    stmts = rewrite.block_at(proc, path)[at : at + len(real(callee.body))]
    found = unified(proc, stmts, callee)
    edit = rewrite.unchanged_rewrite(proc)
    rewrite.splice(edit, path, len(stmts), (made_call(edit, stmts, callee, found),))
    return edit


def call_of(
    callee: ir.Proc | ir.Instr, arguments: tuple[ir.Argument, ...], span: Span
) -> ir.CallInstr | ir.CallProc:
    """A call with those arguments."""
    if isinstance(callee, ir.Instr):
        return ir.CallInstr(callee, arguments, span=span)
    return ir.CallProc(callee, arguments, span=span)


def made_call(
    edit: rewrite.Rewrite, stmts: ir.Block, callee: ir.Proc | ir.Instr, found: Unified
) -> ir.CallInstr | ir.CallProc:
    """The call, of which each statement of the body is one of `stmts`."""
    call = call_of(callee, found.arguments, stmts[0].span)
    edit.followed[call] = stmts[0]
    for one in found.same:
        edit.inner[call, one.body] = (rewrite.Image(one.program, one.at, reads=one.reads),)
    return call


def _candidates(
    proc: ir.Proc, path: rewrite.Path, callee: object, constants: Mapping[str, object]
) -> Iterator[ir.Proc | ir.Instr]:
    """Yields the procedures or instructions that a call may name, the most likely first. Raises
    Unfit."""
    match callee:
        case ir.Instr() | ir.Proc():
            yield callee
        case HasProc():
            if callee.ir is None:
                raise Unfit("the procedure is ill-formed")
            yield rewritable(callee.ir)
        case InstrTemplate():
            yield from _instructions(proc, path, callee, constants)
        case _:
            raise Unfit(f"{callee!r} is neither an instruction nor a procedure")


def _instructions(
    proc: ir.Proc, path: rewrite.Path, template: InstrTemplate, constants: Mapping[str, object]
) -> Iterator[ir.Instr]:
    """The instruction with the parameters given, then with those that the statements suggest."""
    refusal: ExoGpuError | None = None
    try:
        yield template.instantiate(constants)
    except ExoGpuError as error:
        refusal = error
    open_ = [name for name in template.constant_names if name not in constants]
    suggested = list(_suggested(proc, path))
    tried = False
    for values in islice(product([None, *suggested], repeat=len(open_)), 1, TRIES):
        chosen = {n: v for n, v in zip(open_, values, strict=True) if v is not None}
        try:
            instr = template.instantiate({**constants, **chosen})
        except ExoGpuError:
            continue
        tried = True
        yield instr
    if refusal is not None and not tried:
        raise Unfit(refusal.diagnostics[0].message, rewrite.stmt_at(proc, path))


def _suggested(proc: ir.Proc, path: rewrite.Path) -> Iterator[object]:
    """Constant counts of loops, and data types, from a statement on."""
    known = dtypes(proc)
    found: dict[object, None] = {}
    for stmt in walk(rewrite.block_at(proc, path)[path[-1][1] :]):
        if isinstance(stmt, ir.For) and (count := constant(minus(stmt.hi, stmt.lo))) is not None:
            found[count] = None
        found |= {known[a.name]: None for a in accesses(stmt) if a.name in known}
    yield from found


@primitive
def call_eqv(proc: ir.Proc, call: object, other: object) -> Iterator[rewrite.Rewrite]:
    """Call a procedure that was derived from the one called, or from which that one was.

    product(n, A[0:n, 0:n])    ->    product_tiled(n, A[0:n, 0:n])

    Each step of a derivation keeps what is computed, so the two do the same.  `other` is the
    procedure; or, where both were derived from a third, the two: that called, then the other.
    """
    path = path_of(proc, call)
    old = rewrite.stmt_at(proc, path)
    if not isinstance(old, ir.CallProc):
        raise Unfit("the cursor is at no call of a procedure", old)
    given = other if isinstance(other, tuple | list) else (other,)
    if not given or not all(isinstance(one, HasProc) for one in given):
        raise Unfit(f"{other!r} is no procedure", old)
    new = given[-1]
    made = [p for one in given for p in (one, *(step.parent for _, step in chain(one)))]
    known = [p for p in made if p.ir is old.proc]
    if not known or new.ir is None:
        name = getattr(new, "name", "the other")
        raise Unfit(f"{name} was not derived from {old.proc.name}", old)
    edit = rewrite.unchanged_rewrite(proc)
    again = ir.CallProc(new.ir, old.arguments, span=old.span)
    edit.becomes(old, again)
    edit.equal[again] = (new, known[0])
    rewrite.splice(edit, path, 1, (again,))
    yield edit


@annotation
def insert_noop_call(
    proc: ir.Proc, /, gap: object, callee: object, *arguments: str | int, **constants: object
) -> Iterator[rewrite.Rewrite]:
    """Put a call at a place that changes nothing which is read, such as a prefetch.

    y[i] = x[i]    ->    warm(x[i : i + 4])
                         y[i] = x[i]

    `arguments` are written as in a program.
    """
    inside, offset = gap_of(gap)
    beside = rewrite.stmt_at(proc, inside)
    path = (*inside[:-1], (inside[-1][0], inside[-1][1] + offset))
    called = next(_candidates(proc, inside, callee, constants))
    if len(arguments) != len(called.params):
        raise Unfit(f"{called.name} takes {len(called.params)} arguments", beside)
    control, data = control_scope(proc, inside), {s.name: s for s in data_scope(proc, path)}
    given = tuple(
        read_control(text, control)
        if isinstance(param, ir.ControlParam)
        else read_window(str(text), control, data)
        for param, text in zip(called.params, arguments, strict=True)
    )
    edit = rewrite.unchanged_rewrite(proc)
    rewrite.splice(edit, path, 0, (call_of(called, given, beside.span),))
    yield edit
