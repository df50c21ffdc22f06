"""Terms of bit vectors, and what holds of them: Z3's own terms, behind functions with types."""

from __future__ import annotations

from collections.abc import Callable, Iterable, Mapping, Sequence
from functools import reduce
from typing import Final, TypeAlias

import z3

Term: TypeAlias = z3.BitVecRef
"""A bit vector: `+`, `-`, `*`, `&`, `|`, `^`, `~` and `<<` of Python are those of its width."""

Formula: TypeAlias = z3.BoolRef
"""A truth value."""

RLIMIT: Final = 3_000_000
"""Z3's resource units for one question: a second or two."""


# --- terms ----------------------------------------------------------------------------------------


def constant(value: int, bits: int) -> Term:
    """A number, modulo 2^bits."""
    return z3.BitVecVal(value, bits)


def variable(name: str, bits: int) -> Term:
    """The unknown of this name."""
    return z3.BitVec(name, bits)


def fresh(name: str, bits: int) -> Term:
    """An unknown that no other call has made."""
    return z3.FreshConst(z3.BitVecSort(bits), name)


def fresh_truth(name: str) -> Formula:
    """A truth value that no other call has made."""
    return z3.FreshConst(z3.BoolSort(), name)


def width(term: Term) -> int:
    """The bits of a term."""
    return int(term.size())


def is_formula(term: Term | Formula) -> bool:
    """Tests whether it is a truth value, and no bit vector."""
    return bool(z3.is_bool(term))


def signed_value(term: Term) -> int | None:
    """The number that a term is; None where it is none."""
    return int(term.as_signed_long()) if z3.is_bv_value(term) else None


def extend(term: Term, bits: int, *, signed: bool) -> Term:
    """The term in more bits; itself in as many."""
    more = bits - width(term)
    if more == 0:
        return term
    if z3.is_bv_value(term):
        return z3.simplify(z3.SignExt(more, term) if signed else z3.ZeroExt(more, term))
    return call(_SIGN if signed else _ZERO, [term], bits)


_SIGN: Final = "sign extended"
_ZERO: Final = "zero extended"
"""Functions by which terms are extended until the solver is asked: its simplifier would take an
extended number to pieces."""


def _is_extended(term: Term, word: str) -> bool:
    return bool(z3.is_app(term) and term.num_args() == 1 and term.decl().name() == word)


_BY_LOW_BITS: Final = frozenset(
    {z3.Z3_OP_BADD, z3.Z3_OP_BSUB, z3.Z3_OP_BMUL, z3.Z3_OP_BNEG}
    | {z3.Z3_OP_BAND, z3.Z3_OP_BOR, z3.Z3_OP_BXOR, z3.Z3_OP_BNOT}
)
"""Operations whose low bits depend on low bits alone."""

_COMBINED: Final[Mapping[int, Callable[[Term, Term], Term]]] = {
    z3.Z3_OP_BADD: lambda a, b: a + b,
    z3.Z3_OP_BSUB: lambda a, b: a - b,
    z3.Z3_OP_BMUL: lambda a, b: a * b,
    z3.Z3_OP_BAND: lambda a, b: a & b,
    z3.Z3_OP_BOR: lambda a, b: a | b,
    z3.Z3_OP_BXOR: lambda a, b: a ^ b,
}


def part(term: Term, first: int, bits: int) -> Term:
    """So many bits of a term, from the first on."""
    if first == 0 and bits == width(term):
        return term
    if first == 0 and z3.is_app(term):
        kind = term.decl().kind()
        if kind in _BY_LOW_BITS:
            parts = [part(child, 0, bits) for child in term.children()]
            if len(parts) == 1:
                return -parts[0] if kind == z3.Z3_OP_BNEG else ~parts[0]
            return reduce(_COMBINED[kind], parts)
        for word in (_SIGN, _ZERO):
            if _is_extended(term, word):
                inner = term.arg(0)
                if width(inner) >= bits:
                    return part(inner, 0, bits)
                return extend(inner, bits, signed=word == _SIGN)
    return z3.Extract(first + bits - 1, first, term)


def distributed(term: Term, is_exact: Callable[[Formula], bool]) -> Term:
    """The term with sums and products of extended numbers in place of extended sums and products,
    where `is_exact` says that the two are equal."""
    found: dict[int, Term] = {}
    for one in _from_leaves(term, found):
        children = [found[child.get_id()] for child in one.children()]
        made = one.decl()(*children) if children else one
        if _is_extended(made, _SIGN):
            made = _extended_parts(made, is_exact)
        found[one.get_id()] = made
    return simplified(found[term.get_id()])


def _extended_parts(term: Term, is_exact: Callable[[Formula], bool]) -> Term:
    inner, bits = term.arg(0), width(term)
    kind = inner.decl().kind()
    if kind not in (z3.Z3_OP_BADD, z3.Z3_OP_BMUL) or not is_linear(inner):
        return term
    parts = [extend(child, bits, signed=True) for child in inner.children()]
    if not is_exact(term == reduce(_COMBINED[kind], parts)):
        return term
    opened = [_extended_parts(one, is_exact) if _is_extended(one, _SIGN) else one for one in parts]
    return reduce(_COMBINED[kind], opened)


def is_linear(term: Term) -> bool:
    """Tests whether it is no product of unknowns."""
    if term.decl().kind() != z3.Z3_OP_BMUL:
        return True
    return sum(not z3.is_bv_value(child) for child in term.children()) < 2


def joined(parts: Sequence[Term]) -> Term:
    """The concatenation, the lowest bits first."""
    return parts[0] if len(parts) == 1 else z3.Concat(*reversed(parts))


def shift_right(term: Term, count: Term, *, signed: bool) -> Term:
    """The term shifted right, filled with its sign or with zeros."""
    return term >> count if signed else z3.LShR(term, count)


def choose(condition: Formula, one: Term | Formula, other: Term | Formula) -> Term | Formula:
    """The one where the condition holds, else the other."""
    return one if one.eq(other) else z3.If(condition, one, other)


def call(name: str, arguments: Sequence[Term | Formula], bits: int) -> Term:
    """The value of a function of which nothing is known but that equal arguments give equal
    values."""
    sorts = [one.sort() for one in arguments]
    return z3.Function(name, *sorts, z3.BitVecSort(bits))(*arguments)


def call_truth(name: str, arguments: Sequence[Term | Formula]) -> Formula:
    """The same, of a predicate."""
    return z3.Function(name, *(one.sort() for one in arguments), z3.BoolSort())(*arguments)


def floor_divided(term: Term, divisor: int) -> Term:
    """The quotient of a signed number, rounded down; the divisor is positive."""
    if divisor & (divisor - 1) == 0:
        if _is_extended(term, _SIGN) and divisor.bit_length() <= width(term.arg(0)):
            return extend(floor_divided(term.arg(0), divisor), width(term), signed=True)
        return term >> constant(divisor.bit_length() - 1, width(term))
    return (term - floor_rest(term, divisor)) / constant(divisor, width(term))


def floor_rest(term: Term, divisor: int) -> Term:
    """The remainder of a signed number, in `0 .. divisor - 1`."""
    if divisor & (divisor - 1) == 0:
        if _is_extended(term, _SIGN) and divisor.bit_length() < width(term.arg(0)):
            return extend(floor_rest(term.arg(0), divisor), width(term), signed=True)
        return term & constant(divisor - 1, width(term))
    return term % constant(divisor, width(term))  # bvsmod: with the sign of the divisor


def substitute(term: Term, pairs: Sequence[tuple[Term, Term]]) -> Term:
    """The term with others in place of some."""
    return z3.substitute(term, *pairs)


def simplified(term: Term) -> Term:
    """An equal term, of sums of products."""
    return z3.simplify(term, som=True)


# --- formulas -------------------------------------------------------------------------------------

TRUE: Final[Formula] = z3.BoolVal(True)

_SIGNED: Final[Mapping[str, Callable[[Term, Term], Formula]]] = {
    "eq": lambda a, b: a == b,
    "ne": lambda a, b: a != b,
    "lt": lambda a, b: a < b,
    "le": lambda a, b: a <= b,
    "gt": lambda a, b: a > b,
    "ge": lambda a, b: a >= b,
}

_UNSIGNED: Final[Mapping[str, Callable[[Term, Term], Formula]]] = {
    **_SIGNED,
    "lt": z3.ULT,
    "le": z3.ULE,
    "gt": z3.UGT,
    "ge": z3.UGE,
}


def compare(word: str, one: Term, other: Term, *, signed: bool = True) -> Formula:
    """The comparison of two numbers: `eq`, `ne`, `lt`, `le`, `gt` or `ge`."""
    return (_SIGNED if signed else _UNSIGNED)[word](one, other)


def equal(one: Term, other: Term) -> Formula:
    """The claim that two terms are equal; simply true of one polynomial written twice."""
    if is_formula(one):
        return one == other
    return simplified(one - other) == 0


def conjunction(parts: Iterable[Formula]) -> Formula:
    """The claim that all of them hold."""
    return z3.And(*parts)


def disjunction(parts: Iterable[Formula]) -> Formula:
    """The claim that one of them holds."""
    return z3.Or(*parts)


def negation(formula: Formula) -> Formula:
    """The claim that it does not hold."""
    return z3.Not(formula)


def exclusive(one: Formula, other: Formula) -> Formula:
    """The claim that exactly one of two holds."""
    return z3.Xor(one, other)


# --- questions ------------------------------------------------------------------------------------


class Prover:
    """Answers whether a claim follows from others; it counts its questions, and keeps a model of
    the last claim that does not follow."""

    def __init__(self) -> None:
        self.asked = 0
        self.undecided = 0
        self.model: Mapping[str, int] = {}
        self._answers: dict[tuple[tuple[int, ...], int], bool] = {}
        self._alive: list[object] = []  # numbers of terms are given again
        self._linear: dict[int, Formula] = {}
        self._names: dict[int, frozenset[str]] = {}

    def follows(self, known: Sequence[Formula], claim: Formula) -> bool:
        """Tests whether the claim holds wherever all that is known does.

        False also where Z3 does not decide it within its limit.
        """
        claim = z3.simplify(claim, som=True)
        if z3.is_true(claim):
            return True
        relevant = self._relevant(known, claim)
        key = (tuple(one.get_id() for one in relevant), claim.get_id())
        if key not in self._answers:
            self._alive += [claim, *relevant]
            self._answers[key] = self._ask(relevant, claim)
        return self._answers[key]

    def decide(self, known: Sequence[Formula], claim: Formula) -> bool | None:
        """The truth of the claim wherever all that is known holds; None where it may be either."""
        if self.follows(known, claim):
            return True
        return False if self.follows(known, negation(claim)) else None

    def _ask(self, known: Sequence[Formula], claim: Formula) -> bool:
        self.asked += 1
        solver = z3.SimpleSolver()
        solver.set("rlimit", RLIMIT)
        solver.add(*(self._abstracted(one) for one in known))
        solver.add(z3.Not(self._abstracted(claim)))
        word = solver.check()
        if word == z3.sat:
            model = solver.model()
            self.model = {
                one.name(): int(model[one].as_signed_long())
                for one in model.decls()
                if one.arity() == 0 and z3.is_bv_value(model[one])
            }
        self.undecided += word == z3.unknown
        return bool(word == z3.unsat)

    def _relevant(self, known: Sequence[Formula], claim: Formula) -> list[Formula]:
        """The facts about the claim's unknowns, about unknowns in these facts, and so on."""
        names = set(self.names_in(claim))
        rest, found, grown = list(known), set(), True
        while grown:
            grown = False
            for one in rest:
                if one.get_id() not in found and self.names_in(one) & names:
                    found.add(one.get_id())
                    names |= self.names_in(one)
                    grown = True
        return [one for one in rest if one.get_id() in found]

    def names_in(self, term: Term | Formula) -> frozenset[str]:
        """The unknowns of a term, and its functions of which nothing is known."""
        for one in _from_leaves(term, self._names):
            own: frozenset[str] = frozenset()
            if one.decl().kind() == z3.Z3_OP_UNINTERPRETED and not one.num_args():
                own = frozenset({one.decl().name()})
            self._names[one.get_id()] = own.union(
                *(self._names[child.get_id()] for child in one.children())
            )
            self._alive.append(one)
        return self._names[term.get_id()]

    def _abstracted(self, formula: Formula) -> Formula:
        """The formula with an unknown function for each product of unknowns: what follows of it
        follows of products."""
        for one in _from_leaves(formula, self._linear):
            children = [self._linear[child.get_id()] for child in one.children()]
            unknown = [child for child in children if not z3.is_bv_value(child)]
            if one.decl().kind() == z3.Z3_OP_BMUL and len(unknown) > 1:
                ordered = sorted(unknown, key=self._order)
                made = call(f"product{len(ordered)}_{one.size()}", ordered, one.size())
                for number in children:
                    made = made * number if z3.is_bv_value(number) else made
            elif _is_extended(one, _SIGN):
                made = z3.SignExt(one.size() - children[0].size(), children[0])
            elif _is_extended(one, _ZERO):
                made = z3.ZeroExt(one.size() - children[0].size(), children[0])
            else:
                made = one.decl()(*children) if children else one
            self._linear[one.get_id()] = made
            self._alive += [one, made]
        return self._linear[formula.get_id()]

    def _order(self, factor: Term) -> tuple[list[str], int]:
        """The place of a factor: by its unknowns, which equal factors mostly have alike."""
        return sorted(self.names_in(factor)), int(factor.get_id())


def _from_leaves(term: Term | Formula, known: Mapping[int, object]) -> Iterable[Term | Formula]:
    """The parts of a term that are not known, each after its own parts."""
    stack = [(term, False)]
    while stack:
        one, ready = stack.pop()
        if one.get_id() in known:
            continue
        if ready:
            yield one
            continue
        stack.append((one, True))
        stack += [(child, False) for child in one.children() if child.get_id() not in known]
