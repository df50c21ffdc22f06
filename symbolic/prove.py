"""The proof of a program for all sizes: obligations, answered by Z3."""

from __future__ import annotations

import re
from collections import Counter
from collections.abc import Callable, Iterator, Sequence
from itertools import islice
from time import perf_counter
from typing import Final

from exogpu.result.proof import Answered, Obligation, Proof, Proving
from exogpu.solvers import smt
from exogpu.solvers.isl_budget import IslGaveUpError, limited
from exogpu.symbolic.certificate import witness_json
from exogpu.symbolic.certificate.sealing import json_text
from exogpu.symbolic.encode import obligations
from exogpu.symbolic.encode.drafts import Draft
from exogpu.symbolic.encode.links import Telling
from exogpu.symbolic.find.flags import flag_waits
from exogpu.symbolic.find.prover import BUDGET, Evidence, Findings, Undecided
from exogpu.symbolic.find.witness import Seeker
from exogpu.symbolic.sites import UndecidedError, variables_of


def prove(
    findings: Findings,
    *,
    ask: Callable[[str], smt.Reply] | None = None,
    budget: int = BUDGET,
    told: Callable[[Proving], None] = lambda proving: None,
) -> Proof | Undecided:
    """The proof that nothing found means that nothing is wrong, for all sizes.

    Asked of findings without violations and without open questions.  Undecided where a count is
    no expression, an obligation is not confirmed, or a budget is exhausted.  `ask` answers one
    script; by default Z3 is asked about several together.  `told` hears how many are answered.
    """
    assert findings.evidence is not None
    start, asking = perf_counter(), 0.0
    replies: dict[str, smt.Reply] = {}
    answered: list[Answered] = []
    telling = Telling(findings.evidence.model)
    seeker = Seeker(findings.evidence)
    try:
        made = _within(findings.evidence, seeker, budget)
        while several := tuple(islice(made, smt.TOGETHER if ask is None else 1)):
            obligations = [telling.obligation(draft) for draft in several]
            questions = _questions([one.smt for one in obligations])
            new = tuple(dict.fromkeys(q for q in questions if q and q not in replies))
            answers = smt.ask_together(new) if ask is None else map(ask, new)
            replies |= zip(new, answers, strict=True)
            for draft, one, question in zip(several, obligations, questions, strict=True):
                reply = replies.get(question, smt.Reply("", "unsat", 0.0))
                seconds = reply.seconds if question in new else 0.0
                asking += seconds
                answered.append(Answered(one, reply.solver, reply.word, seconds))
                if reply.word != "unsat":
                    return _unconfirmed(one, draft, reply)
            told(Proving(len(answered)))
    except UndecidedError as reason:
        return Undecided(reason.reason, reason.span)
    seconds = perf_counter() - start - asking
    witness = json_text(witness_json.to_json(seeker.witness()))
    depths, waits = _depths(findings.evidence), flag_waits(findings.evidence.model, seeker)
    return Proof(tuple(answered), seconds, asking, witness, depths, waits)


def _depths(evidence: Evidence) -> tuple[tuple[str, int], ...]:
    names = Counter(v.name.name for v in evidence.model.program.variables)
    found: dict[str, list[int | None]] = {}
    for variable, orders in evidence.orders.items():
        found.setdefault(variable.name, []).append(orders.depth)
    return tuple(
        (name, depth)
        for name, (depth, *others) in found.items()
        if depth is not None and others == [depth] * (names[name] - 1)
    )


_DEFINED: Final = re.compile(r"\((?:declare-const|define-fun) (\S+)")


def _questions(scripts: Sequence[str]) -> list[str]:
    """The scripts without comments; of those that have as many lines and brackets as another, the
    names are numbered: many differ in nothing else, and are asked once."""
    plain = [
        "\n".join([line for line in script.splitlines() if not line.startswith(";")])
        for script in scripts
    ]
    shapes = [(one.count("\n"), one.count("(")) for one in plain]
    several = {shape for shape, count in Counter(shapes).items() if count > 1}
    return [
        _numbered(one) if shape in several else one
        for one, shape in zip(plain, shapes, strict=True)
    ]


def _numbered(plain: str) -> str:
    names = {name: f"v{at}" for at, name in enumerate(_DEFINED.findall(plain))}
    words = plain.replace("(", "( ").replace(")", " )").replace("\n", " \n ").split(" ")
    apart = " ".join(map(names.get, words, words))
    return apart.replace("( ", "(").replace(" )", ")").replace(" \n ", "\n")


def drafts_within(evidence: Evidence, budget: int = BUDGET) -> Iterator[Draft]:
    """Every obligation of a program, made within ISL's budget.  Raises UndecidedError."""
    return _within(evidence, Seeker(evidence), budget)


def _within(evidence: Evidence, seeker: Seeker, budget: int) -> Iterator[Draft]:
    try:
        with limited(budget * 4):
            yield from obligations.drafts(evidence.model, seeker)
    except IslGaveUpError:
        used = next(s for s in evidence.model.sites if any(variables_of(s.op)))
        reason = "the chains that order the accesses are too large to be written as expressions"
        raise UndecidedError(reason, used.op.origin.span) from None


def _unconfirmed(made: Obligation, draft: Draft, reply: smt.Reply) -> Undecided:
    site = draft.second or draft.first
    assert site is not None
    if reply.word == "unknown":
        reason = f"{reply.solver} could not decide within its budget: {made.claim}"
    else:
        reason = f"{reply.solver} does not confirm what was found: {made.claim}"
    return Undecided(reason, site.op.origin.span)


def drafts(evidence: Evidence) -> Iterator[Draft]:
    """Every obligation of a program, with what ISL finds for it.  Raises UndecidedError."""
    return obligations.drafts(evidence.model, Seeker(evidence))
