"""Random products: `gemm`, `gemm_fused`, `gemm_fp8`, `gemv`, `grouped_gemm`."""

from __future__ import annotations

import itertools

import torch
from random_calls import HALF, Call, Checked, Made, lengths, rounded

from exogpu import kernels


def gemm(call: Call) -> Made:
    dtype = call.draw.choice((torch.float32, *HALF))
    batch = (call.size(4),) if call.maybe() else ()
    m, n, k = call.size(700), call.size(700), call.size(900)
    if call.maybe(0.85):
        k += -k % (16 // dtype.itemsize)
    a = call.place("A", call.normal(*batch, m, k, dtype=dtype))
    b = call.place("B", call.normal(*batch, n, k, dtype=dtype))
    out = call.output("out", (*batch, m, n), dtype) if call.maybe() else None
    fused = call.maybe()
    bias = call.place("bias", call.normal(n, dtype=dtype)) if fused and call.maybe() else None
    shape = (*batch, m, n)
    rest = call.place("rest", call.normal(*shape, dtype=dtype)) if fused and call.maybe() else None
    kind = call.draw.choice((None, "relu", "gelu", "silu")) if fused else None
    call.notes.append(f"activation {kind}")
    got: list[torch.Tensor] = []

    def run() -> None:
        if fused:
            got.append(kernels.gemm_fused(a, b, bias, kind, rest, out))
        else:
            got.append(kernels.gemm(a, b, out))

    def check() -> list[Checked]:
        value = a.double() @ b.double().mT
        size = a.double().abs() @ b.double().abs().mT
        # `gemm_fused` has f32 cut or rounded to tf32, as the tensor map has it.
        limit = size * ((dtype == torch.float32) * 2.0**-9 + k * 2.0**-23) * 1.01
        if bias is not None:
            value = value + bias.double()
        if kind is not None:
            act = {"relu": torch.relu, "silu": torch.nn.functional.silu}
            value = act.get(kind, torch.nn.functional.gelu)(value)
            limit = limit * 1.2 + 2e-6
        if rest is not None:
            value = value + rest.double()
        return [(got[0], value, limit + rounded(value, dtype) + 1e-6)]

    return run, check


def fp8(call: Call) -> Made:
    dtype = call.draw.choice((torch.float8_e4m3fn, torch.float8_e5m2))
    batch = (call.size(3),) if call.maybe() else ()
    m, n, k = call.size(500), call.size(500), call.size(900)
    if call.maybe(0.85):
        k += -k % 16
    a = call.place("A", call.normal(*batch, m, k, dtype=dtype))
    b = call.place("B", call.normal(*batch, n, k, dtype=dtype))
    scale = call.place("scale", call.normal(1), odd=0.0)
    into = call.draw.choice((None, torch.bfloat16, torch.float32))
    out = None if into is None else call.output("out", (*batch, m, n), into)
    got: list[torch.Tensor] = []

    def run() -> None:
        got.append(kernels.gemm_fp8(a, b, scale, out))

    def check() -> list[Checked]:
        value = (a.double() @ b.double().mT) * scale.double()
        size = (a.double().abs() @ b.double().abs().mT) * scale.double().abs()
        limit = size * (2.0**-8 + k * 2.0**-23)
        return [(got[0], value, limit + rounded(value, got[0].dtype))]

    return run, check


def gemv(call: Call) -> Made:
    m, k = call.size(3000), call.size(3000)
    a, x = call.place("A", call.normal(m, k)), call.place("x", call.normal(k))
    out = call.output("out", (m,), torch.float32) if call.maybe() else None
    got: list[torch.Tensor] = []

    def check() -> list[Checked]:
        value, size = a.double() @ x.double(), a.double().abs() @ x.double().abs()
        return [(got[0], value, size * k * 2.0**-23 + 1e-6)]

    return lambda: got.append(kernels.gemv(a, x, out)), check


def grouped(call: Call) -> Made:
    dtype = call.draw.choice((torch.float32, *HALF))
    g, n, k = call.size(9), call.size(600), call.size(600)
    if call.maybe(0.85):
        k += -k % (16 // dtype.itemsize)
    counts = lengths(call, g, 400)
    m = max(1, sum(counts)) + call.size(4) - 1
    ends = [0, *itertools.accumulate(counts)]
    a = call.place("A", call.normal(m, k, dtype=dtype))
    b = call.place("B", call.normal(g, n, k, dtype=dtype))
    offsets = call.place("offsets", torch.tensor(ends, device="cuda", dtype=torch.int32))
    out = call.output("out", (m, n), dtype)
    call.notes.append(str(counts))

    def check() -> list[Checked]:
        found: list[Checked] = []
        for i, (first, end) in enumerate(itertools.pairwise(ends)):
            x, y = a[first:end].double(), b[i].double()
            value, size = x @ y.mT, x.abs() @ y.abs().mT
            limit = size * ((dtype == torch.float32) * 2.0**-9 + k * 2.0**-23) * 1.01 + 1e-6
            found.append((out[first:end], value, limit + rounded(value, dtype)))
        left = out[ends[-1] :].isnan().double()
        return [*found, (left, torch.ones_like(left), torch.zeros_like(left))]

    return lambda: kernels.grouped_gemm(a, b, offsets, out), check
