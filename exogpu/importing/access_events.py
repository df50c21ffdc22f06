"""Translates operations that access or order memory to events, one function an operation."""

from __future__ import annotations

import re
from collections.abc import Callable, Mapping
from dataclasses import dataclass
from typing import TYPE_CHECKING, Final

from exogpu.diagnostics.hazards import HazardKind
from exogpu.importing import role_events
from exogpu.importing.layouts import description, held_once, memory, tensor, types_in
from exogpu.importing.memory import Window, window
from exogpu.importing.mlir_text import Operation
from exogpu.importing.polynomial_values import TRUE, Condition, Value
from exogpu.importing.refusals import faulty, unknown_value, unread, unsupported
from exogpu.importing.triton_tables import Lowering

if TYPE_CHECKING:
    from exogpu.importing.translate import Translator


@dataclass(frozen=True, slots=True)
class View:
    """A buffer, or a slot of its ring."""

    buffer: str
    slot: Value | None = None
    part: bool = False
    """True for a part of a tile."""
    reshaped: bool = False
    """True if the shape differs from the buffer's, so that an index names no slot of it."""


@dataclass(slots=True)
class Expected:
    """Bytes that an mbarrier expects of TMA loads which are not issued yet."""

    bytes: int
    guard: Condition
    operation: Operation


def _window(at: Translator, operation: Operation, name: str, *, writes: bool = False) -> Window:
    view = at.view(name, operation)
    if writes and view.part:
        raise unsupported(
            f"{operation.name} writes some of a tile",
            "exogpu reads writes of whole tiles; allocate the parts apart",
            at.span(operation),
        )
    return window(at.memory, view.buffer, view.slot)


def _slot(at: Translator, operation: Operation, name: str) -> role_events.Slot:
    view = at.view(name, operation)
    if view.buffer not in at.barriers:
        raise unread(f"{operation.name} of what is no mbarrier", at.span(operation))
    return role_events.Slot(view.buffer, Value() if view.slot is None else view.slot)


def _truth(at: Translator, operation: Operation, name: str) -> Condition:
    found = at.scalars.get(name)
    if found is None or isinstance(found, Value):
        raise unknown_value(f"the predicate of {operation.name} is not known", at.span(operation))
    return found


def _parts(at: Translator, view: View, tile: str, held: str) -> str:
    """Returns a key of the map from threads to bytes; empty where threads share elements.

    Two accesses of one map are of the same bytes, or of none in common: so the map tells where
    tiles begin, too.
    """
    shape, lies = tensor(held), memory(tile)
    if view.part or (begins := _begins(at, view)) is None:
        return ""
    if shape is None or lies is None or not held_once(shape, at.module.aliases):
        return ""
    layouts = [at.module.aliases.get(one.layout, one.layout) for one in (shape, lies)]
    return f"{at.role.name}: {shape.extents} {shape.element} {' in '.join(layouts)} {begins}"


def _begins(at: Translator, view: View) -> str | None:
    """Returns where tiles of a buffer may begin; None for what is no tile."""
    buffer = at.memory.buffers.get(view.buffer)
    if buffer is None:
        return None
    size = buffer.size if view.slot is None else buffer.size // buffer.slots
    return f"at {buffer.offset % size} of {size}"


# --- shared memory --------------------------------------------------------------------------


def _local_alloc(at: Translator, operation: Operation, low: Lowering) -> None:
    (result,) = operation.results
    at.views[result] = View(result)
    if operation.operands:
        at.use(operation)
        at.emit(
            operation,
            role_events.Store(
                _window(at, operation, result), _parts_of_store(at, operation, result)
            ),
        )


def _parts_of_store(at: Translator, operation: Operation, buffer: str) -> str:
    held, _, tile = operation.types.partition("->")
    return _parts(at, at.view(buffer, operation), _full(tile), held.strip().strip("()"))


def _full(text: str) -> str:
    text = text.strip()
    return text if text.startswith("!") else f"!ttg.memdesc{text}"


def _local_load(at: Translator, operation: Operation, low: Lowering) -> None:
    tile, _, held = operation.types.partition("->")
    view = at.view(operation.operands[0], operation)
    parts = _parts(at, view, _full(tile), held.strip())
    at.emit(operation, role_events.Load(_window(at, operation, operation.operands[0]), parts))


def _local_store(at: Translator, operation: Operation, low: Lowering) -> None:
    at.use(operation)
    target = _window(at, operation, operation.operands[1], writes=True)
    at.emit(
        operation, role_events.Store(target, _parts_of_store(at, operation, operation.operands[1]))
    )


def _index(at: Translator, operation: Operation, low: Lowering) -> None:
    view = at.view(operation.operands[0], operation)
    slot = at.scalars.get(operation.operands[1])
    if not isinstance(slot, Value) or view.slot is not None or view.reshaped:
        raise unknown_value(
            f"the index of {at.label(view.buffer)} is not known", at.span(operation)
        )
    at.views[operation.results[0]] = View(view.buffer, slot)


def _alias_view(at: Translator, operation: Operation, low: Lowering) -> None:
    view = at.view(operation.operands[0], operation)
    part = view.part or operation.name == "ttg.memdesc_subslice"
    at.views[operation.results[0]] = View(view.buffer, view.slot, part, True)


def _barrier(at: Translator, operation: Operation, low: Lowering) -> None:
    at.emit(operation, role_events.Meet())


def _proxy_fence(at: Translator, operation: Operation, low: Lowering) -> None:
    at.emit(operation, role_events.ProxyFence())


# --- mbarriers ------------------------------------------------------------------------------


def _init(at: Translator, operation: Operation, low: Lowering) -> None:
    slot = _slot(at, operation, operation.operands[0])
    count = re.search(r", (\d+)$", operation.text)
    if count is None or slot.index.constant is None:
        raise unread("init_barrier of another form", at.span(operation))
    begins = not at.mbarriers.live.get(slot.array)
    at.mbarriers.initialise(
        slot.array, slot.index.constant, int(count[1]), at.span(operation), scope=at.scope
    )
    if begins and at.barriers[slot.array].shares:
        at.write_barrier_words(operation, slot.array)


def _invalidate(at: Translator, operation: Operation, low: Lowering) -> None:
    slot = _slot(at, operation, operation.operands[0])
    element = slot.index.constant
    if at.mbarriers.invalidate(slot.array, element, at.span(operation), scope=at.scope):
        at.write_barrier_words(operation, slot.array)


def _expect(at: Translator, operation: Operation, low: Lowering) -> None:
    slot = _slot(at, operation, operation.operands[0])
    count = re.search(r", (\d+)(?:, (%\S+))?$", operation.text)
    if count is None:
        raise unread("barrier_expect of another form", at.span(operation))
    guard = _truth(at, operation, operation.operands[1]) if count[2] else TRUE
    if slot in at.expected:
        raise unsupported(
            "a second barrier_expect before the bytes of the first are loaded",
            "expect the bytes of all loads of a phase at once",
            at.span(operation),
        )
    at.mbarriers.use(slot.array, at.span(operation), all_threads=False)
    at.filled.pop(slot, None)
    at.expected[slot] = Expected(int(count[1]), guard, operation)


def _tma_load(at: Translator, operation: Operation, low: Lowering) -> None:
    found = re.fullmatch(r"(%\S+)\[.*?\] (%\S+), (%\S+), (%\S+)", operation.text)
    if found is None:
        raise unsupported(
            f"a TMA load of another form: {operation.text}",
            "tiles that one program loads for itself are read",
            at.span(operation),
        )
    tile, barrier, predicate = operation.operands[-3:]
    slot, guard = _slot(at, operation, barrier), _truth(at, operation, predicate)
    shape = memory(_full(types_in(operation.types)[-1]))
    bytes_loaded = None if shape is None else shape.bytes
    expected = at.expected.get(slot, at.filled.get(slot))
    if expected is None or bytes_loaded is None:
        raise unsupported(
            "a TMA load for which no bytes are expected in the same block",
            "write mbarrier.expect before the loads, with the bytes of all of them",
            at.span(operation),
        )
    at.mbarriers.use(slot.array, at.span(operation), all_threads=True)
    at.emit(operation, role_events.TmaLoad(_window(at, operation, tile, writes=True), slot), guard)
    expected.bytes -= bytes_loaded
    if guard != expected.guard:
        raise unsupported(
            "a TMA load under another predicate than its barrier_expect",
            "expect and load under one predicate",
            at.span(operation),
        )
    if expected.bytes < 0:
        raise faulty(
            HazardKind.PHASE,
            at.label(slot.array),
            f"the mbarrier expects {expected.bytes + bytes_loaded} bytes where {bytes_loaded} are "
            "loaded: its phase completes before they are there",
            at.span(expected.operation),
            at.span(operation),
        )
    if expected.bytes == 0:
        at.filled[slot] = at.expected.pop(slot)
        at.emit(expected.operation, role_events.Expect(slot), guard)


def _wait(at: Translator, operation: Operation, low: Lowering) -> None:
    own = operation.text.partition(" deps ")[0]
    operands = operation.operands[: own.count("%")]
    slot = _slot(at, operation, operands[0])
    phase = at.scalars.get(operands[1])
    if not isinstance(phase, Value):
        raise unknown_value("the phase of a wait is not known", at.span(operation))
    guard = _truth(at, operation, operands[2]) if len(operands) > 2 else TRUE
    at.mbarriers.use(slot.array, at.span(operation), all_threads=True)
    at.emit(operation, role_events.Wait(slot, phase), guard)


def _arrive(at: Translator, operation: Operation, low: Lowering) -> None:
    found = re.fullmatch(r"%\S+, (\d+)(, %\S+)?", operation.text)
    slot = _slot(at, operation, operation.operands[0])
    if found is None or int(found[1]) != 1:
        raise unsupported(
            "an arrival that counts several times, or is executed by each thread",
            "exogpu reads arrivals of count 1",
            at.span(operation),
        )
    guard = _truth(at, operation, operation.operands[1]) if found[2] else TRUE
    at.mbarriers.use(slot.array, at.span(operation), all_threads=True)
    if not low.meet_before_arrive:
        raise unsupported(
            f"Triton {low.version} lowers an arrival without a barrier before it",
            "use Triton 3.8 or 3.9",
            at.span(operation),
        )
    at.emit(operation, role_events.Signal(slot), guard)


# --- copies ---------------------------------------------------------------------------------


def _tma_store(at: Translator, operation: Operation, low: Lowering) -> None:
    if not re.fullmatch(r"(%\S+)\[.*\] (%\S+)", operation.text):
        raise unread("a TMA store of another form", at.span(operation))
    tensor_name, *indices = operation.operands[:-1]
    block = description(types_in(operation.types)[0]) or ()
    known = [at.scalars.get(name) for name in indices]
    coordinates = tuple(one if isinstance(one, Value) else None for one in known)
    source = _window(at, operation, operation.operands[-1])
    at.emit(operation, role_events.TmaStore(source, at.origin(tensor_name), coordinates, block))


def _tma_store_wait(at: Translator, operation: Operation, low: Lowering) -> None:
    at.emit(operation, role_events.TmaStoreWait(_pending(at, operation, "pendings")))


def _pending(at: Translator, operation: Operation, name: str) -> int:
    pending = operation.integer(name)
    if pending is None or pending < 0:
        raise unread(f"{operation.name} without a count", at.span(operation))
    return pending


def _async_copy(at: Translator, operation: Operation, low: Lowering) -> None:
    held = operation.types.partition("->")[0].strip()
    tile = operation.types.partition("->")[2]
    view = at.view(operation.operands[1], operation)
    parts = _parts(at, view, _full(tile), held)
    if not parts and low.copies_once:
        # One of the threads that have an element copies it.
        parts = f"{at.role.name}: cp.async {held} to {tile} {_begins(at, view)}"
    at.emit(
        operation,
        role_events.AsyncCopy(_window(at, operation, operation.operands[1], writes=True), parts),
    )


def _async_commit(at: Translator, operation: Operation, low: Lowering) -> None:
    at.emit(operation, role_events.AsyncCommit())


def _async_wait(at: Translator, operation: Operation, low: Lowering) -> None:
    at.emit(operation, role_events.AsyncWait(_pending(at, operation, "num")))


# --- products -------------------------------------------------------------------------------


def _dot(at: Translator, operation: Operation, low: Lowering) -> None:
    accumulator = at.shared.accumulator(operation.results[0])
    operands = []
    for name, kind in zip(operation.operands[:2], types_in(operation.types), strict=False):
        if kind.startswith("!ttg.memdesc") or name in at.views:
            operands.append(_window(at, operation, name))
        elif at.shared.accumulator(name):
            at.emit(operation, role_events.Registers(uses=at.shared.accumulator(name)))
    if at.role.threads % 128:
        raise unsupported(
            f"wgmma by {at.role.warps} warps", "give it whole warpgroups", at.span(operation)
        )
    at.accumulators.setdefault(accumulator, (at.role.name, at.span(operation)))
    at.emit(operation, role_events.Dot(accumulator, tuple(operands)))
    if operation.attributes.get("isAsync", "false") != "true":
        at.emit(operation, role_events.DotWait(0))


def _dot_wait(at: Translator, operation: Operation, low: Lowering) -> None:
    at.emit(operation, role_events.DotWait(_pending(at, operation, "pendings")))
    local = "warpGroupLocal" in operation.attributes
    if at.role.threads > 128 and low.meet_after_product_wait and not local:
        at.emit(operation, role_events.Meet())
    for result, operand in zip(operation.results, operation.operands, strict=False):
        if operand in at.views:
            at.views[result] = at.views[operand]


def _skip(at: Translator, operation: Operation, low: Lowering) -> None:
    """Translates an operation that accesses no shared memory; it may read accumulators."""
    at.use(operation)


Handler = Callable[["Translator", Operation, Lowering], None]
HANDLERS: Final[Mapping[str, Handler]] = {
    "tt.load": _skip,
    "tt.store": _skip,
    "ttg.local_alloc": _local_alloc,
    "ttg.local_dealloc": _skip,
    "ttg.local_load": _local_load,
    "ttg.local_store": _local_store,
    "ttg.memdesc_index": _index,
    "ttg.memdesc_trans": _alias_view,
    "ttg.memdesc_reshape": _alias_view,
    "ttg.memdesc_reinterpret": _alias_view,
    "ttg.memdesc_subslice": _alias_view,
    "ttg.barrier": _barrier,
    "ttng.fence_async_shared": _proxy_fence,
    "ttng.init_barrier": _init,
    "ttng.inval_barrier": _invalidate,
    "ttng.barrier_expect": _expect,
    "ttng.wait_barrier": _wait,
    "ttng.arrive_barrier": _arrive,
    "ttng.async_tma_copy_global_to_local": _tma_load,
    "ttng.async_tma_copy_local_to_global": _tma_store,
    "ttng.async_tma_store_wait": _tma_store_wait,
    "ttg.async_copy_global_to_local": _async_copy,
    "ttg.async_commit_group": _async_commit,
    "ttg.async_wait": _async_wait,
    "ttng.warp_group_dot": _dot,
    "ttng.warp_group_dot_wait": _dot_wait,
}
"""The translation of each operation in the table."""
