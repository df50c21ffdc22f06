"""Fits the models by which a kernel is chosen to times of random sizes, and tries them on others.

python benchmarks/gpu.py build/gpu -o build/gpu-training --training 150 --runs 4    # on a GPU
python benchmarks/gpu_fit.py build/gpu-training --test build/gpu-bench [--only REGEX] [--write]

Of each GPU on its own: what is known of others is kept, and of the kernels that are not asked for.
"""

from __future__ import annotations

import argparse
import json
import re
from collections import defaultdict
from collections.abc import Iterable, Iterator, Mapping
from dataclasses import replace
from itertools import chain
from math import exp, log
from pathlib import Path

import numpy as np

from exogpu.kernels import (
    gemm_alternating_sm90,
    gemm_sm90,
    gemm_splitk_sm90,
    gemm_splitk_sum_sm90,
    gemm_staged_sm90,
)
from exogpu.kernels.select import TIMES, Product, Variant, among, shipped

SHIPPED = {
    **gemm_sm90.KERNELS,
    **gemm_splitk_sm90.KERNELS,
    **gemm_splitk_sum_sm90.KERNELS,
    **gemm_staged_sm90.KERNELS,
    **gemm_alternating_sm90.KERNELS,
}
NEAR = 1.3
"""Times of the fastest, up to which a model has to be true; beyond it counts for less."""
HICCUP = 2
"""Times of what a model says, from which on the launch was late, not the kernel slow."""
NAME = re.compile(
    r"gemm(?:(_splitk(?:_sum)?)|_alternating(\d+))?(_bf16|_f16)?"
    r"_sm90_(\d+)x(\d+)_(\d+)x(\d+)(?:_resident|(_staged))?$"
)


def read(folder: Path) -> Iterator[tuple[Product, Mapping[tuple[str, int], float]]]:
    """Each size with the seconds of each kernel that was measured, by name and slices."""
    for line in (folder / "results.jsonl").read_text().splitlines():
        one = json.loads(line)
        seconds = {name: each["seconds"] for name, each in one["times"].items()} | one["far"]
        times = {}
        for name, each in seconds.items():
            kernel, _, slices = name.partition(" / ")
            if kernel in SHIPPED:
                times[kernel, int(slices or 1)] = each
        if one["N"] and times:
            sizes = (one[name] for name in "LMNK")
            yield Product(*sizes, one.get("dtype", "f32")), times


def named(name: str) -> Variant:
    """A kernel by its name, without times."""
    found = NAME.match(name)
    assert found is not None
    split, turns, half, *sizes, staged = found.groups()
    cm, cn, tm, tn = map(int, sizes)
    dtype, bulk = half[1:] if half else "f32", bool(staged or turns)
    made = Variant(name, (cm, cn), (tm, tn), bool(split), dtype=dtype, bulk=bulk)
    return replace(made, turns=int(turns or 1))


def fitted(folders: Iterable[Path]) -> Mapping[str, Variant]:
    """Models with the least relative errors whose seconds are not negative."""
    rows: dict[str, list[tuple[tuple[float, ...], float, float]]] = defaultdict(list)
    for product, times in chain.from_iterable(map(read, folders)):
        for (name, slices), seconds in times.items():
            counts = 1.0 if seconds < NEAR * min(times.values()) else 0.2
            rows[name].append((named(name).features(product, slices), seconds, counts))
    found = {}
    for name, each in rows.items():
        counts = np.array([c for _, _, c in each])
        features = np.array([f for f, _, _ in each]) / np.array([[s] for _, s, _ in each])
        likely = features @ nonnegative(features, counts) > 1 / HICCUP
        weights = nonnegative(features[likely], counts[likely])
        found[name] = replace(named(name), seconds=tuple(map(float, weights)))
    return found


def nonnegative(features: np.ndarray, counts: np.ndarray) -> np.ndarray:
    """The weights, none negative, with which each row of features sums to nearly one."""
    kept = list(range(features.shape[1]))
    scale = features.max(axis=0) + 1e-30
    weights = np.zeros(features.shape[1])
    while kept:
        scaled = features[:, kept] / scale[kept] * counts[:, None]
        found = np.linalg.lstsq(scaled, counts)[0]
        if (found >= 0).all():
            weights[kept] = found / scale[kept]
            break
        kept.pop(int(found.argmin()))
    return weights


def tried(folder: Path, variants: Mapping[str, Variant]) -> None:
    """Prints the loss of the chosen kernel against the fastest, for sizes that were measured."""
    losses = []
    for product, times in read(folder):
        choice = among(product, variants)
        seconds = times.get((choice.name, choice.slices or 1))
        best = min(times, key=lambda way: times[way])
        if seconds is None:
            print(f"{product}: {choice} was not measured")
            continue
        losses.append(log(seconds / times[best]))
        if seconds > 1.02 * times[best]:
            print(f"{product}: {choice} takes {seconds / times[best]:.3f} of {best}")
    mean, worst = exp(sum(losses) / len(losses)), exp(max(losses))
    print(f"{len(losses)} sizes: mean {mean:.4f}, worst {worst:.3f}")


def kept(gpu: str, only: str, variants: Mapping[str, Variant]) -> dict[str, Variant]:
    """The models of these kernels whose names `only` finds, or of which nothing is known, and those
    that are known of others that ship."""
    known = {name: one for name, one in shipped(gpu).items() if name in SHIPPED}
    return known | {
        name: one for name, one in variants.items() if re.search(only, name) or name not in known
    }


def write(variants: Mapping[str, Variant], gpu: str) -> None:
    """The seconds on that GPU, beside those on others."""
    known = json.loads(TIMES.read_text())
    known["kernels"] |= {
        v.name: {
            "cluster": v.cluster,
            "tile": v.tile,
            "split": v.split,
            "steps": v.steps,
            "dtype": v.dtype,
            "bulk": v.bulk,
            "turns": v.turns,
        }
        for v in variants.values()
    }
    name = " ".join(gpu.split()[:2])  # of an "NVIDIA H100 80GB HBM3" the first two words
    known["seconds"][name] = {
        v.name: [float(f"{s:.4g}") for s in v.seconds] for v in variants.values()
    }
    text = json.dumps(known, indent=1)
    text = re.sub(r"\[[^][{}]*\]", lambda m: json.dumps(json.loads(m[0])), text)  # a list a line
    TIMES.write_text(text + "\n")


def main() -> None:
    """Fit, try, and write."""
    parser = argparse.ArgumentParser(description=__doc__.partition("\n")[0])
    parser.add_argument("training", type=Path, nargs="+")
    parser.add_argument("--test", type=Path, help="results of other sizes")
    parser.add_argument(
        "--only", default="", help="a regular expression on kernels that are fitted"
    )
    parser.add_argument("--write", action="store_true", help=f"write {TIMES.name}")
    options = parser.parse_args()
    first = json.loads((options.training[0] / "results.jsonl").read_text().partition("\n")[0])
    variants = kept(first["device"], options.only, fitted(options.training))
    print("on the training sizes:")
    for folder in options.training:
        tried(folder, variants)
    if options.test is not None:
        print("on others:")
        tried(options.test, variants)
    if options.write:
        write(variants, first["device"])


if __name__ == "__main__":
    main()
