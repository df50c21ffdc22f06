"""Seconds and bytes of the reports of shipped kernels, beyond the proof.

python benchmarks/report.py [NAME ...]
"""

from __future__ import annotations

import sys
from time import perf_counter

from exogpu.kernels.gemm_sm80 import gemm_sm80
from exogpu.kernels.gemm_sm90 import KERNELS as GEMM
from exogpu.kernels.gemm_splitk_sm90 import KERNELS as SPLIT
from exogpu.kernels.gemv_f32 import gemv
from exogpu.report.build import build
from exogpu.report.markdown import markdown
from exogpu.report.page import html

SECONDS, BYTES = 5.0, 2_000_000
"""The limits of a report."""

KERNELS = {
    **GEMM,
    **SPLIT,
    gemm_sm80.name: gemm_sm80,
    gemv.name: gemv,
}


def main(names: list[str]) -> int:
    """One line a kernel; status 1 if one takes more than it may."""
    worst = 0
    print(f"{'kernel':<32} {'obligations':>11} {'proof s':>8} {'report s':>8} {'KiB':>6}")
    for name in names or ["gemm_sm90_2x1_256x192", "gemm_sm90_2x2_256x192", "gemm_sm80", "gemv"]:
        kernel = KERNELS[name]
        start = perf_counter()
        verdict = kernel.check()
        proved = perf_counter()
        report = build(kernel, verdict)
        page, _ = html(report), markdown(report)
        seconds, size = perf_counter() - proved, len(page.encode())
        print(
            f"{name:<32} {len(report.rows):>11} {proved - start:>8.2f} {seconds:>8.2f} "
            f"{size / 1024:>6.0f}"
        )
        worst |= seconds > SECONDS or size > BYTES
    return int(worst)


if __name__ == "__main__":
    sys.exit(main(sys.argv[1:]))
