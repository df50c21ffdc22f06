"""Times refutations beside proofs: the kernels of `tests/cases/refutations`.

    python benchmarks/wrong_kernels.py [--only FILE] [--write]

Of each kernel the time to the verdict, or to the first hazard; to all hazards with their repairs;
and to the condition on sizes.  Seconds of the CPU, in one process, without lowering.
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

from exogpu.api import Procedure, collecting  # noqa: E402
from exogpu.diagnostics.verdict import Policy, Proving  # noqa: E402
from exogpu.pipeline import refutation  # noqa: E402
from exogpu.pipeline.check import answer  # noqa: E402
from exogpu.symbolic.search.refute import Refutation  # noqa: E402
from exogpu.symbolic.search.weakest_condition import Calls, weakest_condition  # noqa: E402

CASES = ROOT / "tests" / "cases" / "refutations"

HEAD = (
    f"{'kernel':32} {'verdict':8} {'first':>6} {'all':>6} {'condition':>9} "
    f"{'hazards':>7} {'repairs':>7}"
)


def kernels(path: Path) -> list[Procedure]:
    """The kernels of a file."""
    with collecting() as found:
        exec(compile(path.read_text(), str(path), "exec"), {"__name__": path.stem})
    return found


def row(name: str, kernel: Procedure) -> str:
    """One kernel."""
    program, facts = kernel.amir(Policy.PTX), kernel.facts
    start, first = process_time(), 0.0

    def hear(told: Proving | Refutation) -> None:
        nonlocal first
        if isinstance(told, Refutation):
            refutation.first_hazard(program, told.sizes, told.violation, refutation.Failures())
            first = first or process_time() - start

    found = answer(program, hear)
    judged = process_time() - start
    if found.refutation is None:
        word = "proved" if found.proof is not None else "undecided"
        return f"{name:32} {word:8} {judged:6.2f}"
    hazards = ()
    for hazards in refutation.hazards_of(
        program, found.findings, found.refutation, refutation.Failures(), facts.proc
    ):
        pass
    every = process_time() - start
    assert kernel.ir is not None
    weakest_condition(kernel.ir, program, found.findings, Calls(facts.proc, facts.variables))
    condition = process_time() - start
    repairs = len({hazard.help for hazard in hazards if hazard.changes})
    return (
        f"{name:32} {'refuted':8} {first:6.2f} {every:6.2f} {condition:9.2f} "
        f"{len(hazards):7} {repairs:7}"
    )


def rows(only: str | None) -> Iterator[str]:
    """The table, a line at a time."""
    yield HEAD
    for path in sorted(CASES.rglob("*.py")):
        if only in (None, path.stem):
            for kernel in kernels(path):
                yield row(f"{path.stem}: {kernel.name}", kernel)


BEGIN, END = "<!-- wrong kernels: begin -->", "<!-- wrong kernels: end -->"


def write(table: str) -> None:
    """Puts the table into docs/benchmarks.md."""
    page = ROOT / "docs" / "benchmarks.md"
    before, _, rest = page.read_text().partition(BEGIN)
    _, _, after = rest.partition(END)
    page.write_text(f"{before}{BEGIN}\n```text\n{table}\n```\n{END}{after}")


def main() -> None:
    parser = argparse.ArgumentParser(description=__doc__)
    parser.add_argument("--only", metavar="FILE", help="one file, by its stem")
    parser.add_argument("--write", action="store_true", help="write docs/benchmarks.md")
    options = parser.parse_args()
    console, lines = Console(soft_wrap=True, highlight=False, markup=False), []
    for line in rows(options.only):
        console.print(line)
        lines.append(line)
    if options.write and not options.only:
        write("\n".join(lines))


if __name__ == "__main__":
    main()
