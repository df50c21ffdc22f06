"""Statements of a kernel as C++ text: one function a statement."""

from __future__ import annotations

from collections.abc import Callable, Iterator, Mapping
from contextlib import contextmanager
from dataclasses import dataclass, field
from typing import Final, assert_never

from exogpu.analysis.thread_names import CollectiveFacts
from exogpu.analysis.tiling import Tiling
from exogpu.codegen import (
    fences_and_flags,
    scalar_text,
    split_barriers,
    sync,
)
from exogpu.codegen import (
    names as codegen_names,
)
from exogpu.codegen.access import Accesses
from exogpu.codegen.control_text import (
    C_TYPE,
    Control,
    c_condition,
    c_control,
    is_nonnegative,
    simplify,
)
from exogpu.codegen.fences_and_flags import Wait
from exogpu.codegen.hardware_barriers import NamedBarriers
from exogpu.codegen.index_registers import SlotCounter, load
from exogpu.codegen.instruction_text import Calls, call_text, note_helpers
from exogpu.codegen.proxies import Proxies
from exogpu.codegen.register_indices import narrowed, ranges_of
from exogpu.codegen.registers import pairs
from exogpu.codegen.shared_counting import Shared, count_block
from exogpu.codegen.short_loops import stored_pair, unrolling
from exogpu.codegen.split_barriers import Barriers
from exogpu.codegen.storage import SharedLayout, Storage
from exogpu.codegen.tensor_map_text import TensorMap
from exogpu.codegen.threads import condition_of_warps, inverse_of_loop
from exogpu.ir import nodes as ir
from exogpu.ir.types import DataType, Space, Sym
from exogpu.ir.walk import accesses, walk


@dataclass(frozen=True, slots=True)
class Path:
    """The code of one warp group (section "Warp Specialization")."""

    group: str
    by_role: bool
    """The launch has several warp groups, each on a path of its own."""
    first: int = 0
    """Number of the group's first warp; it has `count`."""
    count: int = 0


@dataclass(slots=True)
class Device:
    """Context for lowering the statements of one kernel."""

    facts: CollectiveFacts
    storage: Mapping[Sym, Storage]
    shared: SharedLayout
    names: codegen_names.Names
    control: Control
    path: Path
    barriers: Barriers
    named: NamedBarriers
    proxies: Proxies
    maps: Mapping[TensorMap, Sym]
    waits: Mapping[ir.Await, Wait]
    """By Await of a flag, for how many arrivals."""
    counts: Shared
    """The barrier variables that this path counts for others, too."""
    access: Accesses = field(init=False)
    paired: set[ir.Stmt] = field(default_factory=set)
    """Statements that write both elements of a register, one right after the other."""
    helpers: list[str] = field(default_factory=list)
    """Names of the helper functions that the text calls, in order of first use."""

    def __post_init__(self) -> None:
        self.access = Accesses(self.storage, self.names, self.control)
        self.control.nonnegative |= {
            codegen_names.THREAD,
            codegen_names.WARP,
            codegen_names.LANE,
            codegen_names.CTA,
        }

    def dtype_of(self, name: Sym) -> DataType:
        """Returns the type of a variable's elements."""
        return self.storage[name].dtype

    def calls(self) -> Calls:
        """Returns the context for lowering instruction calls."""
        return Calls(self.access, self.facts, self.barriers, self.maps, self.helpers)


def block(device: Device, statements: ir.Block) -> codegen_names.Lines:
    """The statements of a block that this path executes."""
    with device.names.scope():
        made: list[tuple[ir.Stmt, codegen_names.Lines, set[Sym]]] = []
        for at, stmt in enumerate(statements):
            with device.names.recording() as spelled:
                lines = statement(device, stmt)
            if _is_load(stmt) and not all(isinstance(s, ir.Free) for s in statements[at + 1 :]):
                lines = (
                    codegen_names.braces("", lines) if lines else []
                )  # other names follow in the block
            made.append((stmt, lines, spelled))
        after: codegen_names.Lines = []
        used: set[Sym] = set()
        for stmt, lines, spelled in reversed(made):
            if _is_needed(device, stmt, lines, after, used):
                after = [*lines, *after]
                used |= spelled
        device.names.use(used)
        return after


def _is_needed(
    device: Device,
    stmt: ir.Stmt,
    lines: codegen_names.Lines,
    after: codegen_names.Lines,
    used: set[Sym],
) -> bool:
    """Tests whether a statement's lines are needed: declarations that are used, no fence twice."""
    match stmt:
        case ir.Alloc() if lines:
            scale = device.storage[stmt.name].scale
            names = (stmt.name,) if scale is None else (stmt.name, scale)
            return not used.isdisjoint(names)
        case ir.BarrierAlloc() if lines:
            return stmt.name in used
        case ir.Free():
            return lines != after[: len(lines)]
        case _:
            return True


def statement(device: Device, stmt: ir.Stmt) -> codegen_names.Lines:
    """The lines of one statement; none where the path does not execute it."""
    match stmt:
        case ir.For(mode=ir.CudaThreads()):
            return thread_loop(device, stmt)
        case ir.For(mode=ir.CudaTasks()):
            raise codegen_names.unsupported(
                "this cuda_tasks loop stands below something that is no cuda_tasks loop",
                stmt.span,
                "nest cuda_tasks loops directly in each other, outermost in the kernel",
            )
        case ir.For(mode=ir.Seq()):
            return sequential_loop(device, stmt)
        case ir.For(mode=ir.Slot(barrier), hi=ir.Int(ring)):
            return slot(device, stmt, device.barriers.slots[barrier][ring])
        case ir.For(mode=ir.Loaded()):
            return emit_load(device, stmt)
        case ir.For():
            raise AssertionError(stmt.mode)
        case ir.If():
            return conditional(device, stmt)
        case ir.Warps():
            return warps(device, stmt)
        case ir.Assign() | ir.Reduce():
            return [source(stmt), _scalar(device, stmt)]
        case ir.CallInstr():
            return [source(stmt), *call_text(device.calls(), stmt)]
        case ir.Alloc():
            return allocation(device, stmt)
        case ir.BarrierAlloc():
            lines = split_barriers.allocation(device.barriers, stmt)
            return [source(stmt), *lines] if lines else []
        case ir.Fence():
            return [source(stmt), *fences_and_flags.fence(device, stmt)]
        case ir.Arrive() if fences_and_flags.is_flag(device, stmt.targets[0]):
            return [source(stmt), *fences_and_flags.arrive(device, stmt)]
        case ir.Await() if fences_and_flags.is_flag(device, stmt.barrier):
            return [source(stmt), *fences_and_flags.wait(device, stmt)]
        case ir.Arrive():
            return [
                source(stmt),
                *split_barriers.arrive(
                    device.barriers, stmt, fences_and_flags.rows_place(device, stmt)
                ),
            ]
        case ir.Await():
            return [
                source(stmt),
                *split_barriers.wait(
                    device.barriers, stmt, fences_and_flags.rows_place(device, stmt)
                ),
            ]
        case ir.Free():
            if stmt.name not in device.proxies.freed:
                return []
            return sync.emit("proxy fence at free", space=device.proxies.freed_space)
        case ir.Pass() | ir.Uninit():
            return []
        case ir.DeviceFunction() | ir.CallProc() | ir.WindowStmt():
            raise AssertionError(f"{stmt} does not stand in a kernel")
        case _:
            assert_never(stmt)


def source(stmt: ir.Stmt) -> str:
    """The comment that names a statement's source line."""
    text = stmt.span.text.strip()
    return codegen_names.comment(f"{stmt.span.line}: {text}") if stmt.span.line else "//"


# --- loops and conditions -------------------------------------------------------------------


def thread_loop(device: Device, stmt: ir.For) -> codegen_names.Lines:
    """`for y in cuda_threads(lo, hi, unit) do s` lowers to `if (int y = f; g) { s }`."""
    parent, child = device.facts.scope[stmt], device.facts.inner[stmt]
    assert parent is not None
    inverse = inverse_of_loop(stmt, parent, child)
    value = simplify(inverse.value, device.control.constants)
    if isinstance(value, ir.Int):
        device.control.constants[stmt.iterator] = value.value
        condition = inverse.condition
        inside = block(device, stmt.body)
        if not inside:
            return []
        if condition == ir.Truth(True):
            return codegen_names.braces(f"/* {stmt.iterator.name} = {value.value} */", inside)
        lines = codegen_names.braces(f"if ({c_condition(condition, device.control)})", inside)
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
    lines = codegen_names.braces(f"if (const int {name} = {text}; {condition_text})", inside)
    return [source(stmt), *pins, *lines, *pins]


def _pins(device: Device, stmt: ir.For, parent: Tiling) -> codegen_names.Lines:
    """Before and after a loop over a fragment: registers of wgmma are computed with between the
    waits around it, and not where the compiler would like to."""
    if device.facts.inner[stmt].threads != 1 or parent.threads == 1:
        return []
    touched = {access.name: None for inner in walk(stmt.body) for access in accesses(inner)}
    lines: codegen_names.Lines = []
    for name in touched:
        if name in device.storage and device.storage[name].pinned:
            lines.append(f"pinned({device.names(name)});")
            note_helpers(lines[-1], device.helpers)
    return lines


def sequential_loop(device: Device, stmt: ir.For) -> codegen_names.Lines:
    """`for i in seq(lo, hi)`."""
    if _is_of_others(device, stmt.body):
        return count_block(device.access, device.facts, device.barriers, device.counts, (stmt,))
    control = device.control
    lo, hi = simplify(stmt.lo, control.constants), simplify(stmt.hi, control.constants)
    first, end = c_control(lo, control), c_control(hi, control)
    control.iterate(stmt.iterator, lo, hi)
    with device.names.scope():
        name = device.names.declare(stmt.iterator)
        if is_nonnegative(lo, control):
            control.nonnegative.add(stmt.iterator)
        device.paired |= pairs(stmt, device.storage, control)
        stored = stored_pair(stmt, device.storage, control)
        inside = block(device, stmt.body) if stored is None else pair_store(device, stmt)
    if not inside or stored is not None:
        return inside
    head = f"for (int {name} = {first}; {name} < {end}; ++{name})"
    return [
        source(stmt),
        *unrolling(stmt, lo, hi, device.storage),
        *codegen_names.braces(head, inside),
    ]


def pair_store(device: Device, loop: ir.For) -> codegen_names.Lines:
    """A loop over two neighbours in memory, as one store of both."""
    control, iterator = device.control, loop.iterator

    def element(at: int) -> Callable[[ir.Access], str]:
        def place(access: ir.Access) -> str:
            control.constants[iterator] = at
            return device.access.element(access)

        return place

    def branch(statements: ir.Block) -> codegen_names.Lines:
        (stmt,) = statements
        if isinstance(stmt, ir.If):
            condition = c_condition(stmt.condition, control)
            with _narrowed_by(control, stmt.condition, holds=True):
                lines = codegen_names.braces(f"if ({condition})", branch(stmt.body))
        else:
            assert isinstance(stmt, ir.Assign)
            pointer = f"&{element(0)(stmt.target)}"
            of = device.dtype_of
            text = scalar_text.pair_statement(stmt, of, element(0), element(1), pointer)
            note_helpers(text, device.helpers)
            lines = [text]
        return [source(stmt), *lines]

    control.constants[iterator] = 0
    try:
        return branch(loop.body)
    finally:
        del control.constants[iterator]


def _is_of_others(device: Device, statements: ir.Block) -> bool:
    """Tests whether other warp groups execute everything in a block."""
    return device.path.by_role and all(
        isinstance(stmt, ir.Warps) and device.facts.inner[stmt].group != device.path.group
        for stmt in statements
    )


def slot(device: Device, stmt: ir.For, counter: SlotCounter) -> codegen_names.Lines:
    """The binding of a slot: what this thread has counted."""
    control = device.control
    control.iterate(stmt.iterator, stmt.lo, stmt.hi)
    control.nonnegative.add(stmt.iterator)
    with device.names.scope():
        device.names(counter.barrier)  # beside which it is declared
        counted = device.names(counter.name)
        name = device.names.declare(stmt.iterator)
        inside = block(device, stmt.body)
    return codegen_names.braces("", [f"const int {name} = {counted};", *inside]) if inside else []


def emit_load(device: Device, stmt: ir.For) -> codegen_names.Lines:
    """A value from memory, and the rest of its block: no braces."""
    with device.names.scope():
        bound = load(device.access, stmt)
        note_helpers(bound, device.helpers)
        inside = block(device, stmt.body)
    if not inside and any(isinstance(s, _TELLING) for s in walk(stmt.body)):
        return []  # others execute it
    return [source(stmt), bound, *inside]


_TELLING: Final = (ir.Assign, ir.Reduce, ir.CallInstr, ir.Fence, ir.Arrive, ir.Await)
"""Statements that are some path's."""


def _is_load(stmt: ir.Stmt) -> bool:
    return isinstance(stmt, ir.For) and isinstance(stmt.mode, ir.Loaded)


def conditional(device: Device, stmt: ir.If) -> codegen_names.Lines:
    """`if b: s` with its `else`."""
    body = _branch(device, stmt.condition, stmt.body, holds=True)
    orelse = _branch(device, stmt.condition, stmt.orelse, holds=False)
    if not body and not orelse:
        return []
    condition = c_condition(stmt.condition, device.control)
    lines = [source(stmt), *codegen_names.braces(f"if ({condition})", body)]
    if orelse:
        lines[-1:] = codegen_names.braces("} else", orelse)
    return lines


def _branch(
    device: Device, condition: ir.BExpr, statements: ir.Block, *, holds: bool
) -> codegen_names.Lines:
    """The statements of a block where a condition holds, or where it does not."""
    with _narrowed_by(device.control, condition, holds=holds):
        return block(device, statements)


@contextmanager
def _narrowed_by(control: Control, condition: ir.BExpr, *, holds: bool) -> Iterator[None]:
    """The ranges of iterators where a condition holds, or where it does not."""
    outside = control.narrowed
    control.narrowed = narrowed(ranges_of(control), condition, holds)
    try:
        yield
    finally:
        control.narrowed = outside


def warps(device: Device, stmt: ir.Warps) -> codegen_names.Lines:
    """`with CudaWarps`: nothing on the paths of other warp groups."""
    parent, child = device.facts.scope[stmt], device.facts.inner[stmt]
    assert parent is not None
    if device.path.by_role and child.group != device.path.group:
        return count_block(device.access, device.facts, device.barriers, device.counts, stmt.body)
    condition = condition_of_warps(stmt, parent, child)
    inside = block(device, stmt.body)
    if not inside:
        return []
    path, chosen = device.path, child.dims[-1].ops[-1]
    if path.by_role and (chosen.offset, chosen.box) == (32 * path.first, 32 * path.count):
        return [source(stmt), *codegen_names.braces("", inside)]
    lines = codegen_names.braces(f"if ({c_condition(condition, device.control)})", inside)
    return [source(stmt), *_else_counted(device, lines, stmt.body)]


def _else_counted(
    device: Device, lines: codegen_names.Lines, body: ir.Block
) -> codegen_names.Lines:
    """Adds an `else` to braces, with the counting of threads that do not enter them."""
    others = count_block(device.access, device.facts, device.barriers, device.counts, body)
    return [*lines[:-1], *codegen_names.braces("} else", others)] if others else lines


# --- data -----------------------------------------------------------------------------------


def allocation(device: Device, stmt: ir.Alloc) -> codegen_names.Lines:
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


def _scalar(device: Device, stmt: ir.Assign | ir.Reduce) -> str:
    place = device.access.element
    if not device.access.is_packed(stmt.target):
        return scalar_text.statement(stmt, device.dtype_of, place)
    word, half = device.access.packed_register(stmt.target)
    return scalar_text.half_statement(
        stmt, device.dtype_of, place, word, half, paired=stmt in device.paired
    )
