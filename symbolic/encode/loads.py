"""Values from memory in formulas: functions of an array and an element alone (decision
`loaded-values`).

A script has a constant for what an array has at an element, wherever it speaks of it.  Of two such
constants it says what holds of every function: at one element they are equal; and what the
contracts of the array say of two elements.  So no script needs functions or quantifiers, and what
is refuted with these constants is refuted for all contents that satisfy the contracts.
"""

from __future__ import annotations

from collections.abc import Iterator, Mapping
from dataclasses import dataclass
from functools import partial
from typing import TYPE_CHECKING

from exogpu.amir.nodes import Loop
from exogpu.ir.names import Sym
from exogpu.ir.nodes import Add, BExpr, CExpr, Sub
from exogpu.ir.walk import substitute
from exogpu.symbolic.encode.formulas import (
    FALSE,
    Instance,
    at_most,
    element_of,
    equal,
    every,
    exists,
    less,
)
from exogpu.symbolic.placed import Placed
from exogpu.symbolic.sites import loads_around, read_through

if TYPE_CHECKING:
    from exogpu.symbolic.encode.script import Script


@dataclass(frozen=True, slots=True)
class _Value:
    """The value of an array at an element."""

    element: tuple[CExpr, ...]
    value: CExpr


class Loads:
    """The values that one script speaks of."""

    def __init__(self, placed: Placed) -> None:
        self.placed = placed
        self._values: dict[Sym, list[tuple[_Value, tuple[str, ...]]]] = {}
        """By array, with the texts of element and value."""
        self._contracts: dict[Sym, list[str]] = {}
        for one in placed.program.contracts:
            self._contracts.setdefault(one.array, []).append(one.kind)

    def copy(self) -> Loads:
        """The same values, for another script that speaks of them."""
        made = Loads(self.placed)
        made._values = {name: [*known] for name, known in self._values.items()}
        return made

    def assume(self, script: Script, instance: Instance, read: frozenset[Sym] | None) -> None:
        """Assumes that loaded iterators of an instance (those read, or all) equal the values of
        their elements."""
        site = instance.site
        told = None if read is None else read_through(site, read)
        for load in loads_around(site):
            assert load.source is not None
            if told is not None and load.iterator not in told:
                continue
            element = element_of(instance, load.source)
            self._add(script, load.source.name, _Value(element, instance.values[load.iterator]))

    def executed(self, script: Script, instance: Instance) -> Instance:
        """The instance with the values that it loads: those of a witness do not matter."""
        values = dict(instance.values)
        for load in loads_around(instance.site):
            here = Instance(instance.site, values)
            values[load.iterator] = self._value(script, load, here)
            self._in_range(script, load, values)
        return Instance(instance.site, values)

    def _value(self, script: Script, load: Loop, instance: Instance) -> CExpr:
        """Returns the constant that stands for the loaded value at an instance's element; equal
        elements share one."""
        assert load.source is not None
        name, element = load.source.name, element_of(instance, load.source)
        for known, _ in self._values.get(name, ()):
            if known.element == element:
                return known.value
        made = script.constant(Sym(f"{self.placed.called[name]}.value"))
        self._add(script, name, _Value(element, made))
        return made

    def _in_range(self, script: Script, load: Loop, values: Mapping[Sym, CExpr]) -> None:
        """Assumes that a value is in its range wherever its load is reached: the kernel would have
        trapped."""
        site, value = self.placed.loads[load], values[load.iterator]
        around = {name: values[name] for name in site.iterators}

        def ends() -> Iterator[tuple[BExpr, BExpr]]:
            reached = exists(Instance(site, around))
            yield reached, at_most(substitute(load.lo, around), value)
            yield reached, less(value, substitute(load.hi, around))

        script.share(("range", site.number, script.texts((*around.values(), value))), ends)

    def _add(self, script: Script, name: Sym, new: _Value) -> None:
        known = self._values.setdefault(name, [])
        texts = script.texts((*new.element, new.value))
        for one, others in known:
            key = ("loaded", name, others, texts)
            script.share(key, partial(self._related, name, one, new))
        known.append((new, texts))

    def _related(self, name: Sym, one: _Value, new: _Value) -> Iterator[tuple[BExpr, BExpr]]:
        """Yields premises and conclusions that relate two values of an array."""
        said = [(_same(one, new), equal(one.value, new.value))]
        kinds = self._contracts.get(name, ())
        for kind in kinds:
            if kind == "injective":
                said.append((equal(one.value, new.value), _same(one, new)))
                continue
            for left, right in ((one, new), (new, one)):
                (first,), (second,) = left.element, right.element
                least = left.value
                if "injective" in kinds:  # each element is greater than the one before it
                    least = Add(least, Sub(second, first))
                said.append((at_most(first, second), at_most(least, right.value)))
        return ((premise, conclusion) for premise, conclusion in said if premise != FALSE)


def _same(one: _Value, other: _Value) -> BExpr:
    return every(equal(a, b) for a, b in zip(one.element, other.element, strict=True))
