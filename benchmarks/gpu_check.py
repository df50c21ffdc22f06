"""Emitted kernels on a GPU: against float64, with poisoned outputs, and repeatability.

Takes folders made by `make gpu-emit`; needs torch, and neither the solvers nor a compiler.

    python benchmarks/gpu_check.py build/gpu build/gpu/{fences,tiles} --memcheck
"""

from __future__ import annotations

import argparse
import importlib
import itertools
import json
import re
import shutil
import subprocess
import sys
import traceback
from collections.abc import Callable, Iterator
from dataclasses import dataclass
from datetime import UTC, datetime
from pathlib import Path
from types import ModuleType

import torch

ROOT = Path(__file__).resolve().parent.parent
MARK = "<!-- What follows is written by benchmarks/gpu_check.py. -->"
PAD = 1024
"""Elements around each output that a kernel must not write."""


def load_runtime() -> ModuleType:
    """The launcher, which needs neither the solvers nor an installed exogpu."""
    sys.path.insert(0, str(ROOT))
    return importlib.import_module("exogpu.codegen.runtime")


def shapes_of(names: tuple[str, ...]) -> Iterator[dict[str, int]]:
    """Even, uneven, tiny and larger sizes for a kernel with these control parameters."""
    match names:
        case ():
            yield {}
        case ("M", "K"):
            for m, k in itertools.product(
                (1, 3, 31, 32, 33, 257, 1000, 4096), (4, 28, 32, 36, 1000, 4096)
            ):
                yield {"M": m, "K": k}
        case ("M", "N", "K"):
            for m, n, k in itertools.product(
                (1, 63, 64, 65, 200, 512), (1, 64, 127, 384), (4, 12, 16, 20, 100, 512)
            ):
                yield {"M": m, "N": n, "K": k}
            yield {"M": 2000, "N": 1999, "K": 2048}
        case ("L", "M", "N", "cluster_K"):
            for batch, m, n, k in itertools.product(
                (1, 3),
                (1, 127, 256, 300, 1024),
                (1, 4, 250, 512, 769),
                (4, 28, 32, 36, 128, 132, 520),
            ):
                yield {"L": batch, "M": m, "N": n, "cluster_K": k}
            yield {"L": 2, "M": 4096, "N": 3072, "cluster_K": 1024}
            yield {"L": 1, "M": 2000, "N": 1999, "cluster_K": 4096}
        case ("L", "M", "N", "K_split", "cluster_K"):
            for batch, m, n, s, k in itertools.product(
                (1, 2), (1, 127, 300, 1024), (4, 252, 512), (1, 3), (4, 32, 36, 128, 132, 520)
            ):
                yield {"L": batch, "M": m, "N": n, "K_split": s, "cluster_K": k}
            yield {"L": 1, "M": 512, "N": 512, "K_split": 16, "cluster_K": 4096}
        case ("L", "M", "N", "cluster_K", "scales"):
            for batch, m, n, k in itertools.product(
                (1, 3), (1, 127, 256, 300), (1, 4, 250, 512), (4, 28, 32, 36, 128, 520)
            ):
                yield {"L": batch, "M": m, "N": n, "cluster_K": k, "scales": m + -m % 4}
            yield {"L": 1, "M": 2000, "N": 1999, "cluster_K": 2048, "scales": 2004}
        case ("H", "S"):
            for heads, s in itertools.product(
                (1, 2, 5),
                (1, 7, *range(8, 144, 8), *range(192, 576, 64), *range(1000, 1256, 32), 1999, 3064),
            ):
                yield {"H": heads, "S": s}
            yield {"H": 1, "S": 8192}
        case _:
            return  # sequences and groups have scripts of their own


DTYPES = {
    "f32": torch.float32,
    "f16": torch.float16,
    "bf16": torch.bfloat16,
    "f8e4m3": torch.float8_e4m3fn,
    "f8e5m2": torch.float8_e5m2,
}
ROUNDED = {torch.float32: 0.0, torch.float16: 2.0**-11, torch.bfloat16: 2.0**-8}
"""By how much a result is rounded at the end, relative to it; f16 by 2**-25 at least."""


def inputs(kind: str, shape: tuple[int, ...], dtype: torch.dtype) -> torch.Tensor:
    """Small integers, whose products and sums are exact in f32 and tf32, or normal numbers."""
    if kind == "integers":
        return torch.randint(-3, 4, shape, device="cuda").float().to(dtype)
    return torch.randn(shape, device="cuda").to(dtype)


def reference(arrays: dict[str, torch.Tensor]) -> torch.Tensor:
    """The product in float64."""
    a = arrays["A"].double()
    if "x" in arrays:
        return a @ arrays["x"].double()
    b = arrays["BT"].double().T if "BT" in arrays else arrays["B"].double()
    match a.dim():
        case 2:
            return a @ b.T
        case 3 if "A_scale" in arrays:
            k = torch.arange(a.shape[-1], device="cuda") // 128
            n = torch.arange(b.shape[1], device="cuda") // 128
            a = a * arrays["A_scale"].double()[:, k, : a.shape[1]].mT
            b = b * arrays["B_scale"].double()[:, n][:, :, k]
            return torch.einsum("lmk,lnk->lmn", a, b)
        case 3:
            product = torch.einsum("lmk,lnk->lmn", a, b)
            if "scale" in arrays:
                product = product * arrays["scale"].double()
            return torch.relu(product + arrays["bias"].double()) if "bias" in arrays else product
        case _:
            return torch.einsum("lmsk,lnsk->lmn", a, b)


CAUSAL = "causal"
"""In the names of kernels that mask keys after the row."""


def attention(arrays: dict[str, torch.Tensor], causal: bool) -> dict[str, Wanted]:
    """The weighted values and the logarithms of the rows' sums, in float64.

    Weights and results are rounded to bf16, 2**-9 of each; exponentials err by 2**-22 and what
    the argument does, sums of products by 2**-23 a term.  Weights of f16 have no less than 2**-24.
    """
    q, k, v = (arrays[name].double() for name in "QKV")
    group, (_, s, d) = q.shape[0] // k.shape[0], k.shape
    out, size, sums = [], [], []
    least = 2.0**-24 if arrays["V"].dtype == torch.float16 else 0.0
    mask = torch.ones((s, s), dtype=torch.bool, device="cuda").tril() if causal else None
    for head in range(q.shape[0]):  # one at a time: of all there are too many scores
        scores = q[head] @ k[head // group].T / d**0.5
        if mask is not None:
            scores.masked_fill_(~mask, float("-inf"))
        weights = scores.softmax(dim=-1)
        out.append(weights @ v[head // group])
        size.append(2.0**-7 * (weights @ v[head // group].abs()))
        size[-1] += least * (1 + v[head // group].abs().sum(dim=0))
        sums.append(scores.logsumexp(dim=-1))
    y, most, lse = torch.stack(out), torch.stack(size), torch.stack(sums)
    return {"Y": Wanted(y, most), "L": Wanted(lse, 2.0**-16 * (16 + lse.abs()))}


@dataclass(frozen=True)
class Wanted:
    """The expected output, and its tolerance."""

    value: torch.Tensor
    limit: torch.Tensor


def cuts(manifest: dict) -> bool:
    """Tests whether the tensor cores cut f32, which no tensor map has rounded to tf32."""
    arguments = [a for step in manifest["steps"] for a in step.get("arguments", ())]
    maps = [a for a in arguments if isinstance(a, dict) and a["tensor"] in ("A", "B")]
    return not all(a.get("tf32") for a in maps)


def wanted(
    arrays: dict[str, torch.Tensor], outputs: tuple[str, ...], manifest: dict, terms: int, kind: str
) -> dict[str, Wanted]:
    """Returns a kernel's expected output: of a product, tf32 has 10 explicit bits: rounded operands
    err by 2**-11 each, relative to each product, those that are cut by twice as much; sums of f32
    by 2**-23 a term, truncated as tensor cores do. Results of 16 bits are rounded once: whole
    numbers are the nearest of their type."""
    if "V" in arrays:
        return attention(arrays, CAUSAL in manifest["name"])
    (output,) = outputs
    value, dtype = reference(arrays), arrays[output].dtype
    if kind == "integers":
        return {output: Wanted(value.to(dtype).double(), torch.zeros_like(value))}
    magnitude = reference({n: x.double().abs() for n, x in arrays.items() if n != output})
    f32 = arrays["A"].dtype == torch.float32
    tf32 = f32 * 2.0**-10 * (1 + cuts(manifest)) * 1.001
    if arrays["A"].dtype.itemsize == 1:
        tf32 = 2.0**-8  # tensor cores keep some 14 bits of such sums
    limit = magnitude * (tf32 + terms * 2.0**-23) * 1.001 + value.abs() * ROUNDED[dtype] * 1.001
    return {output: Wanted(value, limit + (2.0**-25 if dtype == torch.float16 else 0.0))}


class Case:
    """A kernel's arrays at one size; each output lies between guards."""

    def __init__(
        self, runtime: ModuleType, manifest: dict, sizes: dict[str, int], kind: str
    ) -> None:
        data = [p for p in manifest["parameters"] if p["kind"] == "data"]
        names = tuple(p["name"] for p in data)
        self.outputs = ("Y", "L") if "V" in names else names[-1:]
        self.arrays: dict[str, torch.Tensor] = {}
        self.whole: dict[str, torch.Tensor] = {}
        for p in data:
            shape = tuple(runtime.evaluate(e, sizes) for e in p["shape"])
            dtype = DTYPES[p["dtype"]]
            if p["name"] in self.outputs:
                count = torch.Size(shape).numel()
                whole = torch.empty(count + 2 * PAD, device="cuda", dtype=dtype)
                self.whole[p["name"]] = whole
                self.arrays[p["name"]] = whole[PAD : PAD + count].view(shape)
            else:
                self.arrays[p["name"]] = inputs(kind, shape, dtype)

    def poison(self) -> None:
        for whole in self.whole.values():
            whole.fill_(float("nan"))

    def intact(self) -> bool:
        ends = (end for whole in self.whole.values() for end in (whole[:PAD], whole[-PAD:]))
        return all(bool(end.isnan().all()) for end in ends)


def check(
    runtime: ModuleType, kernel: Callable, manifest: dict, sizes: dict[str, int]
) -> list[str]:
    """Returns the faults at one size; empty if there are none."""
    wrong = []
    k_total = 1
    for name in ("K", "K_split", "cluster_K"):
        k_total *= sizes.get(name, 1)
    stream = torch.cuda.current_stream().cuda_stream
    for kind in ("integers", "normal"):
        case = Case(runtime, manifest, sizes, kind)
        case.poison()
        kernel(stream=stream, **case.arrays)
        torch.cuda.synchronize()
        columns = case.arrays["A"].shape[-1] if "A" in case.arrays else 1
        asked = wanted(case.arrays, case.outputs, manifest, max(k_total, columns), kind)
        for name, want in asked.items():
            out = case.arrays[name]
            error = (out.double() - want.value).abs()
            worst = float(error.max()) if not out.isnan().any() else float("nan")
            if not bool((error <= want.limit).all()):
                bad = (~(error <= want.limit)).nonzero()
                at = tuple(bad[0].tolist())
                wrong.append(
                    f"{kind}: error {worst:.3e} of {name}, too large at {len(bad)} of "
                    f"{error.numel()} elements, first {at}: {float(out[at])} for "
                    f"{float(want.value[at])}"
                )
        if not case.intact():
            wrong.append(f"{kind}: wrote outside of the output")
    return wrong


def repeat(runtime: ModuleType, kernel: Callable, manifest: dict, sizes: dict[str, int]) -> str:
    """Tests whether ten runs give the same bits, and measures the relative error."""
    case = Case(runtime, manifest, sizes, "normal")
    out, results = case.arrays[case.outputs[0]], []
    stream = torch.cuda.current_stream().cuda_stream
    for _ in range(10):
        case.poison()
        kernel(stream=stream, **case.arrays)
        results.append(out.clone())
    same = all(torch.equal(results[0], r) for r in results)
    asked = wanted(case.arrays, case.outputs, manifest, 1, "normal")
    want = asked[case.outputs[0]].value
    error = float((out.double() - want).norm() / want.norm())
    return f"ten runs {'identical' if same else 'DIFFER'}, relative error {error:.2e}"


def quick(names: tuple[str, ...]) -> Iterator[dict[str, int]]:
    """Two of the sizes, uneven ones: for the memory checker, which is slow."""
    if not names:
        yield {}
        return
    for small in (36, 132):
        known = {"M": 300, "N": 300, "L": 2, "scales": 300, "K_split": 2, "H": 2, "S": 8 * small}
        yield {n: known.get(n, small) for n in names}


def memcheck(folders: list[Path], only: str) -> str:
    """Runs compute-sanitizer on the quick sizes, in a process of its own, and returns its
    report."""
    tool = shutil.which("compute-sanitizer")
    if tool is None:
        return "not run: there is no compute-sanitizer on this machine"
    command = [tool, "--tool", "memcheck", "--error-exitcode", "9", sys.executable, __file__]
    command += [*map(str, folders), "--quick", "--only", only]
    done = subprocess.run(command, capture_output=True, text=True, check=False)
    output = (done.stdout + done.stderr).strip().splitlines()
    summary = [line.strip("= ") for line in output if "ERROR SUMMARY" in line]
    if any("Device not supported" in line for line in output):
        return "not run: compute-sanitizer does not support this device's driver"
    if done.returncode:
        print(*output[-40:], sep="\n", flush=True)
    count = sum("sizes right" in line for line in output)
    return f"{summary[-1] if summary else 'no summary'}, {count} kernels, status {done.returncode}"


@dataclass(frozen=True)
class Checked:
    """A kernel, and how many of its sizes were right."""

    name: str
    right: int
    sizes: int
    repeated: str

    @property
    def row(self) -> str:
        return f"| {self.name} | {self.right} of {self.sizes} | {self.repeated} |"


def admitted(runtime: ModuleType, manifest: dict, sizes: dict[str, int]) -> dict[str, int]:
    """The sizes, with N as large as the kernel's preconditions ask: whole pieces of 16 bytes."""
    for more in range(8):
        found = sizes | {n: size + more for n, size in sizes.items() if n == "N"}
        if all(runtime.evaluate(condition, found) for condition in manifest["preconditions"]):
            return found
    return sizes


def check_kernel(runtime: ModuleType, path: Path, is_quick: bool) -> Checked:
    """Run a kernel at all its sizes, or the quick ones, and ten times at the last."""
    manifest = json.loads(path.read_text())
    kernel = runtime.Kernel.from_folder(path.parent, path.stem)
    names = tuple(p["name"] for p in manifest["parameters"] if p["kind"] != "data")
    sizes_of = {"f16": 2, "bf16": 2, "f8e4m3": 1, "f8e5m2": 1}
    least = min(sizes_of.get(p.get("dtype"), 4) for p in manifest["parameters"])
    right = count = 0
    for sizes in quick(names) if is_quick else shapes_of(names):
        many = 4 // least  # rows of 16 bytes have as many times more
        sizes = sizes | {n: many * k for n, k in sizes.items() if n in ("K", "cluster_K")}
        sizes = admitted(runtime, manifest, sizes)
        wrong = check(runtime, kernel, manifest, sizes)
        count += 1
        right += not wrong
        if wrong and count - right <= 8:
            print(f"  {path.stem} {sizes}: {'; '.join(wrong)}", flush=True)
    repeated = "" if is_quick else repeat(runtime, kernel, manifest, sizes)
    print(f"{path.stem}: {right} of {count} sizes right; {repeated}", flush=True)
    return Checked(path.stem, right, count, repeated)


def write(file: Path, report: str) -> None:
    """The report, below the file's mark where it has one."""
    kept, mark, _ = file.read_text().partition(MARK) if file.exists() else ("", "", "")
    file.write_text(f"{kept}{mark}\n\n{report}" if mark else report)


def main() -> int:
    """Check every kernel of the folders; then memory and the report, as asked for."""
    parser = argparse.ArgumentParser()
    parser.add_argument("folders", type=Path, nargs="+")
    parser.add_argument("--only", default="", help="a regular expression on kernel names")
    parser.add_argument("--quick", action="store_true", help="two sizes a kernel")
    parser.add_argument("--memcheck", action="store_true", help="compute-sanitizer too")
    parser.add_argument("--write", type=Path, help="a file for the report")
    options = parser.parse_args()
    runtime = load_runtime()
    device = f"{torch.cuda.get_device_name()}, torch {torch.__version__}"
    print(device, flush=True)
    rows: list[Checked] = []
    failed = 0
    for path in (p for folder in options.folders for p in sorted(folder.glob("*.json"))):
        manifest = json.loads(path.read_text())
        steps, names = manifest["steps"], {p["name"] for p in manifest["parameters"]}
        if not names & {"A", "Q"} or "gemm_fused" in path.stem:
            continue  # kernels of rows and tiles are checked by gpu_rows.py, these by gpu_fused.py
        if not re.search(options.only, path.stem) or all(s["op"] != "launch" for s in steps):
            continue  # loops on the CPU are run by their C functions
        sizes = tuple(p["name"] for p in manifest["parameters"] if p["kind"] != "data")
        if next(shapes_of(sizes), None) is None:
            print(f"{path.stem}: not checked here", flush=True)
            continue
        try:
            rows.append(check_kernel(runtime, path, options.quick))
            failed += rows[-1].right < rows[-1].sizes
        except Exception:
            traceback.print_exc()
            print(f"{path.stem}: stopped", flush=True)
            failed += 1
            if "CUDA error" in traceback.format_exc():
                return 1  # the context is lost
    memory = memcheck(options.folders, options.only) if options.memcheck else "not asked for"
    print(f"memcheck: {memory}", flush=True)
    if options.write is not None:
        today = datetime.now(tz=UTC).date()
        head = f"Last run: {today}, {device}.  compute-sanitizer memcheck: {memory}."
        report = ["| kernel | sizes right | ten runs, relative error |", "| --- | --- | --- |"]
        report += [row.row for row in rows]
        write(options.write, "\n".join([head, "", *report]) + "\n")
    return failed > 0


if __name__ == "__main__":
    sys.exit(main())
