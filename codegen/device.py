"""Statements of a kernel as C++ text: one function a statement."""

from __future__ import annotations

from collections.abc import Iterator, Mapping
from dataclasses import dataclass, field
from typing import Final, assert_never

from exogpu.analysis.executors import CollectiveFacts
from exogpu.analysis.tiling import Tiling
from exogpu.codegen import barriers, fences, flags, scalars, sync
from exogpu.codegen.access import Accesses
from exogpu.codegen.barriers import Barriers
from exogpu.codegen.counting import Shared, counted
from exogpu.codegen.errors import unsupported
from exogpu.codegen.expressions import (
    C_TYPE,
    Control,
    c_condition,
    c_control,
    is_nonnegative,
    simplify,
)
from exogpu.codegen.flags import Wait
from exogpu.codegen.instructions import Calls, call_text, note_helpers
from exogpu.codegen.lines import Lines, braces, comment
from exogpu.codegen.loaded import load
from exogpu.codegen.named import NamedBarriers
from exogpu.codegen.names import CTA, LANE, THREAD, WARP, Names
from exogpu.codegen.proxies import Proxies
from exogpu.codegen.registers import pairs
from exogpu.codegen.slots import SlotCounter
from exogpu.codegen.smem import SharedLayout
from exogpu.codegen.storage import Storage
from exogpu.codegen.tensors import TensorMap
from exogpu.codegen.threads import condition_of_warps, inverse_of_loop
from exogpu.ir.names import Sym
from exogpu.ir.nodes import (
    Access,
    Alloc,
    Arrive,
    Assign,
    Await,
    BarrierAlloc,
    Block,
    CallInstr,
    CallProc,
    CExpr,
    Const,
    CudaTasks,
    CudaThreads,
    DeviceFunction,
    Fence,
    For,
    Free,
    If,
    Int,
    Loaded,
    Pass,
    Point,
    Reduce,
    Seq,
    Slot,
    Stmt,
    Truth,
    Uninit,
    Warps,
    WindowStmt,
)
from exogpu.ir.types import DataType, Space
from exogpu.ir.walk import accesses, control_variables, walk

UNROLL_LIMIT = 16
"""Loops of at most this many iterations are unrolled; those that index registers always are."""
UNROLLED_STATEMENTS = 256
"""The iterations of a loop that is unrolled have at most this many statements together."""


@dataclass(frozen=True, slots=True)
class Path:
    """The code of one warp group (section "Warp Specialization")."""

    group: str
    by_role: bool
    """Whether the launch has several warp groups, each on a path of its own."""
    first: int = 0
    """Number of the group's first warp; it has `count`."""
    count: int = 0


@dataclass(slots=True)
class Device:
    """Context for lowering the statements of one kernel."""

    facts: CollectiveFacts
    storage: Mapping[Sym, Storage]
    shared: SharedLayout
    names: Names
    control: Control
    path: Path
    barriers: Barriers
    named: NamedBarriers
    proxies: Proxies
    maps: Mapping[TensorMap, Sym]
    waits: Mapping[Await, Wait]
    """By Await of a flag, for how many arrivals."""
    counts: Shared
    """The barrier variables that this path counts for others, too."""
    access: Accesses = field(init=False)
    paired: set[Stmt] = field(default_factory=set)
    """Statements that write both elements of a register, one right after the other."""
    helpers: list[str] = field(default_factory=list)
    """Names of the helper functions that the text calls, in order of first use."""

    def __post_init__(self) -> None:
        self.access = Accesses(self.storage, self.names, self.control)
        self.control.nonnegative |= {THREAD, WARP, LANE, CTA}

    def calls(self) -> Calls:
        """Returns the context for lowering instruction calls."""
        return Calls(self.access, self.facts, self.barriers, self.maps, self.helpers)


def block(device: Device, statements: Block) -> Lines:
    """The statements of a block that this path executes."""
    with device.names.scope():
        made: list[tuple[Stmt, Lines, set[Sym]]] = []
        for at, stmt in enumerate(statements):
            with device.names.recording() as spelled:
                lines = statement(device, stmt)
            if _is_load(stmt) and not all(isinstance(s, Free) for s in statements[at + 1 :]):
                lines = braces("", lines) if lines else []  # other names follow in the block
            made.append((stmt, lines, spelled))
        after: Lines = []
        used: set[Sym] = set()
        for stmt, lines, spelled in reversed(made):
            if _needed(device, stmt, lines, after, used):
                after = [*lines, *after]
                used |= spelled
        device.names.use(used)
        return after


def _needed(device: Device, stmt: Stmt, lines: Lines, after: Lines, used: set[Sym]) -> bool:
    """Tests whether a statement's lines are needed: declarations that are used, no fence twice."""
    match stmt:
        case Alloc() if lines:
            scale = device.storage[stmt.name].scale
            names = (stmt.name,) if scale is None else (stmt.name, scale)
            return not used.isdisjoint(names)
        case BarrierAlloc() if lines:
            return stmt.name in used
        case Free():
            return lines != after[: len(lines)]
        case _:
            return True


def statement(device: Device, stmt: Stmt) -> Lines:
    """The lines of one statement; none where the path does not execute it."""
    match stmt:
        case For(mode=CudaThreads()):
            return thread_loop(device, stmt)
        case For(mode=CudaTasks()):
            raise unsupported(
                "this cuda_tasks loop stands below something that is no cuda_tasks loop",
                stmt.span,
                "nest cuda_tasks loops directly in each other, outermost in the kernel",
            )
        case For(mode=Seq()):
            return sequential_loop(device, stmt)
        case For(mode=Slot(barrier), hi=Int(ring)):
            return slot(device, stmt, device.barriers.slots[barrier][ring])
        case For(mode=Loaded()):
            return loaded(device, stmt)
        case For():
            raise AssertionError(stmt.mode)
        case If():
            return conditional(device, stmt)
        case Warps():
            return warps(device, stmt)
        case Assign() | Reduce():
            return [source(stmt), _scalar(device, stmt)]
        case CallInstr():
            return [source(stmt), *call_text(device.calls(), stmt)]
        case Alloc():
            return allocation(device, stmt)
        case BarrierAlloc():
            lines = barriers.allocation(device.barriers, stmt)
            return [source(stmt), *lines] if lines else []
        case Fence():
            return [source(stmt), *fences.fence(device, stmt)]
        case Arrive() if flags.is_flag(device, stmt.targets[0]):
            return [source(stmt), *flags.arrive(device, stmt)]
        case Await() if flags.is_flag(device, stmt.barrier):
            return [source(stmt), *flags.wait(device, stmt)]
        case Arrive():
            return [
                source(stmt),
                *barriers.arrive(device.barriers, stmt, fences.where(device, stmt)),
            ]
        case Await():
            return [source(stmt), *barriers.wait(device.barriers, stmt, fences.where(device, stmt))]
        case Free():
            if stmt.name not in device.proxies.freed:
                return []
            return sync.emit("proxy fence at free", space=device.proxies.freed_space)
        case Pass() | Uninit():
            return []
        case DeviceFunction() | CallProc() | WindowStmt():
            raise AssertionError(f"{stmt} does not stand in a kernel")
        case _:
            assert_never(stmt)


def source(stmt: Stmt) -> str:
    """The comment that names a statement's source line."""
    text = stmt.span.text.strip()
    return comment(f"{stmt.span.line}: {text}") if stmt.span.line else "//"


# --- loops and conditions -------------------------------------------------------------------


def thread_loop(device: Device, stmt: For) -> Lines:
    """`for y in cuda_threads(lo, hi, unit) do s` lowers to `if (int y = f; g) { s }`."""
    parent, child = device.facts.scope[stmt], device.facts.inner[stmt]
    assert parent is not None
    inverse = inverse_of_loop(stmt, parent, child)
    value = simplify(inverse.value, device.control.constants)
    if isinstance(value, Int):
        device.control.constants[stmt.iterator] = value.value
        condition = inverse.condition
        inside = block(device, stmt.body)
        if not inside:
            return []
        if condition == Truth(True):
            return braces(f"/* {stmt.iterator.name} = {value.value} */", inside)
        lines = braces(f"if ({c_condition(condition, device.control)})", inside)
        return _else_counted(device, lines, stmt.body)
    device.control.iterate(stmt.iterator, stmt.lo, stmt.hi)
    device.control.threads.add(stmt.iterator)
    with device.names.scope():
        text = c_control(value, device.control)
        name = device.names.declare(stmt.iterator)
        if all(r.lo >= 0 for r in child.ranges):
            device.control.nonnegative.add(stmt.iterator)
        inside = block(device, stmt.body)
        condition_text = c_condition(inverse.condition, device.control)
    if not inside:
        return []
    pins = _pins(device, stmt, parent)
    lines = braces(f"if (const int {name} = {text}; {condition_text})", inside)
    return [source(stmt), *pins, *lines, *pins]


def _pins(device: Device, stmt: For, parent: Tiling) -> Lines:
    """Before and after a loop over a fragment: registers of wgmma are computed with between the
    waits around it, and not where the compiler would like to."""
    if device.facts.inner[stmt].threads != 1 or parent.threads == 1:
        return []
    touched = {access.name: None for inner in walk(stmt.body) for access in accesses(inner)}
    lines: Lines = []
    for name in touched:
        if name in device.storage and device.storage[name].pinned:
            lines.append(f"pinned({device.names(name)});")
            note_helpers(lines[-1], device.helpers)
    return lines


def sequential_loop(device: Device, stmt: For) -> Lines:
    """`for i in seq(lo, hi)`."""
    if _is_of_others(device, stmt.body):
        return counted(device.access, device.facts, device.barriers, device.counts, (stmt,))
    control = device.control
    lo, hi = simplify(stmt.lo, control.constants), simplify(stmt.hi, control.constants)
    first, end = c_control(lo, control), c_control(hi, control)
    control.iterate(stmt.iterator, lo, hi)
    with device.names.scope():
        name = device.names.declare(stmt.iterator)
        if is_nonnegative(lo, control):
            control.nonnegative.add(stmt.iterator)
        device.paired |= pairs(stmt, device.storage, control)
        inside = block(device, stmt.body)
    if not inside:
        return []
    head = f"for (int {name} = {first}; {name} < {end}; ++{name})"
    return [source(stmt), *_unrolling(device, stmt, lo, hi), *braces(head, inside)]


def _is_of_others(device: Device, statements: Block) -> bool:
    """Tests whether other warp groups execute everything in a block."""
    return device.path.by_role and all(
        isinstance(stmt, Warps) and device.facts.inner[stmt].group != device.path.group
        for stmt in statements
    )


def slot(device: Device, stmt: For, counter: SlotCounter) -> Lines:
    """The binding of a slot: what this thread has counted."""
    control = device.control
    control.iterate(stmt.iterator, stmt.lo, stmt.hi)
    control.nonnegative.add(stmt.iterator)
    with device.names.scope():
        device.names(counter.barrier)  # beside which it is declared
        counted = device.names(counter.name)
        name = device.names.declare(stmt.iterator)
        inside = block(device, stmt.body)
    return braces("", [f"const int {name} = {counted};", *inside]) if inside else []


def loaded(device: Device, stmt: For) -> Lines:
    """A value from memory, and the rest of its block: no braces."""
    with device.names.scope():
        bound = load(device.access, stmt)
        note_helpers(bound, device.helpers)
        inside = block(device, stmt.body)
    if not inside and any(isinstance(s, _TELLING) for s in walk(stmt.body)):
        return []  # others execute it
    return [source(stmt), bound, *inside]


_TELLING: Final = (Assign, Reduce, CallInstr, Fence, Arrive, Await)
"""Statements that are some path's."""


def _is_load(stmt: Stmt) -> bool:
    return isinstance(stmt, For) and isinstance(stmt.mode, Loaded)


def _unrolling(device: Device, stmt: For, lo: CExpr, hi: CExpr) -> Lines:
    """Returns the pragma of a loop: as it was asked for, or all iterations if these are few."""
    assert isinstance(stmt.mode, Seq)
    match stmt.mode.unroll:
        case None:
            return ["#pragma unroll"] if _unrolled(device, stmt, lo, hi) else []
        case 0:
            return ["#pragma unroll"]
        case count:
            return [f"#pragma unroll {count}"]


def _unrolled(device: Device, stmt: For, lo: CExpr, hi: CExpr) -> bool:
    if not (isinstance(lo, Int) and isinstance(hi, Int)):
        return False
    count, inside = hi.value - lo.value, tuple(walk(stmt.body))
    short = count <= UNROLL_LIMIT and count * len(inside) <= UNROLLED_STATEMENTS
    if short and not any(isinstance(one, Fence | Arrive | Await) for one in inside):
        return True
    return any(
        stmt.iterator in control_variables(index)
        for inner in walk(stmt.body)
        for index in _chosen(device, inner)
    )


def _chosen(device: Device, stmt: Stmt) -> Iterator[CExpr]:
    """Yields the expressions that choose the registers of a statement: indices, and, beside a tile,
    the operands that choose an instruction's part."""
    used = [a for a in accesses(stmt) if a.name in device.storage]
    held = [a for a in used if device.storage[a.name].space is Space.REGISTER]
    for access in held:
        for coord in access.coords:
            yield coord.at if isinstance(coord, Point) else coord.lo
    if isinstance(stmt, CallInstr) and any(device.storage[a.name].tile_rank for a in held):
        for argument in stmt.arguments:
            if not isinstance(argument, Access | Const):
                yield argument


def conditional(device: Device, stmt: If) -> Lines:
    """`if b: s` with its `else`."""
    body, orelse = block(device, stmt.body), block(device, stmt.orelse)
    if not body and not orelse:
        return []
    condition = c_condition(stmt.condition, device.control)
    lines = [source(stmt), *braces(f"if ({condition})", body)]
    if orelse:
        lines[-1:] = braces("} else", orelse)
    return lines


def warps(device: Device, stmt: Warps) -> Lines:
    """`with CudaWarps`: nothing on the paths of other warp groups."""
    parent, child = device.facts.scope[stmt], device.facts.inner[stmt]
    assert parent is not None
    if device.path.by_role and child.group != device.path.group:
        return counted(device.access, device.facts, device.barriers, device.counts, stmt.body)
    condition = condition_of_warps(stmt, parent, child)
    inside = block(device, stmt.body)
    if not inside:
        return []
    path, chosen = device.path, child.dims[-1].ops[-1]
    if path.by_role and (chosen.offset, chosen.box) == (32 * path.first, 32 * path.count):
        return [source(stmt), *braces("", inside)]
    lines = braces(f"if ({c_condition(condition, device.control)})", inside)
    return [source(stmt), *_else_counted(device, lines, stmt.body)]


def _else_counted(device: Device, lines: Lines, body: Block) -> Lines:
    """Adds an `else` to braces, with the counting of threads that do not enter them."""
    others = counted(device.access, device.facts, device.barriers, device.counts, body)
    return [*lines[:-1], *braces("} else", others)] if others else lines


# --- data -----------------------------------------------------------------------------------


def allocation(device: Device, stmt: Alloc) -> Lines:
    """Registers are C++ arrays; shared variables point into the dynamic shared memory."""
    variable = device.storage[stmt.name]
    name = device.names.declare(stmt.name)
    dtype = "unsigned" if variable.packed else C_TYPE[variable.dtype]
    if variable.space is Space.SHARED:
        offset = device.shared.offsets[stmt.name]
        pointer = f"reinterpret_cast<{dtype}*>(smem + {offset})"
        return [source(stmt), f"{dtype}* const {name} = {pointer};"]
    extents = "".join(f"[{max(1, n)}]" for n in variable.extents)  # C++ has no empty arrays
    fragment = f"[{variable.fragment}]" if variable.fragment else ""
    lines = [source(stmt), f"{dtype} {name}{extents}{fragment};"]
    if variable.scale is not None:
        scale = device.names.declare(variable.scale)
        ones = "{" + ", ".join("1" * variable.elements) + "}" if variable.extents else "1"
        lines.append(f"int {scale}{extents} = {ones};")
    return lines


def _scalar(device: Device, stmt: Assign | Reduce) -> str:
    def of(name: Sym) -> DataType:
        return device.storage[name].dtype

    place = device.access.element
    if not device.access.is_packed(stmt.target):
        return scalars.statement(stmt, of, place)
    word, half = device.access.packed(stmt.target)
    return scalars.half_statement(stmt, of, place, word, half, paired=stmt in device.paired)
