"""Speed of the emitted kernels beside cuBLAS and cuBLASLt, by the paper's method, in eight panels.

    python benchmarks/gpu.py build/gpu -o build/gpu-bench [--panels square,small] [--resume]
    python benchmarks/gpu.py --write build/gpu-bench       # docs/gpu-bench.{json,csv,svg}

Kernels and libraries take turns in a shuffled order; the L2 cache is flushed before each run; a
time is the mean of the middle half.  Each result is first checked against float64 on some rows.
Of kernels that take more than `--far` times as long as the fastest only the best is timed further.
Then the kernel that the call takes has turns with the libraries alone: where power limits, what
else is run beside them lowers the clock for all.
Ratios are of one run, since absolute figures move with the clock.  Needs torch and a GPU, and
neither the solvers nor a compiler; plots need matplotlib.
"""

from __future__ import annotations

import argparse
import csv
import json
import random
import subprocess
import sys
from collections.abc import Callable, Iterator, Mapping, Sequence
from dataclasses import asdict, dataclass
from functools import partial
from math import exp, log
from pathlib import Path
from typing import TYPE_CHECKING, Any, Final

if TYPE_CHECKING:
    from exogpu.codegen.runtime import Kernel

ROOT: Final = Path(__file__).resolve().parent.parent
MARK: Final = "<!-- What follows is written by benchmarks/gpu.py. -->"
RUNS: Final = 60
PROBES: Final = 4
FAR: Final = 1.3
TRAINING: Final = "training"
ROWS: Final = 16
"""The rows of each matrix that are checked against float64."""
SPLITS: Final = 64
"""Slices of K at most, of at least 128 columns each."""
LIBRARIES: Final = ("cuBLAS", "cuBLASLt")
HALVES: Final = ("bf16", "f16")
PARTS: Final = 1 << 34
"""Bytes of parts that are summed in a second pass, at most: more slices would never be chosen."""
HALF_BIT: Final = {"bf16": 2.0**-8, "f16": 2.0**-11}
"""By how much a result is rounded at most, relative to it."""

Run = Callable[[], object]


@dataclass(frozen=True)
class Problem:
    """L products of M x K by K x N, of f32, which is TF32, or 16 bits; a GEMV where N is 0."""

    panel: str
    L: int
    M: int
    N: int
    K: int
    dtype: str = "f32"

    def __str__(self) -> str:
        if not self.N:
            return f"{self.M} x {self.K}" if self.M != self.K else str(self.M)
        if self.M == self.N == self.K:
            return f"{self.L} x {self.M}" if self.L > 1 else str(self.M)
        return f"{self.M} {self.N} {self.K}"

    @property
    def work(self) -> float:
        """Operations of a product; bytes of a GEMV, whose matrix is read once."""
        return 2.0 * self.L * self.M * self.N * self.K if self.N else 4.0 * self.M * self.K


def problems() -> Iterator[Problem]:
    """Every size of the panels."""
    for n in (2048, 4096, 6144, 8192, 12288, 16384):
        yield Problem("square", 1, n, n, n)
    for n in (512, 1024, 1536, 3072):
        yield Problem("small", 1, n, n, n)
    for n in (256, 512, 1024, 2048):
        yield Problem("long", 1, n, n, 65536)
    for count, n in ((8, 1024), (4, 2048)):
        yield Problem("batched", count, n, n, n)
    for n in (1000, 3000, 5000):
        yield Problem("uneven", 1, n, n, n)
    for m, n, k in (
        (12345, 4100, 2052),
        (64, 4096, 4096),
        (16384, 512, 4096),
        (4096, 11008, 4096),
    ):
        yield Problem("uneven", 1, m, n, k)
    for n in (1024, 2048, 4096, 8192, 16384, 32768):
        yield Problem("gemv", 1, n, 0, n)
    yield Problem("gemv", 1, 128, 0, 65536)
    for half in HALVES:
        for n in (1024, 2048, 4096, 6144, 8192, 12288, 16384):
            yield Problem(half, 1, n, n, n, half)


def training(count: int, dtype: str = "f32", seed: int = 1) -> Iterator[Problem]:
    """Random sizes of GEMMs, on which the choice of a kernel is fitted; every other one even."""
    chosen = random.Random(seed)

    def size(least: int, most: int) -> int:
        of = (8 if dtype in HALVES else 4, 64)[found % 2]
        return of * max(1, round(exp(chosen.uniform(log(least), log(most))) / of))

    found = 0
    while found < count:
        sizes = size(32, 12000), size(32, 12000), size(128, 40000)
        problem = Problem(TRAINING, 1, *sizes, dtype)
        if 1e8 < problem.work < 1e12:
            found += 1
            yield problem
    for found in range(count // 6):  # these are limited by power
        m, n, k = (size(3500, 15000) for _ in range(3))
        yield Problem(TRAINING, 1, m, n, k, dtype)


# --- on the GPU -----------------------------------------------------------------------------


def candidates(folder: Path, problem: Problem) -> Iterator[tuple[str, Kernel, dict[str, Any]]]:
    """The kernels that compute it, with the sizes that no array tells."""
    from exogpu.codegen.runtime import Kernel

    for path in sorted(folder.glob("*.json")):
        parameters = {p["name"]: p for p in json.loads(path.read_text())["parameters"]}
        names = parameters.keys()
        arrays = {name for name, one in parameters.items() if one["kind"] == "data"}
        if arrays != {"A", "B", "C"} and arrays != {"A", "x", "y"}:
            continue  # it computes something else
        if ("x" in names) != (problem.N == 0) or ("L" not in names and problem.L > 1):
            continue
        if parameters["A"]["dtype"] != problem.dtype:
            continue
        kernel = Kernel.from_folder(folder, path.stem)
        if "K_split" not in names:
            yield path.stem, kernel, {"L": "L" in names}
            continue
        chunk = 4 if problem.dtype == "f32" else 8  # elements of 16 bytes
        part = 4 * problem.L * problem.M * problem.N
        for slices in range(1, max(1, min(SPLITS, problem.K // 128)) + 1):
            if problem.K % (chunk * slices) == 0 and slices * part <= PARTS:
                yield f"{path.stem} / {slices}", kernel, {"slices": slices}


def runs_of(folder: Path, problem: Problem) -> tuple[dict[str, Run], Callable[[str], bool]]:
    """Returns the runs to time, by name; and a test whether the last result of one is right."""
    import torch

    torch.backends.cuda.matmul.allow_tf32 = True
    L, M, N, K = problem.L, problem.M, problem.N, problem.K
    types = {"f32": torch.float32, "bf16": torch.bfloat16, "f16": torch.float16}
    dtype = types[problem.dtype]
    a = torch.randn(L, M, K, device="cuda", dtype=dtype)
    b = torch.randn(L, N or 1, K, device="cuda", dtype=dtype)
    c = torch.empty(L, M, N or 1, device="cuda", dtype=dtype)
    stream = torch.cuda.current_stream().cuda_stream

    def library(name: str) -> None:
        torch.backends.cuda.preferred_blas_library(name.lower())
        if not N:
            torch.mv(a[0], b[0, 0], out=c[0, :, 0])
        elif L == 1:
            torch.mm(a[0], b[0].T, out=c[0])
        else:
            torch.bmm(a, b.transpose(1, 2), out=c)

    runs: dict[str, Run] = {name: partial(library, name) for name in LIBRARIES[: 2 if N else 1]}
    for name, kernel, how in candidates(folder, problem):
        if not N:
            runs[name] = partial(kernel, stream=stream, A=a[0], x=b[0, 0], y=c[0, :, 0])
        elif "slices" in how:
            s = how["slices"]
            x, y = a.view(L, M, s, K // s), b.view(L, N, s, K // s)
            runs[name] = partial(kernel, stream=stream, A=x, B=y, C=c)
        elif how["L"]:
            runs[name] = partial(kernel, stream=stream, A=a, B=b, C=c)
        else:
            runs[name] = partial(kernel, stream=stream, A=a[0], B=b[0], C=c[0])
    rows = torch.randint(0, M, (ROWS,), device="cuda")
    wanted = a[:, rows].double() @ b.double().transpose(1, 2)
    size = a[:, rows].abs().double() @ b.abs().double().transpose(1, 2)
    # tf32 rounds both factors by 2**-11, products of 16-bit numbers are exact; sums lose 2**-23 a
    # term, and a result of 16 bits is rounded once more.
    limit = size * ((problem.dtype == "f32") * 2.0**-10 * 1.001 + K * 2.0**-23)
    limit += wanted.abs() * HALF_BIT.get(problem.dtype, 0.0) * 1.001 + 2.0**-24

    def right(name: str) -> bool:
        c.fill_(float("nan"))
        runs[name]()
        return bool(((c[:, rows].double() - wanted).abs() <= limit).all())

    return runs, right


def measured(runs: Mapping[str, Run], count: int) -> dict[str, list[float]]:
    """Seconds of each run, in a shuffled order."""
    import torch

    flush = torch.empty(128 << 20, dtype=torch.uint8, device="cuda")
    times: dict[str, list[float]] = {name: [] for name in runs}
    order = list(runs)
    for _ in range(count):
        random.shuffle(order)
        for name in order:
            flush.zero_()
            torch.cuda._sleep(1_000_000)  # the launch is enqueued before the clock starts
            start, end = (torch.cuda.Event(enable_timing=True) for _ in range(2))
            start.record()
            runs[name]()
            end.record()
            end.synchronize()
            times[name].append(start.elapsed_time(end) / 1e3)
    return times


def middle(times: Sequence[float]) -> float:
    """The mean of the middle half."""
    quarter = len(times) // 4
    half = sorted(times)[quarter : len(times) - quarter]
    return sum(half) / len(half)


def summed_up(times: Mapping[str, Sequence[float]]) -> dict[str, dict[str, float]]:
    """Returns the time of each run, and the middle half's width relative to it."""
    return {
        name: {
            "seconds": middle(each),
            "spread": (sorted(each)[len(each) * 3 // 4] - sorted(each)[len(each) // 4])
            / middle(each),
        }
        for name, each in times.items()
    }


def timed(folder: Path, problem: Problem, runs: int, far: float) -> dict[str, Any]:
    """Everything about one size: seconds, spread, and what was wrong."""
    import torch

    ways, right = runs_of(folder, problem)
    wrong = [name for name in ways if not right(name)]
    ways = {name: run for name, run in ways.items() if name not in wrong}
    first = {name: min(times) for name, times in measured(ways, PROBES).items()}
    least = min(first.values())
    ours = min(first.keys() - LIBRARIES, key=lambda name: first[name])
    kept = {n: r for n, r in ways.items() if n in (*LIBRARIES, ours) or first[n] <= far * least}
    times = summed_up(measured(kept, runs))
    call = called(problem, torch.cuda.get_device_name())
    alone = {n: r for n, r in ways.items() if n in (*LIBRARIES, call)}
    beside = call in alone and problem.panel != TRAINING
    asked = ["nvidia-smi", "--query-gpu=clocks.sm,power.draw", "--format=csv,noheader"]
    clock = subprocess.run(asked, capture_output=True, text=True, check=False).stdout.strip()
    return {
        **asdict(problem),
        "device": torch.cuda.get_device_name(),
        "torch": torch.__version__,
        "cuda": torch.version.cuda,
        "clock, power": clock,
        "runs": runs,
        "wrong": wrong,
        "times": times,
        "alone": summed_up(measured(alone, runs)) if beside else {},
        "far": {name: s for name, s in first.items() if name not in kept},
    }


# --- what is written ------------------------------------------------------------------------


def best(times: Mapping[str, Mapping[str, float]]) -> str:
    """The fastest of ours."""
    ours = {name: one["seconds"] for name, one in times.items() if name not in LIBRARIES}
    return min(ours, key=lambda name: ours[name])


def called(problem: Problem, gpu: str) -> str:
    """The kernel that `exogpu.kernels.gemm` or `gemv` takes on that GPU; nothing where the solvers
    are not installed, which the calls need to prove what does not ship proved."""
    sys.path.insert(0, str(ROOT))
    try:
        from exogpu.kernels.gemm_calls import of_vector
        from exogpu.kernels.select import Product, fastest
    except ImportError:
        return ""
    if not problem.N:
        return of_vector(problem.M, problem.K)
    product = Product(problem.L, problem.M, problem.N, problem.K, problem.dtype)
    choice = fastest(product, gpu)
    return f"{choice.name} / {choice.slices}" if choice.slices else choice.name


def table(results: Sequence[Mapping[str, Any]]) -> list[dict[str, Any]]:
    """A row a size: rates of the libraries and of the best kernel, its ratio, and the call's."""
    rows = []
    for one in results:
        problem = Problem(**key(one))
        times, unit = one["times"], 1e12
        rate = {name: problem.work / t["seconds"] / unit for name, t in times.items()}
        name, chosen = best(times), called(problem, one["device"])
        call = times[chosen]["seconds"] if chosen in times else one["far"].get(chosen)
        among = times["cuBLAS"]["seconds"] / call if call else 0.0
        alone = one.get("alone", {})
        ratio = alone["cuBLAS"]["seconds"] / alone[chosen]["seconds"] if chosen in alone else among
        rows.append(
            {
                "panel": problem.panel,
                "size": str(problem),
                "unit": "TFLOPS" if problem.N else "TB/s",
                "cuBLAS": round(rate["cuBLAS"], 3),
                "cuBLASLt": round(rate["cuBLASLt"], 3) if "cuBLASLt" in rate else "",
                "ours": round(rate[name], 3),
                "ratio": round(rate[name] / rate["cuBLAS"], 3),
                "kernel": name,
                "call": round(ratio, 3) if call else "",
                "among": round(among, 3) if call else "",
                "chosen": chosen,
                "spread": round(times[name]["spread"], 3),
            }
        )
    return rows


def means(rows: Sequence[Mapping[str, Any]]) -> dict[str, float]:
    """The geometric mean of the ratios of each panel, of the call."""
    ratios: dict[str, list[float]] = {}
    for row in rows:
        ratios.setdefault(row["panel"], []).append(log(row["call"] or row["ratio"]))
    return {panel: round(exp(sum(each) / len(each)), 3) for panel, each in ratios.items()}


def write(folder: Path, target: Path) -> None:
    """The results as JSON, CSV, and plots where matplotlib is installed."""
    results = read(folder)
    rows = table(results)
    target.with_suffix(".json").write_text(json.dumps(results, indent=1) + "\n")
    with target.with_suffix(".csv").open("w", newline="") as file:
        writer = csv.DictWriter(file, rows[0], lineterminator="\n")
        writer.writeheader()
        writer.writerows(rows)
    plot(rows, target.with_suffix(".svg"))
    page = target.with_name("performance.md")
    page.write_text(page.read_text().partition(MARK)[0] + MARK + "\n\n" + words(results, rows))
    print(*(f"{panel}: {mean}" for panel, mean in means(rows).items()), sep="\n")


def words(results: Sequence[Mapping[str, Any]], rows: Sequence[Mapping[str, Any]]) -> str:
    """The tables of the page."""
    one = results[0]
    lines = [
        f"{one['device']}, torch {one['torch']}, CUDA {one['cuda']}, {one['runs']} runs a size.",
        "Best is the fastest of our kernels; the call is `gemm` or `gemv`, in turns with the",
        "libraries alone, and among all kernels.  Ratios are to cuBLAS.",
    ]
    for panel, mean in means(rows).items():
        lines += [
            "",
            f"| {panel} | cuBLAS | best | its ratio | the call's | among all | which |",
            "| --- | --- | --- | --- | --- | --- | --- |",
        ]
        lines += [
            f"| {row['size']} | {row['cuBLAS']} {row['unit']} | {row['ours']} | {row['ratio']} "
            f"| {row['call']} | {row['among']} | {row['chosen']} |"
            for row in rows
            if row["panel"] == panel
        ]
        lines.append(f"| geometric mean | | | | {mean} | | |")
    return "\n".join(lines) + "\n"


def plot(rows: Sequence[Mapping[str, Any]], file: Path) -> None:
    """Rates above, ratios below, a column a panel."""
    try:
        from matplotlib import pyplot
    except ImportError:
        print("no plots: install matplotlib", file=sys.stderr)
        return
    panels = list(dict.fromkeys(row["panel"] for row in rows))
    figure, axes = pyplot.subplots(2, len(panels), figsize=(4 * len(panels), 6), squeeze=False)
    for above, below, panel in zip(*axes, panels, strict=True):
        here = [row for row in rows if row["panel"] == panel]
        sizes = [row["size"] for row in here]
        for name, mark in (("cuBLAS", "s"), ("cuBLASLt", "x"), ("ours", "o")):
            known = [(s, row[name]) for s, row in zip(sizes, here, strict=True) if row[name] != ""]
            if known:
                above.plot(*zip(*known, strict=True), marker=mark, label=name)
        above.set(title=panel, ylabel=here[0]["unit"], ylim=(0, None))
        above.legend()
        below.axhline(1.0, color="grey")
        below.plot(sizes, [row["ratio"] for row in here], "x", color="C1", label="best kernel")
        below.plot(
            sizes, [row["call"] or row["ratio"] for row in here], "o-", color="C2", label="the call"
        )
        below.legend()
        below.set(ylabel="ours / cuBLAS", ylim=(0, None))
        for axis in (above, below):
            axis.tick_params(axis="x", rotation=30)
    figure.tight_layout()
    figure.savefig(file)


def read(folder: Path) -> list[dict[str, Any]]:
    """Reads the measurements, in the order of the panels."""
    file = folder / "results.jsonl"
    lines = file.read_text().splitlines() if file.exists() else []
    known = {Problem(**key(one)): one for one in map(json.loads, lines)}
    return [known[p] for p in dict.fromkeys((*problems(), *known)) if p in known]


def key(result: Mapping[str, Any]) -> dict[str, Any]:
    """Returns the key that distinguishes sizes."""
    names = ("panel", "L", "M", "N", "K", "dtype")
    return {name: result[name] for name in names if name in result}


def main() -> int:
    """Measure the panels, or write what was measured."""
    parser = argparse.ArgumentParser(description=__doc__.partition("\n")[0])
    parser.add_argument("folder", type=Path, nargs="?", help="kernels, by `make gpu-emit`")
    parser.add_argument("-o", "--output", type=Path, default=Path("build/gpu-bench"))
    parser.add_argument(
        "--panels", default="", help="some of square,small,long,batched,uneven,gemv,bf16,f16"
    )
    parser.add_argument("--runs", type=int, default=RUNS)
    parser.add_argument("--far", type=float, default=FAR, help="kernels slower than so many times")
    parser.add_argument("--training", type=int, help="so many random sizes instead of the panels")
    parser.add_argument("--dtype", default="f32", help="of these: f32, bf16 or f16")
    parser.add_argument("--resume", action="store_true", help="keep what was measured")
    parser.add_argument("--write", type=Path, help="a folder of results, for docs/gpu-bench.*")
    options = parser.parse_args()
    if options.write is not None:
        write(options.write, ROOT / "docs" / "gpu-bench")
        return 0
    if options.folder is None:
        parser.error("it takes the folder of the kernels")
    from rich.progress import Progress

    sys.path.insert(0, str(ROOT))
    options.output.mkdir(parents=True, exist_ok=True)
    file = options.output / "results.jsonl"
    if not options.resume:
        file.unlink(missing_ok=True)
    wanted = options.panels.split(",") if options.panels else []
    chosen = [p for p in problems() if not wanted or p.panel in wanted]
    if options.training:
        chosen = [*training(options.training, options.dtype)]
    done = [Problem(**key(one)) for one in read(options.output)]
    failed = 0
    with Progress() as progress:
        bar = progress.add_task("sizes", total=len(chosen))
        for problem in chosen:
            progress.update(bar, description=f"{problem.panel}: {problem}")
            if problem not in done:
                result = timed(options.folder, problem, options.runs, options.far)
                failed += len(result["wrong"])
                with file.open("a") as out:
                    out.write(json.dumps(result) + "\n")
                (row,) = table([result])
                say = f"{row['panel']} {row['size']}: {row['ours']} {row['unit']}, {row['ratio']}"
                say += f" of cuBLAS, {row['kernel']}; the call {row['call']}, {row['chosen']}"
                progress.console.print(say, result["wrong"] or "", soft_wrap=True)
            progress.advance(bar)
    for panel, mean in means(table(read(options.output))).items():
        print(f"{panel}: geometric mean {mean}")
    return failed > 0


if __name__ == "__main__":
    sys.exit(main())
