"""Obligations as SMT-LIB 2 scripts that a person can read."""

from __future__ import annotations

import re
from collections.abc import Callable, Iterable, Mapping, Sequence
from typing import TypeAlias

from exogpu.amir.nodes import Check, CheckInitialised, Loop, Record
from exogpu.ir.names import Sym
from exogpu.ir.nodes import BExpr, CExpr, CVar, Int, Truth
from exogpu.ir.smttext import bexpr, cexpr
from exogpu.solvers.smtlib import NAME, RESERVED, heading, wrapped
from exogpu.symbolic.encode.expressions import Pieces
from exogpu.symbolic.encode.formulas import TRUE, Instance, exists, inside, on_axes, thread_at
from exogpu.symbolic.encode.loads import Loads
from exogpu.symbolic.placed import conjuncts
from exogpu.symbolic.sites import Site

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
        self._instances: dict[tuple[int, str], tuple[str, Instance]] = {}
        self._defined: dict[str, CVar] = {}
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

    def constant(self, name: Sym, prefix: str = "") -> CVar:
        """Declares an integer of which only what is assumed is known."""
        self._lines.append(f"(declare-const {self._name(name, prefix)} Int)")
        return CVar(name)

    def define(self, label: str, value: CExpr | Pieces) -> CExpr:
        """The value under a name; a variable or constant is its own, and what has a name keeps
        it."""
        if isinstance(value, tuple) and len(value) == 1:
            value = value[0][1]
        if isinstance(value, Int | CVar):
            return value
        text = self._text(value)
        if text not in self._defined:
            self._defined[text] = self._new(label, text)
        return self._defined[text]

    def _new(self, label: str, text: str) -> CVar:
        name = Sym(label)
        self._lines.append(f"(define-fun {self._name(name, '')} () Int {text})")
        return CVar(name)

    def _text(self, value: CExpr | Pieces) -> str:
        if not isinstance(value, tuple):
            return cexpr(value, self._names)
        text = cexpr(value[-1][1], self._names)
        for where, one in reversed(value[:-1]):
            text = f"(ite {bexpr(where, self._names)} {cexpr(one, self._names)} {text})"
        return text

    def free(self, site: Site, prefix: str, read: frozenset[Sym] | None = None) -> Instance:
        """An instance whose iterators are constants; where only those of `read` matter, of others
        it is not said that their values are loaded."""
        values: dict[Sym, CExpr] = {}
        for name in site.iterators:
            values[name] = self.constant(Sym(self._called[name]), prefix)
        instance = Instance(site, values)
        if self._loads is not None:
            self._loads.assume(self, instance, read)
        return instance

    def apart(self) -> None:
        """Begins with new loaded values, unrelated to earlier ones: no named formula is about
        both."""
        if self._loads is not None:
            self._loads = Loads(self._loads.placed)

    def thread(self, instance: Instance, label: str) -> CExpr:
        """One of the threads that execute an instance."""
        threads = instance.site.op.origin.threads
        assert threads is not None
        at = [self.constant(Sym(f"{label}{number}")) for number in range(len(threads.axes))]
        self.assume(on_axes(threads, at))
        return self.define(label, thread_at(threads, instance.values, at))

    def named(self, instance: Instance) -> tuple[str, Instance]:
        """The instance under a name, which a comment explains, with its iterators under names of
        their own; one instance has one name.  What it loads is what its elements have."""
        if self._loads is not None:
            instance = self._loads.executed(self, instance)
        site = instance.site
        texts = {name: self._text(value) for name, value in instance.values.items()}
        key = (site.number, " ".join(texts.values()))
        if key not in self._instances:
            label = self.label(site)
            values: dict[Sym, CExpr] = {
                name: value
                if isinstance(value, Int | CVar)
                else self._new(f"{label}.{self._called[name]}", texts[name])
                for name, value in instance.values.items()
            }
            self._instances[key] = (label, Instance(site, values))
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

    def assume(self, formula: BExpr) -> None:
        """Asserts a formula, one line for each of its parts."""
        for part in self._parts(formula):
            self._say(f"(assert {part})")

    def assume_exists(self, free: Instance) -> None:
        """Assumes that an instance of constants is executed."""
        key = ("exists", free.site.number, self.texts(free.values.values()))
        self.share(key, lambda: [(TRUE, exists(free))])

    def assume_inside(self, free: Instance, element: Sequence[CVar]) -> None:
        """Assumes that constants are an element of the access of an instance of constants."""
        op = free.site.op
        assert isinstance(op, Record | Check | CheckInitialised)
        key = ("inside", free.site.number, self.texts((*free.values.values(), *element)))
        self.share(key, lambda: [(TRUE, inside(free, op.access, element))])

    def share(
        self, key: tuple[object, ...], said: Callable[[], Iterable[tuple[BExpr, BExpr]]]
    ) -> None:
        """Says formulas with their premises, whose text depends on the key alone: another script
        may have made it."""
        if key not in self._shared:
            self._shared[key] = tuple(
                line for premise, formula in said() for line in self._implied(premise, formula)
            )
        for line in self._shared[key]:
            self._say(line)

    def _implied(self, premise: BExpr, formula: BExpr) -> list[str]:
        if premise == TRUE:
            return [f"(assert {part})" for part in self._parts(formula)]
        return [self._implication(self._parts(premise), formula)]

    def texts(self, values: Iterable[CExpr]) -> tuple[str, ...]:
        """Expressions as they are written."""
        return tuple(self._text(value) for value in values)

    def _parts(self, formula: BExpr) -> list[str]:
        """All that has to hold for a formula to hold."""
        return [
            bexpr(part, self._names)
            for part in conjuncts(formula)
            if not (isinstance(part, Truth) and part.value)
        ]

    def _say(self, line: str) -> None:
        if line not in self._said:
            self._said.add(line)
            self._lines.append(line)

    def imply(self, known: Sequence[str], premise: BExpr, conclusion: BExpr) -> None:
        """Asserts that the named formulas and the premise imply the conclusion."""
        self._say(self._implication([*known, *self._parts(premise)], conclusion))

    def _implication(self, known: Sequence[str], conclusion: BExpr) -> str:
        then = bexpr(conclusion, self._names)
        return f"(assert (=> {_joined('and', known)} {then}))"

    def node(self, label: str, parts: Iterable[BExpr | list[str]]) -> str:
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
