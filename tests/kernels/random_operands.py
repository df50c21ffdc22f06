"""Random operands of products, and how near to the exact one a result has to be."""

from __future__ import annotations

import numpy as np

from exogpu.interpreter import round_tf32

rng = np.random.default_rng(20)


def random(*shape: int) -> np.ndarray:
    return rng.standard_normal(shape, dtype=np.float32)


def near(x: np.ndarray) -> np.ndarray:
    """As the loads round it, wide enough for exact products."""
    return round_tf32(x).astype(np.float64)


def close(found: np.ndarray, exact: np.ndarray, terms: int) -> None:
    # Rounding of a sum of `terms` products of order 1 in float32, in any order.
    assert found.dtype == np.float32
    assert not np.isnan(found).any()
    assert np.abs(found - exact).max() <= 4 * terms * np.finfo(np.float32).eps
