"""Compares every function of data, on every type, with its meaning on numpy.

    python benchmarks/gpu_scalars.py build/scalars --compile   # needs a compiler, and no GPU
    python benchmarks/gpu_scalars.py build/scalars             # on a GPU; needs numpy alone
    python benchmarks/gpu_scalars.py build/scalars --host      # instead of a GPU, by g++

All bit patterns of 8 and 16 bits, all pairs of 8 bits, and a million random ones of the others.
What is exact has to agree bit for bit, NaN aside; what is not has to be within the error that
`exogpu.ir.scalar_functions` states.  The greatest error is printed beside it.
"""

from __future__ import annotations

import argparse
import subprocess
import sys
from collections.abc import Callable, Mapping
from pathlib import Path
from typing import TYPE_CHECKING, Any, Final, TypeAlias

ROOT: Final = Path(__file__).resolve().parent.parent
sys.path.insert(0, str(ROOT))

import numpy as np  # noqa: E402

from benchmarks import scalar_cases  # noqa: E402
from exogpu.interpreter.values import NUMPY  # noqa: E402
from exogpu.ir.scalar_functions import EXACT, error_of  # noqa: E402
from exogpu.ir.scalars import COMPUTES  # noqa: E402
from exogpu.ir.types import FLOATS, DataType  # noqa: E402

if TYPE_CHECKING:
    from exogpu.api import Procedure

Arrays: TypeAlias = dict[str, np.ndarray[Any, Any]]
Run: TypeAlias = Callable[[scalar_cases.Group, Arrays], None]

CHUNK: Final = 1 << 18
"""Elements of a launch."""


def write(folder: Path) -> Path:
    """Write the kernels' file."""
    folder.mkdir(parents=True, exist_ok=True)
    path = folder / "scalar_kernels.py"
    path.write_text(scalar_cases.sources(scalar_cases.groups()))
    return path


def compile_all(folder: Path) -> int:
    """Prove and compile the kernels."""
    command = [sys.executable, "-m", "exogpu", "compile", str(write(folder)), "-o", str(folder)]
    return subprocess.run([*command, "--cubin"], cwd=ROOT, check=False).returncode


def on_the_gpu(folder: Path) -> Run:
    """Launches of what was compiled."""
    from exogpu.codegen.runtime import Kernel

    def run(group: scalar_cases.Group, arrays: Arrays) -> None:
        given = {name: as_passed(array, type_of(name, group)) for name, array in arrays.items()}
        Kernel.from_folder(folder, group.name)(**given)

    return run


def type_of(name: str, group: scalar_cases.Group) -> DataType:
    """The type of an array of a kernel."""
    return group.inputs[name] if name in group.inputs else DataType(name.removeprefix("o_"))


def as_passed(bits: np.ndarray[Any, Any], dtype: DataType) -> np.ndarray[Any, Any]:
    """The bits as an array that a launch takes: bf16 and floats of 8 bits are theirs."""
    return bits if NUMPY[dtype].itemsize != dtype.bytes else bits.view(NUMPY[dtype])


def kernels(folder: Path) -> Mapping[str, Procedure]:
    """The kernels by name."""
    import importlib.util

    spec = importlib.util.spec_from_file_location("scalar_kernels", write(folder))
    assert spec is not None and spec.loader is not None
    module = importlib.util.module_from_spec(spec)
    spec.loader.exec_module(module)
    return {group.name: vars(module)[group.name] for group in scalar_cases.groups()}


def on_the_host(folder: Path) -> Run:
    """Runs of the emitted text by the emulator."""
    from campaigns.emulator.launch import Emulated
    from campaigns.emulator.orders import Order

    every = kernels(folder)

    def run(group: scalar_cases.Group, arrays: Arrays) -> None:
        made, manifest = every[group.name].emit(unchecked=True)
        emulated = Emulated(made.source, manifest, folder)
        emulated(arrays, {"n_": arrays["a"].shape[0]}, Order(fickle=0.0, clusters=1))

    return run


def compare(group: scalar_cases.Group, run: Run, count: int) -> list[str]:
    """The faults of a kernel, a line each; the greatest errors are printed."""
    bits = scalar_cases.bits_of_inputs(group, count)
    faults: dict[scalar_cases.Case, str] = {}
    errors: dict[scalar_cases.Case, float] = {}
    for start in range(0, count, CHUNK):
        part = {name: array[start : start + CHUNK] for name, array in bits.items()}
        _compare(group, run, part, faults, errors)
    for case, most in errors.items():
        error = error_of(case.function, COMPUTES[case.gives])
        if error != EXACT:
            print(f"  {case.function} of {group.name}: {most:.3g} ulp, stated {error}")
    return [f"{group.name}: {case.text} {fault}" for case, fault in faults.items()]


def _compare(
    group: scalar_cases.Group,
    run: Run,
    part: Mapping[str, np.ndarray[Any, Any]],
    faults: dict[scalar_cases.Case, str],
    errors: dict[scalar_cases.Case, float],
) -> None:
    length = len(part["a"])
    arrays: Arrays = {name: bits.reshape(-1, 256).copy() for name, bits in part.items()}
    for gives, cases in group.rows().items():
        shape, kind = (len(cases), length // 256, 256), np.dtype(f"u{gives.bytes}")
        arrays[f"o_{gives.value}"] = np.full(shape, 7, kind)
    run(group, arrays)
    for gives, cases in group.rows().items():
        for case, found in zip(cases, arrays[f"o_{gives.value}"], strict=True):
            got = found.reshape(-1)
            wrong, most = scalar_cases.wrong(case, group, part, got)
            if gives in FLOATS:
                errors[case] = max(most, errors.get(case, 0.0))
            if wrong.any() and case not in faults:
                at = int(np.argmax(wrong))
                given = ", ".join(f"{n} = {int(b[at]):#x}" for n, b in part.items())
                faults[case] = f"is {int(got[at]):#x} at {given}, {int(wrong.sum())} times"


def main() -> int:
    """Compile, or run and compare."""
    parser = argparse.ArgumentParser(description=__doc__.partition("\n")[0])
    parser.add_argument("folder", type=Path)
    parser.add_argument("--compile", action="store_true")
    parser.add_argument("--host", action="store_true")
    parser.add_argument("--count", type=int, default=1 << 20)
    parser.add_argument("--only", default="")
    options = parser.parse_args()
    if options.compile:
        return compile_all(options.folder)
    run = (on_the_host if options.host else on_the_gpu)(options.folder)
    every: list[str] = []
    cases = 0
    for group in scalar_cases.groups():
        if options.only in group.name:
            small = all(dtype.bytes <= 2 for dtype in group.inputs.values())
            faults = compare(group, run, 1 << 16 if small else options.count)
            print(f"{group.name}: {len(group.cases)} cases, {len(faults)} wrong", flush=True)
            every, cases = [*every, *faults], cases + len(group.cases)
    print(*every, sep="\n", end="\n" if every else "")
    print(f"{cases} cases, {len(every)} wrong")
    return bool(every)


if __name__ == "__main__":
    raise SystemExit(main())
