"""Builds a procedure of the language from the events of a kernel, with the user's places."""

from __future__ import annotations

from collections.abc import Iterator, Sequence
from dataclasses import replace

from exogpu.diagnostics.errors import Span
from exogpu.hw.memories import CudaGmemLinear, CudaRmem, CudaSmemLinear
from exogpu.importing import cell_instructions, role_events
from exogpu.importing.cell_instructions import Parts
from exogpu.importing.event_statements import IN_ORDER, Plan, Statements
from exogpu.importing.mbarrier_rings import steps
from exogpu.importing.polynomial_values import TRUE, Condition, Variable, atom_value, negation
from exogpu.importing.value_proofs import between_bounds, is_steady
from exogpu.importing.refusals import RefusedError
from exogpu.importing.substitution import conditions_in
from exogpu.importing.value_rendering import condition, expression, is_excluded
from exogpu.ir import nodes as ir
from exogpu.ir.types import BarrierMechanism, DataType, Sym


def build_procedure(plan: Plan) -> ir.Proc:
    """The procedure.  Raises RefusedError (K103) for what is not affine."""
    return _Builder(plan).proc()


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
        self.around += extents
        body: ir.Block = (*self._declared(), *self._block(plan.items, ()), self._end())
        for iterator, extent in reversed(extents):
            body = (ir.For(iterator, ir.Int(0), extent, ir.CudaTasks(), body, span=span),)
        warps = tuple(ir.WarpConfig(self._group(role.name), role.warps) for role in plan.roles)
        launch = ir.DeviceFunction(1, warps, body, span=span)
        params += self.sinks
        params += [param for param, _ in self.flags.values()]
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
        body = self._event(step, known)
        flagged: list[Condition] = []
        for part in conditions_in(step.guard):
            try:
                written = condition(part, self.names, facts, step.span)
            except RefusedError:
                if len(self.plan.roles) > 1:
                    raise
                flagged.append(part)
                continue
            if written != ir.Truth(True):
                body = (ir.If(written, body, span=step.span),)
        for part in flagged:
            body = (self._where(part, step, body),)
        if flagged and found and (both := _joined(found[-1], body[0])) is not None:
            found[-1] = both
            return
        group = self._group(step.role)
        if isinstance(step.event, role_events.MeetAll) or not group:
            found += body
            return
        last = found[-1] if found else None
        if isinstance(last, ir.Warps) and last.group == group and last.hi == self._warps(step.role):
            found[-1] = replace(last, body=(*last.body, *body))
        else:
            warps = self._warps(step.role)
            found.append(ir.Warps(0, warps, group, body, span=step.span))


    def _where(self, holds: Condition, step: role_events.Step, body: ir.Block) -> ir.Stmt:
        """Returns the body where a condition holds that is data, or no affine expression.

        It is a flag of its own in memory: whatever it may be in each iteration is covered.
        """
        opposite = negation(holds)
        which, true = (opposite, 0) if opposite in self.flags else (holds, 1)
        varied = [one for one in self.around if not self._is_steady(which, one[0])]
        span = step.span
        if which not in self.flags:
            shape = (*(extent for _, extent in varied), ir.Int(1))
            name = Sym(f"flag{len(self.flags)}")
            param = ir.DataParam(name, DataType.I32, shape, CudaGmemLinear, span=span)
            self.flags[which] = (param, Sym(f"holds{len(self.flags)}"))
        param, value = self.flags[which]
        points = (*(ir.Point(ir.CVar(name)) for name, _ in varied), ir.Point(ir.Int(0)))
        test = ir.Compare("==", ir.CVar(value), ir.Int(true), span)
        inside = (ir.If(test, body, span=span),)
        mode = ir.Loaded(ir.Access(param.name, points, span))
        return ir.For(value, ir.Int(0), ir.Int(2), mode, inside, span=span)

    def _is_steady(self, holds: Condition, loop: Sym) -> bool:
        """Returns whether a condition is the same in all iterations of a loop; of tasks none is."""
        return str(loop).startswith("turn_") and is_steady(holds, str(loop))


def _joined(first: ir.Stmt, second: ir.Stmt) -> ir.Stmt | None:
    """Returns two statements under one flag as one; None where they are under others."""
    match first, second:
        case ir.For(mode=ir.Loaded()), ir.For(mode=ir.Loaded()) if (
            first.iterator == second.iterator
        ):
            *before, last = first.body
            (then,) = second.body
            assert isinstance(last, ir.If) and isinstance(then, ir.If)
            if str(last.condition) != str(then.condition):
                return replace(first, body=(*first.body, then))
            inner = None
            if len(then.body) == 1:
                inner = _joined(last.body[-1], then.body[0])
            body = (*last.body, *then.body) if inner is None else (*last.body[:-1], inner)
            return replace(first, body=(*before, replace(last, body=body)))
        case _:
            return None


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
