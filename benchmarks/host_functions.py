"""Procedures with a CPU part of their own, called through their C functions: no Python inside.

python benchmarks/host_functions.py build/gpu/host            # where there is an nvcc
python benchmarks/host_functions.py build/gpu/host --run      # where there is a GPU, and torch
"""

from __future__ import annotations

import argparse
import ctypes
import sys
from pathlib import Path

ROOT = Path(__file__).resolve().parent.parent
sys.path.insert(0, str(ROOT))


def build(folder: Path) -> None:
    """Shared objects of a few procedures."""
    from exogpu.api import Procedure, proc
    from exogpu.isa.cuda import cuda_memcpy_to_device, cuda_memcpy_to_host, cuda_memset0_1d
    from exogpu.kernels import gemm_sm90, gemm_splitk_sm90
    from exogpu.kernels.gemv_f32 import gemv

    @proc
    def rows(n: size, m: size, scale: size, x: f32[n, m], y: f32[n, m]):  # noqa: ANN202
        """y = scale * x for the even rows, 1 elsewhere, a launch a row, through device memory."""
        d: f32[n, m] @ CudaGmemLinear
        e: f32[n, m] @ CudaGmemLinear
        for i in seq(0, n):
            cuda_memset0_1d(m, d[i, :])
            if i % 2 == 0:
                cuda_memcpy_to_device(m, e[i, :], x[i, :])
                for k in seq(0, scale):
                    with CudaDeviceFunction(blockDim=32):
                        for task in cuda_tasks(0, m):
                            for t in cuda_threads(0, 1, unit=cuda_thread):
                                d[i, task] += e[i, task]
            else:
                with CudaDeviceFunction(blockDim=32):
                    for task in cuda_tasks(0, m):
                        for t in cuda_threads(0, 1, unit=cuda_thread):
                            d[i, task] += 1
            cuda_memcpy_to_host(m, y[i, :], d[i, :])
        Fence(cuda_stream_sync, cpu_in_order)

    chosen: tuple[Procedure, ...] = (
        rows,
        gemv,
        gemm_sm90.KERNELS["gemm_sm90_2x1_128x256"],
        gemm_splitk_sm90.KERNELS["gemm_splitk_sm90_1x1_128x256"],
    )
    for procedure in chosen:
        *_, library = procedure.compile().save(folder, so=True)
        print(library)


def run(folder: Path) -> int:
    """Call each, and compare with torch."""
    import torch

    def call(name: str, *arguments: object) -> None:
        function = ctypes.CDLL(str(folder / f"lib{name}.so"))[f"{name}_launch"]
        values = [
            ctypes.c_void_p(a.data_ptr()) if isinstance(a, torch.Tensor) else ctypes.c_longlong(a)
            for a in arguments
        ]
        stream = ctypes.c_void_p(torch.cuda.current_stream().cuda_stream)
        if status := function(*values, stream):
            raise SystemExit(f"{name} returned {status}")
        torch.cuda.synchronize()

    def whole(*shape: int, device: str = "cuda") -> torch.Tensor:
        return torch.randint(-3, 4, shape, device=device).float()

    right = {}
    x, y = whole(5, 7, device="cpu"), torch.full((5, 7), float("nan"))
    call("rows", 5, 7, 3, x, y)
    want = torch.ones(5, 7)
    want[::2] = 3 * x[::2]
    right["rows"] = torch.allclose(y, want)
    a, v, w = whole(1000, 516), whole(516), torch.full((1000,), float("nan"), device="cuda")
    call("gemv", 1000, 516, a, v, w)
    right["gemv"] = torch.equal(w, (a.double() @ v.double()).float())
    a, b = whole(1000, 520), whole(900, 520)
    product = (a.double() @ b.double().T).float()
    c = torch.full((1000, 900), float("nan"), device="cuda")
    call("gemm_sm90_2x1_128x256", 1, 1000, 900, 520, a, b, c)
    right["gemm_sm90_2x1_128x256"] = torch.equal(c, product)
    c.fill_(float("nan"))
    call("gemm_splitk_sm90_1x1_128x256", 1, 1000, 900, 2, 260, a, b, c)
    right["gemm_splitk_sm90_1x1_128x256"] = torch.equal(c, product)
    for name, is_right in right.items():
        print(f"{name}_launch: {'right' if is_right else 'WRONG'}")
    return not all(right.values())


def main() -> int:
    """Build, or run."""
    parser = argparse.ArgumentParser()
    parser.add_argument("folder", type=Path)
    parser.add_argument("--run", action="store_true")
    options = parser.parse_args()
    if options.run:
        return run(options.folder)
    build(options.folder)
    return 0


if __name__ == "__main__":
    sys.exit(main())
