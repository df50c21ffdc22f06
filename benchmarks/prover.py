"""Seconds of the proof for all sizes, and its obligations, one fresh process a case.

    python benchmarks/prover.py [--json] [--only gemv] [--sizes] [--scale 1000] [--write]

Every configuration of every shipped kernel.  Seconds are of the CPU, with imports and parsing
excluded; `wall` is the clock.  "front" are the analyses of a definition (types, bounds, tilings),
"ISL" is finding the chains, "Z3" is answering the obligations, "total" is all that `check()` does.

With --sizes the total is also shown of each kernel with all its sizes asserted, as in `M == 4096`,
and again with each multiplied by --scale: the time must not depend on how large sizes are.
--write puts the table into docs/benchmarks.md.
"""

from __future__ import annotations

import argparse
import importlib
import json
import subprocess
import sys
from collections.abc import Mapping
from dataclasses import replace
from pathlib import Path
from time import perf_counter, process_time
from typing import TYPE_CHECKING

if TYPE_CHECKING:
    from exogpu import Procedure
    from exogpu.solvers.smt import Reply

ROOT = Path(__file__).parent.parent
DOCUMENT = ROOT / "docs" / "benchmarks.md"
BEGIN, END = "<!-- prover: begin -->\n", "<!-- prover: end -->\n"
MODULES = ("gemm_sm90", "gemm_splitk_sm90", "gemm_sm80", "gemv")

SIZES = {"L": 2, "M": 4096, "N": 4096, "K": 4096, "cluster_K": 4096, "K_split": 4}
"""The sizes of --sizes, before they are scaled."""

COLUMNS = ("front", "ISL", "Z3", "total", "wall")


def kernels() -> dict[str, Procedure]:
    """The shipped kernels by name."""
    sys.path.insert(0, str(ROOT))
    from exogpu import Procedure

    found = {}
    for name in MODULES:
        module = vars(importlib.import_module(f"exogpu.kernels.{name}"))
        made = [*module.get("KERNELS", {}).values(), *module.values()]
        found |= {one.name: one for one in made if isinstance(one, Procedure)}
    return found


def at_sizes(procedure: Procedure, factor: int) -> Procedure:
    """The kernel with every size asserted, multiplied; as it is for 0."""
    from exogpu import Procedure
    from exogpu.analysis.sizes import check_sizes
    from exogpu.ir.nodes import Compare, ControlParam, CVar, Int

    ir = procedure.ir
    assert ir is not None
    if factor == 0:
        return procedure
    sizes = {name: factor * SIZES[name] for name in procedure.size_names}
    assert not check_sizes(ir, sizes)
    asserted = tuple(
        Compare("==", CVar(param.name), Int(sizes[param.name.name]))
        for param in ir.params
        if isinstance(param, ControlParam)
    )
    return Procedure(procedure.name, replace(ir, preconditions=(*ir.preconditions, *asserted)), ())


def prove(name: str, factor: int) -> dict[str, object]:
    """Prove one kernel in this process, part by part as `check()` does."""
    procedure = at_sizes(kernels()[name], factor)
    from exogpu.solvers import smt
    from exogpu.symbolic import prove as symbolic_prove
    from exogpu.symbolic.search.analysis import analyse

    z3 = 0.0

    together = smt.ask_together

    def asked(*question: object, **options: object) -> tuple[Reply, ...]:
        nonlocal z3
        begun = process_time()
        replies = together(*question, **options)  # type: ignore[arg-type]
        z3 += process_time() - begun
        return replies

    clock, start = perf_counter(), process_time()
    program = procedure.amir()  # raises for what is ill-formed
    front = process_time() - start
    findings = analyse(program)
    smt.ask_together = asked
    proof = symbolic_prove.prove(findings)
    smt.ask_together = together
    total, wall = process_time() - start, perf_counter() - clock
    assert not findings.violations and not findings.undecided, findings
    # The parts are what check() does.
    verdict = procedure.check()
    assert verdict.word == "proved" and verdict.proof is not None, verdict.reason
    answered = verdict.proof.answered
    assert [one.obligation.name for one in answered] == [
        one.obligation.name
        for one in proof.answered  # type: ignore[union-attr]
    ]
    return {
        "kernel": name,
        "obligations": len(answered),
        "by_rules": sum(not one.obligation.smt for one in answered),
        "front": front,
        "ISL": total - front - z3,
        "Z3": z3,
        "total": total,
        "wall": wall,
    }


def heading(factors: tuple[int, ...]) -> str:
    """The first line of the table."""
    sized = "".join(f"{f'at {factor} x':>12}" for factor in factors)
    return f"{'kernel':<32}{'claims':>7}" + "".join(f"{name:>7}" for name in COLUMNS) + sized


def shown(row: Mapping[str, object]) -> str:
    """A line of the table."""
    seconds = "".join(f"{row[column]:>7.2f}" for column in COLUMNS)
    sized = "".join(f"{value:>12.2f}" for key, value in row.items() if key.startswith("at "))
    return f"{row['kernel']:<32}{row['obligations']:>7}{seconds}{sized}"


def write(lines: list[str]) -> None:
    """Put the table between its marks in the document."""
    text = DOCUMENT.read_text()
    head, rest = text.split(BEGIN)
    _, tail = rest.split(END)
    table = "\n".join(["```text", *lines, "```", ""])
    DOCUMENT.write_text(f"{head}{BEGIN}{table}{END}{tail}")


def case(name: str, factor: int) -> dict[str, object]:
    """Prove one kernel in a fresh process."""
    command = [sys.executable, __file__, "--case", name, str(factor)]
    ran = subprocess.run(command, capture_output=True, text=True)
    if ran.returncode:
        raise SystemExit(f"{name}: {ran.stderr.strip().splitlines()[-1]}")
    found: dict[str, object] = json.loads(ran.stdout)
    return found


def main() -> None:
    parser = argparse.ArgumentParser(description=__doc__.splitlines()[0] if __doc__ else "")
    parser.add_argument("--json", action="store_true", help="print one JSON list")
    parser.add_argument("--only", default="", help="kernels whose name contains this")
    parser.add_argument("--sizes", action="store_true", help="also with all sizes asserted")
    parser.add_argument("--scale", type=int, default=1000, help="the factor of --sizes")
    parser.add_argument("--write", action="store_true", help="put it into docs/benchmarks.md")
    parser.add_argument("--case", nargs=2, metavar=("KERNEL", "FACTOR"), help=argparse.SUPPRESS)
    options = parser.parse_args()
    if options.case:
        print(json.dumps(prove(options.case[0], int(options.case[1]))))
        return
    factors = (1, options.scale) if options.sizes else ()
    lines, rows = [heading(factors)], []
    if not options.json:
        print(lines[0])
    for name in kernels():
        if options.only not in name:
            continue
        row = case(name, 0)
        row |= {f"at {factor} x": case(name, factor)["total"] for factor in factors}
        rows.append(row)
        lines.append(shown(row))
        if not options.json:
            print(lines[-1], flush=True)
    if options.json:
        print(json.dumps(rows, indent=2))
    if options.write:
        write(lines)


if __name__ == "__main__":
    main()
