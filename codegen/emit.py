"""`python -m exogpu.codegen.emit [MODULE...] -o FOLDER`: sources, cubins and manifests."""

from __future__ import annotations

import argparse
import importlib
import json
import re
import sys
from pathlib import Path
from time import perf_counter
from typing import Protocol, cast

from exogpu.analysis.facts import CollectiveFacts
from exogpu.codegen.host import Emitted, emit
from exogpu.codegen.task_order import parse_order
from exogpu.codegen.toolchain import CompileError, compile_cubin, find_toolchain
from exogpu.errors import ExoGpuError
from exogpu.ir.nodes import Proc

DEFAULT_MODULES = (
    "exogpu.kernels.gemv",
    "exogpu.kernels.gemm_sm80",
    "exogpu.kernels.gemm_sm90",
    "exogpu.kernels.gemm_splitk_sm90",
)


class _Analysed(Protocol):
    proc: Proc
    facts: CollectiveFacts


class _Procedure(Protocol):
    """A procedure of `exogpu.api`, which this package may not import."""

    name: str

    @property
    def analysed(self) -> _Analysed: ...


def procedures(module: str) -> dict[str, _Procedure]:
    """The procedures of a module, by name: in `KERNELS`, or its own variables."""
    contents = vars(importlib.import_module(module))
    found = contents.get("KERNELS") or {
        value.name: value for value in contents.values() if type(value).__name__ == "Procedure"
    }
    return cast("dict[str, _Procedure]", dict(found))


def write(emitted: Emitted, folder: Path, cubin: bytes | None) -> None:
    """`<name>.cu`, `<name>.json` and, where it was compiled, `<name>.cubin`."""
    folder.mkdir(parents=True, exist_ok=True)
    (folder / f"{emitted.name}.cu").write_text(emitted.source)
    (folder / f"{emitted.name}.json").write_text(json.dumps(emitted.manifest, indent=1) + "\n")
    if cubin is not None:
        (folder / f"{emitted.name}.cubin").write_bytes(cubin)


def main(arguments: list[str] | None = None) -> int:
    """Emit every procedure of the modules; the exit status is 1 if one could not be."""
    parser = argparse.ArgumentParser(prog="python -m exogpu.codegen.emit")
    parser.add_argument("modules", nargs="*", default=DEFAULT_MODULES)
    parser.add_argument("-o", "--output", type=Path, required=True)
    parser.add_argument("--arch", default="sm_90a")
    parser.add_argument(
        "--task-order", type=parse_order, help="lexicographic, grouped[:ROWS] or hilbert"
    )
    parser.add_argument("--only", default="", help="a regular expression on procedure names")
    options = parser.parse_args(arguments)
    toolchain = find_toolchain()
    if toolchain is None:
        print("no nvcc: sources and manifests only", file=sys.stderr)
    status = 0
    for module in options.modules:
        for name, procedure in procedures(module).items():
            if not re.search(options.only, name):
                continue
            try:
                analysed = procedure.analysed
                start = perf_counter()
                emitted = emit(analysed.proc, analysed.facts, options.arch, options.task_order)
                middle = perf_counter()
                cubin = log = None
                if toolchain is not None:
                    compiled = compile_cubin(emitted.source, options.arch, toolchain)
                    cubin, log = compiled.cubin, compiled.log
                end = perf_counter()
            except (ExoGpuError, CompileError) as error:
                print(f"{name}: {error}", file=sys.stderr)
                status = 1
                continue
            write(emitted, options.output, cubin)
            usage = re.findall(r"Used \d+ registers|\d+ bytes spill \w+", log or "")
            print(f"{name}: emitted {middle - start:.2f} s, compiled {end - middle:.2f} s", *usage)
    return status


if __name__ == "__main__":
    sys.exit(main())
