"""State for making a random program: its parameters so far, fresh names, a tree of lines."""

from __future__ import annotations

from dataclasses import dataclass, field
from random import Random

from exogpu.gpu_trial.operand_values import Node, fence, lines, nested

__all__ = ["BYTES", "Launch", "Making", "Node", "fence", "lines", "nested"]

BYTES = {
    **{"f16": 2, "bf16": 2, "f32": 4, "f64": 8},
    **{"i8": 1, "i32": 4, "i64": 8, "ui8": 1, "ui16": 2, "ui64": 8},
}


@dataclass
class Making:
    """A program in the making."""

    rng: Random
    parameters: list[str] = field(default_factory=list)
    maps: list[Node] = field(default_factory=list)
    features: set[str] = field(default_factory=set)
    sizes: dict[str, int] = field(default_factory=dict)
    """The sizes in use, with what each has to be a multiple of."""
    elements: int = 0
    """The elements of the arrays, a task."""
    count: int = 0

    def name(self, stem: str) -> str:
        """A name that nothing else has."""
        self.count += 1
        return f"{stem}{self.count}"

    def array(self, stem: str, dtype: str, rows: str, *shape: int | str) -> str:
        """A new parameter in global memory, `rows` times a shape; a size counts as 64."""
        name = self.name(stem)
        extents = ", ".join([rows, *map(str, shape)])
        self.parameters.append(f"{name}: {dtype}[{extents}] @ CudaGmemLinear")
        elements = 1
        for extent in shape:
            elements *= extent if isinstance(extent, int) else 64
        self.elements += elements
        return name

    def size(self, name: str, multiple: int = 1) -> str:
        """A size beside M."""
        known = self.sizes.get(name, 1)
        self.sizes[name] = max(known, multiple)
        return name

    def chance(self, share: float) -> bool:
        return self.rng.random() < share

    def note(self, *features: str) -> None:
        self.features.update(features)


@dataclass(frozen=True)
class Launch:
    """The kernel that a piece stands in: the scope is one CTA of a cluster."""

    block: int
    cluster: int
    rows: str
    """The extent of an array with a row for each CTA of each task."""
    row: str
    """The row of this CTA."""
    task: str
    """The row of this task."""
    tile: int = 0
    """Elements of a vector of length L that a task takes; 0 where the tasks are counted."""
    roles: tuple[tuple[str, int], ...] = ()
    """Named groups of warps."""
