"""Conversion of accesses and instruction arguments (paper, figures T_e, T_s helpers and T_arg)."""

from __future__ import annotations

from collections.abc import Iterable, Iterator, Mapping, Sequence
from dataclasses import dataclass, replace
from typing import TypeAlias

from exogpu.amir import nodes as amir
from exogpu.analysis import requirements
from exogpu.analysis.divergence import Mechanisms, convergent_groups
from exogpu.analysis.initialisation import Part, read_by_call, written_by_call
from exogpu.analysis.multicast_targets import in_one_cta, one_each, same_order
from exogpu.analysis.operand_windows import Demand, kind_of, site_of_operand
from exogpu.analysis.ownership_check import held_by_its_thread, is_element, tile_of
from exogpu.analysis.thread_names import CollectiveFacts, Desugared
from exogpu.analysis.uninitialised import Overwritten, overwritten_elements
from exogpu.diagnostics.hazards import HazardKind
from exogpu.diagnostics.verdict import Policy
from exogpu.frontend.quote import quote, quote_access, source_text
from exogpu.ir import nodes as ir
from exogpu.ir import types
from exogpu.ir import walk as ir_walk
from exogpu.ir.printer import print_stmt
from exogpu.ir.walk import reads, walk

Declared: TypeAlias = ir.DataParam | ir.Alloc | ir.BarrierAlloc


@dataclass(frozen=True, slots=True)
class Lowering:
    """The input of the conversion of one procedure."""

    facts: CollectiveFacts
    policy: Policy
    variables: Mapping[types.Sym, Declared]
    operands: Mapping[ir.CallInstr, Sequence[Demand]]
    """The demands of each call on its operands."""
    mechanisms: Mechanisms
    ends: Mapping[ir.DeviceFunction, types.Sym]
    """By dependent launch, the end of the one before it."""
    followed: Mapping[ir.DeviceFunction, types.Sym]
    """By launch, its end, where a dependent one follows."""
    awaited: Mapping[ir.Fence, types.Sym]
    """The ends of launches that each waiting statement awaits."""


# --- helpers of the figures ---------------------------------------------------------------


def t_e(expr: ir.DExpr) -> tuple[ir.Access, ...]:
    """`T_e`: the distinct reads of an expression, in the order of the text."""
    return tuple(dict.fromkeys(reads(expr)))


def is_exempt(low: Lowering, access: ir.Access) -> bool:
    """`isEx`: annotated as sync-exempt memory."""
    variable = low.variables[access.name]
    if isinstance(variable, ir.BarrierAlloc):
        return variable.mechanism.sync_exempt
    return variable.memory.sync_exempt


def t_ex(low: Lowering, accesses: tuple[ir.Access, ...]) -> tuple[ir.Access, ...]:
    """`T_ex`: those that are not sync-exempt."""
    return tuple(access for access in accesses if not is_exempt(low, access))


def is_shared(variable: Declared) -> bool:
    """`isSmem`: annotated as shared memory; barriers with phases are, or as good as that."""
    if isinstance(variable, ir.BarrierAlloc):
        return variable.mechanism.phased
    return variable.memory.space is types.Space.SHARED


def is_on_host(variable: Declared) -> bool:
    """Returns whether a variable is host memory, which the CPU frees (decision `host-lifetime`)."""
    return not isinstance(variable, ir.BarrierAlloc) and variable.memory.space is types.Space.HOST


def t_qarr(low: Lowering, timeline: types.SyncTL) -> types.QualTL:
    """`T_qarr`: `Sm80_cp_async_qual` if it is in `T_qfull`, else `cuda_in_order_ram_qual`
    (decision `figures-read`)."""
    return (
        types.QualTL.SM80
        if types.QualTL.SM80 in timeline.sets_under(low.policy).full
        else types.QualTL.CUDA2
    )


def t_qin(low: Lowering, access: ir.Access, on_cpu: bool) -> types.QualTL:
    """`T_qin`: cpu if host / CPU scoped, cuda1 for register memory, cuda2 otherwise."""
    variable = low.variables[access.name]
    if isinstance(variable, ir.BarrierAlloc):
        return types.QualTL.CUDA2
    if on_cpu or variable.memory.space is types.Space.HOST:
        return types.QualTL.CPU
    return (
        types.QualTL.CUDA1 if variable.memory.space is types.Space.REGISTER else types.QualTL.CUDA2
    )


# --- origins ------------------------------------------------------------------------------


def statement_text(stmt: ir.Stmt) -> str:
    """The source statement on one line; of one that spans several, a call written anew or the
    first line.  An assignment that a scheduling step made of a loop is written anew, too."""
    span = stmt.span
    if span.line == span.end_line:
        return source_text(span).strip()
    if isinstance(stmt, ir.CallInstr):
        return _call_text(stmt)
    text = span.text[max(span.column - 1, 0) :].strip()
    if isinstance(stmt, ir.Assign | ir.Reduce) and text.startswith(("for ", "if ", "with ")):
        return print_stmt(stmt).strip()
    return text


def _call_text(call: ir.CallInstr) -> str:
    arguments = [_argument_text(argument) for argument in call.arguments]
    trailing = "" if call.trailing is None else f" >> {quote_access(call.trailing)}"
    return f"{call.instr.name}({', '.join(arguments)}){trailing}"


def _argument_text(argument: ir.Argument) -> str:
    match argument:
        case ir.Access():
            return quote_access(argument)
        case ir.Const():
            return str(argument.value)
        case _:
            return quote(argument)


def origin_of(low: Lowering, stmt: ir.Stmt, text: str = "") -> amir.Origin:
    """Returns the origin of a statement's operations, with the threads of its scope."""
    tiling = low.facts.scope.get(stmt)
    threads = None if tiling is None else tiling.thread_map()
    called = stmt.instr.name if isinstance(stmt, ir.CallInstr) else ""
    return amir.Origin(stmt.span, text or statement_text(stmt), threads, called)


def statement_requirements(low: Lowering, stmt: ir.Stmt) -> Iterator[amir.Require]:
    """Yields the demands of a statement whenever it is executed, beside those of its records."""
    origin = origin_of(low, stmt)
    if together := convergent_groups(stmt, low.facts.scope.get(stmt), low.mechanisms):
        yield amir.Require(HazardKind.DIVERGENCE, None, (), (), origin, together)
    for one in requirements.required_conditions(stmt, low.variables):
        yield amir.Require(one.kind, one.variable, one.each, one.conditions, origin)
    yield from _by_holders(low, stmt, origin)
    if isinstance(stmt, ir.CallInstr):
        on_cpu = low.facts.scope.get(stmt) is None
        asked = (d for d in low.operands.get(stmt, ()) if on_cpu or not d.at_launch)
        yield from _of_operands(asked, origin)


def _by_holders(low: Lowering, stmt: ir.Stmt, origin: amir.Origin) -> Iterator[amir.Require]:
    """A scalar statement accesses those elements of register tiles that its thread holds."""
    tiling = low.facts.scope.get(stmt)
    if tiling is None or not isinstance(stmt, ir.Assign | ir.Reduce):
        return
    for access in dict.fromkeys(ir_walk.accesses(stmt)):
        variable = low.variables[access.name]
        if isinstance(variable, ir.BarrierAlloc) or not is_element(access, variable):
            continue
        found = tile_of(variable)
        if found is not None:  # of another nothing is accepted
            condition = held_by_its_thread(access, found, tiling)
            yield amir.Require(HazardKind.OWNERSHIP, access.name, (), (condition,), origin)


def required_at_launch(low: Lowering, block: ir.Block) -> Iterator[amir.Require]:
    """Yields the demands of a kernel's calls on its launch."""
    for stmt in walk(block):
        if isinstance(stmt, ir.CallInstr):
            asked = (d for d in low.operands.get(stmt, ()) if d.at_launch)
            yield from _of_operands(asked, replace(origin_of(low, stmt), threads=None))


def _of_operands(asked: Iterable[Demand], origin: amir.Origin) -> Iterator[amir.Require]:
    for demand in asked:
        name = site_of_operand(demand.finding).access.name
        if demand.required:
            yield amir.Require(kind_of(demand.finding), name, (), demand.required, origin)


# --- initialised memory -------------------------------------------------------------------


def may_be_uninitialised(low: Lowering, access: ir.Access) -> bool:
    """Tests whether reads of a variable need a write before them (decision `initialised`).

    Those of what the procedure allocates do; a parameter's elements all have values.
    """
    return isinstance(low.variables[access.name], ir.Alloc)


def initialised(
    low: Lowering, accesses: Iterable[ir.Access], origin: amir.Origin
) -> Iterator[amir.Op]:
    """Checks that a statement's reads have been written before."""
    for access in accesses:
        if may_be_uninitialised(low, access):
            yield amir.CheckInitialised(access, origin)


def initialises(
    low: Lowering, access: ir.Access, origin: amir.Origin, *, uninit: bool = False
) -> Iterator[amir.Op]:
    """Marks what a statement writes as written, or what it says does not matter."""
    if may_be_uninitialised(low, access):
        yield amir.Initialise(access, origin, uninit)


def initialised_by_call(low: Lowering, call: ir.CallInstr, position: int) -> Iterator[amir.Op]:
    """Checks the elements of an argument that the instruction's body reads."""
    argument, origin = call.arguments[position], origin_of(low, call)
    if isinstance(argument, ir.Access) and may_be_uninitialised(low, argument):
        for part in read_by_call(call, position):
            yield from _wrap(part, amir.CheckInitialised(part.access, origin))


def initialises_by_call(low: Lowering, call: ir.CallInstr, position: int) -> Iterator[amir.Op]:
    """Marks the elements of an argument that the instruction's body surely writes."""
    argument, origin = call.arguments[position], origin_of(low, call)
    if isinstance(argument, ir.Access) and may_be_uninitialised(low, argument):
        for part in written_by_call(call, position):
            yield from _wrap(part, amir.Initialise(part.access, origin))


def _wrap(part: Part | Overwritten, op: amir.Op) -> amir.Block:
    """An operation in a part's loops and guards."""
    body: amir.Block = (op,)
    for guard in reversed(part.guards):
        body = (amir.Guard(guard, body, op.origin),)
    for loop in reversed(part.each):
        body = (amir.Loop(loop.name, loop.lo, loop.hi, body, op.origin),)
    return body


# --- desugared dimensions -----------------------------------------------------------------


def at_iterators(access: ir.Access, iterators: tuple[types.Sym, ...]) -> ir.Access:
    """The access with its first interval coordinates replaced by the points `lo + iterator`."""
    left = list(iterators)
    coords: list[ir.Coord] = []
    for coord in access.coords:
        if isinstance(coord, ir.Interval) and left:
            coords.append(ir.Point(_plus(coord.lo, ir.CVar(left.pop(0)))))
        else:
            coords.append(coord)
    assert not left, f"{access.name} has fewer intervals than distributed dimensions"
    return replace(access, coords=tuple(coords))


def thread_loops(desugared: Desugared, body: amir.Block, origin: amir.Origin) -> amir.Block:
    """The body in its `cuda_threads` loops, outermost first."""
    for iterator, extent in reversed(
        tuple(zip(desugared.iterators, desugared.extents, strict=True))
    ):
        body = (amir.Loop(iterator, ir.Int(0), ir.Int(extent), body, origin, threads=True),)
    return body


def one_element(access: ir.Access) -> ir.Access:
    """A barrier access of one element, the first of an interval."""
    points = tuple(ir.Point(c.lo) if isinstance(c, ir.Interval) else c for c in access.coords)
    return replace(access, coords=points)


def _plus(left: ir.CExpr, right: ir.CExpr) -> ir.CExpr:
    return right if left == ir.Int(0) else ir.Add(left, right)


# --- T_arg --------------------------------------------------------------------------------


def recorded(
    low: Lowering, call: ir.CallInstr, record: amir.Record, data: Desugared | None
) -> amir.Block:
    """The record with the call's trailing barrier, whose home's count tags the targets.

    Of a multicast, one record for the threads of each CTA, whose own element is their home;
    `data` says how the record's window is distributed, if it is.  Decision `multicast-tags`: what
    lands in a CTA completes on the element of that CTA alone; of a source that all of them get, any
    that completes has been read.
    """
    if call.trailing is None:
        return (record,)
    signals = low.facts.trailing.get(call)
    if signals is None:
        home = one_element(call.trailing)
        return (replace(record, trailing=amir.Trailing(home, (call.trailing,))),)
    home = one_element(at_iterators(call.trailing, signals.iterators))
    origin = replace(record.origin, threads=signals.tiling.thread_map())
    mine = replace(record, origin=origin, trailing=amir.Trailing(home, (call.trailing,)))
    common = not record.mutate and data is None
    body: amir.Block = (mine,) if common else _landed(mine, call.trailing, signals, data)
    return thread_loops(signals, body, record.origin)


def _landed(
    record: amir.Record, barrier: ir.Access, signals: Desugared, data: Desugared | None
) -> amir.Block:
    """The record once for each element that a multicast signals, with the tag of that one alone.

    Of what is written, the element of a CTA has the part that lies in the CTA.  Where that is not
    known, and of a source that the CTAs share out, each has all of it: then it takes all elements
    to complete.
    """
    assert record.trailing is not None
    name = f"{barrier.name.name}_landing"
    target = replace(signals, iterators=tuple(types.Sym(name) for _ in signals.iterators))
    own = at_iterators(barrier, target.iterators)
    made = replace(record, trailing=replace(record.trailing, targets=(own,)))
    written = record.mutate or record.access == barrier
    body: amir.Block = (made,)
    if not written or data is None or not one_each(data, signals):
        return thread_loops(target, body, record.origin)
    if same_order(data, signals):
        body = (replace(made, access=at_iterators(record.access, target.iterators)),)
        return thread_loops(target, body, record.origin)
    part = replace(made, access=at_iterators(record.access, data.iterators))
    body = (amir.Guard(in_one_cta(data, signals, target.iterators), (part,), record.origin),)
    return thread_loops(data, thread_loops(target, body, record.origin), record.origin)


def t_trailing(low: Lowering, call: ir.CallInstr) -> Iterator[amir.Op]:
    """`for e in T_ex(e_z): RecordRead(fully-ordered, false, e, none, {}, T_e(e_z))`: the barrier's
    own record, without a timeline (decision `arrive-counts`)."""
    if call.trailing is None or is_exempt(low, call.trailing):
        return
    own = amir.Record(
        mutate=False,
        level=types.Level.FULLY_ORDERED,
        convergent=False,
        access=call.trailing,
        timeline=None,
        atomic=frozenset(),
        trailing=None,
        origin=origin_of(low, call),
        inside=True,
    )
    yield from recorded(low, call, own, low.facts.trailing.get(call))


def t_arg(
    low: Lowering, call: ir.CallInstr, position: int, param: ir.DataParam, mode: types.AccessMode
) -> Iterator[amir.Op]:
    """`T_arg(g.p_i, e_i, e_z)` for the argument at `position`.

    An operand that is checked and recorded by its owner only stands in the thread loops that it
    desugars to; other operands take the whole collective.
    """
    argument, operand = call.arguments[position], param.operand
    if not isinstance(argument, ir.Access) or operand is None or is_exempt(low, argument):
        return
    origin = origin_of(low, call)
    data = low.facts.operands.get((call, position))
    inside = not operand.clipped and requirements.touches_all(call.instr, param.name)
    if data is None or not operand.owner_only:
        ops = _t_arg(low, operand, mode, argument, origin)
        if mode is types.AccessMode.WRITE and not operand.atomic:
            shared = is_shared(low.variables[argument.name])
            ops = _clearing(ops, overwritten_elements(call, param, argument), shared)
        yield from _signalling(low, call, data, _with_bounds(ops, inside))
        return
    owned = at_iterators(argument, data.iterators)
    owner = replace(origin, threads=data.tiling.thread_map())
    ops = _t_arg(low, operand, mode, owned, owner)
    if mode is types.AccessMode.WRITE and not operand.atomic:
        ops = _clearing(ops, overwritten_elements(call, param, argument), False)
    ops = _with_bounds(ops, inside)
    yield from thread_loops(data, tuple(_signalling(low, call, None, ops)), origin)


def _clearing(
    ops: Iterator[amir.Op], written: Sequence[Overwritten] | None, shared: bool
) -> Iterator[amir.Op]:
    """ClearMutates of what is overwritten alone: an element that keeps its value keeps its record
    (decision `partial-overwrite`).

    Elements are told one by one in shared memory, where what an earlier task has left is looked
    for.  Elsewhere none is cleared: an earlier write is then asked for although it cannot be read.
    """
    for op in ops:
        if written is None or not (isinstance(op, amir.Clear) and op.mutates):
            yield op
        elif shared:
            for one in written:
                yield from _wrap(one, amir.Clear(True, one.access, op.origin))


def _with_bounds(ops: Iterator[amir.Op], inside: bool) -> Iterator[amir.Op]:
    for op in ops:
        yield replace(op, inside=inside) if isinstance(op, amir.Record) else op


def _signalling(
    low: Lowering, call: ir.CallInstr, data: Desugared | None, ops: Iterator[amir.Op]
) -> Iterator[amir.Op]:
    """`T_e(e_z)` of the figure: the records are tagged by the call's trailing barrier."""
    for op in ops:
        if isinstance(op, amir.Record):
            yield from recorded(low, call, op, data)
        else:
            yield op


def _t_arg(
    low: Lowering,
    operand: types.Operand,
    mode: types.AccessMode,
    access: ir.Access,
    origin: amir.Origin,
) -> Iterator[amir.Op]:
    if mode is types.AccessMode.READ:
        return t_arg_read_only(low, operand, access, origin)
    if operand.atomic:
        return t_arg_atomic(low, operand, mode, access, origin)
    return t_arg_written(low, operand, mode, access, origin)


def t_arg_read_only(
    low: Lowering, operand: types.Operand, access: ir.Access, origin: amir.Origin
) -> Iterator[amir.Op]:
    """Non-atomic read-only: `CheckMutates(full_ordered, cvg, e, ext);
    RecordRead(post, cvg, e, init, {}, T_e(e_z))`."""
    extended = operand.extended_under(low.policy)
    cvg = operand.convergent
    yield amir.Check(True, types.Level.FULLY_ORDERED, cvg, access, extended, origin, reads=True)
    yield _record(operand, False, access, origin)


def t_arg_written(
    low: Lowering,
    operand: types.Operand,
    mode: types.AccessMode,
    access: ir.Access,
    origin: amir.Origin,
) -> Iterator[amir.Op]:
    """Non-atomic non-read-only: `CheckMutates(pre, cvg, e, ext);
    CheckReads(temporal_ordered, cvg, e, ext); ClearReads(e); ClearMutates(e);
    RecordMutate(post, cvg, e, init, {}, T_e(e_z))`, pre = temporal_ordered if write-only, else
    full_ordered."""
    extended = operand.extended_under(low.policy)
    cvg = operand.convergent
    too = mode is types.AccessMode.READ_WRITE
    pre = types.Level.FULLY_ORDERED if too else types.Level.TEMPORALLY_ORDERED
    yield amir.Check(True, pre, cvg, access, extended, origin, reads=too)
    yield amir.Check(
        False, types.Level.TEMPORALLY_ORDERED, cvg, access, extended, origin, reads=too
    )
    yield amir.Clear(False, access, origin)
    yield amir.Clear(True, access, origin)
    yield _record(operand, True, access, origin)


def t_arg_atomic(
    low: Lowering,
    operand: types.Operand,
    mode: types.AccessMode,
    access: ir.Access,
    origin: amir.Origin,
) -> Iterator[amir.Op]:
    """Atomic: `CheckMutates(atomic_only, cvg, e, ext); CheckReads(temporal_ordered, cvg, e, ext);
    ClearReads(e); RecordMutate(post, cvg, e, init, atom, T_e(e_z))`; note lack of ClearMutates."""
    extended = operand.extended_under(low.policy)
    cvg = operand.convergent
    too = mode is types.AccessMode.READ_WRITE
    yield amir.Check(True, types.Level.ATOMIC_ONLY, cvg, access, extended, origin, reads=too)
    yield amir.Check(
        False, types.Level.TEMPORALLY_ORDERED, cvg, access, extended, origin, reads=too
    )
    yield amir.Clear(False, access, origin)
    yield replace(_record(operand, True, access, origin), atomic=operand.atomic)


def _record(
    operand: types.Operand, mutate: bool, access: ir.Access, origin: amir.Origin
) -> amir.Record:
    """`post = unordered` if out of order, else `full_ordered`."""
    post = types.Level.UNORDERED if operand.out_of_order else types.Level.FULLY_ORDERED
    return amir.Record(
        mutate=mutate,
        level=post,
        convergent=operand.convergent,
        access=access,
        timeline=operand.initial,
        atomic=frozenset(),
        trailing=None,
        origin=origin,
    )
