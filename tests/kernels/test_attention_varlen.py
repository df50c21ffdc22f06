"""Attention of sequences of their own lengths: proved, right, and wrong with one mistake."""

from __future__ import annotations

import shutil
from pathlib import Path
from typing import Any

import numpy as np
import pytest

from campaigns.emulator.orders import ORDERS
from exogpu.api import Procedure
from exogpu.hw.language import bf16, f16
from exogpu.kernels import attention_loads, attention_sm90, attention_softmax, attention_task
from exogpu.kernels.attention_sm90 import KERNELS, make_attention
from tests.kernels.sequences import Batch, Mistake, mistaken
from tests.marks import long_among

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


@pytest.mark.slow
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

WRONG: dict[str, Mistake] = {
    "keys of the next sequence": (
        attention_softmax,
        "if KEYS * j + n >= limit:",
        "if KEYS * j + n >= KEYS * j + KEYS:",
    ),
    "values of the next sequence": (
        attention_task,
        "forget(keys - KEYS * (steps - 1), V_smem, (steps + RING - 1) % RING)",
        "pass",
    ),
    "keys of another sequence": (
        attention_loads,
        "tensor[base + row : base + row + rows, head",
        "tensor[row : row + rows, head",
    ),
    "a sequence without keys": (attention_sm90, "  nothing(h, first, end, Y, L)", "  pass"),
}


@pytest.mark.parametrize("mistake", WRONG)
def test_a_mistake_computes_something_else(
    mistake: str, tmp_path: Path, monkeypatch: pytest.MonkeyPatch
) -> None:
    module = mistaken(WRONG[mistake], tmp_path, monkeypatch)
    batch = Batch([5, 9, 3, 2], [7, 13, 0, 9], behind=2, spoilt=[1])
    assert batch.run(module)


REFUTED: dict[str, Mistake] = {
    "values are awaited": (
        attention_task,
        "Await(V_full, cuda_generic_and_async, ~0)\n            if packed:",
        "if packed:",
    ),
    "keys are awaited": (
        attention_task,
        "Await(K_full, cuda_generic_and_async, ~0)\n            for wg",
        "for wg",
    ),
    "slots are awaited": (attention_loads, "Await(K_empty, cuda_temporal, ~RING)", "pass"),
    "what is forgotten is fenced": (
        attention_task,
        "Fence(cuda_in_order, cuda_generic_and_async)",
        "Fence(cuda_in_order, cuda_in_order)",
    ),
    "rows of the next tile": (attention_task, "if row + 64 <= end:", "if row < end:"),
}


@pytest.mark.slow
@pytest.mark.parametrize(
    "mistake",
    long_among(
        REFUTED,
        [
            "values are awaited",
            "keys are awaited",
            "slots are awaited",
            "what is forgotten is fenced",
        ],
    ),
)
def test_a_mistake_is_refuted(
    mistake: str, tmp_path: Path, monkeypatch: pytest.MonkeyPatch
) -> None:
    module = mistaken(REFUTED[mistake], tmp_path, monkeypatch)
    assert module.make_attention(64, packed=True).check().word == "refuted"


# --- proved, and emitted --------------------------------------------------------------------


@pytest.mark.slow
@pytest.mark.parametrize(
    "kernel",
    [
        pytest.param(KERNELS["attention_varlen_sm90_64"], marks=pytest.mark.long),
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
@pytest.mark.parametrize("batch", long_among(BATCHES, BATCHES[1::2]), ids=str)
def test_emitted_in_orders(batch: dict[str, Any], builds: Path) -> None:
    for order in ORDERS[:2]:
        assert not Batch(**batch).emulated(order, builds)


def test_names_of_all() -> None:
    names = {
        make_attention(D, causal=causal, G=G, dtype=dtype, packed=True).name
        for D in (64, 128)
        for causal in (False, True)
        for G in (1, 2)
        for dtype in (bf16, f16)
    }
    assert len(names) == 16 and len(names & set(KERNELS)) == 4
