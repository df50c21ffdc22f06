"""Checks with Z3 and the concrete machine that a refutation is at the smallest sizes, since ISL's
lexicographic minimum may drop a part of a domain (decision `confirmed-answers`).

Sizes are compared by their rank: the sum of their magnitudes, then the magnitudes of index
arguments, then all values in order.
"""

from __future__ import annotations

from collections.abc import Callable, Iterator, Mapping
from dataclasses import dataclass, field
from typing import Final

from exogpu.amir.nodes import Arrive, Await, Block, Guard, Loop, Program
from exogpu.amir.walk import operations
from exogpu.diagnostics.verdict import Proof
from exogpu.ir.nodes import Add, BExpr, Compare, CVar, Int
from exogpu.ir.types import Sym
from exogpu.ir.walk import control_variables
from exogpu.machine import fast
from exogpu.machine.observer import Violation
from exogpu.solvers import smt
from exogpu.symbolic.prove import prove
from exogpu.symbolic.search.admitted_sizes import Ranks, admitted
from exogpu.symbolic.search.analysis import Findings, Undecided
from exogpu.symbolic.search.refute import SIZES, Refutation
from exogpu.symbolic.search.ring_sizes import step_counts

FEW: Final = 4
"""Smaller sizes are run on the machine where there are no more."""

CORRECTIONS: Final = 8
"""Times that smaller sizes which fail are looked for again."""

Machine = Callable[[Program, Mapping[str, int]], tuple[Violation, ...] | None]
"""Runs a program at sizes up to its first violation; None where that takes too long."""


WORK: Final = 1_000_000
"""Work of the machine at sizes where it need not find anything: some 5 seconds."""


def run_to_first_violation(
    program: Program, sizes: Mapping[str, int]
) -> tuple[Violation, ...] | None:
    """Runs the machine at the sizes up to its first violation; None where that takes too much
    work, which is counted: it does not depend on how busy a computer is."""
    try:
        return fast.run(program, sizes, most=WORK).violations
    except fast.WorkLimitError:
        return None


@dataclass(frozen=True, slots=True)
class Smallest:
    """A refutation, and what keeps its sizes from being the smallest that fail."""

    refutation: Refutation
    doubt: str = ""
    """Empty where nothing smaller fails."""


def smallest(program: Program, findings: Findings, found: Refutation, machine: Machine) -> Smallest:
    """The refutation at the smallest sizes that can be found, starting from one.

    Nothing smaller fails where the preconditions admit nothing smaller, where Z3 confirms every
    obligation for all that is smaller, or where the machine finds nothing at the few there are.
    """
    for _ in range(CORRECTIONS):
        better = _better(program, findings, found.sizes, machine)
        if not isinstance(better, Refutation):
            return Smallest(found, better)
        found = better
    return Smallest(found, "smaller sizes that fail were found again and again")


def at_a_case(program: Program, findings: Findings, machine: Machine) -> Refutation | None:
    """A refutation at the smallest sizes at which the solver finds a case in which the first
    obligation that does not hold fails; None where the machine finds nothing there."""
    _, sizes = _first_case(findings, Ranks(program), [])
    violations = None if sizes is None else machine(program, sizes)
    return Refutation(sizes, violations[0], None) if sizes is not None and violations else None


def _better(
    program: Program, findings: Findings, sizes: Mapping[str, int], machine: Machine
) -> Refutation | str:
    """A refutation at smaller sizes; else the doubt that there is one, empty if there is none."""
    ranks = Ranks(program)
    few = []
    for smaller in admitted(program, below=sizes):
        if smaller is None:
            return "Z3 could not decide which smaller sizes the preconditions admit"
        few.append(smaller)
        if len(few) > FEW:
            break
    if not few:
        return ""
    doubt, candidate = _unproved(findings, ranks, sizes)
    if not doubt:
        return ""
    every = len(few) <= FEW
    tried = [] if candidate is None else [candidate]
    for smaller in [*tried, *few] if every or not tried else tried:
        violations = machine(program, smaller)
        if violations:
            return Refutation(smaller, violations[0], None)
        if violations is None:
            return doubt
    return "" if every else doubt


def _unproved(
    findings: Findings, ranks: Ranks, sizes: Mapping[str, int]
) -> tuple[str, dict[str, int] | None]:
    """Returns why smaller sizes are not proved free of failures ("" if they are), and sizes at
    which Z3 expects one."""
    if findings.undecided:
        return _reason_text(findings.undecided[0]), None
    below = [smt.lexicographically_less(ranks.constants, ranks.rank_of(sizes))]
    return _first_case(findings, ranks, below, _most_steps(findings, ranks.program, sizes))


def _most_steps(findings: Findings, program: Program, sizes: Mapping[str, int]) -> dict[str, int]:
    """By ring that is taken out of its tasks, the most steps that it has at smaller sizes; nothing
    where these are many."""
    assert findings.evidence is not None
    model, most = findings.evidence.model, dict[str, int]()
    if all(one.ring is None for one in model.by_position.residences):
        return most
    for number, smaller in enumerate(admitted(program, below=sizes)):
        if smaller is None or number == SIZES:
            return {}
        for name, count in step_counts(model, smaller).items():
            called = model.called[name]
            most[called] = max(count, most.get(called, 0))
    return most


def _first_case(
    findings: Findings, ranks: Ranks, conditions: list[str], most: Mapping[str, int] | None = None
) -> tuple[str, dict[str, int] | None]:
    """Returns why some obligation is not proved under these conditions on the rank, and for so
    many steps at most ("" if all are); and the smallest sizes at which the first one fails."""
    failing: list[str] = []

    def ask(script: str) -> smt.Reply:
        names = [f"|{name}|" for name in smt.declared(script)[: len(ranks.kinds)]]
        known = [f"(<= |{name}| {count})" for name, count in (most or {}).items()]
        narrowed = ranks.ranked(script, names, [*conditions, *known])
        reply = smt.ask_z3(narrowed, attempts=smt.SOON)
        if reply.word == "sat":
            failing.append(narrowed)
        return reply

    answer = prove(findings, ask=ask)
    if isinstance(answer, Proof):
        return "", None
    if not failing:
        return _reason_text(answer), None
    found = smt.smallest_model(failing[0], ranks.constants)
    return _reason_text(answer), None if isinstance(found, str) else ranks.sizes(found)


def _reason_text(open_question: Undecided) -> str:
    return f"line {open_question.span.line}: {open_question.reason}"


# Sizes that are not the smallest, and at which the concrete machine may find what it does not at
# these: rings that go round, and several tasks.
#
# A ring that is filled once tells nothing of who waits for whom when it is filled again, and a
# task that is alone nothing of what two do to each other.

TASKS: Final = 3
"""Iterations of a loop over tasks: one before and one after another."""


def larger_sizes(program: Program) -> Iterator[dict[str, int]]:
    """The smallest sizes at which each loop with Arrives or Awaits in it has two more iterations
    than any ring has slots, or any Await leaves; and those at which each loop over tasks has some.

    Of loops whose iterations depend on sizes; of what no sizes are, or Z3 cannot find, none.
    """
    for least, meant in ((_ring(program) + 2, _synchronises), (TASKS, lambda loop: loop.tasks)):
        sought = _IterationConditions(Int(least), meant)
        sought.block(program.body, ())
        if sought.conditions:
            found = next(admitted(program, also=sought.conditions, of=sought.iterators), None)
            yield from () if found is None else (found,)


def _ring(program: Program) -> int:
    """The longest ring, as the program has it: slots, and Arrives that an Await leaves."""
    found = [0]
    for op in operations(program.body):
        match op:
            case Await(n=n):
                found.append(~n if n < 0 else n)
            case Loop(slot=slot, hi=Int(slots)) if slot is not None:
                found.append(slots)
            case _:
                pass
    return max(found)


def _synchronises(loop: Loop) -> bool:
    """Tests whether it is an ordinary loop of the program's in which threads synchronise."""
    marked = loop.tasks or loop.threads or loop.slot is not None or loop.source is not None
    return not marked and any(isinstance(op, Arrive | Await) for op in operations(loop.body))


@dataclass
class _IterationConditions:
    """Collects conditions on sizes and iterators under which the loops meant have at least this
    many iterations."""

    least: Int
    meant: Callable[[Loop], bool]
    conditions: list[BExpr] = field(default_factory=list)
    iterators: list[Sym] = field(default_factory=list)

    def block(self, block: Block, around: tuple[BExpr, ...]) -> None:
        for op in block:
            match op:
                case Loop():
                    at = CVar(op.iterator)
                    self.iterators.append(op.iterator)
                    inside = (Compare("<=", op.lo, at), Compare("<", at, op.hi))
                    if self.meant(op) and control_variables(op.lo) | control_variables(op.hi):
                        enough = Compare("<=", Add(op.lo, self.least), op.hi)
                        self.conditions += (*around, enough)
                    self.block(op.body, (*around, *inside))
                case Guard():
                    self.block(op.body, (*around, op.condition))
                case _:
                    pass
