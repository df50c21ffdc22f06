"""Two consumers with code of their own on one ring, and attention that uses named barriers."""

from __future__ import annotations

import pytest

from exogpu.hw.language import bf16, f32
from exogpu.ir.types import BarrierMechanism, DataType
from exogpu.kernels.attention_sm90 import make_attention
from tests.kernels.cooperative import make_cooperative

pytestmark = pytest.mark.slow


@pytest.mark.parametrize("dtype", [bf16, f32], ids=lambda dtype: dtype.value)
def test_the_cooperative_gemm_is_proved(dtype: DataType) -> None:
    verdict = make_cooperative(64, 128, 3, dtype).check()
    assert verdict.word == "proved", verdict


def test_attention_takes_turns_by_named_barriers() -> None:
    verdict = make_attention(64, turns=BarrierMechanism.NAMED_BARRIER).check()
    assert verdict.word == "proved", verdict
