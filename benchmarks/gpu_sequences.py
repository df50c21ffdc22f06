"""Attention of sequences of their own lengths on a GPU: right, then beside what torch takes.

    exogpu compile exogpu.kernels.grouped_tiles -o build/gpu --cubin
    exogpu compile benchmarks/pages.py -o build/gpu --cubin
    python benchmarks/gpu_sequences.py build/gpu -o build/gpu-sequences.json
    python benchmarks/gpu_sequences.py --write build/gpu-sequences.json       # docs/kernels.md

Each batch is checked against float64, by rows and in pages in any order; rows of no sequence are
NaN, and pages that no sequence has are -1.  Times are those of the call, which finds the tiles too,
by the method of `gpu.py`; beside it are torch's FlashAttention of sequences by rows, and cuDNN for
each sequence in a loop that knows their lengths on the CPU.  Needs torch, and neither the solvers
nor a compiler.
"""

from __future__ import annotations

import importlib
import random
import sys
from collections.abc import Callable, Iterator, Mapping, Sequence
from dataclasses import dataclass
from functools import cache, partial
from itertools import accumulate, pairwise
from typing import Any

import gpu_results
import torch
from gpu_results import Problem, Run
from torch.nn.attention import SDPBackend, sdpa_kernel
from torch.nn.functional import scaled_dot_product_attention

from exogpu.codegen.runtime import Kernel
from exogpu.kernels import attention_calls, attention_sm90, grouped_calls

RUNS = 30
PAGES = (16, 64, 256)
LOGARITHM = 2e-3
"""By how much the logarithm of a sum is out at most."""
RIGHT = (
    "right against float64 in {:,} calls.  TFLOP/s are by rows; with pages it is so many times as "
    "fast.  The last two are the seconds of the others to ours, by rows: `varlen` is "
    "`torch.nn.attention.varlen`, `loop` is cuDNN for each sequence."
)


@dataclass(frozen=True)
class Batch:
    """Sequences of rows and keys; H heads of q of D columns, G share one of k and v."""

    name: str
    rows: Sequence[int]
    keys: Sequence[int]
    D: int
    H: int
    G: int
    causal: bool
    behind: int = 0
    """Rows, and keys, of no sequence."""

    @property
    def work(self) -> float:
        """Operations, of the pairs of a row and a key that it looks at."""
        pairs = 0
        for n, m in zip(self.rows, self.keys, strict=True):
            pairs += sum(max(0, m - n + i + 1) for i in range(n)) if self.causal else n * m
        return 4.0 * self.H * pairs * self.D

    def arrays(self, dtype: torch.dtype = torch.bfloat16) -> dict[str, torch.Tensor]:
        """The arguments of the call."""
        found = {}
        heads = self.H // self.G
        for name, counts, own in (
            ("q", self.rows, self.H),
            ("k", self.keys, heads),
            ("v", self.keys, heads),
        ):
            x = torch.randn(sum(counts) + self.behind, own, self.D, device="cuda").to(dtype)
            x[sum(counts) :] = float("nan")
            found[name] = x
        for name, counts in (("cu_seqlens_q", self.rows), ("cu_seqlens_k", self.keys)):
            ends = [0, *accumulate(counts)]
            found[name] = torch.tensor(ends, dtype=torch.int32, device="cuda")
        return found


def batches() -> Iterator[Batch]:
    """Yields the batches to check."""
    draw = random.Random(3)

    def lengths(count: int, most: int) -> list[int]:
        return [draw.choice((0, 1, 127, 128, 129, draw.randrange(most))) for _ in range(count)]

    for D in (64, 128):
        for causal in (False, True):
            for rows in ([1], [128], [129], [0, 0, 5], [300, 0, 1, 77], [1000, 1, 2000]):
                yield Batch("own", rows, rows, D, 2, 1, causal, behind=draw.choice((0, 9)))
            for count, most in ((1, 500), (4, 300), (7, 1000), (40, 90), (3, 3000)):
                rows, keys = lengths(count, most), lengths(count, most)
                rows[0], keys[-1] = rows[0] or 3, keys[-1] or 5
                yield Batch("other", rows, keys, D, 3, 1, causal, behind=draw.choice((0, 200)))
            for rows, keys in (([1] * 9, [700, 1, 0, 176, 177, 352, 128, 3000, 5]), ([64], [9000])):
                yield Batch("few rows", rows, keys, D, 4, 1, causal)
            yield Batch("many heads", [513, 60], [513, 60], D, 33, 1, causal)
            for _ in range(86):
                rows, keys = (
                    [draw.randrange(700) for _ in range(draw.randint(1, 6))] for _ in "qk"
                )
                keys = [*keys, *rows][: len(rows)]
                rows[0], keys[0] = rows[0] + 1, keys[0] + 1
                yield Batch("random", rows, keys, D, draw.randint(1, 3), 1, causal, 1)


def timed() -> Iterator[Batch]:
    """Yields the batches to time."""
    draw = random.Random(1)
    uneven = [round(draw.expovariate(1 / 1500)) + 1 for _ in range(16)]
    for name, rows in (
        ("even", [2048] * 8),
        ("even", [16384]),
        ("even", [512] * 64),
        ("uneven", uneven),
        ("one long", [12000, *[200] * 40]),
        ("many small", [draw.randrange(1, 400) for _ in range(128)]),
    ):
        for D in (64, 128):
            for causal in (False, True):
                yield Batch(name, rows, rows, D, 16, 1, causal)


def in_pages(batch: Batch, given: Mapping[str, torch.Tensor], page: int) -> dict[str, Any]:
    """The same keys and values, in pages of so many rows; what no sequence has is NaN."""
    counts = [-(-m // page) for m in batch.keys]
    table = torch.full((len(counts), max(1, *counts) + 1), -1, dtype=torch.int32)
    order = random.sample(range(sum(counts) + 3), sum(counts))
    for row, first, count in zip(table, accumulate(counts, initial=0), counts, strict=False):
        row[:count] = torch.tensor(order[first : first + count])
    found = {name: given[name] for name in ("q", "cu_seqlens_q")}
    for name in "kv":
        x = given[name]
        cache = torch.full((len(order) + 3, page, *x.shape[1:]), float("nan"), device="cuda")
        cache = cache.to(x.dtype)
        for row, rows in zip(table, each(x, batch.keys), strict=True):
            for n, part in enumerate(rows.transpose(0, 1).split(page)):
                cache[row[n], : len(part)] = part
        found[f"{name}_cache"] = cache
    keys = torch.tensor(batch.keys, dtype=torch.int32, device="cuda")
    return {**found, "block_table": table.cuda(), "seqlens_k": keys}


def each(x: torch.Tensor, counts: Sequence[int]) -> list[torch.Tensor]:
    """The rows of each sequence: (heads, rows, D)."""
    return [x[a:b].transpose(0, 1) for a, b in pairwise([0, *accumulate(counts)])]


def wrong(
    batch: Batch, given: Mapping[str, torch.Tensor], y: torch.Tensor, sums: torch.Tensor
) -> str:
    """Describes the error that rounding does not explain; empty if there is none."""
    qs = each(given["q"], batch.rows)
    ks, vs = (each(given[name], batch.keys) for name in "kv")
    ys = each(y, batch.rows)
    first = 0
    for b, (q, k, v, own) in enumerate(zip(qs, ks, vs, ys, strict=True)):
        n, m = q.shape[1], k.shape[1]
        q, k, v = (x.double() for x in (q, k, v))
        k, v = (x.repeat_interleave(batch.G, 0) for x in (k, v))
        scores = q @ k.transpose(1, 2) / batch.D**0.5
        if batch.causal:
            i, j = torch.arange(n, device="cuda")[:, None], torch.arange(m, device="cuda")
            scores = scores.masked_fill(j > i + (m - n), float("-inf"))
        logs = torch.logsumexp(scores, -1)
        weights = torch.exp(scores - logs[:, :, None]).nan_to_num(0.0)
        bad = ~((own.double() - weights @ v).abs() <= 0.02 + 0.01 * (weights @ v.abs()))
        if bad.any():
            return f"sequence {b}, {n} rows and {m} keys: {int(bad.sum())} elements"
        off = sums[:, first : first + n].double()
        equal = torch.where(logs.isinf(), off == logs, (off - logs).abs() <= LOGARITHM)
        if not equal.all():
            return f"sequence {b}, {n} rows and {m} keys: {int((~equal).sum())} logarithms"
        first += n
    if not (y[first:].isnan().all() and sums[:, first:].isnan().all()):
        return "rows of no sequence are written"
    return ""


def checks() -> Iterator[str]:
    """One text a check: empty, or what is wrong."""
    for batch in batches():
        given = batch.arrays()
        y = torch.full_like(given["q"], float("nan"))
        sums = torch.full((batch.H, len(y)), float("nan"), device="cuda")
        attention_calls.attention_varlen(**given, causal=batch.causal, out=y, lse=sums)
        found = wrong(batch, given, y, sums)
        shown = (
            f"{batch.D} columns, {'causal, ' * batch.causal}{batch.rows} rows, {batch.keys} keys"
        )
        yield found and f"{shown}: {found}"


def varlen(batch: Batch, given: Mapping[str, torch.Tensor]) -> Run:
    """torch's."""
    call: Callable[..., object] = importlib.import_module("torch.nn.attention.varlen").varlen_attn
    ends = (given["cu_seqlens_q"], given["cu_seqlens_k"], max(batch.rows), max(batch.keys))
    window = (-1, 0) if batch.causal else (-1, -1)
    return lambda: call(given["q"], given["k"], given["v"], *ends, window_size=window)


def loop(batch: Batch, given: Mapping[str, torch.Tensor]) -> Run:
    """cuDNN, a sequence after the other."""
    parts = list(
        zip(
            each(given["q"], batch.rows),
            *(each(given[name], batch.keys) for name in "kv"),
            strict=True,
        )
    )

    def run() -> None:
        with sdpa_kernel(SDPBackend.CUDNN_ATTENTION):
            for q, k, v in parts:
                scaled_dot_product_attention(q[None], k[None], v[None], is_causal=batch.causal)

    return run


def problems() -> Iterator[Problem]:
    """Yields the problems to time."""
    for batch in timed():
        given = batch.arrays()
        y = torch.empty_like(given["q"])
        sums = torch.empty(batch.H, len(y), device="cuda")
        runs: dict[str, Run] = {
            "exogpu": partial(
                attention_calls.attention_varlen, **given, causal=batch.causal, out=y, lse=sums
            )
        }
        for name, make in (("varlen", varlen), ("loop", loop)):
            try:
                other = make(batch, given)
                other()
                runs[name] = other
            except (ImportError, RuntimeError, TypeError) as error:
                print(f"{name}: {str(error).splitlines()[0]}")
        size = f"{len(batch.rows)} of {sum(batch.rows)} rows, {batch.H} heads of {batch.D}"
        yield f"{batch.name}{', causal' * batch.causal}", size, batch.work, runs


def table(rows: Sequence[Mapping[str, Any]]) -> list[str]:
    """TFLOP/s, how many times as fast pages are, and the others' seconds to ours."""
    others = ["varlen", "loop"]
    pages = [way for page in PAGES if any((way := f"pages of {page}") in row for row in rows)]
    lines = [f"| {' | '.join(['sequences', 'size', 'TFLOP/s', *pages, *others])} |"]
    lines.append("| --- " * (3 + len(pages) + len(others)) + "|")
    for row in rows:
        rate = f"{row['work'] / row['exogpu'] / 1e12:.0f}"
        ratios = [f"{row['exogpu'] / row[of]:.2f}" for of in pages]
        ratios += [f"{row[of] / row['exogpu']:.2f}" if of in row else "" for of in others]
        lines.append(f"| {row['name']} | {row['size']} | {rate} | {' | '.join(ratios)} |")
    return lines


def main() -> int:
    options = gpu_results.options(__doc__, "gpu-sequences")
    if options.write:
        return gpu_results.write(__file__, options.write, RIGHT, table)
    of = cache(partial(Kernel.from_folder, options.folder))
    grouped_calls.tile_divider = lambda rows: of(f"grouped_tiles_{rows}")

    def kernel(
        D: int, causal: bool, G: int, dtype: str = "bf16", *, packed: bool = False
    ) -> Kernel:
        return of(attention_sm90.name_of(D, causal, G, attention_calls._TYPES[dtype], packed))

    attention_calls.kernel = kernel
    return gpu_results.keep(options.output, list(checks()), gpu_results.timed(problems(), RUNS))


if __name__ == "__main__":
    sys.exit(main())
