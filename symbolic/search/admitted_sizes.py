"""The sizes that a program's preconditions admit, smallest first.

Sizes are compared by their rank: the sum of their magnitudes, then the magnitudes of index
arguments, then all values in order.
"""

from __future__ import annotations

from collections.abc import Iterable, Iterator, Mapping

from exogpu.amir.nodes import Program
from exogpu.ir.nodes import BExpr, Compare, CVar, Int
from exogpu.ir.render import smt_cond
from exogpu.ir.types import Sym
from exogpu.solvers import smt
from exogpu.symbolic.model import least_of


class Ranks:
    """The order of a program's sizes, in SMT-LIB."""

    def __init__(self, program: Program) -> None:
        self.program = program
        self.kinds = {p.name.name: p.kind for p in program.params}
        magnitudes = sum(kind == "index" for kind in self.kinds.values())
        self.constants = [f"rank{at}" for at in range(1 + magnitudes + len(self.kinds))]

    def rank_of(self, sizes: Mapping[str, int]) -> tuple[int, ...]:
        """Returns the rank of the sizes, to compare."""
        indices = [abs(sizes[name]) for name, kind in self.kinds.items() if kind == "index"]
        values = [sizes[name] for name in self.kinds]
        return (sum(map(abs, values)), *indices, *values)

    def sizes(self, rank: tuple[int, ...]) -> dict[str, int]:
        """The sizes of a rank."""
        return dict(zip(self.kinds, rank[len(rank) - len(self.kinds) :], strict=True))

    def ranked(self, script: str, names: list[str], conditions: list[str]) -> str:
        """The script with constants for the rank of its sizes, and conditions on them."""
        kinds = self.kinds.values()
        magnitudes = [
            f"(ite (< {name} 0) (- {name}) {name})" if kind == "index" else name
            for name, kind in zip(names, kinds, strict=True)
        ]
        indices = [m for m, kind in zip(magnitudes, kinds, strict=True) if kind == "index"]
        total = f"(+ 0 {' '.join(magnitudes)})" if magnitudes else "0"
        lines = []
        for constant, value in zip(self.constants, [total, *indices, *names], strict=True):
            lines += [f"(declare-const {constant} Int)", f"(assert (= {constant} {value}))"]
        lines += [f"(assert {condition})" for condition in conditions]
        body = script.replace("(check-sat)", "").rstrip()
        return "\n".join([body, *lines, "(check-sat)", ""])


def admitted(
    program: Program,
    below: Mapping[str, int] | None = None,
    also: Iterable[BExpr] = (),
    of: Iterable[Sym] = (),
) -> Iterator[dict[str, int] | None]:
    """The sizes that the preconditions admit, smallest first; None where Z3 cannot tell.

    With conditions that must `also` hold for some values of other variables, `of` whom they are.
    Most often there is no last one: the caller stops.
    """
    ranks = Ranks(program)
    names = {p.name: f"size{at}" for at, p in enumerate(program.params)}
    every = {**names, **{name: f"other{at}" for at, name in enumerate(of)}}
    lines = ["(set-logic QF_LIA)", *(f"(declare-const {name} Int)" for name in every.values())]
    known = [
        Compare(">=", CVar(p.name), Int(least_of(program, p.name)))
        for p in program.params
        if p.kind == "size"
    ]
    lines += [f"(assert {smt_cond(one, every)})" for one in (*known, *program.preconditions, *also)]
    conditions = (
        [] if below is None else [smt.lexicographically_less(ranks.constants, ranks.rank_of(below))]
    )
    while True:
        script = ranks.ranked("\n".join(lines), list(names.values()), conditions)
        found = smt.smallest_model(script, ranks.constants)
        if found == "unsat":
            return
        if found == "unknown":
            yield None
            return
        yield ranks.sizes(found)
        following = (*found[:-1], found[-1] + 1)
        conditions = [
            *conditions,
            f"(not {smt.lexicographically_less(ranks.constants, following)})",
        ]
