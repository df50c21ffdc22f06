"""Compiled kernels called from Python on a GPU: torch, cupy, jax and numpy, streams, refusals.

Takes a folder made by `exogpu compile exogpu/kernels -o build/gpu --cubin --at ...`, and needs
neither the solvers nor an installed exogpu.  Where the solvers are installed, it compiles, too.

    python benchmarks/gpu_api.py build/gpu [--also FOLDER]
"""

from __future__ import annotations

import argparse
import importlib.util
import sys
from collections.abc import Callable, Sequence
from pathlib import Path
from time import perf_counter

sys.path.insert(0, str(Path(__file__).resolve().parent.parent))

import numpy as np
import torch

from exogpu.codegen.runtime import Kernel, LaunchError

GEMM, SPLIT_K, GEMV = "gemm_sm90_2x1_128x256", "gemm_splitk_sm90_2x1_128x256", "gemv"
L, M, N, K = 2, 500, 520, 260
LIMIT = 2e-3
"""Relative error of tf32 products."""

failures: list[str] = []


def expect(what: str, holds: bool, detail: str = "") -> None:
    """A line for one expectation."""
    print(f"{'ok  ' if holds else 'FAIL'} {what}{f': {detail}' if detail else ''}", flush=True)
    if not holds:
        failures.append(what)


def same(what: str, found: np.ndarray, wanted: np.ndarray, limit: float = LIMIT) -> None:
    """The relative Frobenius error is below a limit."""
    error = np.linalg.norm(found.astype(np.float64) - wanted) / np.linalg.norm(wanted)
    expect(what, bool(error < limit), f"relative error {error:.2e}")


def data() -> tuple[np.ndarray, np.ndarray, np.ndarray]:
    """A, B, and their product in float64."""
    rng = np.random.default_rng()
    a = rng.standard_normal((L, M, K), np.float32)
    b = rng.standard_normal((L, N, K), np.float32)
    return a, b, np.einsum("lmk,lnk->lmn", a.astype(np.float64), b.astype(np.float64))


def poisoned() -> np.ndarray:
    """An output that nobody has written."""
    return np.full((L, M, N), np.nan, np.float32)


def with_torch(gemm: Kernel) -> None:
    """Tensors, by position and by name; torch's current stream; an input twice."""
    a, b, wanted = data()
    ta, tb, tc = (torch.from_numpy(x).cuda() for x in (a, b, poisoned()))
    gemm(ta, tb, tc)
    same("torch, by position", tc.cpu().numpy(), wanted)
    tc.fill_(float("nan"))
    gemm(C=tc, B=tb, A=ta, M=M)
    same("torch, by name, one size given", tc.cpu().numpy(), wanted)
    side = torch.cuda.Stream()
    with torch.cuda.stream(side):
        late = torch.zeros_like(ta)
        torch.cuda._sleep(100_000_000)
        late.copy_(ta)  # on the side stream, long after the call below has returned
        out = torch.full_like(tc, float("nan"))
        gemm(late, tb, out)
        twice = out * 2
    side.synchronize()
    same("torch, current stream is a side stream", twice.cpu().numpy(), 2 * wanted)
    square = torch.full((L, M, M), float("nan"), device="cuda")
    gemm(ta, ta, square)
    a64 = a.astype(np.float64)
    wanted = np.einsum("lmk,lnk->lmn", a64, a64)
    same("torch, one input twice", square.cpu().numpy(), wanted)


def with_cupy(gemm: Kernel) -> None:
    """Arrays of cupy, on its current stream, and together with torch."""
    import cupy as cp

    a, b, wanted = data()
    ca, cb, cc = map(cp.asarray, (a, b, poisoned()))
    gemm(ca, cb, cc)
    same("cupy", cp.asnumpy(cc), wanted)
    with cp.cuda.Stream(non_blocking=True) as stream:
        cc.fill(float("nan"))
        gemm(ca, cb, cc)
        stream.synchronize()
    same("cupy, a stream of its own", cp.asnumpy(cc), wanted)
    stream = cp.cuda.Stream(non_blocking=True)
    with stream:
        tb = torch.zeros((L, N, K), device="cuda")
        torch.cuda._sleep(100_000_000)
        tb.copy_(torch.from_numpy(b))  # torch's stream is late; the call is on cupy's
        cc.fill(float("nan"))
        gemm(ca, tb, cc)
        stream.synchronize()
    same("cupy and torch, on two streams", cp.asnumpy(cc), wanted)
    cc.fill(float("nan"))
    cp.cuda.Device().synchronize()
    gemm(ca, cb, cc, stream=stream)
    stream.synchronize()
    same("cupy, a stream given", cp.asnumpy(cc), wanted)


def with_numpy(gemm: Kernel, gemv: Kernel) -> None:
    """Arrays of numpy: copied in, and the result out, when the call returns."""
    a, b, wanted = data()
    out = poisoned()
    gemm(a, b, out)
    same("numpy", out, wanted)
    x, y = b[0, 0], np.full(M, np.nan, np.float32)
    gemv(A=a[0], x=np.ascontiguousarray(x), y=y)
    same("numpy, gemv", y, a[0].astype(np.float64) @ x, 1e-5)


def with_jax(gemm: Kernel) -> None:
    """Inputs of jax, which come by DLPack; the output is torch's."""
    import os

    os.environ["XLA_PYTHON_CLIENT_PREALLOCATE"] = "false"
    import jax.numpy as jnp

    a, b, wanted = data()
    out = torch.from_numpy(poisoned()).cuda()
    gemm(jnp.asarray(a), jnp.asarray(b), out)
    same("jax inputs, torch output", out.cpu().numpy(), wanted)


def with_split_k(splitk: Kernel) -> None:
    """A memset, and atomic additions."""
    rng = np.random.default_rng()
    a = torch.from_numpy(rng.standard_normal((1, M, 3, 132), np.float32)).cuda()
    b = torch.from_numpy(rng.standard_normal((1, 512, 3, 132), np.float32)).cuda()
    out = torch.full((1, M, 512), float("nan"), device="cuda")
    splitk(a, b, out)
    wanted = torch.einsum("lmsk,lnsk->lmn", a.double(), b.double())
    same("split-k", out.cpu().numpy(), wanted.cpu().numpy())


def with_attention(folder: Path) -> None:
    """The call on arrays, by the kernels of the folder; float64 tells what is right."""
    from exogpu.kernels import attention, attention_calls

    def kernel(D: int, causal: bool, G: int, dtype: str) -> Kernel:
        if G > 1 or dtype != "bf16":
            raise LaunchError("not in the folder")
        return Kernel.from_folder(folder, f"attention_sm90_{D}" + "_causal" * causal)

    attention_calls.kernel = kernel
    for shape, causal in (((2, 3, 500, 64), True), ((1, 2, 2100, 128), False)):
        q, k, v = (torch.randn(shape, device="cuda", dtype=torch.bfloat16) for _ in range(3))
        lse = torch.full(shape[:3], float("nan"), device="cuda")
        out = attention(q, k, v, causal, lse=lse)
        scores = q.double() @ k.double().mT / shape[-1] ** 0.5
        if causal:
            scores.masked_fill_(torch.ones_like(scores, dtype=torch.bool).triu(1), float("-inf"))
        wanted = scores.softmax(-1) @ v.double()
        same(f"attention {shape}", out.float().cpu().numpy(), wanted.cpu().numpy(), 1e-2)
        side = torch.cuda.Stream()
        side.wait_stream(torch.cuda.current_stream())
        again = attention(q, k, v, causal, stream=side)
        side.synchronize()
        expect(f"attention {shape}, a stream given", torch.equal(again, out))
        sums = scores.logsumexp(-1).cpu().numpy()
        same(f"attention {shape}, sums", lse.cpu().numpy(), sums, 1e-5)


def refusals(gemm: Kernel) -> None:
    """Each is refused before anything is launched: the output stays poisoned."""
    a, b, _ = (torch.from_numpy(np.asarray(x, np.float32)).cuda() for x in data())
    c = torch.full((L, M, N), float("nan"), device="cuda")
    odd = torch.zeros(L, M, K + 2, device="cuda")
    unaligned = torch.zeros(b.numel() + 1, device="cuda")[1:].view(b.shape)
    cases: list[tuple[str, Sequence[object], dict[str, object]]] = [
        ("dtype", (a.double(), b, c), {}),
        ("half", (a.bfloat16(), b, c), {}),
        ("on the CPU", (a.cpu(), b, c), {}),
        ("a list", ([1.0], b, c), {}),
        ("a gradient", (a.clone().requires_grad_(), b, c), {}),
        ("layout", (a.transpose(1, 2).contiguous().transpose(1, 2), b, c), {}),
        ("alignment", (a, unaligned, c), {}),
        ("precondition", (odd, torch.zeros(L, N, K + 2, device="cuda"), c), {}),
        ("shape", (a, b, c[:, :, :-1].contiguous()), {}),
        ("size", (a, b, c), {"M": M + 1}),
        ("unknown name", (a, b, c), {"Mm": M}),
        ("missing array", (a, b), {}),
        ("overlap", (c.view(-1)[: L * M * K].view(L, M, K), b, c), {}),
        ("no stream", (a, b, c), {"stream": "default"}),
    ]
    for what, arrays, sizes in cases:
        try:
            gemm(*arrays, **sizes)
        except LaunchError as error:
            expect(f"refused: {what}", bool(c.isnan().all()), str(error))
        else:
            expect(f"refused: {what}", False, "was launched")


def overhead(gemv: Kernel) -> None:
    """Seconds of Python a call takes."""
    a, x, y = (torch.zeros(s, device="cuda") for s in ((64, 64), (64,), (64,)))
    gemv(a, x, y)
    torch.cuda.synchronize()
    start = perf_counter()
    for _ in range(200):
        gemv(a, x, y)
    seconds = (perf_counter() - start) / 200
    torch.cuda.synchronize()
    print(f"     a call with torch arrays: {seconds * 1e6:.0f} us")


def more(folder: Path) -> None:
    """Other GEMMs, such as ones with redundant synchronisation, at two sizes each."""
    paths = sorted(folder.glob("*.json"))
    expect(f"kernels in {folder}", bool(paths), f"{len(paths)}")
    for path in paths:
        gemm = Kernel.from_folder(folder, path.stem)
        errors = []
        for m, n, k in ((1, 4, 36), (700, 900, 1028)):
            a, b = (torch.randn(1, rows, k, device="cuda") for rows in (m, n))
            c = torch.full((1, m, n), float("nan"), device="cuda")
            gemm(a, b, c)
            a, b = a.double(), b.double()
            # Operands err by 2**-10 each, relative to each product; sums by 2**-23 a term.
            limit = (a.abs() @ b.abs().mT) * (2.0**-10 * 1.001 + k * 2.0**-23)
            errors.append(float(((c - a @ b.mT).abs() / limit).nan_to_num(9e9).max()))
        text = ", ".join(f"{e:.2f}" for e in errors)
        expect(path.stem, max(errors) <= 1, f"errors over their bound {text}")


def compiling() -> None:
    """From the source to a result: `k = p.compile(...); k(A, B, C)`."""
    from exogpu.kernels.gemm_sm90 import KERNELS

    procedure = KERNELS[GEMM]
    kernel = procedure.compile(at={"L": L, "M": M, "N": N, "cluster_K": K})
    a, b, wanted = data()
    out = poisoned()
    kernel(a, b, out)
    same("compiled here, numpy", out, wanted)
    expect("compiled here, SASS", "HGMMA" in kernel.sass)


def main() -> int:
    """Every part; the exit status is 1 if an expectation failed."""
    parser = argparse.ArgumentParser()
    parser.add_argument("folder", type=Path)
    parser.add_argument("--also", type=Path, help="a folder of other GEMMs to run")
    options = parser.parse_args()
    folder = options.folder
    print(torch.cuda.get_device_name(), "torch", torch.__version__, flush=True)
    gemm, splitk, gemv = (Kernel.from_folder(folder, n) for n in (GEMM, SPLIT_K, GEMV))
    parts: list[tuple[str, Callable[[], None]]] = [
        ("torch", lambda: with_torch(gemm)),
        ("cupy", lambda: with_cupy(gemm)),
        ("numpy", lambda: with_numpy(gemm, gemv)),
        ("split-k", lambda: with_split_k(splitk)),
        ("attention", lambda: with_attention(folder)),
        ("refusals", lambda: refusals(gemm)),
        ("overhead", lambda: overhead(gemv)),
        ("jax", lambda: with_jax(gemm)),
    ]
    if importlib.util.find_spec("islpy") is not None:
        parts.append(("compiling", compiling))
    if options.also is not None:
        parts.append(("more", lambda: more(options.also)))
    for name, part in parts:
        try:
            part()
        except Exception as error:
            expect(name, False, f"{type(error).__name__}: {error}")
    print(f"{len(failures)} failures")
    return bool(failures)


if __name__ == "__main__":
    sys.exit(main())
