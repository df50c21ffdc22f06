"""Attention whose keys lie in pages: proved, right, and wrong with one mistake."""

from __future__ import annotations

import shutil
from pathlib import Path
from typing import Any

import pytest

from campaigns.emulator.orders import ORDERS
from tests.kernels.sequences import Batch

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


# --- proved, and emitted --------------------------------------------------------------------


@pytest.mark.slow
@pytest.mark.skipif(shutil.which("g++") is None, reason="no g++ on this machine")
@pytest.mark.parametrize("batch", BATCHES, ids=str)
def test_emitted_in_orders(batch: dict[str, Any], builds: Path) -> None:
    for order in ORDERS[:2]:
        assert not Batch(**batch).emulated(order, builds)
