"""The proof of a program for all sizes: obligations, answered by Z3."""

from __future__ import annotations

import re
from collections import Counter
from collections.abc import Callable, Collection, Iterable, Iterator, Mapping, Sequence
from dataclasses import dataclass, field, replace
from functools import partial
from itertools import islice
from math import inf
from time import perf_counter
from typing import Final

from exogpu.diagnostics.verdict import Answered, Obligation, Proof, Proving
from exogpu.ir.types import Sym
from exogpu.machine.index_contents import loads
from exogpu.solvers import smt
from exogpu.solvers.isl import IslGaveUpError, limited
from exogpu.solvers.parallel import Helper, LostError, Turns, helping, jobs
from exogpu.solvers.processes import Tell, stage
from exogpu.symbolic.certificate import witness_json
from exogpu.symbolic.certificate.strict_json import json_text
from exogpu.symbolic.encode import obligations as encode_obligations
from exogpu.symbolic.encode.chain_text import Telling, names_apart
from exogpu.symbolic.encode.encoder import Draft
from exogpu.symbolic.encode.obligations import Unit
from exogpu.symbolic.encode.witness import Witness, joined_witness
from exogpu.symbolic.partition import Share, shares, topics
from exogpu.symbolic.search.analysis import BUDGET, Analysis, Evidence, Findings, Undecided
from exogpu.symbolic.search.instance_model import Model
from exogpu.symbolic.search.witness_builder import Seeker, flag_waits
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
    parts = Parts(findings.evidence, ask=ask, budget=budget, told=told)
    for share in shares(findings.evidence.model):
        parts.prove(share)
    return joined(findings.evidence, [parts.combined_proof()])


@dataclass(frozen=True, slots=True)
class Part:
    """The proof of some shares of a program: plain data."""

    units: tuple[int, ...]
    """The places, among all, of those whose obligations these are."""
    of: int
    """The number of units that the program has."""
    answered: tuple[tuple[int, Answered], ...]
    """Each with the place of its unit among all."""
    undecided: tuple[float, Undecided] | None
    """Why the first unit of them that is not proved is not."""
    witness: Witness | None
    depths: Mapping[Sym, int | None]
    """The depths of the mbarriers, at which PHASE was analysed."""
    isl_seconds: float
    smt_seconds: float


class Parts:
    """Makes the obligations of shares of a program and has them answered, one share at a time, as
    they have been analysed."""

    def __init__(
        self,
        evidence: Evidence,
        *,
        ask: Callable[[str], smt.Reply] | None = None,
        budget: int = BUDGET,
        told: Callable[[Proving], None] = lambda proving: None,
    ) -> None:
        start = perf_counter()
        self._evidence = evidence
        self._budget = budget
        self._seeker = Seeker(evidence)
        self._answering = _Answering(Telling(evidence.model), ask, told)
        self._mine: list[int] = []
        self._units: list[Unit] = []
        self._stopped: tuple[float, Undecided] | None = None
        try:
            self._units = encode_obligations.units(evidence.model, self._seeker)
        except UndecidedError as reason:
            self._stopped = (-1, Undecided(reason.reason, reason.span))
        self._seconds = perf_counter() - start

    def prove(self, share: Share) -> None:
        """Has one more share answered; of units after one that is not proved, nothing is made."""
        start = perf_counter()
        of = [(at, unit) for at, unit in enumerate(self._units) if unit.topic in share]
        self._mine += [at for at, _ in of]
        last = inf if self._stopped is None else self._stopped[0]
        some = [(at, unit) for at, unit in of if at < last]
        made = _drafts_within(self._evidence.model, some, self._budget)
        self._stopped = self._answering.answer(made) or self._stopped
        self._seconds += perf_counter() - start

    def combined_proof(self) -> Part:
        """Returns the proof of all shares so far."""
        return Part(
            tuple(self._mine),
            len(self._units),
            tuple(self._answering.answered),
            self._stopped,
            None if self._stopped else self._seeker.witness(),
            {name: orders.depth for name, orders in self._evidence.orders.items()},
            self._seconds - self._answering.seconds,
            self._answering.seconds,
        )


def joined(evidence: Evidence, parts: Collection[Part]) -> Proof | Undecided:
    """The proof, of parts that are all shares; or why the first obligation that is not confirmed
    is not."""
    stopped = [part.undecided for part in parts if part.undecided is not None]
    if stopped:
        return min(stopped, key=lambda one: one[0])[1]
    # Nothing is proved of which a unit is missing.
    (count,) = {part.of for part in parts}
    if sorted(at for part in parts for at in part.units) != [*range(count)]:
        raise AssertionError("the parts of a proof are not all of it")
    model = evidence.model
    placed = sorted((one for part in parts for one in part.answered), key=lambda one: one[0])
    witness = joined_witness([part.witness for part in parts if part.witness is not None])
    depths = {name: depth for part in parts for name, depth in part.depths.items()}
    return Proof(
        tuple(_name_answers([one for _, one in placed])),
        sum(part.isl_seconds for part in parts),
        sum(part.smt_seconds for part in parts),
        json_text(witness_json.to_json(witness)),
        _depths(model, depths),
        flag_waits(model, Seeker(evidence)),
    )


def _name_answers(answered: Sequence[Answered]) -> Iterator[Answered]:
    """Gives each answer a name of its own."""
    names = names_apart(one.obligation.name for one in answered)
    for one, name in zip(answered, names, strict=True):
        yield replace(one, obligation=replace(one.obligation, name=name))


@dataclass(slots=True)
class _Answering:
    """Has obligations answered, several together."""

    telling: Telling
    ask: Callable[[str], smt.Reply] | None
    told: Callable[[Proving], None]
    answered: list[tuple[int, Answered]] = field(default_factory=list)
    seconds: float = 0.0

    def answer(self, made: Iterator[tuple[int, Draft | Undecided]]) -> tuple[int, Undecided] | None:
        """Answers them up to the first that is not confirmed."""
        replies: dict[str, smt.Reply] = {}
        while several := tuple(islice(made, smt.TOGETHER if self.ask is None else 1)):
            drafts = [(at, draft) for at, draft in several if isinstance(draft, Draft)]
            obligations = [self.telling.obligation(draft) for _, draft in drafts]
            questions = _questions([one.smt for one in obligations])
            new = tuple(dict.fromkeys(q for q in questions if q and q not in replies))
            answers = smt.ask_together(new) if self.ask is None else map(self.ask, new)
            replies |= zip(new, answers, strict=True)
            for (at, draft), one, question in zip(drafts, obligations, questions, strict=True):
                reply = replies.get(question, smt.Reply("", "unsat", 0.0))
                seconds = reply.seconds if question in new else 0.0
                self.seconds += seconds
                self.answered.append((at, Answered(one, reply.solver, reply.word, seconds)))
                if reply.word != "unsat":
                    return at, _unconfirmed(one, draft, reply)
            self.told(Proving(len(self.answered)))
            at, last = several[-1]
            if isinstance(last, Undecided):
                return at, last
        return None


def _drafts_within(
    model: Model, units: Iterable[tuple[int, Unit]], budget: int
) -> Iterator[tuple[int, Draft | Undecided]]:
    """The obligations of units, each with its unit's place, made within ISL's budget; at last why
    there are no more, if there should be."""
    at = 0
    try:
        with limited(budget * 4):
            for at, unit in units:
                for draft in unit.drafts():
                    yield at, draft
    except UndecidedError as reason:
        yield at, Undecided(reason.reason, reason.span)
    except IslGaveUpError:
        used = next(s for s in model.sites if any(variables_of(s.op)))
        why = "the chains that order the accesses are too large to be written as expressions"
        yield at, Undecided(why, used.op.origin.span)


def _depths(model: Model, found: Mapping[Sym, int | None]) -> tuple[tuple[str, int], ...]:
    names = Counter(v.name.name for v in model.program.variables)
    depths: dict[str, list[int | None]] = {}
    for variable in model.program.variables:
        if variable.name in found:
            depths.setdefault(variable.name.name, []).append(found[variable.name])
    return tuple(
        (name, depth)
        for name, (depth, *others) in depths.items()
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
    units = enumerate(encode_obligations.units(evidence.model, Seeker(evidence)))
    for _, draft in _drafts_within(evidence.model, units, budget):
        if isinstance(draft, Undecided):
            raise UndecidedError(draft.reason, draft.span)
        yield draft


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
    return encode_obligations.drafts(evidence.model, Seeker(evidence))


# The analysis and the proof of a program by several processes, each of which takes one share of
# its variables after another.
#
# The answer is that of one process: where a helper finds anything that is not a proof, or is
# lost, this process goes on alone.


def analysed(
    analysis: Analysis, told: Callable[[Proving], None]
) -> tuple[Findings, Proof | Undecided | None]:
    """Returns the findings of all variables, or in a proof of those of this process; and the proof,
    or why there is none, if one was tried."""
    among = () if analysis.vacuous else shares(analysis.model)
    proved, others = None, min(jobs(), len(among)) - 1
    if others > 0:
        turns = Turns(len(among))
        with turns, helping([partial(_help, analysis, among, turns)] * others) as helpers:
            proved = _prove_with(helpers, analysis, among, turns, told)
        if isinstance(proved, Proof):
            return analysis.findings(), proved
    analysis.run(topics(analysis.model))
    return analysis.findings(), proved


def _prove_with(
    helpers: Sequence[Helper],
    analysis: Analysis,
    among: Sequence[Share],
    turns: Turns,
    told: Callable[[Proving], None],
) -> Proof | Undecided | None:
    """The proof, of the shares that this process takes and of the helpers'; None where it has to
    go on alone."""
    answered = [0] * (len(helpers) + 1)

    def hear(at: int, proving: Proving) -> None:
        answered[at] = proving.answered
        told(Proving(sum(answered)))

    try:
        own = _proved(analysis, among, turns, partial(hear, 0), lambda: _go_on(helpers))
        if own is None:
            return None
        parts = [own]
        for at, helper in enumerate(helpers, 1):
            while isinstance(message := helper.receive(), Proving):
                hear(at, message)
            if not isinstance(message, Part):
                return None
            parts.append(message)
    except LostError:
        return None
    return joined(analysis.evidence, parts)


def _go_on(helpers: Sequence[Helper]) -> bool:
    """Tests whether no helper has found anything but a proof; takes their messages meanwhile, so
    that they need not wait."""
    return all(None not in helper.take_messages() for helper in helpers)


def _help(analysis: Analysis, among: Sequence[Share], turns: Turns, tell: Tell) -> None:
    """Runs a helper."""
    tell(_proved(analysis, among, turns, tell, lambda: True))


def _proved(
    analysis: Analysis,
    among: Sequence[Share],
    turns: Turns,
    told: Callable[[Proving], None],
    go_on: Callable[[], bool],
) -> Part | None:
    """Proves the shares that a process takes; None if it finds a violation, or shall not go on."""
    parts = Parts(analysis.evidence, told=told)
    for turn in turns:
        analysis.run(among[turn])
        if not (go_on() and _clean(analysis)):
            return None
        stage("proving")
        parts.prove(among[turn])
        stage("analysing the order of accesses")
    return parts.combined_proof()


def _clean(analysis: Analysis) -> bool:
    """Tests whether a proof may be tried. What ISL finds of values from memory is more than there
    is, for contracts are Z3's: a violation of such a program may be none."""
    found = analysis.findings()
    return not found.undecided and (not found.violations or loads(analysis.model.program))
