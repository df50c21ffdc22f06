"""Times refuting beside proving: mutants of the shipped kernels, one statement deleted.

    python benchmarks/refutation.py [--only KERNEL] [--write]

Of each kernel the proof, then of each mutant the time to the first hazard, the time to all of them
with their repairs, how many there are and how many have a repair; and the abstract machine at
960 x 800 x 720, safe and with each hazard.  Seconds of the CPU.
"""

from __future__ import annotations

import argparse
import sys
from collections.abc import Iterator
from pathlib import Path
from time import process_time

from rich.console import Console

ROOT = Path(__file__).parent.parent
sys.path.insert(0, str(ROOT))

from exogpu.amir import nodes as amir  # noqa: E402
from exogpu.api import Procedure  # noqa: E402
from exogpu.diagnostics.verdict import Policy  # noqa: E402
from exogpu.explain.hazard_text import first_of_each_pair, hazards_of  # noqa: E402
from exogpu.kernels.gemm_sm80 import gemm_sm80  # noqa: E402
from exogpu.kernels.gemm_sm90 import KERNELS as GEMM_SM90  # noqa: E402
from exogpu.kernels.gemm_splitk_sm90 import KERNELS as GEMM_SPLITK  # noqa: E402
from exogpu.machine import fast  # noqa: E402
from exogpu.pipeline import refutation  # noqa: E402
from exogpu.pipeline.check import answer  # noqa: E402
from tests.symbolic.kernel_mutants import Mutant, mutants  # noqa: E402

KERNELS: dict[str, tuple[Procedure, dict[str, int]]] = {
    "gemm_sm80": (gemm_sm80, {"M": 960, "N": 800, "K": 720}),
    **{
        name: (GEMM_SM90[name], {"L": 1, "M": 960, "N": 800, "cluster_K": 720})
        for name in ("gemm_sm90_2x1_128x256", "gemm_sm90_2x2_256x192")
    },
    "gemm_splitk_sm90_2x1_128x256": (
        GEMM_SPLITK["gemm_splitk_sm90_2x1_128x256"],
        {"L": 1, "M": 960, "N": 800, "K_split": 2, "cluster_K": 360},
    ),
}
"""Kernels, and sizes at which the machine is run."""

HEAD = (
    f"{'statement left out':44} {'first':>6} {'all':>6} {'hazards':>8} {'repairs':>8}   "
    f"{'at sizes':>8} {'hazards':>8} {'words':>6}"
)


def rows(name: str) -> Iterator[str]:
    """The table of one kernel, a line at a time."""
    kernel, sizes = KERNELS[name]
    program = kernel.amir(Policy.PTX)
    fast.run(program, sizes)
    start = process_time()
    answer(program)
    proved = process_time() - start
    start = process_time()
    fast.run(program, sizes)
    safe = process_time() - start
    yield f"{name}: proved in {proved:.2f}; safe at these sizes in {safe:.2f}"
    yield HEAD
    for mutant in mutants(program):
        if mutant.operator == "without":
            yield from row(mutant, sizes)


def row(mutant: Mutant, sizes: dict[str, int]) -> Iterator[str]:
    """One mutant; nothing of one that is proved."""
    start = process_time()
    found = answer(mutant.program)
    if found.refutation is None:
        return
    first, told = 0.0, ()
    for told in refutation.hazards_of(mutant.program, found.findings, found.refutation):
        first = first or process_time() - start
    everything = process_time() - start
    repairs = sum(bool(hazard.help) for hazard in told)
    at, several, words = concrete(mutant.program, sizes)
    label = f"{mutant.span.line}: {mutant.text}"[:44]
    yield (
        f"{label:44} {first:6.2f} {everything:6.2f} {len(told):8} {repairs:8}   "
        f"{at:8.2f} {several:8} {words:6.2f}"
    )


def concrete(program: amir.Program, sizes: dict[str, int]) -> tuple[float, int, float]:
    """Seconds of the machine at these sizes, how many hazards, and seconds for telling them."""
    start = process_time()
    found = fast.run(program, sizes, keep=fast.Keep.PAIRS)
    ran = process_time() - start
    several = hazards_of(first_of_each_pair(found.violations), sizes, program)
    return ran, len(several), process_time() - start - ran


BEGIN, END = "<!-- refutation: begin -->", "<!-- refutation: end -->"


def write(table: str) -> None:
    """Puts the table into docs/benchmarks.md."""
    page = ROOT / "docs" / "benchmarks.md"
    before, _, rest = page.read_text().partition(BEGIN)
    _, _, after = rest.partition(END)
    page.write_text(f"{before}{BEGIN}\n```text\n{table}\n```\n{END}{after}")


def main() -> None:
    parser = argparse.ArgumentParser(description=__doc__)
    parser.add_argument("--only", choices=list(KERNELS), metavar="KERNEL", help="one kernel")
    parser.add_argument("--write", action="store_true", help="write docs/benchmarks.md")
    options = parser.parse_args()
    console, lines = Console(soft_wrap=True, highlight=False, markup=False), []
    for name in [options.only] if options.only else KERNELS:
        for line in rows(name):
            console.print(line)
            lines.append(line)
        lines.append("")
    if options.write and not options.only:
        write("\n".join(lines).rstrip())


if __name__ == "__main__":
    main()
