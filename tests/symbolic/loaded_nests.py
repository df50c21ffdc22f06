"""Random kernels whose loops and conditions memory decides, with tiles at any depth of them."""

from __future__ import annotations

from collections.abc import Iterator
from contextlib import contextmanager
from dataclasses import dataclass, field
from random import Random
from typing import Final

HEAD: Final = """from __future__ import annotations
from exogpu import *


@proc
def nest(
    G: size,
    M: size,
    o: i32[G + 1] @ CudaGmemLinear,
    q: i32[M] @ CudaGmemLinear,
    x: f32[M, 32] @ CudaGmemLinear,
    y: f32[M, 32] @ CudaGmemLinear,
):
"""
FENCE: Final = "Fence(cuda_in_order, cuda_in_order)"
CONTRACTS: Final = ("monotone(o)", "injective(q)")


@dataclass
class _Nest:
    """What is written, and what is known where it goes on."""

    random: Random
    lines: list[str] = field(default_factory=list)
    depth: int = 1
    count: int = 0
    ranges: list[tuple[str, str]] = field(default_factory=list)
    """Loaded: from, which may be 0, and to."""
    rows: list[str] = field(default_factory=list)
    """Of x and y."""
    iterators: list[str] = field(default_factory=list)
    tiles: list[tuple[str, bool]] = field(default_factory=list)
    """With two slots, or without."""

    def add(self, line: str) -> None:
        self.lines.append("    " * self.depth + line)

    def name(self, kind: str) -> str:
        self.count += 1
        return f"{kind}{self.count}"

    @contextmanager
    def inside(self, head: str) -> Iterator[None]:
        """What is declared in it is known there alone."""
        known = (self.ranges, self.rows, self.iterators, self.tiles)
        ends = [len(one) for one in known]
        self.add(head)
        self.depth += 1
        yield
        self.depth -= 1
        for one, end in zip(known, ends, strict=True):
            del one[end:]

    # --- statements ---------------------------------------------------------------------------

    def block(self, level: int) -> None:
        for _ in range(self.random.randrange(2, 5)):
            chance = self.random.random()
            if chance < 0.3:
                self.load()
            elif chance < 0.45:
                self.tile()
            elif chance < 0.75 and level < 3:
                self.loop(level)
            elif chance < 0.85 and level < 3:
                lo, hi = self.random.choice(self.ranges)
                left = self.random.choice([lo, *self.iterators])
                with self.inside(f"if {left} < {hi}:"):
                    self.block(level + 1)
            else:
                self.access()
        self.access()
        if self.random.random() < 0.8:
            self.add(FENCE)

    def load(self) -> None:
        kind = self.random.randrange(3)
        if kind == 0:
            lo, hi = self.name("lo"), self.name("hi")
            self.add(f"{lo} = load_index(o[g], 0, M + 1)")
            self.add(f"{hi} = load_index(o[g + 1], 0, M + 1)")
            self.ranges.append((lo, hi))
        elif kind == 1 and self.rows:
            row = self.name("p")
            self.add(f"{row} = load_index(q[{self.random.choice(self.rows)}], 0, M)")
            self.rows.append(row)
        else:
            hi = self.name("c")
            self.add(f"{hi} = load_index(o[g], 0, 4)")
            self.ranges.append(("0", hi))

    def tile(self) -> None:
        tile, two = self.name("tile"), self.random.random() < 0.5
        self.add(f"{tile}: f32[{'2, ' if two else ''}64] @ CudaSmemLinear")
        self.add(f"uninit({tile})")  # whatever is read of it
        self.tiles.append((tile, two))

    def loop(self, level: int) -> None:
        i = self.name("i")
        lo, hi = self.random.choice([*self.ranges, ("0", self.random.choice("23M"))])
        step = self.random.choice([1, 1, 2, 3])
        many = f"({hi} - {lo} + {step - 1}) / {step}"
        bounds = f"{lo}, {hi}" if step == 1 else f"0, {many}"
        with self.inside(f"for {i} in seq({bounds}):"):
            self.iterators.append(i)
            if lo != "0" and step == 1:
                self.rows.append(i)
            self.block(level + 1)

    def access(self) -> None:
        """Of a tile, with a row or another tile, each thread its own element or another's."""
        if self.tiles:
            one, other = self.element(), self.element()
            chance = self.random.random()
            if chance < 0.3 and self.rows:
                self.threads(32, f"{one} = x[{self.random.choice(self.rows)}, t]")
            elif chance < 0.6 and self.rows:
                self.threads(32, f"y[{self.random.choice(self.rows)}, t] = {one}")
            elif chance < 0.8:
                self.threads(64, f"{one} {self.random.choice(['=', '+='])} 1.0")
            elif len(self.tiles) > 1:
                self.threads(64, f"{one} = {other}")
        if self.random.random() < 0.75:
            self.add(FENCE)

    def element(self) -> str:
        tile, two = self.random.choice(self.tiles)
        slot = f"{self.random.choice(self.iterators or ['0'])} % 2, " if two else ""
        return f"{tile}[{slot}{self.random.choice(['t', '63 - t'])}]"

    def threads(self, count: int, what: str) -> None:
        self.add(f"for t in cuda_threads(0, {count}, unit=cuda_thread):")
        self.add(f"    {what}")


def generated(seed: int) -> str:
    """The file of one kernel."""
    random = Random(seed)
    nest = _Nest(random)
    for contract in CONTRACTS:
        if random.random() < 0.5:
            nest.add(f"assert {contract}")
    with (
        nest.inside("with CudaDeviceFunction(blockDim=64):"),
        nest.inside("for g in cuda_tasks(0, G):"),
    ):
        nest.add("first = load_index(o[g], 0, M + 1)")
        nest.ranges.append(("0", "first"))
        nest.tile()
        nest.block(0)
        nest.add(FENCE)
    return HEAD + "\n".join(nest.lines) + "\n"
