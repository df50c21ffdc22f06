"""Questions to SMT solvers, as SMT-LIB 2 text: the only file that imports z3 (and cvc5)."""

from __future__ import annotations

import importlib.metadata
from dataclasses import dataclass
from time import perf_counter
from typing import Final, Literal

import z3

RLIMIT: Final = 5_000_000
"""Z3's resource units for one question, the same on every machine: some seconds."""


@dataclass(frozen=True, slots=True)
class Reply:
    """What a solver said of a script."""

    solver: str
    word: Literal["unsat", "sat", "unknown"]
    seconds: float


def ask_z3(script: str, rlimit: int = RLIMIT) -> Reply:
    """Z3's answer; unknown beyond the limit or where it cannot read the script."""
    start = perf_counter()
    solver = z3.SimpleSolver()
    solver.set("rlimit", rlimit)
    try:
        solver.from_string(script)
        word = str(solver.check())
    except z3.Z3Exception:
        word = "unknown"
    assert word in ("unsat", "sat", "unknown")
    return Reply(f"z3 {z3_version()}", word, perf_counter() - start)  # type: ignore[arg-type]


def z3_version() -> str:
    """Such as `4.13.0`."""
    return str(z3.get_version_string())


def cvc5_version() -> str | None:
    """The version of the installed cvc5; None where there is none."""
    try:
        return importlib.metadata.version("cvc5")
    except importlib.metadata.PackageNotFoundError:
        return None


def ask_cvc5(script: str, milliseconds: int = 60_000) -> Reply:
    """cvc5's answer; unknown beyond the limit or where it cannot read the script.

    Raises ModuleNotFoundError where it is not installed.
    """
    import cvc5

    start = perf_counter()
    solver = cvc5.Solver()
    solver.setOption("tlimit-per", str(milliseconds))
    parser = cvc5.InputParser(solver)
    parser.setStringInput(cvc5.InputLanguage.SMT_LIB_2_6, script, "obligation")
    symbols = parser.getSymbolManager()
    word = "unknown"
    try:
        while not (command := parser.nextCommand()).isNull():
            answer = str(command.invoke(solver, symbols)).strip()
            if answer in ("sat", "unsat", "unknown"):
                word = answer
    except RuntimeError:  # the parser's
        word = "unknown"
    return Reply(f"cvc5 {cvc5_version()}", word, perf_counter() - start)  # type: ignore[arg-type]
