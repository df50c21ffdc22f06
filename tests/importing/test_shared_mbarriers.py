"""mbarriers whose bytes are other buffers', before they are initialised or once invalidated."""

from __future__ import annotations

import pytest

from exogpu.imported import ImportedKernel, UnimportedKernel, import_ttgir
from tests.importing.made import KERNELS

TEXT = next(made.text for made in KERNELS if made.kernel == "add_products")


def without(*kept: str, nth: int = 0) -> str:
    """The TTGIR without the nth line that has all of these words."""
    lines = TEXT.split("\n")
    found = [at for at, line in enumerate(lines) if all(word in line for word in kept)]
    del lines[found[nth]]
    return "\n".join(lines)


def test_the_bytes_of_an_mbarrier_are_cells_of_the_buffer_that_has_them_later():
    kernel = import_ttgir(TEXT)
    assert isinstance(kernel, ImportedKernel)
    assert kernel.check().word == "proved"


def test_without_a_proxy_fence_a_copy_may_overtake_the_invalidation():
    verdict = import_ttgir(without("fence_async_shared")).check(timeout=60)
    assert verdict.word == "refuted"
    (hazard,) = verdict.hazards
    assert hazard.first is not None and hazard.first.span.file == "kernels/plain.py"
    assert "fence_async_shared" in hazard.help


@pytest.mark.parametrize(
    ("line", "nth", "said"),
    [
        (("wait_barrier %left_1",), 0, "not every arrival on it is awaited"),
        (("ttg.barrier local",), 1, "threads may still use it"),
        (("inval_barrier %left_1",), 0, "are accessed while it is in use"),
    ],
)
def test_an_mbarrier_that_may_be_in_use_shares_no_bytes(line, nth, said):
    kernel = import_ttgir(without(*line, nth=nth))
    assert isinstance(kernel, UnimportedKernel) and kernel.reason.code == "K104"
    assert said in kernel.check().reason


def test_an_mbarrier_is_invalidated_once():
    lines = TEXT.split("\n")
    (at,) = [n for n, line in enumerate(lines) if "inval_barrier %left_1" in line]
    kernel = import_ttgir("\n".join([*lines[: at + 1], lines[at], *lines[at + 1 :]]))
    assert isinstance(kernel, UnimportedKernel) and "twice" in kernel.check().reason
