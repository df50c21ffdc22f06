"""What asks for less than a statement of the language does is rejected, without the source: each
Check, Record and synchronisation of a program weakened in every way, one at a time."""

from __future__ import annotations

import json
from collections.abc import Iterator
from functools import cache

import pytest

from exogpu import Procedure
from exogpu.cli.loader import load
from exogpu.diagnostics.verdict import Policy
from exogpu.symbolic.certificate.access_rules import check_accesses
from exogpu.symbolic.certificate.program_schema import check_program
from exogpu.symbolic.certificate.strict_json import MalformedError, json_text
from exogpu.symbolic.certificate.write import program_json
from tests import planted
from tests.cases.certificates.asking import asking
from tests.cases.certificates.nest import nest
from tests.cases.certificates.ring import ring
from tests.weakening import Content, operations, weakened

KERNELS = ("tma_ring", "multicast_ring", "histogram", "cp_async_pipeline")
OWN = {one.name: one for one in (ring, nest, asking)}


@cache
def text_of(name: str) -> str:
    procedure: Procedure | None = OWN.get(name)
    if procedure is None:
        (unit,) = load(str(planted.CASES / f"{name}.py"))
        procedure = unit.procedure
    assert procedure is not None
    return json_text(program_json(procedure.amir(Policy.PTX)))


def program(name: str) -> Content:
    found: Content = json.loads(text_of(name))
    return found


@pytest.mark.parametrize("name", [*OWN, *KERNELS])
def test_a_program_is_as_its_statements_are(name: str) -> None:
    check_program(program(name))


@pytest.mark.parametrize("name", [*OWN, *KERNELS])
def test_no_field_may_ask_for_less(name: str) -> None:
    accepted, count = [], 0
    for what, made in weakened(program(name)):
        count += 1
        try:
            check_program(made)
        except MalformedError:
            continue
        accepted.append(what)
    assert count > 20
    assert not accepted


@pytest.mark.parametrize("name", [*OWN, *KERNELS])
def test_a_release_stays_after_its_checks(name: str) -> None:
    moved = 0
    for number, block in enumerate(_blocks(program(name)["body"])):
        for at, op in enumerate(block):
            for to in range(at if op["op"] == "Release" else 0):
                made = program(name)
                into = list(_blocks(made["body"]))[number]
                into.insert(to, into.pop(at))
                with pytest.raises(MalformedError):
                    check_program(made)
                moved += 1
    assert moved > 3


def test_what_is_wrong_is_named() -> None:
    made = program("ring")
    check = next(op for op in operations(made["body"]) if op["op"] == "CheckMutates")
    check["level"] = "invisible"
    with pytest.raises(MalformedError, match="and no CheckMutates that asks what its access has"):
        check_accesses(made)


def _blocks(body: list[Content]) -> Iterator[list[Content]]:
    yield body
    for op in body:
        yield from _blocks(op["body"]) if "body" in op else ()
