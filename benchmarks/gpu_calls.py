"""Random calls of `exogpu.kernels` on a GPU, against float64.

    python benchmarks/gpu_calls.py --calls 2000 --seed 0

Each call has random sizes, types and optional arguments, and arrays between guard bands that now
and then begin at odd places, or have gaps between rows; outputs are poisoned.  It is right, with
inputs and guards as they were, or refused by a LaunchError; those are counted by their words.
Kernels are proved and compiled when they are first called: needs torch, the solvers and nvcc.
"""

from __future__ import annotations

import argparse
import math
import random
import re
import sys
import time
import traceback
from collections import Counter
from collections.abc import Callable
from pathlib import Path

sys.path.insert(0, str(Path(__file__).resolve().parent.parent))

import torch
from random_attention import attention, varlen
from random_calls import Call, Made
from random_products import fp8, gemm, gemv, grouped
from random_rows import greatest, losses, moves, norms, sums

from exogpu.codegen.runtime import LaunchError

EACH = (
    gemm,
    gemm,
    fp8,
    gemv,
    attention,
    varlen,
    norms,
    norms,
    losses,
    sums,
    greatest,
    moves,
    moves,
    grouped,
)


def outcome(make: Callable[[Call], Made], call: Call) -> str:
    """Empty if a call is right, "refused: ..." or what is wrong."""
    run, check = make(call)
    try:
        run()
        torch.cuda.synchronize()
    except LaunchError as error:
        text = re.sub(r"\d+", "#", str(error))
        return f"refused: {text}"
    except Exception:  # what a user should not see
        return traceback.format_exc()
    wrong = call.disturbed()
    for found, value, limit in check():
        near = (found.double() - value).abs() <= limit
        near |= found.double() == value  # infinities
        if found.shape != value.shape or not near.all():
            worst = ((found.double() - value).abs() / limit.clamp(min=1e-300)).max()
            wrong.append(
                f"{int((~near).sum())} of {near.numel()} are out, {float(worst):.3g} limits"
            )
    return "; ".join(wrong)


def main() -> int:
    parser = argparse.ArgumentParser(description=__doc__.split("\n", maxsplit=1)[0])
    parser.add_argument("--calls", type=int, default=2000)
    parser.add_argument("--seed", type=int, default=0)
    parser.add_argument("--seconds", type=float, default=math.inf, help="stop after them")
    parser.add_argument("--only", default="", help="a function of this file")
    given = parser.parse_args()
    began, right, wrong = time.perf_counter(), Counter[str](), 0
    refused: Counter[str] = Counter()
    for seed in range(given.seed, given.seed + given.calls):
        if time.perf_counter() - began > given.seconds:
            break
        draw = random.Random(seed)
        torch.manual_seed(seed)
        make = draw.choice(EACH)
        if given.only and make.__name__ != given.only:
            continue
        call = Call(draw)
        found = outcome(make, call)
        if found.startswith("refused: "):
            refused[f"{make.__name__} {found}"] += 1
        elif found:
            wrong += 1
            print(f"WRONG {seed} {make.__name__}: {found}\n    {', '.join(call.notes)}", flush=True)
        else:
            right[make.__name__] += 1
    for text, count in refused.most_common():
        print(f"{count:5} {text}")
    print(", ".join(f"{name} {count}" for name, count in sorted(right.items())))
    done = sum(right.values())
    print(f"{done} right, {sum(refused.values())} refused, {wrong} wrong, seed {given.seed}")
    return int(wrong > 0)


if __name__ == "__main__":
    sys.exit(main())
