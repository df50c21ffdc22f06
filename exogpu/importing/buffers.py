"""The allocations of a kernel: tiles, mbarriers, and the compiler's scratch memory."""

from __future__ import annotations

import re
from collections.abc import Callable, Mapping
from dataclasses import dataclass, field

from exogpu.importing.layouts import memory, types_in
from exogpu.importing.memory import Buffer
from exogpu.importing.mlir_text import Operation, walk
from exogpu.importing.partition_names import aliases
from exogpu.importing.refusals import unsupported
from exogpu.importing.role_events import Barriers
from exogpu.importing.source_locations import Places


@dataclass(slots=True)
class Allocated:
    """The buffers, mbarriers and scratch memory that a kernel allocates."""

    buffers: list[Buffer] = field(default_factory=list)
    barriers: dict[str, Barriers] = field(default_factory=dict)
    scratch: dict[Operation, str] = field(default_factory=dict)
    """By operation: its buffer."""


def allocated(
    body: tuple[Operation, ...], places: Places, origin: Callable[[str], str]
) -> Allocated:
    """All allocations; `origin` tells the allocation that a value was made from.

    Raises RefusedError (K104) for one that has no offset, or whose size is not known.
    """
    uses: Mapping[str, set[str]] = {"ttg.memdesc_index": set(), "ttng.init_barrier": set()}
    for operation in walk(body):
        if operation.name in uses:
            uses[operation.name].add(origin(operation.operands[0]))
    found = Allocated()
    for operation in walk(body):
        offset = operation.integer("allocation.offset")
        if operation.name == "ttg.local_alloc":
            _allocate(operation, offset, places, uses, found)
        elif offset is not None:
            _scratch(operation, offset, places, found)
    _share(found, parted=any(one.name == "ttg.warp_specialize" for one in walk(body)))
    return found


def _share(found: Allocated, *, parted: bool) -> None:
    """Makes a buffer of each mbarrier, too, that shares bytes with anything else.

    Raises RefusedError (K104) for one of a kernel that parts into roles.
    """
    every = [(name, one) for name, one in found.barriers.items()]
    taken = [(one.name, one.offset, one.end, one.label) for one in found.buffers]
    taken += [(name, one.offset, one.end, one.label) for name, one in every]
    for name, barriers in every:
        labels = [
            label
            for other, begin, end, label in taken
            if other != name and barriers.offset < end and begin < barriers.end
        ]
        if not labels:
            continue
        if parted:
            raise unsupported(
                f"the mbarrier {barriers.label} shares bytes with {labels[0]}",
                "give the mbarrier a lifetime that overlaps, so that they share no bytes",
                barriers.span,
            )
        barriers.shares = True
        found.buffers.append(
            Buffer(name, barriers.label, barriers.offset, barriers.size, 1, barriers.span)
        )


def _allocate(
    operation: Operation,
    offset: int | None,
    places: Places,
    uses: Mapping[str, set[str]],
    found: Allocated,
) -> None:
    (name,) = operation.results
    span, shape = places.span(operation), memory(types_in(operation.types)[-1])
    if shape is None or shape.bytes is None or offset is None:
        raise unsupported(
            f"an allocation of another form: {operation.types}",
            "give TTGIR after allocation, as exogpu takes it from Triton",
            span,
        )
    indexed = name in uses["ttg.memdesc_index"] and len(shape.extents) > 1
    slots, label = shape.extents[0] if indexed else 1, _label(operation, places)
    if name in uses["ttng.init_barrier"]:
        found.barriers[name] = Barriers(label, slots, span, offset, shape.bytes)
    else:
        found.buffers.append(Buffer(name, label, offset, shape.bytes, slots, span))


def _scratch(operation: Operation, offset: int, places: Places, found: Allocated) -> None:
    span, size = places.span(operation), operation.integer("allocation.size")
    if size is None:
        raise unsupported("scratch memory of unknown size", "report this", span)
    name = f"scratch@{operation.line}"
    found.scratch[operation] = name
    found.buffers.append(Buffer(name, f"scratch_{span.line}", offset, size, 1, span))


def _label(operation: Operation, places: Places) -> str:
    """The user's name of what is allocated, as a name of the language."""
    name = places.name(operation) or operation.results[0]
    label = re.sub(r"\W+", "_", name.partition("@")[0]).strip("_")
    return label if label and not label[0].isdigit() else f"buffer_{label}"


def sources(body: tuple[Operation, ...]) -> dict[str, str]:
    """Maps values of memory to the values that they are made from."""
    found: dict[str, str] = {}
    for operation in walk(body):
        if operation.name.startswith("ttg.memdesc_"):
            found[operation.results[0]] = operation.operands[0]
        elif operation.name == "ttg.warp_specialize":
            found |= aliases(operation)
        elif operation.name == "scf.for":
            found |= zip(operation.regions[0].arguments[1:], operation.operands[3:], strict=False)
    return found
