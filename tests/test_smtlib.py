"""The closed grammar of scripts: what is read, what is refused, and what solvers get of it."""

from __future__ import annotations

import textwrap
from pathlib import Path

import pytest
from hypothesis import given
from hypothesis import strategies as st

from exogpu.cli.loader import load
from exogpu.solvers import smt, smtlib
from exogpu.solvers.smtlib import WIDTH, ScriptError, heading, plain, wrapped
from exogpu.symbolic.certificate.strict_json import WITNESS
from exogpu.symbolic.certificate.write import obligations

PROOFS = Path(__file__).parent.parent / "proofs"

BEFORE = "(set-logic QF_LIA)\n(declare-const a Int)\n(declare-const p Bool)\n"
AFTER = "\n(check-sat)\n"


def refused(script: str) -> str:
    with pytest.raises(ScriptError) as caught:
        plain(script)
    return str(caught.value)


def test_solvers_get_names_of_ours_and_no_comments() -> None:
    script = BEFORE + '; |a " comment (echo\n(define-fun b () Int (+ a (- 1)));x\n(assert\n(< b 1))'
    assert plain(script + AFTER + "; the end") == (
        "(set-logic QF_LIA)\n"
        "(declare-const x0 Int)\n"
        "(declare-const x1 Bool)\n"
        "(define-fun x2 () Int (+ x0 (- 1)))\n"
        "(assert (< x2 1))\n"
        "(check-sat)\n"
    )


TERMS = [
    "true",
    "p",
    "(not p)",
    "(and p p p)",
    "(or p (= p false))",
    "(=> p p)",
    "(ite p p false)",
    "(= a 0)",
    "(< (* 2 a) (* (- 3) a))",
    "(>= (div a 2) (mod (- a 1) 7))",
    "(> (ite p a 1) (+ a a))",
]


@pytest.mark.parametrize("term", TERMS)
def test_what_is_written_is_read(term: str) -> None:
    script = plain(f"{BEFORE}(assert {term}){AFTER}")
    assert smt.ask_z3(script).word in ("sat", "unsat")
    assert plain(script) == script


TERMS_REFUSED = {
    "(and p)": "and is no operator, or takes other arguments",
    "(and)": "and is no operator, or takes other arguments",
    "(xor p p)": "xor is no operator",
    "(distinct a 1)": "distinct is no operator",
    "(let ((b a)) (= b a))": "b is no operator",
    "(forall ((b Int)) p)": "Int is not declared",
    "(! p :named n)": "no part of such a script",
    "(= a p)": "an argument of = is Bool, not Int",
    "(not a)": "an argument of not is Int, not Bool",
    "(< a p)": "an argument of < is Bool, not Int",
    "(ite p a p)": "an argument of ite is Bool, not Int",
    "(= 0 (* a a))": "* takes a number",
    "(= 0 (* a 2))": "* takes a number",
    "(= 0 (div a a))": "div takes a number",
    "(= 0 (div a 0))": "div takes a number, and div and mod a positive one",
    "(= 0 (mod a (- 2)))": "mod takes a number, and div and mod a positive one",
    "(= 0 (abs a))": "abs is no operator",
    "(= 0 (- a))": "- is no operator, or takes other arguments",
    "(= 0 (+ a a a))": "+ is no operator, or takes other arguments",
    "(= 0 (a 1))": "a is no operator",
    "(= 0 (select a 1))": "select is no operator",
    "((not p))": "a bracket stands where an operator does",
    "()": "empty brackets",
    "(= 0 ())": "empty brackets",
    "(= -1 a)": "no part of such a script",
    "(= 1.5 a)": "no part of such a script",
    "(= 01 a)": "no part of such a script",
    "(= #x1f a)": "no part of such a script",
    "(=> p q)": "q is not declared",
    "(= |a| 1)": "no part of such a script",
    '(= "a" 1)': "no part of such a script",
    "(<=a 1)": "no part of such a script",
    "a": "what is asserted is no formula",
    "1": "what is asserted is no formula",
    "not": "not is not declared",
    "p)": "outside of brackets",
    "(not p": "check-sat is no operator",
    "p p": "no command of such a script: assert",
    "\tp": "the character '\\t'",
    "\rp": "the character '\\r'",
    "p\0": "the character '\\x00'",
    "p ; é": "the character 'é'",
}


@pytest.mark.parametrize("term", TERMS_REFUSED)
def test_what_is_no_term(term: str) -> None:
    assert TERMS_REFUSED[term] in refused(f"{BEFORE}(assert {term}){AFTER}")


SCRIPTS_REFUSED = {
    "": "it has no check-sat",
    "(check-sat)": "the first command is not set-logic",
    "(declare-const a Int)": "the first command is not set-logic",
    "(set-logic ALL)(check-sat)": "the logic is ALL, not QF_LIA",
    "(set-logic QF_LIA)(set-logic QF_LIA)(check-sat)": "set-logic is not the first command",
    "(set-logic QF_LIA)": "it has no check-sat",
    BEFORE + "(check-sat)(check-sat)": "something stands after check-sat",
    BEFORE + "(check-sat)(assert false)": "something stands after check-sat",
    BEFORE + "(exit)" + AFTER: "no part of such a script",
    BEFORE + "(push 1)" + AFTER: "no command of such a script: push",
    BEFORE + "(reset)" + AFTER: "no command of such a script: reset",
    BEFORE + '(echo "unsat")' + AFTER: "no part of such a script",
    BEFORE + "(set-option :produce-models true)" + AFTER: "no part of such a script",
    BEFORE + '(set-option :regular-output-channel "/tmp/x")' + AFTER: "no part of such a script",
    BEFORE + "(check-sat-assuming (p))": "no part of such a script",
    BEFORE + "(declare-fun f (Int) Int)" + AFTER: "no part of such a script",
    BEFORE + "(define-fun f ((b Int)) Int b)" + AFTER: "Int is not declared",
    BEFORE + "(define-fun f () Int p)" + AFTER: "f is Int, and its value is Bool",
    BEFORE + "(define-fun f () Int f)" + AFTER: "f is not declared",
    BEFORE + "(define-fun f () Real 1)" + AFTER: "no part of such a script",
    BEFORE + "(declare-const b Real)" + AFTER: "no part of such a script",
    BEFORE + "(declare-const a Int)" + AFTER: "a is declared twice",
    BEFORE + "(define-fun a () Int 1)" + AFTER: "a is declared twice",
    BEFORE + "(declare-const and Bool)" + AFTER: "and can be no name",
    BEFORE + "(declare-const < Bool)" + AFTER: "< can be no name",
    BEFORE + "(declare-const _ Int)" + AFTER: "_ can be no name",
    BEFORE + "(declare-const 1 Int)" + AFTER: "1 can be no name",
    BEFORE + "(assert p": "a bracket is not closed",
    BEFORE + "assert" + AFTER: "assert outside of brackets",
    BEFORE + "()" + AFTER: "no command",
    "\ufeff" + BEFORE + AFTER: "the character '\\ufeff'",
}


@pytest.mark.parametrize("script", SCRIPTS_REFUSED)
def test_what_is_no_script(script: str) -> None:
    if "no part" in SCRIPTS_REFUSED[script]:
        refused(script)
    else:
        assert SCRIPTS_REFUSED[script] in refused(script)


def test_the_line_is_told() -> None:
    assert refused(BEFORE + "(assert p)\n(assert a)" + AFTER).startswith("line 5: ")


def test_depth_and_length_have_limits() -> None:
    deep = smtlib.DEPTH - 2
    for count in (deep, 300_000):
        script = f"{BEFORE}(assert {'(not ' * count}p{')' * count}){AFTER}"
        if len(script) > smtlib.LONGEST:
            assert "characters" in refused(script)
            script = script[: smtlib.LONGEST]
        if count > deep:
            assert f"more than {smtlib.DEPTH} brackets" in refused(script)
        else:
            assert smt.ask_z3(plain(script)).word == "sat"


NAMES = [
    "min",
    "max",
    "pi",
    "if",
    "implies",
    "iff",
    "bag",
    "is_int",
    "seq.len",
    "x1",
    "bvadd",
    "_k",
]


@pytest.mark.parametrize("name", NAMES)
def test_names_that_a_solver_may_know_are_ours(name: str) -> None:
    script = f"(set-logic QF_LIA)(declare-const {name} Int)(assert (< {name} {name})){AFTER}"
    assert smt.ask_z3(plain(script)).word == "unsat"
    if smt.cvc5_version() is not None:
        assert smt.ask_cvc5(plain(script)).word == "unsat"


def test_headings_tell_claims_apart() -> None:
    claims = ["No RAW.", "No RAW. Expected: unsat.", "", "No", "No RAW on é.", "No RAW on e."]
    heads = [heading(claim) for claim in claims]
    for number, head in enumerate(heads):
        assert not any(other.startswith(head) for other in heads[:number] + heads[number + 1 :])


@pytest.mark.parametrize("kernel", ["gemm_bf16_sm80", "gemm_sm90_2x1_128x256"])
@pytest.mark.ci
def test_scripts_of_kernels_are_read(kernel: str) -> None:
    (unit,) = load(f"exogpu.kernels::{kernel}")
    assert unit.procedure is not None
    witness = (PROOFS / kernel / WITNESS).read_bytes()
    scripts = [one.smt for one in obligations(unit.procedure.amir(), witness) if one.smt]
    assert len(scripts) > 20
    for script in scripts:
        assert plain(script).count("\n") > 5


@given(st.lists(st.text("ab-\t\n ", max_size=30) | st.sampled_from(["x" * 93, "y" * 94, "z" * 95])))
def test_comments_are_wrapped_as_paragraphs_are(words: list[str]) -> None:
    text = " ".join(words)
    assert wrapped(text) == textwrap.wrap(text, WIDTH - 2, break_on_hyphens=False)
