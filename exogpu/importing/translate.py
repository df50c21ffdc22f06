"""Translates the operations of a kernel to the events of its roles."""

from __future__ import annotations

import re
from collections.abc import Mapping
from dataclasses import replace

from exogpu.diagnostics.errors import Span
from exogpu.diagnostics.hazards import HazardKind
from exogpu.importing import role_events
from exogpu.importing.access_events import HANDLERS, Expected, View
from exogpu.importing.buffers import allocated, sources
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
    integer_value,
    negation,
)
from exogpu.importing.refusals import faulty, unknown_value, unsupported
from exogpu.importing.role_events import CASE, WITHIN
from exogpu.importing.scalar_operations import Scalar, evaluated, is_scalar, is_truth, merged
from exogpu.importing.source_locations import Places
from exogpu.importing.translate_loops import LoopTranslator
from exogpu.importing.triton_tables import Lowering, is_register_operation


class Translator(LoopTranslator):
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
