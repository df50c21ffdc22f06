"""Kernels whose roles share phases, and attention whose turns are named barriers, for a GPU.

    exogpu compile benchmarks/shared_phases.py -o build/gpu/phases --cubin
    python benchmarks/gpu_check.py build/gpu/phases
    python benchmarks/gpu_attention.py build/gpu/attention build/gpu/phases

`gpu_roles.py` runs those without products.
"""

from __future__ import annotations

import sys
from pathlib import Path

sys.path.insert(0, str(Path(__file__).resolve().parent.parent))

from exogpu.hw.language import bf16
from exogpu.ir.types import BarrierMechanism
from exogpu.kernels.attention_sm90 import make_attention
from tests.codegen import role_kernels
from tests.kernels.cooperative import make_cooperative

two_consumers_3 = role_kernels.two_consumers(3)
two_by_two_2 = role_kernels.two_by_two(2)
handed_over = role_kernels.handed_over
in_turns = role_kernels.in_turns

cooperative = make_cooperative(64, 256, 4, bf16)

NAMED = BarrierMechanism.NAMED_BARRIER
attention_128 = make_attention(128, turns=NAMED)
attention_128_causal = make_attention(128, causal=True, turns=NAMED)
