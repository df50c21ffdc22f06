"""Seconds from each shipped kernel to CUDA C++ and to a cubin, imports and checks excluded.

    python benchmarks/compile.py [--arch sm_90a]

The bars are 1 s to the source and 4 s to the cubin; the exit status is 1 if one is missed.
"""

from __future__ import annotations

import argparse
import sys
import tempfile
from pathlib import Path
from time import perf_counter

from exogpu.codegen.host_steps import emit
from exogpu.codegen.toolchain import compile_cubin, find_toolchain, usage
from exogpu.kernels import gemm_sm80, gemm_sm90, gemm_splitk_sm90, gemv_f32

SOURCE_BAR, CUBIN_BAR = 1.0, 4.0
KERNELS = [
    gemv_f32.gemv,
    gemm_sm80.gemm_sm80,
    *gemm_sm90.KERNELS.values(),
    *gemm_splitk_sm90.KERNELS.values(),
]


def main() -> int:
    """A row a kernel; the cache is an empty folder, so that everything is compiled."""
    parser = argparse.ArgumentParser()
    parser.add_argument("--arch", default="sm_90a")
    arch = parser.parse_args().arch
    toolchain = find_toolchain()
    print(f"by {toolchain.version if toolchain else 'no compiler'}, for {arch}\n")
    print("| kernel | source, s | cubin, s | lines | registers | spills, bytes |")
    print("| --- | --- | --- | --- | --- | --- |")
    slow = []
    for procedure in KERNELS:
        facts = procedure.facts
        start = perf_counter()
        emitted = emit(facts, arch)
        to_source = perf_counter() - start
        to_cubin, needs = float("nan"), "| |"
        if toolchain is not None:
            with tempfile.TemporaryDirectory() as folder:
                start = perf_counter()
                made = compile_cubin(emitted.source, arch, toolchain, Path(folder))
                to_cubin = perf_counter() - start
            (used,) = usage(made.log).values()
            needs = f"{used.registers} | {used.spill_stores + used.spill_loads} |"
        lines = emitted.source.count("\n")
        print(
            f"| {procedure.name} | {to_source:.2f} | {to_cubin:.2f} | {lines} | {needs}", flush=True
        )
        if to_source > SOURCE_BAR or to_cubin > CUBIN_BAR:
            slow.append(procedure.name)
    print(f"\nslower than a bar: {', '.join(slow) or 'none'}")
    return bool(slow)


if __name__ == "__main__":
    sys.exit(main())
