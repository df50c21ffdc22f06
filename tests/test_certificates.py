"""Certificates as written: the same bytes each time, complete, and confirmed."""

from __future__ import annotations

import json
import os
import subprocess
import sys
from collections import Counter
from functools import cache
from pathlib import Path

import grimp
import pytest

from examples.museum.fa_1344 import fix as fa_fix
from exogpu import Procedure
from exogpu.diagnostics.verdict import Lemma, Verdict
from exogpu.kernels.gemm_splitk_sm90 import KERNELS as SPLITK
from exogpu.solvers import smt
from exogpu.symbolic.certificate.program_rules import Need, needs
from exogpu.symbolic.certificate.recheck import recheck, solvers
from exogpu.symbolic.certificate.write import certificate_digest, write_certificate
from tests.cases.certificates.names import names
from tests.cases.certificates.ring import ring

ROOT = Path(__file__).parent.parent
Z3 = (smt.ask_z3,)


@cache
def proved(procedure: Procedure) -> Verdict:
    verdict = procedure.check()
    assert verdict.word == "proved", verdict.reason
    return verdict


@pytest.fixture
def folder(tmp_path: Path) -> Path:
    """The certificate of the ring."""
    write_certificate(tmp_path / "ring", ring, proved(ring))
    return tmp_path / "ring"


def test_a_certificate_is_confirmed(folder: Path) -> None:
    found = recheck(folder, Z3)
    assert (found.word, found.procedure, found.flaws) == ("confirmed", "ring", ())
    assert found.obligations == len(proved(ring).proof.answered) > 20
    assert found.solvers == (f"z3 {smt.z3_version()}",)


@pytest.mark.slow
def test_obligations_may_hold_by_the_rules_alone(tmp_path: Path) -> None:
    kernel = SPLITK["gemm_splitk_sm90_1x1_128x256"]
    write_certificate(tmp_path, kernel, proved(kernel))
    found = recheck(tmp_path, Z3)
    assert found.word == "confirmed" and found.by_rules > 0


@pytest.mark.skipif(smt.cvc5_version() is None, reason="cvc5 is not installed")
@pytest.mark.parametrize("procedure", [ring, fa_fix, names], ids=lambda p: p.name)
def test_both_solvers_agree(procedure: Procedure, tmp_path: Path) -> None:
    write_certificate(tmp_path, procedure, proved(procedure))
    found = recheck(tmp_path, solvers("all"))
    assert (found.word, len(found.solvers)) == ("confirmed", 2)


@pytest.mark.parametrize(
    "procedure", [ring, fa_fix, *list(SPLITK.values())[:1]], ids=lambda p: p.name
)
def test_coverage_asks_for_what_the_prover_makes(procedure: Procedure) -> None:
    """Read off the program's JSON, the obligations are those of the prover: no more, no less."""
    made = Counter(
        Need(
            "COUNT" if one.obligation.kind is Lemma.INNER else one.obligation.kind.value,
            *(
                site and (site.span.file, site.span.line, site.text)
                for site in (one.obligation.first, one.obligation.second)
            ),
        )
        for one in proved(procedure).proof.answered
    )
    assert needs(procedure.amir().to_json()).all == made


@pytest.mark.slow
def test_the_bytes_do_not_depend_on_the_process(tmp_path: Path) -> None:
    """Another hash seed, other modules and procedures before it: the same certificate."""
    script = (
        "import sys; from pathlib import Path; {first}\n"
        "from exogpu.symbolic.certificate.write import write_certificate\n"
        "from tests.cases.certificates.ring import ring\n"
        "write_certificate(Path(sys.argv[1]), ring, ring.check())"
    )
    for seed, first in (("1", "pass"), ("2", "from exogpu.kernels import gemv_f32, gemm_sm80")):
        subprocess.run(
            [sys.executable, "-c", script.format(first=first), str(tmp_path / seed)],
            env={**os.environ, "PYTHONHASHSEED": seed},
            cwd=ROOT,
            check=True,
        )
    assert files(tmp_path / "1") == files(tmp_path / "2")
    assert str(ROOT) not in "".join(files(tmp_path / "1").values())


def files(folder: Path) -> dict[str, str]:
    paths = (path for path in folder.rglob("*") if path.is_file())
    return {str(path.relative_to(folder)): path.read_text() for path in paths}


def test_a_certificate_is_replaced_as_a_whole(folder: Path) -> None:
    """Its older files go, what others put beside it stays, and the digest is that of the file."""
    (folder / "report.html").write_text("a report")
    (folder / "witness.json").write_text("{}")
    digest = write_certificate(folder, ring, proved(ring))
    assert sorted(path.name for path in folder.iterdir()) == [
        "certificate.json",
        "program.json",
        "report.html",
        "witness.json",
    ]
    stated = json.loads((folder / "certificate.json").read_text())["digest"]
    assert digest == stated == certificate_digest(ring, proved(ring))
    assert recheck(folder, Z3).word == "confirmed"


def test_the_script_of_the_document_is_real() -> None:
    answered = {one.obligation.name: one.obligation for one in proved(ring).proof.answered}
    script = answered["raw-tile-19-24"].smt
    assert f"```smt2\n{script}```\n" in (ROOT / "docs" / "proof.md").read_text(), (
        f"put this into docs/proof.md:\n{script}"
    )


def test_recheck_needs_no_prover() -> None:
    """Nothing of ISL, the language or the prover is loaded with it."""
    script = (
        "import sys, exogpu.symbolic.certificate.recheck\n"
        "print([m for m in sys.modules if m.startswith(('islpy', 'exogpu.symbolic.search',"
        " 'exogpu.symbolic.prove', 'exogpu.frontend', 'exogpu.solvers.isl', 'exogpu.api'))])"
    )
    ran = subprocess.run([sys.executable, "-c", script], cwd=ROOT, capture_output=True, text=True)
    assert ran.stdout.strip() == "[]", ran


@pytest.mark.parametrize("procedure", [ring, fa_fix], ids=lambda p: p.name)
def test_no_obligation_with_chains_holds_for_nothing(procedure: Procedure) -> None:
    """Without its last assertion, that every chain fails, a script has a model: the two accesses
    do meet, and what is assumed of them is no contradiction."""
    scripts = [one.obligation for one in proved(procedure).proof.answered if one.obligation.chains]
    assert len(scripts) > 5
    for one in scripts:
        before, last = one.smt.rsplit("(assert ", 1)
        assert last.startswith("(not ") or last.startswith("(and (not ")
        assert smt.ask_z3(before).word == "sat", one.name


def test_no_path_leads_from_a_checker_to_isl() -> None:
    """Neither directly nor over others, nor by an import inside a function."""
    graph = grimp.build_graph("exogpu", include_external_packages=True)
    for package in ("exogpu.symbolic.encode", "exogpu.symbolic.certificate"):
        modules = {one for one in graph.modules if f"{one}.".startswith(f"{package}.")}
        assert len(modules) > 5
        for module in modules:
            for other in (
                "islpy",
                "exogpu.symbolic.prove",
                "exogpu.symbolic.search.instance_model",
            ):
                assert graph.find_shortest_chain(module, other) is None
    assert graph.find_shortest_chain("exogpu.symbolic.search.instance_model", "islpy") is not None
