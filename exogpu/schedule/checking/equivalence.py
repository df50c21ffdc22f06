"""Decides whether two procedures compute the same: compares their results, not the steps between
them.

What an element of a parameter is at the end is the sum of its terms
(`exogpu.schedule.checking.stored_terms`).  The terms of both procedures are matched, one to one, by
their expressions and by the elements that these read; where an expression reads a sum, that both
sums are the same is the next thing to show. By induction on the order of execution this shows it
for all sizes.  Sums of floating point may be added up in another order; all else is computed alike.
"""

from __future__ import annotations

from collections.abc import Iterator, Mapping
from dataclasses import dataclass, replace
from math import inf, prod
from typing import Final, Literal, TypeAlias

from exogpu.analysis.domain import controls
from exogpu.diagnostics.errors import ExoGpuError
from exogpu.ir import nodes as ir
from exogpu.ir.render import identifier
from exogpu.ir.types import Sym
from exogpu.ir.walk import evaluate, substitute, substitute_bool
from exogpu.schedule.argument_types import Schedulable
from exogpu.schedule.checking.opened_procedure import program
from exogpu.schedule.checking.statement_model import (
    Event,
    Place,
    adds_held,
    same_term,
    separate_roundings,
)
from exogpu.schedule.checking.stored_terms import FEW, ROUNDS, Intricate, Sums, Terms, Unclear
from exogpu.schedule.cursors import header
from exogpu.schedule.derivations import ir_of, loaded_said, slot_said
from exogpu.solvers import isl_unions
from exogpu.solvers.isl import IslGaveUpError, limited
from exogpu.solvers.processes import Limits, Stopped, cut_short, isolated

# Two procedures run on the same data, to see that they differ.

LARGEST: Final = 1 << 24
"""Elements of an array; at sizes beyond nothing is run."""

SEEDS: Final = 3
"""Runs, on other data each."""


def results_differ(one: ir.Proc, other: ir.Proc, sizes: Mapping[str, int]) -> bool:
    """Tests whether some run at sizes of the first leaves another result in a parameter.

    The data are small whole numbers, of which sums are exact in any order.
    """
    return any(_differ_on(one, other, sizes, seed) for seed in range(SEEDS))


def _differ_on(one: ir.Proc, other: ir.Proc, sizes: Mapping[str, int], seed: int) -> bool:
    import numpy as np  # most comparisons run nothing

    from exogpu import interpreter
    from exogpu.interpreter.values import NUMPY

    random = np.random.default_rng(seed)
    env: dict[Sym, int] = {
        p.name: sizes[p.name.name] for p in one.params if isinstance(p, ir.ControlParam)
    }
    left: dict[str, object] = {}
    right: dict[str, object] = {}
    arrays = []
    for mine, its in zip(one.params, other.params, strict=True):
        if isinstance(mine, ir.ControlParam):
            left[mine.name.name] = right[its.name.name] = env[mine.name]
            continue
        shape = tuple(evaluate(extent, env) for extent in mine.shape)
        if prod(shape) > LARGEST:
            return False
        lowest = 0 if np.dtype(NUMPY[mine.dtype]).kind == "u" else -4
        array = random.integers(lowest, 5, shape).astype(NUMPY[mine.dtype])
        arrays.append((array, array.copy()))
        left[mine.name.name], right[its.name.name] = arrays[-1]
    try:
        interpreter.run(one, left)
        interpreter.run(other, right)
    except ExoGpuError:
        return False
    return not all(np.array_equal(a, b, equal_nan=a.dtype.kind == "f") for a, b in arrays)


QUICK: Final = 2_000_000
"""ISL's operations, a few seconds at most: most procedures need less."""

BUDGET: Final = 100_000_000
"""The same, for others."""

PATIENCE: Final = 20.0
"""Seconds for those: operations differ in what they take."""

Word: TypeAlias = Literal["equivalent", "different", "undecided"]


@dataclass(frozen=True, slots=True)
class Equivalence:
    """The answer whether two procedures leave the same in their parameters."""

    word: Word
    reason: str = ""
    """Why not, or why it could not be decided."""
    sizes: Mapping[str, int] | None = None
    """The smallest sizes at which a term of two that differ has no counterpart."""

    def __bool__(self) -> bool:
        """Tests whether they are equivalent."""
        return self.word == "equivalent"


class Differ(Exception):
    """Two procedures that do not leave the same, it seems."""

    def __init__(self, reason: str, sizes: Mapping[str, int] | None = None) -> None:
        super().__init__(reason)
        self.found = Equivalence("different", reason, sizes)


def equivalent(first: Schedulable, second: Schedulable) -> Equivalence:
    """Decides whether two procedures compute the same, for all sizes that the preconditions of both
    admit.

    Their parameters correspond by position, and are arrays apart.  `different` names a term that
    only one of them has, and sizes at which both were run and left other results.  Where that was
    not seen, or values are no sets of terms that can be told apart, it is undecided.  Raises
    ExoGpuError for procedures that are ill-formed.

    >>> from exogpu.kernels.gemv_f32 import gemv
    >>> equivalent(gemv, gemv).word
    'equivalent'
    """
    one, other = ir_of(first), ir_of(second)
    if said := slot_said(one) or slot_said(other) or loaded_said(one) or loaded_said(other):
        return Equivalence("undecided", f"{said}: which element it indexes is not followed")
    return same_results(one, other)


def same_results(one: ir.Proc, other: ir.Proc) -> Equivalence:
    """The same of two procedures that are well-formed.

    Where relations have many pieces or need many operations, ISL's budget is no bound on its time:
    then it is asked in a process of its own, for `PATIENCE` seconds.
    """
    try:
        return _same_results(one, other, FEW, QUICK)
    except (Intricate, IslGaveUpError):
        pass
    try:
        found = isolated(lambda _: _same_results(one, other, inf, BUDGET), Limits(PATIENCE))
    except IslGaveUpError:
        return Equivalence("undecided", "ISL could not decide within its budget")
    if isinstance(found, Stopped):
        cut_short()
        return Equivalence("undecided", f"ISL could not decide within {PATIENCE:g} s")
    return found


def _same_results(one: ir.Proc, other: ir.Proc, most: float, budget: int) -> Equivalence:
    """The same; raises Intricate where a relation has more pieces than `most`, IslGaveUpError where
    `budget` is spent."""
    try:
        called = _with_parameters(one, separate_roundings(other))
        both = replace(separate_roundings(one), preconditions=called.preconditions)
        with limited(budget):
            first, second = (program(both, "P"), program(called, "Q"))
            Comparison(Terms(first, most), Terms(second, most)).compare()
    except Differ as difference:
        found = difference.found
        if found.sizes is None or results_differ(one, other, found.sizes):
            return found
        return Equivalence("undecided", f"{found.reason}; there the results were the same")
    except Unclear as why:
        return Equivalence("undecided", str(why))
    return Equivalence("equivalent")


def _with_parameters(one: ir.Proc, other: ir.Proc) -> ir.Proc:
    """The second, with the parameters of the first: these call it."""
    if len(one.params) != len(other.params):
        raise Differ("they have not as many parameters")
    values: dict[Sym, ir.CExpr] = {}
    arguments: list[ir.Argument] = []
    for mine, its in zip(one.params, other.params, strict=True):
        if isinstance(mine, ir.ControlParam) or isinstance(its, ir.ControlParam):
            if not (isinstance(mine, ir.ControlParam) and isinstance(its, ir.ControlParam)):
                raise Differ(f"{mine.name.name} and {its.name.name} are not of one kind")
            if mine.kind != its.kind:
                raise Differ(f"{mine.name.name} and {its.name.name} are not of one kind")
            values[its.name] = ir.CVar(mine.name)
            arguments.append(ir.CVar(mine.name))
            continue
        arguments.append(ir.Access(mine.name, tuple(ir.Interval(ir.Int(0), n) for n in mine.shape)))
    for mine, its in zip(one.params, other.params, strict=True):
        if isinstance(mine, ir.ControlParam) or isinstance(its, ir.ControlParam):
            continue
        shape = tuple(substitute(n, values) for n in its.shape)
        if (mine.dtype, len(mine.shape)) != (its.dtype, len(shape)) or shape != mine.shape:
            raise Differ(f"{mine.name.name} and {its.name.name} have not one type and shape")
    asked = tuple(substitute_bool(b, values) for b in other.preconditions)
    preconditions = tuple(dict.fromkeys((*one.preconditions, *asked)))
    call = ir.CallProc(other, tuple(arguments), span=other.span)
    return replace(one, preconditions=preconditions, body=(call,))


Finds: TypeAlias = Literal["element", "rounded", "sum"]


@dataclass(frozen=True, slots=True)
class _Term:
    """A statement that makes terms: what its reads find."""

    place: Place
    resolved: tuple[isl_unions.Relation, ...]
    """Sources of reads of its value, from its writes to the one element of a parameter as it was
    given, or as it is rounded."""
    others: tuple[Event, ...]
    """Reads whose counterparts are left to find: of sums, and of what is rounded if that is asked
    for."""
    pattern: tuple[Finds, ...]
    """The writes that each read finds, in order."""


class Comparison:
    """Two procedures whose results are compared; their parameters are the same."""

    def __init__(self, first: Terms, second: Terms, *, rounded: bool = False) -> None:
        """With `rounded` the counterparts of what is rounded are found, too, as certificates name
        them."""
        self.first, self.second = first, second
        self.followed: tuple[Finds, ...] = ("sum", "rounded") if rounded else ("sum",)
        self.params = first.of.params
        self.fitted = isl_unions.relation(self.params, [])
        """From writes of the first to their counterparts in the second."""
        self.names = {identifier(p.name): p.name.name for p in controls(first.of.program.proc)}

    def compare(self) -> None:
        """Raises Differ or Unclear where it is not shown that the results are the same."""
        left, right = self.first.finals, self.second.finals
        known = todo = isl_unions.intersect(
            isl_unions.identity_on(left), isl_unions.identity_on(right)
        )
        if not (
            isl_unions.is_equal(left, isl_unions.inputs(todo))
            and isl_unions.is_equal(right, isl_unions.inputs(todo))
        ):
            raise Unclear("the parameters differ in their extents")
        for _ in range(ROUNDS):
            todo = self.round(todo)
            todo = isl_unions.subtract(todo, known)
            if isl_unions.is_empty(todo):
                return
            known = isl_unions.union(known, todo)
        raise Unclear("sums of sums are nested too deep")

    def round(self, pairs: isl_unions.Relation) -> isl_unions.Relation:
        """The pairs of reads of which it is left to show that they find the same."""
        one = self.first.sums(isl_unions.inputs(pairs))
        other = self.second.sums(isl_unions.outputs(pairs))
        mine, its = isl_unions.sides(pairs)
        self.must_match(
            isl_unions.compose(mine, one.given), isl_unions.compose(its, other.given), given=True
        )
        return self.match_expressions(pairs, one, other)

    def must_match(
        self, left: isl_unions.Relation, right: isl_unions.Relation, *, given: bool
    ) -> None:
        """Both have the same pairs, from pairs of reads."""
        for more, less, terms in ((left, right, self.first), (right, left, self.second)):
            lone = isl_unions.subtract(more, less)
            if not isl_unions.is_empty(lone):
                self.differ(lone, terms, given=given)

    def differ(self, lone: isl_unions.Relation, terms: Terms, *, given: bool) -> None:
        found = isl_unions.smallest_pair(
            isl_unions.identity_on(isl_unions.outputs(lone)), self.params
        )
        whose = "the first" if terms is self.first else "the second"
        if found is None:
            raise Unclear(f"{whose} has a term that the other has not")
        name, _, sizes = found
        at = {self.names[size]: value for size, value in sizes.items()}
        if given:
            what = f"{whose} has a part of a parameter in a result where the other has not"
        else:
            place = terms.places[name]
            what = f"{whose} has a term that the other has not: `{header(place.stmt)}`"
            variables = terms.of.program.variables
            if isinstance(place.plain, ir.Reduce) and not adds_held(place, variables):
                kept = variables[place.plain.target.name].dtype.value
                what += f", which is rounded to {kept} after it is added"
        shown = ", ".join(f"{size} = {value}" for size, value in at.items())
        raise Differ(f"{what}; first at {shown}" if shown else what, at)

    # --- expressions ------------------------------------------------------------------------

    def match_expressions(
        self, pairs: isl_unions.Relation, one: Sums, other: Sums
    ) -> isl_unions.Relation:
        """Matches terms that are expressions; what their reads find is left to show."""
        mine, its = isl_unions.sides(pairs)
        left, right = isl_unions.compose(mine, one.made), isl_unions.compose(its, other.made)
        ours = [*self.terms(self.first, isl_unions.outputs(one.made))]
        theirs = [*self.terms(self.second, isl_unions.outputs(other.made))]
        fits = isl_unions.relation(self.params, [])
        for term in ours:
            for counterpart in theirs:
                fits = isl_unions.union(fits, self.fitting(term, counterpart, left, right))
        self.fitted = isl_unions.union(self.fitted, fits)
        self.one_to_one(left, right, fits, self.first)
        self.one_to_one(right, left, isl_unions.inverse(fits), self.second)
        left_over = isl_unions.relation(self.params, [])
        for term in ours:
            for counterpart in theirs:
                left_over = isl_unions.union(left_over, self.left_over(term, counterpart, fits))
        return left_over

    def terms(self, of: Terms, writes: isl_unions.Points) -> Iterator[_Term]:
        """The statements that make these terms."""
        for name in isl_unions.names(writes):
            place = of.places[name]
            here = isl_unions.of_names(writes, [name])
            found = [(leaf, *self.finds(of, here, place, leaf)) for leaf in of.leaves(place)]
            if _is_product(place.plain.value):
                ends = [
                    isl_unions.names(isl_unions.outputs(to)) for _, _, to in found if to is not None
                ]
                if len(ends) == 2 and ends[0] > ends[1]:
                    found.reverse()
            yield _Term(
                place,
                tuple(to for _, _, to in found if to is not None),
                tuple(leaf for leaf, what, _ in found if what in self.followed),
                tuple(what for _, what, _ in found),
            )

    @staticmethod
    def finds(
        of: Terms, here: isl_unions.Points, place: Place, leaf: Event
    ) -> tuple[Finds, isl_unions.Relation | None]:
        """Returns the values that a read of the statement finds at these writes, and its element if
        there is only one."""
        reads = of.reads_of(here, place, leaf)
        sums = of.sums(isl_unions.outputs(reads))
        given = sums.given if isl_unions.is_empty(sums.made) else of.rounded(sums)
        if given is not None:
            found = isl_unions.compose(reads, given)
            if isl_unions.is_function(found) and isl_unions.is_equal(
                isl_unions.inputs(found), here
            ):
                return ("element" if isl_unions.is_empty(sums.made) else "rounded"), found
        return "sum", None

    def fitting(
        self, term: _Term, other: _Term, left: isl_unions.Relation, right: isl_unions.Relation
    ) -> isl_unions.Relation:
        """The pairs of writes that could be each other's counterpart."""
        none = isl_unions.relation(self.params, [])
        variables = self.first.of.program.variables, self.second.of.program.variables
        if not same_term(term.place, variables[0], other.place, variables[1]):
            return none
        if term.pattern != other.pattern:
            return none
        mine = isl_unions.of_outputs(left, self.writes(self.first, term.place))
        its = isl_unions.of_outputs(right, self.writes(self.second, other.place))
        found = isl_unions.compose(isl_unions.inverse(mine), its)
        for one, two in zip(term.resolved, other.resolved, strict=True):
            found = isl_unions.intersect(found, isl_unions.compose(one, isl_unions.inverse(two)))
        return found

    @staticmethod
    def writes(of: Terms, place: Place) -> isl_unions.Points:
        return isl_unions.of_names(of.of.write_events, [place.events[-1].name])

    def one_to_one(
        self,
        left: isl_unions.Relation,
        right: isl_unions.Relation,
        fits: isl_unions.Relation,
        terms: Terms,
    ) -> None:
        """Each term of a pair has exactly one counterpart there."""
        pair, write = isl_unions.sides(left)
        counterparts = isl_unions.intersect(
            isl_unions.compose(pair, right), isl_unions.compose(write, fits)
        )
        alone = isl_unions.difference(isl_unions.inputs(pair), isl_unions.inputs(counterparts))
        if not isl_unions.is_empty(alone):
            self.differ(isl_unions.of_inputs(write, alone), terms, given=False)
        if not isl_unions.is_function(counterparts):
            raise Unclear("terms of one sum are alike, and cannot be told apart")

    def left_over(
        self, term: _Term, other: _Term, fits: isl_unions.Relation
    ) -> isl_unions.Relation:
        """Relates the reads of each pair of counterparts, as far as what they find are sums."""
        found = isl_unions.relation(self.params, [])
        here = isl_unions.of_outputs(
            isl_unions.of_inputs(fits, self.writes(self.first, term.place)),
            self.writes(self.second, other.place),
        )
        if isl_unions.is_empty(here):
            return found
        for mine, its in zip(term.others, other.others, strict=True):
            one = self.first.reads_of(isl_unions.inputs(here), term.place, mine)
            two = self.second.reads_of(isl_unions.outputs(here), other.place, its)
            whole = isl_unions.is_equal(isl_unions.inputs(one), isl_unions.inputs(here))
            if not (
                whole and isl_unions.is_equal(isl_unions.inputs(two), isl_unions.outputs(here))
            ):
                raise Unclear("an expression reads what lies outside of a clipped operand")
            found = isl_unions.union(
                found, isl_unions.compose(isl_unions.compose(isl_unions.inverse(one), here), two)
            )
        return found


def _is_product(value: ir.DExpr) -> bool:
    """Tests whether the value is a product of two elements: these may be exchanged, more keep their
    order."""
    match value:
        case ir.BinOp(op="*", left=ir.Read(), right=ir.Read()):
            return True
        case _:
            return False
