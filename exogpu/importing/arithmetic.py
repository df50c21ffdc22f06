"""Values and conditions as expressions of the IR."""

from __future__ import annotations

from collections.abc import Mapping, Sequence

from exogpu.importing.proving import follows, settled
from exogpu.importing.refusing import unknown_value
from exogpu.importing.showing import shown, shown_condition
from exogpu.importing.values import (
    Atom,
    Both,
    Compare,
    Condition,
    Floor,
    Known,
    Negation,
    Remainder,
    Unread,
    Value,
    Variable,
    compare,
)
from exogpu.ir.names import Sym
from exogpu.ir.nodes import (
    Add,
    And,
    BExpr,
    CExpr,
    CVar,
    FloorDiv,
    Int,
    Mod,
    Mul,
    Not,
    Sub,
    Truth,
)
from exogpu.ir.nodes import Compare as CompareNode
from exogpu.result.errors import Span

Names = Mapping[Variable, Sym]


def expression(
    value: Value, names: Names, facts: Sequence[Condition], span: Span, what: str
) -> CExpr:
    """An affine value.  Raises RefusedError (K103) for another one."""
    value = settled(value, facts)
    found: CExpr | None = None
    for product, factor in sorted(value.terms, key=lambda term: (not term[0], term[1] < 0)):
        if len(product) > 1 or (product and not _writable(product[0], names)):
            raise unknown_value(f"{what} is {shown(value)}", span)
        term: CExpr = _atom(product[0], names) if product else Int(abs(factor))
        if product and abs(factor) != 1:
            term = Mul(abs(factor), term)
        if found is None:
            found = term if factor > 0 else Sub(Int(0), term)
        else:
            found = Add(found, term) if factor > 0 else Sub(found, term)
    return Int(0) if found is None else found


def _writable(atom: Atom, names: Names) -> bool:
    match atom:
        case Variable():
            return atom in names
        case Floor() | Remainder():
            return all(
                len(product) < 2 and (not product or _writable(product[0], names))
                for product, _ in atom.term.terms
            )
        case _:
            return False


def _atom(atom: Atom, names: Names) -> CExpr:
    match atom:
        case Variable():
            return CVar(names[atom])
        case Floor():
            return FloorDiv(_plain(atom.term, names), atom.divisor)
        case Remainder():
            return Mod(_plain(atom.term, names), atom.divisor)
        case _:
            raise AssertionError(atom)


def _plain(value: Value, names: Names) -> CExpr:
    return expression(value, names, (), Span("", 0, 0, 0, 0), "")


def condition(given: Condition, names: Names, facts: Sequence[Condition], span: Span) -> BExpr:
    """A condition whose comparisons are affine.  Raises RefusedError (K103) for another one."""
    match given:
        case Known():
            return Truth(given.value)
        case _ if follows(facts, given):
            return Truth(True)
        case Compare(op=op, value=value):
            less = {product: -factor for product, factor in value.terms if factor < 0}
            right = Value(tuple(sorted(less.items(), key=lambda term: repr(term[0]))))
            what = "what a condition compares"
            left = expression(value + right, names, facts, span, what)
            return CompareNode(op, left, expression(right, names, facts, span, what))
        case Negation():
            return Not(condition(given.term, names, facts, span))
        case Both():
            first = condition(given.first, names, facts, span)
            return And(first, condition(given.second, names, facts, span))
        case Unread():
            raise unknown_value(
                f"whether this happens depends on data ({shown_condition(given)})", span
            )


def is_excluded(given: Condition, facts: Sequence[Condition]) -> bool:
    """Returns whether the facts are proved to exclude a condition."""
    return given == Known(False) or follows((*facts, given), compare("==", Value() + 1))
