"""Random calls on rows and elements: norms, losses, sums, the greatest, and what only moves."""

from __future__ import annotations

import torch
from random_calls import HALF, Call, Checked, Made, rounded

from exogpu import kernels


def norms(call: Call) -> Made:
    dtype = call.draw.choice((torch.float32, torch.bfloat16))
    n = call.size(call.draw.choice((100, 3000, 20000, 140000, 300000)))
    shape = (*(call.size(4) for _ in range(call.draw.choice((0, 1, 1, 2)))), n)
    x = call.place("x", call.normal(*shape, dtype=dtype))
    which = call.draw.choice(("softmax", "rms_norm", "layer_norm"))
    call.notes.append(which)
    weight = call.place("weight", call.normal(n, dtype=dtype))
    bias = call.place("bias", call.normal(n, dtype=dtype))
    out = call.output("out", shape, dtype) if call.maybe() else None
    got: list[torch.Tensor] = []

    def run() -> None:
        match which:
            case "softmax":
                got.append(kernels.softmax(x, out))
            case "rms_norm":
                got.append(kernels.rms_norm(x, weight, out=out))
            case _:
                got.append(kernels.layer_norm(x, weight, bias, out=out))

    def check() -> list[Checked]:
        y, w, b = x.double(), weight.double(), bias.double()
        match which:
            case "softmax":
                value = torch.softmax(y, -1)
                limit = value * 1e-5
            case "rms_norm":
                value = y * torch.rsqrt((y * y).mean(-1, keepdim=True) + 1e-6) * w
                limit = value.abs() * 1e-5
            case _:
                mean = y.mean(-1, keepdim=True)
                scale = torch.rsqrt((y - mean).square().mean(-1, keepdim=True) + 1e-5)
                value = (y - mean) * scale * w + b
                limit = 1e-5 * (((y - mean).abs() + y.abs()) * scale * w.abs() + b.abs())
        return [(got[0], value, limit + rounded(value, dtype) + 1e-30)]

    return run, check


def losses(call: Call) -> Made:
    dtype = call.draw.choice((torch.float32, torch.bfloat16))
    n = call.size(call.draw.choice((100, 3000, 40000, 160000)))
    shape = (*(call.size(5) for _ in range(call.draw.choice((0, 1, 2)))), n)
    x = call.place("x", call.normal(*shape, dtype=dtype))
    kind = call.draw.choice((torch.int32, torch.int64))
    chosen = torch.randint(-1, n, shape[:-1], device="cuda", dtype=kind)
    target = call.place("target", chosen)
    lse = call.output("lse", shape[:-1], torch.float32) if call.maybe() else None
    out = call.output("out", shape[:-1], torch.float32) if call.maybe() else None
    got: list[torch.Tensor] = []

    def check() -> list[Checked]:
        sums = x.double().logsumexp(-1)
        near = 1e-5 * (1 + sums.abs())
        at = target.long().clamp(min=0)
        picked = torch.gather(x.double(), -1, at[..., None])[..., 0]
        value = torch.where(target < 0, 0.0, sums - picked)
        found = [(got[0], value, near + 1e-6 * picked.abs())]
        return [*found, (lse, sums, near)] if lse is not None else found

    return lambda: got.append(kernels.cross_entropy(x, target, lse, out)), check


def sums(call: Call) -> Made:
    which = call.draw.choice(("cumsum", "total"))
    dtype = torch.float32 if which == "total" else call.draw.choice((torch.float32, torch.int32))
    n = call.size(call.draw.choice((100, 5000, 300000)))
    shape = (*(call.size(6) for _ in range(call.draw.choice((0, 1, 2)))), n)
    values = (
        call.normal(*shape)
        if dtype == torch.float32
        else torch.randint(-(2**31), 2**31, shape, device="cuda", dtype=torch.int64).to(torch.int32)
    )
    x = call.place("x", values)
    where = () if which == "total" else shape
    out = call.output("out", where, dtype) if call.maybe() else None
    call.notes.append(which)
    got: list[torch.Tensor] = []

    def check() -> list[Checked]:
        if dtype == torch.int32:
            value = torch.cumsum(x.long(), -1).to(torch.int32).double()
            return [(got[0], value, torch.zeros_like(value))]
        y = x.double()
        if which == "total":
            return [(got[0], y.sum(), y.abs().sum() * 2.0**-20)]
        return [(got[0], y.cumsum(-1), y.abs().cumsum(-1) * 2.0**-19)]

    function = getattr(kernels, which)
    return lambda: got.append(function(x, out)), check


def greatest(call: Call) -> Made:
    dtype = call.draw.choice((torch.float32, *HALF))
    n = call.size(call.draw.choice((130, 5000, 140000)))
    shape = (*(call.size(9) for _ in range(call.draw.choice((0, 1, 1, 2)))), n)
    k = min(call.size(128), n)
    values = call.normal(*shape)
    if call.maybe(0.4):
        values = values.round()
    if call.maybe(0.2):
        values[torch.rand(shape, device="cuda") < 0.1] = float("nan")
        values[torch.rand(shape, device="cuda") < 0.1] = float("-inf")
        values[torch.rand(shape, device="cuda") < 0.1] = -0.0
    x = call.place("x", values.to(dtype))
    kind = call.draw.choice((None, torch.int32, torch.int64))
    out = call.output("out", (*shape[:-1], k), dtype) if call.maybe() else None
    where = call.output("where", (*shape[:-1], k), kind) if kind is not None else None
    call.notes.append(f"k {k}")
    got: list[torch.Tensor] = []

    def check() -> list[Checked]:
        y = x.double()
        # NaN first, then by value, 0 before -0, then by column: stable sorts, the last key first.
        key = torch.where(y.isnan(), float("inf"), y)
        order = torch.argsort(torch.signbit(y) & (y == 0), dim=-1, stable=True)
        for by in (-key, torch.where(y.isnan(), 0, 1)):
            order = order.gather(-1, torch.argsort(by.gather(-1, order), dim=-1, stable=True))
        order = order[..., :k]
        value = y.gather(-1, order)
        found, columns = got[0], got[1]
        same = (found.double() == value) | (found.isnan() & value.isnan())
        signs = (torch.signbit(found) == torch.signbit(value)) | value.isnan()
        right = (same & signs & (columns == order)).double()
        return [(right, torch.ones_like(right), torch.zeros_like(right))]

    return lambda: got.extend(kernels.topk(x, k, out, where)), check


def moves(call: Call) -> Made:
    which = call.draw.choice(("transpose", "stencil", "gather_rows", "scatter_rows", "histogram"))
    call.notes.append(which)
    got: list[torch.Tensor] = []
    exact = torch.zeros((), device="cuda").double()
    if which == "transpose":
        dtype = call.draw.choice((torch.float32, torch.bfloat16))
        batch = (call.size(4),) if call.maybe() else ()
        x = call.place("x", call.normal(*batch, call.size(1500), call.size(1500), dtype=dtype))
        turned = (*batch, x.shape[-1], x.shape[-2])
        out = call.output("out", turned, dtype) if call.maybe() else None
        return (
            lambda: got.append(kernels.transpose(x, out)),
            lambda: [(got[0], x.mT.double(), exact)],
        )
    if which == "stencil":
        x = call.place("x", call.normal(call.size(1500), call.size(1500)))
        weight = [[call.draw.uniform(-1, 1) for _ in range(3)] for _ in range(3)]
        out = call.output("out", tuple(x.shape), torch.float32) if call.maybe() else None

        def check() -> list[Checked]:
            w = torch.tensor(weight, device="cuda").double()[None, None]
            value = torch.nn.functional.conv2d(x.double()[None, None], w, padding=1)[0, 0]
            size = torch.nn.functional.conv2d(x.double().abs()[None, None], w.abs(), padding=1)
            return [(got[0], value, size[0, 0] * 2.0**-19)]

        return lambda: got.append(kernels.stencil(x, weight, out)), check
    if which == "histogram":
        bins = call.size(4096)
        x = call.place(
            "x", torch.randint(bins, (call.size(300000),), device="cuda", dtype=torch.int32)
        )
        out = call.output("out", (bins,), torch.int32) if call.maybe() else None
        return (
            lambda: got.append(kernels.histogram(x, bins, out)),
            lambda: [(got[0], torch.bincount(x.long(), minlength=bins).double(), exact)],
        )
    dtype = call.draw.choice((torch.float32, *HALF))
    m, rows, n = call.size(500), call.size(500), call.size(3000)
    if which == "gather_rows":
        x = call.place("x", call.normal(rows, n, dtype=dtype))
        chosen = torch.randint(rows, (m,), device="cuda", dtype=torch.int32)
        index = call.place("index", chosen)
        out = call.output("out", (m, n), dtype) if call.maybe() else None
        return (
            lambda: got.append(kernels.gather_rows(x, index, out)),
            lambda: [(got[0], x[index.long()].double(), exact)],
        )
    x = call.place("x", call.normal(m, n, dtype=dtype))
    chosen = torch.randperm(m + rows, device="cuda")[:m].to(torch.int32)
    index = call.place("index", chosen)
    out = call.output("out", (m + rows, n), dtype)

    def check_rows() -> list[Checked]:
        others = torch.ones(m + rows, dtype=torch.bool, device="cuda")
        others[index.long()] = False
        left = out[others].isnan().double()
        return [
            (out[index.long()], x.double(), exact),
            (left, torch.ones_like(left), torch.zeros_like(left)),
        ]

    return lambda: kernels.scatter_rows(x, index, out), check_rows
