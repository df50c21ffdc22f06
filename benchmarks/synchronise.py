"""Runs `synchronise`: for each bug of the museum, and for each shipped kernel of which all
synchronisation was removed.

python benchmarks/synchronise.py --write     # the page docs/synchronise.md
python benchmarks/synchronise.py fa_1344     # those whose name has this in it
"""

from __future__ import annotations

import sys
from collections.abc import Iterator
from dataclasses import dataclass
from difflib import ndiff
from pathlib import Path
from time import perf_counter

from exogpu.api import Procedure, collecting
from exogpu.ir.walk import walk
from exogpu.kernels import gemm_sm80, gemm_sm90, gemm_splitk_sm90
from exogpu.schedule import Synchronised, synchronise, text, without_synchronisation
from exogpu.schedule.checking.opened_procedure import SYNCHRONISATION

ROOT = Path(__file__).parent.parent
PAGE = ROOT / "docs" / "synchronise.md"
BUDGET = 240.0


@dataclass(frozen=True)
class Row:
    """One procedure, and what was found for it."""

    name: str
    given: Procedure
    whole: Procedure | None
    """The kernel as its author synchronised it, for one that was stripped."""
    found: Synchronised[Procedure]
    seconds: float


def main(arguments: list[str]) -> None:
    wanted = [a for a in arguments if not a.startswith("--")]
    rows = []
    for name, given, whole in (*museum(), *kernels()):
        if wanted and not any(part in name for part in wanted):
            continue
        start = perf_counter()
        row = Row(name, given, whole, synchronise(given, seconds=BUDGET), perf_counter() - start)
        rows.append(row)
        print(f"{name}: {row.seconds:.1f} s, {row.found.tried} tried\n{row.found}", flush=True)
    if "--write" in arguments and not wanted:
        write(rows)


def museum() -> Iterator[tuple[str, Procedure, None]]:
    for file in sorted((ROOT / "examples" / "museum").glob("*.py")):
        with collecting() as found:
            exec(compile(file.read_text(), str(file), "exec"), {"__name__": file.stem})
        for procedure in found:
            if procedure.name.startswith(("bug", "uncovered")):
                yield f"{file.stem} {procedure.name}", procedure, None


def kernels() -> Iterator[tuple[str, Procedure, Procedure]]:
    """One of each kind: clusters, and rings of 4 and 8 slots."""
    shipped = {"gemm_sm80": gemm_sm80.gemm_sm80}
    shipped |= gemm_sm90.KERNELS | gemm_splitk_sm90.KERNELS
    for name in (
        "gemm_sm80",
        "gemm_sm90_1x1_128x256",
        "gemm_sm90_2x2_128x256",
        "gemm_sm90_1x1_128x64",
        "gemm_splitk_sm90_1x1_128x256",
        "gemm_splitk_sm90_2x1_128x256",
    ):
        yield name, without_synchronisation(shipped[name]), shipped[name]


# --- the page -------------------------------------------------------------------------------


def write(rows: list[Row]) -> None:
    before, _, rest = PAGE.read_text().partition("<!-- museum: begin -->\n")
    _, _, between = rest.partition("<!-- museum: end -->")
    between, _, rest = between.partition("<!-- kernels: begin -->\n")
    _, _, after = rest.partition("<!-- kernels: end -->")
    bugs = "\n".join(bug(row) for row in rows if row.whole is None)
    stripped = "\n".join(kernel(row, row.whole) for row in rows if row.whole is not None)
    PAGE.write_text(
        f"{before}<!-- museum: begin -->\n"
        "| bug | seconds | tried | edits |\n| --- | ---: | ---: | --- |\n"
        f"{bugs}\n<!-- museum: end -->{between}<!-- kernels: begin -->\n"
        "| kernel | seconds | tried | proposed | shipped |\n"
        "| --- | ---: | ---: | ---: | ---: |\n"
        f"{stripped}\n<!-- kernels: end -->{after}"
    )


def bug(row: Row) -> str:
    return f"| {row.name} | {row.seconds:.1f} | {row.found.tried} | {edits(row)} |"


def kernel(row: Row, whole: Procedure) -> str:
    made = statements(row.found.proposals[0].procedure) if row.found else "not found"
    return f"| {row.name} | {row.seconds:.1f} | {row.found.tried} | {made} | {statements(whole)} |"


def edits(row: Row) -> str:
    """The lines that are new, and those that are gone."""
    if not row.found:
        return f"not found: {row.found.reason}"
    old, new = (text(p).splitlines() for p in (row.given, row.found.proposals[0].procedure))
    changed = [line for line in ndiff(old, new) if line[:1] in "+-"]
    return ", ".join(f"{line[0]} `{line[1:].strip()}`" for line in changed)


def statements(procedure: Procedure) -> int:
    """Counts the Fences, Arrives, Awaits and barriers."""
    assert procedure.ir is not None
    return sum(isinstance(stmt, SYNCHRONISATION) for stmt in walk(procedure.ir.body))


if __name__ == "__main__":
    main(sys.argv[1:])
