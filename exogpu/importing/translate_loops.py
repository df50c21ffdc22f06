"""Translates loops to loops of events: trip counts, and carried values by induction."""

from __future__ import annotations

from abc import ABC, abstractmethod
from collections.abc import Iterator, Mapping

from exogpu.diagnostics.errors import Span
from exogpu.importing import role_events
from exogpu.importing.access_events import View
from exogpu.importing.induction import closed_forms, is_within
from exogpu.importing.initialised import Initialised
from exogpu.importing.mlir_text import Operation, Region
from exogpu.importing.polynomial_values import (
    Condition,
    Unread,
    Value,
    Variable,
    atom_value,
    floor,
    integer_value,
    is_bit,
    is_natural,
)
from exogpu.importing.refusals import unknown_value
from exogpu.importing.scalar_operations import Scalar
from exogpu.importing.value_proofs import between_bounds, counter, known_within


class LoopTranslator(ABC):
    """The part of the translator that goes through loops."""

    scalars: dict[str, Scalar]
    views: dict[str, View]
    accumulators: dict[str, tuple[str, Span]]
    trips: dict[Variable, role_events.Trips]
    mbarriers: Initialised
    _facts: tuple[Condition, ...]
    _loops: tuple[str, ...]
    _out: list[role_events.Item]
    _turns: dict[Operation, str]
    _probing = False

    @abstractmethod
    def span(self, operation: Operation) -> Span:
        """The user's line."""

    @abstractmethod
    def _items(self, operations: tuple[Operation, ...]) -> tuple[role_events.Item, ...]:
        """The events of a block."""

    def _loop(self, operation: Operation) -> None:
        region = operation.regions[0]
        low, high, step = (self.scalars.get(name) for name in operation.operands[:3])
        by = step.constant if isinstance(step, Value) else None
        if not isinstance(low, Value) or not isinstance(high, Value) or by is None or by < 1:
            raise unknown_value("the bounds of a loop are not known", self.span(operation))
        number = counter(self._turn(operation), frozenset(self._loops))
        (turn,) = number.variables()
        trips = self._trips(floor(high - low + (by - 1), by), operation)
        index, carried = region.arguments[0], region.arguments[1:]
        initial = [self.scalars.get(name) for name in operation.operands[3:]]
        self._carry_views(operation, region)
        self.scalars[index] = low + number * by
        forms = self._carried_values(operation, turn, number, trips, carried, initial)
        self.scalars |= forms
        met = self.mbarriers.copy()
        body = self._loop_items(turn, number, trips, region)
        self.mbarriers.forget(met)
        self._out.append(role_events.Loop(turn, trips, body, self.span(operation)))
        for result, name in zip(operation.results, carried, strict=True):
            form = forms.get(name)
            if isinstance(form, Value):
                after = form.substitute({turn: trips})
                within = frozenset(self._loops)
                known = known_within(after, turn.name)
                self.scalars[result] = (
                    after if known else atom_value(Variable(result, False, within))
                )
            elif form is not None:
                self.scalars[result] = Unread(result, frozenset(self._loops))
            if name in self.views:
                self.views[result] = self.views[name]

    def _turn(self, operation: Operation) -> str:
        """The name of a loop's counter, the same each time that the loop is gone through."""
        if operation not in self._turns:
            name = f"turn_{self.span(operation).line}"
            while name in self._turns.values():
                name += "_"
            self._turns[operation] = name
        return self._turns[operation]

    def _trips(self, value: Value, operation: Operation) -> Value:
        """Returns the trip count of a loop, as a variable shared by all loops of this count."""
        if value.constant is not None:
            return integer_value(max(value.constant, 0))
        for loop in self._loops:
            if not known_within(value, loop):
                if self._probing:
                    return atom_value(
                        Variable(f"trips{operation.line}", True, frozenset(self._loops))
                    )
                raise unknown_value(
                    "the trip count of a loop differs from iteration to iteration of one around it",
                    self.span(operation),
                )
        for known, trips in self.trips.items():
            if trips.value == value:
                return atom_value(known)
        name = f"trips_{self.span(operation).line}"
        while name in {known.name for known in self.trips}:
            name += "_"
        made = Variable(name, natural=True)
        self.trips[made] = role_events.Trips(value, self.span(operation))
        return atom_value(made)

    def _loop_items(
        self, turn: Variable, number: Value, trips: Value, region: Region
    ) -> tuple[role_events.Item, ...]:
        loops, facts = self._loops, self._facts
        self._loops = (*loops, turn.name)
        self._facts = (*facts, *between_bounds(0, number, trips))
        body = self._items(region.operations)
        self.mbarriers.end_iteration(turn.name)
        self._loops, self._facts = loops, facts
        return body

    def _carried_values(
        self,
        operation: Operation,
        turn: Variable,
        number: Value,
        trips: Value,
        carried: tuple[str, ...],
        initial: list[Scalar | None],
    ) -> dict[str, Scalar]:
        """Computes the carried values before iteration `number`.

        They are taken not to be negative, or to be 0 or 1, where their first values are; if that is
        not proved of their forms, all is done again without it.
        """
        facts = (*self._facts, *between_bounds(0, number, trips))
        around = frozenset({*self._loops, turn.name})
        pairs = [(name, one) for name, one in zip(carried, initial, strict=True)]
        numbers = {name: one for name, one in pairs if isinstance(one, Value)}
        natural = {name for name, one in numbers.items() if is_natural(one)}
        bits = {name for name, one in numbers.items() if is_bit(one)}
        while True:
            names = {
                name: Variable(name, name in natural, around, name in bits) for name in numbers
            }
            symbols: dict[str, Scalar] = {
                name: atom_value(names[name]) if name in names else Unread(name, around)
                for name, one in pairs
                if one is not None
            }
            after = self._probed(operation, turn, number, trips, symbols)
            following = {
                names[name]: last
                for (name, _), last in zip(pairs, after, strict=True)
                if name in names and isinstance(last, Value)
            }
            first = {names[name]: numbers[name] for name in names if names[name] in following}
            found = closed_forms(turn, number, first, following, facts)
            forms = {name: found[one] for name, one in names.items() if one in found}
            negative = {
                name for name in natural if not is_within(is_natural, forms, name, None, facts)
            }
            wide = {name for name in bits if not is_within(is_bit, forms, name, 1, facts)}
            if not negative and not wide:
                return {**symbols, **forms}
            natural -= negative
            bits -= wide

    def _probed(
        self,
        operation: Operation,
        turn: Variable,
        number: Value,
        trips: Value,
        symbols: Mapping[str, Scalar],
    ) -> Iterator[Scalar | None]:
        """The carried values after an iteration, from those before it, for whatever these are."""
        region = operation.regions[0]
        kept = (dict(self.scalars), dict(self.views), dict(self.accumulators), dict(self.trips))
        held = self.mbarriers.copy(), self._probing
        self.scalars |= symbols
        self._probing = True
        self._loop_items(turn, number, trips, region)
        last = region.terminator
        found = [self.scalars.get(name) for name in (last.operands if last is not None else ())]
        self.scalars, self.views, self.accumulators, self.trips = kept
        self.mbarriers, self._probing = held
        found += [None] * (len(region.arguments) - 1 - len(found))
        return iter(found)

    def _carry_views(self, operation: Operation, region: Region) -> None:
        """Buffers that a loop carries unchanged."""
        last = region.terminator
        yielded = last.operands if last is not None else ()
        for name, value, after in zip(
            region.arguments[1:], operation.operands[3:], yielded, strict=False
        ):
            if value in self.views and after in (name, value):
                self.views[name] = self.views[value]
