"""GEMMs whose results leave through buffers that reside: proved, and refuted with one mistake."""

from __future__ import annotations

from pathlib import Path
from types import ModuleType

import pytest

from exogpu.diagnostics.hazards import HazardKind
from exogpu.hw.language import bf16, f32
from exogpu.kernels import gemm_staged_sm90

SOURCE = Path(gemm_staged_sm90.__file__)


def module(old: str = "", new: str = "", folder: Path | None = None) -> ModuleType:
    """The module, with one text in the place of another."""
    if not old:
        return gemm_staged_sm90
    text = SOURCE.read_text()
    assert old in text and folder is not None
    file = folder / SOURCE.name
    file.write_text(text.replace(old, new))
    found = ModuleType("changed")
    found.__file__ = str(file)
    exec(compile(file.read_text(), str(file), "exec"), vars(found))
    return found


@pytest.mark.parametrize(
    ("sizes", "dtype"), [((1, 1, 128, 64, 4, 2, 1), f32), ((2, 1, 128, 128, 4, 1, 0), bf16)]
)
def test_proved_for_all_sizes(sizes, dtype) -> None:
    verdict = module().make_staged(*sizes, dtype=dtype).check()
    assert verdict.word == "proved" and not verdict.warnings


MISTAKES = {
    "staged before it was read": (
        "Await(read[m, n, wg], cuda_in_order, LAG)",
        "Await(read[m, n, wg], cuda_in_order, LAG + 1)",
        HazardKind.WAR,
    ),
    "a buffer too early": ("~(BUFFERS - LAG)", "~(BUFFERS - LAG + 1)", HazardKind.WAR),
    "without a proxy fence": (
        "Fence(cuda_in_order, cuda_generic_and_async)",
        "Fence(cuda_in_order, cuda_in_order)",
        HazardKind.RAW,
    ),
}


@pytest.mark.parametrize("mistake", MISTAKES)
def test_a_mistake_is_refuted(mistake: str, tmp_path: Path) -> None:
    old, new, kind = MISTAKES[mistake]
    changed = module(old, new, tmp_path).make_staged(1, 1, 128, 64, 4, 2, 1)
    verdict = changed.check()
    assert verdict.word == "refuted"
    assert kind in {hazard.kind for hazard in verdict.hazards}
