"""Witnesses: data that is read back as it was written, and that proves nothing of a wrong program,
whatever it says."""

from __future__ import annotations

import json
import re
from collections.abc import Iterator
from copy import deepcopy
from dataclasses import replace
from random import Random
from typing import Any

import pytest

from exogpu.amir import nodes as amir
from exogpu.amir.export import to_json as program_json
from exogpu.diagnostics.verdict import Policy
from exogpu.ir.nodes import BExpr, Compare, CVar, Int, Mod, Mul, Or
from exogpu.ir.render import isl_cond
from exogpu.ir.types import Sym
from exogpu.machine import literal
from exogpu.solvers import isl
from exogpu.solvers.smt import ask_z3
from exogpu.symbolic.certificate.program_reader import program_of
from exogpu.symbolic.certificate.strict_json import MalformedError
from exogpu.symbolic.certificate.witness_json import to_json, witness_of
from exogpu.symbolic.encode.obligations import drafts
from exogpu.symbolic.encode.witness import Witness, WitnessError
from exogpu.symbolic.model import Placed, bounded_below
from exogpu.symbolic.search.analysis import analyse
from exogpu.symbolic.search.instance_model import Model
from exogpu.symbolic.search.witness_builder import Seeker
from exogpu.symbolic.sites import UndecidedError
from tests.symbolic.agreement import SHAPES, admitting_zero, generated, small_sizes

pytestmark = pytest.mark.slow


def sought(program: amir.Program) -> tuple[Model, Witness, list[str]] | None:
    """The program's witness, and the scripts that the prover makes; None where it cannot."""
    evidence = analyse(program).evidence
    if evidence is None:
        return None
    seeker = Seeker(evidence)
    try:
        scripts = [draft.script for draft in drafts(evidence.model, seeker)]
    except UndecidedError:
        return None
    return evidence.model, seeker.witness(), scripts


LONG = ("nests", 1301)
"""Programs of this shape may take a minute."""

CASES = [(shape, seed) for shape in SHAPES for seed in (1300, 1301) if (shape, seed) != LONG]


@pytest.mark.parametrize(("shape", "seed"), CASES)
def test_what_is_read_back_makes_the_same_scripts(shape: str, seed: int) -> None:
    program = admitting_zero(generated(shape, seed))
    found = sought(program)
    if found is None:
        return
    _, witness, scripts = found
    text, described = json.dumps(to_json(witness)), json.loads(json.dumps(program_json(program)))
    again = witness_of(json.loads(text))
    assert again == witness and json.dumps(to_json(again)) == text
    made = [draft.script for draft in drafts(Placed(program_of(described)), again)]
    assert made == scripts
    assert again.unasked() == []


# --- wrong programs -----------------------------------------------------------------------------


def places(value: Any, path: tuple[Any, ...] = ()) -> Iterator[tuple[Any, ...]]:
    """The paths to everything in a JSON."""
    inner = value.items() if isinstance(value, dict) else ()
    inner = enumerate(value) if isinstance(value, list) else inner
    for key, one in inner:
        yield (*path, key)
        yield from places(one, (*path, key))


def altered(witness: dict[str, Any], random: Random) -> dict[str, Any]:
    """A witness that says something else in a few places, well-formed most often."""
    made = deepcopy(witness)
    for _ in range(random.choice((1, 2, 4))):
        found = [path for path in places(made) if path[-1] not in ("schema", "sites", "aim")]
        if not found:
            break
        *way, last = random.choice(found)
        parent = made
        for key in way:
            parent = parent[key]
        one = parent[last]
        if isinstance(one, bool):
            parent[last] = not one
        elif isinstance(one, int):
            parent[last] = max(0, one + random.choice((-1, 1)))
        elif isinstance(one, str):
            parent[last] = re.sub(r"\d+", lambda n: str(int(n[0]) + random.choice((0, 1))), one)
        elif isinstance(one, list) and one and way:
            parent[last] = random.sample(one, random.randrange(len(one)))
        elif isinstance(one, dict) and last in ("before", "crossing", "granted"):
            parent[last] = None
    return made


@pytest.mark.parametrize(("shape", "seed"), CASES)
def test_no_witness_proves_a_wrong_program(shape: str, seed: int) -> None:
    random, answers = Random(seed), dict[str, str]()
    for policy in Policy:
        program = replace(admitting_zero(generated(shape, seed)), policy=policy)
        if not any(literal.run(program, sizes) for sizes in small_sizes(shape, program)):
            continue
        found = sought(program)
        if found is None:
            continue
        model, witness, _ = found
        for _ in range(8):
            try:
                forged = witness_of(altered(json.loads(json.dumps(to_json(witness))), random))
                scripts = [draft.script for draft in drafts(model, forged) if draft.script]
            except (MalformedError, WitnessError, UndecidedError):
                continue
            for script in scripts:
                if script not in answers:
                    answers[script] = ask_z3(script).word
            assert any(answers[script] != "unsat" for script in scripts)


# --- least sizes --------------------------------------------------------------------------------

K = Sym("K")


def conditions(random: Random) -> BExpr:
    """A comparison of a size, or one of two."""
    term = random.choice((CVar(K), Mul(random.randint(-2, 2), CVar(K)), Mod(CVar(K), 3)))
    left = Compare(random.choice(("==", "<", "<=", ">=", "!=")), term, Int(random.randint(-4, 4)))
    return left if random.random() < 0.5 else Or(left, conditions(random))


@pytest.mark.parametrize("seed", range(60))
def test_what_is_bounded_below_is_told_without_isl(seed: int) -> None:
    condition = conditions(Random(seed))
    name = f"{K.name}_{K.number}"
    assert bounded_below(condition, K) == isl.bounded_below(
        isl.set_of((), (name,), isl_cond(condition))
    )
