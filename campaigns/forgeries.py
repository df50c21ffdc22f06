"""Forged certificates: random alterations of program and witness, against `recheck` and machines.

    python -m campaigns.forgeries [--programs 2000] [--seed 0] [--only BASE] [--jobs N] [--resume]
    python -m campaigns.forgeries --show BASE:SEED

A certificate of a proved program is altered at one to three places: operations are dropped, moved,
doubled, guarded or given the fields of others; numbers, conditions, thread sets and assumptions
change.  The forger has the prover make a witness of an altered program if it can, lists the
obligations that the files have, and seals them.  What `recheck` confirms all the same has to be
right on both machines at small sizes.  It is a failure if it is not, if it asks for less, or if
`recheck` crashes.  A program of other statements is confirmed without its source; with it, none is.
"""

from __future__ import annotations

import argparse
import shutil
import sys
import tempfile
import traceback
from collections import Counter
from collections.abc import Callable, Mapping
from functools import cache
from itertools import product
from pathlib import Path
from random import Random
from typing import Any, Final

from campaigns import cases
from campaigns.alterations import altered
from campaigns.reach import generate as reach
from exogpu.amir import nodes as amir
from exogpu.api import Procedure
from exogpu.diagnostics.errors import ExoGpuError
from exogpu.diagnostics.verdict import Proof
from exogpu.ir.walk import holds
from exogpu.machine import fast, literal
from exogpu.machine.index_contents import loads
from exogpu.solvers import smt
from exogpu.symbolic.certificate.program_reader import program_of
from exogpu.symbolic.certificate.program_schema import check_program
from exogpu.symbolic.certificate.recheck import recheck
from exogpu.symbolic.certificate.strict_json import MalformedError, json_text
from exogpu.symbolic.certificate.write import write_certificate
from exogpu.symbolic.encode.witness import WitnessError
from exogpu.symbolic.prove import prove
from exogpu.symbolic.search.analysis import BUDGET, analyse
from exogpu.symbolic.sites import UndecidedError
from tests import forging
from tests.cases.certificates.asking import asking
from tests.cases.certificates.counted import counted
from tests.cases.certificates.nest import nest
from tests.cases.certificates.ring import ring
from tests.symbolic import agreement
from tests.weakening import weakened

PROCEDURES: Final = {one.name: one for one in (ring, nest, counted, asking)}

GENERATED: Final[Mapping[str, Callable[[int], Procedure]]] = {
    "exchanges": lambda seed: reach.procedure("exchanges", seed),
    "readers": lambda seed: reach.procedure("readers", seed),
    "persistent": lambda seed: reach.procedure("persistent", seed),
    "stores": lambda seed: reach.procedure("stores", seed),
    "launches": lambda seed: reach.procedure("launches", seed),
    "clusters": lambda seed: reach.procedure("clusters", seed),
    "host": agreement.on_the_host,
}
"""Generated procedures, of which the first few that are proved are altered."""

BASES: Final = (*PROCEDURES, *GENERATED)

SIZES: Final = (0, 1, 2, 3, 5)

LITTLE: Final = BUDGET // 10
"""ISL's budget for an altered program."""

FAILURES: Final = ("wrong", "asks for less", "crash", "died")


@cache
def _folder() -> Path:
    return Path(tempfile.mkdtemp(prefix="forgeries-"))


@cache
def certificate(base: str, number: int) -> Path:
    """The folder of an honest certificate of a base; of a generated one, of the next proved."""
    folder = _folder() / f"{base}-{number}"
    for seed in range(40 * number, 40 * number + 40):
        procedure = PROCEDURES.get(base) or GENERATED[base](seed)
        verdict = procedure.check(timeout=60)
        if verdict.word == "proved":
            write_certificate(folder, procedure, verdict)
            return folder
    raise AssertionError(f"no program of {base} is proved")


def judge(case: str) -> cases.Result:
    """Alters a certificate, `BASE:SEED`, and asks `recheck` and the machines."""
    base, _, seed = case.partition(":")
    random = Random(f"forgery {case}")
    honest = certificate(base, 0 if base in PROCEDURES else int(seed) % 4)
    with tempfile.TemporaryDirectory() as made:
        folder = Path(shutil.copytree(honest, Path(made) / "forged"))
        program = forging.content(folder, forging.PROGRAM)
        witness = forging.content(folder, forging.WITNESS)
        before = json_text(program)
        if less := Random(f"less {case}").random() < 1 / 6:
            what, program = random.choice(list(weakened(program)))
            done = [f"asks for less: {what}"]
        else:
            times = random.choice((1, 1, 1, 2, 3))
            done = [altered(random, program, witness) for _ in range(times)]
        same = before == json_text(program)
        try:
            (folder / forging.PROGRAM).write_text(json_text(program))
            made_anew = "" if same else witness_for(program)
            (folder / forging.WITNESS).write_text(made_anew or json_text(witness))
            _list(folder)
            found = recheck(folder, [smt.ask_z3])
        except ExoGpuError as error:
            return {"state": "rejected", "what": done, "why": str(error)[:200]}
        except Exception:
            return {"state": "crash", "what": done, "why": traceback.format_exc()[-900:]}
        if found.word != "confirmed":
            why = "; ".join(f"{flaw.where}: {flaw.problem}" for flaw in found.flaws)
            return {"state": found.word, "what": done, "why": why[:200]}
        if same:
            return {"state": "confirmed, the same program", "what": done}
        if less:
            return {"state": "asks for less", "what": done}
        why = wrong(program_of(check_program(program)))
        state = "wrong" if why else "confirmed, another program"
        return {"state": state, "what": done, "why": why}


def witness_for(program: forging.Content) -> str:
    """The witness that the prover makes of an altered program; empty if it makes none."""
    try:
        findings = analyse(program_of(check_program(program)), budget=LITTLE)
    except MalformedError:
        return ""
    if findings.evidence is None or findings.undecided:
        return ""
    found = prove(findings, budget=LITTLE)
    return found.witness if isinstance(found, Proof) else ""


def _list(folder: Path) -> None:
    """Lists the obligations that the files have, if they have any, and seals."""
    try:
        forging.forge(folder)
    except (MalformedError, WitnessError, UndecidedError):
        forging.seal(folder)


def wrong(program: amir.Program) -> str:
    """Finds what one of the machines reports at small sizes that the preconditions admit."""
    for values in product(SIZES, repeat=len(program.params)):
        at = dict(zip([p.name for p in program.params], values, strict=True))
        if not all(holds(condition, at) for condition in program.preconditions):
            continue
        sizes = {name.name: value for name, value in at.items()}
        if loads(program):
            continue
        for run in (literal.run, lambda *given: fast.run(*given).violations):
            if found := list(run(program, sizes)):
                return f"{found[0].kind} at {sizes}"
    return ""


def names(total: int, first: int, only: str | None) -> list[str]:
    """So many cases: of each base in turn, or of one."""
    bases = BASES if only is None else (only,)
    return [f"{bases[n % len(bases)]}:{first + n // len(bases)}" for n in range(total)]


def main() -> int:
    parser = argparse.ArgumentParser(
        description=__doc__, formatter_class=argparse.RawTextHelpFormatter
    )
    parser.add_argument("--programs", type=int, default=2000, metavar="N")
    parser.add_argument("--seed", type=int, default=0, metavar="S", help="of the first of a base")
    parser.add_argument("--only", choices=BASES, metavar="BASE")
    parser.add_argument("--show", metavar="BASE:SEED", help="one case")
    cases.add_arguments(parser)
    options = parser.parse_args()
    if options.show is not None:
        for name, value in judge(options.show).items():
            print(f"{name}: {value}")
        return 0
    named = names(options.programs, options.seed, options.only)
    results = cases.judge_all("forgeries", named, judge, cases.options(options))
    states = Counter[str](result.get("state", "died") for result in results.values())
    for state, count in states.most_common():
        print(f"{count:6} {state}")
    failures: list[tuple[str, Mapping[str, Any]]] = [
        (case, result)
        for case, result in results.items()
        if result.get("state", "died") in FAILURES
    ]
    for case, result in failures:
        print(f"{case}: {result}")
    return 1 if failures else 0


if __name__ == "__main__":
    sys.exit(main())
