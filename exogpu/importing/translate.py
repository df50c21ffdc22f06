"""Translates the operations of a kernel to the events of its roles."""

from __future__ import annotations

import re
from collections.abc import Iterator, Mapping
from dataclasses import replace

from exogpu.diagnostics.errors import Span
from exogpu.diagnostics.hazards import HazardKind
from exogpu.importing import role_events
from exogpu.importing.access_events import HANDLERS, Expected, View
from exogpu.importing.buffers import allocated, sources
from exogpu.importing.induction import closed_forms, is_within
from exogpu.importing.initialised import Initialised
from exogpu.importing.memory import Memory, laid_out, window
from exogpu.importing.mlir_text import Module, Operation, Region, walk
from exogpu.importing.partition_names import Shared, accumulators
from exogpu.importing.polynomial_values import (
    TRUE,
    Condition,
    Known,
    Unread,
    Value,
    Variable,
    atom_value,
    both_hold,
    choice,
    floor,
    integer_value,
    is_bit,
    is_natural,
    negation,
)
from exogpu.importing.refusals import faulty, unknown_value, unsupported
from exogpu.importing.role_events import CASE, WITHIN
from exogpu.importing.scalar_operations import Scalar, evaluated, is_scalar, is_truth, merged
from exogpu.importing.source_locations import Places
from exogpu.importing.triton_tables import Lowering, is_register_operation
from exogpu.importing.value_proofs import between_bounds, counter, known_within


class Translator:
    """Goes through the operations in order, with what is known of their values."""

    def __init__(
        self,
        module: Module,
        places: Places,
        body: tuple[Operation, ...],
        lowering: Lowering,
        given: Mapping[str, int],
    ) -> None:
        self._given = given
        """Numbers for some of the kernel's arguments."""
        self.module, self.places, self.body, self.lowering = module, places, body, lowering
        self.shared: Shared = accumulators(body)
        self.sources = sources(body)
        self.scalars: dict[str, Scalar] = {}
        self.views: dict[str, View] = {}
        self.expected: dict[role_events.Slot, Expected] = {}
        self.filled: dict[role_events.Slot, Expected] = {}
        self.accumulators: dict[str, tuple[str, Span]] = {}
        self.trips: dict[Variable, role_events.Trips] = {}
        self.role = role_events.Role("default", module.integer("ttg.num-warps") or 4)
        self.parted = False
        self._guard: Condition = TRUE
        self._facts: tuple[Condition, ...] = ()
        self._loops: tuple[str, ...] = ()
        self._out: list[role_events.Item] = []
        constants = (one for one in walk(body) if one.name == "arith.constant")
        self._constants = {name for one in constants for name in one.results}
        self._block: tuple[Operation, ...] = ()
        """The operations of the region that is gone through."""
        self.selected: Span | None = None
        """The place of an event that LLVM may place elsewhere."""
        self._late: list[tuple[Operation, role_events.Event, Condition]] = []
        """The events that come last in it."""
        self._turns: dict[Operation, str] = {}
        self._cases: set[str] = set()
        """The counters of branches that are read as loops."""
        found = allocated(body, places, self.origin)
        self.barriers, self._scratch = found.barriers, found.scratch
        self.memory: Memory = laid_out(found.buffers)
        shared = {name: one for name, one in self.barriers.items() if one.shares}
        words = {name: window(self.memory, name, None) for name in shared}
        self.mbarriers = Initialised(self.barriers, words)

    # --- what handlers ask ------------------------------------------------------------------

    def span(self, operation: Operation) -> Span:
        """The user's line."""
        return self.places.span(operation)

    def view(self, name: str, operation: Operation) -> View:
        """The buffer that a value stands for."""
        found = self.views.get(name)
        if found is None:
            raise unknown_value(
                f"{operation.name} accesses a buffer that a loop or branch chooses",
                self.span(operation),
            )
        return found

    def label(self, buffer: str) -> str:
        """The user's name of a buffer."""
        if buffer in self.barriers:
            return self.barriers[buffer].label
        return self.memory.buffers[buffer].label

    def origin(self, name: str) -> str:
        """The allocation, or argument of the kernel, that a value was made from."""
        while name in self.sources:
            name = self.sources[name]
        return name

    def emit(self, operation: Operation, event: role_events.Event, guard: Condition = TRUE) -> None:
        """Adds an event of the role."""
        guard = both_hold(self._guard, guard)
        for place in role_events.windows(event):
            self.mbarriers.access(place, self.span(operation))
        self._out.append(role_events.Step(event, self.span(operation), self.role.name, guard))
        if isinstance(event, role_events.Meet):
            self.mbarriers.meet()

    def write_barrier_words(self, operation: Operation, array: str) -> None:
        """The operation writes the bytes of mbarriers, which other buffers have at other times."""
        event = role_events.StoreByOne(window(self.memory, array, None))
        self.mbarriers.access(event.window, self.span(operation), array)
        self._out.append(role_events.Step(event, self.span(operation), self.role.name))

    def use(self, operation: Operation) -> None:
        """The operation reads its operands, and writes its results, as ordinary registers."""
        for names, kind in ((operation.operands, "uses"), (operation.results, "writes")):
            for name in dict.fromkeys(map(self.shared.accumulator, names)):
                if name:
                    self.accumulators.setdefault(name, (self.role.name, self.span(operation)))
                    self.emit(operation, role_events.Registers(**{kind: name}))

    @property
    def scope(self) -> str | None:
        """The loop around the operation, or empty; None in a branch, and where roles are parted."""
        if self.parted or self._guard != TRUE:
            return None
        return self._loops[-1] if self._loops else ""

    # --- control ----------------------------------------------------------------------------

    def kernel(self) -> role_events.Kernel:
        """All events, role by role."""
        self._arguments()
        split = [at for at, one in enumerate(self.body) if one.name == "ttg.warp_specialize"]
        if len(split) > 1:
            raise unsupported(
                "a kernel that parts into roles twice",
                "part into roles once",
                self.span(self.body[split[1]]),
            )
        if not split:
            roles: tuple[role_events.Role, ...] = (
                replace(self.role, items=self._items(self.body)),
            )
            before: tuple[role_events.Item, ...] = ()
            after: tuple[role_events.Item, ...] = ()
        else:
            before = self._items(self.body[: split[0]])
            before += self._captures(self.body[split[0]])
            self.mbarriers.meet()  # all warps meet where partitions begin
            self.parted = True
            roles = self._roles(self.body[split[0]])
            self.parted = False
            self.mbarriers.meet()
            after = self._items(self.body[split[0] + 1 :])
        name = re.search(r"@([\w$.]+)", self.module.function.text)
        return role_events.Kernel(
            re.sub(r"\W", "_", name[1]) if name else "kernel",
            self.places.end,
            before,
            roles,
            after,
            self.memory,
            self.barriers,
            self.accumulators,
            self.trips,
            bool(split),
            self.selected,
        )

    def _captures(self, operation: Operation) -> tuple[role_events.Item, ...]:
        """Stores the values that partitions are given in shared memory; all warps meet after they
        have read them."""
        if operation not in self._scratch:
            return ()
        place = window(self.memory, self._scratch[operation], None)
        return (role_events.Step(role_events.Store(place), self.span(operation), self.role.name),)

    def _arguments(self) -> None:
        """Integers that the kernel is given."""
        for name, kind in re.findall(r"(%[\w$.-]+): (\w+)", self.module.function.types):
            if kind in ("i32", "i64", "i16", "i8"):
                shape = bool(re.search(r"\.shape\.\d+$", name))
                known = self._given.get(name[1:])
                self.scalars[name] = (
                    atom_value(Variable(name[1:], natural=shape))
                    if known is None
                    else integer_value(known)
                )

    def _items(self, operations: tuple[Operation, ...]) -> tuple[role_events.Item, ...]:
        around, self._out = self._out, []
        expected, self.expected = self.expected, {}
        block, self._block = self._block, operations
        late, self._late = self._late, []
        self.filled.clear()
        for operation in operations:
            self._operation(operation)
        for operation, event, guard in self._late:
            self.emit(operation, event, guard)
        self._block, self._late = block, late
        for slot, left in self.expected.items():
            raise faulty(
                HazardKind.DEADLOCK,
                self.label(slot.array),
                f"the mbarrier expects {left.bytes} bytes more than are loaded in the same block: "
                "its phase never completes",
                None,
                self.span(left.operation),
            )
        found, self._out = tuple(self._out), around
        self.expected = expected
        return found

    def _operation(self, operation: Operation) -> None:
        if operation.name == "scf.for":
            self._loop(operation)
        elif operation.name == "scf.if":
            self._branch(operation)
        elif operation.name == "ttg.warp_specialize":
            raise unsupported(
                "roles within a loop or branch", "part into roles once", self.span(operation)
            )
        elif (handler := HANDLERS.get(operation.name)) is not None:
            handler(self, operation, self.lowering)
            self._unread(operation)
        elif is_register_operation(operation):
            self._registers(operation)

    def _registers(self, operation: Operation) -> None:
        if is_scalar(operation) and operation not in self._scratch:
            given = tuple(self.scalars.get(name) for name in operation.operands)
            value = evaluated(operation, given)
            if value is not None:
                self.scalars[operation.results[0]] = value
            else:
                self._unread(operation)
            return
        if self._is_selected_late(operation):
            return
        self.use(operation)
        if operation in self._scratch:
            place = window(self.memory, self._scratch[operation], None)
            self.emit(operation, role_events.Store(place))
            if self.lowering.meet_within_scratch:
                self.emit(operation, role_events.Meet())
            self.emit(operation, role_events.Load(place))
        self._unread(operation)

    def _is_selected_late(self, operation: Operation) -> bool:
        """Returns whether an operation is a select of another value for an accumulator that only
        the next iteration has: it writes the registers, where it does, at the iteration's end."""
        accumulator = self.shared.accumulator
        if operation.name != "arith.select" or not (own := accumulator(operation.results[0])):
            return False
        holds = self.scalars.get(operation.operands[0])
        first, second = (
            accumulator(name) == own and name not in self._constants
            for name in operation.operands[1:]
        )
        later = self._block[self._block.index(operation) + 1 :]
        reads = [one for other in later for one in walk((other,))]
        used = [one for one in reads if operation.results[0] in one.operands]
        if holds is None or isinstance(holds, Value) or first == second or used != list(later[-1:]):
            return False
        event = role_events.Registers(writes=own)
        self.accumulators.setdefault(own, (self.role.name, self.span(operation)))
        self._late.append((operation, event, holds if second else negation(holds)))
        self.selected = self.span(operation)
        return True

    def _unread(self, operation: Operation) -> None:
        """Results whose values are data: unknown, and others in each iteration."""
        if not is_scalar(operation):
            return
        within = frozenset(self._loops)
        for name in operation.results:
            kind = (
                Unread(name, within)
                if is_truth(operation)
                else atom_value(Variable(name, False, within))
            )
            self.scalars[name] = kind

    def _roles(self, operation: Operation) -> tuple[role_events.Role, ...]:
        """The default role first, then the partitions by their first warps."""
        first, found = self.role, []
        starts = re.findall(r"\d+", operation.attributes.get("warpGroupStartIds", "")[10:])
        for at, region in enumerate(operation.regions):
            default = region.label == "default"
            warps = first.warps if default else region.warps
            start = 0 if default else int(starts[at - 1]) if len(starts) >= at else 100 + at
            self.role = role_events.Role(region.label, warps)
            if not default:
                self._enter(region, operation.operands)
            found.append((start, replace(self.role, items=self._items(region.operations))))
        self.role = first
        return tuple(role for _, role in sorted(found, key=lambda one: one[0]))

    def _enter(self, region: Region, operands: tuple[str, ...]) -> None:
        for argument, value in zip(region.arguments, operands, strict=True):
            if value in self.scalars:
                self.scalars[argument] = self.scalars[value]
            if value in self.views:
                self.views[argument] = self.views[value]

    # --- branches ---------------------------------------------------------------------------

    def _branch(self, operation: Operation) -> None:
        condition = self.scalars.get(operation.operands[0])
        if condition is None or isinstance(condition, Value):
            raise unknown_value("the condition of a branch is not known", self.span(operation))
        outer_guard, outer_facts = self._guard, self._facts
        case = self._case(operation, condition)
        met = self.mbarriers.copy()
        ends: list[Mapping[str, Scalar | View | None]] = []
        for region, holds in zip(operation.regions, (condition, negation(condition)), strict=False):
            self.mbarriers.forget(met)
            self._facts = (*outer_facts, holds)
            if case is None:
                self._guard = both_hold(outer_guard, holds)
                self._out += self._items(region.operations)
            else:
                trips = case if holds == condition else integer_value(1) - case
                self._out.append(self._case_items(operation, region, trips))
            last = region.terminator
            yielded = last.operands if last is not None else ()
            ends.append(
                {
                    result: self.scalars.get(name, self.views.get(name))
                    for result, name in zip(operation.results, yielded, strict=False)
                }
            )
        self._guard, self._facts = outer_guard, outer_facts
        self.mbarriers.forget(met)
        for result in operation.results:
            if self.shared.accumulator(result):
                raise unsupported(
                    "a branch that results in an accumulator",
                    "keep the accumulator's branch outside of the pipeline",
                    self.span(operation),
                )
            first, second = (end.get(result) for end in (ends * 2)[:2])
            self._merge(result, condition, first, second, operation)

    def _case(self, operation: Operation, condition: Condition) -> Value | None:
        """The variable that is 1 where a branch is taken and 0 where not, for one that initialises
        mbarriers outside of loops and roles; None for others."""
        begins = any(one.name == "ttng.init_barrier" for one in walk((operation,)))
        if not begins or self.parted or self._guard != TRUE or set(self._loops) - self._cases:
            return None
        if isinstance(condition, Known):
            return integer_value(int(condition.value))
        made = Variable(f"{CASE}{self.span(operation).line}", natural=True, bit=True)
        taken = choice(condition, integer_value(1), Value())
        self.trips[made] = role_events.Trips(taken, self.span(operation))
        return atom_value(made)

    def _case_items(self, operation: Operation, region: Region, trips: Value) -> role_events.Loop:
        """A side of such a branch as a loop, which has one iteration or none."""
        name = f"{WITHIN}{self.span(operation).line}"
        while name in self._cases:
            name += "_"
        self._cases.add(name)
        turn, loops = Variable(name, natural=True), self._loops
        self._loops = (*loops, name)
        body = self._items(region.operations)
        self.mbarriers.end_iteration(name, again=False)
        self._loops = loops
        return role_events.Loop(turn, trips, body, self.span(operation))

    def _merge(
        self,
        result: str,
        condition: Condition,
        first: Scalar | View | None,
        second: Scalar | View | None,
        operation: Operation,
    ) -> None:
        if isinstance(first, View) or isinstance(second, View):
            if first == second and isinstance(first, View):
                self.views[result] = first
            return
        if first is None or second is None:
            return
        value = merged(condition, first, second)
        within = frozenset(self._loops)
        self.scalars[result] = (
            atom_value(Variable(result, False, within)) if value is None else value
        )

    # --- loops ------------------------------------------------------------------------------

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

    _probing = False

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
