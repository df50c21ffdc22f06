"""Seconds and peak memory of the concrete check, one fresh process a case.

    python benchmarks/machine.py [--json] [--only gemm]

The configuration of the GEMMs is a 2 x 1 cluster with a tile of 128 x 256 a CTA; split-k has four
slices.  Peak memory is that of the process, imports included.
"""

from __future__ import annotations

import argparse
import json
import resource
import subprocess
import sys
from pathlib import Path
from time import perf_counter

ROOT = Path(__file__).parent.parent
SIZES = (512, 680, 856, 1024, 1536, 2048)

# Seconds of the original implementation's checker (C++, one thread) on a machine like ours.
ORIGINAL = {
    ("gemm", 512): 0.38,
    ("gemm", 1024): 3.5,
    ("gemm", 2048): 29.5,
    ("gemm_splitk", 512): 0.83,
    ("gemm_splitk", 1024): 3.8,
    ("gemm_splitk", 2048): 41.0,
    ("gemv", 512): 0.20,
    ("gemv", 2048): 1.96,
    ("matmul_cuda_cores", 256): 27.0,
}

CASES = [
    *(("gemm", n) for n in SIZES),
    *(("gemm_splitk", n) for n in SIZES),
    *(("gemv", n) for n in SIZES),
    ("matmul_cuda_cores", 256),
]


def check(kernel: str, n: int) -> dict[str, object]:
    """Check one kernel at one size in this process.

    The seconds exclude imports and the analyses that a definition gets once, at no size.
    """
    sys.path.insert(0, str(ROOT))
    from exogpu.kernels import gemm_sm90, gemm_splitk_sm90, gemv_f32

    match kernel:
        case "gemm":
            procedure = gemm_sm90.KERNELS["gemm_sm90_2x1_128x256"]
            sizes = {"L": 1, "M": n, "N": n, "cluster_K": n}
        case "gemm_splitk":
            procedure = gemm_splitk_sm90.KERNELS["gemm_splitk_sm90_2x1_128x256"]
            sizes = {"L": 1, "M": n, "N": n, "K_split": 4, "cluster_K": n // 4 // 4 * 4}
        case "gemv":
            procedure = gemv_f32.gemv
            sizes = {"M": n, "K": n}
        case _:
            from examples.matmul_cuda_cores import matmul_cuda_cores as procedure

            sizes = {"M": n, "N": n, "K": n}
    assert not procedure.diagnostics  # analyses of the definition, once for all sizes
    start = perf_counter()
    verdict = procedure.check_at(**sizes)
    seconds = perf_counter() - start
    assert verdict.word == "proved", verdict
    peak = resource.getrusage(resource.RUSAGE_SELF).ru_maxrss / 1024
    return {
        "kernel": kernel,
        "size": n,
        "seconds": seconds,
        "peak_mib": peak,
        "operations": verdict.operations,
        "original_seconds": ORIGINAL.get((kernel, n)),
    }


def main() -> None:
    parser = argparse.ArgumentParser(description=__doc__)
    parser.add_argument("--json", action="store_true", help="print one JSON list")
    parser.add_argument("--only", help="one kernel")
    parser.add_argument("--case", nargs=2, metavar=("KERNEL", "SIZE"), help=argparse.SUPPRESS)
    options = parser.parse_args()
    if options.case:
        print(json.dumps(check(options.case[0], int(options.case[1]))))
        return
    rows = []
    if not options.json:
        print(
            f"{'kernel':20}{'size':>6}{'seconds':>10}{'MiB':>8}{'operations':>14}{'original':>10}"
        )
    for kernel, n in CASES:
        if options.only not in (None, kernel):
            continue
        command = [sys.executable, __file__, "--case", kernel, str(n)]
        answer = subprocess.run(command, capture_output=True, text=True, check=True)
        row = json.loads(answer.stdout)
        rows.append(row)
        if not options.json:
            before = row["original_seconds"]
            ratio = f"{before:.2f}" if before else ""
            print(
                f"{kernel:20}{n:>6}{row['seconds']:>10.3f}{row['peak_mib']:>8.0f}"
                f"{row['operations']:>14,}{ratio:>10}",
                flush=True,
            )
    if options.json:
        print(json.dumps(rows, indent=2))


if __name__ == "__main__":
    main()
