"""Attention of sequences of their own lengths: proved, right, and wrong with one mistake."""

from __future__ import annotations

import shutil
from collections.abc import Sequence
from dataclasses import dataclass, field
from pathlib import Path
from types import ModuleType
from typing import Any

import numpy as np
import pytest

from campaigns.emulator.launch import Emulated
from campaigns.emulator.orders import ORDERS
from exogpu.api import Procedure
from exogpu.hw.datatypes import bf16, f16
from exogpu.kernels import attention_sm90
from exogpu.kernels.attention_sm90 import KERNELS, make_attention
from exogpu.kernels.grouped_tiles import make_tiles
from tests.kernels.test_grouped import changed

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
        q[starts[-1] :] = np.nan
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
            "cu_seqlens_k": ends,
            "Y": np.full(q.shape, 7, np.float16),
            "L": np.full(q.shape[1::-1], 7, np.float32),
        }

    def wrong(self) -> list[int]:
        """The sequences whose results are not those of numpy; -1 for what none has."""
        found = []
        starts, ends = self.arrays["cu_seqlens_q"], self.arrays["cu_seqlens_k"]
        for b, (n, m) in enumerate(zip(self.rows, self.keys, strict=True)):
            if b in self.spoilt:
                continue
            its = slice(starts[b], starts[b + 1])
            q = self.arrays["Q"][its].astype(float)
            k, v = (
                np.repeat(self.arrays[x][ends[b] : ends[b + 1]].astype(float), self.G, 1)
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

    def run(self, module: ModuleType = attention_sm90) -> list[int]:
        kernel = module.make_attention(self.D, causal=self.causal, G=self.G, dtype=f16, packed=True)
        with np.errstate(all="ignore"):
            kernel.run(**self.sizes, **self.arrays)
        return self.wrong()


MIXED = ([5, 0, 130, 1], [7, 3, 200, 300])
BATCHES = [
    {"rows": MIXED[0], "keys": MIXED[1], "G": 2},
    {"rows": [1, 129, 300, 0, 3], "keys": [0, 131, 17, 5, 0], "H": 2, "causal": True},
    {"rows": [1, 70, 140], "keys": [177, 176, 130], "D": 128, "causal": True, "G": 2},
    {"rows": [64, 3], "keys": [129, 400], "D": 128},
    {"rows": [5, 9, 130], "keys": [7, 13, 200], "behind": 40, "spoilt": [1], "causal": True},
    {"rows": [5, 9, 130], "keys": [7, 13, 200], "behind": 40, "spoilt": [1]},
]


@pytest.mark.parametrize("batch", BATCHES, ids=str)
def test_each_sequence_attends_to_itself(batch: dict[str, Any]) -> None:
    assert not Batch(**batch).run()


def test_one_sequence_is_the_fixed_length() -> None:
    """To the last bit, causal too."""
    for causal in (False, True):
        batch = Batch([150], [150], G=2, causal=causal)
        batch.run()
        q, k, v = (batch.arrays[x].transpose(1, 0, 2).copy() for x in "QKV")
        Y, L = np.zeros_like(q), np.zeros_like(batch.arrays["L"])
        make_attention(64, causal=causal, G=2, dtype=f16).run(Q=q, K=k, V=v, Y=Y, L=L)
        assert np.array_equal(Y.transpose(1, 0, 2), batch.arrays["Y"])
        assert np.array_equal(L, batch.arrays["L"])


# --- with one mistake -----------------------------------------------------------------------

WRONG = {
    "keys of the next sequence": (
        "if KEYS * j + n >= limit:",
        "if KEYS * j + n >= KEYS * j + KEYS:",
    ),
    "values of the next sequence": ("forget(own, V_smem, (steps + RING - 1) % RING)", "pass"),
    "keys of another sequence": (
        "tensor[base + row : base + row + rows, head",
        "tensor[row : row + rows, head",
    ),
    "a sequence without keys": ("  nothing(h, first, end, Y, L)", "  pass"),
}


@pytest.mark.parametrize("mistake", WRONG)
def test_a_mistake_computes_something_else(mistake: str, tmp_path: Path) -> None:
    module = changed(attention_sm90, *WRONG[mistake], tmp_path)
    batch = Batch([5, 9, 3, 2], [7, 13, 0, 9], behind=2, spoilt=[1])
    assert batch.run(module)


REFUTED = {
    "values are awaited": (
        "Await(V_full, cuda_generic_and_async, ~0)\n            if packed:",
        "if packed:",
    ),
    "keys are awaited": (
        "Await(K_full, cuda_generic_and_async, ~0)\n            for wg",
        "for wg",
    ),
    "slots are awaited": ("Await(K_empty, cuda_temporal, ~RING)", "pass"),
    "what is forgotten is fenced": (
        "Fence(cuda_in_order, cuda_generic_and_async)",
        "Fence(cuda_in_order, cuda_in_order)",
    ),
    "rows of the next tile": ("if row + 64 <= end:", "if row < end:"),
}


@pytest.mark.slow
@pytest.mark.parametrize(
    "mistake",
    [
        pytest.param(one, marks=[pytest.mark.long] if one.endswith("awaited") else [])
        for one in REFUTED
    ],
)
def test_a_mistake_is_refuted(mistake: str, tmp_path: Path) -> None:
    module = changed(attention_sm90, *REFUTED[mistake], tmp_path)
    assert module.make_attention(64, packed=True).check().word == "refuted"


# --- proved, and emitted --------------------------------------------------------------------


@pytest.mark.slow
@pytest.mark.parametrize(
    "kernel",
    [
        KERNELS["attention_varlen_sm90_64"],
        pytest.param(
            make_attention(128, causal=True, G=4, dtype=f16, packed=True), marks=pytest.mark.long
        ),
    ],
    ids=lambda of: of.name,
)
def test_proved_for_all_sizes(kernel: Procedure) -> None:
    verdict = kernel.check()
    assert verdict.word == "proved" and not verdict.warnings
    assert "assuming monotone(cuts)" in str(verdict)


@pytest.mark.slow
@pytest.mark.skipif(shutil.which("g++") is None, reason="no g++ on this machine")
@pytest.mark.parametrize("batch", BATCHES, ids=str)
def test_emitted_in_orders(batch: dict[str, Any], builds: Path) -> None:
    for order in ORDERS[:2]:
        made = Batch(**batch)
        kernel = make_attention(made.D, causal=made.causal, G=made.G, dtype=f16, packed=True)
        emitted, manifest = kernel.emit(unchecked=True)
        Emulated(emitted.source, manifest, builds)(made.arrays, made.sizes, order)
        assert not made.wrong()


def test_names_of_all() -> None:
    names = {
        make_attention(D, causal=causal, G=G, dtype=dtype, packed=True).name
        for D in (64, 128)
        for causal in (False, True)
        for G in (1, 2)
        for dtype in (bf16, f16)
    }
    assert len(names) == 16 and len(names & set(KERNELS)) == 4
