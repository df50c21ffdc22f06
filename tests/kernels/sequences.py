"""Sequences that attend to themselves, by rows or with keys in pages, and what they should get; the
kernels with one mistake."""

from __future__ import annotations

from collections.abc import Sequence
from dataclasses import dataclass, field
from pathlib import Path
from types import ModuleType
from typing import Any

import numpy as np
import pytest

from campaigns.emulator.launch import Emulated
from exogpu.api import Procedure
from exogpu.hw.language import f16
from exogpu.kernels import attention_loads, attention_sm90, attention_softmax, attention_task
from exogpu.kernels.grouped_tiles import make_tiles
from tests.kernels.altered_modules import changed

Arrays = dict[str, np.ndarray[Any, Any]]


@dataclass
class Batch:
    """Sequences with so many rows and keys, and rows and keys of no sequence behind them."""

    rows: Sequence[int]
    keys: Sequence[int]
    D: int = 64
    H: int = 1
    G: int = 1
    causal: bool = False
    behind: int = 0
    spoilt: Sequence[int] = ()
    """Of these sequences all keys and values are NaN, and of no sequence everything."""
    page: int | None = None
    """How many keys a page has, if they lie in pages, of which some are nobody's."""
    prefix: int = 0
    """So many keys, of whole pages, are those of all sequences that have as many."""
    rows_of: Arrays = field(init=False)
    """K and V by rows, one sequence after the other."""
    arrays: Arrays = field(init=False)
    sizes: dict[str, int] = field(init=False)

    def __post_init__(self) -> None:
        rng = np.random.default_rng(sum(self.rows))
        M, N = sum(self.rows) + self.behind, sum(self.keys) + self.behind
        q, k, v = (
            rng.standard_normal((rows, heads, self.D)).astype(np.float16)
            for rows, heads in ((M, self.G * self.H), (N, self.H), (N, self.H))
        )
        starts, ends = (np.array([0, *np.cumsum(x)], np.int32) for x in (self.rows, self.keys))
        for array in (k, v):
            array[ends[-1] :] = np.nan
            for b in self.spoilt:
                array[ends[b] : ends[b + 1]] = np.nan
            alike = [b for b, n in enumerate(self.keys) if n >= self.prefix]
            for b in alike[1:]:
                first, its = ends[alike[0]], ends[b]
                array[its : its + self.prefix] = array[first : first + self.prefix]
        q[starts[-1] :] = np.nan
        self.rows_of = {"K": k, "V": v}
        B, T = len(self.rows), M // 128 + len(self.rows)
        cuts, group = np.zeros(T + 1, np.int32), np.zeros(T, np.int32)
        make_tiles().run(G=B, offsets=starts, cuts=cuts, group=group)
        self.sizes = {"H": self.H, "B": B, "T": T, "M": M, "N": N}
        self.arrays = {
            "Q": q,
            "K": k,
            "V": v,
            "cuts": cuts,
            "group": group,
            "cu_seqlens_q": starts,
            "Y": np.full(q.shape, 7, np.float16),
            "L": np.full(q.shape[1::-1], 7, np.float32),
        }
        if self.page is None:
            self.arrays["cu_seqlens_k"] = ends
        else:
            self._in_pages(self.page, ends, rng)

    def _in_pages(self, P: int, ends: np.ndarray[Any, Any], rng: np.random.Generator) -> None:
        """In any order, with NaN where no key lies, and -1 for pages without keys."""
        counts = [-(-n // P) for n in self.keys]
        numbers = iter(rng.permutation(sum(counts) + 2))
        table = np.full((len(counts), max(counts) + 1), -1, np.int32)
        shape = (sum(counts) + 2, P, self.H, self.D)
        cache = {name: np.full(shape, np.nan, np.float16) for name in "KV"}
        known: dict[int, int] = {}
        for b, (n, count) in enumerate(zip(self.keys, counts, strict=True)):
            for i in range(count):
                if n >= self.prefix and P * i < self.prefix:
                    known[i] = table[b, i] = known[i] if i in known else next(numbers)
                else:
                    table[b, i] = next(numbers)
                its = slice(ends[b] + P * i, min(ends[b] + P * i + P, ends[b + 1]))
                for name, pages in cache.items():
                    pages[table[b, i], : its.stop - its.start] = self.rows_of[name][its]
        self.arrays |= {**cache, "seqlens_k": np.array(self.keys, np.int32), "block_table": table}
        self.sizes |= {"N": shape[0], "W": table.shape[1]}

    def wrong(self) -> list[int]:
        """The sequences whose results are not those of numpy; -1 for what none has."""
        found = []
        starts, ends = self.arrays["cu_seqlens_q"], np.cumsum([0, *self.keys])
        for b, (n, m) in enumerate(zip(self.rows, self.keys, strict=True)):
            if b in self.spoilt:
                continue
            its = slice(starts[b], starts[b + 1])
            q = self.arrays["Q"][its].astype(float)
            k, v = (
                np.repeat(self.rows_of[x][ends[b] : ends[b + 1]].astype(float), self.G, 1)
                for x in "KV"
            )
            weights = np.exp(np.einsum("ihd,jhd->hij", q, k) / np.sqrt(self.D))
            if self.causal:
                weights *= np.tri(n, m, m - n)
            total = weights.sum(-1, keepdims=True)
            with np.errstate(divide="ignore"):
                lse = np.log(total[..., 0])
            weights /= np.where(total > 0, total, 1)
            wanted = np.einsum("hij,jhd->ihd", weights, v)
            most = np.einsum("hij,jhd->ihd", weights, np.abs(v))
            right = np.abs(self.arrays["Y"][its] - wanted) <= 2.0**-9 * most
            if not right.all() or not np.allclose(self.arrays["L"][:, its], lse, 1e-4, 1e-4):
                found.append(b)
        left = self.arrays["Y"][starts[-1] :], self.arrays["L"][:, starts[-1] :]
        return found if all((x == 7).all() for x in left) else [*found, -1]

    def kernel(self, module: ModuleType = attention_sm90) -> Procedure:
        """That for these arrays."""
        kernel: Procedure = module.make_attention(
            self.D, causal=self.causal, G=self.G, dtype=f16, packed=True, page=self.page
        )
        return kernel

    def run(self, module: ModuleType = attention_sm90) -> list[int]:
        """What goes wrong by the sequential meaning."""
        with np.errstate(all="ignore"):
            self.kernel(module).run(**self.sizes, **self.arrays)
        return self.wrong()

    def emulated(self, order: str, builds: Path) -> list[int]:
        """What goes wrong of the emitted text, on the emulator."""
        emitted, manifest = self.kernel().emit(unchecked=True)
        Emulated(emitted.source, manifest, builds)(self.arrays, self.sizes, order)
        return self.wrong()


Mistake = tuple[ModuleType, str, str]
"""A module of the kernels, and a text of it in the place of another."""

_MAKERS = {
    attention_loads: (attention_task, "make_loads"),
    attention_softmax: (attention_task, "make_softmax"),
    attention_task: (attention_sm90, "make_task"),
}


def mistaken(mistake: Mistake, folder: Path, monkeypatch: pytest.MonkeyPatch) -> ModuleType:
    """`attention_sm90` with one mistake."""
    module = changed(*mistake, folder)
    if mistake[0] not in _MAKERS:
        return module
    user, name = _MAKERS[mistake[0]]
    monkeypatch.setattr(user, name, getattr(module, name))
    return attention_sm90
