"""Parts of random calls of kernels: sizes, arrays between guard bands, and the comparison of
results."""

from __future__ import annotations

import math
import random
from collections.abc import Callable
from dataclasses import dataclass, field
from typing import Any

import torch

PAD = 256
"""Elements around each array that a kernel must leave as they are."""
MARK = 77.0
HALF = (torch.bfloat16, torch.float16)
EPS = {torch.float32: 2.0**-23, torch.bfloat16: 2.0**-8, torch.float16: 2.0**-11}
"""By how much a result is rounded, relative to it, at most."""


@dataclass
class Call:
    """One call's random choices, and the arrays that were made for it."""

    draw: random.Random
    made: list[tuple[str, torch.Tensor, torch.Tensor, torch.Tensor]] = field(default_factory=list)
    """The name of an array, its memory, the view that is given, and the memory as it was."""
    notes: list[str] = field(default_factory=list)
    outputs: set[str] = field(default_factory=set)

    def size(self, most: int) -> int:
        """A size, as often small as large, and often near a multiple of 64."""
        n = int(2 ** self.draw.uniform(0, math.log2(most)))
        if self.draw.random() < 0.3:
            n = max(1, n // 64 * 64 + self.draw.choice((-1, 0, 0, 1)))
        return n

    def maybe(self, p: float = 0.5) -> bool:
        return self.draw.random() < p

    def place(self, name: str, values: torch.Tensor, odd: float = 0.15) -> torch.Tensor:
        """The same values between guard bands, at times at an odd place or with strides."""
        shape, dtype = tuple(values.shape), values.dtype
        shift = self.draw.choice((1, 2, 4, 8)) if self.maybe(odd) else 0
        gap = self.draw.choice((1, 8, 64)) if len(shape) > 1 and self.maybe(0.05) else 0
        wide = (*shape[:-1], shape[-1] + gap) if shape else ()
        count = math.prod(wide)
        memory = torch.full((count + 2 * PAD,), MARK, device="cuda").to(dtype)
        view = (
            memory[PAD + shift : PAD + shift + count].view(wide)[..., : shape[-1]]
            if shape
            else (memory[PAD + shift])
        )
        view.copy_(values)
        self.made.append((name, memory, view, memory.clone()))
        self.notes.append(f"{name} {dtype} {shape} +{shift} gap {gap}".replace("torch.", ""))
        return view

    def output(self, name: str, shape: tuple[int, ...], dtype: torch.dtype) -> torch.Tensor:
        """A poisoned array."""
        self.outputs.add(name)
        poison = torch.full(shape, float("nan") if dtype.is_floating_point else -9, device="cuda")
        return self.place(name, poison.to(dtype), odd=0.08)

    def normal(self, *shape: int, dtype: torch.dtype = torch.float32) -> torch.Tensor:
        return (torch.randn(shape, device="cuda") * self.draw.choice((0.1, 1.0, 1.0, 8.0))).to(
            dtype
        )

    def disturbed(self) -> list[str]:
        """Arrays that are read and were changed, and guards that were overwritten."""
        found = []
        for name, memory, view, before in self.made:
            now = memory.clone()
            if name in self.outputs:
                for whole in (now, before):
                    whole.as_strided(view.shape, view.stride(), view.storage_offset()).zero_()
            if not torch.equal(now.view(torch.uint8), before.view(torch.uint8)):
                found.append(f"{name} or its guards changed")
        return found


Checked = tuple[torch.Tensor, torch.Tensor, torch.Tensor]
"""The results, those wanted in float64, and how far they may be apart."""
Made = tuple[Callable[[], Any], Callable[[], list[Checked]]]


def rounded(value: torch.Tensor, dtype: torch.dtype) -> torch.Tensor:
    """Bounds the distance to the nearest number of a type, and a little of f32 on the way."""
    return value.abs() * (EPS[dtype] + 2.0**-20) + (2.0**-24 if dtype == torch.float16 else 1e-30)


def lengths(call: Call, sequences: int, most: int) -> list[int]:
    """Rows of sequences, some of them none."""
    return [0 if call.maybe(0.15) else call.size(most) for _ in range(sequences)]
