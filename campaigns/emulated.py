"""Random programs of the whole language on the emulator, against their meaning: needs no GPU.

    python -m campaigns.emulated [--programs 500] [--seed 0] [--jobs N] [--resume] [--write]
                                 [--only reach|SHAPE]
    python -m campaigns.emulated --show [SHAPE_]SEED

The programs are those of `campaigns.gpu_fuzz`, or of `campaigns.reach`.  Each one that is proved is
emitted, translated for the emulator (`campaigns/emulator`) and run at its sizes, in several orders,
with all clusters and with one.  A wrong value, a hang, or an access of what is over is a failure.
`--write` writes its part of docs/campaigns.md, `emulated` or `emulated-reach`, at the end of a
whole run.
"""

from __future__ import annotations

import argparse
import atexit
import sys
import tempfile
from collections import Counter
from collections.abc import Mapping
from datetime import date
from functools import cache
from pathlib import Path
from typing import Any, Final

import numpy as np

from campaigns import cases
from campaigns.emulator.launch import Emulated, EmulatedError
from campaigns.emulator.orders import ORDERS
from campaigns.emulator.translate import UnknownError
from campaigns.gpu.emitting import INEXACT, procedure_of
from campaigns.gpu.programs import Program
from campaigns.named import names, program_of
from campaigns.reach import generate as reach
from exogpu.api import Procedure
from exogpu.diagnostics.errors import ExoGpuError
from exogpu.gpu_trial.run_data import at_sizes, difference

SECONDS: Final = 40.0
"""For the check of one program."""

FAILURES: Final = ("wrong", "died", "crash")
"""States that are mistakes of ours."""


@cache
def _folder() -> Path:
    """Returns the folder where this process stores compiled files: the emulator's header once."""
    kept = tempfile.TemporaryDirectory()
    atexit.register(kept.cleanup)
    return Path(kept.name)


def judge(case: str) -> Mapping[str, Any]:
    """Judges a program."""
    program = program_of(case)
    try:
        procedure = procedure_of(program, _folder())
        verdict = procedure.check(timeout=SECONDS)
        if verdict.word != "proved":
            codes = [d.code for d in verdict.diagnostics]
            return {"state": verdict.word, "what": verdict.reason or " ".join(codes)}
        emitted, manifest = procedure.emit()
        kernel = Emulated(emitted.source, manifest, _folder())
        return run(kernel, procedure, program)
    except ExoGpuError as error:
        return {"state": "no lowering", "what": error.diagnostics[0].message}
    except UnknownError as error:
        return {"state": "not emulated", "what": str(error)[:600]}
    except Exception as error:
        return {"state": "crash", "what": f"{type(error).__name__}: {error}"}


def run(kernel: Emulated, procedure: Procedure, program: Program) -> Mapping[str, Any]:
    """Every order at every size."""
    runs, parameters = 0, kernel.manifest["parameters"]
    types = {p["name"]: p["dtype"] for p in parameters if p["kind"] == "data"}
    tolerance = INEXACT if "exp" in program.features else 0.0
    for number, sizes in enumerate(program.sizes):
        data = at_sizes(procedure, sizes, number)
        for order in ORDERS:
            runs += 1
            arrays = {name: np.array(array) for name, array in data.given.items()}
            try:
                kernel(arrays, sizes, order)
            except EmulatedError as error:
                return {"state": "wrong", "what": f"{error} at {dict(sizes)}, order {order}"}
            for name, wanted in data.wanted.items():
                if what := difference(arrays[name], wanted, types[name], tolerance):
                    what = f"{name}: {what} at {dict(sizes)}, order {order}"
                    return {"state": "wrong", "what": what}
    return {"state": "right", "runs": runs, "features": sorted(program.features)}


def page(results: Mapping[str, Mapping[str, Any]], seed: int, only: str | None) -> str:
    """Its part of docs/campaigns.md: `emulated`, or of `--only reach` `emulated-reach`."""
    chosen = f" --only {only}" if only else ""
    states = Counter(result.get("state", "died") for result in results.values())
    runs = sum(result.get("runs", 0) for result in results.values())
    right = [r for r in results.values() if r.get("state") == "right"]
    features = Counter(f for r in right for f in r["features"])
    wrong = sum(states[state] for state in FAILURES)
    lines = [
        "# Emitted kernels on the emulator" + (": what came after rings" if only else ""),
        "",
        f"{len(results):,} random programs from seed {seed}, {date.today()}: {states['right']:,} "
        f"proved ones were emitted and emulated in {runs:,} runs, {wrong} of them wrong.  Made by "
        f"`python -m campaigns.emulated{chosen} --write`.",
        "",
        "The emulator (`campaigns/emulator`) runs the emitted CUDA C++ with every thread a fiber "
        "that others may overtake between any two synchronisations, and copies and matrix "
        "products as late as they may be; proxies and weak memory it does not model.",
        "",
        "| state | programs |",
        "| --- | --- |",
        *(f"| {state} | {count:,} |" for state, count in states.most_common()),
        "",
        "| feature | programs that were right |",
        "| --- | --- |",
        *(f"| {feature} | {count:,} |" for feature, count in sorted(features.items())),
    ]
    return "\n".join(lines) + "\n"


def main() -> int:
    parser = argparse.ArgumentParser(
        description=__doc__, formatter_class=argparse.RawTextHelpFormatter
    )
    parser.add_argument("--programs", type=int, default=500, metavar="N")
    parser.add_argument("--seed", type=int, default=0, metavar="S", help="of the first program")
    parser.add_argument("--show", metavar="[SHAPE_]SEED", help="one program and its result")
    parser.add_argument(
        "--only",
        choices=["reach", *reach.SHAPES],
        metavar="SHAPE",
        help="the shapes of campaigns.reach, or one of them",
    )
    parser.add_argument("--write", action="store_true", help="write its part of docs/campaigns.md")
    cases.add_arguments(parser)
    options = parser.parse_args()
    if options.show is not None:
        print(program_of(options.show).source)
        print(judge(options.show))
        return 0
    if options.write and options.only not in (None, "reach"):
        parser.error("--write wants all shapes")
    named = names(options.programs, options.seed, options.only)
    name = f"emulated-{options.only}" if options.only else "emulated"
    results = cases.judge_all(name, named, judge, cases.options(options))
    failures = {c: r for c, r in results.items() if r.get("state", "died") in FAILURES}
    for case, result in failures.items():
        print(f"{case}: {result.get('state', 'died')}: {result.get('what', result)}")
    for state, count in Counter(r.get("state", "died") for r in results.values()).most_common():
        print(f"{count:6} {state}")
    if options.write:
        made = page(results, options.seed, options.only)
        cases.write_section(name, made)
    return 1 if failures else 0


if __name__ == "__main__":
    sys.exit(main())
