"""Values and conditions as text, for messages."""

from __future__ import annotations

from collections.abc import Mapping, Sequence

from exogpu.diagnostics.errors import Span
from exogpu.importing import polynomial_values
from exogpu.importing.refusals import unknown_value
from exogpu.importing.value_proofs import follows, settled
from exogpu.ir import nodes as ir
from exogpu.ir.types import Sym


def value_text(value: polynomial_values.Value) -> str:
    """A value as Python writes it."""
    parts = []
    for product, factor in sorted(value.terms, key=lambda term: not term[0]):
        factors = [_atom(atom) for atom in product]
        if factor != 1 or not factors:
            factors.insert(0, str(factor))
        parts.append(" * ".join(factors))
    return " + ".join(parts[::-1]).replace("+ -", "- ") or "0"


def _atom(atom: polynomial_values.Atom) -> str:
    match atom:
        case polynomial_values.Variable():
            return atom.name.strip("%")
        case polynomial_values.Floor():
            return f"({value_text(atom.term)}) // {atom.divisor}"
        case polynomial_values.Remainder():
            return f"({value_text(atom.term)}) % {atom.divisor}"
        case polynomial_values.Toward():
            op = "//" if atom.part == "quotient" else "%"
            return f"({value_text(atom.term)}) {op} ({value_text(atom.divisor)})"
        case polynomial_values.Choice():
            condition = shown_condition(atom.condition)
            return f"({value_text(atom.first)} if {condition} else {value_text(atom.second)})"


def shown_condition(condition: polynomial_values.Condition) -> str:
    """A condition as Python writes it."""
    match condition:
        case polynomial_values.Known():
            return str(condition.value)
        case polynomial_values.Compare():
            return f"{value_text(condition.value)} {condition.op} 0"
        case polynomial_values.Negation():
            return f"not ({shown_condition(condition.term)})"
        case polynomial_values.Both():
            return f"{shown_condition(condition.first)} and {shown_condition(condition.second)}"
        case polynomial_values.Unread():
            return condition.name.strip("%")


# Values and conditions as expressions of the IR.

Names = Mapping[polynomial_values.Variable, Sym]


def expression(
    value: polynomial_values.Value,
    names: Names,
    facts: Sequence[polynomial_values.Condition],
    span: Span,
    what: str,
) -> ir.CExpr:
    """An affine value.  Raises RefusedError (K103) for another one."""
    value = settled(value, facts)
    found: ir.CExpr | None = None
    for product, factor in sorted(value.terms, key=lambda term: (not term[0], term[1] < 0)):
        if len(product) > 1 or (product and not _writable(product[0], names)):
            raise unknown_value(f"{what} is {value_text(value)}", span)
        term: ir.CExpr = _atom_expression(product[0], names) if product else ir.Int(abs(factor))
        if product and abs(factor) != 1:
            term = ir.Mul(abs(factor), term)
        if found is None:
            found = term if factor > 0 else ir.Sub(ir.Int(0), term)
        else:
            found = ir.Add(found, term) if factor > 0 else ir.Sub(found, term)
    return ir.Int(0) if found is None else found


def _writable(atom: polynomial_values.Atom, names: Names) -> bool:
    match atom:
        case polynomial_values.Variable():
            return atom in names
        case polynomial_values.Floor() | polynomial_values.Remainder():
            return all(
                len(product) < 2 and (not product or _writable(product[0], names))
                for product, _ in atom.term.terms
            )
        case _:
            return False


def _atom_expression(atom: polynomial_values.Atom, names: Names) -> ir.CExpr:
    match atom:
        case polynomial_values.Variable():
            return ir.CVar(names[atom])
        case polynomial_values.Floor():
            return ir.FloorDiv(_plain(atom.term, names), atom.divisor)
        case polynomial_values.Remainder():
            return ir.Mod(_plain(atom.term, names), atom.divisor)
        case _:
            raise AssertionError(atom)


def _plain(value: polynomial_values.Value, names: Names) -> ir.CExpr:
    return expression(value, names, (), Span("", 0, 0, 0, 0), "")


def condition(
    given: polynomial_values.Condition,
    names: Names,
    facts: Sequence[polynomial_values.Condition],
    span: Span,
) -> ir.BExpr:
    """A condition whose comparisons are affine.  Raises RefusedError (K103) for another one."""
    match given:
        case polynomial_values.Known():
            return ir.Truth(given.value)
        case _ if follows(facts, given):
            return ir.Truth(True)
        case polynomial_values.Compare(op=op, value=value):
            less = {product: -factor for product, factor in value.terms if factor < 0}
            right = polynomial_values.Value(
                tuple(sorted(less.items(), key=lambda term: repr(term[0])))
            )
            what = "what a condition compares"
            left = expression(value + right, names, facts, span, what)
            return ir.Compare(op, left, expression(right, names, facts, span, what))
        case polynomial_values.Negation():
            return ir.Not(condition(given.term, names, facts, span))
        case polynomial_values.Both():
            first = condition(given.first, names, facts, span)
            return ir.And(first, condition(given.second, names, facts, span))
        case polynomial_values.Unread():
            raise unknown_value(
                f"whether this happens depends on data ({shown_condition(given)})", span
            )


def is_excluded(
    given: polynomial_values.Condition, facts: Sequence[polynomial_values.Condition]
) -> bool:
    """Returns whether the facts are proved to exclude a condition."""
    return given == polynomial_values.Known(False) or follows(
        (*facts, given), polynomial_values.compare("==", polynomial_values.Value() + 1)
    )
