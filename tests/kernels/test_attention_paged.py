"""Attention whose keys lie in pages: proved, right, and wrong with one mistake."""

from __future__ import annotations

import shutil
from pathlib import Path
from typing import Any

import numpy as np
import pytest

from campaigns.emulator.orders import ORDERS
from exogpu.api import Procedure
from exogpu.diagnostics.errors import ExoGpuError
from exogpu.hw.language import bf16, f16
from exogpu.kernels import attention_loads, attention_softmax, attention_task
from exogpu.kernels.attention_sm90 import KERNELS, make_attention
from tests.kernels.sequences import Batch, Mistake, mistaken
from tests.marks import long_among

BATCHES = [
    {"page": 16, "rows": [5, 0, 130, 1], "keys": [7, 3, 200, 300], "G": 2},
    {"page": 16, "rows": [1, 129, 3, 0], "keys": [0, 131, 17, 5], "H": 2, "causal": True},
    {"page": 64, "rows": [5, 9, 3], "keys": [70, 300, 130], "prefix": 64, "causal": True},
    {"page": 128, "rows": [1, 70], "keys": [129, 256], "D": 128, "prefix": 128, "G": 2},
    {"page": 256, "rows": [3, 70, 2], "keys": [129, 513, 256], "prefix": 256, "causal": True},
    {"page": 32, "rows": [5, 9, 3], "keys": [7, 65, 129], "D": 128, "spoilt": [1], "behind": 9},
]


@pytest.mark.parametrize("batch", BATCHES, ids=str)
def test_each_sequence_attends_to_its_pages(batch: dict[str, Any]) -> None:
    assert not Batch(**batch).run()


def test_pages_in_order_are_rows() -> None:
    """To the last bit, where no step is longer."""
    paged, rows = (
        Batch([5, 130], [200, 300], causal=True, page=page, prefix=64) for page in (64, None)
    )
    assert not paged.run() and not rows.run()
    assert all(np.array_equal(paged.arrays[x], rows.arrays[x]) for x in "YL")


@pytest.mark.parametrize("number", [-1, 99])
def test_a_page_that_there_is_not(number: int) -> None:
    batch = Batch([5], [70], page=64)
    batch.arrays["block_table"][0, 1] = number
    with pytest.raises(ExoGpuError, match="block_table"):
        batch.run()


# --- with one mistake -----------------------------------------------------------------------

WRONG: dict[str, Mistake] = {
    "keys behind the last": (
        attention_softmax,
        "if KEYS * j + n >= limit:",
        "if KEYS * j + n >= KEYS * j + KEYS:",
    ),
    "values behind the last": (
        attention_task,
        "forget(keys - KEYS * (steps - 1), V_smem, (steps + RING - 1) % RING)",
        "pass",
    ),
    "pages of another sequence": (attention_loads, "table[base, key / P]", "table[0, key / P]"),
    "the first page of each step": (attention_loads, "table[base, key / P]", "table[base, j]"),
    "the first rows of each page": (attention_loads, "page, key % P, head", "page, 0, head"),
}


@pytest.mark.parametrize("mistake", WRONG)
def test_a_mistake_computes_something_else(
    mistake: str, tmp_path: Path, monkeypatch: pytest.MonkeyPatch
) -> None:
    module = mistaken(WRONG[mistake], tmp_path, monkeypatch)
    page = 256 if mistake.startswith("the first rows") else 64
    assert Batch([5, 9], [200, 180], page=page).run(module)


REFUTED: dict[str, Mistake] = {
    "pages without keys are left": (attention_loads, "if key < keys:", "if key >= 0:"),
    "slots are awaited": (attention_loads, "Await(K_empty, cuda_temporal, ~RING)", "pass"),
}


@pytest.mark.slow
@pytest.mark.parametrize("mistake", long_among(REFUTED, ["slots are awaited"]))
def test_a_mistake_is_refuted(
    mistake: str, tmp_path: Path, monkeypatch: pytest.MonkeyPatch
) -> None:
    module = mistaken(REFUTED[mistake], tmp_path, monkeypatch)
    assert module.make_attention(64, page=64).check().word == "refuted"


@pytest.mark.slow
def test_what_an_earlier_step_left_is_read_before_it_is_forgotten(
    tmp_path: Path, monkeypatch: pytest.MonkeyPatch
) -> None:
    """Of the third step the second page is not loaded: the first step's rows are still there."""
    fence = "if paged:\n                Fence(cuda_in_order, cuda_in_order)"
    mistake = attention_task, fence, "if paged:\n                pass"
    module = mistaken(mistake, tmp_path, monkeypatch)
    kernel = module.make_attention(64, page=16, keys=32)
    verdict = kernel.check_at(H=1, B=1, T=1, M=1, N=1, W=5)
    assert verdict.word == "refuted"
    assert {(one.kind.value, one.variable) for one in verdict.hazards} == {("WAR", "V_smem")}


# --- proved, and emitted --------------------------------------------------------------------


@pytest.mark.slow
@pytest.mark.parametrize(
    "kernel",
    [
        make_attention(64, page=64, G=4, dtype=f16),
        pytest.param(KERNELS["attention_paged16_sm90_128_causal"], marks=pytest.mark.long),
        pytest.param(KERNELS["attention_paged256_sm90_128_causal"], marks=pytest.mark.long),
    ],
    ids=lambda of: of.name,
)
def test_proved_for_all_sizes(kernel: Procedure) -> None:
    verdict = kernel.check()
    assert verdict.word == "proved" and not verdict.warnings
    assert "assuming monotone(cuts)" in str(verdict)


@pytest.mark.slow
@pytest.mark.skipif(shutil.which("g++") is None, reason="no g++ on this machine")
@pytest.mark.parametrize("batch", long_among(BATCHES, BATCHES[::2]), ids=str)
def test_emitted_in_orders(batch: dict[str, Any], builds: Path) -> None:
    for order in ORDERS[:2]:
        assert not Batch(**batch).emulated(order, builds)


@pytest.mark.slow
def test_names_of_all() -> None:
    names = {
        make_attention(D, causal=causal, G=G, dtype=dtype, page=page).name
        for D in (64, 128)
        for causal in (False, True)
        for G in (1, 2)
        for dtype in (bf16, f16)
        for page in (16, 256)
    }
    assert len(names) == 32 and len(names & set(KERNELS)) == 2
