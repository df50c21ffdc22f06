"""Several scripts asked as one question: the answers are those of each script alone."""

from __future__ import annotations

from collections.abc import Iterator

import pytest
import z3
from hypothesis import given, settings
from hypothesis import strategies as st

from exogpu.analysis.domain import Domain, never, never_each, none_holds
from exogpu.ir.nodes import ControlParam
from exogpu.ir.types import Sym
from exogpu.solvers import smt

SCRIPTS = {
    "holds": "(declare-const a Int)\n(assert (< a 3))\n(assert (> a 3))\n(check-sat)\n",
    "fails": "(declare-const a Int)\n(assert (< a 3))\n(check-sat)\n",
    # `a` is defined here, and of another sort below: names of different scripts may clash.
    "defined": "(declare-const b Int)\n(define-fun a () Int (* 2 b))\n"
    "(assert (= a 3))\n(check-sat)\n",
    "boolean": "(declare-const a Bool)\n(assert a)\n(assert (not a))\n(check-sat)\n",
    "nothing": "(check-sat)\n",
    "false": "(assert false)\n(check-sat)\n",
    "commented": "; a comment\n(set-logic QF_LIA)\n(assert (= 1 2))\n(check-sat)\n",
    "wrong": "(assert (= missing 1))\n(check-sat)\n",
    "odd": "(declare-const a Int)\n(assert (= (mod (* a a) 4) 3))\n(check-sat)\n",
}


@pytest.fixture(autouse=True, scope="module")
def quiet() -> Iterator[None]:
    """As for users, to whom what Z3 cannot read is unknown."""
    with pytest.MonkeyPatch.context() as patch:
        patch.setattr(smt, "LOUD", False)
        yield


def test_in_tests_what_cannot_be_read_is_raised(monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.setattr(smt, "LOUD", True)
    for ask in (smt.ask_z3, lambda script: smt.ask_together([script])):
        with pytest.raises(z3.Z3Exception, match="missing"):
            ask(SCRIPTS["wrong"])


@settings(max_examples=60, deadline=None, derandomize=True)
@given(st.lists(st.sampled_from(sorted(SCRIPTS)), max_size=20))
@pytest.mark.slow
def test_the_answers_are_those_of_each_alone(names: list[str]) -> None:
    scripts = [SCRIPTS[name] for name in names]
    together = [reply.word for reply in smt.ask_together(scripts)]
    assert together == [smt.ask_z3(script).word for script in scripts]


@pytest.mark.parametrize("wrong", ["fails", "wrong", "nothing"])
@pytest.mark.parametrize("at", [0, 1, 7, smt.TOGETHER - 2, smt.TOGETHER - 1])
def test_one_that_is_not_refuted_is_found_in_every_place(wrong: str, at: int) -> None:
    scripts = [SCRIPTS["holds"]] * (smt.TOGETHER - 1)
    scripts.insert(at, SCRIPTS[wrong])
    words = [reply.word for reply in smt.ask_together(scripts)]
    assert words.pop(at) == smt.ask_z3(SCRIPTS[wrong]).word != "unsat"
    assert set(words) == {"unsat"}


def test_groups_have_contexts_of_their_own(monkeypatch: pytest.MonkeyPatch) -> None:
    """An answer depends on its own group alone, so on no earlier question."""
    asked: list[tuple[str, ...]] = []
    plain = smt._in_turn

    def spy(scripts: list[str], *attempt: float) -> Iterator[float | None]:
        asked.append(tuple(scripts))
        return plain(scripts, *attempt)

    monkeypatch.setattr(smt, "_in_turn", spy)
    contexts: list[object] = []
    fresh = smt._fresh

    def made() -> object:
        solver = fresh()
        assert all(solver.ctx is not one for one in contexts)
        contexts.append(solver.ctx)
        return solver

    monkeypatch.setattr(smt, "_fresh", made)
    scripts = [SCRIPTS["holds"], SCRIPTS["defined"]] * smt.TOGETHER
    assert {reply.word for reply in smt.ask_together(scripts)} == {"unsat"}
    assert [len(group) for group in asked] == [smt.TOGETHER] * 2 == [smt.TOGETHER] * len(contexts)
    assert asked == [tuple(scripts[: smt.TOGETHER])] * 2


def test_what_is_not_refuted_in_turn_is_asked_alone(monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.setattr(smt, "_in_turn", lambda scripts, *attempt: [None] * len(scripts))
    asked: list[str] = []
    alone = smt.ask_z3

    def spy(script: str, **options: object) -> smt.Reply:
        asked.append(script)
        return alone(script, **options)

    monkeypatch.setattr(smt, "ask_z3", spy)
    scripts = [SCRIPTS["holds"], SCRIPTS["fails"]]
    assert [r.word for r in smt.ask_together(scripts)] == ["unsat", "sat"]
    assert asked == scripts


def test_all_are_refuted_or_not() -> None:
    """Without asking again, whatever the number and the place of what is not refuted."""
    holding = [SCRIPTS["holds"], SCRIPTS["defined"]] * smt.TOGETHER
    assert smt.all_refuted([]) and smt.all_refuted(holding)
    for wrong in ("fails", "wrong", "nothing"):
        for at in (0, smt.TOGETHER, len(holding)):
            assert not smt.all_refuted([*holding[:at], SCRIPTS[wrong], *holding[at:]])


N = Sym("n")
DOMAIN = Domain((ControlParam(N, "size"),), constraints=(f"n_{N.number} >= 4",))


def test_domains_are_asked_together() -> None:
    name = f"n_{N.number}"
    conditions = [[f"{name} < 4"], [f"{name} = 5"], [], [f"{name} < 0", f"{name} mod 2 = 1"]]
    expected = (True, False, True, False)
    assert never_each((DOMAIN, condition) for condition in conditions) == expected
    assert tuple(never(DOMAIN, condition) for condition in conditions) == expected


def test_z3_has_the_last_word_of_each(monkeypatch: pytest.MonkeyPatch) -> None:
    """ISL may drop a part of a set: here it finds everything empty."""
    monkeypatch.setattr("exogpu.analysis.domain.isl.is_empty", lambda piece: True)
    name = f"n_{N.number}"
    conditions = [[f"{name} < 4"], [f"{name} = 5"], [f"{name} < 3"]]
    assert never_each((DOMAIN, one) for one in conditions) == (True, False, True)


def test_none_holds_of_what_z3_refutes_alone(monkeypatch: pytest.MonkeyPatch) -> None:
    """ISL is not asked; what is written in its words alone is not known to be refuted."""
    monkeypatch.setattr("exogpu.analysis.domain.isl.is_empty", lambda piece: 1 / 0)
    name = f"n_{N.number}"
    assert none_holds([(DOMAIN, [f"{name} < 4"]), (DOMAIN, []), (DOMAIN, [f"{name} = 3"])])
    assert not none_holds([(DOMAIN, [f"{name} < 4"]), (DOMAIN, [f"{name} < 3", f"{name} = 5"])])
    assert not none_holds([(DOMAIN, [f"exists a : a < {name} and a > {name}"])])


def test_what_is_refuted_is_asked_once(monkeypatch: pytest.MonkeyPatch) -> None:
    """Of what is not refuted nothing is remembered, and of the rest no more than so much."""
    monkeypatch.setattr(smt, "_refuted", {})
    monkeypatch.setattr(smt, "KEPT", 2)
    asked: list[str] = []
    plain = smt._in_turn

    def counted(scripts: list[str], *limits: float) -> Iterator[float | None]:
        asked.extend(scripts)
        return plain(scripts, *limits)

    monkeypatch.setattr(smt, "_in_turn", counted)
    holds, odd, false = SCRIPTS["holds"], SCRIPTS["boolean"], SCRIPTS["false"]
    assert smt.all_refuted([holds, holds, odd]) and asked == [holds, odd]
    assert smt.all_refuted([odd, holds]) and asked == [holds, odd]
    for _ in range(2):
        assert not smt.all_refuted([SCRIPTS["fails"]])
    assert asked[2:] == [SCRIPTS["fails"]] * 2
    assert smt.all_refuted([false]) and list(smt._refuted) == [odd, false]
