"""Builds a procedure of the language from the events of a kernel, with the user's places."""

from __future__ import annotations

from collections.abc import Iterator, Sequence
from dataclasses import replace
from typing import Final

from exogpu.diagnostics.errors import Span
from exogpu.hw.memories import CudaRmem, CudaSmemLinear
from exogpu.importing import cell_instructions, role_events
from exogpu.importing.cell_instructions import Parts
from exogpu.importing.data_conditions import joined, refuse_counted_groups
from exogpu.importing.event_statements import IN_ORDER, Plan, Statements
from exogpu.importing.mbarrier_rings import steps
from exogpu.importing.polynomial_values import TRUE, Condition, Variable, atom_value
from exogpu.importing.refusals import RefusedError
from exogpu.importing.substitution import conditions_in
from exogpu.importing.value_proofs import between_bounds
from exogpu.importing.value_rendering import condition, expression, is_excluded
from exogpu.ir import nodes as ir
from exogpu.ir.types import BarrierMechanism, DataType, Sym


def build_procedure(plan: Plan) -> tuple[ir.Proc, tuple[Condition, ...]]:
    """Returns the procedure, and the conditions for which it takes any values.

    Raises RefusedError (K103) for what is not affine.
    """
    builder = _Builder(plan)
    return builder.proc(), tuple(builder.flags.known)


class _Builder(Statements):
    """Declares what events use, and puts their statements in loops."""

    def proc(self) -> ir.Proc:
        """The whole."""
        plan, span = self.plan, self.plan.span
        params: list[ir.Param] = []
        extents: list[tuple[Sym, ir.CExpr]] = []
        for axis in plan.axes:
            grid = self.symbol(f"grid_{'xyz'[axis]}")
            params.append(ir.ControlParam(grid, "size", span))
            program = Variable(f"program{axis}", natural=True)
            self.names[program] = Sym(f"pid_{'xyz'[axis]}")
            extents.append((self.names[program], ir.CVar(grid)))
        preconditions: list[ir.BExpr] = []
        for size in plan.sizes:
            name = self.names[size.variable] = Sym(size.variable.name)
            params.append(ir.ControlParam(name, "size", size.trips.span))
            least = ir.Compare(">=", ir.CVar(name), ir.Int(size.least), size.trips.span)
            preconditions.append(least)
            if size.greatest is not None:
                most = ir.Compare("<=", ir.CVar(name), ir.Int(size.greatest), size.trips.span)
                preconditions.append(most)
        self.around += extents
        body: ir.Block = (*self._declared(), *self._block(plan.items, ()), self._end())
        for iterator, extent in reversed(extents):
            body = (ir.For(iterator, ir.Int(0), extent, ir.CudaTasks(), body, span=span),)
        warps = tuple(ir.WarpConfig(self._group(role.name), role.warps) for role in plan.roles)
        launch = ir.DeviceFunction(1, warps, body, span=span)
        params += self.sinks
        params += self.flags.known.values()
        return ir.Proc(plan.name, tuple(params), tuple(preconditions), (launch,), span)

    def _end(self) -> ir.Stmt:
        """A CTA ends when all of its threads have."""
        return ir.Fence(IN_ORDER, IN_ORDER, span=self.plan.span)

    # --- declarations -----------------------------------------------------------------------

    def _declared(self) -> ir.Block:
        return (*self._arrays(), *self._mbarriers(""), *self._groups(), *self._registers_of_roles())

    def _arrays(self) -> Iterator[ir.Stmt]:
        windows = {
            one.array for step in steps(self.plan.items) for one in role_events.windows(step.event)
        }
        for array in self.plan.memory.arrays.values():
            if array.name in windows:
                threads = self.plan.parts.get(array.name, Parts()).threads
                shape = (ir.Int(array.cells), ir.Int(threads))
                name = self.symbol(array.name)
                yield ir.Alloc(name, DataType.F32, shape, CudaSmemLinear, span=array.span)

    def _mbarriers(self, scope: str) -> Iterator[ir.Stmt]:
        """Declares those that each iteration of a loop has anew; without a loop, all others."""
        for use in self.plan.usage.barriers.values():
            if use.scope != scope:
                continue
            name, shape = self.symbol(use.label), tuple(map(ir.Int, use.shape))
            yield self._barrier(name, shape, use.span, use.depth)
            if use.runs:
                yield self._barrier(self.symbol(f"{use.label}_waits"), (), use.span, 1)

    def _groups(self) -> Iterator[ir.Stmt]:
        mechanism = BarrierMechanism.COMMIT_GROUP
        kinds = {key for step in steps(self.plan.items) for key in _groups(step)}
        for kind, role in sorted(kinds):
            count = {"wg": self._warpgroups, "cp": self._threads}
            shape = (ir.Int(count[kind](role)),) if kind in count else ()
            name = self.symbol(f"{kind}_{role}")
            yield ir.BarrierAlloc(name, shape, mechanism, span=self.plan.span)

    def _registers_of_roles(self) -> Iterator[ir.Stmt]:
        accumulators = self.plan.accumulators
        for name, (owner, span) in accumulators.items():
            yield self._tile(name, owner, span)
        for owner in dict.fromkeys(owner for owner, _ in accumulators.values()):
            yield self._tile(f"read_{owner}", owner, self.plan.span)
        loading = {s.role for s in steps(self.plan.items) if isinstance(s.event, role_events.Load)}
        for role in self.plan.roles:
            if role.name in loading:
                registers, shape = self.symbol(f"regs_{role.name}"), (ir.Int(role.threads),)
                yield ir.Alloc(registers, DataType.F32, shape, CudaRmem, span=self.plan.span)
                tile = tuple(map(ir.Int, (role.warps, *cell_instructions.FRAGMENT_EXTENTS)))
                loaded = self.symbol(f"loaded_{role.name}")
                yield ir.Alloc(
                    loaded, DataType.F32, tile, cell_instructions.FRAGMENT, span=self.plan.span
                )

    def _barrier(self, name: Sym, shape: tuple[ir.CExpr, ...], at: Span, depth: int) -> ir.Stmt:
        mechanism = BarrierMechanism.MBARRIER
        return ir.BarrierAlloc(name, shape, mechanism, depth=depth, span=at)

    def _tile(self, name: str, role: str, span: Span) -> ir.Stmt:
        shape = (
            ir.Int(self._warpgroups(role)),
            ir.Int(cell_instructions.ROWS),
            ir.Int(cell_instructions.COLUMNS),
        )
        return ir.Alloc(
            self.symbol(name), DataType.F32, shape, cell_instructions.ACCUMULATOR, span=span
        )

    def _block(self, items: Sequence[role_events.Item], facts: tuple[Condition, ...]) -> ir.Block:
        found: list[ir.Stmt] = []
        for item in items:
            match item:
                case role_events.Loop():
                    found.append(self._loop(item, facts))
                case role_events.Step():
                    self._add(found, item, facts)
        return tuple(found) or (ir.Pass(span=self.plan.span),)

    def _loop(self, loop: role_events.Loop, facts: tuple[Condition, ...]) -> ir.Stmt:
        hi = expression(loop.trips, self.names, facts, loop.span, "a trip count")
        name = self.names[loop.counter] = Sym(loop.counter.name)
        inside = (*facts, *between_bounds(0, atom_value(loop.counter), loop.trips))
        most = loop.trips - min(loop.trips.offset, 0)  # never negative, where sizes are not
        extent = expression(most, self.names, facts, loop.span, "a trip count")
        self.around.append((name, extent))
        body = (*self._mbarriers(loop.counter.name), *self._block(loop.body, inside))
        self.around.pop()
        return ir.For(name, ir.Int(0), hi, ir.Seq(), body, span=loop.span)

    def _add(
        self, found: list[ir.Stmt], step: role_events.Step, facts: tuple[Condition, ...]
    ) -> None:
        if is_excluded(step.guard, facts):
            return
        known = facts if step.guard == TRUE else (*facts, step.guard)
        flagged, written = self._conditions(step, facts)
        commit: ir.Block = ()
        if flagged and isinstance(step.event, _COMMITTED):
            refuse_counted_groups(self.plan.items, step)
            body, commit = self._event(step, known, commits=False), self._commit(step)
        else:
            body = self._event(step, known)
        for holds in flagged:
            body = (self.flags.guard_by_flag(holds, self.around, body, step.span),) if body else ()
        self._append(found, self._wrap_in_conditions(body, written, step.span), step)
        self._append(found, self._wrap_in_conditions(commit, written, step.span), step)

    def _conditions(
        self, step: role_events.Step, facts: tuple[Condition, ...]
    ) -> tuple[list[Condition], list[ir.BExpr]]:
        """Returns the conjuncts of a step's guard that are flags, and the others as conditions."""
        flagged: list[Condition] = []
        written: list[ir.BExpr] = []
        for part in conditions_in(step.guard):
            try:
                written.append(condition(part, self.names, facts, step.span))
            except RefusedError:
                if len(self.plan.roles) > 1:
                    raise
                flagged.append(part)
        return flagged, [one for one in written if one != ir.Truth(True)]

    def _wrap_in_conditions(
        self, body: ir.Block, conditions: Sequence[ir.BExpr], span: Span
    ) -> ir.Block:
        for holds in conditions:
            body = (ir.If(holds, body, span=span),) if body else ()
        return body

    def _append(self, found: list[ir.Stmt], body: ir.Block, step: role_events.Step) -> None:
        """Adds statements of a role to those before them."""
        if found and body and (both := joined(found[-1], body[0])) is not None:
            found[-1:] = [both, *body[1:]]
            return
        group = self._group(step.role)
        if not body or isinstance(step.event, role_events.MeetAll) or not group:
            found += body
            return
        last = found[-1] if found else None
        if isinstance(last, ir.Warps) and last.group == group and last.hi == self._warps(step.role):
            found[-1] = replace(last, body=(*last.body, *body))
        else:
            warps = self._warps(step.role)
            found.append(ir.Warps(0, warps, group, body, span=step.span))


_COMMITTED: Final = (role_events.TmaStore, role_events.Dot, role_events.AsyncCommit)
"""Events that commit a group."""


def _groups(step: role_events.Step) -> tuple[tuple[str, str], ...]:
    match step.event:
        case role_events.TmaStore() | role_events.TmaStoreWait():
            return (("st", step.role),)
        case role_events.AsyncCommit() | role_events.AsyncWait() | role_events.AsyncCopy():
            return (("cp", step.role),)
        case role_events.Dot() | role_events.DotWait():
            return (("wg", step.role),)
        case _:
            return ()
