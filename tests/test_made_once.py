"""Each stage of a procedure is made once: lowerings, analyses and runs are counted.

A check has a process of its own.  Here the work is done in place, so that everything is counted.
"""

from __future__ import annotations

import sys
from collections import Counter
from collections.abc import Iterable, Mapping
from pathlib import Path
from types import ModuleType

import pytest

from exogpu.amir import lower as amir_lower
from exogpu.amir.nodes import Program
from exogpu.api import Procedure
from exogpu.cli.compile import Wish, compile_all
from exogpu.cli.files import Unit
from exogpu.cli.loader import load
from exogpu.cli.reports import report_all
from exogpu.diagnostics.errors import NOWHERE
from exogpu.diagnostics.verdict import Policy
from exogpu.ir.nodes import Proc
from exogpu.machine import fast, literal
from exogpu.pipeline import refutation, stages
from exogpu.solvers import processes
from tests.texts import made

ANALYSES = (
    "exogpu.amir.lower.lower",
    "exogpu.analysis.inline.inline",
    "exogpu.analysis.lifetimes.insert_frees",
    "exogpu.analysis.bounds.violations",
    "exogpu.analysis.operand_windows.violations",
    "exogpu.analysis.collective.analyse",
    "exogpu.analysis.distribution.check",
    "exogpu.analysis.divergence.divergences",
    "exogpu.analysis.divergence.mechanisms_of",
    "exogpu.analysis.ring_depth.ring_depths",
    "exogpu.analysis.sizes.greatest_extents",
    "exogpu.analysis.ownership.cuda_variables",
    "exogpu.symbolic.prove.analysed",
    "exogpu.symbolic.prove.prove",
)

CERTIFIED = "exogpu.symbolic.certificate.write.program_json"

RING = Path(__file__).parent / "cases" / "certificates" / "ring.py"

RACE = """
@proc
def race(n: size, x: f32[n, 33] @ CudaGmemLinear):
    with CudaDeviceFunction(blockDim=32):
        for i in cuda_tasks(0, n):
            for t in cuda_threads(0, 32, unit=cuda_thread):
                x[i, t] = 1.0
            for t in cuda_threads(0, 32, unit=cuda_thread):
                x[i, t] = x[i, t + 1]
"""


def ring() -> Procedure:
    """Proved; a new procedure, of which nothing is known."""
    (unit,) = load(str(RING))
    assert unit.procedure is not None
    return unit.procedure


def race() -> Procedure:
    """Refuted: each thread reads what its neighbour wrote."""
    return made(RACE)


@pytest.fixture
def counts(monkeypatch: pytest.MonkeyPatch) -> Counter[str]:
    """How often each analysis was asked, and the machines ran; the work is done in place."""
    monkeypatch.setattr(processes, "FORKS", False)
    found: Counter[str] = Counter()
    for path in (*ANALYSES, CERTIFIED):
        module, _, name = path.rpartition(".")
        count_calls(monkeypatch, sys.modules[module], name, found)
    for machine in (fast, literal):
        count_runs(monkeypatch, machine, found)
    PROGRAMS.clear()
    lowered = amir_lower.lower

    def lower(*arguments: object) -> object:
        PROGRAMS.append(lowered(*arguments))
        return PROGRAMS[-1]

    monkeypatch.setattr(stages, "lower", lower)
    count_edits(monkeypatch, found)
    return found


def count_edits(monkeypatch: pytest.MonkeyPatch, found: Counter[str]) -> None:
    """Counts what is asked of the edited procedures, which are the repairs that are tried,
    together."""
    plain = refutation.InProcedure._lowered

    def lowered(self: refutation.InProcedure, proc: Proc) -> Program | None:
        before = Counter(found)
        made = plain(self, proc)
        found.clear()
        found.update(before)
        found[EDITED] += 1
        return made

    monkeypatch.setattr(refutation.InProcedure, "_lowered", lowered)


def count_calls(
    monkeypatch: pytest.MonkeyPatch, module: ModuleType, name: str, found: Counter[str]
) -> None:
    """Counts a function under its own name and wherever it was imported to."""
    plain = getattr(module, name)

    def counted(*arguments: object, **options: object) -> object:
        found[f"{module.__name__.rpartition('.')[2]}.{name}"] += 1
        return plain(*arguments, **options)

    for other in tuple(sys.modules.values()):
        if getattr(other, "__name__", "").startswith("exogpu"):
            for bound, value in tuple(vars(other).items()):
                if value is plain:
                    monkeypatch.setattr(other, bound, counted)


def count_runs(monkeypatch: pytest.MonkeyPatch, machine: ModuleType, found: Counter[str]) -> None:
    """Counts runs of a machine by sizes and by what it reports; those of edited programs, which
    are the repairs that are tried, together."""
    plain = machine.run

    def counted(program: Program, sizes: Mapping[str, int], **options: object) -> object:
        name = machine.__name__.rpartition(".")[2]
        if any(program is written for written in PROGRAMS):
            report = options.get("keep", fast.Keep.FIRST)
            found[f"{name} {report} at {dict(sizes)}"] += 1
        else:
            found[EDITED] += 1
        return plain(program, sizes, **options)

    monkeypatch.setattr(machine, "run", counted)


EDITED = "edited programs"

PROGRAMS: list[Program] = []
"""As they were lowered."""

LOWERED = set(ANALYSES[:-2])
"""What every check asks."""


def names(paths: Iterable[str]) -> set[str]:
    return {".".join(path.split(".")[-2:]) for path in paths}


def once(counts: Counter[str], asked: Iterable[str]) -> None:
    """Each of these was asked exactly once, and whatever else was, too."""
    counts.pop(EDITED, None)
    assert names(asked) <= counts.keys()
    assert set(counts.values()) == {1}, counts


def test_a_proof(counts: Counter[str]) -> None:
    assert ring().check().word == "proved"
    once(counts, ANALYSES)


def test_a_report_of_a_proof_with_its_certificate(counts: Counter[str], tmp_path: Path) -> None:
    unit = Unit("ring", NOWHERE, ring(), ())
    (written,) = report_all((unit,), tmp_path, None, Policy.PTX)
    assert written.outcome.verdict.word == "proved"
    assert (tmp_path / "ring" / "certificate.json").exists()
    once(counts, (*ANALYSES, CERTIFIED))


def test_a_compilation_with_its_certificate(counts: Counter[str], tmp_path: Path) -> None:
    unit = Unit("ring", NOWHERE, ring(), ())
    wish = Wish(tmp_path, "sm_90a", False, False, False, False, None, False, Policy.PTX, None)
    (built,) = compile_all((unit,), wish)
    assert built.status == 0 and (tmp_path / "ring.certificate").exists()
    once(counts, (*ANALYSES, CERTIFIED))


def test_a_check_at_sizes(counts: Counter[str]) -> None:
    assert ring().check_at(K=3).word == "proved"
    once(counts, LOWERED)
    assert sum(name.startswith("fast") for name in counts) == 1


def test_a_refutation_replays_the_part_at_fault(counts: Counter[str]) -> None:
    """The machine runs the part of the program that a hazard needs, never the whole."""
    assert race().check().word == "refuted"
    assert counts[EDITED] > 0
    assert not any(name.startswith(("fast", "literal")) for name in counts)
    once(counts, {*LOWERED, "exogpu.symbolic.prove.analysed"})


def test_a_report_of_a_refutation_runs_nothing_more(counts: Counter[str], tmp_path: Path) -> None:
    assert race().check().word == "refuted"
    checked = Counter(counts)
    counts.clear()
    (written,) = report_all((Unit("race", NOWHERE, race(), ()),), tmp_path, None, Policy.PTX)
    assert written.outcome.verdict.word == "refuted"
    assert counts[EDITED] == checked[EDITED]
    once(counts, LOWERED)


def test_the_other_policy_has_a_program_of_its_own_and_the_same_facts(
    counts: Counter[str],
) -> None:
    procedure = ring()
    assert procedure.check().word == procedure.check(policy="paper").word == "proved"
    for name in ("lower.lower", "prove.analysed", "prove.prove"):
        assert counts.pop(name) == 2
    assert set(counts.values()) == {1}, counts


def test_the_counters_count(counts: Counter[str]) -> None:
    for _ in range(2):
        ring().check()
    assert set(counts.values()) == {2}
