"""Random attention: of heads, of sequences one after the other, and of pages."""

from __future__ import annotations

import itertools

import torch
from random_calls import HALF, Call, Checked, Made, lengths, rounded

from exogpu import kernels


def attention(call: Call) -> Made:
    dtype, d = call.draw.choice(HALF), call.draw.choice((64, 128))
    batch, groups, share, s = call.size(3), call.size(3), call.size(4), call.size(700)
    q = call.place("q", torch.randn(batch, groups * share, s, d, device="cuda").to(dtype))
    k, v = (
        call.place(name, torch.randn(batch, groups, s, d, device="cuda").to(dtype)) for name in "kv"
    )
    causal = call.maybe()
    out = call.output("out", tuple(q.shape), dtype) if call.maybe() else None
    lse = call.output("lse", (*q.shape[:-1],), torch.float32) if call.maybe() else None
    call.notes.append(f"causal {causal}")
    got: list[torch.Tensor] = []

    def check() -> list[Checked]:
        kk, vv = (x.double().repeat_interleave(share, 1) for x in (k, v))
        scores = q.double() @ kk.mT / d**0.5
        if causal:
            mask = torch.ones(s, s, dtype=torch.bool, device="cuda").tril()
            scores = scores.masked_fill(~mask, float("-inf"))
        weights = scores.softmax(-1)
        value = weights @ vv
        limit = 2.0**-7 * (weights @ vv.abs()) + 2.0**-24 * (1 + vv.abs().sum(-2, keepdim=True))
        found = [(got[0], value, limit + rounded(value, dtype))]
        if lse is not None:
            sums = scores.logsumexp(-1)
            found.append((lse, sums, 2.0**-15 * (16 + sums.abs())))
        return found

    return lambda: got.append(kernels.attention(q, k, v, causal, out, lse)), check


def varlen(call: Call) -> Made:
    dtype, d = call.draw.choice(HALF), call.draw.choice((64, 128))
    groups, share, b = call.size(3), call.size(3), call.size(6)
    nq, nk = lengths(call, b, 400), lengths(call, b, 400)
    tq, tk = max(1, sum(nq)) + call.size(5) - 1, max(1, sum(nk)) + call.size(5) - 1
    paged, causal = call.maybe(), call.maybe()
    q = call.place("q", torch.randn(tq, groups * share, d, device="cuda").to(dtype))
    ends_q = [0, *itertools.accumulate(nq)]
    cu_q = call.place("cu_q", torch.tensor(ends_q, device="cuda", dtype=torch.int32))
    out = call.output("out", tuple(q.shape), dtype)
    lse = call.output("lse", (groups * share, tq), torch.float32) if call.maybe() else None
    call.notes.append(f"causal {causal} {nq} {nk}")
    got: list[torch.Tensor] = []
    if paged:
        p = call.draw.choice((16, 32, 64, 128, 256))
        pages = [-(-n // p) for n in nk]
        table = torch.full((b, max(1, *pages)), -5, dtype=torch.int32)
        order = list(range(max(1, sum(pages)) + 2))
        call.draw.shuffle(order)
        at = iter(order)
        for i, n in enumerate(pages):
            for j in range(n):
                table[i, j] = next(at)
        shape = (len(order), p, groups, d)
        keys, values = (
            call.place(x, torch.randn(shape, device="cuda").to(dtype)) for x in ("k", "v")
        )
        block = call.place("table", table.cuda())
        used = call.place("used", torch.tensor(nk, device="cuda", dtype=torch.int32))

        def run() -> None:
            got.append(
                kernels.attention_paged(q, keys, values, block, cu_q, used, causal, out, lse)
            )

        def of(x: torch.Tensor, i: int) -> torch.Tensor:
            own = [x[int(table[i, j])] for j in range(pages[i])]
            return torch.cat(own)[: nk[i]] if own else x[0, :0]
    else:
        keys, values = (
            call.place(x, torch.randn(tk, groups, d, device="cuda").to(dtype)) for x in ("k", "v")
        )
        ends_k = [0, *itertools.accumulate(nk)]
        cu_k = call.place("cu_k", torch.tensor(ends_k, device="cuda", dtype=torch.int32))

        def run() -> None:
            got.append(kernels.attention_varlen(q, keys, values, cu_q, cu_k, causal, out, lse))

        def of(x: torch.Tensor, i: int) -> torch.Tensor:
            return x[ends_k[i] : ends_k[i + 1]]

    def check() -> list[Checked]:
        found: list[Checked] = []
        for i in range(b):
            if not nq[i]:
                continue
            qq = q[ends_q[i] : ends_q[i + 1]].double().transpose(0, 1)
            kk, vv = (
                of(x, i).double().transpose(0, 1).repeat_interleave(share, 0)
                for x in (keys, values)
            )
            scores = qq @ kk.mT / d**0.5
            if causal:
                last = torch.arange(nq[i], device="cuda")[:, None] + nk[i] - nq[i]
                later = torch.arange(nk[i], device="cuda")[None] > last
                scores = scores.masked_fill(later, float("-inf"))
            weights = scores.softmax(-1).nan_to_num(0.0)
            value = weights @ vv
            limit = 2.0**-7 * (weights @ vv.abs()) + 2.0**-24 * (1 + vv.abs().sum(-2, keepdim=True))
            rows = out[ends_q[i] : ends_q[i + 1]].transpose(0, 1)
            found.append((rows, value, limit + rounded(value, dtype)))
            if lse is not None:
                sums = scores.logsumexp(-1)
                near = 2.0**-15 * (16 + sums.abs().nan_to_num(0.0, 0.0, 0.0))
                found.append((lse[:, ends_q[i] : ends_q[i + 1]], sums, near))
        rest = out[ends_q[-1] :]
        if rest.numel():
            found.append(
                (
                    rest.isnan().double(),
                    torch.ones_like(rest).double(),
                    torch.zeros_like(rest).double(),
                )
            )
        return found

    return run, check
