"""Seconds of the concrete check of every kernel that ships, at sizes of about 2,000.

    python benchmarks/machine_kernels.py [--only PATTERN] [--size 2048] [--seconds 60]

The seconds are of the processor, without the analyses that a definition gets once.  A kernel whose
preconditions the sizes break is told and left out.
"""

from __future__ import annotations

import argparse
import re
import signal
import sys
from pathlib import Path
from time import process_time

sys.path.insert(0, str(Path(__file__).parent.parent))

from exogpu.analysis.sizes import check_sizes
from exogpu.cli.loader import load
from exogpu.diagnostics.verdict import Policy
from exogpu.machine import fast
from exogpu.machine.concrete_program import CHOICES, dealt

SMALL = {"L": 1, "H": 1, "B": 2, "G": 2, "T": 8, "K_split": 4, "W": 16, "bins": 256, "columns": 16}
"""Sizes that count batches, groups, slices and the like; the others are of the given size."""
BAR = 3.0
"""Seconds that no kernel should take."""
ROW = 512
"""The length of a row where a kernel takes no longer ones."""


class LimitError(Exception):
    """A check has taken its seconds."""


def stop(*_: object) -> None:
    raise LimitError


def main() -> None:
    parser = argparse.ArgumentParser(description=__doc__)
    parser.add_argument("--only", default="")
    parser.add_argument("--size", type=int, default=2048)
    parser.add_argument("--seconds", type=float, default=60.0)
    options = parser.parse_args()
    signal.signal(signal.SIGVTALRM, stop)
    total, above = 0.0, list[str]()
    for unit in load("exogpu.kernels"):
        procedure = unit.procedure
        if procedure is None or procedure.ir is None or not re.search(options.only, unit.name):
            continue
        sizes = {name: SMALL.get(name, options.size) for name in procedure.size_names}
        if check_sizes(procedure.ir, sizes) and "N" in sizes:
            sizes["N"] = ROW
        if wrong := check_sizes(procedure.ir, sizes):
            print(f"{unit.name}: left out, {wrong[0].message}")
            continue
        program = procedure.amir(Policy.PTX)
        resident = any(variable.resident for variable in program.variables)
        start = process_time()
        signal.setitimer(signal.ITIMER_VIRTUAL, options.seconds)
        word = "safe"
        try:
            for choice in CHOICES if resident else CHOICES[:1]:
                if fast.run(dealt(program, sizes, choice), sizes, locate=False).violations:
                    word = "refuted"
        except LimitError:
            word = "not ended"
        signal.setitimer(signal.ITIMER_VIRTUAL, 0)
        seconds = process_time() - start
        total += seconds
        above += [unit.name] if seconds > BAR or word == "not ended" else []
        print(f"{unit.name}: {word}, {seconds:.2f} s", flush=True)
    print(f"in all: {total:.1f} s; above {BAR:.0f} s: {', '.join(above) or 'none'}")


if __name__ == "__main__":
    main()
