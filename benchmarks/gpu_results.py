"""Common parts of benchmarks of kernels: their options, ways that are timed, results and tables.

Times are taken by the method of `gpu.py`.  It is imported before exogpu, which it makes known.
"""

from __future__ import annotations

import argparse
import json
import sys
from collections.abc import Callable, Iterable, Iterator, Mapping, Sequence
from pathlib import Path
from typing import Any, Final

import gpu
import torch

ROOT: Final = Path(__file__).resolve().parent.parent
sys.path.insert(0, str(ROOT))

Run = Callable[[], object]
Problem = tuple[str, str, float, dict[str, Run]]
"""A timed problem: its name, its size, the operations or bytes, and each way to do it."""

RATES: Final = (
    "Rates are of the bytes that must be read and written once; `copy` is torch's copy of as many."
)
"""The text over the table of `rates`."""


def options(about: str, name: str) -> argparse.Namespace:
    """Reads the command line: `folder`, of compiled kernels, and `output`, of the results; or
    `write`, results to be written into docs/kernels.md."""
    parser = argparse.ArgumentParser(description=about.partition("\n")[0])
    parser.add_argument("folder", type=Path, nargs="?")
    parser.add_argument("-o", "--output", type=Path, default=ROOT / f"build/{name}.json")
    parser.add_argument("--write", type=Path)
    return parser.parse_args()


def ours(kernel: Callable[..., object], arguments: Mapping[str, Any]) -> Run:
    """A kernel's launch on torch's stream."""
    return lambda: kernel(stream=torch.cuda.current_stream().cuda_stream, **arguments)


def copied(x: torch.Tensor, y: torch.Tensor) -> Run:
    """torch's copy, between contiguous arrays."""
    return lambda: y.view(-1).copy_(x.view(-1))


def moved(x: torch.Tensor) -> int:
    """Bytes, where all of x is read and as much is written."""
    return 2 * x.numel() * x.element_size()


def wrong_ones(found: Sequence[str]) -> list[str]:
    """Selects the faults among the texts of checks, one each, empty if right; some are printed."""
    bad = list(filter(None, found))
    print(f"{len(found)} checks, {len(bad)} wrong", *bad[:20], sep="\n  ", flush=True)
    return bad


def timed(problems: Iterable[Problem], count: int) -> Iterator[dict[str, Any]]:
    """A row of results for each problem: the seconds of each way, of so many runs."""
    for name, size, work, runs in problems:
        seconds = {way: gpu.middle(each) for way, each in gpu.measured(runs, count).items()}
        speeds = ", ".join(f"{way} {work / each / 1e12:.2f}" for way, each in seconds.items())
        print(f"{name}, {size}: {speeds} T/s", flush=True)
        yield {"name": name, "size": size, "work": work, **seconds}


def keep(output: Path, found: Sequence[str], times: Iterable[Mapping[str, Any]]) -> int:
    """Writes the results of checks and times; 1 if anything is wrong."""
    bad = wrong_ones(found)
    result = {
        "device": torch.cuda.get_device_name(),
        "torch": torch.__version__,
        "checks": len(found),
        "wrong": bad,
        "times": list(times),
    }
    output.parent.mkdir(parents=True, exist_ok=True)
    output.write_text(json.dumps(result, indent=1))
    return 1 if bad else 0


def rates(rows: Iterable[Mapping[str, Any]]) -> list[str]:
    """A table of TB/s, beside a copy and torch."""
    return [
        "| kernel | size | TB/s | of the copy | of torch |",
        "| --- | --- | --- | --- | --- |",
        *(
            f"| {row['name']} | {row['size']} | {row['work'] / row['exogpu'] / 1e12:.2f} | "
            f"{row['copy'] / row['exogpu']:.2f} | {row['torch'] / row['exogpu']:.2f} |"
            for row in rows
        ),
    ]


def write(script: str, path: Path, right: str, table: Callable[[Any], list[str]]) -> int:
    """The part of docs/kernels.md that is a benchmark's: `right` says what follows its number of
    checks."""
    read = json.loads(path.read_text())
    begin = f"<!-- What follows is written by benchmarks/{Path(script).name}. -->"
    end = f"<!-- What benchmarks/{Path(script).name} writes ends here. -->"
    about = f"On one {read['device']}, torch {read['torch']}; {right.format(read['checks'])}"
    page = ROOT / "docs/kernels.md"
    before, _, rest = page.read_text().partition(begin)
    lines = [begin, "", about, "", *table(read["times"]), "", end]
    page.write_text(before + "\n".join(lines) + (rest.partition(end)[2] or "\n"))
    return 0
