"""Terms that are wider than their sum: `y += e` rounds after it adds, `t = e; y += t` before."""

from __future__ import annotations

from collections.abc import Iterator
from contextlib import suppress
from copy import deepcopy
from itertools import product
from textwrap import indent
from typing import Any

import numpy as np
import pytest

from exogpu import schedule
from exogpu.api import Procedure
from exogpu.diagnostics.errors import ExoGpuError
from exogpu.interpreter.values import NUMPY, stored
from exogpu.ir.types import FLOATS, DataType
from exogpu.schedule.certificates import chain
from exogpu.schedule.checking import statement_model, stored_terms
from exogpu.schedule.checking.equivalence import Comparison, Differ, _with_parameters
from exogpu.schedule.checking.stored_terms import Unclear
from exogpu.schedule.rewrite import Rewrite
from exogpu.solvers import smt, smtlib
from exogpu.symbolic.encode.witness import WitnessError
from exogpu.symbolic.steps import record_json, sums_json
from exogpu.symbolic.steps.same_value import DIGITS, HOLDS
from exogpu.symbolic.steps.step_certificate import obliged
from tests.texts import made

DIRECT = "y[i] += {e}"
KEPT = """
t: {y} @ DRAM
t = {e}
y[i] += t
"""
SUMMED = """
t: {y} @ DRAM
t = 0
t += {e}
y[i] += t
"""
COPIED = """
t: {y} @ DRAM
u: {y} @ DRAM
t = 0
t += {e}
u = t
y[i] += u
"""
WAYS = {"direct": DIRECT, "kept": KEPT, "summed": SUMMED, "copied": COPIED}
WIDER = {
    "f32 in bf16": ("bf16", "f32", "x[i] * x[i]"),
    "f64 in f32": ("f32", "f64", "x[i]"),
    "a product of bf16 in bf16": ("bf16", "bf16", "x[i] * x[i]"),
    "a product of f16 in f16": ("f16", "f16", "x[i] * x[i]"),
    "f16 in bf16": ("bf16", "f16", "x[i]"),
    "bf16 in f16": ("f16", "bf16", "x[i]"),
    "f32 in f8e4m3": ("f8e4m3", "f32", "x[i]"),
    "the greater": ("bf16", "f32", "max(x[i], 0)"),
    "tf32 in bf16": ("bf16", "f32", "tf32(x[i])"),
    "a constant": ("bf16", "bf16", "1.001"),
}
HELD = {
    "products of bf16 in f32": ("f32", "bf16", "x[i] * x[i]"),
    "products of f32": ("f32", "f32", "x[i] * x[i]"),
    "the same type": ("bf16", "bf16", "x[i]"),
    "less than it": ("bf16", "bf16", "-x[i]"),
    "the greater": ("bf16", "bf16", "max(x[i], 0)"),
    "f8e5m2 in f16": ("f16", "f8e5m2", "x[i]"),
    "tf32 in f32": ("f32", "f32", "tf32(x[i])"),
    "wider integers": ("i8", "i32", "x[i] * x[i]"),
    "integers": ("ui8", "i64", "x[i]"),
    "a short constant": ("bf16", "bf16", "3"),
}


def written(way: str, y: str, x: str, e: str) -> Procedure:
    head = f"@proc\ndef f(n: size, x: {x}[n] @ DRAM, y: {y}[n] @ DRAM):\n    for i in seq(0, n):\n"
    return made(head + indent(WAYS[way].format(y=y, e=e).strip("\n") + "\n", "        "))


def numbers(dtype: str) -> np.ndarray[Any, Any]:
    kind = DataType(dtype)
    if kind not in FLOATS:
        return np.array([0, 1, 3, -2, 100, -100]).astype(NUMPY[kind])
    found = [0, 1, -1, 0.7, -0.3, 1.001, 1.0625, -1.0625, 3.3, 1.0 + 2.0**-12, 257, 1e-3, 1e5, -6e4]
    with np.errstate(over="ignore"):
        return stored(np.array(found, np.float64), kind)


def left(p: Procedure, y: str, x: str) -> np.ndarray[Any, Any]:
    """What is left of each sum from each number, of one term each."""
    pairs = [*product(numbers(y), numbers(x))]
    sums = np.array([one for one, _ in pairs], NUMPY[DataType(y)])
    with np.errstate(over="ignore"):
        p.run(x=np.array([other for _, other in pairs], NUMPY[DataType(x)]), y=sums)
    return sums


def steps(y: str, x: str, e: str) -> Iterator[schedule.Derivation | None]:
    """What `stage_sum` makes of a sum, if it accepts it."""
    with suppress(ExoGpuError):
        yield schedule.derivation(
            schedule.stage_sum(written("direct", y, x, e), "y[_] += _", "y[i]", "s")
        )


@pytest.mark.parametrize("name", WIDER)
def test_a_wider_term_is_not_rounded_before_it_is_added(name: str) -> None:
    y, x, e = WIDER[name]
    direct = written("direct", y, x, e)
    assert direct.equivalent_to(direct)
    for way in ("kept", "summed", "copied"):
        other = written(way, y, x, e)
        assert not np.array_equal(left(direct, y, x), left(other, y, x), equal_nan=True)
        assert not direct.equivalent_to(other) and not other.equivalent_to(direct)
        assert other.equivalent_to(other)
    assert [*steps(y, x, e)] == []


@pytest.mark.parametrize("name", HELD)
def test_a_term_that_the_sum_holds_may_be_kept(name: str) -> None:
    y, x, e = HELD[name]
    direct = written("direct", y, x, e)
    for way in ("kept", "summed", "copied"):
        other = written(way, y, x, e)
        assert np.array_equal(left(direct, y, x), left(other, y, x), equal_nan=True)
        assert direct.equivalent_to(other) and other.equivalent_to(direct)
    ((record, found),) = [r for made in steps(y, x, e) if made for r in chain.records(made.edit)]
    assert confirmed(record_json.to_json(record), sums_json.any_witness_to_json(found))


def test_the_reason_says_what_is_rounded_when() -> None:
    with pytest.raises(ExoGpuError, match=r"`y\[i\] \+= x\[i\]`, which is rounded to f32 after"):
        schedule.stage_sum(written("direct", "f32", "f64", "x[i]"), "y[_] += _", "y[i]", "s")


def test_sums_of_wider_terms_that_are_added_as_wholes() -> None:
    """Each is rounded as often as it is made."""
    head = (
        "@proc\ndef f(n: size, x: f32[n] @ DRAM, z: f32[n] @ DRAM, y: bf16[n] @ DRAM):\n"
        "    for i in seq(0, n):\n        t: bf16 @ DRAM\n        u: bf16 @ DRAM\n"
    )
    together = "t = 0\nt += x[i]\nt += z[i]\ny[i] += t\n"
    apart = "t = 0\nt += x[i]\nu = 0\nu += z[i]\ny[i] += t\ny[i] += u\n"
    one, other = (made(head + indent(text, "        ")) for text in (together, apart))
    given = {"x": np.float32([-1]), "z": np.float32([1.001])}
    sums = [np.zeros(1, np.float32) for _ in range(2)]
    for p, y in zip((one, other), sums, strict=True):
        p.run(**given, y=y)
    assert sums[0] != sums[1]
    assert one.equivalent_to(one)
    assert not one.equivalent_to(other) and not other.equivalent_to(one)


# --- certificates -------------------------------------------------------------------------------


def confirmed(record: Any, witness: Any) -> bool:
    """Whether Z3 confirms every obligation that there is."""
    read = record_json.record_of(record)
    try:
        asked = [*obliged(read, sums_json.witness_of(witness, read))]
    except WitnessError:
        return False
    return all(smt.ask_z3(smtlib.plain(one.smt)).word == "unsat" for one in asked)


@pytest.mark.parametrize("way", ["kept", "summed", "copied"])
def test_what_was_found_of_other_types_certifies_nothing(way: str) -> None:
    """A right certificate of f32, in which the terms are said to be f64."""
    one, other = (written(w, "f32", "f32", "x[i]") for w in ("direct", way))
    record, witness = forged(one, other)
    assert confirmed(record, witness)
    wide = deepcopy(record)
    for side in ("old", "new"):
        for variable in wide[side]["variables"]:
            if variable["name"] == "x":
                assert variable["type"] == "f32"
                variable["type"] = "f64"
    assert not confirmed(wide, witness)


@pytest.mark.parametrize("way", ["kept", "summed", "copied"])
@pytest.mark.parametrize("name", WIDER)
def test_the_checker_refuses_by_itself(
    name: str, way: str, monkeypatch: pytest.MonkeyPatch
) -> None:
    """Where the finder takes every term for one that its sum holds."""
    y, x, e = WIDER[name]
    compare = Comparison.compare

    def compared(self: Comparison) -> None:
        with suppress(Differ, Unclear):
            compare(self)

    monkeypatch.setattr(Comparison, "compare", compared)
    for module in (statement_model, stored_terms):
        monkeypatch.setattr(module, "adds_held", lambda *_: True)
    direct, other = written("direct", y, x, e), written(way, y, x, e)
    assert not confirmed(*forged(direct, other))
    assert not confirmed(*forged(other, direct))
    assert confirmed(*forged(direct, direct))


def forged(one: Procedure, other: Procedure) -> tuple[Any, Any]:
    """Record and witness of two procedures that are said to leave the same."""
    assert one.ir is not None and other.ir is not None
    edit = Rewrite(one.ir, _with_parameters(one.ir, other.ir), by_results=True)
    ((record, found),) = chain.records(edit)
    return record_json.to_json(record), sums_json.any_witness_to_json(found)


# --- the table ----------------------------------------------------------------------------------


def test_the_table_of_what_a_type_holds() -> None:
    """The least and greatest numbers of one are numbers of the other."""
    edges = {}
    for kind in DIGITS:
        exponents = 2.0 ** np.arange(-149, 128)
        digits = 2 - 2.0 ** (1 - min(DIGITS[kind], 24))
        near = np.concatenate([exponents, digits * exponents])
        with np.errstate(over="ignore"):
            kept = stored(near, kind).astype(np.float64)
        edges[kind] = kept[np.isfinite(kept)]
    for kind, others in HOLDS.items():
        for other in DIGITS:
            with np.errstate(over="ignore"):
                kept = stored(edges[other], kind).astype(np.float64)
            same = np.array_equal(kept, edges[other])
            assert same >= (other in others)
            wide = {kind, other} <= {DataType.F32, DataType.F64}  # edges of f64 are those of f32
            assert wide or same == (other in others)
