"""Gives the values of partitions names of their own, and tells which values share registers."""

from __future__ import annotations

from collections.abc import Mapping
from dataclasses import dataclass, field, replace

from exogpu.importing.mlir_text import Operation, Region, walk


def unique_names(operations: tuple[Operation, ...], suffix: str = "") -> tuple[Operation, ...]:
    """The operations with the names of each partition made unique: two may have used one name,
    since partitions see no values but their arguments."""
    return tuple(_add_suffix(operation, suffix) for operation in operations)


def _add_suffix(operation: Operation, suffix: str) -> Operation:
    specialized = operation.name == "ttg.warp_specialize"
    regions = []
    for region in operation.regions:
        own = suffix
        if specialized and region.label != "default":
            own = f"{suffix}@{region.label}"
        regions.append(
            Region(
                region.label,
                _suffixed(region.arguments, own),
                unique_names(region.operations, own),
                region.warps,
            )
        )
    return replace(
        operation,
        results=_suffixed(operation.results, suffix),
        operands=_suffixed(operation.operands, suffix),
        regions=tuple(regions),
    )


def _suffixed(names: tuple[str, ...], suffix: str) -> tuple[str, ...]:
    return tuple(name + suffix for name in names) if suffix else names


@dataclass(slots=True)
class Shared:
    """Sets of values that are one set of registers: accumulators of wgmma."""

    parents: dict[str, str] = field(default_factory=dict)
    names: dict[str, str] = field(default_factory=dict)

    def root(self, name: str) -> str:
        """The representative of a value's set."""
        while (above := self.parents.get(name, name)) != name:
            name = above
        return name

    def join(self, one: str, other: str) -> None:
        """Two values share registers."""
        self.parents[self.root(one)] = self.root(other)

    def accumulator(self, name: str) -> str:
        """The accumulator that a value is held in; empty where it is none."""
        return self.names.get(self.root(name), "")


def accumulators(operations: tuple[Operation, ...]) -> Shared:
    """Finds the accumulators: results of products, and what waits and loops make of them."""
    shared = Shared()
    products: list[str] = []
    for operation in walk(operations):
        match operation.name:
            case "ttng.warp_group_dot":
                products.append(operation.results[0])
                shared.join(operation.results[0], operation.operands[2])
            case "ttng.warp_group_dot_wait":
                for result, operand in zip(operation.results, operation.operands, strict=False):
                    shared.join(result, operand)
            case "scf.for":
                _join_carried(operation, shared)
    for product in products:
        shared.names.setdefault(shared.root(product), f"acc{len(shared.names)}")
    return shared


def _join_carried(loop: Operation, shared: Shared) -> None:
    region = loop.regions[0]
    last = region.terminator
    yielded = last.operands if last is not None else ()
    around = (loop.operands[3:], region.arguments[1:], yielded, loop.results)
    for first, argument, after, result in zip(*around, strict=False):
        shared.join(first, argument)
        shared.join(argument, after)
        shared.join(after, result)


def aliases(operation: Operation) -> Mapping[str, str]:
    """The values of warp_specialize that the arguments of its partitions stand for."""
    return {
        argument: value
        for region in operation.regions
        for argument, value in zip(region.arguments, operation.operands, strict=False)
    }
