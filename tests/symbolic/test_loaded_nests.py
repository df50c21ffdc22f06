"""Kernels whose loops memory bounds are decided, and what is proved of them holds."""

from __future__ import annotations

from collections import Counter
from collections.abc import Iterable
from pathlib import Path

import pytest
from loaded_nests import generated

from exogpu.cli.loader import load

SIZES = ({"G": 1, "M": 2}, {"G": 2, "M": 3}, {"G": 3, "M": 2})


def decided(seeds: Iterable[int], folder: Path) -> Counter[str]:
    """How many of each verdict there are.  Nothing is found at sizes of what is proved for all."""
    words: Counter[str] = Counter()
    for seed in seeds:
        file = folder / f"nest{seed}.py"
        file.write_text(generated(seed))
        (unit,) = load(str(file))
        assert unit.procedure is not None and not unit.procedure.diagnostics, seed
        verdict = unit.procedure.check()
        words[verdict.word] += 1
        assert verdict.word in ("proved", "refuted"), (seed, verdict.reason)
        if verdict.word == "proved":
            for sizes in SIZES:
                assert unit.procedure.check_at(**sizes).word != "refuted", (seed, sizes)
    return words


@pytest.mark.slow
def test_they_are_decided(tmp_path: Path) -> None:
    words = decided(range(8), tmp_path)
    assert min(words["proved"], words["refuted"]) >= 3


@pytest.mark.long
def test_many_are_decided(tmp_path: Path) -> None:
    words = decided(range(100, 250), tmp_path)
    assert min(words["proved"], words["refuted"]) >= 30
