"""Obligations as SMT-LIB 2 scripts that a person can read."""

from __future__ import annotations

import re
from collections.abc import Callable, Iterable, Iterator, Mapping, Sequence
from dataclasses import dataclass
from functools import partial
from typing import TypeAlias

from exogpu.amir.nodes import Check, CheckInitialised, Loop, Record
from exogpu.ir import nodes as ir
from exogpu.ir.render import smt_cond, smt_expr
from exogpu.ir.types import Sym
from exogpu.ir.walk import substitute
from exogpu.solvers.smtlib import NAME, RESERVED, heading, wrapped
from exogpu.symbolic.encode import formulas
from exogpu.symbolic.encode.pieces import Pieces
from exogpu.symbolic.model import Placed, conjuncts
from exogpu.symbolic.sites import Site, loads_around, read_through

# Values from memory in formulas: functions of an array and an element alone (decision
# `loaded-values`).
#
# A script has a constant for what an array has at an element, wherever it speaks of it. Of two
# such constants it says what holds of every function: at one element they are equal; and what the
# contracts of the array say of two elements. So no script needs functions or quantifiers, and
# what is refuted with these constants is refuted for all contents that satisfy the contracts.


@dataclass(frozen=True, slots=True)
class _Value:
    """The value of an array at an element."""

    element: tuple[ir.CExpr, ...]
    value: ir.CExpr


class Loads:
    """The values that one script speaks of."""

    def __init__(self, placed: Placed) -> None:
        self.placed = placed
        self._values: dict[Sym, list[tuple[_Value, tuple[str, ...]]]] = {}
        """By array, with the texts of element and value."""
        self._contracts: dict[Sym, dict[str, int | None]] = {}
        """By array, the contracts and the least elements that they are about."""
        for one in placed.program.contracts:
            self._contracts.setdefault(one.array, {})[one.kind] = one.least

    def copy(self) -> Loads:
        """The same values, for another script that speaks of them."""
        made = Loads(self.placed)
        made._values = {name: [*known] for name, known in self._values.items()}
        return made

    def assume(
        self, script: Script, instance: formulas.Instance, read: frozenset[Sym] | None
    ) -> None:
        """Assumes that loaded iterators of an instance (those read, or all) equal the values of
        their elements."""
        site = instance.site
        told = None if read is None else read_through(site, read)
        for load in loads_around(site):
            assert load.source is not None
            if told is not None and load.iterator not in told:
                continue
            element = formulas.element_of(instance, load.source)
            self._add(script, load.source.name, _Value(element, instance.values[load.iterator]))

    def executed(self, script: Script, instance: formulas.Instance) -> formulas.Instance:
        """The instance with the values that it loads: those of a witness do not matter."""
        values = dict(instance.values)
        for load in loads_around(instance.site):
            here = formulas.Instance(instance.site, values)
            values[load.iterator] = self._value(script, load, here)
            self._in_range(script, load, values)
        return formulas.Instance(instance.site, values)

    def _value(self, script: Script, load: Loop, instance: formulas.Instance) -> ir.CExpr:
        """Returns the constant that stands for the loaded value at an instance's element; equal
        elements share one."""
        assert load.source is not None
        name, element = load.source.name, formulas.element_of(instance, load.source)
        for known, _ in self._values.get(name, ()):
            if known.element == element:
                return known.value
        made = script.constant(Sym(f"{self.placed.called[name]}.value"))
        self._add(script, name, _Value(element, made))
        return made

    def _in_range(self, script: Script, load: Loop, values: Mapping[Sym, ir.CExpr]) -> None:
        """Assumes that a value is in its range wherever its load is reached: the kernel would have
        trapped."""
        site, value = self.placed.loads[load], values[load.iterator]
        around = {name: values[name] for name in site.iterators}

        def ends() -> Iterator[tuple[ir.BExpr, ir.BExpr]]:
            reached = formulas.exists(formulas.Instance(site, around))
            yield reached, formulas.at_most(substitute(load.lo, around), value)
            yield reached, formulas.less_than(value, substitute(load.hi, around))

        script.share(("range", site.number, script.texts((*around.values(), value))), ends)

    def _add(self, script: Script, name: Sym, new: _Value) -> None:
        known = self._values.setdefault(name, [])
        texts = script.texts((*new.element, new.value))
        for one, others in known:
            key = ("loaded", name, others, texts)
            script.share(key, partial(self._related, name, one, new))
        known.append((new, texts))

    def _related(self, name: Sym, one: _Value, new: _Value) -> Iterator[tuple[ir.BExpr, ir.BExpr]]:
        """Yields premises and conclusions that relate two values of an array."""
        said = [(_same_element(one, new), formulas.equal(one.value, new.value))]
        kinds = self._contracts.get(name, {})
        for kind, bound in kinds.items():
            if kind == "injective":
                equal = formulas.equal(one.value, new.value)
                said.append((_and_meant(equal, bound, one), _same_element(one, new)))
                continue
            for left, right in ((one, new), (new, one)):
                (first,), (second,) = left.element, right.element
                least = left.value
                if "injective" in kinds and bound is None:  # each is greater than the one before
                    least = ir.Add(least, ir.Sub(second, first))
                premise = _and_meant(formulas.at_most(first, second), bound, left, right)
                said.append((premise, formulas.at_most(least, right.value)))
        return ((premise, conclusion) for premise, conclusion in said if premise != formulas.FALSE)


def _and_meant(premise: ir.BExpr, bound: int | None, *values: _Value) -> ir.BExpr:
    """The premise, of elements that a contract is about."""
    if bound is None:
        return premise
    meant = (formulas.at_most(ir.Int(bound), one.value) for one in values)
    return formulas.conjunction_of((premise, *meant))


def _same_element(one: _Value, other: _Value) -> ir.BExpr:
    return formulas.conjunction_of(
        formulas.equal(a, b) for a, b in zip(one.element, other.element, strict=True)
    )


Texts: TypeAlias = dict[tuple[object, ...], tuple[str, ...]]
"""Lines of scripts, by all that they depend on: most scripts of a program share most lines."""


class Script:
    """A script under construction: constants, what is known of them, and what is refuted."""

    def __init__(
        self, called: Mapping[Sym, str], shared: Texts, loads: Loads | None = None
    ) -> None:
        self._called = called
        self._shared = shared
        self._loads = loads
        self._names: dict[Sym, str] = {}
        self._taken = set(RESERVED)
        self._lines: list[str] = []
        self._instances: dict[tuple[int, str], tuple[str, formulas.Instance]] = {}
        self._defined: dict[str, ir.CVar] = {}
        self._nodes: dict[str, str] = {}
        self._said: set[str] = set()
        self._labels = 0

    def copy(self) -> Script:
        """Another script that begins as this one."""
        loads = None if self._loads is None else self._loads.copy()
        made = Script(self._called, self._shared, loads)
        made._names = self._names.copy()
        made._taken = self._taken.copy()
        made._lines = self._lines.copy()
        made._instances = self._instances.copy()
        made._defined = self._defined.copy()
        made._nodes = self._nodes.copy()
        made._said = self._said.copy()
        made._labels = self._labels
        return made

    # --- integers -------------------------------------------------------------------------

    def constant(self, name: Sym, prefix: str = "") -> ir.CVar:
        """Declares an integer of which only what is assumed is known."""
        self._lines.append(f"(declare-const {self._name(name, prefix)} Int)")
        return ir.CVar(name)

    def define(self, label: str, value: ir.CExpr | Pieces) -> ir.CExpr:
        """The value under a name; a variable or constant is its own, and what has a name keeps
        it."""
        if isinstance(value, tuple) and len(value) == 1:
            value = value[0][1]
        if isinstance(value, ir.Int | ir.CVar):
            return value
        text = self._text(value)
        if text not in self._defined:
            self._defined[text] = self._define(label, text)
        return self._defined[text]

    def _define(self, label: str, text: str) -> ir.CVar:
        name = Sym(label)
        self._lines.append(f"(define-fun {self._name(name, '')} () Int {text})")
        return ir.CVar(name)

    def _text(self, value: ir.CExpr | Pieces) -> str:
        if not isinstance(value, tuple):
            return smt_expr(value, self._names)
        text = smt_expr(value[-1][1], self._names)
        for where, one in reversed(value[:-1]):
            text = f"(ite {smt_cond(where, self._names)} {smt_expr(one, self._names)} {text})"
        return text

    def free(
        self, site: Site, prefix: str, read: frozenset[Sym] | None = None
    ) -> formulas.Instance:
        """An instance whose iterators are constants; where only those of `read` matter, of others
        it is not said that their values are loaded."""
        values: dict[Sym, ir.CExpr] = {}
        for name in site.iterators:
            values[name] = self.constant(Sym(self._called[name]), prefix)
        instance = formulas.Instance(site, values)
        if self._loads is not None:
            self._loads.assume(self, instance, read)
        return instance

    def renew_loads(self) -> None:
        """Begins with new loaded values, unrelated to earlier ones: no named formula is about
        both."""
        if self._loads is not None:
            self._loads = Loads(self._loads.placed)

    def thread(self, instance: formulas.Instance, label: str) -> ir.CExpr:
        """One of the threads that execute an instance."""
        threads = instance.site.op.origin.threads
        assert threads is not None
        at = [self.constant(Sym(f"{label}{number}")) for number in range(len(threads.axes))]
        self.assume(formulas.on_axes(threads, at))
        return self.define(label, formulas.thread_at(threads, instance.values, at))

    def name_instance(self, instance: formulas.Instance) -> tuple[str, formulas.Instance]:
        """The instance under a name, which a comment explains, with its iterators under names of
        their own; one instance has one name.  What it loads is what its elements have."""
        if self._loads is not None:
            instance = self._loads.executed(self, instance)
        site = instance.site
        texts = {name: self._text(value) for name, value in instance.values.items()}
        key = (site.number, " ".join(texts.values()))
        if key not in self._instances:
            label = self.label(site)
            values: dict[Sym, ir.CExpr] = {
                name: value
                if isinstance(value, ir.Int | ir.CVar)
                else self._define(f"{label}.{self._called[name]}", texts[name])
                for name, value in instance.values.items()
            }
            self._instances[key] = (label, formulas.Instance(site, values))
        return self._instances[key]

    def _name(self, name: Sym, prefix: str) -> str:
        plain = prefix + name.name
        if not NAME.fullmatch(plain):
            plain = re.sub(r"[^A-Za-z0-9_.]", lambda other: f"u{ord(other[0]):x}", plain)
        found, count = plain, 1
        while found in self._taken:
            count += 1
            found = f"{plain}_{count}"
        self._taken.add(found)
        assert NAME.fullmatch(found)
        self._names[name] = found
        return found

    # --- formulas -------------------------------------------------------------------------

    def label(self, site: Site) -> str:
        """A new name for an instance of a site, explained in a comment."""
        self._labels += 1
        word = type(site.op).__name__.lower()
        if isinstance(site.op, Loop):
            word = "slot" if site.op.slot is not None else "load"
        label = f"{word}{self._labels}"
        key = ("label", label, site.number)
        if key not in self._shared:
            text = f"{label}: line {site.op.origin.span.line}: {site.op.origin.text}"
            self._shared[key] = tuple(f"; {line}" for line in wrapped(text))
        self._lines += self._shared[key]
        return label

    def assume(self, formula: ir.BExpr) -> None:
        """Asserts a formula, one line for each of its parts."""
        for part in self._parts(formula):
            self._say(f"(assert {part})")

    def assume_exists(self, free: formulas.Instance) -> None:
        """Assumes that an instance of constants is executed."""
        key = ("exists", free.site.number, self.texts(free.values.values()))
        self.share(key, lambda: [(formulas.TRUE, formulas.exists(free))])

    def assume_inside(self, free: formulas.Instance, element: Sequence[ir.CVar]) -> None:
        """Assumes that constants are an element of the access of an instance of constants."""
        op = free.site.op
        assert isinstance(op, Record | Check | CheckInitialised)
        key = ("inside", free.site.number, self.texts((*free.values.values(), *element)))
        self.share(
            key, lambda: [(formulas.TRUE, formulas.lies_in_window(free, op.access, element))]
        )

    def share(
        self, key: tuple[object, ...], said: Callable[[], Iterable[tuple[ir.BExpr, ir.BExpr]]]
    ) -> None:
        """Says formulas with their premises, whose text depends on the key alone: another script
        may have made it."""
        if key not in self._shared:
            self._shared[key] = tuple(
                line for premise, formula in said() for line in self._implied(premise, formula)
            )
        for line in self._shared[key]:
            self._say(line)

    def _implied(self, premise: ir.BExpr, formula: ir.BExpr) -> list[str]:
        if premise == formulas.TRUE:
            return [f"(assert {part})" for part in self._parts(formula)]
        return [self._implication(self._parts(premise), formula)]

    def texts(self, values: Iterable[ir.CExpr]) -> tuple[str, ...]:
        """Expressions as they are written."""
        return tuple(self._text(value) for value in values)

    def _parts(self, formula: ir.BExpr) -> list[str]:
        """All that has to hold for a formula to hold."""
        return [
            smt_cond(part, self._names)
            for part in conjuncts(formula)
            if not (isinstance(part, ir.Truth) and part.value)
        ]

    def _say(self, line: str) -> None:
        if line not in self._said:
            self._said.add(line)
            self._lines.append(line)

    def imply(self, known: Sequence[str], premise: ir.BExpr, conclusion: ir.BExpr) -> None:
        """Asserts that the named formulas and the premise imply the conclusion."""
        self._say(self._implication([*known, *self._parts(premise)], conclusion))

    def _implication(self, known: Sequence[str], conclusion: ir.BExpr) -> str:
        then = smt_cond(conclusion, self._names)
        return f"(assert (=> {_joined('and', known)} {then}))"

    def node(self, label: str, parts: Iterable[ir.BExpr | list[str]]) -> str:
        """A named formula: all of its parts, where a list of names offers a choice."""
        terms: list[str] = []
        for part in parts:
            if isinstance(part, list):
                terms.append(_joined("or", list(dict.fromkeys(part))))
            else:
                terms += self._parts(part)
        text = _joined("and", list(dict.fromkeys(terms)))
        if text not in self._nodes:
            self._nodes[text] = self._name(Sym(label), "")
            self._lines.append(f"(define-fun {self._nodes[text]} () Bool {text})")
        return self._nodes[text]

    def refute(self, ways: Sequence[str]) -> None:
        """Asserts that none of the named formulas holds."""
        negated = [f"(not {way})" for way in ways]
        self._lines.append(f"(assert {_joined('and', negated)})")

    def expose(self, failures: Sequence[str]) -> None:
        """Asserts that one of the named formulas holds."""
        self._lines.append(f"(assert {_joined('or', list(failures))})")

    def text(self, claim: str) -> str:
        """The script, with the claim as a comment above it."""
        return heading(claim) + "\n".join([*self._lines, "(check-sat)", ""])


def _joined(connective: str, terms: Sequence[str]) -> str:
    if len(terms) == 1:
        return terms[0]
    if not terms:
        return "true" if connective == "and" else "false"
    return f"({connective} {' '.join(terms)})"
